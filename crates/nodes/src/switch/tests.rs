//! A whole switch between seven cables.

use std::sync::Arc;
use std::time::Instant;

use graph::ring::{frames, spsc};
use graph::testing::{Counting, uncounted};
use graph::{Bell, Graph, NodeCount, Snapshot};
use io::mem::{Peer, Ring, RingDevice, connect};
use io::{Device, Pool, PoolConfig};
use lookup::sync::Thread;
use tables::bridge::{DomainId, FloodRates};
use tables::macs::Learn;
use tables::switch::{BridgeConfig, LoopDetection, Mode, Sighting};
use wire::arp;
use wire::build::Frame;
use wire::ethernet::Mac;
use wire::vlan::Tag;

use super::testbed::{Lan, OWN, bridges, frame, mac, member};
use crate::assembly::Common;
use crate::switch::Bridging;
use crate::switch::loops::Loops;
use crate::testbed::borrowed;
use crate::{Class, DomainCounters, IfaceCounters, Rates};

pub(super) struct Rig {
    pub lan: Lan,
    graph: Graph,
    pub peers: Vec<Peer>,
    kernel: frames::Consumer,
    to_router: frames::Producer,
    learnt: spsc::Consumer<Learn>,
    domains: Arc<DomainCounters>,
    counters: Arc<IfaceCounters>,
    pub loops: Arc<Loops>,
    /// The bridge thread's.
    bell: Bell,
    thread: Thread,
}

impl Rig {
    fn new() -> Rig {
        Rig::of(bridges())
    }

    pub fn of(bridges: Vec<BridgeConfig>) -> Rig {
        let lan = Lan::of(bridges);
        let (to_kernel, kernel) = frames::ring(1 << 20);
        let (to_router, from_kernel) = frames::ring(1 << 16);
        let (learn, learnt) = spsc::ring(1024);
        let domains = DomainCounters::new();
        let counters = IfaceCounters::new();
        let bell = Bell::new().unwrap();
        let loops = Loops::new(7, [1, 2], Some(bell.clone()));
        let common = Common {
            counters: counters.clone(),
            ..Common::alone(lan.forwarding.clone(), (to_kernel, from_kernel), 7)
        };
        let mut graph = crate::router_and_switch(
            common,
            Bridging {
                bridges: 2,
                workers: 1,
                domains: domains.clone(),
                learn,
                loops: loops.clone(),
            },
        )
        .build(0)
        .unwrap();
        let config = PoolConfig { packets: 8192, mtu: 9000, large_pages: false };
        let pool = Pool::new(&config).unwrap();
        let mut peers = Vec::new();
        for port in 0..7 {
            let (mut device, peer) = connect("p", [2, 0, 0, 0, 1, port as u8], &pool);
            graph.ports().set(port, device.start(1).unwrap().remove(0));
            peers.push(peer);
        }
        let thread = lan.domain.register("rig");
        Rig { lan, graph, peers, kernel, to_router, learnt, domains, counters, loops, bell, thread }
    }

    /// Polls and learns until nothing comes any more; all is accounted for.
    pub fn run(&mut self) -> Snapshot {
        while self.graph.poll(self.thread.guard()) > 0 {
            self.thread.quiesce();
        }
        while let Some(learn) = self.learnt.pop() {
            self.lan.switch.learn(learn, Instant::now());
        }
        for sighting in self.loops.sightings() {
            self.lan.switch.loop_seen(sighting, Instant::now());
        }
        let counts = self.graph.stats().snapshot();
        assert!(counts.law.holds(), "{:?}", counts.law);
        counts
    }

    /// What leaves by each port when `frame` comes in by `port`.
    fn send(&mut self, port: usize, frame: &[u8]) -> Vec<(usize, Vec<u8>)> {
        self.peers[port].push(frame);
        self.run();
        self.sent()
    }

    pub fn sent(&mut self) -> Vec<(usize, Vec<u8>)> {
        let all = self.peers.iter().enumerate();
        all.flat_map(|(port, peer)| peer.take().into_iter().map(move |frame| (port, frame)))
            .collect()
    }

    /// Ports by which `frame` leaves.
    fn ports(&mut self, port: usize, frame: &[u8]) -> Vec<usize> {
        self.send(port, frame).into_iter().map(|(port, _)| port).collect()
    }
}

