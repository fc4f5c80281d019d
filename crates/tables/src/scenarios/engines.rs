//! Engines that are rebuilt, exchanged, and that refuse.

use super::*;

#[test]
fn an_engine_that_is_rebuilt_serves_the_old_table_until_the_new_one_is_there() {
    let mut b = Bench::new(Limits::default(), "rebuilt");
    b.handle(&[add("10.0.0.0/24", 0, to(1, "")), neighbour(1, "10.0.0.2", 2)]);
    b.settle();
    assert_eq!((b.see("10.0.0.2"), b.see("10.0.0.3")), (by(1, 2), GLEAN));
    for i in 0..50 {
        b.handle(&[add(&format!("20.{i}.0.0/16"), 0, to(1, "10.0.0.2"))]);
    }
    b.settle();
    assert_eq!(b.see("20.49.0.1"), by(1, 2));
    let fib = b.control.fib_info(crate::VrfId(0), Family::V4).unwrap();
    assert!(fib.rebuilds < 50 && !fib.behind, "{fib:?}");
}

#[test]
fn the_engine_changes_live_and_a_wrong_one_is_refused() {
    let mut b = bench();
    let set = |b: &mut Bench, name| {
        b.control.set_engine(crate::VrfId(0), Family::V4, name, Default::default())
    };
    let info = |b: &Bench| b.control.fib_info(crate::VrfId(0), Family::V4).unwrap();
    assert!(set(&mut b, "none").is_err());
    set(&mut b, "wrong").unwrap();
    assert!(set(&mut b, "plain").is_err(), "one at a time");
    b.settle();
    assert!(info(&b).switched.unwrap().1.is_err());
    assert_eq!((info(&b).engine, b.see("10.0.0.2")), ("plain", by(1, 2)));
    for engine in ["rebuilt", "dir-24-8", "plain"] {
        set(&mut b, engine).unwrap();
        b.handle(&[add("20.0.0.0/16", 0, to(1, "10.0.0.2"))]);
        b.settle();
        assert_eq!((info(&b).engine, info(&b).switched), (engine, Some((engine.into(), Ok(())))));
        assert_eq!((b.see("20.0.1.1"), b.see("10.0.0.3")), (by(1, 2), GLEAN));
        b.handle(&[del("20.0.0.0/16", 0, to(1, "10.0.0.2"))]);
        b.settle();
        assert_eq!((b.see("20.0.1.1"), b.see("10.0.0.2")), (NO_ROUTE, by(1, 2)));
    }
}

#[test]
fn a_table_is_behind_while_the_engine_changes_only_where_it_serves_old_routes() {
    for (engine, behind) in [("rebuilt", true), ("plain", false)] {
        let mut b = Bench::new(Limits::default(), engine);
        b.settle();
        b.control.set_engine(crate::VrfId(0), Family::V4, "slow", Default::default()).unwrap();
        let info = |b: &Bench| b.control.fib_info(crate::VrfId(0), Family::V4).unwrap();
        assert!(!info(&b).behind, "{engine}: nothing has changed");
        b.handle(&[add("20.0.0.0/16", 0, Target::Blackhole)]);
        assert_eq!(info(&b).switching_to, Some("slow"));
        let old = b.see("20.0.1.1") == NO_ROUTE;
        assert_eq!((info(&b).behind, old), (behind, behind), "{engine}");
        b.settle();
        assert_eq!((info(&b).behind, b.see("20.0.1.1")), (false, Seen::Other(Kind::Blackhole)));
    }
}

#[test]
fn an_engine_is_tried_on_what_the_workers_met() {
    let mut b = bench();
    for (met, accepted) in [(0x0a00_0078_u32, true), (0x0a00_0077, false)] {
        b.control.forwarding().recent4.note(1, met);
        let set = b.control.set_engine(crate::VrfId(0), Family::V4, "rarely wrong", <_>::default());
        set.unwrap();
        b.settle();
        let info = b.control.fib_info(crate::VrfId(0), Family::V4).unwrap();
        let (_, result) = info.switched.unwrap();
        assert_eq!(result.is_ok(), accepted, "{result:?}");
    }
}

#[test]
fn an_engine_that_takes_over_has_counted_no_trials() {
    let mut b = bench();
    for name in ["vpp-hash", "vpp-bloom", "vpp-trie", "cuvpp", "bloomfwd6"] {
        b.control.set_engine(crate::VrfId(0), Family::V6, name, Default::default()).unwrap();
        b.settle();
        let counted = |b: &Bench| {
            let info = b.control.fib_info(crate::VrfId(0), Family::V6).unwrap();
            assert_eq!(info.engine, name);
            info.counters.into_iter().find(|(name, _)| *name == "lookups").unwrap().1
        };
        assert_eq!(counted(&b), 0, "{name}");
        b.see("2001:db8::1");
        assert_eq!(counted(&b), 1, "{name}");
    }
}

