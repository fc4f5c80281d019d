use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

type Model<A> = BTreeMap<Prefix<A>, Hop>;

/// Prefixes that nest often: few address bits vary, any length occurs.
fn prefix<A: Addr>() -> impl Strategy<Value = Prefix<A>> {
    (any::<u128>(), 0..=A::WIDTH, any::<bool>()).prop_map(|(bits, len, near)| {
        let bits = if near { bits & A::from_u128(0x8003_0003).to_u128() } else { bits };
        let spread = (bits >> 96) << 100 | bits;
        Prefix::covering(A::from_u128(spread), len)
    })
}

fn changes<A: Addr>() -> impl Strategy<Value = Vec<Change<A>>> {
    let hop = prop_oneof![2 => (1..100_u32).prop_map(Hop::new), 1 => Just(None)];
    let change = (prefix(), hop).prop_map(|(prefix, hop)| Change { prefix, hop });
    prop::collection::vec(change, 0..if cfg!(miri) { 40 } else { 1200 })
}

fn agrees<A: Addr>(rib: &Rib<A>, model: &Model<A>, probe: Prefix<A>) {
    assert_eq!(rib.get(&probe), model.get(&probe).copied());
    let covering: Vec<_> = rib.covering(probe).collect();
    let covers = |(p, &h): (&Prefix<A>, &Hop)| p.covers(&probe).then_some((*p, h));
    let mut want: Vec<_> = model.iter().filter_map(covers).collect();
    want.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
    assert_eq!(covering, want, "covering {probe}");
    let parent = want.iter().find(|(p, _)| *p != probe).copied();
    assert_eq!(rib.parent(probe), parent, "parent of {probe}");
    let inside: Vec<_> = rib.inside(probe.first()..=probe.last()).collect();
    let within = |(p, &h): (&Prefix<A>, &Hop)| probe.contains(p.first()).then_some((*p, h));
    assert_eq!(inside, model.iter().filter_map(within).collect::<Vec<_>>());
    let strictly: Vec<_> =
        inside.into_iter().filter(|(p, _)| probe.covers(p) && *p != probe).collect();
    let on_top = |(p, _): &&(Prefix<A>, Hop)| {
        !strictly.iter().any(|(other, _)| other != p && other.covers(p))
    };
    let want: Vec<_> = strictly.iter().filter(on_top).copied().collect();
    assert_eq!(rib.children(probe).collect::<Vec<_>>(), want, "children of {probe}");
}

fn check<A: Addr>(changes: &[Change<A>], probes: &[Prefix<A>]) {
    let (mut rib, mut model) = (Rib::new(), Model::new());
    for change in changes {
        let old = match change.hop {
            Some(hop) => model.insert(change.prefix, hop),
            None => model.remove(&change.prefix),
        };
        assert_eq!(rib.apply(change), old);
    }
    assert!(rib.iter().eq(model.iter().map(|(&prefix, &hop)| (prefix, hop))));
    assert_eq!(rib.len(), model.len());
    let built: Rib<A> = model.iter().map(|(&prefix, &hop)| (prefix, hop)).collect();
    assert!(built.iter().eq(rib.iter()));
    for probe in probes.iter().chain(changes.iter().take(60).map(|change| &change.prefix)) {
        agrees(&rib, &model, *probe);
        agrees(&built, &model, *probe);
    }
    for len in 0..=A::WIDTH {
        let want = model.keys().filter(|prefix| prefix.len() == len).count();
        assert_eq!(rib.count_of_len(len), want);
    }
    for prefix in model.keys() {
        assert!(rib.remove(prefix).is_some());
    }
    assert!(rib.is_empty() && rib.iter().next().is_none());
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 4 } else { 96 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn behaves_as_a_btreemap(
        changes in changes::<u32>(), probes in prop::collection::vec(prefix(), 40)
    ) {
        check(&changes, &probes);
    }

    #[test]
    fn behaves_as_a_btreemap_ipv6(
        changes in changes::<u128>(), probes in prop::collection::vec(prefix(), 40)
    ) {
        check(&changes, &probes);
    }
}

#[test]
fn of_equal_prefixes_the_later_one_counts() {
    let route = |first, hop| (Prefix::new(first, 24).unwrap(), Hop(hop));
    let rib: Rib<u32> = [route(512, 1), route(256, 2), route(512, 3)].into_iter().collect();
    assert!(rib.iter().eq([route(256, 2), route(512, 3)]));
}

#[test]
fn shortest_at_every_alignment() {
    assert_eq!(shortest_at(0_u32), Prefix::all());
    assert_eq!(shortest_at(0x0a00_0000_u32), Prefix::new(0x0a00_0000, 7).unwrap());
    assert_eq!(shortest_at(u32::MAX), Prefix::new(u32::MAX, 32).unwrap());
    assert_eq!(shortest_at(1_u128 << 127), Prefix::new(1 << 127, 1).unwrap());
}

#[test]
#[cfg_attr(miri, ignore = "200,000 prefixes")]
fn a_prefix_costs_little_memory_in_any_order_of_arrival() {
    fn bytes<A: Addr>(n: u64, step: u64) -> f64 {
        let mut rib = Rib::new();
        let place = |i: u64| A::from_u128(u128::from(i * step % n) << (A::WIDTH - 18));
        for i in 0..n {
            rib.insert(Prefix::covering(place(i), 24), Hop(1));
        }
        assert_eq!(rib.len() as u64, n);
        rib.bytes() as f64 / n as f64
    }
    for step in [1, 7_919, 199_999] {
        assert!(bytes::<u32>(200_000, step) <= 24.0, "IPv4, step {step}");
        assert!(bytes::<u128>(200_000, step) <= 40.0, "IPv6, step {step}");
    }
}
