//! What happens beside frames, from bytes: events of the kernel, of the cables, of time
//! and of people.

use std::net::IpAddr;
use std::time::Duration;

use tables::event::{
    Address, Event, How, Link, Neighbour, NeighbourState, NextHop, NextHopTo, Path, Route, Scope,
    Source, Target, Why,
};
use tables::oracle::{FOREIGN, Prefix, table, vrf_link};
use tables::switch::Which;
use tables::{Family, LinkId, Net};

use super::frames::station;
use super::input::{address, prefix};
use super::outcome::count;
use super::plan::{DEVICES, ENGINES4, ENGINES6, own_mac};
use super::step::Step;
use super::world::add_iface;

impl Step {
    /// The network at the start: interface i (link i + 1) is up, has 10.i.0.1/24 and
    /// 2001:db8:i::1/64, and a neighbour .2 with the address of station i. VRF devices
    /// and a link that is not Rutter's are there, too.
    pub(super) fn settle_in(&mut self, vrfs: u16) {
        for vrf in 0..vrfs {
            let (index, name) = (vrf_link(vrf), format!("vrf{vrf}"));
            let vrf_table = Some(table(vrf));
            self.event(&Event::Link(Link { index, name, up: true, vrf_table, ..Link::default() }));
        }
        let (index, name) = (FOREIGN, "eth0".to_owned());
        self.event(&Event::Link(Link { index, name, up: true, mtu: 1500, ..Link::default() }));
        for i in 0..self.ifaces.len() as u8 {
            self.link([i, 1, 0]);
            for six in [false, true] {
                let six = u8::from(six);
                self.address([i | six << 7, 0, 1, 0]);
                self.neighbour([i | six << 7, 0, 2, 1]);
                let vrf = self.ifaces[usize::from(i)].vrf as u8;
                self.route([i, 0, vrf | six << 7, 0, i, 0, 0, 0]);
            }
        }
    }

    fn link_id(&self, byte: u8) -> LinkId {
        LinkId(1 + u32::from(byte & 31) % self.ifaces.len() as u32)
    }

    /// One of the links, or one that is not Rutter's.
    fn any_link(&self, byte: u8) -> LinkId {
        if byte & 31 == 31 { FOREIGN } else { self.link_id(byte) }
    }

    /// A link is there, or has changed: bit 0 of `how` up; then its MTU, MAC, master.
    pub fn link(&mut self, [which, how, master]: [u8; 3]) {
        let index = self.link_id(which);
        let i = index.0 as usize - 1;
        let plan = &self.ifaces[i];
        let mac = match (how >> 4 & 3, plan.port.checked_sub(DEVICES)) {
            (0, Some(bridge)) => own_mac(bridge.into()),
            (variant, _) => [2, 0xaa, 0, 0, variant, i as u8],
        };
        let vrfs = self.world.control.vrfs().len() as u16;
        let master = (master & 3 != 0).then(|| vrf_link(u16::from(master >> 2) % vrfs));
        let (name, up, mtu) = (plan.name.clone(), how & 1 != 0, MTUS[usize::from(how >> 1 & 7)]);
        let link = Link { index, name, up, mtu, mac, master, vrf_table: None, macvlan_of: None };
        self.event(&Event::Link(link));
    }

    /// A link goes.
    pub fn link_gone(&mut self, [which]: [u8; 1]) {
        let link = self.link_id(which);
        self.event(&Event::LinkGone(link));
    }

    /// A link has an address, or has lost it.
    pub fn address(&mut self, [which, kind, b, gone]: [u8; 4]) {
        let (link, six) = (self.link_id(which), which & 128 != 0);
        let ip = self.near(link, six, [kind, b]);
        let address = Address { link, ip, len: if six { 64 } else { 24 } };
        let there = self.world.control.interfaces().iter().any(|info| info.link == Some(link));
        match gone & 1 {
            0 if there => self.event(&Event::Address(address)),
            0 => {}
            _ => self.event(&Event::AddressGone(address)),
        }
    }

