//! A shadow reaches the verdicts that a shield does, and lets all pass.

use std::time::{Duration, Instant};

use tables::event::NeighbourState;
use tables::{Action, Named, Protect, VrfId};
use wire::build::Frame;
use wire::ethernet::Mac;
use wire::ggu::Verdict as Decision;

use super::super::settings::{SHADOW, Verdicts};
use super::super::solicit::Solicit;
use super::rig::{GRANTOR, Rig, in_v4, neighbour};
use crate::testbed::{P1, to_p0, udp4};

const SHADOWS: &str = "10.0.2.10";

/// With 10.20/16 protected, or shadowed, by the usual Grantor and perhaps one of a shadow.
fn rig(options: u32, with_shadow: bool, bytes_per_s: u64) -> Rig {
    let mut rig = Rig::paced(1 << 12, "", bytes_per_s);
    let named = |ip: &str, shadow| Named { ip: ip.parse().unwrap(), weight: 1, shadow };
    let mut grantors = vec![named("10.0.2.9", false)];
    grantors.extend(with_shadow.then(|| named(SHADOWS, true)));
    let net = "10.20.0.0/16".parse().unwrap();
    let protect = Protect { net, action: Action::Protect, options, grantors };
    rig.control.change_protection(VrfId(0), &protect).unwrap();
    rig.control.commit();
    rig.control.handle(&[neighbour(SHADOWS, NeighbourState::Reachable)]);
    rig.control.commit();
    rig
}

fn frame(client: u32, host: u8, len: usize) -> Vec<u8> {
    let from = std::net::SocketAddrV4::new((0xc633_6400 + client).into(), 4_000);
    let to = std::net::SocketAddrV4::new([10, 20, 0, host].into(), 53);
    to_p0(Frame::udp4(from, to).payload(&vec![7; len]))
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

/// A recording: packets of twenty clients, decisions in between, both by one clock.
#[test]
fn a_shadow_reaches_the_same_verdicts_and_drops_nothing() {
    for turn in 0.. {
        let begun = Instant::now();
        let mut rigs = [rig(0, true, 125_000_000), rig(SHADOW, true, 125_000_000)];
        let (mut sent, mut passed) = (Vec::new(), Vec::new());
        for step in 0..40_u32 {
            let few = Decision::Granted {
                expire_s: 300,
                rate_kib: 2,
                next_renewal_ms: 3_600_000,
                renewal_step_ms: 1,
            };
            // The flow of `udp4`, which is client 7's to host 1 or 2.
            let decision = match step {
                10 => Some(("10.20.0.1", few)),
                20 => Some(("10.20.0.2", Decision::Declined { expire_s: 60 })),
                30 => Some(("10.20.0.1", Decision::Declined { expire_s: 60 })),
                _ => None,
            };
            let frames: Vec<_> = (0..20)
                .map(|client| frame(client, (step % 3) as u8, (step * client) as usize % 400))
                .collect();
            for (rig, out) in rigs.iter_mut().zip([&mut sent, &mut passed]) {
                if let Some((dst, decision)) = decision {
                    rig.decide(dst, decision);
                }
                out.push((frames.clone(), rig.send(&frames)));
            }
        }
        if begun.elapsed() > Duration::from_millis(700) && turn < 5 {
            continue; // a budget's window may have ended between the two
        }
        // The same, each among its own counters, of all and of the protection.
        let [real, shadow] = rigs.each_ref().map(|rig| &*rig.counters);
        assert_eq!(verdicts(&real.all), verdicts(&shadow.shadow));
        let sets = rigs.each_ref().map(|rig| rig.set("10.20.0.1"));
        let real_of = real.of(sets[0]).unwrap();
        assert_eq!(verdicts(real_of), verdicts(shadow.shadow_of(sets[1]).unwrap()));
        let others = [&real.shadow, real.shadow_of(sets[0]).unwrap()];
        let others = others.into_iter().chain([&shadow.all, shadow.of(sets[1]).unwrap()]);
        assert!(others.map(verdicts).all(|of| of == [0; 8]));
        let [requests, _, granted, _, declined, ..] = verdicts(&shadow.shadow);
        assert!(requests > 700 && granted > 3 && declined >= 10, "{requests} {granted} {declined}");
        // Every packet left, as it would without a shield, and copies of the requests.
        let copies = rigs[1].counters.shadows.passed.get();
        assert_eq!(copies, requests);
        let (mut out, mut asked) = (0, 0);
        for (frames, got) in &passed {
            // Of different flows those that ask are a node behind the others.
            let mut plain: Vec<_> = got.iter().filter(|frame| frame[23] == 17).cloned().collect();
            let mut want: Vec<_> = frames.iter().map(|frame| routed(frame)).collect();
            plain.sort_unstable();
            want.sort_unstable();
            assert_eq!(plain, want);
            out += plain.len();
            asked += got.iter().filter(|frame| frame[30..34] == [10, 0, 2, 10]).count() as u64;
        }
        assert_eq!((out, asked), (800, copies));
        let counts = rigs[1].run();
        let drops = ["declined", "over_budget", "no_place", "failed"];
        assert!(drops.iter().all(|why| counts.dropped("shield", why) == 0));
        break;
    }
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
    assert_eq!(mac, Mac(crate::testbed::PEER));
}
