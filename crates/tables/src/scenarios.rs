//! Tests of the whole: events in, what packets meet out.

mod engines;
mod failover;
mod limits;
mod listing;
mod macvlans;
mod shield;

use crate::event::{
    Event, How, Link, LinkId, NextHop, NextHopTo, PartialRoute, Path, Scope, Source, Target, Why,
};
use crate::testing::{
    Bench, Seen, add, address, by, del, link, link_of, neighbour, path, route, to,
};
use crate::{Family, Kind, Limits};

fn bench() -> Bench {
    let mut bench = Bench::new(Limits::default(), "plain");
    bench.handle(&[
        address(1, "10.0.0.1/24"),
        address(2, "10.0.1.1/24"),
        add("10.0.0.0/24", 0, to(1, "")),
        add("10.0.1.0/24", 0, to(2, "")),
        neighbour(1, "10.0.0.2", 2),
        neighbour(2, "10.0.1.2", 3),
    ]);
    bench
}

const NO_ROUTE: Seen = Seen::Other(Kind::NoRoute);
const GLEAN: Seen = Seen::Other(Kind::NoNeighbour);

#[test]
fn connected_networks_hosts_and_addresses() {
    let mut b = bench();
    assert_eq!(b.see("10.0.0.1"), Seen::Other(Kind::ForUs));
    assert_eq!(b.see("10.0.0.2"), by(1, 2));
    assert_eq!(b.see("10.0.0.3"), GLEAN);
    assert_eq!(b.see("10.9.9.9"), NO_ROUTE);
    b.handle(&[neighbour(1, "10.0.0.3", 9), neighbour(1, "10.0.0.2", 7)]);
    assert_eq!((b.see("10.0.0.3"), b.see("10.0.0.2")), (by(1, 9), by(1, 7)));
    b.handle(&[neighbour(1, "10.0.0.3", 0)]);
    assert_eq!(b.see("10.0.0.3"), GLEAN);
    // A neighbour outside the link's network is no host.
    b.handle(&[neighbour(1, "10.0.1.77", 9), neighbour(1, "198.51.100.1", 9)]);
    assert_eq!((b.see("10.0.1.77"), b.see("198.51.100.1")), (GLEAN, NO_ROUTE));
    // A more specific route elsewhere takes the host along, until it goes.
    b.handle(&[add("10.0.0.0/30", 5, to(2, "10.0.1.2"))]);
    assert_eq!(b.see("10.0.0.2"), by(2, 3));
    b.handle(&[del("10.0.0.0/30", 5, to(2, "10.0.1.2"))]);
    assert_eq!(b.see("10.0.0.2"), by(1, 7));
}

#[test]
fn the_lowest_metric_wins_and_a_dead_link_gives_way() {
    let mut b = bench();
    b.handle(&[
        add("0.0.0.0/0", 100, to(2, "10.0.1.2")),
        add("0.0.0.0/0", 10, to(1, "10.0.0.2")),
        add("192.0.2.0/24", 0, Target::Blackhole),
        add("192.0.2.128/25", 0, Target::Prohibit),
        add("192.0.2.192/26", 0, Target::Throw),
        add("198.51.100.0/24", 0, to(9, "10.8.8.8")),
    ]);
    assert_eq!(b.see("8.8.8.8"), by(1, 2));
    assert_eq!(b.see("192.0.2.1"), Seen::Other(Kind::Blackhole));
    assert_eq!(b.see("192.0.2.129"), Seen::Other(Kind::Unreachable));
    assert_eq!(b.see("192.0.2.193"), Seen::Other(Kind::Unreachable));
    assert_eq!(b.see("198.51.100.1"), Seen::Other(Kind::ViaKernel));
    b.handle(&[link(1, "p0", false)]);
    assert_eq!(b.see("8.8.8.8"), by(2, 3));
    assert_eq!(b.see("10.0.0.2"), by(2, 3), "the connected network went with the link");
    b.handle(&[link(1, "p0", true)]);
    assert_eq!((b.see("8.8.8.8"), b.see("10.0.0.2")), (by(1, 2), by(1, 2)));
    b.handle(&[del("0.0.0.0/0", 10, to(1, "10.0.0.2"))]);
    assert_eq!(b.see("8.8.8.8"), by(2, 3));
}

