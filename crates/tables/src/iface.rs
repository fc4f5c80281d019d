//! Layer-3 interfaces: a port, one of its VLANs, or a bridge's routed side.

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};

/// A set of routing tables by index; 0 is the main one (kernel table 254).
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[repr(transparent)]
pub struct VrfId(pub u16);

/// A device of the data plane by index, the same in every worker.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[repr(transparent)]
pub struct PortId(pub u16);

impl From<u16> for PortId {
    #[inline(always)]
    fn from(index: u16) -> PortId {
        PortId(index)
    }
}

impl From<PortId> for u16 {
    #[inline(always)]
    fn from(id: PortId) -> u16 {
        id.0
    }
}

/// An interface by index. 0 is no interface.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[repr(transparent)]
pub struct IfaceId(pub u16);

impl From<u16> for IfaceId {
    #[inline(always)]
    fn from(index: u16) -> IfaceId {
        IfaceId(index)
    }
}

impl From<IfaceId> for u16 {
    #[inline(always)]
    fn from(id: IfaceId) -> u16 {
        id.0
    }
}

impl IfaceId {
    /// No interface.
    pub const NONE: IfaceId = IfaceId(0);
}

/// On which side of a shield an interface is.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Side {
    /// On none.
    #[default]
    Neither,
    /// Where attacks come from.
    Front,
    /// Towards the networks that are protected.
    Back,
}

/// Why a packet may not go from one side to another.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Denied {
    /// A shield is no way between networks that it does not protect.
    FrontToFront,
    /// No protection lets it pass.
    FrontToBack,
    /// Neither is it one between those that it protects.
    BackToBack,
    /// From the front to an interface of no side, to none, or nowhere.
    FrontElsewhere,
}

impl Side {
    /// Whether packets that came in at this side may leave at the other: from the front
    /// only what a protection or a bypass has let pass, and only to the back.
    ///
    /// # Errors
    /// When they may not.
    #[inline]
    pub fn may_leave_at(self, other: Side, passed: bool) -> Result<(), Denied> {
        match (self, other) {
            (Side::Front, Side::Back) if passed => Ok(()),
            (Side::Front, Side::Back) => Err(Denied::FrontToBack),
            (Side::Front, Side::Front) => Err(Denied::FrontToFront),
            (Side::Front, Side::Neither) => Err(Denied::FrontElsewhere),
            (Side::Back, Side::Back) => Err(Denied::BackToBack),
            _ => Ok(()),
        }
    }
}

/// The VLAN tags that an interface's frames carry, outermost first.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Tags {
    /// Untagged frames, and priority-tagged ones (VLAN 0).
    #[default]
    None,
    /// One 802.1Q tag.
    Dot1q(u16),
    /// A tag of this type over an 802.1Q tag.
    QinQ(Outer, u16, u16),
}

/// The type of the outer of two tags: its number is the EtherType.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[repr(u16)]
pub enum Outer {
    /// An 802.1ad service tag.
    #[default]
    Dot1ad = 0x88a8,
    /// An 802.1Q tag, as equipment from before 802.1ad has it.
    Dot1q = 0x8100,
}

impl Outer {
    /// All of them.
    pub const ALL: [Outer; 2] = [Outer::Dot1ad, Outer::Dot1q];
}

impl Tags {
    /// As they are between a frame's addresses and its EtherType: these bytes, so many of them.
    pub fn bytes(self) -> ([u8; 8], usize) {
        let (words, len) = match self {
            Tags::None => ([0; 4], 0),
            Tags::Dot1q(vlan) => ([Outer::Dot1q as u16, vlan, 0, 0], 4),
            Tags::QinQ(kind, outer, inner) => ([kind as u16, outer, Outer::Dot1q as u16, inner], 8),
        };
        let mut bytes = [0; 8];
        for (place, word) in bytes.chunks_exact_mut(2).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        (bytes, len)
    }
}

/// One interface as the data path sees it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Iface {
    /// Its name: `p0`, `p0.100`, `lan`; also the name of its tap in the kernel.
    pub name: String,
    /// The port that carries it.
    pub port: PortId,
    /// Tags of its frames.
    pub tags: Tags,
    /// Hardware address.
    pub mac: [u8; 6],
    /// Further ones: of the macvlans on its tap (VRRP's).
    pub macs: Vec<[u8; 6]>,
    /// Bytes of layer 3 that fit.
    pub mtu: u16,
    /// Which routing tables its packets use.
    pub vrf: VrfId,
    /// Administratively up, with carrier.
    pub up: bool,
    /// On which side of a shield it is.
    pub side: Side,
}

/// All interfaces; small, replaced whole when one changes.
#[derive(Clone, Debug, Default)]
pub struct Ifaces {
    /// By [`IfaceId`]; entry 0 is a blank, without a name, and so is one that was removed.
    pub list: Vec<Iface>,
    /// By [`PortId`]: which interface a frame belongs to.
    pub demux: Vec<Demux>,
    /// The VRF of each interface, dense for the lookup nodes.
    pub vrf: Vec<VrfId>,
    /// True when every interface is in one VRF: lookup nodes skip the search for runs.
    pub one_vrf: bool,
    /// One is at the front or the back of a shield.
    pub sided: bool,
    /// Addresses of each interface: none beyond the end.
    pub own: Vec<Own>,
}

