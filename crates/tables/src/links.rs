//! Links of the kernel, Rutter's interfaces among them, and their neighbours.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use lookup::Hop;

use crate::event::{Link, LinkId, Neighbour, Path};
use crate::hops::fixed;
use crate::{Adjacency, Family, Iface, IfaceId, Own, Side, Tags, VrfId};

/// A neighbour of a link as the next hop of packets of one family (the link
/// header names it, so IPv4 by an IPv6 neighbour has its own hop: RFC 8950), of
/// routes that let the same number of bytes pass ([`Path::mtu`]).
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Key {
    pub(crate) link: LinkId,
    pub(crate) ip: IpAddr,
    pub(crate) family: Family,
    pub(crate) mtu: u16,
}

impl Key {
    /// Where a path leads; `None` without a gateway.
    pub(crate) fn of(path: &Path, family: Family) -> Option<Key> {
        Some(Key { link: path.link, ip: path.via?, family, mtu: path.mtu })
    }
}

/// What is known of links and neighbours.
#[derive(Default)]
pub(crate) struct Links {
    map: HashMap<LinkId, State>,
    /// By [`IfaceId`] less one; `None` where an interface was removed.
    ifaces: Vec<Option<Slot>>,
    neighbours: HashMap<(LinkId, IpAddr), Known>,
}

/// One link.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) link: Link,
    pub(crate) iface: Option<IfaceId>,
    /// Address and prefix length, with the VRF whose address it is.
    pub(crate) addresses: BTreeMap<(IpAddr, u8), VrfId>,
}

/// One neighbour.
pub(crate) struct Known {
    pub(crate) neighbour: Neighbour,
    /// The VRF in which it is a host.
    pub(crate) host: Option<VrfId>,
}

/// One of Rutter's interfaces, and its tap.
pub(crate) struct Slot {
    pub(crate) iface: Iface,
    pub(crate) link: Option<LinkId>,
    /// One of its ports has a link, as far as is known.
    carrier: bool,
    /// As configured; a VRF device above the tap may say otherwise.
    pub(crate) vrf: VrfId,
}

impl Links {
    /// Registers an interface of Rutter's under the lowest free id.
    pub(crate) fn add_iface(&mut self, iface: Iface) -> Option<IfaceId> {
        let at = match self.ifaces.iter().position(Option::is_none) {
            Some(at) => at,
            None => {
                self.ifaces.push(None);
                self.ifaces.len() - 1
            }
        };
        let id = IfaceId(u16::try_from(at + 1).ok()?);
        let link = self.map.iter().find(|(_, state)| state.link.name == iface.name);
        let link = link.map(|(link, _)| *link);
        self.ifaces[at] = Some(Slot { vrf: iface.vrf, iface, link: None, carrier: true });
        if let Some(link) = link {
            self.bind(link, id);
        }
        Some(id)
    }

    /// An interface's ports have a link, or none has; its tap's link where that is news.
    pub(crate) fn set_carrier(&mut self, id: IfaceId, on: bool) -> Option<LinkId> {
        let slot = self.slot_mut(id).filter(|slot| slot.carrier != on)?;
        slot.carrier = on;
        let link = slot.link?;
        self.refresh_iface(link);
        Some(link)
    }

    /// Takes an interface out; returns its link.
    pub(crate) fn remove_iface(&mut self, id: IfaceId) -> Option<Slot> {
        let slot = self.ifaces.get_mut(usize::from(id.0).checked_sub(1)?)?.take()?;
        if let Some(state) = slot.link.and_then(|link| self.map.get_mut(&link)) {
            state.iface = None;
        }
        Some(slot)
    }

    /// Takes a link's news in; returns what it was.
    pub(crate) fn set_link(&mut self, link: &Link) -> Option<Link> {
        let state = self.map.entry(link.index).or_default();
        let is_new = state.link.name.is_empty();
        let old = std::mem::replace(&mut state.link, link.clone());
        if old.name != link.name {
            self.unbind(link.index);
            if let Some(id) = self.by_name(&link.name) {
                self.bind(link.index, id);
            }
        } else {
            self.refresh_iface(link.index);
        }
        (!is_new).then_some(old)
    }

    /// Takes a link out, its addresses and neighbours with it.
    pub(crate) fn remove_link(&mut self, link: LinkId) -> Option<State> {
        self.unbind(link);
        self.map.remove(&link)
    }

