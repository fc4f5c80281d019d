//! The control thread against a model that remembers what it was told and works
//! every answer out from that alone.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use lookup::{Addr, Prefix};
use proptest::prelude::*;

use crate::builtin::{self, Override};
use crate::event::{
    Address, Event, How, LinkId, Neighbour, NextHop, NextHopTo, Path, Route, Scope, Source, Target,
    Why,
};
use crate::hops::fixed;
use crate::net::number;
use crate::testing::{Bench, Seen, address, link, neighbour, path, route, to};
use crate::{Family, IfaceId, Kind, Limits, Net};

/// What was told.
#[derive(Default)]
struct Model {
    /// Rutter's links that are there, and whether they are up.
    links: BTreeMap<LinkId, bool>,
    addresses: BTreeSet<Address>,
    neighbours: BTreeMap<(LinkId, IpAddr), Neighbour>,
    objects: BTreeMap<u32, NextHopTo>,
    routes: BTreeMap<Net, Vec<(u32, Target)>>,
}

impl Model {
    fn apply(&mut self, event: &Event) {
        match event {
            Event::Link(link) => drop(self.links.insert(link.index, link.up)),
            Event::LinkGone(link) => {
                self.links.remove(link);
                self.addresses.retain(|address| address.link != *link);
                self.neighbours.retain(|(of, _), _| of != link);
                self.flush(|_, target| !over(target, *link));
            }
            Event::Address(address) => drop(self.addresses.insert(*address)),
            Event::AddressGone(address) => {
                let was_there = self.addresses.remove(address);
                let v4 = |a: &Address| a.link == address.link && a.ip.is_ipv4();
                if was_there && address.ip.is_ipv4() && !self.addresses.iter().any(v4) {
                    let link = address.link;
                    self.flush(|net, target| net.family() == Family::V6 || !over(target, link));
                }
            }
            Event::Neighbour(n) if self.links.contains_key(&n.link) => {
                self.neighbours.insert((n.link, n.ip), *n);
            }
            Event::NeighbourGone(link, ip) => drop(self.neighbours.remove(&(*link, *ip))),
            Event::NextHop(object) => drop(self.objects.insert(object.id, object.to.clone())),
            Event::NextHopGone(id) => {
                self.objects.remove(id);
                self.flush(
                    |_, target| !matches!(target, Target::Object { id: of, .. } if of == id),
                );
            }
            Event::Route(route, how) => self.put(route, *how),
            Event::RouteGone(route) => {
                if let Some(list) = self.routes.get_mut(&route.net)
                    && let Some(at) = list.iter().position(|r| *r == said(route))
                {
                    list.remove(at);
                }
            }
            _ => {}
        }
    }

    fn put(&mut self, route: &Route, how: How) {
        let list = self.routes.entry(route.net).or_default();
        let new = said(route);
        if list.contains(&new) {
            return;
        }
        let same = list.iter().position(|(metric, _)| *metric == new.0);
        match (how, same) {
            (How::Replace, Some(at)) => list[at] = new,
            (How::Create | How::Replace, _)
                if how == How::Replace || route.net.family() == Family::V4 =>
            {
                let at = list.iter().take_while(|(metric, _)| *metric < new.0).count();
                list.insert(at, new);
            }
            _ => {
                let at = list.iter().take_while(|(metric, _)| *metric <= new.0).count();
                list.insert(at, new);
            }
        }
    }

    fn flush(&mut self, keep: impl Fn(&Net, &Target) -> bool) {
        for (net, list) in &mut self.routes {
            list.retain(|(_, target)| keep(net, target));
        }
    }

    /// What flows to `ip` meet, in no order.
    fn see<A: Addr>(&self, ip: IpAddr) -> BTreeSet<String> {
        let addr: A = number(ip).unwrap();
        let found =
            (0..=A::WIDTH).rev().find_map(|len| self.effective(Prefix::covering(addr, len)));
        found.unwrap_or_else(|| one(Kind::NoRoute))
    }

