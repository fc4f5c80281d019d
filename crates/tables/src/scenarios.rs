//! Tests of the whole: events in, what packets meet out.

use crate::event::{Event, How, LinkId, NextHop, NextHopTo, Scope, Source, Target, Why};
use crate::testing::{Bench, Seen, add, address, by, del, link, neighbour, path, route, to};
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
        add("198.51.100.0/24", 0, to(9, "10.8.8.8")),
    ]);
    assert_eq!(b.see("8.8.8.8"), by(1, 2));
    assert_eq!(b.see("192.0.2.1"), Seen::Other(Kind::Blackhole));
    assert_eq!(b.see("192.0.2.129"), Seen::Other(Kind::Unreachable));
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
fn next_hop_objects_move_all_routes_with_one_store() {
    let mut b = bench();
    let object = |id, to| Event::NextHop(NextHop { id, to });
    let group = NextHopTo::Group([(1, 1), (2, 3)].into());
    b.handle(&[
        object(1, NextHopTo::Path(path(1, "10.0.0.2"))),
        object(2, NextHopTo::Path(path(2, "10.0.1.2"))),
        object(3, group.clone()),
        add("192.0.2.0/24", 0, Target::Object(1)),
        add("198.51.100.0/24", 0, Target::Object(3)),
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
