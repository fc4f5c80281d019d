//! Nodes that run by time, and workers that sleep until then.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lookup::sync::Domain;

use super::{Bad, Drop, Out, Straight, bench, frame};
use crate::{Builder, Due, Graph, Idle, NoDrop, Node, View, Worker, WorkerConfig, clock};

/// Passes packets on, and counts its ticks, which it wants every `every` ticks.
struct Beat {
    every: Option<u64>,
    due: Due,
    ticks: Arc<AtomicU64>,
    /// Ticks without a reason: before their time and without packets.
    early: Arc<AtomicU64>,
    busy: bool,
}

impl Node for Beat {
    type Edge = Straight;
    type Drop = NoDrop;
    const NAME: &'static str = "beat";
    const HELP: &'static str = "counts its ticks";
    const TICKS: bool = true;

    fn process(&mut self, v: &mut View<'_, Self>) {
        self.busy = true;
        v.leave_all(Straight::Out);
    }

    fn tick(&mut self, v: &mut View<'_, Self>) -> Due {
        self.ticks.fetch_add(1, Ordering::Relaxed);
        if !std::mem::take(&mut self.busy) && !self.due.has_come(v.now()) {
            self.early.fetch_add(1, Ordering::Relaxed);
        }
        self.due = self.every.map_or(Due::NEVER, |every| Due::at(v.now() + every));
        self.due
    }
}

/// A graph with a [`Beat`]; how often it ticked, and how often early.
fn beating(every: Option<Duration>) -> (Graph, [Arc<AtomicU64>; 2]) {
    let counts = [(); 2].map(|()| Arc::new(AtomicU64::new(0)));
    let [ticks, early] = counts.clone();
    let beat = Beat { every: every.map(clock::ticks), due: Due::NOW, ticks, early, busy: false };
    (Builder::new("beat").node(beat).node(Out).node(Drop).build(0).unwrap(), counts)
}

fn start(graph: Graph) -> Worker {
    let config = WorkerConfig {
        name: "beater".into(),
        number: 0,
        core: None,
        idle: Idle::Adaptive,
        bell: crate::Bell::new().unwrap(),
    };
    Worker::start(config, &Domain::new(), graph).unwrap()
}

#[test]
fn a_node_ticks_with_traffic_and_when_it_is_due() {
    let mut bench = bench();
    let (mut graph, [ticks, early]) = beating(Some(Duration::from_secs(1_000)));
    graph.ports().set(0, bench.graph.ports().remove(0).unwrap());
    let mut poll = |graph: &mut Graph, packets: usize| {
        (0..packets).for_each(|id| bench.peer.push(&frame(0, id)));
        let n = graph.poll(bench.thread.guard());
        bench.thread.quiesce();
        (n, ticks.load(Ordering::Relaxed))
    };
    assert_eq!(graph.due(), Due::NOW);
    assert_eq!(poll(&mut graph, 0), (0, 1)); // the first poll
    assert_eq!((poll(&mut graph, 0), poll(&mut graph, 0)), ((0, 1), (0, 1)));
    assert_eq!((poll(&mut graph, 3), poll(&mut graph, 64)), ((3, 2), (64, 3)));
    assert_eq!(poll(&mut graph, 0), (0, 3));
    assert!(graph.due() > Due::at(clock::now()) && graph.due() != Due::NEVER);
    assert_eq!(early.load(Ordering::Relaxed), 0);
    assert!(graph.must_poll() && graph.stats().balance().holds());

    let (mut graph, [ticks, _]) = beating(Some(Duration::from_millis(1)));
    let end = Instant::now() + Duration::from_millis(10);
    while Instant::now() < end {
        graph.poll(bench.thread.guard());
    }
    let seen = ticks.load(Ordering::Relaxed);
    assert!((1..=11).contains(&seen), "{seen} ticks");
    assert!(!graph.must_poll());
}

#[test]
#[cfg_attr(miri, ignore)] // it measures time, which passes too slowly there
fn an_idle_worker_sleeps_until_the_next_tick() {
    let (graph, [ticks, early]) = beating(Some(Duration::from_millis(5)));
    let worker = start(graph);
    std::thread::sleep(Duration::from_millis(400));
    worker.stop().unwrap();
    let seen = ticks.load(Ordering::Relaxed);
    // Of 80; a worker that slept for as long as it may would have 5.
    assert!((15..=81).contains(&seen), "{seen} ticks");
    assert_eq!(early.load(Ordering::Relaxed), 0);
}

