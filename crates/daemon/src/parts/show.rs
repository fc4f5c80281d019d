//! Builds the API's replies from counters and tables.

use api::reply::{self, Accounting, Drop, Edge, Node, NodeRuntime, Runtime};
use graph::{Balance, Snapshot, Stats};
use tables::show::{IfaceInfo, VrfInfo};
use tables::{Control, Outer};

use super::starving::Starved;
use super::workers::Workers;
use crate::config::Mac;

/// The sum of all workers' counters.
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
        held: law.held,
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
    drops.sort_by_key(|drop| std::cmp::Reverse(drop.packets)); // stable: ties keep the graph's order
    drops
}

/// The load of each worker.
pub fn runtime(workers: &Workers, starved: &[Starved]) -> Runtime {
    let tsc_hz = graph::clock::hz();
    let numbered = workers.threads.iter().zip(&workers.cores).zip(&workers.stats).enumerate();
    type Numbered<'w> = (usize, ((&'w graph::Worker, &'w u16), &'w std::sync::Arc<Stats>));
    let worker = |(number, ((worker, core), stats)): Numbered<'_>| {
        let starved = starved.get(number).copied().unwrap_or_default();
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
            starved_ns: starved.waited.as_nanos() as u64,
            starved_s_ago: starved.last.map(|last| last.elapsed().as_secs()),
            nodes: std::iter::once(receive).chain(nodes).collect(),
        }
    };
    Runtime { tsc_hz, workers: numbered.map(worker).collect() }
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
        tables::Tags::QinQ(Outer::Dot1ad, outer, inner) => format!("{outer}.{inner}"),
        tables::Tags::QinQ(kind, outer, inner) => format!("{outer}.{inner} ({:#x})", kind as u16),
    }
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