    /// A neighbour is there, unresolved or resolved, or was forgotten.
    pub fn neighbour(&mut self, [which, kind, b, how]: [u8; 4]) {
        let (link, six) = (self.link_id(which), which & 128 != 0);
        let ip = self.near(link, six, [kind, b]);
        let (mac, state) = match how & 7 {
            0 => return self.event(&Event::NeighbourGone(link, ip)),
            1 => (Some(station(link.0 as u8 - 1)), NeighbourState::Reachable),
            2 => (None, NeighbourState::Incomplete),
            3 => (Some(station(how >> 3)), NeighbourState::Failed),
            4 => (Some(station(how >> 3)), NeighbourState::Permanent),
            _ => (Some(station(how >> 3)), NeighbourState::Stale),
        };
        self.event(&Event::Neighbour(Neighbour { link, ip, mac, state }));
    }

    /// An address; those of kind 0 are of the link's own network.
    fn near(&self, link: LinkId, six: bool, [kind, b]: [u8; 2]) -> IpAddr {
        let kind = if kind == 0 { (link.0 - 1) as u8 & 15 } else { kind };
        address(six, [kind, b])
    }

    /// By a link, to itself or a neighbour of it.
    fn path(&self, six: bool, [which, via, weight]: [u8; 3]) -> Path {
        let link = self.any_link(which);
        // An IPv4 route may have an IPv6 gateway (RFC 8950).
        let six = six || which & 64 != 0;
        let near = link.0.saturating_sub(1) as u8 & 15;
        let host = 2 + (via & 3);
        let via = (via & 4 != 0).then(|| address(six, [near, host]));
        let mtu = if weight & 128 != 0 { 1400 } else { 0 };
        Path { link, via, weight: u16::from(weight & 3) + 1, mtu }
    }

    /// A next-hop object is there, or goes.
    pub fn object(&mut self, [id, kind, a, b, c]: [u8; 5]) {
        let id = 1 + u32::from(id % 6);
        let to = match kind & 7 {
            0 => return self.event(&Event::NextHopGone(id)),
            1 => NextHopTo::Blackhole,
            2 => NextHopTo::Kernel,
            3 | 4 => {
                let members = [a, b, c].map(|id| (1 + u32::from(id % 6), u16::from(id >> 6) + 1));
                NextHopTo::Group(members[..1 + usize::from(kind >> 3) % 3].into())
            }
            _ => NextHopTo::Path(Path { mtu: 0, ..self.path(kind & 128 != 0, [a, b, c]) }),
        };
        self.event(&Event::NextHop(NextHop { id, to }));
    }

    /// A route is there.
    pub fn route(&mut self, [kind, b, table, metric, a, via, weight, c]: [u8; 8]) {
        let route = self.route_of([kind, b, table, metric, a, via, weight, c]);
        let how = match metric >> 2 & 3 {
            0 | 1 => How::Replace,
            2 => How::Append,
            _ if route.net.family() == Family::V6 => How::Replace,
            _ => How::Create,
        };
        self.event(&Event::Route(route, how));
    }

    fn route_of(&self, [kind, b, vrf, metric, a, via, weight, c]: [u8; 8]) -> Route {
        let six = vrf & 128 != 0;
        let (ip, len) = prefix(six, [kind, b]);
        let path = self.path(six, [a, via, weight]);
        let target = match metric >> 4 {
            8 => Target::Blackhole,
            9 => Target::Unreachable,
            10 => Target::Prohibit,
            11 => Target::Kernel,
            12 | 13 => Target::Object { id: 1 + u32::from(c % 6), mtu: 0 },
            14 | 15 => {
                let other = self.path(six, [c, via ^ 4, 0]);
                let third = self.path(six, [c >> 3, 4, weight]);
                Target::Paths(if c & 1 != 0 {
                    [path, other].into()
                } else {
                    [path, other, third].into()
                })
            }
            _ => Target::Path(path),
        };
        let vrfs = self.world.control.vrfs().len() as u16;
        Route {
            table: table(u16::from(vrf & 7) % vrfs),
            net: Net::covering(ip, len).expect("no longer than an address"),
            metric: u32::from(metric & 3),
            protocol: 4,
            source: Source::Kernel,
            target,
        }
    }

