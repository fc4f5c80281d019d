//! One worker with two ports of memory, polled by a clock of its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use graph::ring::frames;
use graph::{Counter, Graph, clock};
use io::mem::{Peer, connect};
use io::{Device, Pool, PoolConfig};
use lookup::sync::{Domain, Thread};
use nodes::assembly::{Assembly, Common};
use tables::Control;

/// The worker, and what is at the other end of its ports.
pub struct Worker {
    pub graph: Graph,
    /// The other ends of the two ports.
    pub peers: [Peer; 2],
    /// What goes to the kernel.
    pub kernel: frames::Consumer,
    now: u64,
    pool: Pool,
    thread: Thread,
    _to_router: frames::Producer,
}

impl Worker {
    /// A worker of these tables; `build` adds the nodes.
    pub fn new(
        domain: &Arc<Domain>,
        control: &Control,
        build: impl FnOnce(Assembly) -> Assembly,
    ) -> Worker {
        let pool = Pool::new(&PoolConfig { packets: 512, mtu: 2_000, large_pages: false });
        let pool = pool.expect("memory for a small pool");
        let (to_kernel, kernel) = frames::ring(1 << 16);
        let (_to_router, from_kernel) = frames::ring(1 << 12);
        let common = Common::alone(control.forwarding().clone(), (to_kernel, from_kernel), 2);
        let mut graph = build(Assembly::new(common)).finish().build(0).expect("the daemon's graph");
        let peers = [0, 1].map(|port| {
            let (mut device, peer) = connect("p", [2, 0, 0, 0, 0, port], &pool);
            let queue = device.start(1).expect("a device of memory").remove(0);
            graph.ports().set(port.into(), queue);
            peer
        });
        let (thread, now) = (domain.register("fuzz"), clock::now());
        Worker { graph, peers, kernel, now, pool, thread, _to_router }
    }

    /// Time goes 2^(shift & 63) ticks on, or back (bit 7), unless it would overflow.
    pub fn jump(&mut self, shift: u8) {
        let step = 1 << (shift & 63);
        let is_back = shift & 128 != 0;
        let to = if is_back { self.now.checked_sub(step) } else { self.now.checked_add(step) };
        self.now = to.unwrap_or(self.now);
    }

    /// Polls until nothing comes any more. The accounting law holds then, and no packet of
    /// the pool is lost (those in a port that was taken out do not count: `all_there`).
    pub fn run(&mut self, all_there: bool) {
        self.now = self.now.saturating_add(POLL);
        for _ in 0..64 {
            if self.graph.poll_at(self.now, self.thread.guard()) == 0 {
                break;
            }
            self.thread.quiesce();
        }
        self.thread.quiesce();
        let law = self.graph.stats().snapshot().law;
        assert!(law.holds(), "{law:?}");
        if all_there {
            let lost = self.pool.size() as u64 - self.pool.available() as u64;
            assert_eq!(lost, law.held, "packets of the pool");
        }
    }

    /// Lets go what it holds. Returns how many packets it has received, and what it has
    /// dropped, by node and reason, beside `counts`, without those that are 0.
    pub fn end(mut self, counts: &[(&str, &Counter)]) -> (u64, BTreeMap<String, u64>) {
        while self.graph.drain(self.thread.guard()) > 0 {
            self.thread.quiesce();
        }
        let law = self.graph.stats().balance();
        assert!(law.holds() && law.held == 0, "{law:?}");
        let snapshot = self.graph.stats().snapshot();
        let drops = snapshot.drops.iter();
        let drops = drops.map(|of| (format!("{}.{}", of.node, of.reason), of.packets));
        let counts = counts.iter().map(|(name, counter)| (name.to_string(), counter.get()));
        let all = drops.chain(counts).filter(|(_, count)| *count > 0).collect();
        (law.received, all)
    }
}

/// Ticks between two steps.
const POLL: u64 = 1 << 12;
