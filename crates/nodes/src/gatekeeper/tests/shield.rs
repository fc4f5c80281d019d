//! A whole worker of a Gatekeeper between a front and a back: bytes in, bytes out.

use std::time::Duration;

use graph::clock;
use graph::testing::{Counting, uncounted};
use io::mem::{Ring, RingDevice};
use io::{Device, PoolConfig};
use lookup::exact::flow::engines;
use tables::event::NeighbourState;
use tables::{Action, Named, Protect, VrfId};
use wire::build::Frame;
use wire::ethernet::Mac;
use wire::ggu::Verdict as Decision;

use super::super::settings::SHADOW;
use super::super::shield::Shield;
use super::rig::{GRANTOR, Rig, flows, in_v4, in_v6, neighbour};
use crate::testbed::{P0, P1, borrowed, to_p0, udp4, udp6};

const V4: &str = "10.20.0.1";
const V6: &str = "2001:db8:20::1";

fn four() -> Vec<u8> {
    to_p0(udp4(V4).ttl(1).payload(&[7; 60]))
}

fn six() -> Vec<u8> {
    to_p0(udp6(V6).ttl(1).payload(&[7; 60]))
}

const GRANT: Decision = Decision::Granted {
    expire_s: 300,
    rate_kib: 1_024,
    next_renewal_ms: 3_600_000,
    renewal_step_ms: 3_000,
};

#[test]
fn a_flow_asks_is_granted_is_renewed_and_is_declined() {
    let mut rig = Rig::new();
    let (four, six) = (four(), six());
    // With an inner TTL of 1, which nobody looks at.
    let sent = rig.send(&[four.clone(), six.clone()]);
    assert_eq!(sent, [in_v4(41, &four[14..]), in_v6(41, &six[14..])]);
    assert_eq!(rig.counters.all.requests.get(), 2);
    let bytes = (four.len() + 20 + six.len() + 40) as u64;
    assert_eq!(rig.counters.all.request_bytes.get(), bytes);
    rig.decide(V4, GRANT);
    rig.decide(V6, GRANT);
    let sent = rig.send(&[four.clone(), six.clone()]);
    assert_eq!(sent, [in_v4(1, &four[14..]), in_v6(1, &six[14..])]);
    let at_once = Decision::Granted {
        expire_s: 300,
        rate_kib: 1_024,
        next_renewal_ms: 0,
        renewal_step_ms: 3_600_000,
    };
    rig.decide(V4, at_once);
    let sent = rig.send(&[four.clone(), four.clone()]);
    assert_eq!(sent, [in_v4(2, &four[14..]), in_v4(1, &four[14..])]);
    assert_eq!(rig.counters.all.granted.get(), 4);
    rig.decide(V4, Decision::Declined { expire_s: 60 });
    assert_eq!(rig.send(&[four.clone(), six.clone()]), [in_v6(1, &six[14..])]);
    assert_eq!((rig.dropped("shield", "declined"), rig.counters.all.declined.get()), (1, 1));
    let set = rig.set(V4);
    assert_eq!(rig.counters.of(set).unwrap().declined.get(), 1);
    assert_eq!(
        rig.counters.decisions.all.granted.get() + rig.counters.decisions.all.declined.get(),
        4
    );
    // Other flows to the same host still ask.
    let from = "198.51.100.8:9".parse().unwrap();
    let other = to_p0(Frame::udp4(from, "10.20.0.1:53".parse().unwrap()));
    assert_eq!(rig.send(&[other]).len(), 1);
}

#[test]
fn a_budget_is_of_whole_frames() {
    let mut rig = Rig::new();
    let frame = to_p0(udp4(V4).payload(&[0; 400])); // 442 bytes
    assert_eq!(frame.len(), 442);
    let few = Decision::Granted {
        expire_s: 300,
        rate_kib: 2,
        next_renewal_ms: 3_600_000,
        renewal_step_ms: 1,
    };
    rig.decide(V4, few);
    assert_eq!(rig.send(&vec![frame; 9]).len(), 4);
    assert_eq!((rig.dropped("shield", "over_budget"), rig.counters.all.declined.get()), (5, 5));
}

