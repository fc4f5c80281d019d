//! From counters and tables to the API's replies.

use api::Family;
use api::reply::{self, Accounting, Drop, Edge, Node, NodeRuntime, Runtime};
use graph::{Balance, Snapshot, Stats};
use tables::show::{FibInfo, IfaceInfo, RouteInfo, RouteKind, VrfInfo};
use tables::{Control, Kind};

use super::workers::Workers;
use crate::config::Mac;

/// All workers' counters added up.
pub fn snapshot<'s>(stats: impl IntoIterator<Item = &'s Stats>) -> Option<Snapshot> {
    let mut all = stats.into_iter().map(Stats::snapshot);
    let mut sum = all.next()?;
    all.for_each(|one| sum.add(&one));
    Some(sum)
}

/// The accounting law's terms.
pub fn accounting(law: &Balance) -> Accounting {
    Accounting {
        received: law.received,
        from_kernel: law.from_kernel,
        from_workers: law.from_workers,
        copies: law.copies,
        transmitted: law.transmitted,
        punted: law.punted,
        handed_over: law.handed_over,
        dropped: law.dropped,
    }
}

/// Nodes and edges.
pub fn nodes(all: &Snapshot) -> Vec<Node> {
    let edge = |edge: &graph::EdgeCount| Edge {
        name: edge.name.into(),
        to: edge.to.into(),
        packets: edge.packets,
    };
    let node = |node: &graph::NodeCount| Node {
        name: node.name.into(),
        help: node.help.into(),
        packets: node.packets,
        edges: node.edges.iter().map(edge).collect(),
    };
    all.nodes.iter().map(node).collect()
}

/// Drops, the most frequent first.
pub fn drops(all: &Snapshot) -> Vec<Drop> {
    let drop = |drop: &graph::DropCount| Drop {
        reason: format!("{}.{}", drop.node, drop.reason),
        packets: drop.packets,
        help: drop.help.into(),
    };
    let mut drops: Vec<Drop> = all.drops.iter().map(drop).collect();
    drops.sort_by_key(|drop| std::cmp::Reverse(drop.packets)); // stable: then in the graph's order
    drops
}

/// What each worker does.
pub fn runtime(workers: &Workers) -> Runtime {
    let tsc_hz = graph::clock::hz();
    let numbered = workers.threads.iter().zip(&workers.cores).zip(&workers.stats);
    let worker = |((worker, core), stats): ((&graph::Worker, &u16), &std::sync::Arc<Stats>)| {
        let (status, counts) = (worker.status(), stats.snapshot());
        let receive = NodeRuntime {
            name: "receive".into(),
            vectors: counts.receive.vectors,
            packets: counts.receive.packets,
            cycles: counts.receive.cycles,
        };
        let nodes = counts.nodes.iter().map(|node| NodeRuntime {
            name: node.name.into(),
            vectors: node.vectors,
            packets: node.packets,
            cycles: node.cycles,
        });
        reply::Worker {
            name: worker.name().into(),
            core: *core,
            alive: !status.is_stalled(),
            polls: status.polls,
            packets: counts.law.taken(),
            busy_cycles: status.busy_ticks,
            cycles: status.ticks,
            nodes: std::iter::once(receive).chain(nodes).collect(),
        }
    };
    Runtime { tsc_hz, workers: numbered.map(worker).collect() }
}

