//! Counters by protection: together they are what the nodes and the channel count.

use graph::Label;
use tables::event::NeighbourState;
use wire::ggu::Verdict as Decision;

use super::super::settings::{SHADOW, Settings};
use super::super::{shield, solicit};
use super::rig::{Rig, neighbour, settings};
use crate::testbed::{to_p0, udp4};

/// Drops of a protection, by node and reason, that are not 0.
fn drops(rig: &Rig, dst: &str) -> Vec<(String, u64)> {
    let of = rig.counters.drops(rig.set(dst)).unwrap();
    let named = |node, names: &[&str], counts: &[graph::Counter]| -> Vec<_> {
        let all = names.iter().zip(counts).filter(|(_, count)| count.get() > 0);
        all.map(|(why, count)| (format!("{node}.{why}"), count.get())).collect()
    };
    let mut all = named("shield", shield::Why::NAMES, &of.shield);
    all.extend(named("solicit", solicit::Why::NAMES, &of.solicit));
    all.extend(named("icmp_error", &["reported"], std::slice::from_ref(&of.reported)));
    all
}

fn packets(dst: &str, count: usize) -> Vec<Vec<u8>> {
    vec![to_p0(udp4(dst).payload(&[7; 60])); count]
}

#[test]
fn drops_are_counted_by_protection_and_reason() {
    let mut rig = Rig::new();
    rig.decide("10.20.0.1", Decision::Declined { expire_s: 60 });
    let few = Decision::Granted {
        expire_s: 60,
        rate_kib: 1,
        next_renewal_ms: 60_000,
        renewal_step_ms: 60_000,
    };
    rig.decide("10.20.0.2", few);
    rig.send(&packets("10.20.0.1", 3));
    let passed = rig.send(&packets("10.20.0.2", 12)).len() as u64;
    rig.send(&packets("10.23.0.1", 2)); // its Grantor has no neighbour
    rig.control.handle(&[neighbour("10.0.2.9", NeighbourState::Failed)]);
    rig.decide("10.20.0.4", few);
    rig.send(&packets("10.20.0.4", 2));
    let wanted = [
        ("shield.declined".to_string(), 3),
        ("shield.over_budget".to_string(), 12 - passed),
        ("shield.unresolved".to_string(), 2),
    ];
    assert!((1..12).contains(&passed));
    assert_eq!(drops(&rig, "10.20.0.1"), wanted);
    assert_eq!(drops(&rig, "10.23.0.1"), [("solicit.unresolved".to_string(), 2)]);
    // `decide` sends a packet each time, which is none of these protections'.
    let rest = rig.dropped("shield", "discarded");
    assert_eq!(drops(&rig, "10.22.0.1"), [("shield.discarded".to_string(), rest)]);
    // Of the verdicts nothing else is dropped.
    let of = rig.counters.of(rig.set("10.22.0.1")).unwrap();
    let bytes = rest * to_p0(udp4("10.22.0.1")).len() as u64;
    for of in [of, &rig.counters.all] {
        assert_eq!((of.dropped.get(), of.dropped_bytes.get()), (rest, bytes));
    }
    let counts = rig.run();
    for (what, count) in drops(&rig, "10.20.0.1").into_iter().chain(drops(&rig, "10.23.0.1")) {
        let (node, why) = what.split_once('.').unwrap();
        assert_eq!(counts.dropped(node, why), count, "{what}");
    }
    assert_eq!(drops(&rig, "2001:db8:20::1"), []);
}

/// A bypass reaches no verdict: its packets are counted where they go on to the lookup.
#[test]
fn what_bypasses_is_counted_by_protection() {
    let mut rig = Rig::new();
    let other = tables::Protect {
        net: "10.24.0.0/16".parse().unwrap(),
        action: tables::Action::Bypass,
        options: 0,
        grantors: Vec::new(),
    };
    rig.control.protect(tables::VrfId(0), &other).unwrap();
    rig.control.commit();
    let bypassed = |rig: &Rig, dst: &str| {
        let of = rig.counters.drops(rig.set(dst)).unwrap();
        [of.bypassed.get(), of.bypassed_bytes.get()]
    };
    let frames: Vec<_> = ["10.21.0.1", "10.21.0.2", "10.24.0.1", "10.20.0.1", "10.21.0.1"]
        .map(|dst| packets(dst, 1).remove(0))
        .to_vec();
    assert_eq!(rig.send(&frames).len(), 5);
    let len = frames[0].len() as u64;
    assert_eq!(bypassed(&rig, "10.21.0.1"), [3, 3 * len]);
    assert_eq!(bypassed(&rig, "10.24.0.1"), [1, len]);
    assert_eq!(bypassed(&rig, "10.20.0.1"), [0, 0]);
}