    fn effective<A: Addr>(&self, prefix: Prefix<A>) -> Option<BTreeSet<String>> {
        let builtin = builtin::covering(&builtin::of::<A>(), &prefix);
        let by = builtin.map_or(Override::Routes, |(.., by)| by);
        let line = builtin.filter(|(root, ..)| *root == prefix).map(|(_, hop, _)| {
            one(if hop == fixed::MULTICAST { Kind::Multicast } else { Kind::Martian })
        });
        let host: IpAddr = prefix.first().to_ip().into();
        let is_host = prefix.len() == A::WIDTH;
        let own = is_host && self.addresses.iter().any(|address| address.ip == host);
        match by {
            Override::Never => line,
            Override::ForUs => line.or(own.then(|| one(Kind::ForUs))),
            Override::Routes if own => Some(one(Kind::ForUs)),
            Override::Routes => {
                let host = is_host.then(|| self.host::<A>(prefix.first())).flatten();
                host.or_else(|| self.best(prefix.into()).map(|(_, seen)| seen)).or(line)
            }
        }
    }

    /// A resolved neighbour whose link the longest usable route leads onto.
    fn host<A: Addr>(&self, addr: A) -> Option<BTreeSet<String>> {
        let ip: IpAddr = addr.to_ip().into();
        let lens = (0..=A::WIDTH).rev();
        let (target, _) =
            lens.map(|len| Prefix::covering(addr, len).into()).find_map(|n| self.best(n))?;
        let on = match &target {
            Target::Path(path) => *path,
            Target::Object { id, .. } => match self.objects.get(id)? {
                NextHopTo::Path(path) => *path,
                // A group of one is that one.
                NextHopTo::Group(members) => {
                    let there = members.iter().filter_map(|(id, _)| self.objects.get(id));
                    let ways = there.filter(|to| !matches!(to, NextHopTo::Group(_)));
                    match ways.collect::<Vec<_>>()[..] {
                        [NextHopTo::Path(path)] => *path,
                        _ => return None,
                    }
                }
                _ => return None,
            },
            _ => return None,
        };
        let resolved = self.neighbours.get(&(on.link, ip))?.resolved()?;
        (on.via.is_none() && self.links.get(&on.link) == Some(&true))
            .then(|| [sent(on.link, resolved)].into())
    }

    fn best(&self, net: Net) -> Option<(Target, BTreeSet<String>)> {
        let list = self.routes.get(&net)?;
        list.iter().find_map(|(_, target)| Some((target.clone(), self.target(target)?)))
    }

    /// What packets of a target meet; `None` where it has no way out.
    fn target(&self, target: &Target) -> Option<BTreeSet<String>> {
        let ways: Vec<_> = match target {
            Target::Blackhole => return Some(one(Kind::Blackhole)),
            Target::Unreachable | Target::Prohibit => return Some(one(Kind::Unreachable)),
            Target::Path(path) => self.path(path).into_iter().collect(),
            Target::Paths(paths) => paths.iter().filter_map(|path| self.path(path)).collect(),
            Target::Object { id, .. } => match self.objects.get(id)? {
                NextHopTo::Group(members) => {
                    members.iter().filter_map(|(id, _)| self.member(*id)).collect()
                }
                _ => self.member(*id).into_iter().collect(),
            },
            _ => unreachable!("not generated"),
        };
        (!ways.is_empty()).then(|| ways.into_iter().collect())
    }

    fn member(&self, id: u32) -> Option<String> {
        match self.objects.get(&id)? {
            NextHopTo::Path(path) => self.path(path),
            NextHopTo::Blackhole => Some(other(Kind::Blackhole)),
            NextHopTo::Kernel => Some(other(Kind::ViaKernel)),
            NextHopTo::Group(_) => None,
        }
    }

    fn path(&self, path: &Path) -> Option<String> {
        if path.link == LinkId(9) {
            return Some(other(Kind::ViaKernel));
        }
        if !*self.links.get(&path.link)? {
            return None;
        }
        let gateway = path.via.and_then(|ip| self.neighbours.get(&(path.link, ip))?.resolved());
        Some(gateway.map_or(other(Kind::NoNeighbour), |mac| sent(path.link, mac)))
    }
}