#[test]
fn multipath_leaves_out_dead_links_and_follows_neighbours() {
    let mut b = bench();
    let both = Target::Paths([path(1, "10.0.0.2"), path(2, "10.0.1.2")].into());
    b.handle(&[add("0.0.0.0/0", 0, both.clone())]);
    assert_eq!(b.see_all(0, "8.8.8.8"), [by(1, 2), by(2, 3)]);
    b.handle(&[neighbour(2, "10.0.1.2", 5)]);
    assert_eq!(b.see_all(0, "8.8.8.8"), [by(1, 2), by(2, 5)]);
    b.handle(&[link(2, "p1", false)]);
    assert_eq!(b.see_all(0, "8.8.8.8"), [by(1, 2)]);
    b.handle(&[neighbour(1, "10.0.0.2", 8)]);
    assert_eq!(b.see_all(0, "8.8.8.8"), [by(1, 8)]);
    b.handle(&[link(1, "p0", false)]);
    assert_eq!(b.see("8.8.8.8"), NO_ROUTE);
    b.handle(&[link(1, "p0", true), link(2, "p1", true)]);
    assert_eq!(b.see_all(0, "8.8.8.8"), [by(1, 8), by(2, 5)]);
    b.handle(&[del("0.0.0.0/0", 0, both)]);
    b.settle();
    assert_eq!(b.see("8.8.8.8"), NO_ROUTE);
    assert_eq!((b.used("groups"), b.used("group members")), (0, 0));
}

#[test]
fn ipv4_by_an_ipv6_gateway_has_its_own_header() {
    let mut b = bench();
    b.handle(&[
        neighbour(1, "fe80::5", 5),
        add("203.0.113.0/24", 0, to(1, "fe80::5")),
        add("2001:db8::/32", 0, to(1, "fe80::5")),
    ]);
    assert_eq!((b.see("203.0.113.9"), b.see("2001:db8::9")), (by(1, 5), by(1, 5)));
    let hops = b.control.forwarding().hops.load(b.reader.guard());
    for (ip, ethertype) in [("203.0.113.9", [8, 0]), ("2001:db8::9", [0x86, 0xdd])] {
        let step = hops.step(b.hop(0, ip));
        let header = hops.adjacency(crate::AdjacencyId(step.index())).get().header;
        assert_eq!(header[22..], ethertype);
    }
}

#[test]
fn routes_for_some_packets_only_are_left_out_and_counted_once() {
    let mut b = bench();
    let partial = |table, net: &str, tos| PartialRoute {
        table,
        net: net.parse().unwrap(),
        from: (tos == 0).then(|| "2001:db8::/32".parse().unwrap()),
        tos,
        metric: 0,
    };
    let one = partial(254, "10.0.0.0/24", 16);
    let v4 = Scope::Routes(Family::V4, Source::Kernel);
    let listing = [
        Event::SweepBegin(v4, Why::Audit),
        add("10.0.0.0/24", 0, to(1, "")),
        Event::Partial(one),
        Event::SweepEnd(v4),
    ];
    b.handle(&[Event::Partial(one), Event::Partial(partial(254, "2001:db8:1::/48", 0))]);
    b.handle(&listing);
    b.handle(&[Event::Partial(partial(77, "10.0.0.0/8", 16))]);
    assert_eq!(b.refused("routes by source or tos"), 2);
    assert_eq!(b.see("10.0.0.2"), by(1, 2), "the route for all packets serves");
    b.handle(&[Event::SweepBegin(v4, Why::Audit), Event::SweepEnd(v4), Event::Partial(one)]);
    b.handle(&[Event::PartialGone(one), Event::Partial(one)]);
    assert_eq!(b.refused("routes by source or tos"), 4, "gone and come again, twice");
}

