//! Builds the API's replies from routing tables.

use std::net::IpAddr;

use api::Family;
use api::apps::router::shown;
use tables::show::{Answer, FibInfo, Lookup, RouteInfo, RouteKind, VrfInfo};
use tables::{Control, Kind};

use crate::config::Mac;
use crate::parts::state::Names;

/// A route for display. Own and broadcast addresses are not routes: `None`.
pub fn route(info: &RouteInfo, vrfs: &[VrfInfo]) -> Option<shown::Route> {
    let kind = match info.kind {
        RouteKind::Unicast => "unicast",
        RouteKind::Blackhole => "blackhole",
        RouteKind::Unreachable => "unreachable",
        RouteKind::Prohibit => "prohibit",
        RouteKind::Throw => "throw",
        RouteKind::Kernel => "kernel",
        RouteKind::Local | RouteKind::Broadcast => return None,
    };
    let hop = |path: &tables::show::PathInfo| shown::NextHop {
        gateway: path.via,
        interface: path.link_name.clone(),
        weight: path.weight,
        state: path.state.map_or("down", |state| state_name(state, path.via.is_none())).into(),
    };
    let vrf = vrfs.iter().find(|vrf| vrf.id == info.vrf);
    Some(shown::Route {
        vrf: vrf.map(|vrf| vrf.name.clone()).unwrap_or_default(),
        prefix: info.net.to_string(),
        kind: kind.into(),
        protocol: protocol(info.protocol),
        metric: info.metric,
        mtu: info.paths.first().map(|path| path.mtu).filter(|mtu| *mtu > 0),
        best: info.best,
        via: info.paths.iter().map(hop).collect(),
    })
}

/// The fate of packets on a path; a connected network has no gateway to resolve.
fn state_name(kind: Kind, connected: bool) -> &'static str {
    match kind {
        Kind::Forward => "forward",
        Kind::NoNeighbour if connected => "forward",
        Kind::NoNeighbour => "no-neighbour",
        Kind::ViaKernel => "via-kernel",
        Kind::Unreachable => "unreachable",
        Kind::Blackhole => "blackhole",
        Kind::ForUs => "for-us",
        Kind::Multicast => "multicast",
        Kind::Martian => "martian",
        Kind::Multipath => "multipath",
        Kind::NoRoute => "no-route",
        Kind::NotReady => "not-ready",
        Kind::Protected => "protected",
        Kind::Bypass => "bypass",
        Kind::Discard => "discard",
    }
}

/// The kernel's numbers of route origins, as in iproute2's `rt_protos`.
fn protocol(number: u8) -> String {
    let name = match number {
        1 => "redirect",
        2 => "kernel",
        3 => "boot",
        4 => "static",
        9 => "ra",
        11 => "zebra",
        12 => "bird",
        16 => "dhcp",
        186 => "bgp",
        187 => "isis",
        188 => "ospf",
        189 => "rip",
        198 => "rutter",
        other => return other.to_string(),
    };
    name.into()
}

/// Neighbours, without the kernel's entries for groups.
pub fn neighbours(control: &Control) -> Vec<shown::Neighbour> {
    let neighbour = |info: tables::show::NeighbourInfo| shown::Neighbour {
        interface: info.link_name,
        address: info.ip,
        mac: info.mac.map(|mac| Mac(mac).to_string()),
        state: info.state.name().into(),
    };
    let all = control.neighbours().into_iter();
    all.filter(|info| !info.ip.is_multicast()).map(neighbour).collect()
}

/// An address that was looked up.
pub fn lookup(
    vrf: &str,
    address: IpAddr,
    found: &Lookup,
    vrfs: &[VrfInfo],
    names: &Names,
) -> shown::Lookup {
    let answer = |answer: &Answer| shown::Answer {
        hop: answer.hop.0,
        action: state_name(answer.kind, false).into(),
        ways: answer
            .ways
            .iter()
            .map(|(iface, station)| shown::Way {
                interface: names.interface(iface.0).unwrap_or_default().into(),
                mac: Mac(*station).to_string(),
            })
            .collect(),
    };
    let stored = found.stored.as_ref();
    shown::Lookup {
        vrf: vrf.into(),
        address,
        engine: found.engine.into(),
        served: answer(&found.served),
        stored: stored
            .map(|(net, of)| shown::Stored { prefix: net.to_string(), answer: answer(of) }),
        same: found.agrees(),
        why: found.why.map(str::to_string),
        route: found.route.as_ref().and_then(|info| route(info, vrfs)),
    }
}

/// The API's word for a family.
fn family(family: tables::Family) -> Family {
    match family {
        tables::Family::V4 => Family::Ipv4,
        tables::Family::V6 => Family::Ipv6,
    }
}

/// Forwarding tables.
pub fn fibs(control: &Control) -> Vec<shown::Fib> {
    let vrfs = control.vrfs();
    let fib = |info: FibInfo| {
        let vrf = vrfs.iter().find(|vrf| vrf.id == info.vrf);
        let counters = info.counters.iter().map(|(name, value)| (name.to_string(), *value));
        shown::Fib {
            vrf: vrf.map(|vrf| vrf.name.clone()).unwrap_or_default(),
            family: family(info.family),
            engine: info.engine.into(),
            routes: info.routes,
            prefixes: info.prefixes,
            table_bytes: info.table_bytes,
            rib_bytes: info.rib_bytes,
            writer_bytes: info.writer_bytes,
            updates: info.updates,
            rebuilds: info.rebuilds,
            refused: info.refused,
            behind: info.behind,
            counters: counters.collect(),
        }
    };
    control.fibs().into_iter().map(fib).collect()
}