/// Calls that come before, while and after it goes to sleep, which it does 1 ms after the
/// last packet: a call that the sleeper misses waits for 100 ms.
#[test]
#[cfg_attr(miri, ignore)] // it measures time, which passes too slowly there
fn no_call_is_missed_on_the_way_to_sleep() {
    let (graph, _) = beating(None);
    let worker = start(graph);
    let calls = if cfg!(miri) { 20 } else { 400 };
    let slow = (0..calls).filter(|i| {
        let end = Instant::now() + Duration::from_micros(i * 997 % 2_000);
        while Instant::now() < end {
            std::hint::spin_loop();
        }
        let begun = Instant::now();
        worker.call(|_| ()).unwrap();
        begun.elapsed() >= Duration::from_millis(80)
    });
    // A busy machine keeps a thread from its core so long, seldom.
    let slow = slow.count();
    assert!(slow <= 4, "{slow} of {calls} calls");
}

#[test]
#[cfg_attr(miri, ignore)] // it measures time, which passes too slowly there
fn a_call_and_a_stop_wake_a_sleeping_worker() {
    let asleep = |worker: &Worker| {
        while !worker.status().asleep {
            std::thread::sleep(Duration::from_micros(100));
        }
        Instant::now()
    };
    let calls = start(beating(None).0);
    let call = || {
        let from = asleep(&calls);
        assert_eq!(calls.call(|graph| graph.due()).unwrap(), Due::NEVER);
        from.elapsed()
    };
    let stop = || {
        let worker = start(beating(None).0);
        let from = asleep(&worker);
        assert!(!worker.status().is_stalled());
        worker.stop().unwrap();
        from.elapsed()
    };
    // It lies down for 100 ms; the system may take a core away for as long.
    let median = |mut took: Vec<Duration>| {
        took.sort();
        took[took.len() / 2]
    };
    let [call, stop] =
        [(0..9).map(|_| call()).collect(), (0..5).map(|_| stop()).collect()].map(median);
    assert!(call.max(stop) < Duration::from_millis(20), "{call:?}, {stop:?}");
}

/// At its tick puts in packets from port 0's pool, `left` in all.
struct Spring {
    left: usize,
}

impl Node for Spring {
    type Edge = Straight;
    type Drop = Bad;
    const NAME: &'static str = "spring";
    const HELP: &'static str = "makes packets at its tick";
    const TICKS: bool = true;

    fn process(&mut self, v: &mut View<'_, Self>) {
        v.leave_all(Straight::Out);
    }

    fn tick(&mut self, v: &mut View<'_, Self>) -> Due {
        while self.left > 0 {
            let Some(mut packet) = v.ports().get(0).and_then(|port| port.allocate()) else { break };
            assert!(packet.fill(&frame(0, self.left)));
            if let Err(packet) = v.push(packet, 0) {
                v.ports().free(0, &mut [Some(packet)]);
                break;
            }
            v.account(crate::Account::FromKernel, 1);
            self.left -= 1;
        }
        for i in 0..v.n() {
            if v.head(i)[8] == 7 { v.drop(i, Bad::Odd) } else { v.leave(i, Straight::Out) }
        }
        if self.left > 0 { Due::NOW } else { Due::NEVER }
    }
}

#[test]
fn a_tick_puts_packets_in_vector_by_vector() {
    let mut bench = bench();
    let mut graph =
        Builder::new("spring").node(Spring { left: 600 }).node(Out).node(Drop).build(0).unwrap();
    graph.ports().set(0, bench.graph.ports().remove(0).unwrap());
    assert_eq!(graph.poll(bench.thread.guard()), 600);
    assert_eq!((graph.poll(bench.thread.guard()), graph.due()), (0, Due::NEVER));
    let counts = graph.stats().snapshot();
    assert_eq!((bench.peer.take().len(), counts.dropped("spring", "odd")), (597, 3));
    let spring = counts.node("spring").unwrap();
    assert_eq!((spring.packets, spring.edges[0].packets, spring.edges[1].packets), (0, 597, 3));
    assert!(counts.law.holds() && spring.cycles > 0);
    assert_eq!(bench.pool.available(), bench.pool.size());
}