/// A route for people. Own and broadcast addresses are no routes: `None`.
pub fn route(info: &RouteInfo, vrfs: &[VrfInfo]) -> Option<reply::Route> {
    let kind = match info.kind {
        RouteKind::Unicast => "unicast",
        RouteKind::Blackhole => "blackhole",
        RouteKind::Unreachable => "unreachable",
        RouteKind::Prohibit => "prohibit",
        RouteKind::Throw => "throw",
        RouteKind::Kernel => "kernel",
        RouteKind::Local | RouteKind::Broadcast => return None,
    };
    let hop = |path: &tables::show::PathInfo| reply::NextHop {
        gateway: path.via,
        interface: path.link_name.clone(),
        weight: path.weight,
        state: path.state.map_or("down", |state| state_name(state, path.via.is_none())).into(),
    };
    let vrf = vrfs.iter().find(|vrf| vrf.id == info.vrf);
    Some(reply::Route {
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

/// What happens to packets of a path; a connected network has no gateway to be
/// resolved.
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
    }
}

/// The kernel's numbers for who made a route, as in iproute2's `rt_protos`.
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

/// Neighbours; what the kernel keeps for groups is none.
pub fn neighbours(control: &Control) -> Vec<reply::Neighbour> {
    let neighbour = |info: tables::show::NeighbourInfo| reply::Neighbour {
        interface: info.link_name,
        address: info.ip,
        mac: info.mac.map(|mac| Mac(mac).to_string()),
        state: info.state.name().into(),
    };
    let all = control.neighbours().into_iter();
    all.filter(|info| !info.ip.is_multicast()).map(neighbour).collect()
}

/// Interfaces with their counters.
pub fn interfaces(
    (infos, vrfs): &(Vec<IfaceInfo>, Vec<VrfInfo>),
    workers: &Workers,
    ports: &[String],
) -> Vec<reply::Interface> {
    let all = infos.iter().map(|info| {
        let iface = &info.iface;
        let vrf = vrfs.iter().find(|vrf| vrf.id == iface.vrf);
        let sum = |of: fn(&nodes::IfaceCounter) -> &graph::Counter| -> u64 {
            workers.counters.iter().map(|counters| of(counters.of(info.id)).get()).sum()
        };
        let port = ports.get(usize::from(iface.port.0));
        reply::Interface {
            name: iface.name.clone(),
            port: port.cloned().unwrap_or_default(),
            tags: tags(iface.tags),
            mac: Mac(iface.mac).to_string(),
            mtu: iface.mtu,
            vrf: vrf.map(|vrf| vrf.name.clone()).unwrap_or_default(),
            up: iface.up,
            addresses: info.addresses.iter().map(|(ip, len)| format!("{ip}/{len}")).collect(),
            rx_packets: sum(|counter| &counter.rx_packets),
            rx_bytes: sum(|counter| &counter.rx_bytes),
            tx_packets: sum(|counter| &counter.tx_packets),
            tx_bytes: sum(|counter| &counter.tx_bytes),
            ..reply::Interface::default()
        }
    });
    all.collect()
}

fn tags(tags: tables::Tags) -> String {
    match tags {
        tables::Tags::None => String::new(),
        tables::Tags::Dot1q(vlan) => vlan.to_string(),
        tables::Tags::QinQ(outer, inner) => format!("{outer}.{inner}"),
    }
}

/// The API's word for a family.
pub fn family(family: tables::Family) -> Family {
    match family {
        tables::Family::V4 => Family::Ipv4,
        tables::Family::V6 => Family::Ipv6,
    }
}

/// Forwarding tables.
pub fn fibs(control: &Control) -> Vec<reply::Fib> {
    let vrfs = control.vrfs();
    let fib = |info: FibInfo| {
        let vrf = vrfs.iter().find(|vrf| vrf.id == info.vrf);
        let counters = info.counters.iter().map(|(name, value)| (name.to_string(), *value));
        reply::Fib {
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

/// Limits.
pub fn capacity(control: &Control) -> Vec<reply::Capacity> {
    let vrfs = control.vrfs();
    let one = |limit: tables::Capacity| {
        let vrf = limit.vrf.and_then(|id| vrfs.iter().find(|vrf| vrf.id == id));
        let mut what = limit.what.to_string();
        let scope = vrf.map(|vrf| vrf.name.as_str()).into_iter();
        for word in scope.chain(limit.family.map(tables::Family::name)) {
            what = format!("{what} {word}");
        }
        let last = limit.last.map(|last| format!("{}: {}", last.subject, last.reason));
        reply::Capacity {
            what,
            used: limit.used,
            limit: limit.limit,
            refused: limit.refused,
            last: last.unwrap_or_default(),
            key: limit.key.map(str::to_string),
        }
    };
    control.capacity().into_iter().map(one).collect()
}
