//! A shadow reaches the verdicts that a shield does, and lets all pass.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use graph::clock;
use io::pcap::Reader;
use policy::bpf::stock::STOCK;
use policy::bpf::{Clock, load};
use tables::event::NeighbourState;
use tables::{Action, Named, Protect, VrfId};
use wire::build::Frame;
use wire::ethernet::Mac;
use wire::ggu::{Flow, Verdict as Decision};
use wire::vlan::Tag;

use super::super::granted::parameters;
use super::super::programs::Programs;
use super::super::settings::{Counters, SHADOW, Verdicts};
use super::super::solicit::Solicit;
use super::super::times::Times;
use super::direct::about;
use super::filters::add_tagged;
use super::rig::{GRANTOR, Rig, in_v4, neighbour, route};
use super::stock::by_number;
use crate::testbed::{P0, P1, PEER, to_p0, udp4, udp6};

const SHADOWS: &str = "10.0.2.10";
const SHADOWS6: &str = "2001:db8:2::10";
/// A host of each protection.
const HOSTS: [&str; 2] = ["10.20.0.1", "2001:db8:20::1"];

/// With 10.20/16 and 2001:db8:20::/48 protected, or shadowed, by the usual Grantors and perhaps
/// those of a shadow.
fn rig(options: u32, with_shadow: bool, bytes_per_s: u64) -> Rig {
    protecting(Rig::paced(1 << 12, "", bytes_per_s), options, with_shadow)
}

