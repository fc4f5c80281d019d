//! Protections in the front view, and Grantors on the way back.

mod grantors;
mod many;

use super::bench as plain;
use crate::event::Target;
use crate::hops::of_withheld;
use crate::show::{ProtectionInfo, RouteFilter};
use crate::testing::{Bench, Seen, add, address, by, del, neighbour, to};
use crate::{
    Action, Changed, Denied, Error, IfaceId, Kind, LOCAL, Named, Net, Protect, SetId, Side, Unfit,
    VrfId,
};

/// `p0` is the front, with the network 10.0.0.0/24; `p1` the back, with 10.0.1.0/24.
fn bench() -> Bench {
    let mut b = plain();
    b.control.set_side(FRONT, Side::Front);
    b.control.set_side(BACK, Side::Back);
    b.control.commit();
    b
}

const FRONT: IfaceId = IfaceId(1);
const BACK: IfaceId = IfaceId(2);
const MAIN: VrfId = VrfId(0);

fn net(text: &str) -> Net {
    text.parse().unwrap()
}

fn named(ip: &str, weight: u16) -> Named {
    Named { ip: ip.parse().unwrap(), weight, shadow: false }
}

fn of(text: &str, action: Action, grantors: &[Named]) -> Protect {
    Protect { net: net(text), action, options: 0, grantors: grantors.into() }
}

/// Asked for at 10.0.1.2.
fn protect(text: &str) -> Protect {
    of(text, Action::Protect, &[named("10.0.1.2", 1)])
}

fn bypass(text: &str) -> Protect {
    of(text, Action::Bypass, &[])
}

fn discard(text: &str) -> Protect {
    of(text, Action::Discard, &[])
}

fn put(b: &mut Bench, all: &[Protect]) -> Vec<SetId> {
    let ids = all.iter().map(|wanted| b.control.protect(MAIN, wanted).unwrap()).collect();
    b.handle(&[]);
    ids
}

fn take(b: &mut Bench, text: &str) -> SetId {
    let id = b.control.unprotect(MAIN, net(text)).unwrap();
    b.handle(&[]);
    id
}

fn info(b: &Bench, text: &str) -> ProtectionInfo {
    b.control.protection(MAIN, net(text)).unwrap()
}

/// What becomes of a packet.
#[derive(Debug, PartialEq)]
enum Fate {
    /// It leaves, to the station whose address ends so.
    Leaves(IfaceId, u8),
    /// The Grantors of this prefix decide.
    Asks(Net),
    Denied(Denied),
    Other(Kind),
}

/// As nodes do it: by the front view or the plain one, then by the sides.
fn fate(b: &Bench, from: IfaceId, ip: &str) -> Fate {
    let forwarding = b.control.forwarding();
    let hops = forwarding.hops.load(b.reader.guard());
    let ifaces = forwarding.ifaces.load(b.reader.guard());
    let side = ifaces.side(from);
    let mut passed = false;
    if side == Side::Front {
        let hop = b.front(0, ip).unwrap();
        let step = hops.step(hop);
        match step.kind() {
            Kind::Protected => {
                let protections = forwarding.protections.load(b.reader.guard());
                let id = protections.at(step.index()).unwrap().id;
                return Fate::Asks(b.control.protection_of(id).unwrap().1);
            }
            Kind::Bypass => passed = true,
            kind => {
                return match of_withheld(hop) {
                    Some(hop) => Fate::Denied(ifaces.why_withheld(hops.step_of_flow(hop, 0), hops)),
                    None => Fate::Other(kind),
                };
            }
        }
    }
    match b.see_hop(b.hop(0, ip))[0] {
        Seen::To(out, mac) => match side.may_leave_at(ifaces.side(out), passed) {
            Ok(()) => Fate::Leaves(out, mac[5]),
            Err(denied) => Fate::Denied(denied),
        },
        Seen::Other(kind) => {
            // Beside the kinds that the kernel forwards.
            let back = side == Side::Back && ifaces.leads_to_back(hops.step(b.hop(0, ip)), hops);
            if back { Fate::Denied(Denied::BackToBack) } else { Fate::Other(kind) }
        }
    }
}