#[test]
fn a_route_may_let_fewer_bytes_pass_than_its_link() {
    let mut b = bench();
    let with = |link, via, mtu| Target::Path(Path { mtu, ..path(link, via) });
    let both = [path(1, "10.0.0.2"), path(2, "10.0.1.2")].map(|path| Path { mtu: 1300, ..path });
    b.handle(&[
        add("192.0.2.0/24", 0, to(1, "10.0.0.2")),
        add("198.51.100.0/24", 0, with(1, "10.0.0.2", 1400)),
        add("203.0.113.0/24", 0, with(1, "10.0.0.2", 9000)),
        add("203.0.114.0/24", 0, Target::Paths(both.into())),
        Event::NextHop(NextHop { id: 1, to: NextHopTo::Path(path(2, "10.0.1.2")) }),
        add("203.0.115.0/24", 0, Target::Object { id: 1, mtu: 1200 }),
        add("203.0.116.0/24", 0, Target::Object { id: 1, mtu: 0 }),
    ]);
    let all = ["192.0.2.1", "198.51.100.1", "203.0.113.1", "203.0.115.1", "203.0.116.1"];
    assert_eq!(all.map(|ip| b.mtus(ip)), [[1500], [1400], [1500], [1200], [1500]]);
    assert_eq!(b.mtus("203.0.114.1"), [1300, 1300]);
    assert_eq!((b.see(all[0]), b.see(all[1])), (by(1, 2), by(1, 2)));
    // All of them follow the neighbour, and the link.
    b.handle(&[neighbour(1, "10.0.0.2", 9)]);
    assert_eq!((b.see(all[0]), b.see(all[1])), (by(1, 9), by(1, 9)));
    b.handle(&[Event::Link(Link { mtu: 1350, ..link_of(1, "p0", true) })]);
    assert_eq!([all[0], all[1]].map(|ip| b.mtus(ip)), [[1350], [1350]]);
    // A connected network's hosts have what its route says.
    assert_eq!(b.mtus("10.0.1.2"), [1500]);
    b.handle(&[Event::Route(route("10.0.1.0/24", 0, with(2, "", 1280)), How::Replace)]);
    assert_eq!((b.mtus("10.0.1.2"), b.see("10.0.1.2")), (vec![1280], by(2, 3)));
    b.handle(&[Event::Route(route("10.0.1.0/24", 0, to(2, "")), How::Replace)]);
    assert_eq!(b.mtus("10.0.1.2"), [1500]);
}

#[test]
fn next_hop_objects_move_all_routes_with_one_store() {
    let mut b = bench();
    let object = |id, to| Event::NextHop(NextHop { id, to });
    let group = NextHopTo::Group([(1, 1), (2, 3)].into());
    b.handle(&[
        object(1, NextHopTo::Path(path(1, "10.0.0.2"))),
        object(2, NextHopTo::Path(path(2, "10.0.1.2"))),
        object(3, group.clone()),
        add("192.0.2.0/24", 0, Target::Object { id: 1, mtu: 0 }),
        add("198.51.100.0/24", 0, Target::Object { id: 3, mtu: 0 }),
    ]);
    assert_eq!(b.see("192.0.2.1"), by(1, 2));
    assert_eq!(b.see_all(0, "198.51.100.1"), [by(1, 2), by(2, 3)]);
    let (before, changes) = (b.hop(0, "192.0.2.1"), b.control.counters().changes);
    b.handle(&[object(1, NextHopTo::Path(path(2, "10.0.1.2")))]);
    assert_eq!((b.hop(0, "192.0.2.1"), b.see("192.0.2.1")), (before, by(2, 3)));
    assert_eq!(b.see_all(0, "198.51.100.1"), [by(2, 3)]);
    b.handle(&[object(1, NextHopTo::Blackhole)]);
    assert_eq!(b.see("192.0.2.1"), Seen::Other(Kind::Blackhole));
    assert_eq!(b.control.counters().changes, changes);
    b.handle(&[neighbour(2, "10.0.1.2", 6)]);
    assert_eq!(b.see_all(0, "198.51.100.1"), [Seen::Other(Kind::Blackhole), by(2, 6)]);
    // Deleted: the routes go, silently; a new object of the number is another.
    b.handle(&[Event::NextHopGone(1), object(1, NextHopTo::Path(path(1, "10.0.0.2")))]);
    assert_eq!(b.see("192.0.2.1"), NO_ROUTE);
    b.handle(&[Event::NextHopGone(3)]);
    assert_eq!(b.see("198.51.100.1"), NO_ROUTE);
    assert_eq!(b.used("routes"), 2);
}

