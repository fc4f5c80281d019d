//! What is measured: a router, or its ports alone, and the check that each packet
//! left by the right next hop.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use graph::{Graph, Snapshot};
use io::Port;
use lookup::Hop;
use lookup::sync::Thread;

use super::frames::{Frames, taken};
use super::source::Source;
use super::tables::Tables;
use crate::slices::{Sample, Work};
use crate::watch::Watch;

/// What was wrong with forwarded packets: one list for all beds of a run.
pub(in crate::experiments) type Faults = Rc<RefCell<Vec<String>>>;

/// One worker's router, and the packets that go round through it.
pub(in crate::experiments) struct Bed<'t, A: Frames> {
    tables: &'t Tables<A>,
    graph: Graph,
    thread: Thread,
    source: Source,
    /// Packets since hop limits were brought back.
    forwarded: u64,
    name: String,
    faults: Faults,
}

impl<'t, A: Frames> Bed<'t, A> {
    /// A worker between the two ports of `source`.
    pub fn new(
        tables: &'t Tables<A>,
        name: &str,
        source: Source,
        faults: &Faults,
    ) -> Result<Self, String> {
        Bed::around(tables, tables.graph(0)?, name, source, faults)
    }

    /// The same of a graph that is more than a router, but sends each packet as a router does.
    pub fn around(
        tables: &'t Tables<A>,
        mut graph: Graph,
        name: &str,
        mut source: Source,
        faults: &Faults,
    ) -> Result<Self, String> {
        for (number, port) in std::mem::take(&mut source.ports).into_iter().enumerate() {
            graph.ports().set(number as u16, port);
        }
        let mut thread = tables.register(name);
        thread.offline();
        let (name, faults) = (name.to_string(), faults.clone());
        Ok(Bed { tables, graph, thread, source, forwarded: 0, name, faults })
    }

    /// Checks where packets went, and brings them back to what they were.
    fn lap_over(&mut self) {
        let (tables, mut wrong) = (self.tables, None);
        let Some(port) = self.graph.ports().get(0) else { return };
        let counted = self.source.each(port, |frame| {
            let (dst, hop) = (A::dst(frame), taken(frame));
            if hop != Hop::NONE && !tables.allows(dst, hop) {
                wrong.get_or_insert((dst, hop));
            }
            A::refresh(frame);
        });
        match counted {
            Ok((seen, all)) if seen == all => {}
            Ok((seen, all)) => self.fault(format!("{seen} of {all} packets are left")),
            Err(error) => self.fault(error),
        }
        if let Some((dst, hop)) = wrong {
            self.fault(format!("{} left by hop {}", dst.to_ip(), hop.0));
        }
        self.forwarded = 0;
    }

    fn fault(&self, what: String) {
        let mut faults = self.faults.borrow_mut();
        if faults.len() < MOST_FAULTS {
            faults.push(format!("{}: {what}", self.name));
        }
    }

    /// Forwards at least `packets`, and checks where they went.
    pub fn forward(&mut self, packets: u64) {
        self.thread.online();
        let mut left = packets;
        while left > 0 {
            let n = self.some(left.min(AT_ONCE));
            left = if n == 0 { 0 } else { left.saturating_sub(n) };
        }
        self.thread.offline();
        self.lap_over();
    }

    /// Polls until at least `packets` came; how many came.
    fn some(&mut self, packets: u64) -> u64 {
        if self.forwarded + packets > self.source.patience() {
            self.lap_over();
        }
        let mut n = 0;
        while n < packets {
            let came = self.graph.poll(self.thread.guard());
            self.thread.quiesce();
            n += came as u64;
            if came == 0 {
                self.fault("no packets come".into());
                return 0;
            }
        }
        self.forwarded += n;
        n
    }

    /// Polls for about `target`, outside of which hop limits are brought back.
    fn poll_for(&mut self, target: Duration) -> Watch {
        let mut watch = Watch::new(target);
        loop {
            if self.forwarded + AT_ONCE > self.source.patience() {
                watch.untimed(|| self.lap_over());
            }
            let n = self.some(AT_ONCE);
            if n == 0 || !watch.lap(n) {
                return watch;
            }
        }
    }
}