/// What follows a packet in its frame is charged, and does not leave.
#[test]
fn a_budget_is_of_frames_as_they_were_received() {
    let few = Decision::Granted {
        expire_s: 300,
        rate_kib: 2,
        next_renewal_ms: 3_600_000,
        renewal_step_ms: 1,
    };
    let options = [7, 4, 4, 0];
    for (len, plain) in
        [(442, true), (442, false), (60, true), (64, true), (64, false), (60, false)]
    {
        let most = 2_048 / len as u64;
        let mut rig = Rig::new();
        let frame = udp4(V4).payload(&[7; 4]);
        let frame = to_p0(if plain { frame } else { frame.options(&options) });
        let want = in_v4(1, &frame[14..]);
        let received = [&frame[..], &vec![0xee; len - frame.len()]].concat();
        rig.decide(V4, few);
        let got = rig.send(&vec![received; most as usize + 5]);
        assert_eq!(got.len() as u64, most, "{len} bytes, without options: {plain}");
        assert!(got.iter().all(|got| *got == want));
        assert_eq!(rig.counters.all.granted_bytes.get(), most * len as u64);
    }
    // IPv6, and as a request; a bypass lets no more than the packet pass.
    let mut rig = Rig::new();
    let frame = to_p0(udp6(V6).payload(&[7; 4]));
    let received = [&frame[..], &[0xee; 100]].concat();
    let bytes = received.len() as u64 + 40;
    assert_eq!(rig.send(&[received]), [in_v6(41, &frame[14..])]);
    assert_eq!(rig.counters.all.request_bytes.get(), bytes);
    let frame = udp4("10.21.0.1").payload(&[1; 40]);
    let want = frame.ttl(63).macs(Mac(P1), Mac(GRANTOR)).build().to_vec();
    assert_eq!(rig.send(&[[&to_p0(frame)[..], &[0xee; 90]].concat()]), [want]);
}

/// Packets of a poll have come at one time, in whatever order others lie between them: the
/// allowance, then what a distance of 0 ps has; a tick later is another time.
#[test]
fn requests_of_a_poll_have_their_own_times() {
    let mut rig = Rig::new();
    let mut now = clock::now();
    let from = "198.51.100.8:9".parse().unwrap();
    let other = to_p0(Frame::udp4(from, "10.20.0.1:53".parse().unwrap()));
    let frame = to_p0(udp4(V4));
    let mut ask = |now: u64, n: usize| {
        (0..n).for_each(|i| {
            rig.front.push(&frame);
            (0..i % 3).for_each(|_| rig.front.push(&other));
        });
        // The channel has room for all, in order of their levels.
        for _ in 0..9 {
            rig.graph.poll_at(now, rig.thread.guard());
            rig.thread.quiesce();
        }
        let mut got = rig.back.take();
        got.retain(|got| got[49] == 7);
        got.iter().map(|got| got[15] >> 2).collect::<Vec<_>>()
    };
    assert_eq!(ask(now, 7), [41; 7]);
    // What a distance of 100 ms has, with an allowance of its own.
    now += clock::ticks(Duration::from_millis(100));
    let asked = ask(now, 10);
    assert_eq!(asked[..8], [39; 8]);
    // What the packets are apart: a tick at least, which is 2^8 ps or more.
    assert!(asked[8..].iter().all(|dscp| (11..=41).contains(dscp)), "{asked:?}");
}

