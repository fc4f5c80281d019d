//! Workers that sleep until somebody has something for them.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use io::{Allocator, Burst, Owned, Port, World};
use lookup::sync::Domain;

use super::{Bench, bench, frame};
use crate::{Bell, Idle, Worker, WorkerConfig};

/// A port that wakes, by a bell for want of a socket.
struct Woken {
    port: Box<dyn Port>,
    file: Bell,
}

impl Port for Woken {
    fn attach(&mut self, worker: usize) {
        self.port.attach(worker);
    }

    fn receive(&mut self, burst: &mut Burst, most: usize) -> usize {
        let n = self.port.receive(burst, most);
        if n > 0 {
            self.file.answer();
            self.file.lie_down();
        }
        n
    }

    fn transmit(&mut self, packets: &mut [Option<Owned>]) -> usize {
        self.port.transmit(packets)
    }

    fn free(&mut self, packets: &mut [Option<Owned>]) {
        self.port.free(packets);
    }

    fn allocate(&mut self) -> Option<Owned> {
        self.port.allocate()
    }

    fn allocator(&self) -> Allocator {
        self.port.allocator()
    }

    fn world(&self) -> World {
        self.port.world()
    }

    fn wakes(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.file())
    }
}

fn start(bench: Bench, follower: &Bell, wakes: bool) -> (Worker, io::mem::Peer, Bell) {
    let Bench { mut graph, peer, .. } = bench;
    let (bell, file) = (Bell::new().unwrap(), Bell::new().unwrap());
    if wakes {
        let port = graph.ports().remove(0).unwrap();
        file.lie_down();
        graph.ports().set(0, Box::new(Woken { port, file: file.clone() }));
    }
    let config = WorkerConfig {
        name: "sleeper".into(),
        number: 0,
        core: None,
        idle: Idle::Adaptive,
        bell,
        followers: vec![follower.clone()],
    };
    (Worker::start(config, &Domain::new(), graph).unwrap(), peer, file)
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
    let follower = Bell::new().unwrap();
    let (worker, peer, file) = start(bench(), &follower, true);
    assert!(polls(&worker) <= 10, "it looks again and again");
    assert!(worker.status().asleep && !worker.status().is_stalled());
    let mut took = Vec::new();
    for id in 0..5 {
        std::thread::sleep(Duration::from_millis(20));
        follower.lie_down();
        let start = Instant::now();
        peer.push(&frame(2, id));
        file.ring();
        while peer.take().is_empty() {
            assert!(start.elapsed() < Duration::from_secs(5), "it sleeps on");
            std::thread::yield_now();
        }
        took.push(start.elapsed());
        worker.call(|_| ()).unwrap(); // the poll is over
        assert!(!follower.is_asleep(), "who follows it was not woken");
    }
    took.sort_unstable();
    assert!(took[2] < Duration::from_millis(50), "{took:?}");
    worker.stop().unwrap();
}

#[test]
fn a_port_without_a_file_is_polled() {
    let (worker, peer, _) = start(bench(), &Bell::new().unwrap(), false);
    let polls = polls(&worker);
    assert!(polls > 50, "{polls} polls");
    peer.push(&frame(2, 0));
    while peer.take().is_empty() {
        std::thread::yield_now();
    }
    worker.stop().unwrap();
}