#[test]
fn unknown_stations_are_flooded_and_then_not() {
    let mut rig = Rig::new();
    let there = frame(2, 1).build();
    assert_eq!(rig.send(0, &there), [(1, there.to_vec()), (2, there.to_vec())]);
    assert_eq!(rig.ports(1, &frame(1, 2).build()), [0], "1 was learnt");
    assert_eq!(rig.ports(0, &there), [1], "2 was learnt");
    let counters = rig.lan.switch.counters(0);
    assert_eq!((counters.learnt, counters.moved), (2, 0));
    assert_eq!(rig.domains.of(DomainId(1)).flooded.get(), 1);
}

#[test]
fn the_bridge_thread_is_woken_for_what_it_learns() {
    let mut rig = Rig::new();
    let mut wakes = |port, src| {
        rig.bell.lie_down();
        rig.send(port, &frame(9, src).build());
        !rig.bell.is_asleep()
    };
    assert_eq!(
        [(0, 1), (0, 1), (0, 2), (1, 2)].map(|(port, n)| wakes(port, n)),
        [true, false, true, true]
    );
    rig.bell.lie_down();
    rig.loops.note(Sighting { port: 1, sender: 0, domain: DomainId(1) });
    assert!(!rig.bell.is_asleep());
}

#[test]
fn a_station_that_moved_is_followed() {
    let mut rig = Rig::new();
    rig.send(0, &frame(2, 1).build());
    rig.send(1, &frame(2, 1).build());
    assert_eq!(rig.ports(2, &frame(1, 3).build()), [1]);
    assert_eq!(rig.lan.switch.counters(0).moved, 1);
}

#[test]
fn a_frame_to_where_it_came_from_is_dropped() {
    let mut rig = Rig::new();
    rig.send(0, &frame(9, 1).build());
    rig.send(0, &frame(9, 2).build());
    assert_eq!(rig.ports(0, &frame(2, 1).build()), []);
    let counts = rig.graph.stats().snapshot();
    let dropped = counts.drops.iter().find(|drop| drop.reason == "same_port");
    assert_eq!(dropped.map(|drop| drop.packets), Some(1));
}

#[test]
fn tags_are_put_in_and_taken_out() {
    let mut rig = Rig::new();
    let plain = frame(2, 1).build().to_vec();
    let tagged = |tci| frame(2, 1).tag(Tag { tpid: 0x8100, tci }).build().to_vec();
    // From the access port of VLAN 10: untagged on the trunk, whose native it is.
    assert_eq!(rig.send(3, &plain), [(4, plain.clone())]);
    // The trunk's VLAN 10, tagged: untagged at the access port.
    assert_eq!(rig.send(4, &tagged(10)), [(3, plain.clone())]);
    // VLAN 20 from the tunnel: a tag around what the frame has.
    let customer = frame(2, 1).tag(Tag::new(77)).build().to_vec();
    let around = frame(2, 1).tag(Tag::new(20)).tag(Tag::new(77)).build().to_vec();
    assert_eq!(rig.send(5, &customer), [(4, around.clone())]);
    assert_eq!(rig.send(4, &around), [(5, customer)]);
    // Priority and drop bit of a tag stay.
    rig.lan.station(7, 4, 3);
    let with_priority = frame(7, 1).tag(Tag { tpid: 0x8100, tci: 0xb000 | 20 }).build().to_vec();
    assert_eq!(rig.send(4, &with_priority), [], "it came from there");
    let of_native = frame(2, 1).tag(Tag { tpid: 0x8100, tci: 0xe000 }).build().to_vec();
    assert_eq!(rig.send(3, &of_native), [(4, plain)], "the native VLAN has no tag");
}

#[test]
fn known_stations_get_the_tag_of_their_port() {
    let mut rig = Rig::new();
    rig.lan.station(8, 4, 3);
    let customer = frame(8, 1).tag(Tag::new(77)).build().to_vec();
    let around = frame(8, 1).tag(Tag::new(20)).tag(Tag::new(77)).build().to_vec();
    assert_eq!(rig.send(5, &customer), [(4, around)]);
    rig.lan.station(9, 5, 3);
    let back = frame(9, 8).tag(Tag::new(20)).build().to_vec();
    assert_eq!(rig.send(4, &back), [(5, frame(9, 8).build().to_vec())]);
}

