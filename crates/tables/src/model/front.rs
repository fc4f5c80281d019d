//! Protections among the random events, and what the front view has.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{Deed, NETS4, NETS6};
use crate::hops::{fixed, of_withheld};
use crate::oracle::{Front, Meets, Routing, Shielded};
use crate::testing::{Bench, Seen};
use crate::{Action, Changed, Family, IfaceId, Named, Net, Protect, Side, VrfId};

const MORE: [&str; 6] =
    ["20.1.2.0/24", "20.0.0.0/7", "30.0.0.1/32", "2002::/16", "2001:db8::/33", "2001:db8:2::/48"];
const GRANTORS4: [&str; 5] = ["10.0.0.2", "10.0.1.2", "20.1.2.3", "10.9.9.9", "10.0.0.1"];
const GRANTORS6: [&str; 3] = ["2001:db8:1::2", "2001:db8::1", "2001:db8:1::1"];

pub(super) fn any_side() -> impl Strategy<Value = Deed> {
    // Mostly such that there is something to see.
    let side = prop_oneof![4 => Just(Side::Back), 1 => Just(Side::Front), 1 => Just(Side::Neither)];
    (1_u16..3, side).prop_map(|(id, side)| Deed::Side(id, side))
}

pub(super) fn any_protection() -> impl Strategy<Value = Deed> {
    let nets = [&NETS4[..], &NETS6, &MORE].concat();
    let action = prop_oneof![
        4 => Just(Action::Protect),
        1 => Just(Action::Bypass),
        1 => Just(Action::Discard),
    ];
    let net = prop::sample::select(nets).prop_map(|net| net.parse::<Net>().unwrap());
    let protect = (net, action, 0_u32..2).prop_flat_map(|(net, action, options)| {
        let all = if net.family() == Family::V4 { &GRANTORS4[..] } else { &GRANTORS6 };
        let most = if action == Action::Protect { 1..4 } else { 0..1 };
        let grantors = prop::sample::subsequence(all, most);
        (grantors, 1_u16..4).prop_map(move |(grantors, weight)| Protect {
            net,
            action,
            options,
            grantors: grantors
                .iter()
                .map(|ip| Named { ip: ip.parse().unwrap(), weight, shadow: weight == 3 })
                .collect(),
        })
    });
    prop_oneof![
        3 => protect.clone().prop_map(Deed::Protect),
        1 => protect.prop_map(|protect| Deed::Unprotect(protect.net)),
    ]
}

pub(super) fn protect(bench: &mut Bench, model: &mut Routing, wanted: &Protect) {
    let place = (wanted.net.addr(), wanted.net.len());
    let new = Shielded {
        action: wanted.action,
        grantors: wanted.grantors.iter().map(|named| named.ip).collect(),
    };
    let Some(old) = model.shields.get(&(0, place)) else {
        let done = bench.control.protect(VrfId(0), wanted);
        assert_eq!(done.is_ok(), model.admits(0, place, wanted.action), "{done:?}");
        if done.is_ok() {
            model.shields.insert((0, place), new);
        }
        return;
    };
    assert!(bench.control.protect(VrfId(0), wanted).is_err(), "a second one");
    let before = bench.control.protection(VrfId(0), wanted.net).unwrap();
    let done = bench.control.change_protection(VrfId(0), wanted);
    if old.action != wanted.action {
        assert!(done.is_err());
        return;
    }
    let now = bench.control.protection(VrfId(0), wanted.net).unwrap().id;
    match done.unwrap() {
        Changed::Same(id) | Changed::Swapped(id) => assert_eq!((id, now), (before.id, before.id)),
        Changed::Flush { old, new } => assert_eq!((old, new), (before.id, now)),
    }
    assert_eq!(before.options == wanted.options, now == before.id);
    model.shields.insert((0, place), new);
}

pub(super) fn unprotect(bench: &mut Bench, model: &mut Routing, net: Net) {
    let was_there = model.shields.remove(&(0, (net.addr(), net.len()))).is_some();
    let done = bench.control.unprotect(VrfId(0), net);
    assert_eq!(done.is_ok(), was_there);
    if let Ok(id) = done {
        assert_eq!(bench.control.protection_of(id), None);
    }
}

/// Packets from the front meet what the model says, and Grantors are where it has them.
pub(super) fn compare<'p>(
    bench: &Bench,
    model: &Routing,
    probes: impl Iterator<Item = &'p &'p str>,
) {
    let forwarding = bench.control.forwarding();
    let hops = forwarding.hops.load(bench.reader.guard());
    let protections = forwarding.protections.load(bench.reader.guard());
    for ip in probes {
        let Some(hop) = bench.front(0, ip) else {
            assert!(model.shields.is_empty() && !model.sides.values().any(|s| *s == Side::Front));
            continue;
        };
        let (prefix, action) = match model.front(0, ip.parse().unwrap()) {
            Front::Shielded(prefix, action) => (prefix, action),
            Front::Plain(_) => {
                // What the plain view answers is compared there.
                let plain = bench.hop(0, ip);
                let known = [fixed::FOR_US, fixed::MULTICAST, fixed::MARTIAN, fixed::BLACKHOLE];
                let want = if known.contains(&plain) { None } else { Some(plain) };
                assert_eq!((of_withheld(hop), hop == plain), (want, want.is_none()), "{ip}");
                continue;
            }
        };
        let step = hops.step(hop);
        assert_eq!(step.kind(), action.kind(), "{ip}");
        let protection = protections.at(step.index()).expect("it was published first");
        assert!(protections.get(protection.id).is_some());
        let of = bench.control.protection_of(protection.id).unwrap();
        assert_eq!(of, (VrfId(0), Net::covering(prefix.0, prefix.1).unwrap()), "{ip}");
        let all = &model.shields[&(0, prefix)].grantors;
        let there: BTreeSet<_> =
            all.iter().filter(|ip| model.grantor(0, **ip).is_some()).copied().collect();
        let mut chosen = BTreeSet::new();
        for hash in (0..64).map(|i| i << 26) {
            let grantor = protection.grantor(hash).or(protection.shadow(hash));
            let Some(grantor) = grantor else { continue };
            chosen.insert(grantor.ip);
            let want = model.grantor(0, grantor.ip).expect("it can be reached");
            assert_eq!(texts(bench.see_hop(grantor.hop())), meets(want), "{}", grantor.ip);
        }
        assert_eq!(chosen, there, "{ip}");
    }
    for grantor in bench.control.grantors() {
        let there = model.grantor(0, grantor.ip).is_some();
        assert_eq!(grantor.ways.is_ok(), there, "{grantor:?}");
    }
}

fn texts(seen: Vec<Seen>) -> BTreeSet<String> {
    seen.iter().map(|seen| format!("{seen:?}")).collect()
}

fn meets(all: BTreeSet<Meets>) -> BTreeSet<String> {
    let seen = all.into_iter().map(|meets| match meets {
        Meets::Way(iface, mac, _) => Seen::To(IfaceId(iface), mac),
        Meets::Other(kind) => Seen::Other(kind),
    });
    texts(seen.collect())
}
