//! Mirrors in a router of three ports: what comes in by p0 leaves by p1, p2 sees copies.

use std::sync::Arc;

use graph::ring::frames;
use graph::testing::{Counting, uncounted};
use graph::{Graph, Snapshot};
use io::mem::{Peer, Ring, RingDevice, connect};
use io::{Device, Pool, PoolConfig};
use lookup::sync::{Published, Thread};

use super::{Counters, INSETS, Parts, SOURCE, Side, Span, Spans, Target};
use crate::assembly::{Assembly, Common};
use crate::filter::Filter;
use crate::switch::Bridging;
use crate::testbed::{Net, borrowed, to_p0, udp4};
use crate::{router, span, switch};

struct Rig {
    graph: Graph,
    peers: Vec<Peer>,
    spans: Arc<Published<Spans>>,
    counters: Arc<Counters>,
    files: Vec<frames::Consumer>,
    thread: Thread,
    pool: Pool,
    net: Net,
    _rings: (frames::Consumer, frames::Producer),
}

impl Rig {
    fn new(packets: usize) -> Rig {
        let net = Net::new();
        let pool = Pool::new(&PoolConfig { packets, mtu: 1500, large_pages: false }).unwrap();
        let (to_kernel, kernel) = frames::ring(1 << 20);
        let (to_router, from_kernel) = frames::ring(1 << 16);
        let common = Common::alone(net.forwarding.clone(), (to_kernel, from_kernel), 3);
        let spans = Arc::new(Published::new(&net.domain, Spans::default()));
        let counters = Arc::new(Counters::default());
        let ((file_in, a), (file_out, b)) = (frames::ring(1 << 16), frames::ring(1 << 16));
        let files = [file_in, file_out];
        let parts = Parts { spans: spans.clone(), counters: counters.clone(), files };
        let assembly = router::add(switch::add(Assembly::new(common), Bridging::none()));
        let mut graph = span::add(assembly, parts).finish().build(0).unwrap();
        let mut peers = Vec::new();
        for port in 0..3 {
            let (mut device, peer) = connect("p", [2, 0, 0, 0, 0, port as u8], &pool);
            graph.ports().set(port, device.start(1).unwrap().remove(0));
            peers.push(peer);
        }
        let thread = net.domain.register("rig");
        let _rings = (kernel, to_router);
        Rig { graph, peers, spans, counters, files: vec![a, b], thread, pool, net, _rings }
    }

    fn mirror(&mut self, all: impl IntoIterator<Item = Span>) {
        let spans = Spans::new(all);
        for (inset, side) in INSETS.into_iter().zip([Side::In, Side::Out]) {
            assert!(self.graph.switch(inset, spans.look_at(side)));
        }
        assert!(self.graph.wake(SOURCE));
        self.spans.publish(spans);
    }

    /// What each port sends once `frames` came in by p0; every packet is accounted for.
    fn send(&mut self, frames: &[Vec<u8>]) -> [Vec<Vec<u8>>; 3] {
        frames.iter().for_each(|frame| self.peers[0].push(frame));
        self.run();
        std::array::from_fn(|port| self.peers[port].take())
    }

    fn run(&mut self) -> Snapshot {
        while self.graph.poll(self.thread.guard()) > 0 {
            self.thread.quiesce();
        }
        let counts = self.graph.stats().snapshot();
        assert!(counts.law.holds(), "{:?}", counts.law);
        assert_eq!(self.pool.available(), self.pool.size(), "no packet is lost");
        counts
    }
}

fn span(number: usize, ports: &[u16], sides: &[Side], to: Target) -> Span {
    let (ports, sides) = (ports.to_vec(), sides.to_vec());
    Span { number, ports, sides, filter: None, one_in: 1, to }
}

fn frame(last: u8) -> Vec<u8> {
    to_p0(udp4(&format!("10.0.0.{last}")))
}

#[test]
fn frames_are_copied_as_they_came_and_as_they_leave() {
    let mut rig = Rig::new(256);
    assert_eq!(rig.send(&[frame(1)]).map(|sent| sent.len()), [0, 1, 0], "no mirror");
    rig.mirror([span(3, &[0], &[Side::In], Target::Port(2))]);
    let [_, routed, copies] = rig.send(&[frame(1), frame(2)]);
    assert_eq!(copies, [frame(1), frame(2)]);
    rig.mirror([span(3, &[1], &[Side::In, Side::Out], Target::Port(2))]);
    let [_, again, copies] = rig.send(&[frame(1), frame(2)]);
    assert_eq!((&again, &copies), (&routed, &routed), "behind the rewrite");
    assert_eq!(rig.counters.of(3).copied.get(), 4);
    assert_eq!(rig.counters.of(3).bytes.get(), 4 * frame(1).len() as u64);
    rig.mirror([]);
    assert_eq!(rig.send(&[frame(1)]).map(|sent| sent.len()), [0, 1, 0], "no mirror any more");
    assert_eq!(rig.run().law.copies, 4);
}

