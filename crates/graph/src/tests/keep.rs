//! Nodes that keep packets: over polls, to a stop, to another graph, to a port's end.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lookup::Hop;
use lookup::sync::Domain;
use proptest::prelude::*;

use super::{Answer, Bad, Bench, Branch, Drop, Id, Long, MOST, Out, Right, Spare, bench, frame};
use crate::ring::{frames, spsc};
use crate::{
    Builder, Capture, Due, Graph, Idle, Kept, Lanes, Node, Point, Trace, Unsent, View, Worker,
    WorkerConfig, clock,
};

crate::labels! { enum On { Right = "right" carries [Id, Answer, Long, Spare] } }

/// In the place of `left`: keeps packets of odd numbers until `open`, or for `delay`.
struct Queue<const OTHER: bool> {
    kept: VecDeque<Kept>,
    open: Arc<AtomicBool>,
    delay: Option<u64>,
    due: Due,
}

fn queue<const OTHER: bool>(open: &Arc<AtomicBool>) -> Queue<OTHER> {
    Queue { kept: VecDeque::with_capacity(4096), open: open.clone(), delay: None, due: Due::NEVER }
}

impl<const OTHER: bool> Node for Queue<OTHER> {
    type Edge = On;
    type Drop = Bad;
    const NAME: &'static str = "left";
    const HELP: &'static str = "keeps odd packets";
    const READS: Lanes = Lanes::of::<(Id, Answer, Long, Spare)>();
    const TICKS: bool = true;
    const KEEPS: bool = true;

    fn process(&mut self, v: &mut View<'_, Self>) {
        v.leave_all(On::Right);
        for i in (0..v.n()).filter(|&i| v.head(i)[8] % 2 == 1).collect::<Vec<_>>() {
            assert!(v.advance(i, 14)); // must be forgotten
            let kept = v.keep(i).unwrap();
            assert!(v.keep(i).is_none() && v.len(i) == 0);
            v.head_mut(i).fill(0xee); // a hole is nobody's
            v.before_mut(i).fill(0xee);
            assert!(!v.advance(i, 1) && kept.port() == v.port());
            self.kept.push_back(kept);
        }
        if let Some(delay) = self.delay
            && self.due == Due::NEVER
        {
            self.due = Due::at(v.now() + delay);
        }
    }

    fn tick(&mut self, v: &mut View<'_, Self>) -> Due {
        if !self.due.has_come(v.now()) && !self.open.load(Ordering::Relaxed) {
            return self.due;
        }
        while let Some(kept) = self.kept.pop_front() {
            match v.emit(kept) {
                Ok(i) => {
                    let id = u32::from(v.head(i)[8]) | u32::from(v.head(i)[9]) << 8;
                    v.set(Id, i, id);
                    v.set(Answer, i, Hop(id));
                    v.set(Long, i, id.into());
                    v.set(Spare, i, id);
                    if id % 7 == 0 { v.drop(i, Bad::Odd) } else { v.leave(i, On::Right) }
                }
                Err(Unsent::Full(kept)) => {
                    self.kept.push_front(kept);
                    return Due::NOW;
                }
                Err(Unsent::Gone(kept)) => v.discard(kept, Bad::Even),
            }
        }
        self.due = Due::NEVER;
        Due::NEVER
    }

    fn abandon(&mut self) -> Option<(Kept, Bad)> {
        Some((self.kept.pop_front()?, Bad::Even))
    }

    fn take_over(&mut self, old: &mut Self) {
        self.kept.append(&mut old.kept);
    }
}

fn graph<const OTHER: bool>(queue: Queue<OTHER>) -> Graph {
    Builder::new("branch")
        .node(Branch::<0>)
        .node(queue)
        .node(Right)
        .node(Out)
        .node(Drop)
        .build(0)
        .unwrap()
}

/// A bench whose graph has a queue, and what opens it.
fn keeping() -> (Bench, Arc<AtomicBool>) {
    let (mut bench, open) = (bench(), Arc::new(AtomicBool::new(false)));
    let port = bench.graph.ports().remove(0).unwrap();
    bench.graph = graph(queue::<false>(&open));
    bench.graph.ports().set(0, port);
    (bench, open)
}

impl Bench {
    fn held(&self) -> u64 {
        let counts = self.graph.stats().snapshot();
        assert!(counts.law.holds(), "{:?}", counts.law);
        assert_eq!(counts.law.held, counts.node("left").unwrap().held);
        counts.law.held
    }
}