/// Specification §6, row by row.
#[test]
fn what_may_go_from_front_to_back_and_back() {
    let mut b = bench();
    b.handle(&[
        add("20.0.0.0/8", 0, to(1, "10.0.0.2")), // a gateway at the front
        add("30.0.0.0/8", 0, to(2, "10.0.1.2")), // a gateway at the back
        add("31.0.0.0/8", 0, to(2, "10.0.1.77")), // one that is not resolved
        add("21.0.0.0/8", 0, to(1, "10.0.0.77")),
        add("40.0.0.0/8", 0, to(2, "10.0.1.2")),
        add("50.0.0.0/8", 0, to(2, "10.0.1.2")),
        add("60.0.0.0/8", 0, to(2, "10.0.1.2")),
        add("70.0.0.0/8", 0, to(9, "10.8.8.8")), // the kernel's
        neighbour(1, "10.0.0.9", 9),
        neighbour(2, "10.0.1.9", 9),
    ]);
    put(&mut b, &[protect("40.0.0.0/8"), bypass("50.0.0.0/8"), discard("60.0.0.0/8")]);
    let denied = Fate::Denied;
    let us = || Fate::Other(Kind::ForUs);
    let rows = [
        // 0 FWD_GRANTOR. From the back: the route, which is no error here (issue #612).
        ("40.1.1.1", Fate::Asks(net("40.0.0.0/8")), denied(Denied::BackToBack)),
        // 1 FWD_GATEWAY_FRONT_NET
        ("20.1.1.1", denied(Denied::FrontToFront), Fate::Leaves(FRONT, 2)),
        // 2 FWD_GATEWAY_BACK_NET, which is the bypass; and a route that is none
        ("50.1.1.1", Fate::Leaves(BACK, 3), denied(Denied::BackToBack)),
        ("30.1.1.1", denied(Denied::FrontToBack), denied(Denied::BackToBack)),
        // 3 FWD_NEIGHBOR_FRONT_NET: known, unknown, this router
        ("10.0.0.9", denied(Denied::FrontToFront), Fate::Leaves(FRONT, 9)),
        ("10.0.0.7", denied(Denied::FrontElsewhere), Fate::Other(Kind::NoNeighbour)),
        ("10.0.0.1", us(), us()),
        // 4 FWD_NEIGHBOR_BACK_NET. From the front: not without a protection.
        ("10.0.1.9", denied(Denied::FrontToBack), denied(Denied::BackToBack)),
        ("10.0.1.7", denied(Denied::FrontElsewhere), denied(Denied::BackToBack)),
        ("31.1.1.1", denied(Denied::FrontElsewhere), denied(Denied::BackToBack)),
        ("21.1.1.1", denied(Denied::FrontElsewhere), Fate::Other(Kind::NoNeighbour)),
        ("10.0.1.1", us(), us()),
        // 5 DROP. From the back: the route.
        ("60.1.1.1", Fate::Other(Kind::Discard), denied(Denied::BackToBack)),
        // No match, and what is nobody's.
        ("80.1.1.1", denied(Denied::FrontElsewhere), Fate::Other(Kind::NoRoute)),
        ("70.1.1.1", denied(Denied::FrontElsewhere), Fate::Other(Kind::ViaKernel)),
        ("224.0.0.5", Fate::Other(Kind::Multicast), Fate::Other(Kind::Multicast)),
        ("127.0.0.1", Fate::Other(Kind::Martian), Fate::Other(Kind::Martian)),
    ];
    for (ip, front, back) in rows {
        assert_eq!((fate(&b, FRONT, ip), fate(&b, BACK, ip)), (front, back), "{ip}");
    }
    // What bypasses goes to the back only, whatever its route says.
    b.handle(&[add("50.1.0.0/16", 0, to(1, "10.0.0.2"))]);
    assert_eq!(fate(&b, FRONT, "50.1.1.1"), Fate::Denied(Denied::FrontToFront));
    // From an interface of no side, and to one: as in a router, but from the front.
    b.control.set_side(BACK, Side::Neither);
    b.handle(&[]);
    assert_eq!(fate(&b, BACK, "40.1.1.1"), Fate::Leaves(BACK, 3));
    b.control.set_side(FRONT, Side::Back); // what is unresolved there follows
    b.handle(&[]);
    for (ip, fate_of) in
        [("10.0.0.7", true), ("21.1.1.1", true), ("10.0.1.7", false), ("31.1.1.1", false)]
    {
        let is = fate(&b, FRONT, ip) == Fate::Denied(Denied::BackToBack);
        assert_eq!(is, fate_of, "{ip}");
    }
    b.control.set_side(FRONT, Side::Front);
    b.handle(&[]);
    assert_eq!(fate(&b, FRONT, "30.1.1.1"), Fate::Denied(Denied::FrontElsewhere));
    assert_eq!(fate(&b, FRONT, "50.2.1.1"), Fate::Denied(Denied::FrontElsewhere));
    b.control.set_side(FRONT, Side::Neither);
    b.handle(&[]);
    assert_eq!(fate(&b, FRONT, "20.1.1.1"), Fate::Leaves(FRONT, 2));
}