fn protecting(mut rig: Rig, options: u32, with_shadow: bool) -> Rig {
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

/// A frame, and the nanoseconds after the one before it.
type Recorded = (Vec<u8>, i64);

/// A recording, each packet of which goes to a host that is protected: those of the examples, those
/// of the data where there are such, each with the time stamps of its capture; and one of twenty
/// clients, of which every fourth has IPv6, with odd packets among them.
fn recording() -> Vec<Recorded> {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/policies");
    let mut files = vec![examples.join("web.pcap"), examples.join("dns.pcap")];
    let data = testing::data("pcap").into_iter();
    let names = ["ndpi-reddit.pcap", "pcpp-many-protocols.pcap", "tcpreplay-fragroute.pcap"];
    files.extend(data.flat_map(|folder| names.map(|name| folder.join(name))));
    let mut all = Vec::new();
    for file in files {
        let read = std::fs::read(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let (mut reader, mut last) = (Reader::new(&read[..]).unwrap(), None);
        for _ in 0..2_000 {
            let Ok(Some(frame)) = reader.next_frame() else { break };
            let time = frame.time_ns as i64;
            let after = time - last.unwrap_or(time - SECOND);
            last = Some(time);
            all.extend(protected(frame.data.to_vec()).map(|frame| (frame, after)));
        }
    }
    for step in 0..40_u32 {
        let len = |client| (step * client) as usize % 400;
        let host = step % 3;
        let frames = (0..20).map(|client| match client % 4 {
            3 => frame6(client as u16, host as u16, len(client)),
            _ => frame(client, host as u8, len(client)),
        });
        for frame in frames.chain(odd(step)) {
            let n = all.len();
            // 0.5 to 32 ms; now and then more, so that those who waited are more patient.
            let pause = if n % 150 == 149 { (3 * SECOND / 2) << (n / 150 % 3) } else { 0 };
            all.push((frame, (500_000 << (n % 7)) + pause));
        }
    }
    all
}

const SECOND: i64 = 1_000_000_000;

/// What is unusual, of the clients that are usual otherwise.
fn odd(step: u32) -> Vec<Vec<u8>> {
    let to = ["10.20.0.0", "10.20.0.1", "10.20.0.2"][(step % 3) as usize];
    let to6 = ["2001:db8:20::", "2001:db8:20::1", "2001:db8:20::2"][(step % 3) as usize];
    let frame = match step % 14 {
        0 => udp4(to).options(&[7, 7, 4, 0, 0, 0, 0, 0]),
        1 => udp4(to).options(&[1, 1, 1, 0]),
        2 => udp4(to).ttl(1),
        3 => udp4(to).ttl(0),
        4 => udp4(to).payload(&[1; 1_460]), // too long with an outer header
        5 => udp4(to).payload(&[1; 1_473]), // and without one
        6 => udp4(to).tag(Tag::new(5)),
        7 => udp4(to).tag(Tag::outer(7)).tag(Tag::new(6)),
        8 => udp4(to).fragment(7, 1_480, false),
        9 => udp4(to).pad_to(300),
        10 => udp6(to6).extension(0, [1, 4, 0, 0, 0, 0]),
        11 => udp6(to6).fragment(7, 0, true),
        12 => udp6(to6).tag(Tag::new(5)).ttl(1),
        _ => udp6(to6).payload(&[1; 1_440]),
    };
    vec![to_p0(frame)]
}

/// Where the packet begins: behind tags.
fn packet_at(frame: &[u8]) -> usize {
    let tags = frame[12..].chunks_exact(4);
    14 + 4 * tags.take_while(|tag| [[0x81, 0], [0x88, 0xa8]].contains(&[tag[0], tag[1]])).count()
}

/// The frame of a client to what is protected, if it is one of IP. A single tag is of a VLAN that
/// the front has. Nothing else is changed: options, tags, hop limits and lengths are as recorded.
fn protected(mut frame: Vec<u8>) -> Option<Vec<u8>> {
    let at = packet_at(&frame);
    frame.get_mut(..12)?.copy_from_slice(&[P0, PEER].concat());
    if at == 18 {
        frame[14..16].copy_from_slice(&[0, 5]);
    }
    match (frame.get(at - 2..at)?, frame.get(at)? >> 4) {
        ([8, 0], 4) => {
            let end = at + usize::from(frame[at] & 15) * 4;
            frame.get_mut(at + 16..at + 18)?.copy_from_slice(&[10, 20]);
            frame[at + 10..at + 12].fill(0);
            let sum = wire::checksum::checksum(frame.get(at..end.max(at + 20))?).to_be_bytes();
            frame[at + 10..at + 12].copy_from_slice(&sum);
        }
        ([0x86, 0xdd], 6) => {
            frame.get_mut(at + 24..at + 30)?.copy_from_slice(&[0x20, 1, 0x0d, 0xb8, 0, 0x20]);
            frame.get(at..at + 40)?;
        }
        _ => return None,
    }
    Some(frame)
}

/// Whether a packet that was judged leaves by its route. A shield encapsulates the others, or says
/// that they are too long. A shadow is a router to them: it forwards neither what expires nor what
/// does not fit. Only the verdicts on those are equal.
fn is_forwarded(frame: &[u8]) -> bool {
    let packet = &frame[packet_at(frame)..];
    let len = |at: usize| usize::from(u16::from_be_bytes([packet[at], packet[at + 1]]));
    match packet[0] >> 4 {
        4 => packet[8] > 1 && len(2) <= 1_500,
        _ => packet[7] > 1 && len(4) + 40 <= 1_500,
    }
}

/// The flow of a frame, as a decision names it.
fn flow_of(frame: &[u8]) -> Flow {
    let packet = &frame[packet_at(frame)..];
    let four = |at: usize| <[u8; 4]>::try_from(&packet[at..at + 4]).unwrap().into();
    let six = |at: usize| <[u8; 16]>::try_from(&packet[at..at + 16]).unwrap().into();
    match packet[0] >> 4 {
        4 => Flow::V4 { src: four(12), dst: four(16) },
        _ => Flow::V6 { src: six(8), dst: six(24) },
    }
}

/// What a shield did with a packet: what it counted, and the priorities that it asked with.
#[derive(Debug, Eq, PartialEq)]
struct Did {
    counted: [u64; 8],
    asked: Vec<u8>,
}

/// What `rig` did with `frame` at `now`, and how many left that no request is.
fn did(rig: &mut Rig, of: impl Fn(&Counters) -> [u64; 8], frame: &[u8], now: u64) -> (Did, usize) {
    let before = of(&rig.counters);
    rig.front.push(frame);
    polls(rig, now);
    let after = of(&rig.counters);
    let counted = std::array::from_fn(|i| after[i] - before[i]);
    let out = rig.back.take();
    let (asked, others): (Vec<_>, Vec<_>) =
        out.iter().map(|frame| outer_dscp(frame)).partition(Option::is_some);
    (Did { counted, asked: asked.into_iter().flatten().collect() }, others.len())
}

fn polls(rig: &mut Rig, now: u64) {
    for _ in 0..4 {
        rig.graph.poll_at(now, rig.thread.guard());
        rig.thread.quiesce();
    }
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

/// Which of 19 packets come behind a decision on their flow: a budget that is soon used up, and
/// asked for again before; the same by programs, one of which sends straight on; a refusal that
/// ends.
fn decisions() -> [(usize, Decision); 6] {
    let few =
        Decision::Granted { expire_s: 20, rate_kib: 1, next_renewal_ms: 200, renewal_step_ms: 100 };
    let program = Decision::Program { expire_s: 20, index: 0, cookie: parameters(1, 200, 100) };
    let straight = by_number(2, &[2, 1, 200, 100, 1]);
    let web = by_number(3, &[2, 1, 200, 100, 0]);
    let declined = Decision::Declined { expire_s: 2 };
    [(3, few), (6, straight), (9, few), (12, program), (15, declined), (17, web)]
}

/// The stock programs, in a rig of its own clock.
fn load_programs(rig: &Rig) {
    let times = Times::new(clock::rate());
    let clock = Clock { cycles_per_sec: times.second(), cycles_per_ms: times.millis(1) };
    let mut programs = Programs::default();
    for stock in &STOCK[2..] {
        programs.set(stock.index, Some(Arc::new(load(stock.object, clock).unwrap())));
    }
    rig.programs.publish(programs);
}

/// Packet by packet, at the times of the recording, with messages of decisions in between: what a
/// shadow counts and the priorities at which it asks are the shield's, and every packet goes by its
/// route.
#[test]
fn a_shadow_reaches_the_same_verdict_on_each_packet_and_drops_none() {
    let mut rigs = [rig(0, true, 125_000_000), rig(SHADOW, true, 125_000_000)];
    for rig in &mut rigs {
        add_tagged(rig);
        load_programs(rig);
    }
    let sets = rigs.each_ref().map(|rig| HOSTS.map(|host| rig.set(host)));
    let (mut now, mut passed, mut stayed) = (clock::now(), 0, 0);
    let (mut totals, mut levels) = ([0; 8], [0; 64]);
    for (n, (frame, after)) in recording().iter().enumerate() {
        let ticks = clock::ticks(Duration::from_nanos(after.unsigned_abs()));
        now = if *after < 0 { now - ticks } else { now + ticks };
        if let Some((_, verdict)) = decisions().into_iter().find(|(at, _)| n % 19 == *at) {
            for rig in &mut rigs {
                rig.back.push(&about(flow_of(frame), verdict));
                polls(rig, now);
                assert!(rig.back.take().is_empty());
            }
        }
        let [real, shadow] = &mut rigs;
        let (mut real, _) = did(real, |counters| verdicts(&counters.all), frame, now);
        let (shadow, out) = did(shadow, |counters| verdicts(&counters.shadow), frame, now);
        real.asked.iter().for_each(|level| levels[usize::from(*level)] += 1);
        // A granted packet goes to its Grantor, and a shadow's by its route.
        real.asked.retain(|level| *level > 2);
        assert_eq!(real, shadow, "packet {n}: {frame:x?}");
        let was_judged = real.counted != [0; 8];
        assert_eq!(out, usize::from(was_judged && is_forwarded(frame)), "packet {n}: {frame:x?}");
        passed += out;
        stayed += usize::from(was_judged) - out;
        totals = std::array::from_fn(|i| totals[i] + real.counted[i]);
    }
    assert!(stayed >= 8, "{stayed} of the odd ones were judged, and had no route");
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

/// A table that runs full: what finds no place would be dropped, and goes by its route.
#[test]
fn a_shadow_whose_table_is_full_counts_what_it_does_not_drop() {
    let rig = |options| protecting(Rig::with(64, "deployed"), options, true);
    let mut rigs = [rig(0), rig(SHADOW)];
    let (mut now, mut totals, mut passed) = (clock::now(), [0; 8], 0);
    for n in 0..200 {
        now += clock::ticks(Duration::from_millis(1));
        let frame = frame(n, 1, 60);
        let [real, shadow] = &mut rigs;
        let (real, _) = did(real, |counters| verdicts(&counters.all), &frame, now);
        let (shadow, out) = did(shadow, |counters| verdicts(&counters.shadow), &frame, now);
        assert_eq!(real, shadow, "packet {n}");
        passed += out;
        totals = std::array::from_fn(|i| totals[i] + real.counted[i]);
    }
    let [requests, dropped] = [totals[0], totals[6]];
    assert!(requests > 0 && dropped > 0 && requests + dropped == 200, "{totals:?}");
    assert_eq!(passed, 200);
    let no_place = rigs.each_mut().map(|rig| rig.dropped("shield", "no_place"));
    assert_eq!(no_place, [dropped, 0]);
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
        let of = HOSTS.map(|host| &rigs[1].counters.drops(rigs[1].set(host)).unwrap().shadows);
        assert_eq!(of.map(|of| [of.passed.get(), of.dropped.get()]), [[1, 87], [0, 0]]);
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