    /// One of the routes goes.
    pub fn route_gone(&mut self, [high, low]: [u8; 2]) {
        let all: Vec<Route> = self.all_routes();
        if all.is_empty() {
            return;
        }
        let at = usize::from(u16::from_be_bytes([high, low])) % all.len();
        self.event(&Event::RouteGone(all[at].clone()));
    }

    fn all_routes(&self) -> Vec<Route> {
        let routes = self.oracle.routing.routes.iter();
        let route = |vrf: u16, (ip, len): Prefix, (metric, target): &(u32, Target)| Route {
            table: table(vrf),
            net: Net::covering(ip, len).expect("it was a prefix"),
            metric: *metric,
            protocol: 4,
            source: Source::Kernel,
            target: target.clone(),
        };
        routes
            .flat_map(|((vrf, prefix), list)| list.iter().map(move |r| route(*vrf, *prefix, r)))
            .collect()
    }

    /// The routes of a family are listed, but for some.
    pub fn listing(&mut self, [family, skip]: [u8; 2]) {
        self.run();
        let six = family & 1 != 0;
        let scope = Scope::Routes(if six { Family::V6 } else { Family::V4 }, Source::Kernel);
        let aborted = family & 0xc0 == 0xc0;
        let all = self.all_routes();
        let of = all.iter().filter(|route| (route.net.family() == Family::V6) == six);
        let left_out = |i: usize| skip > 0 && i.is_multiple_of(usize::from(skip & 15) + 2);
        let listed: Vec<_> =
            of.enumerate().filter(|(i, _)| !left_out(*i)).map(|(_, r)| r.clone()).collect();
        self.world.control.apply(&Event::SweepBegin(scope, Why::Audit));
        for route in &listed {
            self.world.control.apply(&Event::Route(route.clone(), How::Listed));
        }
        if aborted {
            return self.world.control.apply(&Event::SweepAbort(scope));
        }
        self.world.control.apply(&Event::SweepEnd(scope));
        self.oracle.routing.list(six, |(vrf, (ip, len)), (metric, target)| {
            listed.iter().any(|route| {
                route.table == table(*vrf)
                    && (route.net.addr(), route.net.len()) == (*ip, *len)
                    && (route.metric, &route.target) == (*metric, target)
            })
        });
        count(&mut self.counts, "listing");
    }

    /// Control does what is due.
    pub fn tick(&mut self) {
        self.run();
        self.world.tick();
    }

    /// Another engine for a table.
    pub fn engine(&mut self, [which, name]: [u8; 2]) {
        let vrfs = self.world.control.vrfs().len() as u16;
        let (six, name) = (which & 128 != 0, usize::from(name));
        let name = if six { ENGINES6[name % 6] } else { ENGINES4[name % 6] };
        self.run();
        self.world.set_engine(u16::from(which & 7) % vrfs, six, name);
    }

    /// An interface is taken out, or comes back.
    pub fn iface(&mut self, [which]: [u8; 1]) {
        self.run();
        let plan = self.ifaces[usize::from(which) % self.ifaces.len()].clone();
        let there =
            self.oracle.routing.ifaces.iter().position(|known| known.as_ref() == Some(&plan));
        if let Some(at) = there {
            let id = at as u16 + 1;
            self.world.control.remove_iface(tables::IfaceId(id));
            return self.oracle.routing.remove_iface(id);
        }
        let id = add_iface(&mut self.world.control, &plan);
        self.oracle.routing.ifaces[usize::from(id) - 1] = Some(plan);
    }

    /// A device's link goes, or comes back.
    pub fn carrier(&mut self, [which]: [u8; 1]) {
        self.run();
        let port = u16::from(which & 127) % DEVICES;
        let up = which & 128 != 0;
        let was_up = std::mem::replace(&mut self.oracle.bridging.up[usize::from(port)], up);
        if was_up && !up {
            self.oracle.stations.went_down(port);
            self.oracle.loops.went_down(port);
            self.oracle.bridging.out[usize::from(port)] = false;
        }
        self.world.switch.set_link(port, up);
    }