fn ids(frames: &[Vec<u8>]) -> Vec<usize> {
    frames.iter().map(|frame| usize::from(frame[8]) | usize::from(frame[9]) << 8).collect()
}

#[test]
fn a_vector_that_is_kept_whole_ends_there() {
    let (mut bench, open) = keeping();
    (0..3).for_each(|i| bench.peer.push(&frame(0, 2 * i + 1)));
    assert_eq!((bench.graph.poll(bench.thread.guard()), bench.held()), (3, 3));
    assert!(bench.peer.take().is_empty());
    open.store(true, Ordering::Relaxed);
    // Not due, and no traffic: it does not tick.
    assert_eq!((bench.graph.poll(bench.thread.guard()), bench.held()), (0, 3));
    assert_eq!(ids(&bench.run(&[0, 0, 0])), [0, 2, 1, 3, 5, 1]);
    assert_eq!((bench.held(), bench.pool.available()), (0, bench.pool.size()));
}

proptest! {
    #[test]
    fn what_is_kept_comes_later_and_the_rest_at_once(
        bursts in proptest::collection::vec(
            (proptest::collection::vec(prop_oneof![5 => Just(0_u8), 1 => 0..5_u8], 0..MOST / 3), any::<bool>()),
            0..8,
        ),
    ) {
        let (mut bench, open) = keeping();
        let (mut waiting, mut dropped) = (Vec::new(), 0);
        for (choices, opens) in bursts {
            open.store(opens, Ordering::Relaxed);
            let sent = bench.run(&choices);
            let odd = |&id: &usize| choices[id] == 0 && id % 2 == 1;
            waiting.extend((0..choices.len()).filter(odd));
            let mut want: Vec<_> = (0..choices.len()).filter(|id| choices[*id] < 3 && !odd(id)).collect();
            if opens && !choices.is_empty() {
                dropped += waiting.iter().filter(|id| *id % 7 == 0).count();
                want.extend(waiting.drain(..).filter(|id| id % 7 != 0));
            }
            let mut came = ids(&sent);
            // Those that were kept come in their order.
            let late: Vec<_> = came.iter().copied().filter(|id| choices.get(*id) == Some(&0) && id % 2 == 1).collect();
            prop_assert!(late.len() > 100 || late.is_sorted() || opens);
            came.sort_unstable();
            want.sort_unstable();
            prop_assert_eq!(came, want);
            prop_assert_eq!(bench.held(), waiting.len() as u64);
            prop_assert_eq!(bench.pool.available() + waiting.len(), bench.pool.size());
        }
        prop_assert_eq!(bench.graph.stats().snapshot().dropped("left", "odd") as usize, dropped);
        while bench.graph.drain(bench.thread.guard()) > 0 {}
        prop_assert_eq!(bench.graph.stats().snapshot().dropped("left", "even") as usize, waiting.len());
        prop_assert_eq!((bench.held(), bench.pool.available()), (0, bench.pool.size()));
    }
}

#[test]
fn a_removed_port_leaves_packets_that_are_discarded() {
    let (mut bench, open) = keeping();
    bench.run(&[0; 20]);
    assert_eq!(bench.held(), 10);
    let port = bench.graph.ports().remove(0).unwrap();
    bench.graph.ports().set(3, port); // another port of their world frees them
    open.store(true, Ordering::Relaxed);
    bench.peer.push(&frame(3, 0)); // traffic, dropped
    bench.graph.poll(bench.thread.guard());
    assert_eq!((bench.held(), bench.pool.available()), (0, bench.pool.size()));
    assert_eq!(bench.graph.stats().snapshot().dropped("left", "even"), 10);
}

fn start(graph: Graph) -> Worker {
    let config = WorkerConfig {
        name: "keeper".into(),
        number: 0,
        core: None,
        idle: Idle::Adaptive,
        bell: crate::Bell::new().unwrap(),
    };
    Worker::start(config, &Domain::new(), graph).unwrap()
}

