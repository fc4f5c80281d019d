//! A shadow reaches the verdicts that a shield does, and lets all pass.

use std::path::Path;

use graph::clock;
use tables::event::NeighbourState;
use tables::{Action, Named, Protect, VrfId};
use wire::build::Frame;
use wire::ethernet::Mac;
use wire::ggu::Verdict as Decision;

use super::super::flows::{Heard, key_of};
use super::super::granted::parameters;
use super::super::machine::Machine;
use super::super::programs::Programs;
use super::super::settings::{Counters, SHADOW, Verdicts};
use super::super::solicit::Solicit;
use super::super::times::Times;
use super::rig::{GRANTOR, Rig, in_v4, neighbour, route};
use crate::testbed::{P0, P1, PEER, to_p0, udp4};
use crate::tests::replay::frames_of;

const SHADOWS: &str = "10.0.2.10";
const SHADOWS6: &str = "2001:db8:2::10";
/// A host of each protection.
const HOSTS: [&str; 2] = ["10.20.0.1", "2001:db8:20::1"];

/// With 10.20/16 and 2001:db8:20::/48 protected, or shadowed, by the usual Grantors and perhaps
/// those of a shadow.
fn rig(options: u32, with_shadow: bool, bytes_per_s: u64) -> Rig {
    let mut rig = Rig::paced(1 << 12, "", bytes_per_s);
    let named = |ip: &str, shadow| Named { ip: ip.parse().unwrap(), weight: 1, shadow };
    for (net, grantor, shadow) in
        [("10.20.0.0/16", "10.0.2.9", SHADOWS), ("2001:db8:20::/48", "2001:db8:2::9", SHADOWS6)]
    {
        let mut grantors = vec![named(grantor, false)];
        grantors.extend(with_shadow.then(|| named(shadow, true)));
        let protect =
            Protect { net: net.parse().unwrap(), action: Action::Protect, options, grantors };
        rig.control.change_protection(VrfId(0), &protect).unwrap();
    }
    rig.control.commit();
    rig.control.handle(&[
        neighbour(SHADOWS, NeighbourState::Reachable),
        neighbour(SHADOWS6, NeighbourState::Reachable),
        route("2001:db8:20::/48", 2, Some("2001:db8:2::9")),
    ]);
    rig.control.commit();
    rig
}

fn frame(client: u32, host: u8, len: usize) -> Vec<u8> {
    let from = std::net::SocketAddrV4::new((0xc633_6400 + client).into(), 4_000);
    let to = std::net::SocketAddrV4::new([10, 20, 0, host].into(), 53);
    to_p0(Frame::udp4(from, to).payload(&vec![7; len]))
}

/// The same of IPv6.
fn frame6(client: u16, host: u16, len: usize) -> Vec<u8> {
    let end = |ip: [u16; 8], port| std::net::SocketAddrV6::new(ip.into(), port, 0, 0);
    let from = end([0x2001, 0xdb8, 9, 0, 0, 0, 0, client], 4_000);
    let to = end([0x2001, 0xdb8, 0x20, 0, 0, 0, 0, host], 53);
    to_p0(Frame::udp6(from, to).payload(&vec![7; len]))
}

/// As a bypass sends it.
fn routed(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame[..6].copy_from_slice(&GRANTOR);
    frame[6..12].copy_from_slice(&P1);
    frame[22] -= 1;
    frame[24..26].fill(0);
    let sum = wire::checksum::checksum(&frame[14..34]).to_be_bytes();
    frame[24..26].copy_from_slice(&sum);
    frame
}

fn verdicts(all: &Verdicts) -> [u64; 8] {
    [
        &all.requests,
        &all.request_bytes,
        &all.granted,
        &all.granted_bytes,
        &all.declined,
        &all.declined_bytes,
        &all.dropped,
        &all.dropped_bytes,
    ]
    .map(|count| count.get())
}

