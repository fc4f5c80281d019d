//! A whole router between two cables.

use std::sync::Arc;

use graph::ring::frames;
use graph::testing::{Counting, uncounted};
use graph::{Bell, Builder, Capture, Graph, Idle, Point, Snapshot, Worker, WorkerConfig};
use io::mem::{Peer, Ring, RingDevice, connect};
use io::{Device, Pool, PoolConfig, Port, World};
use lookup::sync::Thread;
use tables::{Iface, Ifaces};
use wire::build::Frame;
use wire::ethernet::Mac;
use wire::flow::Hasher;
use wire::vlan::Tag;

use crate::assembly::{Assembly, Common};
use crate::out::output::Remote;
use crate::out::worker_input::Incoming;
use crate::switch::Bridging;
use crate::testbed::{Net, P1, PEER, borrowed, to_p0, udp4, udp6};
use crate::{Class, IfaceCounters, Rates};

/// A router's worker with some of ports 0 and 1, and the other ends of all that
/// goes in and out.
pub(super) struct Rig {
    pub graph: Graph,
    pub peers: Vec<Peer>,
    pub kernel: frames::Consumer,
    /// Of who takes out what is punted.
    pub bell: Bell,
    pub to_router: frames::Producer,
    thread: Thread,
    pool: Pool,
    pub net: Arc<Net>,
    counters: Arc<IfaceCounters>,
}

/// What ties a rig's worker to others.
#[derive(Default)]
pub(super) struct Others {
    pub remotes: Vec<Remote>,
    pub from: Vec<Incoming>,
}

impl Rig {
    pub fn new(rates: &Rates) -> Rig {
        let config = PoolConfig { packets: 4096, mtu: 9000, large_pages: false };
        let pool = Pool::new(&config).unwrap();
        Rig::with(Arc::new(Net::new()), rates, &[0, 1], Others::default(), pool)
    }

    /// With what `add` adds to the router.
    pub fn assembled(add: impl FnOnce(Assembly) -> Assembly) -> Rig {
        let config = PoolConfig { packets: 4096, mtu: 9000, large_pages: false };
        let pool = Pool::new(&config).unwrap();
        let all = |common| crate::switch::add(Assembly::new(common), Bridging::none());
        let build = |common| add(crate::router::add(all(common))).finish();
        let net = Arc::new(Net::new());
        Rig::built(net, &Rates::default(), &[0, 1], Others::default(), pool, build)
    }

    pub fn with(net: Arc<Net>, rates: &Rates, ports: &[u16], others: Others, pool: Pool) -> Rig {
        let build = |common| crate::router_and_switch(common, Bridging::none());
        Rig::built(net, rates, ports, others, pool, build)
    }

    fn built(
        net: Arc<Net>,
        rates: &Rates,
        ports: &[u16],
        others: Others,
        pool: Pool,
        build: impl FnOnce(Common) -> Builder,
    ) -> Rig {
        let (to_kernel, kernel) = frames::ring(1 << 20);
        let bell = Bell::new().unwrap();
        let (to_router, from_kernel) = frames::ring(1 << 16);
        let counters = IfaceCounters::new();
        let common = Common {
            forwarding: net.forwarding.clone(),
            counters: counters.clone(),
            hasher: Hasher::new(1),
            rates: *rates,
            to_kernel: to_kernel.to_sleeper(bell.clone()),
            from_kernel,
            ports: 2,
            remotes: others.remotes,
            from_workers: others.from,
        };
        let mut graph = build(common).build(0).unwrap();
        let mut peers = Vec::new();
        for &port in ports {
            let (mut device, peer) = connect("p", [2, 0, 0, 0, 0, port as u8], &pool);
            graph.ports().set(port, device.start(1).unwrap().remove(0));
            peers.push(peer);
        }
        let thread = net.domain.register("rig");
        Rig { graph, peers, kernel, bell, to_router, thread, pool, net, counters }
    }

    /// Polls until nothing comes any more; every packet must be accounted for.
    pub fn run(&mut self) -> Snapshot {
        while self.graph.poll(self.thread.guard()) > 0 {
            self.thread.quiesce();
        }
        let counts = self.graph.stats().snapshot();
        assert!(counts.law.holds(), "{:?}", counts.law);
        counts
    }

    /// Other interfaces than those of the small network.
    fn ifaces(&mut self, ifaces: Ifaces) {
        self.net.forwarding.ifaces.publish(ifaces);
    }

    /// Whose packets come first.
    pub fn knows(&mut self, peers: tables::Peers) {
        self.net.forwarding.peers.publish(peers);
    }

    /// What the kernel got: interface, class, frame.
    pub fn punted(&mut self) -> Vec<(u16, Class, Vec<u8>)> {
        let mut all = Vec::new();
        let mut next = |meta: frames::Meta, frame: &[u8]| {
            all.push((meta.iface, Class::from_code(meta.kind), frame.to_vec()));
        };
        while self.kernel.pop(&mut next).is_some() {}
        all
    }
}

