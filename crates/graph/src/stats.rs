//! Counters: written by one worker, read by anyone.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::card::{Card, DROP};
use crate::inset::Insets;

/// A counter with one writing thread: a load and a store, no locked operation.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds; only the one writer may call it.
    #[inline(always)]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// Takes off; only the one writer may call it.
    #[inline]
    pub(crate) fn less(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_sub(n), Ordering::Relaxed);
    }

    /// Replaces the value; only the one writer may call it.
    #[inline]
    pub fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }

    /// The value; any thread.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counters of one node.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct NodeStats {
    pub vectors: Counter,
    pub packets: Counter,
    pub cycles: Counter,
    pub edges: [Counter; 32],
    /// Packets that it keeps now.
    pub held: Counter,
}

impl NodeStats {
    #[inline(always)]
    pub fn visit(&self, packets: usize, cycles: u64) {
        self.vectors.add(1);
        self.packets.add(packets as u64);
        self.cycles.add(cycles);
    }
}

/// Terms of the accounting law (beside the drops): what a worker took in equals
/// what it gave out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(usize)]
pub enum Account {
    /// In: received by ports; the graph counts these.
    Received,
    /// In: frames from the kernel.
    FromKernel,
    /// In: packets handed over by other workers.
    FromWorkers,
    /// In: copies made by flooding.
    Copies,
    /// Out: accepted by ports.
    Transmitted,
    /// Out: copied to the kernel.
    Punted,
    /// Out: handed over to other workers.
    HandedOver,
    /// Neither: packets that were copied because they crossed from one world
    /// of buffers into the other, or to another worker.
    Crossed,
    /// Held: put into a ring of the same worker.
    Detoured,
    /// No longer held: taken out of such a ring.
    Returned,
}

/// The accounting law, counted.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Law([Counter; 10]);

impl Law {
    #[inline]
    pub fn add(&self, term: Account, n: u64) {
        self.0[term as usize].add(n);
    }

    fn get(&self, term: Account) -> u64 {
        self.0[term as usize].get()
    }
}

/// A node's place in its graph: names for its counters.
#[derive(Debug)]
pub(crate) struct Place {
    pub card: Card,
    /// For each edge, the node that it leads to.
    pub next: Vec<usize>,
    /// Index of its first drop reason.
    pub reasons: usize,
}

/// A graph's counters, shared with the control plane.
#[derive(Debug)]
pub struct Stats {
    pub(crate) places: Vec<Place>,
    pub(crate) nodes: Vec<NodeStats>,
    pub(crate) drops: Vec<Counter>,
    pub(crate) law: Law,
    pub(crate) receive: NodeStats,
    /// Without insets.
    pub(crate) entry: usize,
    pub(crate) insets: Insets,
    /// Packets dropped for reasons that the graph before this one had and this
    /// one has not.
    former: Counter,
}

impl Stats {
    pub(crate) fn new(places: Vec<Place>, insets: Insets, entry: usize) -> Stats {
        let reasons = places.iter().map(|place| place.card.drops.len()).sum();
        Stats {
            nodes: places.iter().map(|_| NodeStats::default()).collect(),
            drops: (0..reasons).map(|_| Counter::default()).collect(),
            law: Law::default(),
            receive: NodeStats::default(),
            places,
            entry,
            insets,
            former: Counter::default(),
        }
    }

    /// Goes on from the counters of the graph before it: nodes, edges and
    /// reasons are matched by name. To be called before this graph works.
    pub(crate) fn take_over(&self, old: &Stats) {
        let before = old.snapshot();
        for (place, stats) in self.places.iter().zip(&self.nodes) {
            let Some(node) = before.node(place.card.name) else { continue };
            stats.vectors.add(node.vectors);
            stats.packets.add(node.packets);
            stats.cycles.add(node.cycles);
            stats.held.add(node.held);
            for edge in &node.edges {
                match place.card.edges.iter().position(|name| *name == edge.name) {
                    Some(code) => stats.edges[code].add(edge.packets),
                    None if edge.name == "drop" => stats.edges[DROP_EDGE].add(edge.packets),
                    None => {}
                }
            }
        }
        let mut lost = before.law.dropped;
        let reasons = self
            .places
            .iter()
            .flat_map(|place| place.card.drops.iter().map(|reason| (place.card.name, *reason)));
        for ((node, reason), counter) in reasons.zip(&self.drops) {
            let dropped = before.dropped(node, reason);
            counter.add(dropped);
            lost -= dropped;
        }
        self.former.add(lost);
        self.receive.vectors.add(before.receive.vectors);
        self.receive.packets.add(before.receive.packets);
        self.receive.cycles.add(before.receive.cycles);
        for (term, earlier) in self.law.0.iter().zip(&old.law.0) {
            term.add(earlier.get());
        }
    }

