//! What a program sends straight to its destination, to the byte: the committed `grantedv2`, from
//! real decisions on.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};

use graph::Snapshot;
use policy::bpf::stock::STOCK;
use tables::event::{Event, LinkId, Neighbour, NeighbourState};
use tables::{Action, Named, Protect, VrfId};
use wire::build::Frame;
use wire::ggu::{Decision as Sent, Flow, Ports, Verdict as Decision, Writer};

use super::super::settings::{SHADOW, Settings};
use super::decisions::{V4, decided, hear, message};
use super::rig::{GRANTOR, Rig, address, in_v4, in_v6, neighbour, route, settings};
use super::stock::{by_number, put};
use crate::testbed::{P1, PEER, to_p0, udp4, udp6};

pub(super) const V6: &str = "2001:db8:20::1";
/// Milliseconds until a renewal, of flows that need none here.
pub(super) const LATE: u32 = 3_600_000;
/// KiB a second, more than is sent.
const MUCH: u32 = 1 << 20;

/// A message of the Grantor of IPv6, as a frame at the back.
pub(super) fn message6(decisions: &[Sent]) -> Vec<u8> {
    let mut buffer = [0; 1_500];
    let [from, to] = ["2001:db8:2::9", "2001:db8:2::1"].map(|ip| ip.parse().unwrap());
    let mut writer = Writer::new(&mut buffer, from, to, Ports::default()).unwrap();
    decisions.iter().for_each(|decision| writer.push(decision).unwrap());
    [&P1[..], &PEER, &[0x86, 0xdd], writer.finish()].concat()
}

/// The message by which the Grantor of its family decides about a flow.
pub(super) fn about(flow: Flow, verdict: Decision) -> Vec<u8> {
    match flow {
        Flow::V4 { .. } => message("10.0.2.9", &[Sent { flow, verdict }]),
        Flow::V6 { .. } => message6(&[Sent { flow, verdict }]),
    }
}

/// The flows of [`udp4`] and [`udp6`] are decided so.
pub(super) fn decide(rig: &mut Rig, verdict: Decision) {
    for Sent { flow, verdict } in decided(verdict) {
        hear(rig, &about(flow, verdict));
    }
}

/// `grantedv2` as program 2, which lets both flows pass; straight where it `is_direct`.
fn granted(rig: &mut Rig, next_renewal_ms: u32, is_direct: bool) {
    let words = [MUCH, MUCH, next_renewal_ms, LATE, u32::from(is_direct)];
    decide(rig, by_number(2, &words));
}

fn rig() -> Rig {
    let mut rig = Rig::new();
    put(&mut rig, 2, STOCK[2].object);
    granted(&mut rig, LATE, true);
    assert_eq!(rig.counters.decisions.all.by_program.get(), 2);
    rig
}

/// As a frame leaves straight, if nothing was behind its packet: by the Grantor's gateway, with
/// DSCP 1, and else as it came.
pub(super) fn straight(frame: &[u8]) -> Vec<u8> {
    let mut frame = [&GRANTOR[..], &P1, &frame[12..]].concat();
    if frame[12..14] == [8, 0] {
        frame[15] = 1 << 2 | frame[15] & 3;
        summed(frame)
    } else {
        (frame[14], frame[15]) = (0x60, 1 << 6 | frame[15] & 0x3f);
        frame
    }
}