/// Pushes `n` packets to a running worker and waits until it has them.
fn push(worker: &Worker, peer: &io::mem::Peer, n: usize) {
    let received = || worker.call(|graph| graph.stats().balance().received).unwrap();
    let before = received();
    (0..n).for_each(|id| peer.push(&frame(0, id)));
    while received() < before + n as u64 {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_stop_drops_by_name_what_is_kept() {
    let (Bench { graph, peer, pool, .. }, _) = keeping();
    let worker = start(graph);
    push(&worker, &peer, 2 * MOST);
    assert_eq!(worker.call(|graph| graph.stats().balance().held).unwrap(), MOST as u64);
    let graph = worker.stop().unwrap();
    let counts = graph.stats().snapshot();
    assert_eq!((counts.dropped("left", "even"), counts.law.held), (MOST as u64, 0));
    assert!(counts.law.holds() && counts.law.transmitted == MOST as u64);
    assert_eq!((peer.take().len(), pool.available()), (MOST, pool.size()));
}

#[test]
fn an_idle_worker_hands_on_what_is_kept_in_time() {
    let (Bench { peer, pool, graph: mut empty, .. }, open) = keeping();
    let delay = Some(clock::ticks(Duration::from_millis(200)));
    let mut timed = graph(Queue { delay, ..queue::<false>(&open) });
    timed.ports().set(0, empty.ports().remove(0).unwrap());
    let worker = start(timed);
    push(&worker, &peer, 4);
    let mut sent = peer.take();
    for _ in 0..2_000 {
        sent.extend(peer.take());
        std::thread::sleep(Duration::from_millis(1));
        if sent.len() == 4 {
            break;
        }
    }
    assert_eq!(ids(&sent), [0, 2, 1, 3]);
    assert!(worker.stop().unwrap().stats().balance().holds());
    assert_eq!(pool.available(), pool.size());
}

#[test]
fn a_swap_hands_over_what_is_kept_or_drops_it_by_name() {
    let (Bench { graph: first, peer, pool, .. }, open) = keeping();
    let worker = start(first);
    push(&worker, &peer, 20);
    // The same node: its packets go on, and are sent by the new graph.
    let old = worker.swap(graph(queue::<false>(&open))).unwrap();
    assert_eq!((old.stats().balance().held, old.stats().balance().dropped), (10, 0));
    drop(old);
    let law = worker.call(|graph| graph.stats().balance()).unwrap();
    assert!(law.holds() && law.held == 10, "{law:?}");
    open.store(true, Ordering::Relaxed);
    push(&worker, &peer, 1);
    let law = worker.call(|graph| graph.stats().balance()).unwrap();
    assert_eq!((law.held, law.transmitted, law.dropped), (0, 20, 1));
    open.store(false, Ordering::Relaxed);
    push(&worker, &peer, 20);
    // Another type of the same name: dropped.
    drop(worker.swap(graph(queue::<true>(&open))).unwrap());
    let counts = worker.call(|graph| graph.stats().snapshot()).unwrap();
    assert_eq!((counts.law.held, counts.dropped("left", "even")), (0, 10));
    assert!(counts.law.holds());
    worker.stop().unwrap();
    assert_eq!(pool.available(), pool.size());
}

#[test]
fn a_trace_follows_a_kept_packet_and_a_new_one_does_not() {
    let (mut bench, open) = keeping();
    let start = |bench: &mut Bench| {
        let (producer, steps) = spsc::ring(64);
        bench.graph.set_trace(Some(Trace { packets: 2, filter: None, ring: producer }));
        steps
    };
    let seen = |bench: &Bench, steps: &mut spsc::Consumer<crate::Step>| {
        let mut seen = Vec::new();
        while let Some(step) = steps.pop() {
            let (node, label) = step.describe(bench.graph.stats());
            seen.push(format!("{} {node} {label}", step.packet));
        }
        seen
    };
    let (ring, mut frames) = frames::ring(1 << 16);
    let points = vec![Point::Received];
    bench.graph.set_capture(Some(Capture { points, filter: None, snap: 20, ring }));
    let mut steps = start(&mut bench);
    bench.run(&[0, 0, 0]);
    let want =
        ["1 branch left", "2 branch left", "2 left kept", "1 left right", "1 right out", "1 out "];
    assert_eq!(seen(&bench, &mut steps), want);
    open.store(true, Ordering::Relaxed);
    bench.run(&[0]);
    assert_eq!(seen(&bench, &mut steps), ["2 left right", "2 right out", "2 out "]);
    open.store(false, Ordering::Relaxed);
    let mut old = start(&mut bench);
    bench.run(&[2, 0]);
    assert_eq!(seen(&bench, &mut old).last().unwrap(), "2 left kept");
    let mut new = start(&mut bench);
    open.store(true, Ordering::Relaxed);
    bench.run(&[2]);
    assert_eq!(seen(&bench, &mut new), ["1 branch out", "1 out "]);
    assert_eq!(bench.peer.take().len() + frames.is_empty() as usize, 0);
    let mut captured = 0;
    while frames.pop(|_, _| captured += 1).is_some() {}
    assert_eq!((captured, bench.held()), (7, 0)); // what was kept was received once
}
