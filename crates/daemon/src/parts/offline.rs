//! Without a kernel (only mem, pcap, null ports), the configuration gives the events that the
//! mirror would report.

use std::net::IpAddr;

use api::apps::router::RouteKind;
use tables::event::{
    Address, Event, How, Link, LinkId, Neighbour, NeighbourState, Path, Route, Source, Target,
};
use tables::{Control, Net};

use super::devices::Port;
use crate::config::{self, Config, Mac};

/// Links, addresses, connected networks, static routes and neighbours as events.
pub fn events(config: &Config, ports: &[Port]) -> Vec<Event> {
    let mut events = Vec::new();
    let interfaces = config.interfaces().zip(1..);
    for ((carrier, _, interface), index) in interfaces {
        let mac = ports.iter().find(|open| open.config.name == carrier.port()).map(|open| open.mac);
        let table = table_of(config, &interface.vrf);
        events.push(link(index, interface, mac.unwrap_or_default()));
        for net in &interface.addresses {
            let link = LinkId(index);
            events.push(Event::Address(Address { link, ip: net.address, len: net.length }));
            if let Some(covered) = Net::covering(net.address, net.length) {
                let path = Path { link, via: None, weight: 1, mtu: 0 };
                let (net, target) = (covered, Target::Path(path));
                events.push(route(net, table, target, (0, KERNEL), How::Create));
            }
        }
    }
    for entry in &config.neighbours {
        if let Some(index) = index_of(config, &entry.interface) {
            events.push(neighbour(index, entry.address, entry.mac));
        }
    }
    for route in &config.routes {
        match static_route(config, route) {
            Some(event) => events.push(event),
            None => tracing::warn!(
                "static route {}: no interface has a network with its gateway",
                route.prefix
            ),
        }
    }
    events
}

/// A static route as an event; `None` where a gateway is on no interface's network.
pub fn static_route(config: &Config, wanted: &config::Route) -> Option<Event> {
    let path = |via: &config::Via| {
        let link = match &via.interface {
            Some(name) => index_of(config, name)?,
            None => toward(config, via.to?, &wanted.vrf)?,
        };
        Some(Path { link: LinkId(link), via: via.to, weight: via.weight, mtu: 0 })
    };
    let paths: Option<Vec<Path>> = wanted.via.iter().map(path).collect();
    let target = match (wanted.kind, paths?) {
        (RouteKind::Blackhole, _) => Target::Blackhole,
        (RouteKind::Unreachable, _) => Target::Unreachable,
        (RouteKind::Prohibit, _) => Target::Prohibit,
        (RouteKind::Unicast, paths) => match paths.as_slice() {
            [one] => Target::Path(*one),
            _ => Target::Paths(paths.into()),
        },
    };
    let net = Net::covering(wanted.prefix.address, wanted.prefix.length)?;
    let metric = (wanted.metric.unwrap_or(0), crate::kernel::OUR_PROTOCOL);
    Some(route(net, table_of(config, &wanted.vrf), target, metric, How::Replace))
}

/// Removes the static routes of `prefix`; returns whether there was one.
pub fn delete_route(control: &mut Control, table: u32, prefix: Net, metric: Option<u32>) -> bool {
    let filter = tables::show::RouteFilter {
        vrf: control.vrf_by_table(table),
        inside: Some(prefix),
        all: true,
        ..Default::default()
    };
    let (routes, _) = control.routes(&filter, None, 1);
    let ours = routes.into_iter().filter(|route| {
        route.net == prefix
            && route.protocol == crate::kernel::OUR_PROTOCOL
            && metric.is_none_or(|metric| metric == route.metric)
    });
    let gone = |info: tables::show::RouteInfo| {
        let target = target_of(&info);
        let (net, key) = (info.net, (info.metric, info.protocol));
        match route(net, table, target, key, How::Create) {
            Event::Route(route, _) => Event::RouteGone(route),
            other => other,
        }
    };
    let events: Vec<Event> = ours.map(gone).collect();
    control.handle(&events);
    !events.is_empty()
}

fn target_of(info: &tables::show::RouteInfo) -> Target {
    use tables::show::RouteKind as Kind;
    let path = |path: &tables::show::PathInfo| Path {
        link: path.link,
        via: path.via,
        weight: path.weight,
        mtu: path.mtu,
    };
    match info.kind {
        Kind::Blackhole => Target::Blackhole,
        Kind::Unreachable => Target::Unreachable,
        Kind::Prohibit => Target::Prohibit,
        Kind::Throw => Target::Throw,
        Kind::Unicast if info.paths.len() > 1 => {
            Target::Paths(info.paths.iter().map(path).collect())
        }
        Kind::Unicast => info.paths.first().map_or(Target::Kernel, |one| Target::Path(path(one))),
        Kind::Local | Kind::Broadcast | Kind::Kernel => Target::Kernel,
    }
}

/// A permanent neighbour as an event.
pub fn neighbour(link: u32, ip: IpAddr, mac: Mac) -> Event {
    let (link, mac, state) = (LinkId(link), Some(mac.0), NeighbourState::Permanent);
    Event::Neighbour(Neighbour { link, ip, mac, state })
}

/// The number of the interface called `name`.
pub fn index_of(config: &Config, name: &str) -> Option<u32> {
    let mut interfaces = config.interfaces().zip(1..);
    interfaces.find(|((.., interface), _)| interface.name == name).map(|(_, index)| index)
}

/// The kernel's main table.
pub const MAIN: u32 = 254;

/// The kernel's number of the tables of `vrf`.
pub fn table_of(config: &Config, vrf: &str) -> u32 {
    config.vrfs.iter().find(|known| known.name == vrf).map_or(MAIN, |known| known.table)
}

/// The interface whose network contains the address.
fn toward(config: &Config, address: IpAddr, vrf: &str) -> Option<u32> {
    let connected = |net: &config::Net| {
        let same = net.address.is_ipv4() == address.is_ipv4();
        same && Net::covering(address, net.length) == Net::covering(net.address, net.length)
    };
    let mut interfaces = config.interfaces().zip(1..);
    let found = interfaces.find(|((.., interface), _)| {
        interface.vrf == vrf && interface.addresses.iter().any(connected)
    });
    found.map(|(_, index)| index)
}

fn link(index: u32, interface: &config::Interface, mac: Mac) -> Event {
    Event::Link(Link {
        index: LinkId(index),
        name: interface.name.clone(),
        up: true,
        mtu: interface.mtu.into(),
        mac: mac.0,
        ..Link::default()
    })
}

fn route(net: Net, table: u32, target: Target, (metric, protocol): (u32, u8), how: How) -> Event {
    Event::Route(Route { table, net, metric, protocol, source: Source::Kernel, target }, how)
}

/// The kernel's protocol number for itself.
const KERNEL: u8 = 2;
