//! The control thread against the [`oracle`](crate::oracle), by random events.

mod front;

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;

use crate::event::{
    Event, How, LinkId, NextHop, NextHopTo, Path, Route, Scope, Source, Target, Why,
};
use crate::oracle::{Interface, Meets, Routing};
use crate::pace::Pace;
use crate::testing::{Bench, Seen, address, link, neighbour, path, route, to};
use crate::{Family, IfaceId, Limits, Net, Protect, Side, Tags};

/// What is done to the state in a step.
#[derive(Clone, Debug)]
enum Deed {
    Event(Event),
    /// An interface is of this side.
    Side(u16, Side),
    /// A prefix is protected, or its protection is changed where it has one.
    Protect(Protect),
    Unprotect(Net),
    /// The routes of a family are listed: these, and no others.
    List(Family, Vec<Route>),
    Commit,
    Tick,
    Quiesce,
}

const NETS4: [&str; 12] = [
    "0.0.0.0/0",
    "10.0.0.0/8",
    "10.0.0.0/24",
    "10.0.1.0/24",
    "10.0.0.0/30",
    "10.0.0.2/32",
    "10.0.0.1/32",
    "20.0.0.0/8",
    "20.1.0.0/16",
    "169.254.0.0/16",
    "240.1.0.0/16",
    "127.0.0.0/8",
];
const NETS6: [&str; 5] =
    ["::/0", "2001:db8::/32", "2001:db8:1::/64", "2001:db8:1::2/128", "fe80::/64"];
const HOSTS: [&str; 7] = [
    "10.0.0.2",
    "10.0.0.3",
    "10.0.1.2",
    "169.254.0.9",
    "fe80::5",
    "2001:db8:1::2",
    "2001:db8:1::3",
];
const PROBES4: [&str; 13] = [
    "10.0.0.0",
    "10.0.0.1",
    "10.0.0.2",
    "10.0.0.3",
    "10.0.0.4",
    "10.0.1.2",
    "10.9.9.9",
    "20.1.2.3",
    "20.9.9.9",
    "30.0.0.1",
    "169.254.0.9",
    "240.1.0.1",
    "127.0.0.1",
];
const PROBES6: [&str; 6] =
    ["2001:db8:1::2", "2001:db8:1::3", "2001:db8::1", "2002::1", "fe80::5", "::1"];

fn paths4() -> impl Strategy<Value = Path> {
    let via = prop_oneof![Just(""), Just("10.0.0.2"), Just("10.0.0.3"), Just("fe80::5")];
    let two = prop_oneof![Just(""), Just("10.0.1.2"), Just("fe80::5")];
    let paths = prop_oneof![
        4 => via.prop_map(|via| path(1, via)),
        4 => two.prop_map(|via| path(2, via)),
        1 => Just(path(9, "10.8.8.8")),
    ];
    (paths, mtu()).prop_map(|(path, mtu)| Path { mtu, ..path })
}

/// Most routes have none.
fn mtu() -> impl Strategy<Value = u16> {
    prop_oneof![4 => Just(0), 1 => Just(1400)]
}

fn target(family: Family) -> BoxedStrategy<Target> {
    let rest = prop_oneof![
        3 => (1_u32..6, mtu()).prop_map(|(id, mtu)| Target::Object { id, mtu }),
        1 => Just(Target::Blackhole),
        1 => Just(Target::Unreachable),
    ];
    match family {
        Family::V4 => prop_oneof![
            4 => paths4().prop_map(Target::Path),
            2 => prop::collection::vec(paths4(), 2..4).prop_map(|list| Target::Paths(list.into())),
            4 => rest,
        ]
        .boxed(),
        Family::V6 => {
            let via = prop_oneof![Just(""), Just("fe80::5"), Just("2001:db8:1::2")];
            prop_oneof![4 => (1_u32..3, via).prop_map(|(link, via)| to(link, via)), 3 => rest]
                .boxed()
        }
    }
}

fn any_route(family: Family) -> impl Strategy<Value = Route> {
    let nets: &[&str] = if family == Family::V4 { &NETS4 } else { &NETS6 };
    (prop::sample::select(nets), 0_u32..3, target(family))
        .prop_map(|(net, metric, target)| route(net, metric, target))
}

fn any_object() -> impl Strategy<Value = NextHopTo> {
    prop_oneof![
        4 => paths4().prop_map(NextHopTo::Path),
        3 => prop::collection::vec((1_u32..6, 1_u16..4), 1..4).prop_map(|l| NextHopTo::Group(l.into())),
        1 => Just(NextHopTo::Blackhole),
        1 => Just(NextHopTo::Kernel),
    ]
}