#[test]
fn built_in_prefixes_stand_where_the_rfcs_say_so() {
    let mut b = bench();
    b.handle(&[
        add("0.0.0.0/0", 0, to(1, "10.0.0.2")),
        add("127.0.0.0/8", 0, to(1, "10.0.0.2")),
        add("169.254.0.0/16", 0, to(1, "")),
        address(1, "169.254.3.4/16"),
        neighbour(1, "169.254.9.9", 4),
        add("240.1.0.0/16", 0, to(1, "10.0.0.2")),
        add("::/0", 0, to(1, "fe80::5")),
        address(1, "fe80::1/64"),
        address(9, "127.0.0.1/8"),
    ]);
    let martian = Seen::Other(Kind::Martian);
    for ip in ["127.0.0.1", "0.1.2.3", "169.254.9.9", "240.0.0.1", "::", "::1", "fe80::9"] {
        assert_eq!(b.see(ip), martian, "{ip}");
    }
    for ip in ["224.0.0.5", "255.255.255.255", "ff02::1"] {
        assert_eq!(b.see(ip), Seen::Other(Kind::Multicast), "{ip}");
    }
    for ip in ["169.254.3.4", "fe80::1"] {
        assert_eq!(b.see(ip), Seen::Other(Kind::ForUs), "{ip}");
    }
    assert_eq!(b.see("240.1.2.3"), by(1, 2));
}

#[test]
fn silent_deletions_of_the_kernel() {
    let mut b = bench();
    b.handle(&[
        add("192.0.2.0/24", 0, to(1, "10.0.0.2")),
        add("2001:db8::/32", 0, to(1, "fe80::5")),
    ]);
    let gone = |text: &str| match address(1, text) {
        Event::Address(address) => Event::AddressGone(address),
        _ => unreachable!("`address` makes addresses"),
    };
    b.handle(&[gone("10.0.0.1/24")]);
    assert_eq!((b.see("192.0.2.1"), b.see("10.0.0.1")), (NO_ROUTE, NO_ROUTE));
    assert_eq!(b.see("2001:db8::1"), GLEAN);
    b.handle(&[Event::LinkGone(LinkId(1))]);
    assert_eq!(b.see("2001:db8::1"), NO_ROUTE);
    assert_eq!(b.used("routes"), 1);
    b.settle();
    assert_eq!(b.used("neighbours"), 1);
}

#[test]
fn a_listing_takes_out_what_it_does_not_name() {
    let mut b = bench();
    b.handle(&[
        add("192.0.2.0/24", 0, to(1, "10.0.0.2")),
        add("198.51.100.0/24", 0, to(1, "10.0.0.2")),
        add("2001:db8::/32", 0, to(1, "fe80::5")),
    ]);
    let scope = Scope::Routes(Family::V4, Source::Kernel);
    let listed = |net| Event::Route(route(net, 0, to(1, "10.0.0.2")), How::Listed);
    b.handle(&[Event::SweepBegin(scope, Why::Audit), listed("192.0.2.0/24")]);
    assert_eq!(b.see("198.51.100.1"), by(1, 2), "what is there serves meanwhile");
    b.handle(&[Event::SweepAbort(scope)]);
    assert_eq!(b.see("198.51.100.1"), by(1, 2));
    b.handle(&[
        Event::SweepBegin(scope, Why::Audit),
        listed("192.0.2.0/24"),
        listed("203.0.113.0/24"),
        add("8.8.8.0/24", 0, to(1, "10.0.0.2")),
        Event::SweepEnd(scope),
    ]);
    assert_eq!(b.see("198.51.100.1"), NO_ROUTE);
    for ip in ["192.0.2.1", "203.0.113.1", "8.8.8.8"] {
        assert_eq!(b.see(ip), by(1, 2), "{ip}");
    }
    assert_eq!(b.see("2001:db8::1"), GLEAN, "the other family is not touched");
    // One that was missing, one and the two connected networks that were too many.
    assert_eq!(b.control.counters().drift, 4);
    b.handle(&[Event::SweepBegin(Scope::Neighbours, Why::Overrun), neighbour(1, "10.0.0.2", 2)]);
    b.handle(&[Event::SweepEnd(Scope::Neighbours)]);
    assert_eq!(b.used("neighbours"), 1);
}