#[test]
fn a_protection_hides_every_route_inside_it_also_later_ones() {
    let mut b = bench();
    b.handle(&[
        add("0.0.0.0/0", 0, to(1, "10.0.0.2")),
        add("20.1.2.0/24", 0, to(2, "10.0.1.2")),
        add("2001:db8:1::/48", 0, to(2, "10.0.1.2")),
    ]);
    put(&mut b, &[protect("20.1.0.0/16"), discard("2001:db8::/32")]);
    b.handle(&[
        add("20.1.3.3/32", 0, to(2, "10.0.1.2")),
        add("20.1.0.0/16", 0, Target::Blackhole),
        add("2001:db8:2::/48", 0, to(2, "10.0.1.2")),
    ]);
    for ip in ["20.1.0.0", "20.1.2.1", "20.1.3.3", "20.1.255.255"] {
        assert_eq!(fate(&b, FRONT, ip), Fate::Asks(net("20.1.0.0/16")), "{ip}");
    }
    for ip in ["2001:db8::", "2001:db8:1::1", "2001:db8:2::1"] {
        assert_eq!(fate(&b, FRONT, ip), Fate::Other(Kind::Discard), "{ip}");
    }
    for (ip, seen) in [("20.1.2.1", by(2, 3)), ("20.1.4.1", Seen::Other(Kind::Blackhole))] {
        assert_eq!(b.see(ip), seen, "the plain view has its routes");
    }
    assert_eq!(fate(&b, FRONT, "20.2.0.0"), Fate::Denied(Denied::FrontToFront));
    // One inside another: the longer counts, and comes and goes alone.
    put(&mut b, &[discard("20.1.2.128/25")]);
    assert_eq!(fate(&b, FRONT, "20.1.2.129"), Fate::Other(Kind::Discard));
    assert_eq!(fate(&b, FRONT, "20.1.2.1"), Fate::Asks(net("20.1.0.0/16")));
    take(&mut b, "20.1.2.128/25");
    assert_eq!(fate(&b, FRONT, "20.1.2.129"), Fate::Asks(net("20.1.0.0/16")));
    // What its route was is withheld again once it is gone.
    take(&mut b, "20.1.0.0/16");
    assert_eq!(fate(&b, FRONT, "20.1.2.1"), Fate::Denied(Denied::FrontToBack));
    assert_eq!(fate(&b, FRONT, "20.1.4.1"), Fate::Other(Kind::Blackhole));
}

