//! For tests: what the tables should say, worked out from the events and nothing else. The
//! longest prefix by trying each length, the first usable route of it. It shares no code
//! with what it judges.
//!
//! VRF 0 has the kernel's main table, VRF n table 100 + n and the VRF device that is link
//! 100 + n.

mod shield;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::event::{Address, Event, How, LinkId, Neighbour, NextHopTo, Path, Route, Target};
use crate::hops::Kind;
use crate::iface::{Side, Tags};
use crate::net::Net;

pub use shield::{Front, Shielded};

/// All that the events said.
#[derive(Default)]
pub struct Routing {
    /// By interface number less one; `None` where it was taken out.
    pub ifaces: Vec<Option<Interface>>,
    links: BTreeMap<LinkId, Link>,
    addresses: BTreeSet<Address>,
    neighbours: BTreeMap<(LinkId, IpAddr), Neighbour>,
    objects: BTreeMap<u32, NextHopTo>,
    /// By VRF and prefix: metric and target, best first.
    pub routes: BTreeMap<(u16, Prefix), Vec<(u32, Target)>>,
    /// By VRF and prefix.
    pub shields: BTreeMap<(u16, Prefix), Shielded>,
    /// By interface number; of no side are the others.
    pub sides: BTreeMap<u16, Side>,
}

/// An interface of the router.
#[derive(Clone, Debug, PartialEq)]
pub struct Interface {
    /// Its name and its link's.
    pub name: String,
    /// The port that carries it.
    pub port: u16,
    /// Tags of its frames.
    pub tags: Tags,
    /// Its VRF where its link is below no VRF device.
    pub vrf: u16,
}

/// First address and length.
pub type Prefix = (IpAddr, u8);

/// A link of the kernel.
#[derive(Clone, Debug)]
struct Link {
    name: String,
    up: bool,
    mtu: u16,
    mac: [u8; 6],
    master: Option<LinkId>,
}

/// What packets to an address meet.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Meets {
    /// They leave by this interface, to this neighbour; so many bytes fit.
    Way(u16, [u8; 6], u16),
    /// They go nowhere else: neither [`Kind::Forward`] nor [`Kind::Multipath`].
    Other(Kind),
}

/// An interface as frames find it.
pub struct Found<'r> {
    /// As it was configured.
    pub plan: &'r Interface,
    /// The address that it answers to.
    pub mac: [u8; 6],
    /// Whether its link is.
    pub up: bool,
    /// Its VRF.
    pub vrf: u16,
}

/// The kernel's table of VRF `vrf`.
pub fn table(vrf: u16) -> u32 {
    if vrf == 0 { 254 } else { 100 + u32::from(vrf) }
}

/// The VRF device of VRF `vrf`, a link.
pub fn vrf_link(vrf: u16) -> LinkId {
    LinkId(100 + u32::from(vrf))
}

/// A link that is none of Rutter's.
pub const FOREIGN: LinkId = LinkId(90);

impl Routing {
    /// These interfaces, before the first event.
    pub fn new(ifaces: Vec<Option<Interface>>) -> Routing {
        Routing { ifaces, ..Routing::default() }
    }