pub(super) fn sent(frame: Frame<'_>) -> Vec<u8> {
    frame.ttl(63).macs(Mac(P1), Mac(PEER)).build().to_vec()
}

#[test]
fn packets_are_forwarded() {
    let mut rig = Rig::new(&Rates::default());
    rig.peers[0].push(&to_p0(udp4("10.0.0.1").payload(&[1; 40])));
    rig.peers[0].push(&to_p0(udp4("10.1.0.1").payload(&[1; 40])));
    rig.peers[0].push(&to_p0(udp6("2001:db8::1")));
    rig.run();
    let got = rig.peers[1].take();
    assert_eq!(got.len(), 3);
    assert!(got.contains(&sent(udp4("10.0.0.1").payload(&[1; 40]))));
    assert!(got.contains(&sent(udp4("10.1.0.1").payload(&[1; 40]).tag(Tag::new(100)))));
    assert!(got.contains(&sent(udp6("2001:db8::1"))));
    assert!(rig.punted().is_empty() && rig.peers[0].take().is_empty());
}

#[test]
fn the_kernel_gets_untagged_frames_of_the_right_class() {
    let mut rig = Rig::new(&Rates::default());
    let bgp = Frame::tcp4("192.0.2.2:5000".parse().unwrap(), "192.0.2.1:179".parse().unwrap(), 2);
    let ospf = Frame::ipv4([192, 0, 2, 2].into(), [224, 0, 0, 5].into(), 89);
    let cases = [
        (udp4("192.0.2.1").ttl(1), Class::ForUs),
        (bgp, Class::Strangers),
        (ospf, Class::Strangers),
        (udp4("10.0.0.1").ttl(1), Class::TtlExceeded),
        (udp4("10.0.0.1").payload(&[0; 1600]), Class::TooBig),
        (udp4("10.3.0.1"), Class::NoNeighbour),
        (udp4("10.6.0.1"), Class::ViaKernel),
        (udp4("11.0.0.1"), Class::Unreachable),
        (udp4("10.0.0.1").options(&[7, 4, 4, 0]), Class::Options),
        (udp6("fe80::9"), Class::ForUs),
        (udp6("2001:db8::1").ttl(1), Class::TtlExceeded),
    ];
    for (frame, class) in cases {
        rig.peers[0].push(&to_p0(frame));
        rig.run();
        assert_eq!(rig.punted(), [(1, class, to_p0(frame))]);
    }
    let tags = |frame: Frame<'static>| frame.tag(Tag::outer(5)).tag(Tag::new(6));
    rig.peers[0].push(&to_p0(tags(udp6("fe80::9"))));
    rig.run();
    assert_eq!(rig.punted(), [(4, Class::ForUs, to_p0(udp6("fe80::9")))]);
}

#[test]
fn a_flood_is_cut_to_its_rate() {
    let mut rates = Rates::default();
    rates.set(Class::TtlExceeded, 1);
    let mut rig = Rig::new(&rates);
    for _ in 0..500 {
        rig.peers[0].push(&to_p0(udp4("10.0.0.1").ttl(1)));
        rig.peers[0].push(&to_p0(udp4("10.0.0.1")));
        rig.peers[0].push(&to_p0(udp4("10.3.0.1")));
    }
    rig.peers[0].push(&to_p0(udp4("10.3.0.1").tag(Tag::outer(5)).tag(Tag::new(6))));
    let counts = rig.run();
    let punted = rig.punted();
    let of = |class| punted.iter().filter(|punt| punt.1 == class).count() as u64;
    assert_eq!(rig.peers[1].take().len(), 500);
    assert!((32..40).contains(&of(Class::TtlExceeded)));
    assert_eq!(counts.dropped("punt", "ttl_exceeded"), 500 - of(Class::TtlExceeded));
    // One to each destination in a second.
    assert!((2..=4).contains(&of(Class::NoNeighbour)));
    assert_eq!(counts.dropped("punt", "no_neighbour"), 501 - of(Class::NoNeighbour));
    assert!(punted.iter().any(|punt| punt.0 == 4), "another VRF's host of the same address");
    rig.net.forwarding.neighbours_full.store(true, std::sync::atomic::Ordering::Relaxed);
    (0..2).for_each(|_| rig.peers[0].push(&to_p0(udp4("10.3.0.1"))));
    assert!(rig.run().dropped("punt", "neighbours_full") > 0, "the drop names the limit");
}