#[test]
fn without_protections_there_is_nothing() {
    let mut b = plain();
    let lines = |b: &Bench| b.control.capacity().len();
    let (before, hops) = (lines(&b), b.used("hops"));
    assert_eq!(b.front(0, "10.0.0.2"), None);
    let ids = put(&mut b, &[discard("20.0.0.0/8"), discard("2001:db8::/32")]);
    assert_eq!((lines(&b) - before, b.control.front_fibs().len()), (4, 2));
    assert_eq!((b.used("protections"), b.used("hops") - hops), (2, 2));
    take(&mut b, "20.0.0.0/8");
    assert_eq!(b.control.front_fibs().len(), 1);
    take(&mut b, "2001:db8::/32");
    b.settle();
    assert_eq!((b.front(0, "20.0.0.1"), b.used("hops")), (None, hops));
    assert_eq!((lines(&b), b.control.front_fibs().len()), (before, 0));
    // A front without protections has a view, which lets nothing pass.
    b.control.set_side(FRONT, Side::Front);
    b.handle(&[]);
    assert_eq!(fate(&b, FRONT, "10.0.1.2"), Fate::Denied(Denied::FrontElsewhere));
    assert_eq!(fate(&b, FRONT, "10.0.1.1"), Fate::Other(Kind::ForUs));
    assert_eq!(b.control.front_fibs().len(), 0);
    // The places that are free have other generations.
    let again = put(&mut b, &[discard("20.0.0.0/8"), discard("2001:db8::/32")]);
    let indices = |ids: &[SetId]| ids.iter().map(|id| id.index).collect::<Vec<_>>();
    assert_eq!(indices(&again), indices(&ids));
    assert!(again.iter().zip(&ids).all(|(new, old)| new.generation == old.generation + 1));
    let protections = b.control.forwarding().protections.load(b.reader.guard());
    assert!(ids.iter().all(|id| protections.get(*id).is_none()), "they are stale");
}

