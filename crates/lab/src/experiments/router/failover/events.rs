//! What the kernel reports of the network: links, gateways, next-hop objects, routes.

use std::net::Ipv4Addr;

use lookup::{Addr, Hop, Prefix};
use tables::control::MAIN_TABLE;
use tables::event::{
    Event, How, Link, Neighbour, NeighbourState, NextHop, NextHopTo, Path, Route, Source, Target,
};
use tables::{LinkId, Net};

use super::super::frames::ROUTER;
use super::Kind;
use crate::data::Rng;

pub(super) fn link(port: u16) -> Event {
    let mac = if port + 1 == PORTS { ROUTER } else { [2, 0, 0, 0, 1, port as u8] };
    let (index, name) = (LinkId(u32::from(port) + 1), format!("p{port}"));
    Event::Link(Link { index, name, up: true, mtu: 1500, mac, ..Link::default() })
}

/// The gateways of both ports.
pub(super) fn neighbours(kind: Kind) -> Vec<Event> {
    let of = |port: u16, gateways: u32| (0..gateways).map(move |i| (port, i));
    let all = of(0, GATEWAYS).chain(of(1, kind.gateways()));
    let event = |(port, i): (u16, u32)| {
        let Path { link, via, .. } = path(port, i);
        let ip = via.expect("each path has one");
        let (mac, state) = (Some([2, 0, 0, 2, port as u8, i as u8]), NeighbourState::Permanent);
        Event::Neighbour(Neighbour { link, ip, mac, state })
    };
    all.map(event).collect()
}

/// Next-hop objects: each gateway, and each pair of one of either port.
pub(super) fn objects(kind: Kind) -> Vec<Event> {
    if kind != Kind::Objects {
        return Vec::new();
    }
    let event = |id, to| Event::NextHop(NextHop { id, to });
    let one = |port: u16, i| event(object(port, i), NextHopTo::Path(path(port, i)));
    let single = (0..2).flat_map(|port| (0..GATEWAYS).map(move |i| (port, i)));
    let pair = |a, b| {
        let members = [(object(0, a), 1), (object(1, b), 1)];
        event(group(a, b), NextHopTo::Group(members.into()))
    };
    let pairs = (0..GATEWAYS).flat_map(|a| (0..GATEWAYS).map(move |b| (a, b)));
    single.map(|(port, i)| one(port, i)).chain(pairs.map(|(a, b)| pair(a, b))).collect()
}

fn object(port: u16, i: u32) -> u32 {
    1 + u32::from(port) * GATEWAYS + i
}

fn group(a: u32, b: u32) -> u32 {
    1000 + a * GATEWAYS + b
}

pub(super) fn path(port: u16, gateway: u32) -> Path {
    let ip = Ipv4Addr::from(0x0aff_0000 + (u32::from(port) << 12) + 2 + gateway);
    Path { link: LinkId(u32::from(port) + 1), via: Some(ip.into()), weight: 1, mtu: 0 }
}

impl Kind {
    /// Gateways behind the other port.
    fn gateways(self) -> u32 {
        if self == Kind::Lists { GATEWAYS_OF_MANY } else { GATEWAYS }
    }

    /// What the kernel reports of one prefix.
    pub(super) fn events(self, (prefix, hop): &(Prefix<u32>, Hop)) -> Vec<Event> {
        let best = hop.0 % GATEWAYS;
        // Whatever the best is: as many pairs as there can be.
        let other = Rng::new(u64::from(prefix.first())).below(self.gateways() as usize) as u32;
        let one = |port, i| Target::Path(path(port, i));
        let to = |metric, target| route(*prefix, metric, target);
        match self {
            Kind::Second | Kind::Lists => vec![to(10, one(0, best)), to(20, one(1, other))],
            Kind::Ecmp => vec![to(10, Target::Paths([path(0, best), path(1, other)].into()))],
            Kind::Objects => vec![to(10, Target::Object { id: group(best, other), mtu: 0 })],
            Kind::Only => vec![to(10, one(0, best))],
        }
    }
}

pub(super) fn route(prefix: Prefix<u32>, metric: u32, target: Target) -> Event {
    let net = Net::covering(prefix.first().to_ip().into(), prefix.len()).expect("of IPv4");
    let (table, protocol, source) = (MAIN_TABLE, 12, Source::Kernel);
    Event::Route(Route { table, net, metric, protocol, source, target }, How::Listed)
}

/// `p0` loses its carrier, `p1` stays, packets come by `p2`.
pub(super) const PORTS: u16 = 3;
/// Behind each port, as `converge` has them.
const GATEWAYS: u32 = 20;
/// Behind the other port, where there are to be more lists than are kept.
const GATEWAYS_OF_MANY: u32 = 500;