/// A tunnel's frames may have two tags of their own. On a trunk the third one counts
/// as payload, or the answer would come back and this would not.
#[test]
fn what_a_tunnel_takes_comes_back() {
    let mut bridges = bridges();
    bridges[1].members[1].mtu = 1500;
    let mut rig = Rig::of(bridges);
    let of = |dst, src, tags: &[u16], payload: usize| {
        let payload = vec![7; payload];
        let frame = frame(dst, src).payload(&payload);
        tags.iter().fold(frame, |frame, tag| frame.tag(Tag::new(*tag))).build().to_vec()
    };
    for payload in [100, 1496] {
        let (there, around) = (of(2, 1, &[77, 78], payload), of(2, 1, &[20, 77, 78], payload));
        assert_eq!(rig.send(5, &there), [(4, around)]);
        let (back, around) = (of(1, 2, &[77, 78], payload), of(1, 2, &[20, 77, 78], payload));
        assert_eq!(rig.send(4, &around), [(5, back)]);
    }
    for (tags, fits) in [(&[77, 78][..], false), (&[77], true), (&[], true)] {
        assert_eq!(rig.ports(5, &of(2, 1, tags, 1500)), vec![4; usize::from(fits)], "{tags:?}");
        assert_eq!(rig.ports(5, &of(9, 1, tags, 1500)), vec![4; usize::from(fits)], "{tags:?}");
    }
    let counts = rig.graph.stats().snapshot();
    let too_long = |node| counts.dropped(node, "too_long");
    assert_eq!((too_long("bridge_forward"), too_long("bridge_flood")), (1, 1));
}

#[test]
fn the_same_station_may_be_in_several_domains() {
    let mut rig = Rig::new();
    rig.send(0, &frame(9, 1).build());
    rig.send(3, &frame(9, 1).build());
    assert_eq!(rig.ports(1, &frame(1, 2).build()), [0]);
    assert_eq!(rig.ports(4, &frame(1, 2).build()), [3]);
}

#[test]
fn isolated_ports_reach_the_others_only() {
    let mut bridges = bridges();
    bridges[0].members[0].isolated = true;
    bridges[0].members[1].isolated = true;
    let mut rig = Rig::of(bridges);
    assert_eq!(rig.ports(0, &frame(9, 1).build()), [2]);
    assert_eq!(rig.ports(1, &frame(1, 2).build()), [], "known, and isolated");
    assert_eq!(rig.ports(2, &frame(1, 3).build()), [0]);
    assert_eq!(rig.ports(2, &frame(9, 3).build()), [0, 1]);
}

#[test]
fn floods_keep_to_their_rate() {
    let mut bridges = bridges();
    bridges[0].members[0].flood = FloodRates { unknown: 0, broadcast: 40, multicast: 0 };
    let mut rig = Rig::of(bridges);
    assert_eq!(rig.ports(0, &frame(9, 1).build()), []);
    let to = |dst| frame(9, 1).macs(Mac(mac(1)), Mac(dst)).build();
    assert_eq!(rig.ports(0, &to([1, 0, 0x5e, 0, 0, 1])), []);
    for _ in 0..100 {
        rig.peers[0].push(&to([0xff; 6]));
    }
    rig.run();
    assert!((64..=70).contains(&rig.sent().len()), "32 at once, to two ports each");
    assert_eq!(rig.ports(1, &frame(9, 2).build()), [0, 2], "the others' rates are their own");
}

#[test]
fn a_port_that_went_down_gets_nothing_and_its_stations_are_forgotten() {
    let mut rig = Rig::new();
    rig.send(0, &frame(9, 1).build());
    rig.lan.switch.set_link(0, false);
    assert_eq!(rig.ports(1, &frame(1, 2).build()), [2], "flooded, not to the port that is down");
    rig.lan.switch.set_link(0, true);
    assert_eq!(rig.ports(1, &frame(1, 2).build()), [0, 2], "not trusted before the sweep");
    for _ in 0..1000 {
        rig.lan.switch.sweep(Instant::now());
    }
    assert_eq!(rig.lan.switch.counters(0).flushed, 1);
    assert_eq!(rig.ports(1, &frame(1, 2).build()), [0, 2], "unknown");
    rig.send(0, &frame(9, 1).build());
    assert_eq!(rig.ports(1, &frame(1, 2).build()), [0], "learnt again");
}

#[test]
fn the_routed_side_gets_what_is_for_it() {
    let mut rig = Rig::new();
    let to_own = |frame: Frame<'static>| frame.macs(Mac(mac(1)), Mac(OWN)).build();
    rig.send(0, &to_own(frame(9, 1)));
    assert_eq!(punted(&mut rig), [(2, 0x88b5)]);
    // Broadcasts go to the stations and to this machine.
    let request = arp::Header {
        operation: arp::REQUEST,
        sender_mac: Mac(mac(1)),
        sender_ip: [192, 0, 2, 2].into(),
        target_mac: Mac([0; 6]),
        target_ip: [192, 0, 2, 1].into(),
    };
    let who_has = Frame::arp(request).macs(Mac(mac(1)), Mac::BROADCAST);
    assert_eq!(rig.ports(0, &who_has.build()), [1, 2]);
    assert_eq!(punted(&mut rig), [(2, 0x0806)]);
    // In VLAN 10 the routed side is tagged inside, and plain in the kernel.
    assert_eq!(rig.ports(3, &who_has.build()), [4]);
    assert_eq!(punted(&mut rig), [(3, 0x0806)]);
    assert_eq!(rig.ports(5, &who_has.build()), [4], "VLAN 20 has no routed side");
    assert_eq!(punted(&mut rig), []);
}

