//! The scheduler under toy nodes: packets carry the edges that they are to take.

mod jobs;
mod keep;
mod lanes;
#[cfg(not(miri))] // in `ppoll`
mod sleep;
mod steady;
mod tick;

use std::sync::Arc;

use io::mem::{Peer, connect};
use io::{Device, Pool, PoolConfig};
use lookup::sync::{Domain, Thread};
use proptest::prelude::*;

use crate::ring::{frames, spsc};
use crate::{
    Account, Builder, Capture, Error, Graph, Idle, Lanes, NoDrop, NoEdge, Node, Point, Stats,
    Status, Trace, View, Worker, WorkerConfig, WorkerError,
};

crate::lanes! {
    /// The packet's number.
    Id = "id": A32 as u32;
    /// The same as a hop.
    Answer = "answer": Hops as lookup::Hop;
    /// The same in 128 bits.
    Long = "long": A128 as u128;
    /// The same in a spare slot.
    Spare = "spare": C32 as u32;
}
crate::labels! {
    enum Fork {
        Left = "left" carries [Id, Answer, Long, Spare],
        Right = "right" carries [Id, Answer, Long, Spare],
        Out = "out",
    }
}
crate::labels! {
    enum Bad {
        /// An odd number,
        /// or what stands for one.
        Odd = "odd",
        Even = "even",
    }
}
crate::labels! { enum Straight { Out = "out" } }

/// Takes the edge that byte `AT` names; 3 and more are drops.
struct Branch<const AT: usize>;

impl<const AT: usize> Node for Branch<AT> {
    type Edge = Fork;
    type Drop = Bad;
    const NAME: &'static str = "branch";
    const HELP: &'static str = "takes the edge that the packet names";

    fn process(&mut self, v: &mut View<'_, Self>) {
        for i in 0..v.n() {
            let head = v.head(i);
            let (choice, id) = (head[AT], u32::from(head[8]) | u32::from(head[9]) << 8);
            v.set(Id, i, id);
            v.set(Answer, i, lookup::Hop(id));
            v.set(Long, i, u128::from(id));
            v.set(Spare, i, id);
            match choice {
                0 => v.leave(i, Fork::Left),
                1 => v.leave(i, Fork::Right),
                2 => v.leave(i, Fork::Out),
                3 => v.drop(i, Bad::Odd),
                _ => v.drop(i, Bad::Even),
            }
        }
    }
}

macro_rules! pass {
    ($type:ident, $name:literal) => {
        struct $type;
        impl Node for $type {
            type Edge = Straight;
            type Drop = NoDrop;
            const NAME: &'static str = $name;
            const HELP: &'static str = "checks the lanes and writes its mark";
            const READS: Lanes = Lanes::of::<(Id, Answer, Long, Spare)>();

            fn process(&mut self, v: &mut View<'_, Self>) {
                for i in 0..v.n() {
                    let id = v.get(Id, i);
                    let others = (v.get(Answer, i).0, v.get(Long, i) as u32, v.get(Spare, i));
                    assert_eq!(others, (id, id, id));
                    let head = v.head_mut(i);
                    assert_eq!(u32::from(head[8]) | u32::from(head[9]) << 8, id);
                    head[10] = $name.as_bytes()[0];
                }
                v.leave_all(Straight::Out);
            }
        }
    };
}
pass!(Left, "left");
pass!(Right, "right");

struct Out;
impl Node for Out {
    type Edge = NoEdge;
    type Drop = Bad;
    const NAME: &'static str = "out";
    const HELP: &'static str = "sends by port 0";

    fn process(&mut self, v: &mut View<'_, Self>) {
        let (packets, ports) = v.sink();
        let port = ports.get(0).expect("the test has port 0");
        let (n, sent) = (packets.len(), port.transmit(packets));
        port.free(&mut packets[sent..]);
        v.account(Account::Transmitted, sent);
        v.count_dropped(Bad::Odd, n - sent);
    }
}

