//! Who decides, and how it is reached.

use super::*;
use crate::event::{Event, LinkId, NextHop, NextHopTo, Path};
use crate::testing::{link, path};
use crate::{Grantor, Unresolved};

/// Whom 256 flows of a prefix ask, by the last byte of the address.
fn asked(b: &Bench, text: &str) -> Vec<(u8, usize)> {
    let id = info(b, text).id;
    let protections = b.control.forwarding().protections.load(b.reader.guard());
    let protection = protections.get(id).unwrap();
    let last = |grantor: &Grantor| match grantor.ip {
        std::net::IpAddr::V4(ip) => ip.octets()[3],
        std::net::IpAddr::V6(ip) => ip.octets()[15],
    };
    let mut all: Vec<(u8, usize)> = Vec::new();
    for hash in (0..256_u32).map(|i| i << 24) {
        let Some(last) = protection.grantor(hash).map(last) else { continue };
        match all.iter_mut().find(|(known, _)| *known == last) {
            Some((_, count)) => *count += 1,
            None => all.push((last, 1)),
        }
    }
    all.sort_unstable();
    all
}

fn why(b: &Bench, ip: &str) -> Result<usize, Unresolved> {
    let ip: std::net::IpAddr = ip.parse().unwrap();
    let all = b.control.grantors();
    let info = all.iter().find(|info| info.ip == ip).unwrap();
    info.ways.as_ref().map(Vec::len).map_err(|why| *why)
}

const NET: &str = "20.1.0.0/16";

#[test]
fn flows_spread_by_weight_over_those_that_can_be_reached() {
    let mut b = bench();
    b.handle(&[neighbour(2, "10.0.1.3", 13), neighbour(2, "10.0.1.4", 14)]);
    let all = [named("10.0.1.2", 1), named("10.0.1.3", 2), named("10.0.1.4", 1)];
    put(&mut b, &[of(NET, Action::Protect, &all)]);
    assert_eq!(asked(&b, NET), [(2, 64), (3, 128), (4, 64)]);
    // One goes: its flows go to the others, theirs stay.
    let before: Vec<u8> = (0..256_u32).map(|i| first(&b, i << 24)).collect();
    b.handle(&[neighbour(2, "10.0.1.3", 0)]);
    assert_eq!(asked(&b, NET), [(2, 128), (4, 128)]);
    for (i, was) in (0..256_u32).zip(&before) {
        assert!(*was == 3 || first(&b, i << 24) == *was);
    }
    assert_eq!(why(&b, "10.0.1.3"), Err(Unresolved::NoNeighbour));
    // All go: nobody is asked. They come back.
    b.handle(&[neighbour(2, "10.0.1.2", 0), neighbour(2, "10.0.1.4", 0)]);
    assert_eq!(asked(&b, NET), []);
    b.handle(&[neighbour(2, "10.0.1.3", 13)]);
    assert_eq!(asked(&b, NET), [(3, 256)]);
    b.handle(&[neighbour(2, "10.0.1.2", 3), neighbour(2, "10.0.1.4", 14)]);
    let after: Vec<u8> = (0..256_u32).map(|i| first(&b, i << 24)).collect();
    assert_eq!(after, before);
}

/// The Grantor of a hash.
fn first(b: &Bench, hash: u32) -> u8 {
    let id = info(b, NET).id;
    let protections = b.control.forwarding().protections.load(b.reader.guard());
    match protections.get(id).unwrap().grantor(hash).unwrap().ip {
        std::net::IpAddr::V4(ip) => ip.octets()[3],
        std::net::IpAddr::V6(_) => 0,
    }
}

#[test]
fn shadow_grantors_are_others() {
    let mut b = bench();
    b.handle(&[neighbour(2, "10.0.1.3", 13)]);
    let shadow = Named { shadow: true, ..named("10.0.1.3", 1) };
    let id = put(&mut b, &[of(NET, Action::Protect, &[named("10.0.1.2", 1), shadow])])[0];
    let protections = b.control.forwarding().protections.load(b.reader.guard());
    let protection = protections.get(id).unwrap();
    for hash in [0, 1 << 31, u32::MAX] {
        assert_eq!(protection.grantor(hash).unwrap().ip.to_string(), "10.0.1.2");
        assert_eq!(protection.shadow(hash).unwrap().ip.to_string(), "10.0.1.3");
    }
}