/// With the right checksum of its IPv4 header.
fn summed(mut frame: Vec<u8>) -> Vec<u8> {
    let end = 14 + usize::from(frame[14] & 15) * 4;
    frame[24..26].fill(0);
    let sum = wire::checksum::checksum(&frame[14..end]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame
}

fn dropped(counts: &Snapshot, why: &str) -> u64 {
    counts.dropped("shield", why)
}

#[test]
fn any_dscp_becomes_that_of_granted_packets_and_ecn_stays() {
    let mut rig = rig();
    let four = (0..=255).map(|tos| to_p0(udp4(V4).tos(tos).payload(&[4; 60])));
    let six = (0..=255).map(|tos| {
        let mut frame = to_p0(udp6(V6).tos(tos).payload(&[6; 60]));
        // A flow label.
        (frame[15], frame[16], frame[17]) = (frame[15] | 0x0a, 0xbc, tos);
        frame
    });
    for frames in four.chain(six).collect::<Vec<_>>().chunks(32) {
        let want: Vec<_> = frames.iter().map(|frame| straight(frame)).collect();
        assert_eq!(rig.send(frames), want);
    }
    assert_eq!(rig.counters.all.granted.get(), 512);
}

/// It is changed, not worked out: at 0 as it comes, at 0 as it leaves.
#[test]
fn the_checksum_is_right_at_its_ends() {
    let mut rig = rig();
    for tos in [0, 1, 1 << 2, 0x2e << 2 | 3, 0xff] {
        let frame = to_p0(udp4(V4).tos(tos));
        for of in [frame.clone(), straight(&frame)] {
            // Of this identification the header's sum is complete.
            let (mut with, ident) = (frame.clone(), [of[24], of[25]]);
            with[18..20].copy_from_slice(&ident);
            let with = summed(with);
            let ends = [&with, &straight(&with)].map(|frame| frame[24..26] == [0, 0]);
            assert!(ends.contains(&true), "{tos}");
            assert_eq!(rig.send(std::slice::from_ref(&with)), [straight(&with)], "{tos}");
        }
    }
}

#[test]
fn packets_of_any_kind_go_straight_as_they_came() {
    let mut rig = rig();
    let four = [
        udp4(V4).ttl(1),
        udp4(V4).ttl(0),
        udp4(V4).options(&[1, 1, 1, 0]),
        udp4(V4).options(&[7, 7, 4, 0, 0, 0, 0, 0]),
        udp4(V4).fragment(7, 0, true),
        udp4(V4).fragment(7, 1_480, false),
        udp4(V4).wrong_checksum(),
        Frame::ipv4([198, 51, 100, 7].into(), V4.parse().unwrap(), 4),
    ];
    let client = "2001:db8:9::7".parse().unwrap();
    let six = [
        udp6(V6).ttl(1),
        udp6(V6).extension(60, [1, 4, 0, 0, 0, 0]),
        udp6(V6).extension(43, [0, 0, 0, 0, 0, 0]).extension(60, [1, 4, 0, 0, 0, 0]),
        udp6(V6).fragment(7, 0, true),
        udp6(V6).fragment(7, 1_480, false),
        Frame::ipv6(client, V6.parse().unwrap(), 41),
    ];
    for frame in four.into_iter().chain(six) {
        let frame = to_p0(frame.tos(0xb9).payload(&[5; 64]));
        assert_eq!(rig.send(std::slice::from_ref(&frame)), [straight(&frame)], "{frame:x?}");
    }
    // Behind a packet, no more than a minimal frame is filled up with.
    let short = [to_p0(udp4(V4).payload(&[5; 3])), to_p0(udp6(V6).payload(&[5; 3]))];
    for frame in short {
        for len in [frame.len(), 60, 61, 300] {
            let len = len.max(frame.len());
            let padded = [&frame[..], &vec![0; len - frame.len()]].concat();
            let want = straight(&padded[..len.min(frame.len().max(60))]);
            assert_eq!(rig.send(&[padded]), [want], "{len}");
        }
    }
}

/// There is no outer header: what the back carries is 1,500 bytes.
#[test]
fn what_is_too_long_is_reported_with_the_whole_mtu() {
    let mut rig = rig();
    rig.control.handle(&[address(1, "2001:db8:1::1/64")]);
    rig.control.commit();
    let longest = [
        to_p0(udp4(V4).payload(&[1; 1_472])),
        to_p0(udp6(V6).payload(&[1; 1_452])),
        to_p0(udp4(V4).fragment(7, 0, true).payload(&[1; 1_472])),
    ];
    for frame in longest {
        assert_eq!(rig.send(std::slice::from_ref(&frame)), [straight(&frame)]);
    }
    let beyond = [to_p0(udp4(V4).payload(&[1; 1_473])), to_p0(udp6(V6).payload(&[1; 1_453]))];
    assert!(rig.send(&beyond).is_empty());
    let errors = rig.front.take();
    assert_eq!(errors.len(), 2);
    assert_eq!((errors[0][34], errors[0][35], &errors[0][38..42]), (3, 4, &[0, 0, 5, 220][..]));
    assert_eq!((errors[1][54], errors[1][55], &errors[1][58..62]), (2, 0, &[0, 0, 5, 220][..]));
    assert_eq!(rig.counters.errors.too_long.get(), 2);
    let may = to_p0(udp4(V4).fragment(7, 0, true).payload(&[1; 1_473]));
    assert!(rig.send(&[may]).is_empty());
    assert_eq!(dropped(&rig.run(), "too_long"), 1);
    assert_eq!(rig.counters.all.granted.get(), 6, "judged before");
}

/// Each flow has a Grantor, by whose gateway its packets go, encapsulated or not.
#[test]
fn a_flow_goes_straight_by_the_gateway_of_its_own_grantor() {
    const OTHER: [u8; 6] = [4, 0, 0, 0, 0, 10];
    let mut rig = Rig::new();
    put(&mut rig, 2, STOCK[2].object);
    for (net, ends) in [
        ("10.20.0.0/16", ["10.0.2.9", "10.0.2.10"]),
        ("2001:db8:20::/48", ["2001:db8:2::9", "2001:db8:2::a"]),
    ] {
        let named = |ip: &str| Named { ip: ip.parse().unwrap(), weight: 1, shadow: false };
        let grantors = ends.map(named).into();
        let protect =
            Protect { net: net.parse().unwrap(), action: Action::Protect, options: 0, grantors };
        rig.control.change_protection(VrfId(0), &protect).unwrap();
        let (link, ip, mac) = (LinkId(2), ends[1].parse().unwrap(), Some(OTHER));
        let state = NeighbourState::Reachable;
        rig.control.handle(&[Event::Neighbour(Neighbour { link, ip, mac, state })]);
    }
    rig.control.commit();
    let mut by = [0; 4];
    for client in 0..24_u8 {
        let (src, dst): (_, Ipv4Addr) = ([198, 51, 100, client].into(), V4.parse().unwrap());
        let from6 = Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, client.into());
        let to6: Ipv6Addr = V6.parse().unwrap();
        let four = |ip, port| SocketAddrV4::new(ip, port);
        let six = |ip, port| SocketAddrV6::new(ip, port, 0, 0);
        for (flow, frame) in [
            (Flow::V4 { src, dst }, Frame::udp4(four(src, 9), four(dst, 53))),
            (Flow::V6 { src: from6, dst: to6 }, Frame::udp6(six(from6, 9), six(to6, 53))),
        ] {
            let (frame, is_v6) = (to_p0(frame.payload(&[7; 40])), matches!(flow, Flow::V6 { .. }));
            let mut macs = Vec::new();
            for direct in [0, 1] {
                let words = [MUCH, MUCH, LATE, LATE, direct];
                hear(&mut rig, &about(flow, by_number(2, &words)));
                let sent = rig.send(std::slice::from_ref(&frame));
                let [sent] = &sent[..] else { panic!("{client}: {sent:x?}") };
                if direct == 1 {
                    assert_eq!(sent[6..], straight(&frame)[6..], "{client}");
                } else {
                    let last = sent[if is_v6 { 53 } else { 33 }];
                    assert_eq!(sent[5], last, "{client}: the Grantor is its own gateway");
                }
                macs.push(sent[5]);
            }
            assert_eq!(macs[0], macs[1], "{client}");
            by[usize::from(is_v6) * 2 + usize::from(macs[0] == OTHER[5])] += 1;
        }
    }
    assert!(by.iter().all(|n| *n > 2), "{by:?}");
}