    /// The link's names, for a sweep.
    pub(crate) fn ids(&self) -> impl Iterator<Item = LinkId> + '_ {
        self.map.keys().copied()
    }

    pub(crate) fn get(&self, link: LinkId) -> Option<&State> {
        self.map.get(&link)
    }

    /// A link has this address, of `vrf`.
    pub(crate) fn set_address(&mut self, link: LinkId, address: (IpAddr, u8), vrf: VrfId) {
        let state = self.map.entry(link).or_default();
        state.link.index = link;
        state.addresses.insert(address, vrf);
    }

    /// A link lost this address; returns whose it was.
    pub(crate) fn remove_address(&mut self, link: LinkId, address: (IpAddr, u8)) -> Option<VrfId> {
        self.map.get_mut(&link)?.addresses.remove(&address)
    }

    /// All links, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &State> + '_ {
        self.map.values()
    }

    /// Rutter's interface on this link, or below it, where it is a macvlan.
    pub(crate) fn ours(&self, link: LinkId) -> Option<(IfaceId, &Iface)> {
        let id = self.map.get(&self.segment(link))?.iface?;
        Some((id, &self.slot(id)?.iface))
    }

    /// The hop of a network's hosts on this link that are not resolved.
    pub(crate) fn glean(&self, link: LinkId) -> Hop {
        match self.ours(link) {
            Some((_, iface)) if iface.side == Side::Back => fixed::GLEAN_BACK,
            _ => fixed::GLEAN,
        }
    }

    /// The tap below a macvlan, whose addresses and neighbours are that interface's; else the
    /// link itself.
    pub(crate) fn segment(&self, link: LinkId) -> LinkId {
        let state = self.map.get(&link).filter(|state| state.iface.is_none());
        let below = state.and_then(|state| state.link.macvlan_of);
        let is_tap = |below: &LinkId| self.map.get(below).is_some_and(|tap| tap.iface.is_some());
        below.filter(is_tap).unwrap_or(link)
    }

    /// The macvlans on a link.
    pub(crate) fn macvlans(&self, link: LinkId) -> impl Iterator<Item = &State> + '_ {
        self.map.values().filter(move |state| state.link.macvlan_of == Some(link))
    }

    pub(crate) fn slot(&self, id: IfaceId) -> Option<&Slot> {
        self.ifaces.get(usize::from(id.0).checked_sub(1)?)?.as_ref()
    }

    pub(crate) fn slot_mut(&mut self, id: IfaceId) -> Option<&mut Slot> {
        self.ifaces.get_mut(usize::from(id.0).checked_sub(1)?)?.as_mut()
    }

    pub(crate) fn by_name(&self, name: &str) -> Option<IfaceId> {
        let is = |slot: &Option<Slot>| slot.as_ref().is_some_and(|slot| slot.iface.name == name);
        Some(IfaceId(self.ifaces.iter().position(is)? as u16 + 1))
    }

    /// The interfaces as the data path is to see them; a blank for each removed.
    pub(crate) fn published(&self) -> impl Iterator<Item = Iface> + '_ {
        let mut macs = HashMap::<LinkId, Vec<[u8; 6]>>::new();
        for state in self.map.values() {
            let tap = state.link.macvlan_of.filter(|tap| self.serves(state, *tap));
            tap.into_iter().for_each(|tap| macs.entry(tap).or_default().push(state.link.mac));
        }
        self.ifaces.iter().map(move |slot| {
            let Some(slot) = slot else { return Iface::default() };
            let mut iface = slot.iface.clone();
            iface.macs = slot.link.and_then(|tap| macs.remove(&tap)).unwrap_or_default();
            iface.macs.sort_unstable();
            iface
        })
    }

    /// What each of them sends from, by id.
    pub(crate) fn own(&self) -> Vec<Own> {
        let of = |slot: &Option<Slot>| {
            let mut own = Own::default();
            let state = slot.as_ref().and_then(|slot| self.map.get(&slot.link?));
            for (ip, _) in state.into_iter().flat_map(|state| state.addresses.keys()) {
                match *ip {
                    IpAddr::V4(ip) => own.v4 = Some(own.v4.map_or(ip, |least| least.min(ip))),
                    IpAddr::V6(ip) if !ip.is_unicast_link_local() => {
                        own.v6 = Some(own.v6.map_or(ip, |least| least.min(ip)));
                    }
                    IpAddr::V6(_) => {}
                }
            }
            own
        };
        std::iter::once(Own::default()).chain(self.ifaces.iter().map(of)).collect()
    }

    /// Does a macvlan take packets? Of a virtual router's backup it is there, too, but what
    /// comes to it is the master's (RFC 9568 §6.4.2): it has no address but, maybe, its tap's.
    fn serves(&self, macvlan: &State, tap: LinkId) -> bool {
        let of_tap = self.get(tap).map(|tap| &tap.addresses);
        let has = |ip| of_tap.is_some_and(|of| of.keys().any(|(other, _)| *other == ip));
        macvlan.link.up && macvlan.addresses.keys().any(|(ip, _)| !has(*ip))
    }

    /// True when packets may leave by this link. The kernel decides for those that
    /// are not Rutter's, and where a route names none; one that went is no way out.
    pub(crate) fn usable(&self, link: LinkId) -> bool {
        let named = |state: &State| !state.link.name.is_empty();
        let known = link == LinkId::default() || self.map.get(&link).is_some_and(named);
        let up = self.map.get(&link).is_some_and(|state| state.link.up);
        known && self.ours(link).is_none_or(|(_, iface)| iface.up && up)
    }

    pub(crate) fn neighbours(&self) -> &HashMap<(LinkId, IpAddr), Known> {
        &self.neighbours
    }

    pub(crate) fn neighbours_mut(&mut self) -> &mut HashMap<(LinkId, IpAddr), Known> {
        &mut self.neighbours
    }

    /// The rewrite of packets to a neighbour; `None` while it is not resolved, its
    /// link is down or not Rutter's.
    pub(crate) fn adjacency(&self, key: &Key) -> Option<Adjacency> {
        let (id, iface) = self.ours(key.link)?;
        let known = self.neighbours.get(&(key.link, key.ip))?;
        let own = &self.map.get(&key.link)?.link;
        let mac = known.neighbour.resolved().filter(|_| iface.up && own.up)?;
        let ethertype = match key.family {
            Family::V4 => 0x0800,
            Family::V6 => 0x86dd,
        };
        // A route may let fewer bytes pass than its link, never more.
        let mtu = if key.mtu == 0 { iface.mtu } else { iface.mtu.min(key.mtu) };
        let out = (id, iface.port, mtu);
        Some(Adjacency::new(out, mac, own.mac, iface.tags, ethertype))
    }

    fn bind(&mut self, link: LinkId, id: IfaceId) {
        if let Some(old) = self.slot(id).and_then(|slot| slot.link)
            && let Some(state) = self.map.get_mut(&old)
        {
            state.iface = None;
        }
        if let Some(slot) = self.slot_mut(id) {
            slot.link = Some(link);
        }
        if let Some(state) = self.map.get_mut(&link) {
            state.iface = Some(id);
        }
        self.refresh_iface(link);
    }

    fn unbind(&mut self, link: LinkId) {
        let id = self.map.get_mut(&link).and_then(|state| state.iface.take());
        if let Some(slot) = id.and_then(|id| self.slot_mut(id)) {
            slot.link = None;
            slot.iface.up = false;
        }
    }

    /// Brings Rutter's interface in line with its tap.
    fn refresh_iface(&mut self, link: LinkId) {
        let Some(state) = self.map.get(&link) else { return };
        let (up, mtu, mac) = (state.link.up, state.link.mtu, state.link.mac);
        if let Some(slot) = state.iface.and_then(|id| self.slot_mut(id)) {
            slot.iface.up = up && slot.carrier;
            slot.iface.mtu = mtu.min(u16::MAX.into()) as u16;
            slot.iface.mac = mac;
        }
    }
}