struct Drop;
impl Node for Drop {
    type Edge = NoEdge;
    type Drop = NoDrop;
    const NAME: &'static str = "drop";
    const HELP: &'static str = "frees";

    fn process(&mut self, v: &mut View<'_, Self>) {
        v.free();
    }
}

struct Bench {
    graph: Graph,
    thread: Thread,
    peer: Peer,
    pool: Pool,
}

/// Of a pool: more than a test has on their way.
const PACKETS: usize = if cfg!(miri) { 160 } else { 1024 };
/// Packets of a random test.
const MOST: usize = if cfg!(miri) { 60 } else { 300 };

fn bench() -> Bench {
    let pool = Pool::new(&PoolConfig { packets: PACKETS, ..PoolConfig::default() }).unwrap();
    let (mut device, peer) = connect("p0", [2, 0, 0, 0, 0, 1], &pool);
    let builder = Builder::new("branch").node(Branch::<0>).node(Left).node(Right);
    let mut graph = builder.node(Out).node(Drop).build(0).unwrap();
    graph.ports().set(0, device.start(1).unwrap().remove(0));
    Bench { graph, thread: Domain::new().register("test"), peer, pool }
}

fn frame(choice: u8, id: usize) -> Vec<u8> {
    let mut frame = vec![0; 60];
    (frame[0], frame[8], frame[9]) = (choice, id as u8, (id >> 8) as u8);
    frame
}

impl Bench {
    fn run(&mut self, choices: &[u8]) -> Vec<Vec<u8>> {
        for (id, &choice) in choices.iter().enumerate() {
            self.peer.push(&frame(choice, id));
        }
        while self.graph.poll(self.thread.guard()) > 0 {
            self.thread.quiesce();
        }
        self.peer.take()
    }
}