fn said(route: &Route) -> (u32, Target) {
    (route.metric, route.target.clone())
}

fn over(target: &Target, link: LinkId) -> bool {
    match target {
        Target::Path(path) => path.link == link,
        Target::Paths(paths) => paths.iter().all(|path| path.link == link),
        _ => false,
    }
}

fn sent(link: LinkId, mac: [u8; 6]) -> String {
    format!("{:?}", Seen::To(IfaceId(link.0 as u16), mac))
}

fn other(kind: Kind) -> String {
    format!("{:?}", Seen::Other(kind))
}

fn one(kind: Kind) -> BTreeSet<String> {
    [other(kind)].into()
}

/// What is done to the state in a step.
#[derive(Clone, Debug)]
enum Deed {
    Event(Event),
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
        5 => Just(Deed::Commit),
        2 => Just(Deed::Tick),
        2 => Just(Deed::Quiesce),
    ]
}

fn carry_out(bench: &mut Bench, model: &mut Model, deed: &Deed) {
    match deed {
        Deed::Event(event) => {
            bench.control.apply(event);
            model.apply(event);
        }
        Deed::List(family, routes) => {
            let scope = Scope::Routes(*family, Source::Kernel);
            bench.control.apply(&Event::SweepBegin(scope, Why::Audit));
            for (net, list) in &mut model.routes {
                let listed =
                    |old: &_| routes.iter().any(|new| new.net == *net && said(new) == *old);
                list.retain(|old| net.family() != *family || listed(old));
            }
            for route in routes {
                let event = Event::Route(route.clone(), How::Listed);
                bench.control.apply(&event);
                model.apply(&event);
            }
            bench.control.apply(&Event::SweepEnd(scope));
        }
        Deed::Commit => bench.control.commit(),
        Deed::Tick => bench.control.tick(),
        Deed::Quiesce => bench.reader.quiesce(),
    }
}

fn compare(bench: &Bench, model: &Model) {
    let seen = |ip: &str| -> BTreeSet<String> {
        bench.see_all(0, ip).iter().map(|seen| format!("{seen:?}")).collect()
    };
    for ip in PROBES4 {
        assert_eq!(seen(ip), model.see::<u32>(ip.parse().unwrap()), "{ip}");
    }
    for ip in PROBES6 {
        assert_eq!(seen(ip), model.see::<u128>(ip.parse().unwrap()), "{ip}");
    }
}

/// Takes everything out again: all ids must have come back.
fn take_all_out(bench: &mut Bench, model: &Model) {
    for (net, list) in &model.routes {
        for (metric, target) in list {
            let route = route(&net.to_string(), *metric, target.clone());
            bench.control.apply(&Event::RouteGone(route));
        }
    }
    (1..6).for_each(|id| bench.control.apply(&Event::NextHopGone(id)));
    [1, 2, 9].into_iter().for_each(|id| bench.control.apply(&Event::LinkGone(LinkId(id))));
    bench.control.commit();
    bench.settle();
    for what in ["routes", "neighbours", "hops", "groups", "group members"] {
        assert_eq!(bench.used(what), 0, "{what} are left");
    }
    assert_eq!(bench.control.targets(), 0);
}

fn run(deeds: &[Deed], engine: &str) {
    let mut bench = Bench::new(Limits::default(), engine);
    let mut model = Model::default();
    for event in [link(1, "p0", true), link(2, "p1", true)] {
        carry_out(&mut bench, &mut model, &Deed::Event(event));
    }
    for deed in deeds {
        carry_out(&mut bench, &mut model, deed);
        if matches!(deed, Deed::Commit | Deed::Tick) && engine == "plain" {
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
        run(&deeds, "plain");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn a_rebuilt_engine_agrees_with_the_model(deeds in prop::collection::vec(any_deed(), 1..120)) {
        run(&deeds, "rebuilt");
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