/// Two interfaces must not claim the same frames.
pub(crate) fn same_frames(a: &Iface, b: &Iface) -> bool {
    let plain = |tags| matches!(tags, Tags::None | Tags::Dot1q(0));
    a.port == b.port && (a.tags == b.tags || plain(a.tags) && plain(b.tags))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PortId;

    fn link(index: u32, name: &str, up: bool) -> Link {
        Link {
            index: LinkId(index),
            name: name.into(),
            up,
            mtu: 1500,
            mac: [7; 6],
            ..Link::default()
        }
    }

    #[test]
    fn an_interface_follows_the_tap_of_its_name() {
        let mut links = Links::default();
        let p0 = Iface { name: "p0".into(), port: PortId(3), ..Iface::default() };
        let id = links.add_iface(p0).unwrap();
        assert!(links.ours(LinkId(9)).is_none());
        assert_eq!(links.set_link(&link(9, "p0", true)), None);
        let (found, iface) = links.ours(LinkId(9)).unwrap();
        assert_eq!((found, iface.up, iface.mtu, iface.mac), (id, true, 1500, [7; 6]));
        // Deleted and made again under another index: the interface follows.
        links.remove_link(LinkId(9));
        assert!(!links.slot(id).unwrap().iface.up);
        links.set_link(&link(12, "p0", true));
        assert_eq!(links.ours(LinkId(12)).unwrap().0, id);
        // Renamed away.
        links.set_link(&link(12, "other", true));
        assert!(links.ours(LinkId(12)).is_none() && links.usable(LinkId(12)));
    }

    #[test]
    fn an_interface_added_later_finds_its_tap() {
        let mut links = Links::default();
        links.set_link(&link(4, "p1", true));
        let id = links.add_iface(Iface { name: "p1".into(), ..Iface::default() }).unwrap();
        assert_eq!(links.ours(LinkId(4)).unwrap().0, id);
        assert!(links.remove_iface(id).is_some());
        assert!(links.ours(LinkId(4)).is_none() && links.by_name("p1").is_none());
        assert_eq!(links.add_iface(Iface::default()), Some(id));
    }
}