/// Members share an interface, but not what they may hand to the kernel.
#[test]
fn a_flooded_member_leaves_the_others_theirs() {
    let mut rig = Rig::new();
    let unknown = frame(9, 1).macs(Mac(mac(1)), Mac(OWN)).build();
    let begun = Instant::now();
    (0..1000).for_each(|_| drop(rig.send(0, &unknown)));
    let passed = punted(&mut rig).len();
    assert!((32..=Rates::default().most(Class::Unknown, begun)).contains(&passed), "{passed}");
    rig.send(1, &frame(9, 2).macs(Mac(mac(2)), Mac(OWN)).build());
    assert_eq!(punted(&mut rig), [(2, 0x88b5)]);
}

/// Interface and EtherType of what the kernel got.
pub(super) fn punted(rig: &mut Rig) -> Vec<(u16, u16)> {
    let kernel = &mut rig.kernel;
    std::iter::from_fn(|| {
        kernel.pop(|meta, frame| (meta.iface, u16::from_be_bytes([frame[12], frame[13]])))
    })
    .collect()
}

#[test]
fn the_kernel_reaches_stations_by_the_bridge() {
    let mut rig = Rig::new();
    rig.lan.station(1, 2, 1);
    rig.lan.station(1, 3, 2);
    rig.lan.station(4, 4, 2);
    let from_kernel = |rig: &mut Rig, iface, dst| {
        let meta = frames::Meta { iface, ..frames::Meta::default() };
        let frame = frame(dst, 0xee).build().to_vec();
        assert!(rig.to_router.push(meta, &[&frame]));
        rig.run();
        rig.sent().into_iter().map(move |(port, sent)| (port, sent == frame)).collect::<Vec<_>>()
    };
    assert_eq!(from_kernel(&mut rig, 2, 1), [(2, true)]);
    assert_eq!(from_kernel(&mut rig, 2, 9), [(0, true), (1, true), (2, true)]);
    assert_eq!(from_kernel(&mut rig, 3, 1), [(3, true)], "the tag of VLAN 10 is gone");
    assert_eq!(from_kernel(&mut rig, 3, 4), [(4, true)]);
    assert_eq!(from_kernel(&mut rig, 3, 9), [(3, true), (4, true)]);
}

#[test]
fn no_frame_is_lost_when_many_are_flooded() {
    let mut bridges = bridges();
    bridges.truncate(1);
    bridges[0].members = (0..6).map(|port| member(port, Mode::Plain)).collect();
    let mut rig = Rig::of(bridges);
    for n in 0..200 {
        rig.peers[0].push(&frame(99, n).build());
    }
    rig.run();
    assert_eq!(rig.sent().len(), 199 * 5, "station 99 speaks to itself once");
}

#[test]
fn long_frames_pass() {
    let mut rig = Rig::new();
    let mut jumbo = frame(2, 1).build().to_vec();
    jumbo.resize(9014, 7);
    assert_eq!(rig.send(2, &jumbo), [(0, jumbo.clone())], "not to port 1");
    assert_eq!(rig.send(3, &jumbo), [(4, jumbo.clone())]);
}

/// Port 1 has an MTU of 1500; tags do not count.
#[test]
fn frames_longer_than_the_mtu_of_their_port_are_dropped_there() {
    let mut rig = Rig::new();
    let of = |payload: usize, tags: &[u16]| {
        let payload = vec![7; payload];
        let frame = frame(9, 1).payload(&payload);
        tags.iter().fold(frame, |frame, tag| frame.tag(Tag::new(*tag))).build().to_vec()
    };
    let sizes = [(of(1500, &[]), true), (of(1501, &[]), false), (of(1500, &[5]), true)];
    let tagged = [(of(1501, &[5]), false), (of(1500, &[5, 6]), true), (of(1501, &[5, 6]), false)];
    let dropped = |rig: &Rig, node| rig.graph.stats().snapshot().dropped(node, "too_long");
    for known in [false, true] {
        for (frame, fits) in sizes.iter().chain(&tagged) {
            let others: &[usize] = if known { &[] } else { &[2] };
            let ports = if *fits { [&[1], others].concat() } else { others.to_vec() };
            assert_eq!(rig.ports(0, frame), ports, "{} bytes", frame.len());
        }
        rig.lan.station(9, 1, 1);
    }
    assert_eq!((dropped(&rig, "bridge_flood"), dropped(&rig, "bridge_forward")), (3, 3));
}

