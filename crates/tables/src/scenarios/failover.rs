//! A lost link: packets move at once, routes follow.

use std::time::Duration;

use proptest::prelude::*;

use super::{NO_ROUTE, bench};
use crate::event::{Event, LinkId, NextHop, NextHopTo, Route, Target};
use crate::model;
use crate::oracle::{Interface, Routing};
use crate::testing::{Bench, add, address, by, del, link, neighbour, path, route, to};
use crate::{Limits, Tags, VrfConfig};

/// Many routes, which follow when the test says so.
fn large() -> Bench {
    let mut b = bench();
    b.control.pace.few = 0;
    b.control.vrfs[0].v4.max_routes = MANY;
    b.handle(&[neighbour(1, "10.0.0.3", 9)]);
    b
}

fn nets(n: usize) -> impl Iterator<Item = String> {
    (0..n).map(|i| format!("20.{}.{}.0/24", i >> 8, i & 255))
}

fn changes(b: &Bench) -> u64 {
    b.control.counters().changes
}

const MANY: usize = 50_000;

#[test]
fn a_lost_link_is_a_store_a_hop() {
    let mut b = large();
    let best = |net: String| add(&net, 10, to(1, "10.0.0.2"));
    let next = |net: String| add(&net, 20, to(2, "10.0.1.2"));
    let routes: Vec<_> = nets(300).map(best).chain(nets(300).map(next)).collect();
    b.handle(&routes);
    assert_eq!(b.used("backups"), 1, "one for all that have the same two");
    let before = changes(&b);
    for _ in 0..200 {
        b.handle(&[link(1, "p0", false)]);
        assert_eq!((b.see("20.0.7.1"), b.see("20.1.1.1")), (by(2, 3), by(2, 3)));
        b.handle(&[link(1, "p0", true)]);
        assert_eq!(b.see("20.0.7.1"), by(1, 2));
    }
    assert_eq!(changes(&b), before, "a flap that ends in time changes no route");
    b.handle(&[link(1, "p0", false)]);
    b.settle();
    assert!(changes(&b) - before < 10, "the connected network and its hosts alone");
    assert_eq!(b.see("20.0.7.1"), by(2, 3));
    // The next best changes while it is in use.
    b.handle(&[neighbour(2, "10.0.1.2", 7)]);
    assert_eq!(b.see("20.0.7.1"), by(2, 7));
    b.handle(&[link(2, "p1", false)]);
    assert_eq!(b.see("20.0.7.1"), super::GLEAN, "the kernel may know a way");
    b.settle();
    assert_eq!(b.see("20.0.7.1"), NO_ROUTE);
    b.handle(&[link(1, "p0", true), link(2, "p1", true)]);
    b.settle();
    assert_eq!(b.see("20.0.7.1"), by(1, 2));
    b.handle(&nets(300).map(|net| del(&net, 10, to(1, "10.0.0.2"))).collect::<Vec<_>>());
    assert_eq!(b.see("20.0.7.1"), by(2, 7));
    b.settle();
    assert_eq!(b.used("backups"), 0);
}

#[test]
fn routes_without_another_follow_once_the_link_is_quiet() {
    let mut b = large();
    let routes = nets(20_000).map(|net| add(&net, 10, to(1, "10.0.0.2")));
    let routes: Vec<_> = routes.chain([add("20.0.0.0/8", 0, to(2, "10.0.1.2"))]).collect();
    b.handle(&routes);
    let before = changes(&b);
    for up in [false, true].repeat(100) {
        b.handle(&[link(1, "p0", up)]);
        b.control.tick();
    }
    assert_eq!((changes(&b), b.see("20.0.7.1")), (before, by(1, 2)));
    b.handle(&[link(1, "p0", false)]);
    assert_eq!(b.see("20.0.7.1"), super::GLEAN, "the kernel may know a way");
    // It comes back in the midst of that.
    while b.see("20.0.7.1") != by(2, 3) {
        b.control.tick();
        b.reader.quiesce();
    }
    assert!(changes(&b) - before < 19_000, "a slice at a time");
    b.handle(&[link(1, "p0", true), link(2, "p1", false)]);
    b.settle();
    assert_eq!((b.see("20.0.7.1"), b.see("20.70.0.1")), (by(1, 2), by(1, 2)));
    assert_eq!(b.see("20.200.0.1"), NO_ROUTE);
}