impl<A: Frames> Work for Bed<'_, A> {
    fn slice(&mut self, target: Duration) -> Sample {
        let before = self.graph.stats().snapshot();
        self.thread.online();
        let watch = self.poll_for(target);
        self.thread.offline();
        let after = self.graph.stats().snapshot();
        let law = after.law;
        if law.given() != law.transmitted || !law.holds() {
            let lost = after.drops.iter().filter(|drop| drop.packets > 0);
            let lost: Vec<_> = lost.map(|d| format!("{}.{}", d.node, d.reason)).collect();
            self.fault(format!("not every packet was forwarded: {law:?} {}", lost.join(" ")));
        }
        self.lap_over();
        let ops = after.law.transmitted - before.law.transmitted;
        let right = self.faults.borrow().is_empty();
        let sample = watch.sample_of(ops, per_node(&before, &after));
        Sample { checksum: right.then_some(0), ..sample }
    }
}

/// Nanoseconds of each node for each packet received: the parts add up.
pub(in crate::experiments) fn per_node(before: &Snapshot, after: &Snapshot) -> Vec<(String, f64)> {
    let received = (after.receive.packets - before.receive.packets).max(1);
    let nanos = |ticks: u64| ticks as f64 / received as f64 * 1e9 / graph::clock::hz() as f64;
    let mut parts = vec![("receive".into(), nanos(after.receive.cycles - before.receive.cycles))];
    let old: BTreeMap<&str, (u64, u64)> =
        before.nodes.iter().map(|node| (node.name, (node.packets, node.cycles))).collect();
    for node in &after.nodes {
        let (packets, ticks) = old.get(node.name).copied().unwrap_or_default();
        if node.packets > packets {
            parts.push((node.name.to_string(), nanos(node.cycles - ticks)));
        }
    }
    parts
}

/// Receive and transmit, and nothing between: the ports' own cost.
pub(in crate::experiments) struct Shuttle {
    ports: Vec<Box<dyn Port>>,
    burst: Box<io::Burst>,
    /// The first line of each frame is read, as whatever is between reads it.
    reads: bool,
    _source: Source,
}

impl Shuttle {
    /// Between the two ports of `source`.
    pub fn new(mut source: Source) -> Self {
        let ports = std::mem::take(&mut source.ports);
        Shuttle { ports, burst: io::Burst::new(), reads: false, _source: source }
    }

    /// The same, and each frame's first line is read: who writes into frames has their misses
    /// then no more than who does not.
    pub fn reading(self) -> Self {
        Shuttle { reads: true, ..self }
    }
}

/// Waits for the first line of each frame.
fn read(packets: &[Option<io::Owned>]) {
    let word = |packet: &io::Owned| packet.data().get(WORD).copied().unwrap_or_default();
    let all = packets.iter().flatten().fold(0, |all, packet| all ^ word(packet));
    std::hint::black_box(all);
}

impl Work for Shuttle {
    fn slice(&mut self, target: Duration) -> Sample {
        let mut watch = Watch::new(target);
        loop {
            let mut ops = 0;
            for _ in 0..AT_ONCE / (2 * io::VECTOR as u64) {
                for port in &mut self.ports {
                    port.receive(&mut self.burst, io::VECTOR);
                    let packets = self.burst.packets();
                    if self.reads {
                        read(packets);
                    }
                    let sent = port.transmit(packets);
                    port.free(&mut packets[sent..]);
                    self.burst.clear();
                    ops += sent as u64;
                }
            }
            if !watch.lap(ops) {
                return Sample { checksum: Some(0), ..watch.sample() };
            }
        }
    }
}

/// Packets between two looks at the clock.
const AT_ONCE: u64 = 8192;
/// Whose byte is read of each frame: the time to live.
const WORD: usize = 22;
const MOST_FAULTS: usize = 10;

#[cfg(test)]
mod tests {
    use lookup::Prefix;
    use lookup::lpm::{Engines, Intervals};
    use tables::hops::fixed;

    use super::*;
    use crate::data::{Rng, Traffic};