#[test]
fn a_worker_polls_obeys_and_stops() {
    let Bench { graph, peer, pool, .. } = bench();
    let stats = graph.stats().clone();
    let domain = Domain::new();
    let config = WorkerConfig {
        name: "worker-0".into(),
        number: 0,
        core: Some(0),
        idle: Idle::Adaptive,
        bell: crate::Bell::new().unwrap(),
    };
    let refused = WorkerConfig { core: Some(100_000), ..config.clone() };
    assert!(matches!(
        Worker::start(refused, &domain, bench().graph),
        Err(WorkerError::Pin { core: 100_000, .. })
    ));
    let worker = Worker::start(config, &domain, graph).unwrap();
    (0..100).for_each(|id| peer.push(&frame(0, id)));
    let mut sent = Vec::new();
    while sent.len() < 100 {
        sent.extend(peer.take());
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert_eq!(worker.call(|graph| graph.worker()).unwrap(), 0);
    let fresh = bench().graph;
    let kept = fresh.stats().clone();
    let old = worker.swap(fresh).unwrap();
    assert_eq!(kept.balance(), stats.balance());
    let packets = |stats: &Stats, node: &str| stats.snapshot().node(node).map(|node| node.packets);
    assert_eq!((packets(&kept, "left"), packets(&kept, "out")), (Some(100), Some(100)));
    assert!(Arc::ptr_eq(old.stats(), &stats) && stats.balance().transmitted == 100);
    let status = worker.status();
    assert!(status.polls > 0 && status.busy() > 0.0, "{status:?}");
    // The fresh graph came with a port 0 of its own; the old one keeps its.
    drop(old);
    let graph = worker.stop().unwrap();
    assert!(graph.stats().balance().holds());
    assert_eq!(pool.available(), pool.size());
}

/// A node with a fault.
struct Faulty;
impl Node for Faulty {
    type Edge = Straight;
    type Drop = NoDrop;
    const NAME: &'static str = "faulty";
    const HELP: &'static str = "panics with packets in its hands";

    fn process(&mut self, v: &mut View<'_, Self>) {
        panic!("{} packets", v.n());
    }
}

/// What unwinds is let go of: no second panic, nobody registered, nobody waits.
#[test]
#[cfg_attr(miri, ignore)] // a worker that dies leaks its packets, which miri reports
fn a_worker_whose_node_panics_is_gone_and_nobody_waits_for_it() {
    let pool = Pool::new(&PoolConfig { packets: PACKETS, ..PoolConfig::default() }).unwrap();
    let (mut device, peer) = connect("p0", [2, 0, 0, 0, 0, 1], &pool);
    let builder = Builder::new("faulty").node(Faulty).node(Drop).connect("faulty", "out", "drop");
    let mut graph = builder.build(0).unwrap();
    graph.ports().set(0, device.start(1).unwrap().remove(0));
    let domain = Domain::new();
    let config = WorkerConfig {
        name: "faulty".into(),
        number: 0,
        core: None,
        idle: Idle::Poll,
        bell: crate::Bell::new().unwrap(),
    };
    let spawn = |name, work| std::thread::Builder::new().name(name).spawn(work);
    let worker = Worker::start_on(config, &domain, graph, spawn).unwrap();
    assert_eq!(worker.call(|graph| graph.worker()).unwrap(), 0); // it goes round
    assert_eq!(domain.threads().len(), 1);
    (0..100).for_each(|id| peer.push(&frame(0, id)));
    let begun = std::time::Instant::now();
    while !domain.threads().is_empty() {
        assert!(begun.elapsed().as_secs() < 10, "a dead worker is registered");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    domain.retire(Box::new(()));
    assert_eq!(domain.reclaim(), 0, "garbage does not wait for it");
    let gone = WorkerError::Gone { worker: "faulty".into() }.to_string();
    let called = worker.call(|graph| graph.worker()).unwrap_err();
    assert_eq!(called.to_string(), gone);
    assert_eq!(worker.stop().err().unwrap().to_string(), gone);
}

#[test]
fn a_worker_that_stops_is_stalled_asleep_or_not() {
    let after = |millis, asleep| {
        let silent_ticks = crate::clock::ticks(std::time::Duration::from_millis(millis));
        let status = Status { polls: 1, busy_ticks: 0, ticks: silent_ticks, silent_ticks, asleep };
        status.is_stalled()
    };
    assert_eq!([50, 200].map(|millis| after(millis, false)), [false, true]);
    assert_eq!([50, 200, 2_000].map(|millis| after(millis, true)), [false, false, true]);
}

proptest! {
    #[test]
    fn every_packet_takes_its_way_and_ways_keep_order(
        choices in proptest::collection::vec(prop_oneof![5 => Just(0_u8), 1 => 0..5_u8], 0..MOST),
    ) {
        let mut bench = bench();
        let sent = bench.run(&choices);
        let id = |frame: &Vec<u8>| usize::from(frame[8]) | usize::from(frame[9]) << 8;
        for choice in 0..3 {
            let want: Vec<_> = (0..choices.len()).filter(|&id| choices[id] == choice).collect();
            let of = sent.iter().filter(|frame| frame[0] == choice);
            prop_assert_eq!(of.map(id).collect::<Vec<_>>(), want);
        }
        for frame in &sent {
            prop_assert_eq!(frame[10], [b'l', b'r', 0][usize::from(frame[0])]);
        }
        let counts = bench.graph.stats().snapshot();
        let of = |codes: &[u8]| choices.iter().filter(|choice| codes.contains(choice)).count();
        prop_assert_eq!(counts.dropped("branch", "odd") as usize, of(&[3]));
        prop_assert_eq!(counts.dropped("branch", "even") as usize, of(&[4]));
        prop_assert_eq!(counts.node("left").unwrap().packets as usize, of(&[0]));
        prop_assert_eq!(counts.node("out").unwrap().packets as usize, of(&[0, 1, 2]));
        prop_assert!(counts.law.holds(), "{:?}", counts.law);
        prop_assert_eq!(bench.pool.available(), bench.pool.size());
    }
}

#[test]
fn a_full_port_is_a_counted_drop() {
    let mut bench = bench();
    bench.peer.accept(5);
    assert_eq!(bench.run(&[0; 20]).len(), 5);
    let counts = bench.graph.stats().snapshot();
    assert_eq!(counts.dropped("out", "odd"), 15);
    let help = |drop: &crate::DropCount| (drop.node == "out").then_some(drop.help);
    assert!(counts.drops.iter().filter_map(help).eq(["An odd number, or what stands for one", ""]));
    assert!(counts.law.holds());
}

#[test]
fn what_does_not_fit_together_is_refused_by_name() {
    let refused = |builder: Builder| builder.build(0).err().unwrap().to_string();
    let open = Builder::new("branch").node(Branch::<0>).node(Right).node(Drop);
    assert_eq!(refused(open), "edges lead nowhere: branch.left, branch.out, right.out");
    assert_eq!(refused(Builder::new("none").node(Drop)), "there is no node `none`");
    assert_eq!(refused(Builder::new("out").node(Out)), "there is no node `drop`");
    let twice = Builder::new("out").node(Out).node(Out).node(Drop);
    assert_eq!(refused(twice), "there are two nodes `out`");
    let cycle = Builder::new("left").node(Left).node(Right).node(Drop);
    let cycle = cycle.connect("left", "out", "right").connect("right", "out", "left");
    assert_eq!(refused(cycle), "packets could go round: left, right");
    let edge = Builder::new("left").node(Left).node(Out).node(Drop).connect("left", "in", "out");
    assert_eq!(edge.build(0).err(), Some(Error::NoEdge { node: "left", edge: "in" }));
}

#[test]
fn a_trace_follows_packets_by_filter() {
    let mut bench = bench();
    let (producer, mut steps) = spsc::ring(64);
    let filter = |frame: &[u8]| frame[0] != 0;
    let trace = Trace { packets: 2, filter: Some(Box::new(filter)), ring: producer };
    assert!(bench.graph.set_trace(Some(trace)).is_none());
    bench.run(&[0, 0, 1, 0, 3, 1]);
    let mut seen = Vec::new();
    while let Some(step) = steps.pop() {
        let (node, label) = step.describe(bench.graph.stats());
        seen.push(format!("{} {node} {label} {}", step.packet, step.data()[8]));
        assert_eq!((step.bytes, step.data().len()), (60, 60));
    }
    let want = ["1 branch right 2", "2 branch odd 4", "1 right out 2", "1 out  2", "2 drop  4"];
    seen.sort();
    let mut want = want.map(str::to_owned);
    want.sort();
    assert_eq!(seen, want);
    bench.graph.set_trace(None);
    bench.run(&[1, 1]);
    assert!(steps.pop().is_none() && bench.graph.lost() == 0);
}

#[test]
fn a_capture_copies_frames() {
    let mut bench = bench();
    let (ring, mut frames) = frames::ring(1 << 16);
    let capture = Capture { points: vec![Point::Received], filter: None, snap: 20, ring };
    bench.graph.set_capture(Some(capture));
    bench.run(&[0, 3]);
    for id in 0..2 {
        let check = |meta: frames::Meta, data: &[u8]| {
            assert_eq!(Point::from_code(meta.kind), Some(Point::Received));
            assert_eq!((meta.info, data.len(), data[8]), (60, 20, id));
        };
        frames.pop(check).unwrap();
    }
    assert!(frames.is_empty());
}

crate::labels! { enum ToBranch { Branch = "branch" } }

/// An inset that leaves packets as they are.
macro_rules! inset {
    ($type:ident, $name:literal, $edges:ident::$edge:ident) => {
        struct $type;
        impl Node for $type {
            type Edge = $edges;
            type Drop = NoDrop;
            const NAME: &'static str = $name;
            const HELP: &'static str = "lets packets pass";

            fn process(&mut self, v: &mut View<'_, Self>) {
                v.leave_all($edges::$edge);
            }
        }
    };
}
inset!(Gate, "gate", ToBranch::Branch);
inset!(First, "first", Straight::Out);
inset!(Second, "second", Straight::Out);

#[test]
fn an_inset_stands_before_a_node_while_it_is_on() {
    let Bench { thread, pool, .. } = bench();
    let (mut device, peer) = connect("p0", [2, 0, 0, 0, 0, 1], &pool);
    let builder = Builder::new("branch").node(Branch::<0>).node(Left).node(Right);
    let builder = builder.inset("out", First, &["right"]).inset("out", Second, &[]);
    let builder = builder.inset("branch", Gate, &[]);
    let mut graph = builder.node(Out).node(Drop).build(0).unwrap();
    graph.ports().set(0, device.start(1).unwrap().remove(0));
    let mut bench = Bench { graph, thread, peer, pool };
    let names = ["gate", "first", "second", "out"];
    let mut passed = |on: &[&str]| {
        for inset in &names[..3] {
            assert!(bench.graph.switch(inset, on.contains(inset)));
        }
        let count = |bench: &Bench| {
            let counts = bench.graph.stats().snapshot();
            names.map(|name| counts.node(name).map_or(0, |node| node.packets))
        };
        let before = count(&bench);
        assert_eq!(bench.run(&[0, 0, 0, 1, 2, 3]).len(), 5); // left, left, left, right, out, drop
        let after = count(&bench);
        let drawn = bench.graph.stats().snapshot().draw_all();
        for inset in &names[..3] {
            assert_eq!(drawn.contains(inset), on.contains(inset), "{drawn}");
        }
        std::array::from_fn(|i| after[i] - before[i])
    };
    assert_eq!(passed(&[]), [0, 0, 0, 5]);
    assert_eq!(passed(&["first"]), [0, 4, 0, 5], "but not from `right`");
    assert_eq!(passed(&["second"]), [0, 0, 5, 5]);
    assert_eq!(passed(&["gate", "first", "second"]), [6, 4, 5, 5]);
    assert_eq!(passed(&[]), [0, 0, 0, 5]);
    assert!(!bench.graph.switch("left", true), "no inset");
    assert!(bench.graph.stats().balance().holds());
    let lost = Builder::new("left").node(Left).node(Out).node(Drop).inset("left", First, &[]);
    assert_eq!(lost.build(0).err(), Some(Error::NoEdge { node: "first", edge: "left" }));
}

/// Counts how often it is asked.
struct Asked(Arc<std::sync::atomic::AtomicU64>);
impl Node for Asked {
    type Edge = Straight;
    type Drop = NoDrop;
    const NAME: &'static str = "asked";
    const HELP: &'static str = "has no packets";
    const SOURCE: bool = true;

    fn process(&mut self, _: &mut View<'_, Self>) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

#[test]
fn a_dormant_source_is_not_asked_until_it_is_woken() {
    let count = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let builder = Builder::new("out").node(Out).node(Drop);
    let mut graph = builder.dormant(Asked(count.clone())).build(0).unwrap();
    let domain = Domain::new();
    let mut thread = domain.register("test");
    let mut asked = |graph: &mut Graph| {
        graph.poll(thread.guard());
        graph.drain(thread.guard());
        thread.quiesce();
        count.load(std::sync::atomic::Ordering::Relaxed)
    };
    assert_eq!(asked(&mut graph), 0);
    assert!(graph.wake("asked") && graph.wake("asked"));
    assert_eq!(asked(&mut graph), 2, "a poll and a drain");
    assert!(!graph.wake("out"), "no source");
}

/// `RUTTER_GOLDEN=write cargo test -p graph` regenerates the golden.
#[test]
fn the_drawing() {
    let mut bench = bench();
    bench.run(&[0, 0, 0, 1, 2, 3]);
    let mut counts = bench.graph.stats().snapshot();
    counts.receive.cycles = 60;
    counts.nodes.iter_mut().for_each(|node| node.cycles = node.packets * 7);
    let drawn = counts.draw();
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/graph.txt");
    if std::env::var_os("RUTTER_GOLDEN").is_some() {
        std::fs::write(golden, &drawn).unwrap();
    }
    assert_eq!(drawn, std::fs::read_to_string(golden).unwrap());
    assert!(counts.draw_all().contains("✗ even"));
}