#[test]
fn it_needs_the_gateway_and_no_address_of_this_machine() {
    let mut rig = rig();
    let frames = [to_p0(udp4(V4)), to_p0(udp6(V6))];
    let mut from = settings();
    (from.from.v4, from.from.v6) = (None, None);
    rig.settings.publish(from);
    assert_eq!(rig.send(&frames), frames.each_ref().map(|frame| straight(frame)));
    rig.settings.publish(Settings { ..settings() });
    for ip in ["10.0.2.9", "2001:db8:2::9"] {
        rig.control.handle(&[neighbour(ip, NeighbourState::Failed)]);
    }
    rig.control.commit();
    assert!(rig.send(&frames).is_empty());
    assert_eq!(dropped(&rig.run(), "unresolved"), 2);
}

/// What asks for a renewal has to come by its Grantor: with another priority nothing goes straight.
#[test]
fn a_renewal_is_encapsulated() {
    let mut rig = rig();
    let frames = [to_p0(udp4(V4).tos(0xb8)), to_p0(udp6(V6).tos(0xb8))];
    granted(&mut rig, 0, true);
    let want = [in_v4(2, &frames[0][14..]), in_v6(2, &frames[1][14..])];
    assert_eq!(rig.send(&frames), want);
    assert_eq!(rig.send(&frames), frames.each_ref().map(|frame| straight(frame)));
}