/// Clocks that jump, far on and back: nothing is lost, no end of a decision is missed, and the
/// channel makes no tokens up.
#[test]
fn clocks_jump() {
    let mut rig = Rig::paced(1 << 8, "", 100_000);
    let start = clock::now();
    let second = clock::ticks(Duration::from_secs(1));
    let poll = |rig: &mut Rig, now: u64| {
        rig.front.push(&to_p0(udp4("10.22.0.1")));
        for _ in 0..4 {
            rig.graph.poll_at(now, rig.thread.guard());
            rig.thread.quiesce();
            let counts = rig.graph.stats().snapshot();
            assert!(counts.law.holds(), "{:?}", counts.law);
            assert_eq!(rig.pool.available() as u64 + counts.law.held, rig.pool.size() as u64);
        }
        rig.back.take()
    };
    rig.decide(V4, GRANT); // for 300 s
    let frame = to_p0(udp4(V4).payload(&[7; 40]));
    let dscp = |got: &[Vec<u8>]| got.iter().map(|got| got[15] >> 2).collect::<Vec<_>>();
    rig.front.push(&frame);
    assert_eq!(dscp(&poll(&mut rig, start)), [1]);
    // Back in time the decision holds, and its window does not end.
    rig.front.push(&frame);
    assert_eq!(dscp(&poll(&mut rig, start - 200 * second)), [1]);
    rig.front.push(&frame);
    assert_eq!(dscp(&poll(&mut rig, 1)), [1]);
    // After it has ended the flow asks; at the end of time, too.
    rig.front.push(&frame);
    assert_eq!(dscp(&poll(&mut rig, start + 400 * second)), [41]);
    for now in [u64::MAX, u64::MAX / 2, 0, start + 400 * second] {
        rig.front.push(&frame);
        poll(&mut rig, now);
        // What lasts to the end of time ends with it.
        let left = usize::from(now < u64::MAX);
        assert_eq!(rig.flows().table().capacity().entries, left, "at {now}");
    }
    // A flood while time runs on and back by more than the channel saves up: what leaves is no
    // more than a second's for each time that it had to begin anew.
    let mut sent = 0;
    for round in 0..20_u64 {
        let now = start + [500, 400, 400 + round, 100_000][(round % 4) as usize] * second;
        for client in 0..64 {
            let from = std::net::SocketAddrV4::new((0xc612_0000 + client).into(), 9);
            let to = std::net::SocketAddrV4::new([10, 20, 0, 9].into(), 53);
            rig.front.push(&to_p0(Frame::udp4(from, to).payload(&[7; 60])));
        }
        sent += poll(&mut rig, now).len();
    }
    assert!(sent > 0);
    // Time runs on: the sweep leaves nothing of requests, whose patience may last for months.
    for step in 0..40 {
        poll(&mut rig, start + (20_000_000 + step) * second);
    }
    assert_eq!(rig.flows().table().capacity().entries, 0);
    while rig.graph.drain(rig.thread.guard()) > 0 {
        rig.thread.quiesce();
    }
    let law = rig.graph.stats().balance();
    assert!(law.holds() && law.held == 0, "{law:?}");
}

/// Easy version 9.
#[test]
fn nothing_passes_but_what_may() {
    let mut rig = Rig::new();
    let inner = |frame: &[u8]| in_v4(41, &frame[14..]);
    let parts = [udp4(V4).fragment(7, 0, true), udp4(V4).fragment(7, 1480, false)];
    for frame in [udp4(V4).ttl(0), udp4(V4).options(&[7, 4, 4, 0])].into_iter().chain(parts) {
        let frame = to_p0(frame.payload(&[1; 40]));
        assert_eq!(rig.send(std::slice::from_ref(&frame)), [inner(&frame)]);
    }
    assert_eq!(rig.flows().table().capacity().entries, 1, "one flow");
    // 1,500 bytes with the outer header is what the way carries.
    let longest = to_p0(udp4(V4).payload(&[1; 1452]));
    assert_eq!(rig.send(std::slice::from_ref(&longest)), [inner(&longest)]);
    assert!(rig.send(&[to_p0(udp4(V4).payload(&[1; 1453]))]).is_empty());
    assert_eq!(rig.counters.errors.too_long.get(), 1, "its source hears of it");
    rig.decide(V4, GRANT);
    assert!(rig.send(&[to_p0(udp4(V4).payload(&[1; 1453]))]).is_empty());
    assert_eq!(rig.counters.errors.too_long.get(), 2);
    assert!(rig.send(&[to_p0(udp4("10.23.0.1")), to_p0(udp4("10.22.0.1"))]).is_empty());
    assert_eq!(rig.dropped("solicit", "unresolved"), 1);
    assert!(rig.dropped("shield", "discarded") >= 1);
    // A minimal frame: what it is filled up with stays out of the outer packet.
    let mut short = to_p0(udp4("10.20.0.9"));
    let packet = short[14..].to_vec();
    short.resize(60, 0xee);
    assert_eq!(rig.send(&[short]), [in_v4(41, &packet)]);
}

#[test]
fn a_bypass_is_routed() {
    let mut rig = Rig::new();
    let frame = udp4("10.21.0.1").payload(&[1; 40]);
    let want = frame.ttl(63).macs(Mac(P1), Mac(GRANTOR)).build().to_vec();
    assert_eq!(rig.send(&[to_p0(frame)]), [want]);
    assert_eq!(rig.flows().table().capacity().entries, 0);
}