    /// All counters now. While the worker runs they are of slightly different
    /// moments.
    pub fn snapshot(&self) -> Snapshot {
        let node = |(i, (place, stats)): (usize, (&Place, &NodeStats))| NodeCount {
            name: place.card.name,
            help: place.card.help,
            source: place.card.source,
            vectors: stats.vectors.get(),
            packets: stats.packets.get(),
            cycles: stats.cycles.get(),
            held: stats.held.get(),
            edges: self.edges(i, place, stats),
        };
        let drops = self.places.iter().flat_map(|place| {
            let counters = &self.drops[place.reasons..];
            let reasons = place.card.drops.iter().zip(place.card.drops_help).zip(counters);
            reasons.map(|((reason, help), counter)| DropCount {
                node: place.card.name,
                reason,
                help: help.trim().trim_end_matches('.'),
                packets: counter.get(),
            })
        });
        Snapshot {
            receive: Receive {
                vectors: self.receive.vectors.get(),
                packets: self.receive.packets.get(),
                cycles: self.receive.cycles.get(),
            },
            nodes: self.places.iter().zip(&self.nodes).enumerate().map(node).collect(),
            drops: drops.collect(),
            law: self.balance(),
            entry: self.places[self.insets.resolve(None, self.entry)].card.name,
        }
    }

    fn edges(&self, from: usize, place: &Place, stats: &NodeStats) -> Vec<EdgeCount> {
        let names = place.card.edges.iter().zip(&place.next).zip(&stats.edges);
        let mut edges: Vec<_> = names
            .map(|((name, &to), count)| EdgeCount {
                name,
                to: self.places[self.insets.resolve(Some(from), to)].card.name,
                packets: count.get(),
            })
            .collect();
        if !place.card.drops.is_empty() && !place.card.edges.is_empty() {
            let packets = stats.edges[DROP_EDGE].get();
            edges.push(EdgeCount { name: "drop", to: "drop", packets });
        }
        edges
    }

    /// The terms of the accounting law.
    pub fn balance(&self) -> Balance {
        let [detoured, returned] =
            [Account::Detoured, Account::Returned].map(|it| self.law.get(it));
        let detours = detoured.saturating_sub(returned); // read while the worker writes
        Balance {
            received: self.law.get(Account::Received),
            from_kernel: self.law.get(Account::FromKernel),
            from_workers: self.law.get(Account::FromWorkers),
            copies: self.law.get(Account::Copies),
            transmitted: self.law.get(Account::Transmitted),
            punted: self.law.get(Account::Punted),
            handed_over: self.law.get(Account::HandedOver),
            dropped: self.drops.iter().map(Counter::get).sum::<u64>() + self.former.get(),
            held: self.nodes.iter().map(|node| node.held.get()).sum::<u64>() + detours,
            crossed: self.law.get(Account::Crossed),
        }
    }
}

const DROP_EDGE: usize = DROP as usize;

/// The accounting law: what came in equals what went out. Exact between two
/// polls of the worker.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[allow(missing_docs)]
pub struct Balance {
    pub received: u64,
    pub from_kernel: u64,
    pub from_workers: u64,
    pub copies: u64,
    pub transmitted: u64,
    pub punted: u64,
    pub handed_over: u64,
    pub dropped: u64,
    /// Kept by nodes, or in rings of the same worker, to be handed on later.
    pub held: u64,
    /// Not a term: copies made at a border between worlds or workers.
    pub crossed: u64,
}

impl Balance {
    /// Packets that came in.
    pub fn taken(&self) -> u64 {
        self.received + self.from_kernel + self.from_workers + self.copies
    }

    /// Packets that went out, and those that nodes keep.
    pub fn given(&self) -> u64 {
        self.transmitted + self.punted + self.handed_over + self.dropped + self.held
    }

    /// True when every packet is accounted for.
    pub fn holds(&self) -> bool {
        self.taken() == self.given()
    }
}

/// All counters of a graph at one moment, or of several graphs of the same
/// shape added up.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Snapshot {
    /// What the ports delivered, and the cycles that this took.
    pub receive: Receive,
    /// Each node, in the graph's order.
    pub nodes: Vec<NodeCount>,
    /// Each reason to drop.
    pub drops: Vec<DropCount>,
    /// The accounting law.
    pub law: Balance,
    /// The node that packets from ports enter.
    pub entry: &'static str,
}