#[test]
fn a_grantor_on_the_link_is_kept_resolved() {
    let mut b = bench();
    put(&mut b, &[of(NET, Action::Protect, &[named("10.0.1.77", 1)])]);
    assert_eq!(why(&b, "10.0.1.77"), Err(Unresolved::NoNeighbour));
    let gateways: Vec<_> = b.control.gateways().iter().map(|g| (g.link, g.known)).collect();
    assert_eq!(gateways, [(LinkId(2), false)], "the kernel is to ask for it");
    b.handle(&[neighbour(2, "10.0.1.77", 7)]);
    assert_eq!((why(&b, "10.0.1.77"), asked(&b, NET)), (Ok(1), vec![(77, 256)]));
    b.handle(&[neighbour(2, "10.0.1.77", 0), neighbour(2, "10.0.1.77", 8)]);
    let grantors = b.control.grantors();
    assert_eq!(grantors[0].ways, Ok(vec![(BACK, [4, 0, 0, 0, 0, 8])]));
    take(&mut b, NET);
    b.settle();
    assert!(b.control.gateways().is_empty() && b.control.grantors().is_empty());
}

#[test]
fn the_way_follows_routes_and_never_leads_to_the_front() {
    let mut b = bench();
    put(&mut b, &[of(NET, Action::Protect, &[named("203.0.113.9", 1)])]);
    let seen = |b: &Bench| why(b, "203.0.113.9");
    assert_eq!((seen(&b), asked(&b, NET)), (Err(Unresolved::NoRoute), vec![]));
    b.handle(&[add("203.0.0.0/16", 0, to(2, "10.0.1.2"))]);
    assert_eq!((seen(&b), asked(&b, NET)), (Ok(1), vec![(9, 256)]));
    b.handle(&[add("203.0.113.0/24", 0, to(1, "10.0.0.2"))]);
    assert_eq!((seen(&b), asked(&b, NET)), (Err(Unresolved::NotBack(FRONT)), vec![]));
    for (target, why) in [
        (Target::Blackhole, Unresolved::Unreachable),
        (Target::Prohibit, Unresolved::Unreachable),
        (to(9, "10.8.8.8"), Unresolved::NotOurs),
        (Target::Kernel, Unresolved::NotOurs),
        (Target::Paths([path(9, "10.8.8.8"), path(1, "10.0.0.2")].into()), Unresolved::NotOurs),
    ] {
        b.handle(&[add("203.0.113.9/32", 0, target.clone())]);
        assert_eq!(seen(&b), Err(why));
        b.handle(&[del("203.0.113.9/32", 0, target)]);
    }
    b.handle(&[del("203.0.113.0/24", 0, to(1, "10.0.0.2"))]);
    assert_eq!(seen(&b), Ok(1));
    // The interface is of the back no more; it is again.
    b.control.set_side(BACK, Side::Neither);
    b.handle(&[]);
    assert_eq!(seen(&b), Err(Unresolved::NotBack(BACK)));
    b.control.set_side(BACK, Side::Back);
    b.handle(&[]);
    assert_eq!(seen(&b), Ok(1));
    b.handle(&[address(2, "203.0.113.9/32")]);
    assert_eq!(seen(&b), Err(Unresolved::Own));
}

#[test]
fn the_way_over_a_lost_link_is_left_before_routes_follow() {
    let mut b = bench();
    b.control.set_side(FRONT, Side::Back);
    b.control.pace.few = 0;
    b.handle(&[
        add("203.0.113.0/24", 1, to(1, "10.0.0.2")),
        add("203.0.113.0/24", 2, to(2, "10.0.1.2")),
    ]);
    put(&mut b, &[of(NET, Action::Protect, &[named("203.0.113.9", 1)])]);
    let way = |b: &Bench| b.control.grantors()[0].ways.clone().map(|ways| ways[0].0);
    assert_eq!(way(&b), Ok(FRONT));
    b.handle(&[link(1, "p0", false)]);
    assert_eq!(way(&b), Ok(BACK));
    b.handle(&[link(1, "p0", true)]);
    assert_eq!(way(&b), Ok(FRONT));
    // By a next-hop object: what it stands for changes without a route.
    let object = |via| Event::NextHop(NextHop { id: 1, to: NextHopTo::Path(path(2, via)) });
    b.handle(&[
        object("10.0.1.2"),
        add("203.0.113.9/32", 0, Target::Object { id: 1, mtu: 0 }),
        neighbour(2, "10.0.1.3", 13),
    ]);
    assert_eq!(b.control.grantors()[0].ways, Ok(vec![(BACK, [4, 0, 0, 0, 0, 3])]));
    b.handle(&[object("10.0.1.3")]);
    assert_eq!(b.control.grantors()[0].ways, Ok(vec![(BACK, [4, 0, 0, 0, 0, 13])]));
    b.handle(&[Event::NextHop(NextHop { id: 1, to: NextHopTo::Blackhole })]);
    assert_eq!(why(&b, "203.0.113.9"), Err(Unresolved::Unreachable));
    b.handle(&[object("10.0.1.3")]);
    assert_eq!(why(&b, "203.0.113.9"), Ok(1));
    b.handle(&[object("10.0.1.4")]);
    assert_eq!(why(&b, "203.0.113.9"), Err(Unresolved::NoNeighbour));
}