/// A recording, each packet of which goes to a host that is protected: those of the examples, those
/// of the data where there are such, and one of twenty clients, of which every fourth has IPv6.
fn recording() -> Vec<Vec<u8>> {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/policies");
    let mut files = vec![examples.join("web.pcap"), examples.join("dns.pcap")];
    let data = testing::data("pcap").into_iter();
    let names = ["ndpi-reddit.pcap", "pcpp-many-protocols.pcap", "tcpreplay-fragroute.pcap"];
    files.extend(data.flat_map(|folder| names.map(|name| folder.join(name))));
    let mut all = Vec::new();
    for file in files {
        let read = std::fs::read(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let frames = frames_of(&read).unwrap();
        all.extend(frames.into_iter().take(2_000).filter_map(protected));
    }
    for step in 0..40_u32 {
        let len = |client| (step * client) as usize % 400;
        let host = step % 3;
        all.extend((0..20).map(|client| match client % 4 {
            3 => frame6(client as u16, host as u16, len(client)),
            _ => frame(client, host as u8, len(client)),
        }));
    }
    all
}

/// The frame of a client to what is protected, if it is of IP without a tag, and the back carries it
/// with an outer header.
fn protected(mut frame: Vec<u8>) -> Option<Vec<u8>> {
    if frame.len() > 14 + 1_460 {
        return None;
    }
    if frame.len() >= 54 && frame[12..14] == [0x86, 0xdd] && frame[14] >> 4 == 6 {
        frame[..12].copy_from_slice(&[P0, PEER].concat());
        frame[21] = frame[21].max(2); // what expires is no request
        frame[38..44].copy_from_slice(&[0x20, 1, 0x0d, 0xb8, 0, 0x20]);
        return Some(frame);
    }
    if frame.len() < 34 || frame[12..15] != [8, 0, 0x45] {
        return None;
    }
    frame[..12].copy_from_slice(&[P0, PEER].concat());
    frame[22] = frame[22].max(2); // as above
    frame[30..32].copy_from_slice(&[10, 20]);
    frame[24..26].fill(0);
    let sum = wire::checksum::checksum(&frame[14..34]).to_be_bytes();
    frame[24..26].copy_from_slice(&sum);
    Some(frame)
}

/// What a shield did with a packet: what it counted, and the priorities that it asked with.
#[derive(Debug, Eq, PartialEq)]
struct Did {
    counted: [u64; 8],
    asked: Vec<u8>,
}

/// What `rig` did with `frame` at `now`, and what left.
fn did(rig: &mut Rig, of: impl Fn(&Counters) -> [u64; 8], frame: &[u8], now: u64) -> (Did, usize) {
    let before = of(&rig.counters);
    rig.front.push(frame);
    for poll in 0..4 {
        let micros = Times::new(clock::rate()).second() / 1_000_000;
        rig.graph.poll_at(now + poll * 100 * micros, rig.thread.guard());
        rig.thread.quiesce();
    }
    let after = of(&rig.counters);
    let counted = std::array::from_fn(|i| after[i] - before[i]);
    let out = rig.back.take();
    let (asked, others): (Vec<_>, Vec<_>) =
        out.iter().map(|frame| outer_dscp(frame)).partition(Option::is_some);
    (Did { counted, asked: asked.into_iter().flatten().collect() }, others.len())
}

/// The DSCP of the outer header, if this machine has put one in front.
fn outer_dscp(frame: &[u8]) -> Option<u8> {
    let from = "2001:db8:2::1".parse::<std::net::Ipv6Addr>().unwrap().octets();
    match frame[12..14] {
        [8, 0] if frame[23] == 4 && frame[26..30] == [10, 0, 2, 1] => Some(frame[15] >> 2),
        [0x86, 0xdd] if frame[20] == 41 && frame[22..38] == from => {
            Some((frame[14] & 15) << 2 | frame[15] >> 6)
        }
        _ => None,
    }
}

/// Which of 19 packets are followed by a decision on their flow: a budget that is soon used up, and
/// asked for again before; the same by a program; a refusal that ends.
fn decisions() -> [(usize, Decision); 4] {
    let few =
        Decision::Granted { expire_s: 20, rate_kib: 1, next_renewal_ms: 200, renewal_step_ms: 100 };
    let program = Decision::Program { expire_s: 20, index: 0, cookie: parameters(1, 200, 100) };
    [(3, few), (9, few), (12, program), (15, Decision::Declined { expire_s: 2 })]
}

/// Packet by packet, by a clock of the test's own, with decisions in between: what a shadow counts
/// and the priorities at which it asks are the shield's, and every packet goes by its route.
#[test]
fn a_shadow_reaches_the_same_verdict_on_each_packet_and_drops_none() {
    let mut rigs = [rig(0, true, 125_000_000), rig(SHADOW, true, 125_000_000)];
    let sets = rigs.each_ref().map(|rig| HOSTS.map(|host| rig.set(host)));
    let (programs, times) = (Programs::default(), Times::new(clock::rate()));
    let machine = Machine { times: &times, programs: &programs };
    let (mut now, mut passed) = (clock::now(), 0);
    let (mut totals, mut levels) = ([0; 8], [0; 64]);
    for (n, frame) in recording().iter().enumerate() {
        now += (times.millis(1) / 2) << (n % 7); // 0.5 to 32 ms
        if n % 150 == 149 {
            now += times.millis(1_500) << (n / 150 % 3); // those who waited are more patient
        }
        let mut head = [0; 64];
        frame[14..].iter().zip(&mut head).for_each(|(from, to)| *to = *from);
        let key = key_of(&head);
        let decision = decisions().into_iter().find(|(at, _)| n % 19 == *at);
        for (rig, sets) in rigs.iter_mut().zip(sets) {
            let Some((_, decision)) = &decision else { continue };
            let decided = machine.decision(decision, now).unwrap();
            let set = sets[usize::from(!key.is_v4())];
            assert!(rig.heard.push(Heard { key, set, decided }).is_ok());
        }
        let [real, shadow] = &mut rigs;
        let (mut real, _) = did(real, |counters| verdicts(&counters.all), frame, now);
        let (shadow, out) = did(shadow, |counters| verdicts(&counters.shadow), frame, now);
        real.asked.iter().for_each(|level| levels[usize::from(*level)] += 1);
        // A granted packet goes to its Grantor, and a shadow's by its route.
        real.asked.retain(|level| *level > 2);
        assert_eq!(real, shadow, "packet {n}: {frame:x?}");
        assert_eq!(out, usize::from(real.counted != [0; 8]), "packet {n}: {frame:x?}");
        passed += out;
        totals = std::array::from_fn(|i| totals[i] + real.counted[i]);
    }
    // Of each kind there were some: requests, granted, declined or over their budget; renewals.
    assert!([0, 2, 4].iter().all(|kind| totals[*kind] >= 10) && passed > 700, "{totals:?}");
    assert!(levels[2] > 0 && levels[3..].iter().filter(|n| **n > 0).count() > 3, "{levels:?}");

    // The same, each among its own counters, of all and of the protection.
    let [real, shadow] = rigs.each_ref().map(|rig| &*rig.counters);
    assert_eq!((verdicts(&real.all), verdicts(&shadow.shadow)), (totals, totals));
    let [four, six] = sets[0].map(|set| verdicts(real.of(set).unwrap()));
    assert_eq!(std::array::from_fn(|i| four[i] + six[i]), totals);
    assert!([four, six].iter().all(|of| [0, 2, 4].iter().all(|kind| of[*kind] > 0)), "{six:?}");
    assert_eq!(sets[1].map(|set| verdicts(shadow.shadow_of(set).unwrap())), [four, six]);
    let none = [real.shadow_of(sets[0][0]), real.shadow_of(sets[0][1])];
    let none = none.into_iter().chain(sets[1].map(|set| shadow.of(set))).flatten();
    assert!(none.chain([&real.shadow, &shadow.all]).all(|of| verdicts(of) == [0; 8]));
    let by_program = [real, shadow].map(|of| of.decisions.all.by_program.get());
    assert!(by_program[0] >= 10 && by_program[0] == by_program[1], "{by_program:?}");
    let counts = rigs[1].run();
    let drops = ["declined", "over_budget", "no_place", "failed"];
    assert!(drops.iter().all(|why| counts.dropped("shield", why) == 0));
}

/// What passes a shadow is what its route would send.
#[test]
fn a_shadow_sends_packets_as_they_are() {
    let mut rig = rig(SHADOW, false, 125_000_000);
    rig.decide("10.20.0.1", Decision::Declined { expire_s: 60 });
    let frames: Vec<_> = (0..20).map(|client| frame(client, 1, 40)).collect();
    let mut out = rig.send(&frames);
    let mut want: Vec<_> = frames.iter().map(|frame| routed(frame)).collect();
    // Of different flows those that ask are a node behind the others.
    out.sort_unstable();
    want.sort_unstable();
    assert_eq!(out, want);
    assert_eq!(verdicts(&rig.counters.shadow)[4], 1, "the declined one");
}

#[test]
fn the_solicitor_does_with_a_shadow_what_it_does_with_requests() {
    // After the first, which a full bucket lets through, the channel has no room.
    for with_shadow in [false, true] {
        let mut rigs = [rig(0, with_shadow, 1), rig(SHADOW, with_shadow, 1)];
        let mut left = [0; 2];
        for (rig, left) in rigs.iter_mut().zip(&mut left) {
            for first in (0..600).step_by(50) {
                (first..first + 50).for_each(|client| rig.front.push(&frame(client, 9, 60)));
                (0..3).for_each(|_| _ = rig.graph.poll(rig.thread.guard()));
                rig.thread.quiesce();
            }
            *left = rig.graph.node_mut::<Solicit>().unwrap().waiting();
        }
        assert_eq!(left, [512; 2]);
        let full = rigs[0].graph.stats().snapshot().dropped("solicit", "full");
        let counts = &rigs[1].counters.shadows;
        assert_eq!((counts.passed.get(), counts.dropped.get(), full), (1, 87, 87));
        // All went on at once; a copy for whoever there is.
        let out = rigs[1].back.take();
        assert_eq!(out.iter().filter(|frame| frame[23] == 17).count(), 600);
        let copies: Vec<_> = out.iter().filter(|frame| frame[23] == 4).collect();
        assert_eq!(copies.len(), usize::from(with_shadow));
        if let [copy] = copies[..] {
            let mut want = in_v4(41, &frame(0, 9, 60)[14..]);
            want[33] = 10;
            want[24..26].fill(0);
            let sum = wire::checksum::checksum(&want[14..34]).to_be_bytes();
            want[24..26].copy_from_slice(&sum);
            assert_eq!(copy, &want);
        }
        for rig in &mut rigs {
            let held = rig.graph.stats().balance().held;
            while rig.graph.drain(rig.thread.guard()) > 0 {
                rig.thread.quiesce();
            }
            let counts = rig.graph.stats().snapshot();
            assert!(counts.law.holds() && counts.law.held == 0, "{:?}", counts.law);
            assert_eq!(counts.dropped("solicit", "stopped"), held);
            assert_eq!(rig.pool.available(), rig.pool.size());
        }
    }
}

/// What expires on the way of a bypass is reported as there.
#[test]
fn a_shadow_is_no_router_less() {
    let mut rig = rig(SHADOW, false, 125_000_000);
    assert!(rig.send(&[to_p0(udp4("10.20.0.1").ttl(1))]).is_empty());
    let errors = rig.front.take();
    assert!(errors.len() == 1 && errors[0][34] == wire::icmp::TIME_EXCEEDED);
    let mac = Mac(errors[0][..6].try_into().unwrap());
    assert_eq!(mac, Mac(PEER));
}
