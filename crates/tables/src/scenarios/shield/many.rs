//! Many protections, engines, and readers meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};

use testing::Stops;

use super::*;
use crate::event::Event;
use crate::hops::{HopTable, fixed};
use crate::{Family, Limits};

fn nth(i: usize) -> String {
    format!("{}.{}.{}.0/24", 20 + (i >> 16), i >> 8 & 255, i & 255)
}

/// One at a time, each committed: steps are what is looked at and copied, not time.
#[test]
fn a_hundred_thousand_come_and_go_in_steps_that_are_few() {
    let mut b = bench();
    b.control.protect(MAIN, &bypass("8.0.0.0/8")).unwrap();
    let most = MANY as u64 * 600;
    for i in 0..MANY {
        let wanted = if i % 3 == 0 { discard(&nth(i)) } else { protect(&nth(i)) };
        put(&mut b, &[wanted]);
        if i % 64 == 0 {
            b.control.tick();
        }
    }
    let added = b.control.guards.steps;
    assert!(added < most, "{added} steps for {MANY}");
    assert_eq!(b.used("protections"), MANY as u64 + 1);
    assert_eq!(b.control.grantors().len(), 1);
    assert_eq!(fate(&b, FRONT, "20.1.5.9"), Fate::Other(Kind::Discard));
    assert_eq!(fate(&b, FRONT, "20.1.6.9"), Fate::Asks(net("20.1.6.0/24")));
    // Around them all, and the bypass that would have a hole: found without looking at each.
    let steps = b.control.guards.steps;
    assert!(b.control.protect(MAIN, &bypass("20.0.0.0/7")).is_err());
    assert!(b.control.protect(MAIN, &protect("0.0.0.0/1")).is_err());
    put(&mut b, &[discard("20.0.0.0/7")]);
    assert!(b.control.guards.steps - steps < 1_000);
    // The Grantor goes and comes: no protection is touched.
    let steps = b.control.guards.steps;
    b.handle(&[neighbour(2, "10.0.1.2", 0)]);
    b.handle(&[neighbour(2, "10.0.1.2", 3)]);
    assert_eq!(b.control.guards.steps, steps);
    for i in 0..MANY {
        b.control.unprotect(MAIN, net(&nth(i))).unwrap();
    }
    b.handle(&[]);
    b.settle();
    assert!(b.control.guards.steps - steps < most);
    assert_eq!((b.used("protections"), b.control.grantors().len()), (2, 0));
    assert_eq!(fate(&b, FRONT, "20.1.8.9"), Fate::Other(Kind::Discard));
}

const MANY: usize = 100_000;

#[test]
fn limits_refuse_and_what_is_there_stays() {
    let limits =
        Limits { protections: 2, hops: fixed::FIRST_FREE as usize + 4, ..Limits::default() };
    let mut b = Bench::new(limits, "plain");
    put(&mut b, &[discard("20.0.0.0/8"), discard("21.0.0.0/8")]);
    assert!(matches!(refused(&mut b, &discard("22.0.0.0/8")), Unfit::Full { .. }));
    take(&mut b, "20.0.0.0/8");
    put(&mut b, &[discard("22.0.0.0/8")]);
    let limits = Limits { hops: fixed::FIRST_FREE as usize + 1, ..Limits::default() };
    let mut b = Bench::new(limits, "plain");
    put(&mut b, &[discard("20.0.0.0/8")]);
    assert!(matches!(refused(&mut b, &discard("21.0.0.0/8")), Unfit::Full { .. }));
    assert_eq!((b.refused("protections"), b.used("protections")), (1, 1));
    assert_eq!(b.control.guards.len(), 1);
}

#[test]
fn both_views_are_of_one_engine() {
    for (start, next) in [("plain", "rebuilt"), ("rebuilt", "dir-24-8"), ("few", "plain")] {
        let mut b = Bench::new(Limits::default(), start);
        b.handle(&[address(2, "10.0.1.1/24"), add("10.0.1.0/24", 0, to(2, ""))]);
        b.control.set_side(FRONT, Side::Front);
        b.control.set_side(BACK, Side::Back);
        put(&mut b, &[protect("20.1.0.0/16"), discard("20.1.2.0/24")]);
        b.settle();
        let engines = |b: &Bench| {
            let plain = b.control.fib_info(MAIN, Family::V4).unwrap();
            (plain.engine, b.control.front_fibs()[0].engine)
        };
        let all = |b: &Bench| {
            assert_eq!(fate(b, FRONT, "20.1.0.1"), Fate::Asks(net("20.1.0.0/16")));
            assert_eq!(fate(b, FRONT, "20.1.2.1"), Fate::Other(Kind::Discard));
        };
        all(&b);
        assert_eq!(engines(&b), (start, start));
        b.control.set_engine(MAIN, Family::V4, next, Default::default()).unwrap();
        for _ in 0..50 {
            b.control.tick();
            b.reader.quiesce();
            all(&b);
        }
        b.settle();
        all(&b);
        assert_eq!(engines(&b), (next, next));
        take(&mut b, "20.1.2.0/24");
        b.settle();
        assert_eq!(fate(&b, FRONT, "20.1.2.1"), Fate::Asks(net("20.1.0.0/16")));
    }
}