#[test]
fn a_full_ring_to_the_kernel_drops() {
    let mut rates = Rates::default();
    rates.set(Class::ForUs, 1_000_000);
    let mut rig = Rig::new(&rates);
    for _ in 0..1000 {
        rig.peers[0].push(&to_p0(udp4("192.0.2.1").payload(&[0; 1400])));
    }
    let counts = rig.run();
    let punted = rig.punted().len() as u64;
    assert!((500..1000).contains(&punted));
    assert_eq!(counts.dropped("punt", "ring_full"), 1000 - punted);
}

#[test]
fn frames_from_the_kernel_leave_with_their_interfaces_tags() {
    let mut rig = Rig::new(&Rates::default());
    let frame = || udp4("10.0.0.9").macs(Mac(P1), Mac(PEER));
    let plain = frame().build().to_vec();
    for (iface, frame) in
        [(2, &plain[..]), (3, &plain), (4, &plain), (5, &plain), (77, &plain), (2, &plain[..9])]
    {
        let meta = frames::Meta { iface, ..frames::Meta::default() };
        assert!(rig.to_router.push(meta, &[frame]));
    }
    let counts = rig.run();
    let tagged = frame().tag(Tag::new(100)).build().to_vec();
    assert_eq!(rig.peers[1].take(), [plain, tagged]);
    let two = |outer, inner| frame().tag(outer).tag(Tag::new(inner)).build().to_vec();
    assert_eq!(rig.peers[0].take(), [two(Tag::outer(5), 6), two(Tag::new(7), 8)]);
    assert_eq!(counts.dropped("kernel_input", "no_interface"), 1);
    assert_eq!(counts.dropped("kernel_input", "runt"), 1);
    assert_eq!(counts.law.from_kernel, 6);
}

/// The blank that an interface leaves behind has a port's number, too.
#[test]
fn frames_from_the_kernel_for_an_interface_that_was_removed_leave_nowhere() {
    let mut rig = Rig::new(&Rates::default());
    let iface = |name: &str| Iface { name: name.into(), up: true, ..Iface::default() };
    rig.ifaces(Ifaces::new([iface("p0"), Iface::default()]));
    for iface in [1, 2] {
        let meta = frames::Meta { iface, ..frames::Meta::default() };
        assert!(rig.to_router.push(meta, &[&udp4("10.0.0.9").build()]));
    }
    let counts = rig.run();
    assert_eq!((rig.peers[0].take().len(), rig.peers[1].take().len()), (1, 0));
    assert_eq!(counts.dropped("kernel_input", "no_interface"), 1);
}

/// A vector is of one port: what the kernel sends by several waits for the next vector. No
/// node holds it meanwhile, and a graph that is replaced sends it first.
#[test]
fn what_waits_for_another_vector_is_accounted_for_and_outlives_the_graph() {
    let (mut rig, mut others) = (Rig::new(&Rates::default()), Vec::new());
    let frame = udp4("10.0.0.9").macs(Mac(P1), Mac(PEER)).build().to_vec();
    let port = Foreign(rig.graph.ports().remove(1).unwrap());
    rig.graph.ports().set(1, Box::new(port));
    let push = |rig: &mut Rig, frames: usize| {
        for iface in (0..frames).map(|i| [2, 4][i % 2]) {
            let meta = frames::Meta { iface, ..frames::Meta::default() };
            assert!(rig.to_router.push(meta, &[&frame]));
        }
    };
    push(&mut rig, 20);
    assert_eq!(rig.graph.poll(rig.thread.guard()), 20, "a vector for each, in one poll");
    let law = rig.graph.stats().balance();
    assert!(law.holds() && law.from_kernel == 20, "{law:?}");
    push(&mut rig, 150);
    assert_eq!(rig.graph.poll(rig.thread.guard()), io::BURST, "and no more than a burst");
    assert!(rig.graph.stats().balance().holds());
    let Rig { graph, peers, pool, net, .. } = rig;
    let config = WorkerConfig {
        name: "w".into(),
        number: 0,
        core: None,
        idle: Idle::Adaptive,
        bell: Bell::new().unwrap(),
    };
    let worker = Worker::start(config, &net.domain, graph).unwrap();
    let next = Rig::with(net.clone(), &Rates::default(), &[], Others::default(), pool.clone());
    drop(worker.swap(next.graph).unwrap());
    others.push(worker.call(|graph| graph.stats().balance()).unwrap());
    let graph = worker.stop().unwrap();
    others.push(graph.stats().balance());
    assert!(others.iter().all(|law| law.holds() && law.transmitted == 170), "{others:?}");
    assert_eq!(peers.iter().map(|peer| peer.take().len()).sum::<usize>(), 170);
    drop(graph);
    assert_eq!(pool.available(), pool.size());
}

/// A port of Rutter's world that says it is of another.
struct Foreign(Box<dyn Port>);

impl Port for Foreign {
    io::around_port!(self.0: attach, receive, transmit, free, allocate, allocator);

    fn world(&self) -> World {
        World::Dpdk
    }
}