#[test]
fn siblings_of_ipv6_routes_come_and_go_one_by_one() {
    let mut b = bench();
    b.handle(&[neighbour(1, "fe80::5", 5), neighbour(2, "fe80::6", 6)]);
    let both = Target::Paths([path(2, "fe80::6"), path(1, "fe80::5")].into());
    b.handle(&[add("2001:db8::/32", 0, to(1, "fe80::5"))]);
    b.handle(&[Event::Route(route("2001:db8::/32", 0, both.clone()), How::Append)]);
    assert_eq!(b.see_all(0, "2001:db8::1"), [by(2, 6), by(1, 5)]);
    b.handle(&[del("2001:db8::/32", 0, to(2, "fe80::6"))]);
    assert_eq!(b.see_all(0, "2001:db8::1"), [by(1, 5)]);
    b.handle(&[del("2001:db8::/32", 0, to(1, "fe80::5"))]);
    assert_eq!(b.see("2001:db8::1"), NO_ROUTE);
}

#[test]
fn a_hop_returns_only_when_no_reader_can_meet_it() {
    let mut b = bench();
    b.handle(&[add("192.0.2.0/24", 0, to(1, "10.0.0.9"))]);
    let hop = b.hop(0, "192.0.2.1");
    b.control.handle(&[del("192.0.2.0/24", 0, to(1, "10.0.0.9"))]);
    for _ in 0..5 {
        b.control.tick();
    }
    b.control.handle(&[add("198.51.100.0/24", 0, to(1, "10.0.0.77"))]);
    assert_ne!(b.hop(0, "198.51.100.1"), hop, "the reader has not passed a quiescent point");
    b.settle();
    b.handle(&[add("203.0.113.0/24", 0, to(1, "10.0.0.88"))]);
    assert_eq!(b.hop(0, "203.0.113.1"), hop);
}

#[test]
fn vrfs_are_apart_and_follow_the_kernels_devices() {
    let mut b = bench();
    let config = crate::VrfConfig { name: "blue".into(), table: 10, ..crate::VrfConfig::default() };
    let config = crate::VrfConfig { v4: plain(), v6: plain(), ..config };
    let blue = b.control.add_vrf(&config).unwrap();
    assert!(b.control.add_vrf(&config).is_err());
    let mut in_blue = route("10.0.0.0/8", 0, Target::Blackhole);
    in_blue.table = 10;
    let mut other = in_blue.clone();
    other.table = 11;
    let device = |index, name: &str, master, table| match link(index, name, true) {
        Event::Link(link) => Event::Link(crate::event::Link { master, vrf_table: table, ..link }),
        _ => unreachable!("`link` makes links"),
    };
    b.handle(&[Event::Route(in_blue, How::Create), Event::Route(other, How::Create)]);
    assert_eq!(b.see_all(blue.0, "10.0.0.2"), [Seen::Other(Kind::Blackhole)]);
    assert_eq!((b.see("10.0.0.2"), b.control.counters().routes_ignored), (by(1, 2), 1));
    // p0 joins a VRF device of table 10: addresses and hosts move.
    b.handle(&[device(5, "vrf-blue", None, Some(10)), device(1, "p0", Some(LinkId(5)), None)]);
    assert_eq!(b.see_all(blue.0, "10.0.0.1"), [Seen::Other(Kind::ForUs)]);
    assert_eq!(b.see("10.0.0.1"), GLEAN);
    let ifaces = b.control.forwarding().ifaces.load(b.reader.guard());
    assert_eq!((ifaces.list[1].vrf, ifaces.one_vrf), (blue, false));
    b.handle(&[device(1, "p0", None, None)]);
    assert_eq!(b.see("10.0.0.1"), Seen::Other(Kind::ForUs));
}

fn plain() -> crate::FibConfig {
    crate::FibConfig { engine: Some("plain".into()), ..crate::FibConfig::default() }
}