/// What packets for the only Grantor meet, by hash.
fn ways(b: &Bench) -> Vec<Seen> {
    let id = info(b, NET).id;
    let protections = b.control.forwarding().protections.load(b.reader.guard());
    b.see_hop(protections.get(id).unwrap().grantor(0).unwrap().hop())
}

/// How often each way to the only Grantor is among its members.
fn shares(b: &Bench) -> Vec<usize> {
    let forwarding = b.control.forwarding();
    let protections = forwarding.protections.load(b.reader.guard());
    let hop = protections.get(info(b, NET).id).unwrap().grantor(0).unwrap().hop();
    let hops = forwarding.hops.load(b.reader.guard());
    let members = hops.members(hops.step(hop).multipath().unwrap());
    members.chunk_by(|a, b| a == b).map(<[_]>::len).collect()
}

/// BIRD with `merge paths on`, and the provider and the home network as near as each other.
#[test]
fn of_equal_paths_those_at_the_back_lead_to_a_grantor() {
    let mut b = bench();
    b.handle(&[neighbour(2, "10.0.1.3", 13)]);
    let heavy = Path { weight: 3, ..path(2, "10.0.1.2") };
    let both = Target::Paths([path(1, "10.0.0.2"), heavy, path(2, "10.0.1.3")].into());
    for net in ["0.0.0.0/0", "203.0.113.0/24"] {
        b.handle(&[add(net, 0, both.clone())]);
        put(&mut b, &[of(NET, Action::Protect, &[named("203.0.113.9", 1)])]);
        assert_eq!((why(&b, "203.0.113.9"), asked(&b, NET)), (Ok(2), vec![(9, 256)]));
        assert_eq!(ways(&b), [by(2, 3), by(2, 13)]);
        assert_eq!(shares(&b), [3, 1], "by weight, among themselves");
        take(&mut b, NET);
        b.handle(&[del(net, 0, both.clone())]);
    }
    let hops = |b: &mut Bench| {
        b.settle();
        b.used("hops")
    };
    let before = hops(&mut b);
    let few = Target::Paths([path(1, "10.0.0.2"), path(2, "10.0.1.3")].into());
    b.handle(&[add("203.0.113.0/24", 0, few.clone())]);
    put(&mut b, &[of(NET, Action::Protect, &[named("203.0.113.9", 1)])]);
    assert_eq!(ways(&b), [by(2, 13)]);
    // Nobody at the back any more, and again: by neighbour, link and side.
    b.handle(&[neighbour(2, "10.0.1.3", 0)]);
    assert_eq!((why(&b, "203.0.113.9"), asked(&b, NET)), (Err(Unresolved::NoNeighbour), vec![]));
    b.handle(&[neighbour(2, "10.0.1.3", 14)]);
    assert_eq!(ways(&b), [by(2, 14)]);
    b.handle(&[link(2, "p1", false)]);
    assert_eq!((why(&b, "203.0.113.9"), asked(&b, NET)), (Err(Unresolved::NotBack(FRONT)), vec![]));
    b.handle(&[link(2, "p1", true)]);
    assert_eq!(ways(&b), [by(2, 14)]);
    b.control.set_side(BACK, Side::Neither);
    b.handle(&[]);
    assert_eq!(why(&b, "203.0.113.9"), Err(Unresolved::NotBack(FRONT)));
    b.control.set_side(FRONT, Side::Back);
    b.handle(&[]);
    assert_eq!(ways(&b), [by(1, 2)]);
    b.control.set_side(FRONT, Side::Front);
    b.control.set_side(BACK, Side::Back);
    b.handle(&[]);
    assert_eq!((ways(&b), asked(&b, NET)), (vec![by(2, 14)], vec![(9, 256)]));
    // The kernel drops the routes of a link without its addresses; what Grantors have, too.
    take(&mut b, NET);
    b.handle(&[del("203.0.113.0/24", 0, few)]);
    assert_eq!(hops(&mut b), before);
}

#[test]
fn of_equal_paths_to_a_network_the_one_at_the_back_asks_for_the_grantor() {
    let mut b = bench();
    let both = Target::Paths([path(1, ""), path(2, "")].into());
    b.handle(&[add("203.0.113.0/24", 0, both)]);
    put(&mut b, &[of(NET, Action::Protect, &[named("203.0.113.9", 1)])]);
    assert_eq!(why(&b, "203.0.113.9"), Err(Unresolved::NoNeighbour));
    let all = b.control.gateways();
    assert!(all.iter().any(|of| of.link == LinkId(2) && of.ip.to_string() == "203.0.113.9"));
    b.handle(&[neighbour(2, "203.0.113.9", 9)]);
    assert_eq!(ways(&b), [by(2, 9)]);
}