fn any_event() -> impl Strategy<Value = Event> {
    let how = prop_oneof![Just(How::Create), Just(How::Replace), Just(How::Append)];
    let name = |index: u32| if index == 1 { "p0" } else { "p1" };
    let family = || prop_oneof![3 => Just(Family::V4), 1 => Just(Family::V6)];
    let addresses = || {
        prop::sample::select(&["10.0.0.1/24", "10.0.0.1/8", "10.0.1.1/24", "2001:db8:1::1/64"][..])
    };
    prop_oneof![
        2 => (1_u32..3, any::<bool>()).prop_map(move |(i, up)| link(i, name(i), up)),
        1 => (1_u32..3).prop_map(|index| Event::LinkGone(LinkId(index))),
        2 => (1_u32..3, addresses()).prop_map(|(link, text)| address(link, text)),
        1 => (1_u32..3, addresses()).prop_map(|(link, text)| match address(link, text) {
            Event::Address(address) => Event::AddressGone(address),
            _ => unreachable!("`address` makes addresses"),
        }),
        5 => (1_u32..3, prop::sample::select(&HOSTS[..]), 0_u8..5)
            .prop_map(|(link, ip, mac)| neighbour(link, ip, mac)),
        1 => (1_u32..3, prop::sample::select(&HOSTS[..]))
            .prop_map(|(link, ip)| Event::NeighbourGone(LinkId(link), ip.parse().unwrap())),
        3 => (1_u32..6, any_object()).prop_map(|(id, to)| Event::NextHop(NextHop { id, to })),
        1 => (1_u32..6).prop_map(Event::NextHopGone),
        9 => (family().prop_flat_map(any_route), how).prop_map(|(route, how)| Event::Route(route, how)),
        4 => family().prop_flat_map(any_route).prop_map(Event::RouteGone),
    ]
}

fn any_deed() -> impl Strategy<Value = Deed> {
    let lists = |family| {
        prop::collection::vec(any_route(family), 0..6)
            .prop_map(move |list| Deed::List(family, list))
    };
    prop_oneof![
        20 => any_event().prop_map(Deed::Event),
        1 => lists(Family::V4),
        1 => lists(Family::V6),
        2 => front::any_side(),
        4 => front::any_protection(),
        5 => Just(Deed::Commit),
        2 => Just(Deed::Tick),
        2 => Just(Deed::Quiesce),
    ]
}

fn carry_out(bench: &mut Bench, model: &mut Routing, deed: &Deed) {
    match deed {
        Deed::Event(event) => {
            bench.control.apply(event);
            model.apply(event);
        }
        Deed::List(family, routes) => {
            let scope = Scope::Routes(*family, Source::Kernel);
            bench.control.apply(&Event::SweepBegin(scope, Why::Audit));
            model.list(*family == Family::V6, |(_, (ip, len)), (metric, target)| {
                let same = |new: &Route| (new.net.addr(), new.net.len()) == (*ip, *len);
                let mut same = routes.iter().filter(|new| same(new));
                same.any(|new| (new.metric, &new.target) == (*metric, target))
            });
            for route in routes {
                let event = Event::Route(route.clone(), How::Listed);
                bench.control.apply(&event);
                model.apply(&event);
            }
            bench.control.apply(&Event::SweepEnd(scope));
        }
        Deed::Side(id, side) => {
            assert!(bench.control.set_side(IfaceId(*id), *side));
            model.sides.insert(*id, *side);
        }
        Deed::Protect(wanted) => front::protect(bench, model, wanted),
        Deed::Unprotect(net) => front::unprotect(bench, model, *net),
        Deed::Commit => bench.control.commit(),
        Deed::Tick => bench.control.tick(),
        Deed::Quiesce => bench.reader.quiesce(),
    }
}

fn compare(bench: &Bench, model: &Routing) {
    compare_at(bench, model, &PROBES4);
    compare_at(bench, model, &PROBES6);
    front::compare(bench, model, PROBES4.iter().chain(&PROBES6));
}

/// Packets to these addresses meet what the model says.
pub(crate) fn compare_at(bench: &Bench, model: &Routing, probes: &[&str]) {
    for ip in probes {
        let seen: BTreeSet<String> =
            bench.see_all(0, ip).iter().map(|seen| format!("{seen:?}")).collect();
        let should = model.lookup(0, ip.parse().unwrap()).into_iter().map(|meets| match meets {
            Meets::Way(iface, mac, _) => format!("{:?}", Seen::To(IfaceId(iface), mac)),
            Meets::Other(kind) => format!("{:?}", Seen::Other(kind)),
        });
        assert_eq!(seen, should.collect(), "{ip}");
    }
}