/// A prefix that changes while its link is down for a moment must not keep what was
/// true then.
#[test]
fn what_changes_meanwhile_is_right_after() {
    let mut b = large();
    b.handle(&[add("30.0.0.0/8", 10, to(1, "10.0.0.2"))]);
    b.handle(&[link(1, "p0", false)]);
    let other = add("30.0.0.0/8", 30, to(2, "10.0.1.2"));
    b.handle(&[other, add("31.0.0.0/8", 10, to(1, "10.0.0.2"))]);
    assert_eq!(b.see("30.0.0.1"), by(2, 3));
    b.handle(&[del("30.0.0.0/8", 30, to(2, "10.0.1.2"))]);
    b.handle(&[link(1, "p0", true)]);
    assert_eq!((b.see("30.0.0.1"), b.see("31.0.0.1")), (by(1, 2), by(1, 2)));
    b.settle();
    assert_eq!((b.see("30.0.0.1"), b.see("31.0.0.1")), (by(1, 2), by(1, 2)));
}

#[test]
fn groups_and_objects_back_each_other_up() {
    let mut b = large();
    let both = Target::Paths([path(1, "10.0.0.2"), path(1, "10.0.0.3")].into());
    let object = Target::Object { id: 7, mtu: 0 };
    let to_path =
        |link, via| Event::NextHop(NextHop { id: 7, to: NextHopTo::Path(path(link, via)) });
    b.handle(&[to_path(2, "10.0.1.2")]);
    b.handle(&[add("20.0.0.0/8", 1, both.clone()), add("20.0.0.0/8", 2, object.clone())]);
    assert_eq!(b.see_all(0, "20.0.0.1"), [by(1, 2), by(1, 9)]);
    b.handle(&[link(1, "p0", false)]);
    assert_eq!(b.see("20.0.0.1"), by(2, 3));
    b.handle(&[neighbour(2, "10.0.1.9", 8), to_path(2, "10.0.1.9")]);
    assert_eq!(b.see("20.0.0.1"), by(2, 8), "the object is another");
    b.handle(&[link(1, "p0", true), Event::NextHopGone(7)]);
    b.settle();
    assert_eq!(b.see_all(0, "20.0.0.1"), [by(1, 2), by(1, 9)]);
    b.handle(&[del("20.0.0.0/8", 1, both)]);
    b.settle();
    assert_eq!(b.see("20.0.0.1"), NO_ROUTE);
    assert_eq!((b.used("backups"), b.used("groups")), (0, 0));
}

#[test]
fn the_last_of_many_routes_takes_over() {
    let mut b = large();
    let no_way = |id| Target::Object { id, mtu: 0 };
    let first = [to(1, "10.0.0.2"), no_way(1), no_way(2), to(1, "10.0.0.3"), to(2, "10.0.1.2")];
    let all = (1..).zip(first).map(|(metric, target)| add("20.0.0.0/8", metric, target));
    b.handle(&all.collect::<Vec<_>>());
    for (up, seen) in [(true, by(1, 2)), (false, by(2, 3)), (true, by(1, 2))] {
        b.handle(&[link(1, "p0", up)]);
        assert_eq!(b.see("20.0.0.1"), seen);
    }
}

#[test]
fn both_families_and_each_vrf() {
    let mut b = large();
    let red = VrfConfig { name: "red".into(), table: 101, ..VrfConfig::default() };
    b.control.add_vrf(&red).unwrap();
    let mut events = Vec::new();
    for table in [254, 101] {
        for (net, vias) in
            [("30.0.0.0/8", ["10.0.0.2", "10.0.1.2"]), ("2001:db8:9::/48", ["fe80::2", "fe80::3"])]
        {
            for (n, via) in (1..).zip(vias) {
                let route = Route { table, ..route(net, n, to(n, via)) };
                events.push(Event::Route(route, crate::event::How::Create));
            }
        }
    }
    b.handle(&[neighbour(1, "fe80::2", 2), neighbour(2, "fe80::3", 3)]);
    b.handle(&events);
    for (up, seen) in [(true, by(1, 2)), (false, by(2, 3)), (true, by(1, 2))] {
        b.handle(&[link(1, "p0", up)]);
        for vrf in [0, 1] {
            for ip in ["30.0.0.1", "2001:db8:9::1"] {
                assert_eq!(b.see_all(vrf, ip), [seen], "{ip} in {vrf}");
            }
        }
    }
}