    /// Takes in what the tables take in.
    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::Link(link) => {
                let (name, master) = (link.name.clone(), link.master);
                let mtu = link.mtu.min(u16::MAX.into()) as u16;
                let link_state = Link { name, up: link.up, mtu, mac: link.mac, master };
                self.links.insert(link.index, link_state);
            }
            Event::LinkGone(link) => {
                self.links.remove(link);
                self.addresses.retain(|address| address.link != *link);
                self.neighbours.retain(|(of, _), _| of != link);
                // The kernel says nothing of the routes that go with it.
                self.keep(|_, target| !over(target, *link));
            }
            Event::Address(address) => drop(self.addresses.insert(*address)),
            Event::AddressGone(address) => {
                let was_there = self.addresses.remove(address);
                let v4 = |a: &Address| a.link == address.link && a.ip.is_ipv4();
                if was_there && address.ip.is_ipv4() && !self.addresses.iter().any(v4) {
                    self.keep(|(ip, _), target| ip.is_ipv6() || !over(target, address.link));
                }
            }
            Event::Neighbour(n) if self.iface_of(n.link).is_some() => {
                self.neighbours.insert((n.link, n.ip), *n);
            }
            Event::NeighbourGone(link, ip) => drop(self.neighbours.remove(&(*link, *ip))),
            Event::NextHop(object) => drop(self.objects.insert(object.id, object.to.clone())),
            Event::NextHopGone(id) => {
                self.objects.remove(id);
                self.keep(|_, target| !matches!(target, Target::Object { id: of, .. } if of == id));
            }
            Event::Route(route, how) => self.put(route, *how),
            Event::RouteGone(route) => {
                let list = self.routes.get_mut(&place(route));
                if let Some(list) = list
                    && let Some(at) = list.iter().position(|old| *old == said(route))
                {
                    list.remove(at);
                }
            }
            _ => {}
        }
        self.routes.retain(|_, list| !list.is_empty());
    }

    /// An interface was taken out.
    pub fn remove_iface(&mut self, id: u16) {
        let gone = self.ifaces[usize::from(id) - 1].take();
        let link = gone.and_then(|gone| self.link_named(&gone.name));
        self.neighbours.retain(|(of, _), _| Some(*of) != link);
    }

    /// A listing of `six`'s routes ended, which had those that `there` takes.
    pub fn list(&mut self, six: bool, there: impl Fn(&(u16, Prefix), &(u32, Target)) -> bool) {
        for (place, list) in &mut self.routes {
            list.retain(|old| place.1.0.is_ipv6() != six || there(place, old));
        }
        self.routes.retain(|_, list| !list.is_empty());
    }

    fn put(&mut self, route: &Route, how: How) {
        let list = self.routes.entry(place(route)).or_default();
        let new = said(route);
        if list.contains(&new) {
            return;
        }
        let same = list.iter().position(|(metric, _)| *metric == new.0);
        let first = how == How::Create && route.net.addr().is_ipv4() || how == How::Replace;
        match same {
            Some(at) if how == How::Replace => list[at] = new,
            _ => {
                let before = |old: u32| if first { old < new.0 } else { old <= new.0 };
                let at = list.iter().take_while(|(metric, _)| before(*metric)).count();
                list.insert(at, new);
            }
        }
    }

    fn keep(&mut self, keep: impl Fn(&Prefix, &Target) -> bool) {
        for ((_, prefix), list) in &mut self.routes {
            list.retain(|(_, target)| keep(prefix, target));
        }
    }

    /// The interface of frames with these tags at a port: number, and how it is.
    pub fn arriving(&self, port: u16, tags: Tags) -> Option<(u16, Found<'_>)> {
        let named = |id: u16| Some((id, self.found(id)?));
        let all = (1..=self.ifaces.len() as u16).filter_map(named);
        let mut here = all.filter(|(_, found)| found.plan.port == port && found.up);
        here.find(|(_, found)| found.plan.tags == tags)
    }

    /// An interface by number.
    pub fn found(&self, id: u16) -> Option<Found<'_>> {
        let plan = self.ifaces.get(usize::from(id).checked_sub(1)?)?.as_ref()?;
        let link = self.link_named(&plan.name);
        let state = link.and_then(|link| self.links.get(&link));
        let vrf = link.map_or(plan.vrf, |link| self.home(link));
        let (mac, up) = state.map_or(([0; 6], false), |state| (state.mac, state.up));
        Some(Found { plan, mac, up, vrf })
    }

    /// What packets of all flows to `ip` meet in `vrf`.
    pub fn lookup(&self, vrf: u16, ip: IpAddr) -> BTreeSet<Meets> {
        let found = (0..=width(ip)).rev().find_map(|len| self.of_prefix(vrf, covering(ip, len)));
        found.unwrap_or_else(|| one(Kind::NoRoute))
    }

    /// What a prefix says; `None` where it says nothing.
    fn of_prefix(&self, vrf: u16, prefix: Prefix) -> Option<BTreeSet<Meets>> {
        let rule = rules().into_iter().filter(|(outer, ..)| covers(*outer, prefix));
        let rule = rule.max_by_key(|(outer, ..)| outer.1);
        let line = rule.clone().filter(|(outer, ..)| *outer == prefix);
        let line = line.map(|(_, meets, _)| BTreeSet::from([meets]));
        let host = prefix.1 == width(prefix.0);
        let is_own = |a: &Address| a.ip == prefix.0 && self.home(a.link) == vrf;
        let own = host && self.addresses.iter().any(is_own);
        let best = || self.best(vrf, prefix).map(|(_, meets)| meets);
        match rule.map_or(Routes::Any, |(.., routes)| routes) {
            Routes::None => line,
            Routes::Own => line.or(own.then(|| one(Kind::ForUs))),
            Routes::Any if own => Some(one(Kind::ForUs)),
            Routes::Any if host => self.host(vrf, prefix.0).or_else(best).or(line),
            Routes::Any => best().or(line),
        }
    }

    /// A resolved neighbour is a host of its own where the longest route leads onto its link.
    fn host(&self, vrf: u16, ip: IpAddr) -> Option<BTreeSet<Meets>> {
        let lens = (0..=width(ip)).rev();
        let mut usable = lens.filter_map(|len| self.best(vrf, covering(ip, len)));
        let on = self.only_path(&usable.next()?.0)?;
        let neighbour = self.neighbours.get(&(on.link, ip))?;
        let far = on.via.is_some() || self.home(on.link) != vrf || !is_routed(ip);
        if far || self.iface_of(on.link).is_none() {
            return None;
        }
        Some(BTreeSet::from([self.way(&on, neighbour)?]))
    }

    /// The path of a target that has one only.
    fn only_path(&self, target: &Target) -> Option<Path> {
        let object = match target {
            Target::Path(path) => return Some(*path),
            Target::Object { id, .. } => self.objects.get(id)?,
            _ => return None,
        };
        let NextHopTo::Group(members) = object else {
            return if let NextHopTo::Path(path) = object { Some(*path) } else { None };
        };
        let there = members.iter().filter_map(|(id, _)| self.objects.get(id));
        let ways = there.filter(|to| !matches!(to, NextHopTo::Group(_)));
        if let [NextHopTo::Path(path)] = ways.collect::<Vec<_>>()[..] { Some(*path) } else { None }
    }

    /// The first usable route of exactly this prefix.
    fn best(&self, vrf: u16, prefix: Prefix) -> Option<(Target, BTreeSet<Meets>)> {
        let list = self.routes.get(&(vrf, prefix))?;
        list.iter().find_map(|(_, target)| Some((target.clone(), self.target(target)?)))
    }

    /// What packets of a target meet; `None` where it has no way out.
    fn target(&self, target: &Target) -> Option<BTreeSet<Meets>> {
        let ways: BTreeSet<Meets> = match target {
            Target::Path(path) => self.path(path).into_iter().collect(),
            Target::Paths(paths) => paths.iter().filter_map(|path| self.path(path)).collect(),
            Target::Object { id, .. } => match self.objects.get(id)? {
                NextHopTo::Group(members) => {
                    members.iter().filter_map(|(id, _)| self.member(*id)).collect()
                }
                _ => self.member(*id).into_iter().collect(),
            },
            Target::Blackhole => [Meets::Other(Kind::Blackhole)].into(),
            Target::Unreachable | Target::Prohibit => one(Kind::Unreachable),
            Target::Kernel => one(Kind::ViaKernel),
            Target::Local(_) | Target::Broadcast(_) | Target::Throw => return None,
        };
        (!ways.is_empty()).then_some(ways)
    }

    fn member(&self, id: u32) -> Option<Meets> {
        match self.objects.get(&id)? {
            NextHopTo::Path(path) => self.path(path),
            NextHopTo::Blackhole => Some(Meets::Other(Kind::Blackhole)),
            NextHopTo::Kernel => Some(Meets::Other(Kind::ViaKernel)),
            NextHopTo::Group(_) => None,
        }
    }

    fn path(&self, path: &Path) -> Option<Meets> {
        let link = self.links.get(&path.link)?;
        if self.iface_of(path.link).is_none() {
            return Some(Meets::Other(Kind::ViaKernel));
        }
        if !link.up {
            return None;
        }
        let neighbour = path.via.and_then(|ip| self.neighbours.get(&(path.link, ip)));
        let way = neighbour.and_then(|neighbour| self.way(path, neighbour));
        Some(way.unwrap_or(Meets::Other(Kind::NoNeighbour)))
    }

    fn way(&self, path: &Path, neighbour: &Neighbour) -> Option<Meets> {
        let link = self.links.get(&path.link).filter(|link| link.up)?;
        let mtu = if path.mtu == 0 { link.mtu } else { link.mtu.min(path.mtu) };
        Some(Meets::Way(self.iface_of(path.link)?, neighbour.resolved()?, mtu))
    }

    /// The number of Rutter's interface on a link.
    fn iface_of(&self, link: LinkId) -> Option<u16> {
        let name = &self.links.get(&link)?.name;
        let is = |plan: &Option<Interface>| plan.as_ref().is_some_and(|plan| plan.name == *name);
        Some(self.ifaces.iter().position(is)? as u16 + 1)
    }

    fn link_named(&self, name: &str) -> Option<LinkId> {
        self.links.iter().find(|(_, link)| link.name == name).map(|(id, _)| *id)
    }

    /// The VRF of a link: that of the VRF device above it, or the interface's.
    fn home(&self, link: LinkId) -> u16 {
        let master = self.links.get(&link).and_then(|state| state.master);
        let configured =
            self.iface_of(link).and_then(|id| self.ifaces[usize::from(id) - 1].as_ref());
        match master {
            Some(master) => (master.0 - vrf_link(0).0) as u16,
            None => configured.map_or(0, |plan| plan.vrf),
        }
    }
}