#[test]
fn frames_from_the_kernel_for_ports_of_two_worlds_all_leave() {
    let mut rig = Rig::new(&Rates::default());
    let (mut device, peer) = connect("p1", [2, 0, 0, 0, 0, 1], &rig.pool);
    let port = device.start(1).unwrap().remove(0);
    drop(rig.graph.ports().set(1, Box::new(Foreign(port))));
    let frame = udp4("10.0.0.9").macs(Mac(P1), Mac(PEER)).build().to_vec();
    for iface in [4, 2, 4, 2, 2] {
        assert!(rig.to_router.push(frames::Meta { iface, ..Default::default() }, &[&frame]));
    }
    assert_eq!(rig.run().law.transmitted, 5);
    assert_eq!((rig.peers[0].take().len(), peer.take().len()), (2, 3));
}

#[test]
fn a_capture_sees_each_point() {
    let mut rig = Rig::new(&Rates::default());
    let (ring, mut captured) = frames::ring(1 << 16);
    let points = Point::ALL.to_vec();
    rig.graph.set_capture(Some(Capture { points, filter: None, snap: 65_535, ring }));
    for frame in [udp4("10.0.0.1"), udp4("10.4.0.1"), udp4("192.0.2.1")] {
        rig.peers[0].push(&to_p0(frame));
        rig.run();
    }
    let mut seen = Vec::new();
    let mut next = |meta: frames::Meta, frame: &[u8]| {
        seen.push((Point::from_code(meta.kind).unwrap().name(), frame.to_vec()));
    };
    while captured.pop(&mut next).is_some() {}
    let want = [
        ("received", to_p0(udp4("10.0.0.1"))),
        ("transmitted", sent(udp4("10.0.0.1"))),
        ("received", to_p0(udp4("10.4.0.1"))),
        ("dropped", to_p0(udp4("10.4.0.1"))),
        ("received", to_p0(udp4("192.0.2.1"))),
        ("punted", to_p0(udp4("192.0.2.1"))),
    ];
    assert_eq!(seen, want);
}

/// House rule 11, with the ring of prepared packets, which allocates nothing itself; and no
/// node counts a reference.
#[test]
fn nodes_allocate_nothing() {
    let cases = [
        to_p0(udp4("10.0.0.1")),
        to_p0(udp4("10.1.0.1")),
        to_p0(udp4("10.2.0.1")),
        to_p0(udp4("10.3.0.1")),
        to_p0(udp4("10.4.0.1")),
        to_p0(udp4("10.0.0.1").ttl(1)),
        to_p0(udp4("10.0.0.1").wrong_ip_checksum()),
        to_p0(udp4("192.0.2.1").tag(Tag::outer(5)).tag(Tag::new(6))),
        to_p0(udp6("2001:db8::1")),
        to_p0(udp6("2001:db8:2::1")),
        to_p0(udp6("ff02::1")),
        to_p0(Frame::ipv4([169, 254, 0, 9].into(), [192, 0, 2, 1].into(), 17)),
    ];
    let config = PoolConfig { packets: 1024, mtu: 1500, large_pages: false };
    let fill = |i: usize, room: &mut [u8]| {
        let frame = &cases[i % cases.len()];
        room[..frame.len()].copy_from_slice(frame);
        frame.len()
    };
    let ring = Ring::new(&config, 1, fill).unwrap();
    let mut rig = Rig::new(&Rates::default());
    for number in 0..2 {
        let rings = std::slice::from_ref(&ring);
        let mut device = RingDevice::new("m", [2, 0, 0, 0, 0, 1], number, rings, &rig.pool);
        let mut port = device.start(1).unwrap().remove(0);
        port.attach(0);
        drop(rig.graph.ports().set(number, port));
    }
    let poll = |rig: &mut Rig| {
        let meta = frames::Meta { iface: 4, ..frames::Meta::default() };
        assert!(rig.to_router.push(meta, &[&cases[0]]));
        let guard = rig.thread.guard();
        let borrowed = (borrowed(&rig.net.forwarding, guard), uncounted(&rig.counters));
        let before = Counting::allocations();
        rig.graph.poll(guard);
        let allocated = Counting::allocations() - before;
        drop(borrowed);
        rig.thread.quiesce();
        allocated
    };
    // Two ports receive a burst each; the first poll fills the pools' caches.
    let allocations: Vec<u64> = (0..8).map(|_| poll(&mut rig)).collect();
    assert_eq!(allocations[1..], [0; 7]);
    let counts = rig.graph.stats().snapshot();
    assert!(counts.law.holds());
    let idle = counts.nodes.iter().filter(|node| node.packets == 0);
    assert!(
        idle.map(|node| node.name).filter(|name| !name.starts_with("bridge_")).eq(["worker_input"]),
        "every other node had packets"
    );
}