    #[derive(Clone, Copy, PartialEq)]
    enum How {
        Plain,
        Multipath,
        Stamped,
        Null,
    }

    fn forwards<A: Frames>(how: How) {
        let mut rng = Rng::new(3);
        let route = |i: u32| {
            // Unicast on both sides: 16.0.0.0/4 and 1000::/4.
            let high = 1_u128 << 28 | u128::from(rng.next() as u32 >> 4);
            let addr = A::from_u128(high << (u32::from(A::WIDTH) - 32));
            (Prefix::covering(addr, 8 + (i % 17) as u8), Hop(i))
        };
        let mut routes: Vec<_> = (1..200).map(route).collect();
        routes.sort();
        routes.dedup_by_key(|(prefix, _)| *prefix);
        let dsts = Traffic::Prefix.draw(&routes, 1000, 1);
        let (tables, _updater) = Tables::new(&routes, A::DEFAULT, how == How::Multipath).unwrap();
        let source = if how == How::Null { Source::null(&dsts) } else { Source::mem(500, &dsts) };
        let mut source = match source {
            Ok(source) => source,
            Err(reason) => return testing::skip(reason),
        };
        if how == How::Stamped {
            source = source.stamp(&dsts);
        }
        let faults = Faults::default();
        let mut bed = Bed::new(&tables, "bed", source, &faults).unwrap();
        for _ in 0..2 {
            let sample = bed.slice(Duration::from_millis(5));
            assert_eq!(*faults.borrow(), Vec::<String>::new());
            assert!(sample.ops >= AT_ONCE && sample.parts.len() >= 5, "{sample:?}");
        }
    }

    #[test]
    fn every_packet_leaves_by_its_next_hop() {
        forwards::<u32>(How::Plain);
        forwards::<u128>(How::Plain);
    }

    #[test]
    fn every_packet_leaves_by_a_member_of_its_group() {
        forwards::<u32>(How::Multipath);
        forwards::<u128>(How::Multipath);
    }

    #[test]
    fn fresh_destinations_are_forwarded_too() {
        forwards::<u32>(How::Stamped);
        forwards::<u128>(How::Stamped);
    }

    #[test]
    fn packets_of_dpdk_are_forwarded_too() {
        forwards::<u32>(How::Null);
        forwards::<u128>(How::Null);
    }

    /// One packet in 16 leaves by another port than the rest, and overtakes them at each lap.
    #[test]
    fn a_packet_that_overtakes_others_keeps_its_hop_limit() {
        let route = |high: u32| (Prefix::new(high << 28, 4).unwrap(), Hop(high));
        let (tables, _updater) = Tables::new(&[1, 2].map(route), u32::DEFAULT, false).unwrap();
        for few in 1..=2 {
            let high = |n: u32| if n.is_multiple_of(16) { few } else { 3 - few };
            let dsts: Vec<u32> = (0..2_000).map(|n| high(n) << 28 | n).collect();
            let (source, faults) = (Source::mem(dsts.len(), &dsts).unwrap(), Faults::default());
            let mut bed = Bed::new(&tables, "bed", source, &faults).unwrap();
            for _ in 0..2 {
                bed.forward(bed.source.patience());
            }
            let law = bed.graph.stats().snapshot().law;
            assert_eq!(law.given(), law.transmitted, "{law:?}");
            assert_eq!(*faults.borrow(), Vec::<String>::new());
        }
    }

    #[test]
    fn a_wrong_next_hop_is_noticed() {
        let routes = [(Prefix::new(0x1000_0000_u32, 8).unwrap(), Hop(5))];
        let (mut tables, _updater) = Tables::new(&routes, u32::DEFAULT, false).unwrap();
        let other = [(Prefix::<u32>::all(), Hop(fixed::FIRST_FREE + 9))];
        tables.expect_other(Intervals::new(other));
        let faults = Faults::default();
        let source = Source::mem(500, &[0x1000_0001_u32]).unwrap();
        let mut bed = Bed::new(&tables, "bed", source, &faults).unwrap();
        bed.slice(Duration::from_millis(1));
        assert!(faults.borrow()[0].contains("left by hop"), "{faults:?}");
    }
}