#[test]
fn a_lost_grantor_and_a_stale_entry() {
    let mut rig = Rig::new();
    let four = four();
    rig.decide(V4, GRANT);
    rig.control.handle(&[neighbour("10.0.2.9", NeighbourState::Failed)]);
    assert!(rig.send(std::slice::from_ref(&four)).is_empty());
    assert_eq!(rig.dropped("shield", "unresolved"), 1);
    rig.control.handle(&[neighbour("10.0.2.9", NeighbourState::Reachable)]);
    assert_eq!(rig.send(std::slice::from_ref(&four)), [in_v4(1, &four[14..])]);
    // Other options: what was decided is as good as not there.
    let pages = rig.flows().table().counts().pages;
    let ip = "10.0.2.9".parse().unwrap();
    let protect = Protect {
        net: "10.20.0.0/16".parse().unwrap(),
        action: Action::Protect,
        options: SHADOW,
        grantors: vec![Named { ip, weight: 1, shadow: false }],
    };
    rig.control.change_protection(VrfId(0), &protect).unwrap();
    rig.control.commit();
    let before = rig.counters.all.requests.get();
    let frame = udp4(V4).payload(&[7; 60]);
    let want = frame.ttl(63).macs(Mac(P1), Mac(GRANTOR)).build().to_vec();
    assert_eq!(rig.send(&[to_p0(frame)]), [want], "a shadow lets pass");
    let counts = [&rig.counters.all, &rig.counters.shadow].map(|of| of.requests.get());
    assert_eq!(counts, [before, 1], "counted as a shadow's");
    assert_eq!(rig.flows().table().counts().pages, pages - 1, "its page went back");
}

/// Packets of so many flows.
fn flood(n: u32) -> Vec<Vec<u8>> {
    let from = |i: u32| std::net::SocketAddrV4::new((0xc612_0000 + i).into(), 9);
    let to = "10.20.0.1:53".parse().unwrap();
    (0..n).map(|i| to_p0(Frame::udp4(from(i), to))).collect()
}

/// With each table, and each rule of it: all flows ask, and what was decided holds when it is full.
#[test]
fn every_table_knows_what_was_decided() {
    for entry in engines() {
        for full in entry.rules {
            let name = format!("{}, {}", entry.card.name, full.name());
            let mut rig = Rig::new();
            *rig.flows() = flows(entry.card.name, 1_024, full.name());
            let first = flood(500);
            let sent: Vec<_> = first.chunks(100).flat_map(|frames| rig.send(frames)).collect();
            assert_eq!(sent.len(), 500, "{name}");
            assert!(sent.iter().all(|frame| frame[15] >> 2 == 41), "{name}");
            let decided = [four(), six()];
            assert_eq!(rig.send(&decided).len(), 2, "{name}: they ask");
            rig.decide(V4, GRANT);
            rig.decide(V6, Decision::Declined { expire_s: 300 });
            let passes = [in_v4(1, &four()[14..])];
            assert_eq!(rig.send(&decided), passes, "{name}");
            flood(4_000).chunks(100).for_each(|frames| _ = rig.send(frames));
            assert_eq!(rig.send(&decided), passes, "{name}");
            let counts = rig.flows().table().counts();
            assert_eq!(counts.pages, 2, "{name}");
            let lost = counts.replaced.iter().sum::<u64>() + counts.refused;
            assert!(lost > 0, "{name}: it is full: {counts:?}");
        }
    }
}

#[test]
fn a_full_table_makes_room_and_the_thesis_rule_does_not() {
    let mut rig = Rig::with(1_024, "replace");
    rig.decide(V4, GRANT);
    assert_eq!(rig.send(&[four()]).len(), 1);
    for frames in flood(4_000).chunks(100) {
        assert_eq!(rig.send(frames).len(), frames.len());
    }
    let counts = rig.flows().table().counts();
    assert!(counts.replaced[0] > 2_900 && counts.replaced[2] == 0, "{counts:?}");
    assert_eq!(rig.send(&[four()]), [in_v4(1, &four()[14..])], "a live grant stays");
    let mut rig = Rig::with(1_024, "thesis");
    let sent: Vec<_> = flood(4_000).chunks(100).flat_map(|frames| rig.send(frames)).collect();
    let unbacked = sent.iter().filter(|frame| frame[15] == 3 << 2).count();
    assert!(sent.len() == 4_000 && unbacked > 2_900, "{unbacked} of {}", sent.len());
    let mut rig = Rig::with(1_024, "deployed");
    let sent: usize = flood(4_000).chunks(100).map(|frames| rig.send(frames).len()).sum();
    assert!(sent <= 1_024, "{sent}");
    let dropped = rig.dropped("shield", "no_place");
    assert_eq!((dropped, rig.counters.all.dropped.get()), (4_000 - sent as u64, dropped));
}