/// An address of each family that an interface has: what it sends from.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Own {
    /// The lowest of IPv4.
    pub v4: Option<Ipv4Addr>,
    /// The lowest of IPv6 that is not of the link alone.
    pub v6: Option<Ipv6Addr>,
}

/// From the tags of a frame to the interface, for one port.
#[derive(Clone, Debug, Default)]
pub struct Demux {
    /// Untagged and priority-tagged frames.
    pub untagged: IfaceId,
    /// By VLAN id, 4,096 entries; empty where the port has no VLANs.
    pub dot1q: Vec<IfaceId>,
    /// By the outer tag's type, outer and inner VLAN id.
    pub qinq: HashMap<(Outer, u16, u16), IfaceId>,
}

impl Iface {
    /// Is `mac` one of its own?
    #[inline]
    pub fn has_mac(&self, mac: [u8; 6]) -> bool {
        mac == self.mac || self.macs.contains(&mac)
    }
}

impl Ifaces {
    /// Lays the list out for the data path. Entry `i` of `list` becomes
    /// interface `i + 1`; interfaces that are down are left out of the demux.
    pub fn new(list: impl IntoIterator<Item = Iface>) -> Self {
        let mut all = Ifaces { list: vec![Iface::default()], ..Ifaces::default() };
        all.list.extend(list);
        all.vrf = all.list.iter().map(|iface| iface.vrf).collect();
        all.one_vrf = all.vrf.iter().skip(1).all(|vrf| *vrf == all.vrf[1]);
        all.sided = all.list.iter().any(|iface| iface.side != Side::Neither);
        for (i, iface) in all.list.iter().enumerate().skip(1).filter(|(_, iface)| iface.up) {
            let (id, port) = (IfaceId(i as u16), usize::from(iface.port.0));
            if all.demux.len() <= port {
                all.demux.resize_with(port + 1, Demux::default);
            }
            all.demux[port].add(iface.tags, id);
        }
        all
    }

    /// The side of an interface; of none for one that is not there.
    #[inline]
    pub fn side(&self, id: IfaceId) -> Side {
        self.list.get(usize::from(id.0)).map_or(Side::Neither, |iface| iface.side)
    }

    /// What an interface sends from.
    pub fn own(&self, id: IfaceId) -> Own {
        self.own.get(usize::from(id.0)).copied().unwrap_or_default()
    }

    /// The interface with this id; `None` for a blank.
    pub fn get(&self, id: IfaceId) -> Option<&Iface> {
        self.list.get(usize::from(id.0)).filter(|iface| !iface.name.is_empty())
    }

    /// The interface with this name.
    pub fn by_name(&self, name: &str) -> Option<IfaceId> {
        let i = self.list.iter().skip(1).position(|iface| iface.name == name)?;
        Some(IfaceId(i as u16 + 1))
    }
}

impl Demux {
    fn add(&mut self, tags: Tags, id: IfaceId) {
        match tags {
            Tags::None => self.untagged = id,
            Tags::Dot1q(vlan) => {
                self.dot1q.resize(4096, IfaceId::NONE);
                self.dot1q[usize::from(vlan & 0xfff)] = id;
            }
            Tags::QinQ(kind, outer, inner) => {
                self.qinq.insert((kind, outer, inner), id);
            }
        }
    }

    /// The interface of frames with these tags; [`IfaceId::NONE`] where there is none.
    #[inline]
    pub fn find(&self, tags: Tags) -> IfaceId {
        match tags {
            Tags::None | Tags::Dot1q(0) => self.untagged,
            Tags::Dot1q(vlan) => self.dot1q.get(usize::from(vlan)).copied().unwrap_or_default(),
            Tags::QinQ(kind, outer, inner) => {
                self.qinq.get(&(kind, outer, inner)).copied().unwrap_or_default()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_find_their_interface_by_port_and_tags() {
        let iface = |name: &str, port, tags| Iface {
            name: name.into(),
            port: PortId(port),
            tags,
            up: true,
            ..Iface::default()
        };
        let all = Ifaces::new([
            iface("p0", 0, Tags::None),
            iface("p1", 1, Tags::None),
            iface("p1.100", 1, Tags::Dot1q(100)),
            iface("p1.7.8", 1, Tags::QinQ(Outer::Dot1ad, 7, 8)),
            iface("q1.7.8", 1, Tags::QinQ(Outer::Dot1q, 7, 8)),
        ]);
        assert_eq!(all.demux[0].find(Tags::Dot1q(0)), IfaceId(1));
        assert_eq!(all.demux[0].find(Tags::Dot1q(100)), IfaceId::NONE);
        assert_eq!(all.demux[1].find(Tags::Dot1q(100)), all.by_name("p1.100").unwrap());
        let both = Outer::ALL.map(|kind| all.demux[1].find(Tags::QinQ(kind, 7, 8)));
        assert_eq!(both, [IfaceId(4), IfaceId(5)], "two interfaces");
        assert!(all.one_vrf);
    }
}