#[test]
fn what_an_engine_refuses_is_listed_and_leads_nowhere() {
    let mut b = Bench::new(Limits::default(), "short"); // no host routes
    b.handle(&[add("20.0.0.0/8", 0, to(2, "10.0.1.2")), neighbour(2, "10.0.1.2", 3)]);
    b.control.set_side(FRONT, Side::Front);
    b.control.set_side(BACK, Side::Back);
    put(&mut b, &[discard("20.1.0.1/32"), discard("20.1.0.2/31")]);
    assert!(!info(&b, "20.1.0.1/32").in_table && info(&b, "20.1.0.2/31").in_table);
    assert_eq!(b.refused("front prefixes"), 1);
    assert_eq!(fate(&b, FRONT, "20.1.0.1"), Fate::Denied(Denied::FrontToBack));
    take(&mut b, "20.1.0.1/32");
    // The engine states how many it takes: the twenty-first is refused at once.
    let mut b = Bench::new(Limits::default(), "few");
    for i in 0..20 {
        b.control.protect(MAIN, &discard(&nth(i))).unwrap();
    }
    assert!(matches!(b.control.protect(MAIN, &discard(&nth(20))), Err(Error::Engine(_))));
    b.handle(&[]);
    assert!((0..20).all(|i| info(&b, &nth(i)).in_table));
}

/// Routes, protections and hops change under a reader: what is protected all the while asks
/// its Grantors all the while, no answer of the front view leads out, and a step's index is
/// of a protection that covers the address, or of none.
#[test]
fn packets_from_the_front_meet_a_protection_or_nothing_meanwhile() {
    for engine in ["plain", "rebuilt"] {
        let mut b = Bench::new(Limits::default(), engine);
        b.control.set_side(FRONT, Side::Front);
        b.control.set_side(BACK, Side::Back);
        b.handle(&[add("0.0.0.0/0", 0, to(2, "10.0.1.2")), neighbour(2, "10.0.1.2", 3)]);
        put(&mut b, &[protect("20.0.0.0/16")]);
        b.settle();
        let forwarding = b.control.forwarding().clone();
        let mut reader = b.control.domain.register("other");
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let stops = Stops(&done);
            let looks = scope.spawn(|| {
                let mut met = [0_u32; 3];
                while !done.load(Ordering::Relaxed) {
                    for last in 0..64_u32 {
                        let hop = {
                            let vrfs = forwarding.vrfs.load(reader.guard());
                            vrfs[0].front.as_ref().unwrap().v4.lookup(0x1400_0001 | last << 16)
                        };
                        let table: &HopTable = forwarding.hops.load(reader.guard());
                        let step = table.step(hop);
                        assert!(step.forward().is_none() && step.multipath().is_none());
                        if step.kind() == Kind::NoRoute {
                            assert!(last != 0, "it is protected");
                            met[0] += 1;
                            continue;
                        }
                        let all = forwarding.protections.load(reader.guard());
                        // Options are the prefix' second byte here.
                        match all.at(step.index()) {
                            Some(protection) => {
                                assert_eq!(protection.options, last);
                                met[1] += 1;
                            }
                            None => met[2] += 1,
                        }
                    }
                    reader.quiesce();
                }
                met
            });
            for round in 0..ROUNDS {
                let i = 1 + round * 7 % 40;
                let text = format!("20.{i}.0.0/16");
                let wanted = Protect { options: i as u32, ..discard(&text) };
                if b.control.protect(MAIN, &wanted).is_err() {
                    b.control.unprotect(MAIN, wanted.net).unwrap();
                }
                let inside = add(&format!("20.{}.1.0/24", round % 3), 0, to(2, "10.0.1.2"));
                let Event::Route(route, _) = &inside else { unreachable!("`add` adds") };
                let route = route.clone();
                b.handle(&[inside]);
                b.control.tick();
                b.handle(&[Event::RouteGone(route)]);
            }
            drop(stops);
            let met = looks.join().unwrap();
            assert!(met[1] > 0, "{met:?}");
        });
    }
}

const ROUNDS: usize = if cfg!(miri) { 20 } else { 3_000 };