#[test]
fn of_a_group_of_objects_the_members_at_the_back_lead_to_a_grantor() {
    let mut b = bench();
    let object = |id, to| Event::NextHop(NextHop { id, to });
    b.handle(&[
        object(1, NextHopTo::Path(path(1, "10.0.0.2"))),
        object(2, NextHopTo::Path(path(2, "10.0.1.2"))),
        object(3, NextHopTo::Group([(1, 1), (2, 1)].into())),
        add("203.0.113.0/24", 0, Target::Object { id: 3, mtu: 0 }),
        neighbour(2, "10.0.1.3", 13),
    ]);
    put(&mut b, &[of(NET, Action::Protect, &[named("203.0.113.9", 1)])]);
    assert_eq!(ways(&b), [by(2, 3)]);
    b.handle(&[object(2, NextHopTo::Path(path(2, "10.0.1.3")))]);
    assert_eq!(ways(&b), [by(2, 13)]);
    b.handle(&[object(2, NextHopTo::Path(path(1, "10.0.0.2")))]);
    assert_eq!(why(&b, "203.0.113.9"), Err(Unresolved::NotBack(FRONT)));
    b.handle(&[object(1, NextHopTo::Path(path(2, "10.0.1.2")))]);
    assert_eq!(ways(&b), [by(2, 3)]);
}

/// Routes of one prefix that differ in metric: the best one at the back. A longer prefix hides
/// them, and is named.
#[test]
fn of_unequal_routes_the_best_at_the_back_leads_to_a_grantor() {
    let mut b = bench();
    b.handle(&[
        neighbour(2, "10.0.1.3", 13),
        add("203.0.113.0/24", 10, to(1, "10.0.0.2")),
        add("203.0.113.0/24", 20, to(2, "10.0.1.2")),
        add("203.0.113.0/24", 30, to(2, "10.0.1.3")),
    ]);
    put(&mut b, &[of(NET, Action::Protect, &[named("203.0.113.9", 1)])]);
    assert_eq!((ways(&b), b.see("203.0.113.9")), (vec![by(2, 3)], by(1, 2)), "others go by it");
    b.handle(&[del("203.0.113.0/24", 20, to(2, "10.0.1.2"))]);
    assert_eq!(ways(&b), [by(2, 13)]);
    b.handle(&[add("203.0.113.0/24", 15, to(2, "10.0.1.2"))]);
    assert_eq!(ways(&b), [by(2, 3)]);
    // What drops, or only the kernel knows, counts before worse routes.
    for (target, why_not) in
        [(Target::Blackhole, Unresolved::Unreachable), (Target::Kernel, Unresolved::NotOurs)]
    {
        b.handle(&[add("203.0.113.0/24", 5, target.clone())]);
        assert_eq!(why(&b, "203.0.113.9"), Err(why_not));
        b.handle(&[del("203.0.113.0/24", 5, target.clone())]);
        b.handle(&[add("203.0.113.0/24", 12, target.clone())]);
        assert_eq!(why(&b, "203.0.113.9"), Err(Unresolved::NotBack(FRONT)));
        b.handle(&[del("203.0.113.0/24", 12, target)]);
    }
    assert_eq!(ways(&b), [by(2, 3)]);
    // The front says that the Grantor is elsewhere.
    b.handle(&[add("203.0.113.0/25", 0, to(1, "10.0.0.2"))]);
    assert_eq!((why(&b, "203.0.113.9"), asked(&b, NET)), (Err(Unresolved::NotBack(FRONT)), vec![]));
    b.handle(&[del("203.0.113.0/25", 0, to(1, "10.0.0.2"))]);
    b.handle(&[add("0.0.0.0/0", 0, to(1, "10.0.0.2"))]);
    assert_eq!(ways(&b), [by(2, 3)], "a shorter one says nothing");
}

/// A bypass has no such choice: its packets go by the routes that all have.
#[test]
fn a_bypass_goes_by_the_best_route_whichever_side_it_leads_to() {
    let mut b = bench();
    put(&mut b, &[bypass("50.1.0.0/16")]);
    b.handle(&[
        add("50.1.0.0/16", 10, to(1, "10.0.0.2")),
        add("50.1.0.0/16", 20, to(2, "10.0.1.2")),
    ]);
    assert_eq!(fate(&b, FRONT, "50.1.1.1"), Fate::Denied(Denied::FrontToFront));
    b.handle(&[add("50.1.0.0/16", 5, to(2, "10.0.1.2"))]);
    assert_eq!(fate(&b, FRONT, "50.1.1.1"), Fate::Leaves(BACK, 3));
}