#[test]
fn without_numbers_to_spare_routes_follow_as_they_are() {
    let mut b = Bench::new(Limits { hops: 40, ..Limits::default() }, "plain");
    b.control.pace.few = 0;
    let hosts: Vec<String> = (2..14).map(|i| format!("10.0.0.{i}")).collect();
    b.handle(&[address(1, "10.0.0.1/24"), address(2, "10.0.1.1/24"), neighbour(2, "10.0.1.2", 3)]);
    for (i, host) in (2..).zip(&hosts) {
        let net = format!("20.{i}.0.0/16");
        b.handle(&[
            neighbour(1, host, i),
            add(&net, 1, to(1, host)),
            add(&net, 2, to(2, "10.0.1.2")),
        ]);
    }
    assert_eq!((b.used("backups"), b.refused("backups")), (10, 2));
    b.handle(&[link(1, "p0", false)]);
    assert_eq!(b.see("20.2.0.1"), by(2, 3));
    b.settle();
    let seen: Vec<_> = (2..14).map(|i| b.see(&format!("20.{i}.0.1"))).collect();
    assert_eq!(seen, [by(2, 3); 12]);
}

#[test]
fn a_port_without_carrier_is_down_whatever_its_tap_says() {
    let mut b = large();
    b.handle(&[add("30.0.0.0/8", 1, to(1, "10.0.0.2")), add("30.0.0.0/8", 2, to(2, "10.0.1.2"))]);
    let p0 = crate::IfaceId(1);
    b.control.set_carrier(p0, false);
    assert_eq!(b.see("30.0.0.1"), by(2, 3));
    b.handle(&[link(1, "p0", true)]);
    assert_eq!(b.see("30.0.0.1"), by(2, 3));
    b.control.set_carrier(p0, true);
    assert_eq!(b.see("30.0.0.1"), by(1, 2));
    b.handle(&[link(1, "p0", false)]);
    b.control.set_carrier(p0, true);
    assert_eq!(b.see("30.0.0.1"), by(2, 3));
    b.control.set_carrier(crate::IfaceId(77), false);
}

fn any_target() -> impl Strategy<Value = Target> {
    let way = prop_oneof![Just((1, "10.0.0.2")), Just((1, "10.0.0.3")), Just((2, "10.0.1.2"))];
    prop_oneof![
        4 => way.clone().prop_map(|(link, via)| to(link, via)),
        2 => prop::collection::vec(way.prop_map(|(link, via)| path(link, via)), 2..4)
            .prop_map(|paths| Target::Paths(paths.into())),
        2 => (1_u32..4).prop_map(|id| Target::Object { id, mtu: 0 }),
    ]
}

fn any_event() -> impl Strategy<Value = Event> {
    let net = (0_u8..6).prop_map(|i| format!("20.{i}.0.0/16"));
    let some = || (net.clone(), 1_u32..4, any_target());
    prop_oneof![
        6 => any::<bool>().prop_map(|up| link(1, "p0", up)),
        5 => some().prop_map(|(net, metric, target)| add(&net, metric, target)),
        3 => some().prop_map(|(net, metric, target)| del(&net, metric, target)),
        2 => (1_u32..3, 0_u8..4).prop_map(|(link, mac)| {
            neighbour(link, if link == 1 { "10.0.0.2" } else { "10.0.1.2" }, mac)
        }),
        2 => (1_u32..4, 1_u32..3).prop_map(|(id, link)| {
            let via = if link == 1 { "10.0.0.3" } else { "10.0.1.2" };
            Event::NextHop(NextHop { id, to: NextHopTo::Path(path(link, via)) })
        }),
        1 => (1_u32..4).prop_map(Event::NextHopGone),
        1 => Just(Event::LinkGone(LinkId(1))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Where each prefix has a way over a link that stays, answers are those of the
    /// routes that are left after every event, with no time for routes to follow.
    #[test]
    fn answers_are_right_before_routes_follow(events in prop::collection::vec(any_event(), 1..80)) {
        let mut bench = Bench::new(Limits::default(), "plain");
        bench.control.pace.few = 0;
        let ifaces = [("p0", 0), ("p1", 1)]
            .map(|(name, port)| Some(Interface { name: name.into(), port, tags: Tags::None, vrf: 0 }));
        let mut model = Routing::new(ifaces.into());
        let last = (0..6).map(|i| add(&format!("20.{i}.0.0/16"), 99, to(2, "10.0.1.2")));
        let begin = [link(1, "p0", true), link(2, "p1", true)].into_iter().chain(last);
        for event in begin.chain(events) {
            bench.handle(std::slice::from_ref(&event));
            model.apply(&event);
            model::compare_at(&bench, &model, &["20.0.0.1", "20.1.0.1", "20.4.0.1", "20.5.0.1"]);
        }
        std::thread::sleep(Duration::from_micros(10));
        bench.control.tick();
        model::compare_at(&bench, &model, &["20.2.0.1", "20.3.0.1"]);
    }
}