#[test]
fn copies_are_not_copied() {
    let mut rig = Rig::new(256);
    let all = [Side::In, Side::Out];
    rig.mirror([span(0, &[0, 1], &all, Target::Port(2)), span(1, &[2], &all, Target::Port(0))]);
    let sent = rig.send(&[frame(1)]).map(|sent| sent.len());
    assert_eq!(sent, [0, 1, 2], "in and out, and what p2 got by that is no frame of its own");
}

#[test]
fn filters_shares_and_files() {
    let mut rig = Rig::new(256);
    let filter = "10.0.0.2".parse().unwrap();
    let filter = Some(Filter::Host(crate::filter::Side::Destination, filter));
    let some = Span { filter, ..span(0, &[0], &[Side::In], Target::Port(2)) };
    let share = Span { one_in: 3, ..span(1, &[0], &[Side::In], Target::File) };
    rig.mirror([some, share]);
    let frames: Vec<_> = (1..=9).map(frame).collect();
    let [_, routed, copies] = rig.send(&frames);
    assert_eq!((routed.len(), copies), (9, vec![frame(2)]));
    let mut written = Vec::new();
    while let Some(one) = rig.files[0].pop(|meta, frame| (meta.info, meta.iface, frame.to_vec())) {
        written.push(one);
    }
    assert_eq!(written, [(1, 0, frame(3)), (1, 0, frame(6)), (1, 0, frame(9))]);
    assert_eq!((rig.counters.of(0).copied.get(), rig.counters.of(1).copied.get()), (1, 3));
}

#[test]
fn without_buffers_the_frame_goes_on_and_the_copy_is_counted() {
    let mut rig = Rig::new(64);
    rig.mirror([span(0, &[0], &[Side::In], Target::Port(2))]);
    let frames: Vec<_> = (0..40).map(frame).collect();
    let [_, routed, copies] = rig.send(&frames);
    let counts = rig.run();
    let lost = rig.counters.of(0).no_buffer.get();
    assert_eq!((routed.len(), copies.len() as u64 + lost), (40, 40));
    assert!(lost > 0 && counts.dropped("span_in", "no_buffer") == lost, "{lost}");
}

/// Nor is a reference counted.
#[test]
fn nothing_is_allocated() {
    let config = PoolConfig { packets: 1024, mtu: 1500, large_pages: false };
    let fill = |i: usize, room: &mut [u8]| {
        let frame = frame(i as u8);
        room[..frame.len()].copy_from_slice(&frame);
        frame.len()
    };
    let ring = Ring::new(&config, 1, fill).unwrap();
    let mut rig = Rig::new(64);
    for number in 0..3 {
        let rings = std::slice::from_ref(&ring);
        let mut device = RingDevice::new("m", [2, 0, 0, 0, 0, 1], number, rings, &rig.pool);
        let mut port = device.start(1).unwrap().remove(0);
        port.attach(0);
        drop(rig.graph.ports().set(number, port));
    }
    let all = [Side::In, Side::Out];
    rig.mirror([span(0, &[0, 1], &all, Target::Port(2)), span(1, &[0], &all, Target::File)]);
    let poll = |rig: &mut Rig| {
        let guard = rig.thread.guard();
        let shared = (uncounted(&rig.spans), uncounted(&rig.counters));
        let borrowed = (borrowed(&rig.net.forwarding, guard), shared);
        let before = Counting::allocations();
        rig.graph.poll(guard);
        let allocated = Counting::allocations() - before;
        drop(borrowed);
        rig.thread.quiesce();
        allocated
    };
    // The first poll fills the pools' caches.
    let allocations: Vec<u64> = (0..8).map(|_| poll(&mut rig)).collect();
    assert_eq!(allocations[1..], [0; 7]);
    let copied = [0, 1].map(|number| rig.counters.of(number).copied.get());
    assert!(copied.iter().all(|copied| *copied > 100), "{copied:?}");
}