#[test]
fn a_frame_that_fits_no_port_is_counted_for_each() {
    let mut bridges = bridges();
    bridges[0].members[2].mtu = 1400;
    bridges[0].routed.clear();
    let mut rig = Rig::of(bridges);
    assert_eq!(rig.ports(0, &frame(9, 1).payload(&[0; 2000]).build()), []);
    let counts = rig.graph.stats().snapshot();
    assert_eq!(counts.dropped("bridge_flood", "too_long"), 2);
    assert_eq!((counts.law.copies, counts.dropped("bridge_flood", "alone")), (1, 0));
}

#[test]
fn what_this_machine_sends_keeps_to_the_mtu_too() {
    let mut rig = Rig::new();
    rig.lan.station(1, 1, 1);
    let meta = frames::Meta { iface: 2, ..frames::Meta::default() };
    let long = frame(1, 0xee).payload(&[0; 1501]).build();
    assert!(rig.to_router.push(meta, &[&long]));
    let counts = rig.run();
    assert_eq!((rig.sent(), counts.dropped("bridge_send", "too_long")), (Vec::new(), 1));
}

/// House rule 11, with rings of prepared packets, which allocate nothing themselves; and no
/// node counts a reference.
#[test]
fn nodes_allocate_nothing() {
    let cases = [
        frame(2, 1).build().to_vec(),
        frame(3, 2).build().to_vec(),
        frame(1, 3).tag(Tag::new(20)).build().to_vec(),
        frame(1, 4).macs(Mac(mac(4)), Mac::BROADCAST).build().to_vec(),
        frame(1, 4).macs(Mac(mac(4)), Mac(OWN)).build().to_vec(),
        frame(1, 1).build().to_vec(),
    ];
    let config = PoolConfig { packets: 4096, mtu: 1500, large_pages: false };
    let fill = |i: usize, room: &mut [u8]| {
        let frame = &cases[i % cases.len()];
        room[..frame.len()].copy_from_slice(frame);
        frame.len()
    };
    let rings = [Ring::new(&config, 1, fill).unwrap()];
    let pool = Pool::new(&config).unwrap();
    let mut bridges = bridges();
    bridges.iter_mut().for_each(|bridge| bridge.loops = LoopDetection::Block);
    let mut rig = Rig::of(bridges);
    for number in 0..7 {
        let mut device = RingDevice::new("m", [2, 0, 0, 0, 0, 1], number, &rings, &pool);
        let mut port = device.start(1).unwrap().remove(0);
        port.attach(0);
        drop(rig.graph.ports().set(number, port));
    }
    let poll = |rig: &mut Rig| {
        let meta = frames::Meta { iface: 2, ..frames::Meta::default() };
        assert!(rig.to_router.push(meta, &[&cases[0]]));
        let guard = rig.thread.guard();
        let shared = (uncounted(&rig.domains), uncounted(&rig.counters));
        let borrowed = (borrowed(&rig.lan.forwarding, guard), shared);
        let before = Counting::allocations();
        rig.graph.poll(guard);
        let allocated = Counting::allocations() - before;
        drop(borrowed);
        rig.thread.quiesce();
        while let Some(learn) = rig.learnt.pop() {
            rig.lan.switch.learn(learn, Instant::now());
        }
        allocated
    };
    let allocations: Vec<u64> = (0..8).map(|_| poll(&mut rig)).collect();
    assert_eq!(allocations[1..], [0; 7]);
    while rig.graph.drain(rig.thread.guard()) > 0 {
        rig.thread.quiesce();
    }
    let counts = rig.graph.stats().snapshot();
    // What a node puts in by itself is counted at its edges.
    let passed =
        |node: &NodeCount| node.packets + node.edges.iter().map(|edge| edge.packets).sum::<u64>();
    let idle = counts.nodes.iter().filter(|node| passed(node) == 0).map(|node| node.name);
    let bridging: Vec<_> = idle.filter(|name| name.starts_with("bridge_")).collect();
    assert!(bridging.is_empty(), "no packets at {bridging:?}");
}