/// Takes everything out again: all ids must have come back.
fn take_all_out(bench: &mut Bench, model: &Routing) {
    for ((_, (ip, len)), list) in &model.routes {
        for (metric, target) in list {
            let net = Net::covering(*ip, *len).unwrap();
            let route = route(&net.to_string(), *metric, target.clone());
            bench.control.apply(&Event::RouteGone(route));
        }
    }
    for (_, (ip, len)) in model.shields.keys() {
        let net = Net::covering(*ip, *len).unwrap();
        bench.control.unprotect(crate::VrfId(0), net).unwrap();
    }
    (1..6).for_each(|id| bench.control.apply(&Event::NextHopGone(id)));
    [1, 2, 9].into_iter().for_each(|id| bench.control.apply(&Event::LinkGone(LinkId(id))));
    bench.control.commit();
    bench.settle();
    for what in ["routes", "neighbours", "hops", "groups", "group members"] {
        assert_eq!(bench.used(what), 0, "{what} are left");
    }
    assert_eq!(bench.control.targets(), 0);
    assert_eq!((bench.control.grantors().len(), bench.control.front_fibs().len()), (0, 0));
}

fn run(deeds: &[Deed], engine: &str, at_once: bool) {
    let mut bench = Bench::new(Limits::default(), engine);
    if !at_once {
        bench.control.pace = Pace::new(0, Duration::ZERO);
    }
    let ifaces = [("p0", 0), ("p1", 1)]
        .map(|(name, port)| Some(Interface { name: name.into(), port, tags: Tags::None, vrf: 0 }));
    let mut model = Routing::new(ifaces.into());
    for event in [link(1, "p0", true), link(2, "p1", true), link(9, "eth0", true)] {
        carry_out(&mut bench, &mut model, &Deed::Event(event));
    }
    for deed in deeds {
        carry_out(&mut bench, &mut model, deed);
        if matches!(deed, Deed::Commit | Deed::Tick) && engine == "plain" && at_once {
            compare(&bench, &model);
        }
    }
    bench.control.commit();
    bench.settle();
    compare(&bench, &model);
    take_all_out(&mut bench, &model);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_the_model(deeds in prop::collection::vec(any_deed(), 1..120)) {
        run(&deeds, "plain", true);
    }

    /// Where routes follow their links later, all is right in the end.
    #[test]
    fn agrees_with_the_model_once_routes_have_followed(
        deeds in prop::collection::vec(any_deed(), 1..120),
    ) {
        run(&deeds, "plain", false);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn a_rebuilt_engine_agrees_with_the_model(deeds in prop::collection::vec(any_deed(), 1..120)) {
        run(&deeds, "rebuilt", true);
    }
}

/// A flapping daemon: a million events over the same few routes leave nothing behind.
#[test]
fn a_million_events_take_no_more_room_than_a_few() {
    let mut bench =
        Bench::new(Limits { hops: 64, groups: 16, members: 64, ..Limits::default() }, "plain");
    bench.handle(&[neighbour(1, "10.0.0.2", 2)]);
    let targets: Vec<Target> = (0..20)
        .map(|i: u8| match i % 4 {
            0 => to(1, &format!("10.0.0.{i}")),
            1 => Target::Paths([path(1, "10.0.0.2"), path(2, &format!("10.0.1.{i}"))].into()),
            2 => Target::Object { id: u32::from(i), mtu: 0 },
            _ => to(2, ""),
        })
        .collect();
    for round in 0..EVENTS / 100 {
        let events: Vec<Event> = (0..100_usize)
            .map(|i| {
                let net = format!("20.{}.0.0/16", i % 7);
                let target = targets[(round + i * 7) % targets.len()].clone();
                let id = (2 + 4 * ((round + i) % 5)) as u32;
                match (round * 31 + i) % 5 {
                    0 => Event::RouteGone(route(&net, 0, target)),
                    1 => neighbour(1, "10.0.0.2", (round % 3) as u8),
                    2 => Event::NextHop(NextHop { id, to: NextHopTo::Path(path(1, "10.0.0.4")) }),
                    _ => Event::Route(route(&net, 0, target), How::Replace),
                }
            })
            .collect();
        bench.handle(&events);
        bench.control.tick();
    }
    assert_eq!(bench.refused("hops") + bench.refused("groups"), 0);
    bench.settle();
    assert!(bench.used("hops") <= 16 && bench.control.targets() <= 20);
    assert!(bench.control.hop_bytes() < 1 << 16);
}

const EVENTS: usize = 1_000_000;
