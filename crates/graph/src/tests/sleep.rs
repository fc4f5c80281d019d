//! Workers that sleep until somebody has something for them.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use io::{Burst, Port};
use lookup::sync::Domain;

use super::{Bench, Drop, Out, Straight, bench, frame};
use crate::ring::frames;
use crate::{
    Account, Bell, Builder, Due, Graph, Idle, NoDrop, Node, View, Worker, WorkerConfig, clock,
};

/// A port that wakes, by a bell for want of a socket.
struct Woken {
    port: Box<dyn Port>,
    file: Bell,
}

impl Port for Woken {
    io::around_port!(self.port: rest, transmit);

    fn receive(&mut self, burst: &mut Burst, most: usize) -> usize {
        let n = self.port.receive(burst, most);
        if n > 0 {
            self.file.answer();
            self.file.lie_down();
        }
        n
    }

    fn wakes(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.file())
    }
}

fn start(bench: Bench, wakes: bool) -> (Worker, io::mem::Peer, Bell) {
    let Bench { mut graph, peer, .. } = bench;
    let file = Bell::new().unwrap();
    if wakes {
        let port = graph.ports().remove(0).unwrap();
        file.lie_down();
        graph.ports().set(0, Box::new(Woken { port, file: file.clone() }));
    }
    (begin(graph), peer, file)
}

fn begin(graph: Graph) -> Worker {
    let config = WorkerConfig {
        name: "sleeper".into(),
        number: 0,
        core: None,
        idle: Idle::Adaptive,
        bell: Bell::new().unwrap(),
    };
    Worker::start(config, &Domain::new(), graph).unwrap()
}

/// Polls of an idle worker in 300 ms.
fn polls(worker: &Worker) -> u64 {
    std::thread::sleep(Duration::from_millis(50));
    let before = worker.status().polls;
    std::thread::sleep(Duration::from_millis(300));
    worker.status().polls - before
}

#[test]
fn a_packet_wakes_and_silence_does_not() {
    let (worker, peer, file) = start(bench(), true);
    assert!(polls(&worker) <= 10, "it looks again and again");
    assert!(worker.status().asleep && !worker.status().is_stalled());
    let mut took = Vec::new();
    for id in 0..5 {
        std::thread::sleep(Duration::from_millis(20));
        let start = Instant::now();
        peer.push(&frame(2, id));
        file.ring();
        while peer.take().is_empty() {
            assert!(start.elapsed() < Duration::from_secs(5), "it sleeps on");
            std::thread::yield_now();
        }
        took.push(start.elapsed());
    }
    took.sort_unstable();
    assert!(took[2] < Duration::from_millis(50), "{took:?}");
    worker.stop().unwrap();
}

#[test]
fn a_port_without_a_file_is_polled() {
    let (worker, peer, _) = start(bench(), false);
    let polls = polls(&worker);
    assert!(polls > 50, "{polls} polls");
    peer.push(&frame(2, 0));
    while peer.take().is_empty() {
        std::thread::yield_now();
    }
    worker.stop().unwrap();
}

/// Puts in a packet at each tick, more often than a worker's patience ends.
struct Drip;

impl Node for Drip {
    type Edge = Straight;
    type Drop = NoDrop;
    const NAME: &'static str = "drip";
    const HELP: &'static str = "makes a packet a tick";
    const TICKS: bool = true;

    fn process(&mut self, v: &mut View<'_, Self>) {
        v.leave_all(Straight::Out);
    }

    fn tick(&mut self, v: &mut View<'_, Self>) -> Due {
        let packet = v.ports().get(0).and_then(|port| port.allocate());
        if let Some(mut packet) = packet {
            assert!(packet.fill(&frame(0, 0)) && v.push(packet, 0).is_ok());
            v.account(Account::Copies, 1);
        }
        v.leave_all(Straight::Out);
        Due::at(v.now() + clock::ticks(Duration::from_micros(700)))
    }
}

/// Probes, say: nothing has come, so nothing more is to be expected.
#[test]
#[cfg_attr(miri, ignore)] // it measures time, which passes too slowly there
fn what_nodes_put_in_keeps_nobody_awake() {
    let Bench { graph: mut other, peer, .. } = bench();
    let mut graph = Builder::new("drip").node(Drip).node(Out).node(Drop).build(0).unwrap();
    let (port, file) = (other.ports().remove(0).unwrap(), Bell::new().unwrap());
    graph.ports().set(0, Box::new(Woken { port, file }));
    let worker = begin(graph);
    let begun = Instant::now();
    let (mut asleep, mut came) = (0, 0);
    while asleep < 20 || came < 20 {
        assert!(begun.elapsed() < Duration::from_secs(10), "asleep {asleep} times, {came} packets");
        asleep += u32::from(worker.status().asleep);
        came += peer.take().len();
        std::thread::sleep(Duration::from_micros(300));
    }
    worker.stop().unwrap();
}

#[test]
fn who_takes_frames_out_is_woken_once_for_all() {
    let bell = Bell::new().unwrap();
    let (producer, mut consumer) = frames::ring(1 << 12);
    let mut producer = producer.to_sleeper(bell.clone());
    producer.ring(); // it is awake
    bell.lie_down();
    for _ in 0..3 {
        assert!(producer.push(frames::Meta::default(), &[&[1]]) && bell.is_asleep());
    }
    producer.ring();
    assert!(!bell.is_asleep() && std::iter::from_fn(|| consumer.pop(|_, _| ())).count() == 3);
}