fn refused(b: &mut Bench, wanted: &Protect) -> Unfit {
    match b.control.protect(MAIN, wanted) {
        Err(Error::Protection(unfit)) => unfit,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_hole_in_a_shield_is_refused_with_both_prefixes() {
    let mut b = bench();
    put(&mut b, &[protect("20.1.0.0/16"), bypass("30.1.0.0/16"), discard("40.1.0.0/16")]);
    let hole = |does, other: &str, others, text: &str| {
        let (net, other) = (net(text), net(other));
        Unfit::Hole { net, does, other, others }
    };
    for (wanted, does, inside, other, others) in [
        (bypass("20.1.2.0/24"), "bypass", "20.1.2.0/24", "20.1.0.0/16", "protect"),
        (bypass("20.0.0.0/8"), "bypass", "20.0.0.0/8", "20.1.0.0/16", "protect"),
        (bypass("40.1.2.3/32"), "bypass", "40.1.2.3/32", "40.1.0.0/16", "drop"),
        (protect("30.1.2.0/24"), "protect", "30.1.2.0/24", "30.1.0.0/16", "bypass"),
        (protect("30.0.0.0/8"), "protect", "30.0.0.0/8", "30.1.0.0/16", "bypass"),
        (discard("30.0.0.0/7"), "drop", "30.0.0.0/7", "30.1.0.0/16", "bypass"),
    ] {
        assert_eq!(refused(&mut b, &wanted), hole(does, other, others, inside));
    }
    let text = refused(&mut b, &bypass("20.1.2.0/24")).to_string();
    assert!(text.contains("20.1.2.0/24 (bypass)") && text.contains("20.1.0.0/16 (protect)"));
    // Shields inside one another are none, nor are bypasses.
    put(&mut b, &[discard("20.1.2.0/24"), protect("40.0.0.0/8"), bypass("30.1.2.0/24")]);
    // Mistakes, which no room would mend: they are counted as themselves.
    assert_eq!((b.refused("protections that do not fit"), b.refused("protections")), (7, 0));
    // Once it is gone there is room, also inside.
    take(&mut b, "20.1.0.0/16");
    assert!(b.control.protect(MAIN, &bypass("20.1.0.0/16")).is_err(), "20.1.2.0/24 is there");
    take(&mut b, "20.1.2.0/24");
    put(&mut b, &[bypass("20.1.0.0/16")]);
}

#[test]
fn what_this_machine_decides_names_no_grantor() {
    let mut b = bench();
    let here = |grantors: &[Named]| Protect {
        options: LOCAL | 1,
        ..of("20.1.0.0/16", Action::Protect, grantors)
    };
    let (net, grantor) = (net("20.1.0.0/16"), named("10.0.1.2", 1));
    assert_eq!(refused(&mut b, &here(&[grantor])), Unfit::NeedlessGrantor { net, does: "protect" });
    let id = put(&mut b, &[here(&[])])[0];
    let shown = |b: &Bench| info(b, "20.1.0.0/16");
    assert_eq!((shown(&b).options, shown(&b).grantors.len()), (LOCAL | 1, 0));
    assert_eq!(b.control.change_protection(MAIN, &here(&[])), Ok(Changed::Same(id)));
    // Who decides from now on knows nothing of what was granted.
    let away = of("20.1.0.0/16", Action::Protect, &[grantor]);
    let Ok(Changed::Flush { old, new }) = b.control.change_protection(MAIN, &away) else {
        panic!("its flows are to be forgotten")
    };
    assert!(old == id && new != id);
    b.control.commit();
    assert_eq!(shown(&b).grantors.len(), 1);
    let back = b.control.change_protection(MAIN, &here(&[]));
    assert!(matches!(back, Ok(Changed::Flush { old, .. }) if old == new));
    b.control.commit();
    assert_eq!(shown(&b).grantors.len(), 0);
    take(&mut b, "20.1.0.0/16");
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut b = bench();
    b.handle(&[address(9, "192.0.2.1/24")]);
    put(&mut b, &[protect("20.1.0.0/16")]);
    let own = |text: &str, subnet: &str| Unfit::OwnNetwork { net: net(text), subnet: net(subnet) };
    let reserved = |text: &str, of: &str| Unfit::Reserved { net: net(text), reserved: net(of) };
    let grantor = "10.0.1.2".parse().unwrap();
    let twenty = net("20.1.0.0/16");
    for (wanted, unfit) in [
        (discard("20.1.0.0/16"), Unfit::Duplicate { net: twenty }),
        // Equal to, around and inside of a network that the router is on.
        (discard("10.0.0.0/24"), own("10.0.0.0/24", "10.0.0.0/24")),
        (bypass("10.0.0.0/16"), own("10.0.0.0/16", "10.0.0.0/24")),
        (protect("10.0.1.128/25"), own("10.0.1.128/25", "10.0.1.0/24")),
        // Of an interface that is not Rutter's, the address alone.
        (discard("192.0.2.0/31"), own("192.0.2.0/31", "192.0.2.1/32")),
        (discard("224.0.0.0/8"), reserved("224.0.0.0/8", "224.0.0.0/4")),
        (discard("96.0.0.0/3"), reserved("96.0.0.0/3", "127.0.0.0/8")),
        (discard("fe80::/64"), reserved("fe80::/64", "fe80::/10")),
        (of("21.0.0.0/8", Action::Protect, &[]), Unfit::NoGrantor { net: net("21.0.0.0/8") }),
        (
            of("2001:db8::/32", Action::Protect, &[named("10.0.1.2", 1)]),
            Unfit::OtherFamily { net: net("2001:db8::/32"), grantor },
        ),
        (
            of("21.0.0.0/8", Action::Protect, &[named("10.0.1.2", 0)]),
            Unfit::BadGrantor { net: net("21.0.0.0/8"), grantor },
        ),
        (
            of("21.0.0.0/8", Action::Protect, &[named("10.0.1.2", 1), named("10.0.1.2", 2)]),
            Unfit::BadGrantor { net: net("21.0.0.0/8"), grantor },
        ),
        (
            of("21.0.0.0/8", Action::Bypass, &[named("10.0.1.2", 1)]),
            Unfit::NeedlessGrantor { net: net("21.0.0.0/8"), does: "bypass" },
        ),
    ] {
        assert_eq!(refused(&mut b, &wanted), unfit);
    }
    put(&mut b, &[discard("192.0.2.128/25")]);
    let changed = b.control.change_protection(MAIN, &discard("20.1.0.0/16"));
    let other = Unfit::OtherAction { net: twenty, does: "protect" };
    assert_eq!(changed, Err(other.into()));
    let unknown = Unfit::Unknown { net: net("20.0.0.0/8") };
    assert_eq!(
        b.control.change_protection(MAIN, &protect("20.0.0.0/8")),
        Err(unknown.clone().into())
    );
    assert_eq!(b.control.unprotect(MAIN, net("20.0.0.0/8")), Err(unknown.into()));
    assert_eq!(b.control.protect(VrfId(7), &discard("21.0.0.0/8")), Err(Error::UnknownVrf));
    // An address that comes later is hidden from the front, and said so.
    assert_eq!(info(&b, "20.1.0.0/16").hides, None);
    b.handle(&[address(2, "20.1.9.1/30")]);
    assert_eq!(info(&b, "20.1.0.0/16").hides, Some(net("20.1.9.0/30")));
    assert_eq!(fate(&b, FRONT, "20.1.9.1"), Fate::Asks(twenty));
    assert_eq!(fate(&b, BACK, "20.1.9.1"), Fate::Other(Kind::ForUs));
}

#[test]
fn an_option_flushes_and_grantors_are_swapped() {
    let mut b = bench();
    let id = put(&mut b, &[protect("20.1.0.0/16")])[0];
    let change = |b: &mut Bench, wanted: &Protect| {
        let changed = b.control.change_protection(MAIN, wanted).unwrap();
        b.handle(&[]);
        changed
    };
    assert_eq!(change(&mut b, &protect("20.1.0.0/16")), Changed::Same(id));
    let other = of("20.1.0.0/16", Action::Protect, &[named("10.0.1.3", 1), named("10.0.1.2", 2)]);
    assert_eq!(change(&mut b, &other), Changed::Swapped(id));
    let protections = || b.control.forwarding().protections.load(b.reader.guard());
    assert_eq!(protections().get(id).unwrap().grantors().count(), 2);
    assert!(protections().get(id).unwrap().named("10.0.1.3".parse().unwrap()).is_some());
    // In another order it is the same list.
    let turned = Protect { grantors: other.grantors.iter().rev().copied().collect(), ..other };
    assert_eq!(change(&mut b, &turned), Changed::Same(id));
    let options = Protect { options: 5, ..turned };
    let new = SetId { generation: id.generation + 1, ..id };
    assert_eq!(change(&mut b, &options), Changed::Flush { old: id, new });
    let protections = b.control.forwarding().protections.load(b.reader.guard());
    assert!(protections.get(id).is_none());
    let now = protections.get(new).unwrap();
    assert_eq!((now.options, now.action, now.grantors().count()), (5, Action::Protect, 2));
    assert_eq!(fate(&b, FRONT, "20.1.2.3"), Fate::Asks(net("20.1.0.0/16")));
}

#[test]
fn listings_of_protections_go_page_by_page() {
    let mut b = bench();
    let nets = ["20.1.0.0/16", "20.1.2.0/24", "30.0.0.0/8", "2001:db8::/32", "2001:db9::/32"];
    for net in nets {
        b.control.protect(MAIN, &discard(net)).unwrap();
    }
    b.control.commit();
    let list = |filter, most| {
        let (mut pages, mut at) = (Vec::new(), None);
        loop {
            let (page, next) = b.control.protections(&filter, at, most);
            pages.extend(page.into_iter().map(|info| info.net.to_string()));
            at = next;
            if at.is_none() {
                return pages;
            }
        }
    };
    for most in 1..7 {
        assert_eq!(list(RouteFilter::default(), most), nets);
    }
    let inside = RouteFilter { inside: Some(net("20.0.0.0/8")), ..RouteFilter::default() };
    assert_eq!(list(inside, 1), nets[..2]);
    let six = RouteFilter { family: Some(crate::Family::V6), ..RouteFilter::default() };
    assert_eq!(list(six, 1), nets[3..]);
    assert!(b.control.protection(MAIN, net("20.0.0.0/8")).is_none());
    assert!(info(&b, "20.1.2.0/24").in_table);
}

#[test]
fn routes_withdrawn_leave_a_shield_as_it_is() {
    let mut b = bench();
    b.handle(&[add("20.0.0.0/8", 0, to(2, "10.0.1.2"))]);
    put(&mut b, &[protect("20.1.0.0/16"), bypass("20.2.0.0/16")]);
    b.handle(&[del("20.0.0.0/8", 0, to(2, "10.0.1.2"))]);
    assert_eq!(fate(&b, FRONT, "20.1.0.1"), Fate::Asks(net("20.1.0.0/16")));
    assert_eq!(fate(&b, FRONT, "20.2.0.1"), Fate::Other(Kind::NoRoute), "by its route");
}