/// Of requests and of what is granted, also where no error is sent any more.
#[test]
fn packets_whose_sources_hear_why_are_counted_by_protection() {
    let mut rig = Rig::new();
    rig.decide("10.20.0.1", Decision::Declined { expire_s: 60 });
    let much = Decision::Granted {
        expire_s: 60,
        rate_kib: 1_024,
        next_renewal_ms: 60_000,
        renewal_step_ms: 60_000,
    };
    rig.decide("10.20.0.2", much);
    let long = |dst, count| vec![to_p0(udp4(dst).payload(&[7; 1_453])); count];
    for (dst, count) in [("10.20.0.1", 1), ("10.20.0.2", 2), ("10.20.0.3", 3)] {
        assert!(rig.send(&long(dst, count)).is_empty());
    }
    assert_eq!(rig.counters.errors.too_long.get(), 5);
    let reported = |count| ("icmp_error.reported".to_string(), count);
    assert_eq!(drops(&rig, "10.20.0.1"), [("shield.declined".to_string(), 1), reported(5)]);
    rig.settings.publish(Settings { errors_per_s: 0, ..settings() });
    assert!(rig.send(&long("10.20.0.3", 1)).is_empty());
    assert_eq!((rig.dropped("icmp_error", "rate"), rig.counters.errors.too_long.get()), (1, 5));
    assert_eq!(drops(&rig, "10.20.0.1")[1], reported(6));
}

/// Requests that lose their places to more patient ones, and those that find none.
#[test]
fn a_full_queue_is_counted_for_the_protection_whose_request_goes() {
    let mut rig = Rig::paced(1 << 12, "", 1);
    for client in 0..2_000_u32 {
        let from = std::net::SocketAddrV4::new((0x0101_0000 + client).into(), 4_000);
        let to = std::net::SocketAddrV4::new([10, 20, 0, 1].into(), 53);
        rig.front.push(&to_p0(wire::build::Frame::udp4(from, to)));
        if client % 64 == 63 {
            rig.graph.poll(rig.thread.guard());
            rig.thread.quiesce();
        }
    }
    let full = rig.graph.stats().snapshot().dropped("solicit", "full");
    assert!(full > 0);
    assert_eq!(drops(&rig, "10.20.0.1"), [("solicit.full".to_string(), full)]);
    // The worker stops, and nothing of another protection waited.
    while rig.graph.drain(rig.thread.guard()) > 0 {
        rig.thread.quiesce();
    }
    let stopped = rig.graph.stats().snapshot().dropped("solicit", "stopped");
    assert!(stopped > 0);
    let wanted = [("solicit.full".to_string(), full), ("solicit.stopped".to_string(), stopped)];
    assert_eq!(drops(&rig, "10.20.0.1"), wanted);
}

/// Decisions and requests of before a change of options.
#[test]
fn what_a_change_overtakes_is_counted_by_protection() {
    // Six leave at once.
    let mut rig = Rig::paced(1 << 12, "", 1_000);
    let others: Vec<_> = (1..=20).map(|host| format!("10.20.0.{host}")).collect();
    others.iter().for_each(|dst| rig.front.push(&packets(dst, 1)[0]));
    rig.graph.poll(rig.thread.guard());
    rig.thread.quiesce();
    let old = rig.set("10.20.0.1");
    let named = tables::Named { ip: "10.0.2.9".parse().unwrap(), weight: 1, shadow: false };
    let protect = |options| tables::Protect {
        net: "10.20.0.0/16".parse().unwrap(),
        action: tables::Action::Protect,
        options,
        grantors: vec![named],
    };
    for options in [SHADOW, 0] {
        rig.control.change_protection(tables::VrfId(0), &protect(options)).unwrap();
        rig.control.commit();
    }
    assert_ne!(rig.set("10.20.0.1"), old);
    rig.decide_as_of(old, "10.20.0.1", Decision::Declined { expire_s: 60 });
    let of = rig.counters.decided(rig.set("10.20.0.1")).unwrap();
    assert_eq!((of.stale.get(), of.declined.get()), (1, 0));
    assert_eq!(rig.counters.decisions.all.stale.get(), 1);
    let stale = rig.dropped("solicit", "stale");
    assert!(stale >= 14, "{stale}");
    assert_eq!(drops(&rig, "10.20.0.1"), [("solicit.stale".to_string(), stale)]);
}