#[test]
fn every_engine_of_the_registry_serves_a_router_and_takes_over_live() {
    let (v4, v6) = (lookup_names::<u32>(), lookup_names::<u128>());
    let mut b = bench();
    let switch = |b: &mut Bench, family, name: &'static str| {
        b.control.set_engine(crate::VrfId(0), family, name, Default::default()).unwrap();
        b.handle(&[add("20.0.0.0/16", 0, to(1, "10.0.0.2"))]);
        b.handle(&[add("2001:db8:20::/48", 0, Target::Blackhole)]);
        b.settle();
        let info = b.control.fib_info(crate::VrfId(0), family).unwrap();
        assert_eq!((info.engine, info.switched), (name, Some((name.into(), Ok(())))));
        for _ in 0..2 {
            assert_eq!((b.see("20.0.1.1"), b.see("10.0.0.3")), (by(1, 2), GLEAN), "{name}");
            assert_eq!(b.see("2001:db8:20::1"), Seen::Other(Kind::Blackhole), "{name}");
            // Once more, with what was taken in and out while it served.
            b.handle(&[del("20.0.0.0/16", 0, to(1, "10.0.0.2"))]);
            b.settle();
            assert_eq!((b.see("20.0.1.1"), b.see("10.0.0.2")), (NO_ROUTE, by(1, 2)), "{name}");
            b.handle(&[add("20.0.0.0/16", 0, to(1, "10.0.0.2"))]);
            b.settle();
        }
        assert_eq!(b.refused("engine prefixes"), 0, "{name}");
    };
    v4.into_iter().for_each(|name| switch(&mut b, Family::V4, name));
    v6.into_iter().for_each(|name| switch(&mut b, Family::V6, name));
}

fn lookup_names<A: lookup::lpm::Engines>() -> Vec<&'static str> {
    A::engines().iter().map(|entry| entry.card.name).collect()
}

#[test]
fn what_the_engine_refuses_is_left_out_and_the_rest_goes_in() {
    let mut b = Bench::new(Limits::default(), "short");
    b.handle(&[
        add("10.0.0.0/24", 0, to(1, "")),
        add("192.0.2.1/32", 0, Target::Blackhole),
        add("192.0.2.0/24", 0, Target::Unreachable),
        add("192.0.2.2/32", 0, Target::Blackhole),
    ]);
    assert_eq!(b.see("192.0.2.1"), Seen::Other(Kind::Unreachable));
    assert_eq!(b.refused("engine prefixes"), 5, "two routes, and built-in hosts");
    let mut b = Bench::new(Limits::default(), "few");
    let nets: Vec<String> = (0..30).map(|i| format!("20.{i}.0.0/16")).collect();
    b.handle(&nets.iter().map(|net| add(net, 0, Target::Blackhole)).collect::<Vec<_>>());
    assert_eq!(b.refused("engine prefixes"), 30 - (20 - 6));
    assert_eq!(b.see("20.0.0.1"), Seen::Other(Kind::Blackhole));
}

#[test]
fn a_lookup_finds_an_engine_that_says_otherwise_than_its_prefixes() {
    let mut b = Bench::new(Limits::default(), "rarely wrong");
    let both = Target::Paths([path(1, "10.0.0.2"), path(2, "10.0.1.2")].into());
    b.handle(&[
        add("10.0.0.0/24", 0, to(1, "")),
        add("10.0.1.0/24", 0, to(2, "")),
        neighbour(1, "10.0.0.2", 2),
        neighbour(2, "10.0.1.2", 3),
        add("20.0.0.0/16", 0, to(1, "10.0.0.2")),
        add("40.0.0.0/16", 0, both),
    ]);
    let ask =
        |b: &Bench, ip: &str| b.control.look_up(crate::VrfId(0), ip.parse().unwrap()).unwrap();
    let ways = |found: &crate::show::Lookup| -> Vec<Seen> {
        found.served.ways.iter().map(|&(iface, station)| Seen::To(iface, station)).collect()
    };
    let found = ask(&b, "20.0.1.1");
    assert!(found.agrees() && found.why.is_none() && found.served.kind == Kind::Forward);
    assert_eq!(ways(&found), [by(1, 2)]);
    assert_eq!(found.stored.as_ref().unwrap().0.to_string(), "20.0.0.0/16");
    assert_eq!(found.route.unwrap().net.to_string(), "20.0.0.0/16");
    assert_eq!(ways(&ask(&b, "40.0.1.1")), [by(1, 2), by(2, 3)]);
    let none = ask(&b, "30.0.0.1");
    assert!(none.agrees() && none.stored.is_none() && none.route.is_none());
    let wrong = ask(&b, "20.0.1.119");
    assert!(!wrong.agrees() && wrong.why.is_none(), "{wrong:?}");
    assert!(b.control.look_up(crate::VrfId(9), "20.0.1.1".parse().unwrap()).is_none());
    // One that is built anew may say what was before.
    let mut b = Bench::new(Limits::default(), "rebuilt");
    b.settle();
    b.handle(&[add("20.0.0.0/16", 0, Target::Blackhole)]);
    let found = ask(&b, "20.0.1.1");
    assert!(!found.agrees() && found.why.is_some(), "{found:?}");
    b.settle();
    assert!(ask(&b, "20.0.1.1").agrees());
}