#[test]
fn decisions_for_unknown_flows_find_no_place_in_a_full_table_that_replaces_none() {
    for (full, none) in [("replace", false), ("thesis", true), ("deployed", true)] {
        let mut rig = Rig::with(1_024, full);
        flood(4_000).chunks(100).for_each(|frames| _ = rig.send(frames));
        (0..20).for_each(|host| rig.decide(&format!("10.20.9.{host}"), GRANT));
        let set = rig.set(V4);
        let decided =
            |of: &crate::gatekeeper::settings::Fates| [&of.no_place, &of.granted].map(|c| c.get());
        let all = decided(&rig.counters.decisions.all);
        assert_eq!(all, if none { [20, 0] } else { [0, 20] }, "{full}");
        assert_eq!(decided(rig.counters.decided(set).unwrap()), all, "{full}");
        let asks = to_p0(udp4("10.20.9.7"));
        let sent = rig.send(std::slice::from_ref(&asks));
        assert_eq!(sent == [in_v4(1, &asks[14..])], !none, "{full}");
    }
}

/// Easy version 11, with entries that live for a moment.
#[test]
fn an_idle_table_is_swept() {
    let mut rig = Rig::new();
    rig.decide(V4, Decision::Declined { expire_s: 1 });
    assert_eq!(rig.flows().table().capacity().entries, 1);
    let begun = std::time::Instant::now();
    while rig.flows().table().capacity().entries > 0 {
        rig.graph.poll(rig.thread.guard());
        rig.thread.quiesce();
        assert!(begun.elapsed().as_secs() < 10, "still there");
    }
}

#[test]
fn requests_that_wait_are_dropped_by_name_at_a_stop() {
    let mut rig = Rig::new();
    // More a poll than are sent in one.
    (0..60).for_each(|_| rig.front.push(&four()));
    rig.graph.poll(rig.thread.guard());
    rig.thread.quiesce();
    let law = rig.graph.stats().balance();
    assert!(law.holds() && law.held > 0, "{law:?}");
    while rig.graph.drain(rig.thread.guard()) > 0 {
        rig.thread.quiesce();
    }
    let counts = rig.graph.stats().snapshot();
    assert!(counts.law.holds() && counts.law.held == 0, "{:?}", counts.law);
    assert_eq!(counts.dropped("solicit", "stopped"), law.held);
    assert_eq!(rig.back.take().len() as u64 + law.held, 60);
    assert_eq!(rig.pool.available(), rig.pool.size());
}

#[test]
fn nothing_is_allocated() {
    let mut rig = Rig::new();
    rig.decide(V4, GRANT);
    let config = PoolConfig { packets: 1024, mtu: 1500, large_pages: false };
    let fill = |i: usize, room: &mut [u8]| {
        let frame = [four(), six(), to_p0(udp4("10.20.0.7"))][i % 3].clone();
        room[..frame.len()].copy_from_slice(&frame);
        frame.len()
    };
    let ring = Ring::new(&config, 1, fill).unwrap();
    for number in 0..2 {
        let rings = std::slice::from_ref(&ring);
        let mut device = RingDevice::new("m", P0, number, rings, &rig.pool);
        let mut port = device.start(1).unwrap().remove(0);
        port.attach(0);
        drop(rig.graph.ports().set(number, port));
    }
    let poll = |rig: &mut Rig| {
        let guard = rig.thread.guard();
        let forwarding = rig.control.forwarding();
        let borrowed = (borrowed(forwarding, guard), uncounted(&rig.counters));
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
    assert!(rig.counters.all.requests.get() > 60 && rig.counters.all.granted.get() > 30);
    while rig.graph.drain(rig.thread.guard()) > 0 {
        rig.thread.quiesce();
    }
}

#[test]
fn flows_outlive_a_graph() {
    let [mut old, mut new] = [Rig::new(), Rig::with(0, "")];
    old.decide(V4, GRANT);
    // Without flows nothing passes.
    assert!(new.send(&[four()]).is_empty());
    assert_eq!(new.dropped("shield", "no_place"), 1);
    let before = old.graph.node_mut::<Shield>().unwrap();
    graph::Node::take_over(new.graph.node_mut::<Shield>().unwrap(), before);
    assert_eq!(new.send(&[four()]), [in_v4(1, &four()[14..])]);
    assert!(old.send(&[four()]).is_empty());
}