/// Specification §1.3: what is built in counts bytes before encapsulation, a program's state those
/// behind it. Straight there is none, and on the way of a shadow it is counted as if there were.
#[test]
fn bytes_of_programs_are_counted_with_the_outer_header() {
    let outer = [20, 40];
    let built_in = Decision::Granted {
        expire_s: 60,
        rate_kib: MUCH,
        next_renewal_ms: LATE,
        renewal_step_ms: LATE,
    };
    let v2 = |direct| by_number(2, &[MUCH, MUCH, LATE, LATE, direct]);
    let number_0 = by_number(0, &[MUCH, LATE, LATE]);
    for options in [0, SHADOW] {
        let mut rig = Rig::new();
        put(&mut rig, 2, STOCK[2].object);
        rig.control.handle(&[route("2001:db8:20::/48", 2, Some("2001:db8:2::9"))]);
        for (net, grantor) in [("10.20.0.0/16", "10.0.2.9"), ("2001:db8:20::/48", "2001:db8:2::9")]
        {
            let grantors = vec![Named { ip: grantor.parse().unwrap(), weight: 1, shadow: false }];
            let net = net.parse().unwrap();
            let protect = Protect { net, action: Action::Protect, options, grantors };
            rig.control.change_protection(VrfId(0), &protect).unwrap();
        }
        rig.control.commit();
        let frames = [to_p0(udp4(V4).payload(&[7; 60])), to_p0(udp6(V6).payload(&[7; 60]))];
        for (verdict, is_outer) in
            [(built_in, false), (number_0, true), (v2(0), true), (v2(1), false), (built_in, false)]
        {
            decide(&mut rig, verdict);
            for (frame, outer) in frames.iter().zip(outer) {
                let counts = rig.counters.clone();
                let of = if options == 0 { &counts.all } else { &counts.shadow };
                let before = of.granted_bytes.get();
                assert_eq!(rig.send(std::slice::from_ref(frame)).len(), 1);
                let wanted = frame.len() as u64 + if is_outer { outer } else { 0 };
                let counted = of.granted_bytes.get() - before;
                assert_eq!(counted, wanted, "{options} {verdict:?}");
            }
        }
        // What does not pass has nothing in front.
        decide(&mut rig, by_number(2, &[0, 0, LATE, LATE, 0]));
        rig.send(&frames);
        let counts = rig.counters.clone();
        let of = if options == 0 { &counts.all } else { &counts.shadow };
        let bytes: usize = frames.iter().map(Vec::len).sum();
        assert_eq!(of.declined_bytes.get(), bytes as u64);
    }
}