/// What routes may say inside a prefix that the RFCs speak of.
#[derive(Clone, Copy)]
enum Routes {
    None,
    /// Addresses of this machine count.
    Own,
    Any,
}

/// RFC 1812 §5.3.7, §5.3.5.1, RFC 3927 §2.7, RFC 4291 §2.5.2, §2.5.3, §2.5.6, §2.7.
fn rules() -> Vec<(Prefix, Meets, Routes)> {
    let (martian, multicast) = (Meets::Other(Kind::Martian), Meets::Other(Kind::Multicast));
    let rule = |ip: &str, len, meets: &Meets, routes| {
        ((ip.parse().expect("an address"), len), meets.clone(), routes)
    };
    vec![
        rule("0.0.0.0", 8, &martian, Routes::None),
        rule("127.0.0.0", 8, &martian, Routes::None),
        rule("169.254.0.0", 16, &martian, Routes::Own),
        rule("224.0.0.0", 4, &multicast, Routes::None),
        rule("240.0.0.0", 4, &martian, Routes::Any),
        rule("255.255.255.255", 32, &multicast, Routes::None),
        rule("::", 128, &martian, Routes::None),
        rule("::1", 128, &martian, Routes::None),
        rule("fe80::", 10, &martian, Routes::Own),
        rule("ff00::", 8, &multicast, Routes::None),
    ]
}

fn is_routed(ip: IpAddr) -> bool {
    let local = match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    !local && !ip.is_multicast() && !ip.is_unspecified()
}

fn width(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { 32 } else { 128 }
}

fn covering(ip: IpAddr, len: u8) -> Prefix {
    let net = Net::covering(ip, len).expect("no longer than an address");
    (net.addr(), len)
}

fn covers(outer: Prefix, inner: Prefix) -> bool {
    let same = outer.0.is_ipv4() == inner.0.is_ipv4() && outer.1 <= inner.1;
    same && covering(inner.0, outer.1) == outer
}

fn place(route: &Route) -> (u16, Prefix) {
    let vrf = if route.table == table(0) { 0 } else { (route.table - 100) as u16 };
    (vrf, (route.net.addr(), route.net.len()))
}

fn said(route: &Route) -> (u32, Target) {
    (route.metric, route.target.clone())
}

fn over(target: &Target, link: LinkId) -> bool {
    match target {
        Target::Path(path) => path.link == link,
        Target::Paths(paths) => paths.iter().all(|path| path.link == link),
        _ => false,
    }
}

fn one(kind: Kind) -> BTreeSet<Meets> {
    [Meets::Other(kind)].into()
}