/// Reception by the ports.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[allow(missing_docs)]
pub struct Receive {
    pub vectors: u64,
    pub packets: u64,
    pub cycles: u64,
}

/// Counters of one node.
#[derive(Clone, Debug, Eq, PartialEq)]
#[allow(missing_docs)]
pub struct NodeCount {
    pub name: &'static str,
    pub help: &'static str,
    pub source: bool,
    pub vectors: u64,
    pub packets: u64,
    /// TSC cycles.
    pub cycles: u64,
    /// Packets that it keeps now.
    pub held: u64,
    pub edges: Vec<EdgeCount>,
}

/// Packets that took one edge.
#[derive(Clone, Debug, Eq, PartialEq)]
#[allow(missing_docs)]
pub struct EdgeCount {
    pub name: &'static str,
    /// The node that it leads to.
    pub to: &'static str,
    pub packets: u64,
}

/// Packets dropped for one reason: `node.reason`.
#[derive(Clone, Debug, Eq, PartialEq)]
#[allow(missing_docs)]
pub struct DropCount {
    pub node: &'static str,
    pub reason: &'static str,
    pub help: &'static str,
    pub packets: u64,
}

impl Snapshot {
    /// Adds the counters of another worker's graph. Nodes are matched by name;
    /// those that only `other` has are appended.
    pub fn add(&mut self, other: &Snapshot) {
        self.receive.vectors += other.receive.vectors;
        self.receive.packets += other.receive.packets;
        self.receive.cycles += other.receive.cycles;
        for node in &other.nodes {
            match self.nodes.iter_mut().find(|mine| mine.name == node.name) {
                Some(mine) => mine.add(node),
                None => self.nodes.push(node.clone()),
            }
        }
        for drop in &other.drops {
            let same = |mine: &&mut DropCount| (mine.node, mine.reason) == (drop.node, drop.reason);
            match self.drops.iter_mut().find(same) {
                Some(mine) => mine.packets += drop.packets,
                None => self.drops.push(drop.clone()),
            }
        }
        self.law.add(&other.law);
    }

    /// The packets dropped as `node.reason`.
    pub fn dropped(&self, node: &str, reason: &str) -> u64 {
        let same = |drop: &&DropCount| drop.node == node && drop.reason == reason;
        self.drops.iter().find(same).map_or(0, |drop| drop.packets)
    }

    /// The counters of one node.
    pub fn node(&self, name: &str) -> Option<&NodeCount> {
        self.nodes.iter().find(|node| node.name == name)
    }
}

impl NodeCount {
    fn add(&mut self, other: &NodeCount) {
        self.vectors += other.vectors;
        self.packets += other.packets;
        self.cycles += other.cycles;
        self.held += other.held;
        for edge in &other.edges {
            let same = |mine: &&mut EdgeCount| (mine.name, mine.to) == (edge.name, edge.to);
            match self.edges.iter_mut().find(same) {
                Some(mine) => mine.packets += edge.packets,
                None => self.edges.push(edge.clone()),
            }
        }
    }
}

impl Balance {
    fn add(&mut self, other: &Balance) {
        self.received += other.received;
        self.from_kernel += other.from_kernel;
        self.from_workers += other.from_workers;
        self.copies += other.copies;
        self.transmitted += other.transmitted;
        self.punted += other.punted;
        self.handed_over += other.handed_over;
        self.dropped += other.dropped;
        self.held += other.held;
        self.crossed += other.crossed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_workers_add_up() {
        let of = |n: u64, to: &'static str| NodeCount {
            name: "node",
            help: "",
            source: false,
            vectors: n,
            packets: 2 * n,
            cycles: 3 * n,
            held: 4 * n,
            edges: vec![EdgeCount { name: "next", to, packets: 5 * n }],
        };
        let all = |n: u64| Snapshot {
            receive: Receive { vectors: n, packets: 2 * n, cycles: 3 * n },
            nodes: vec![of(n, "drop")],
            drops: vec![DropCount { node: "node", reason: "why", help: "", packets: n }],
            law: Balance { received: n, dropped: n, ..Balance::default() },
            entry: "node",
        };
        let mut sum = all(1);
        sum.add(&all(10));
        assert_eq!(sum, all(11));
        // An edge that only the other one has.
        sum.nodes[0].add(&of(1, "elsewhere"));
        let node = &sum.nodes[0];
        assert_eq!((node.cycles, node.held, node.edges.len()), (36, 48, 2));
    }
}