    /// Time goes by, with four sweeps in the shortest tick.
    pub fn time(&mut self, [quarters]: [u8; 1]) {
        self.run();
        let bridges = self.world.switch.bridges();
        let Some(ageing) = bridges.iter().map(|bridge| bridge.ageing).min() else { return };
        let quarter = Duration::from_secs(ageing.into()) / 32;
        for _ in 0..=quarters & 63 {
            // Many short waits come to little: stations flap within seconds.
            self.now += if quarters & 64 != 0 { quarter / 64 } else { quarter };
            let at = self.world.at(self.now);
            self.world.switch.sweep(at);
            self.oracle.stations.swept(self.now);
            for port in self.oracle.loops.swept(self.now, &mut self.counts) {
                self.oracle.bridging.out[usize::from(port)] = false;
            }
        }
        self.compare_loops();
        self.compare_stations();
    }

    /// A static station is set, or a station deleted.
    pub fn station(&mut self, [which, mac, port]: [u8; 3]) {
        self.run();
        let Some(lan) = self.lan(which) else { return };
        let Some(domain) = self.world.domain(lan) else { return };
        let mac = match mac >> 4 {
            15 => own_mac(lan.0),
            14 => [1, 0, 0x5e, 0, 0, mac & 15],
            _ => station(mac),
        };
        let key = (lan, mac);
        if which & 128 != 0 {
            let gone = self.world.switch.delete(mac, domain);
            assert_eq!(gone, self.oracle.stations.delete(key), "{key:?}");
            count(&mut self.counts, "station deleted");
        } else if self.world.switch.insert_static(mac, domain, u16::from(port) % DEVICES).is_ok() {
            assert!(!self.oracle.stations.is_own(key), "the bridge's own address was taken");
            self.oracle.stations.set(key, u16::from(port) % DEVICES);
            count(&mut self.counts, "static station");
        }
        self.compare_stations();
    }

    /// One of the domains.
    fn lan(&self, which: u8) -> Option<(usize, u16)> {
        let bridges = self.world.switch.bridges();
        let i = usize::from(which >> 4 & 7) % bridges.len().max(1);
        let vlans = bridges.get(i)?.vlans();
        let (low, common) = (usize::from(which & 15), [10, 20, 30]);
        let vlan = common.get(low).filter(|vlan| vlans.contains(vlan));
        Some((i, *vlan.unwrap_or(&vlans[low % vlans.len()])))
    }

    /// Learnt stations are forgotten: of a port, of a domain, or all.
    pub fn flush(&mut self, [which, port]: [u8; 2]) {
        self.run();
        let lan = if which & 128 != 0 { self.lan(which) } else { None };
        let port = (port & 128 != 0).then_some(u16::from(port & 127) % DEVICES);
        let domains = lan.and_then(|lan| self.world.domain(lan)).map(|domain| [domain].into());
        let gone = self.world.switch.flush(&Which { domains, port, mac: None });
        assert_eq!(gone, self.oracle.stations.flush(port, lan), "stations were forgotten");
        self.compare_stations();
        count(&mut self.counts, "stations flushed");
    }

    /// A device takes so many frames more; 255: as many as come.
    pub fn device_full(&mut self, [port, frames]: [u8; 2]) {
        self.run();
        let most = if frames == 255 { usize::MAX } else { frames.into() };
        let port = u16::from(port) % DEVICES;
        self.world.peers[usize::from(port)].accept(most);
        self.is_short(port, frames != 255);
    }

    /// Only so many packets are left in the pool; 255: all come back.
    pub fn starve(&mut self, [left]: [u8; 1]) {
        self.run();
        self.world.starve((left != 255).then_some(left.into()));
        self.is_short(POOL, left != 255);
    }

    /// A mirror is there, looks at other frames, or goes.
    pub fn mirror(&mut self, bytes: [u8; 4]) {
        self.run();
        self.oracle.mirrors.set(bytes);
        self.world.mirror(self.oracle.mirrors.spans());
    }

    fn is_short(&mut self, what: u16, short: bool) {
        if short {
            self.short.insert(what)
        } else {
            self.short.remove(&what)
        };
    }
}

/// Stands for the pool among the devices that may be short.
const POOL: u16 = u16::MAX;
/// Of links.
const MTUS: [u32; 8] = [1500, 1400, 9000, 1280, 100, 1500, 70_000, 60];