#[test]
fn a_vrf_takes_its_routes_from_one_feed() {
    let mut b = bench();
    let config = crate::VrfConfig {
        name: "frr".into(),
        table: 10,
        source: Source::Fpm,
        ..Default::default()
    };
    let frr = b.control.add_vrf(&crate::VrfConfig { v4: plain(), v6: plain(), ..config }).unwrap();
    let told = |net, source, protocol| {
        let route = route(net, 0, Target::Blackhole);
        Event::Route(crate::event::Route { table: 10, source, protocol, ..route }, How::Create)
    };
    b.handle(&[
        told("20.1.0.0/16", Source::Kernel, 4),
        told("20.2.0.0/16", Source::Kernel, 2),
        told("20.3.0.0/16", Source::Fpm, 186),
        told("20.4.0.0/16", Source::Fpm, 2),
    ]);
    let there = |i| b.see_all(frr.0, &format!("20.{i}.0.1")) == [Seen::Other(Kind::Blackhole)];
    assert_eq!([1, 2, 3, 4].map(there), [false, true, true, false]);
    // FRR changes a route's metric in place, and deletes without saying what it led to.
    let mut route = match told("20.3.0.0/16", Source::Fpm, 186) {
        Event::Route(route, _) => route,
        _ => unreachable!("`told` makes routes"),
    };
    route.metric = 20;
    b.handle(&[Event::Route(route.clone(), How::Create)]);
    assert_eq!(b.used("routes"), 2);
    (route.metric, route.target) = (0, to(0, ""));
    b.handle(&[Event::RouteGone(route)]);
    let there = b.see_all(frr.0, "20.3.0.1");
    assert_eq!(there, [NO_ROUTE]);
}

#[test]
fn listings_for_people() {
    let mut b = bench();
    let both = Target::Paths([path(1, "10.0.0.2"), path(2, "10.0.1.9")].into());
    b.handle(&[
        add("0.0.0.0/0", 10, both),
        add("0.0.0.0/0", 20, Target::Unreachable),
        add("2001:db8::/32", 0, to(9, "fe80::1")),
    ]);
    let filter = crate::show::RouteFilter { all: true, ..Default::default() };
    let (all, next) = b.control.routes(&filter, None, 100);
    assert!(next.is_none());
    let texts: Vec<_> = all.iter().map(|r| (r.net.to_string(), r.metric, r.best)).collect();
    let want = [
        ("0.0.0.0/0", 10, true),
        ("0.0.0.0/0", 20, false),
        ("10.0.0.0/24", 0, true),
        ("10.0.1.0/24", 0, true),
        ("2001:db8::/32", 0, true),
    ];
    assert_eq!(texts, want.map(|(net, metric, best)| (net.into(), metric, best)));
    let states: Vec<_> = all[0].paths.iter().map(|path| path.state).collect();
    assert_eq!(states, [Some(Kind::Forward), Some(Kind::NoNeighbour)]);
    assert_eq!(all[4].paths[0].link_name, "eth0");
    // Page by page it is the same.
    let (mut pages, mut at) = (Vec::new(), None);
    loop {
        let (page, next) = b.control.routes(&filter, at, 1);
        assert!(page.iter().all(|route| route.net == page[0].net), "no more than it has room for");
        pages.extend(page);
        at = next;
        if at.is_none() {
            break;
        }
    }
    assert_eq!(pages, all);
    // The two of the first prefix have three next hops, the others one each.
    let parts = [3, 4, 5].map(|most| b.control.routes(&filter, None, most).0.len());
    assert_eq!(parts, [2, 3, 4]);
    let inside = crate::show::RouteFilter { inside: "10.0.0.0/8".parse().ok(), ..filter };
    assert_eq!(b.control.routes(&inside, None, 9).0.len(), 2);
    let to = b.control.route_to(crate::VrfId(0), "10.0.1.7".parse().unwrap()).unwrap();
    assert_eq!(to.net.to_string(), "10.0.1.0/24");
    let gateways: Vec<_> =
        b.control.neighbours().iter().map(|n| (n.link_name.clone(), n.gateway)).collect();
    assert_eq!(gateways, [("p0".into(), true), ("p1".into(), false)]);
    let known: Vec<_> = b.control.gateways().iter().map(|gateway| gateway.known).collect();
    assert_eq!(known, [true, false]);
    assert_eq!(b.control.interfaces()[0].addresses.len(), 1);
    let hops = b.control.forwarding().hops.load(b.reader.guard());
    hops.adjacency(crate::AdjacencyId(hops.step(b.hop(0, "10.0.0.2")).index())).mark_used();
    assert_eq!(b.control.take_used(), [(LinkId(1), "10.0.0.2".parse().unwrap())]);
    assert!(b.control.take_used().is_empty());
    b.handle(&[neighbour(1, "10.0.0.2", 0)]);
    assert!(b.control.gateways().iter().all(|gateway| !gateway.known), "it failed");
}
