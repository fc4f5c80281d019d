use std::sync::atomic::Ordering::Relaxed;

use super::rank::Portable;
use super::*;
use crate::Prefix;
use crate::lpm::instruments::{Reads, address};
use crate::lpm::oracle::{Rng, conformance};
use crate::lpm::{Applied, Intervals};
use crate::rib::Change;

conformance!(u128, ENTRY);
conformance!(portable: u128, ENTRY, "isa" = "portable");
conformance!(wide: u128, Entry { card: &CARD, build: build_wide });
conformance!(wide_portable: u128, Entry { card: &CARD, build: build_wide }, "isa" = "portable");

#[test]
fn avx2_passes_where_the_processor_has_it() {
    crate::lpm::oracle::passes_with_isa(ENTRY, "avx2");
}

/// The same with values of 32 bits.
fn build_wide(
    rib: &Rib<u128>,
    options: &Options,
    domain: &Arc<Domain>,
) -> Result<Box<dyn Writer<u128>>, Refusal> {
    rib.iter().try_for_each(|(_, hop)| CARD.admit_hop(hop))?;
    let writer = writer::Rutter6::<Wide>::build(rib, Isa::choose(&CARD, options)?, domain)?;
    Ok(Box::new(Renewed::new(Box::new(writer), 4 * table::ROOTS, rib)))
}

/// A table under change, one prefix at a time, as a router meets it.
struct Fixture {
    rib: Rib<u128>,
    writer: Box<dyn Writer<u128>>,
    reads: Arc<dyn Reads<u128>>,
}

impl Fixture {
    fn new(routes: impl IntoIterator<Item = (Prefix<u128>, Hop)>) -> Self {
        let rib = routes.into_iter().collect();
        Self::built(rib, &Options::default()).expect("within the limits")
    }

    /// Without a route; `None` where the processor has no such instructions.
    fn with_isa(isa: &str) -> Option<Self> {
        let options = Options([("isa".to_string(), isa.to_string())].into());
        Self::built(Rib::new(), &options).ok()
    }

    fn built(rib: Rib<u128>, options: &Options) -> Result<Self, Refusal> {
        let Instrumented { writer, reads } = instrumented(&rib, options, &Domain::new())?;
        Ok(Fixture { rib, writer, reads })
    }

    fn change(&mut self, prefix: Prefix<u128>, hop: Option<Hop>) {
        self.change_all(&[Change { prefix, hop }]);
    }

    fn change_all(&mut self, changes: &[Change<u128>]) {
        changes.iter().for_each(|change| {
            self.rib.apply(change);
        });
        let applied = self.writer.apply(&self.rib, changes).expect("within the limits");
        assert_eq!(applied, Applied::InPlace);
    }

    /// Both ends of each prefix and one beside, in a batch; under miri of some thirty.
    fn agree(&self, prefixes: &[Prefix<u128>]) {
        let step = if cfg!(miri) { 1 + prefixes.len() / 30 } else { 1 };
        let edges = |p: &Prefix<u128>| {
            [p.first(), p.last(), p.first().wrapping_sub(1), p.last().wrapping_add(1)]
        };
        let dsts: Vec<u128> = prefixes.iter().step_by(step).flat_map(edges).collect();
        let mut hops = vec![Hop::NONE; dsts.len()];
        self.writer.table().lookup_batch(&dsts, &mut hops);
        let flat = Intervals::new(self.rib.iter());
        for (&dst, &hop) in dsts.iter().zip(&hops) {
            assert_eq!(hop, flat.lookup(dst), "{dst:#x}");
        }
    }

    fn counter(&self, name: &str) -> u64 {
        let counters = self.writer.table().counters();
        counters.into_iter().find(|(n, _)| *n == name).expect("a counter").1
    }
}

/// A table for each instruction set that the processor has; miri has none, so that the
/// best is the portable one.
fn of_each_isa() -> impl Iterator<Item = Fixture> {
    let all = ["portable", "auto", "avx2"].into_iter();
    all.take(if cfg!(miri) { 1 } else { 3 }).filter_map(Fixture::with_isa)
}

/// Grows from nothing to many routes below `place` and shrinks again.
fn comes_and_goes(mut table: Fixture, place: u128, len: u8, longest: u8) {
    let mut rng = Rng::new(u64::from(len));
    let within = Prefix::covering(place, len);
    let mut prefixes: Vec<Prefix<u128>> = (0..if cfg!(miri) { 24 } else { 4000 })
        .map(|_| {
            let addr = within.first() | (rng.addr::<u128>() & within.host_mask());
            let spread = u32::from(longest - len);
            Prefix::covering(addr, longest - (rng.below(spread) * rng.below(2)) as u8)
        })
        .collect();
    prefixes.dedup();
    for (i, &prefix) in prefixes.iter().enumerate() {
        table.change(prefix, Some(Hop(1 + rng.below(300))));
        if i % 1000 == 10 {
            table.agree(&prefixes[..i]);
        }
    }
    table.agree(&prefixes);
    let most = table.writer.table().bytes();
    for (i, &prefix) in prefixes.iter().enumerate() {
        table.change(prefix, None);
        if i % 1000 == 10 {
            table.agree(&prefixes);
        }
    }
    table.agree(&prefixes);
    for &prefix in &prefixes {
        table.change(prefix, Some(Hop(1 + rng.below(300))));
    }
    table.agree(&prefixes);
    let again = table.writer.table().bytes();
    assert!(again < most * 2, "{most} -> {again}");
}

#[test]
fn a_16_grows_from_nothing() {
    for table in of_each_isa() {
        comes_and_goes(table, 0x2001 << 112, 16, 48);
    }
}

#[test]
fn many_routes_inside_one_48() {
    comes_and_goes(Fixture::new([]), 0x2001_0db8_0001 << 80, 48, 64);
}

#[test]
fn many_routes_inside_one_112() {
    comes_and_goes(Fixture::new([]), 0x2001_0db8_0001 << 80, 112, 128);
}

#[test]
fn a_deeper_tree_goes_with_the_last_long_route() {
    let (around, inside) = (Prefix::covering(7 << 80, 48), Prefix::covering(7 << 80, 64));
    let mut table = Fixture::new([(around, Hop(1))]);
    for round in 0..if cfg!(miri) { 8 } else { 500 } {
        for (hop, reads) in [(Some(Hop(2 + round)), 6), (None, 4)] {
            table.change(inside, hop);
            table.agree(&[around, inside]);
            assert_eq!(table.reads.reads(inside.first()).len(), reads);
        }
    }
    // Some wait for the grace period, none is lost.
    assert!(table.counter("deep_trees") < 200);
}

/// A /48 has nodes inside while its answers exceed a line, and one line before and after.
#[test]
fn a_deeper_tree_of_one_line_has_no_node() {
    let around = Prefix::covering(7 << 80, 48);
    let inside: Vec<_> = (0..8).map(|i| Prefix::covering(7 << 80 | i << 66, 64)).collect();
    for mut table in of_each_isa() {
        table.change(around, Some(Hop(1)));
        let all = |hop: Option<Hop>| -> Vec<_> {
            inside.iter().map(|&prefix| Change { prefix, hop }).collect()
        };
        for round in 0..3 {
            for (i, &prefix) in inside.iter().enumerate() {
                table.change(prefix, Some(Hop(2 + i as u32)));
                table.agree(&inside);
                let answers = 2 * (i + 1); // the first one starts where the /48 does
                let fits = answers <= Narrow::KEYS + 1;
                let reads = table.reads.reads(prefix.first()).len();
                assert_eq!(reads, if fits { 6 } else { 7 }, "round {round}, {} routes", i + 1);
            }
            table.change_all(&all(None));
            table.agree(&inside);
            assert_eq!(table.reads.reads(around.first()).len(), 4);
        }
    }
}

#[test]
fn deeper_trees_go_with_what_lies_around_them() {
    let (count, step) = if cfg!(miri) { (14, 5) } else { (600, 20) };
    let place = |i: u128, len| Prefix::covering(0x2001 << 112 | i << 86 | 1 << 64, len);
    let routes = (0..count).map(|i| (place(i, 48), Hop(1 + i as u32 % 7)));
    let inside = (0..count).step_by(step).map(|i| (place(i, 64), Hop(9)));
    let mut table = Fixture::new(routes.chain(inside));
    let prefixes: Vec<_> = table.rib.iter().map(|(prefix, _)| prefix).collect();
    // All of them at once, in several groups of cells.
    for round in 0..if cfg!(miri) { 3 } else { 60 } {
        table.change(Prefix::covering(0x2001 << 112, 17), Some(Hop(20 + round % 2)));
        if round % 20 < 3 {
            table.agree(&prefixes);
        }
    }
    let deep = table.counter("deep_trees");
    assert!(deep < 300, "{deep}");
}

/// A /16 gets cells and trees of its own, of two nodes and more, and loses them; what
/// /16s of one hop share goes with the last of them.
#[test]
fn cells_and_trees_that_go_are_used_again() {
    let mut table = Fixture::new([]);
    let around = Prefix::covering(0x2001 << 112, 16);
    let count = if cfg!(miri) { 12 } else { 400 };
    let inside = |hop: Option<Hop>| -> Vec<_> {
        let prefix = |i: u128| Prefix::covering(0x2001 << 112 | i << 88, 48);
        let hop = |i| hop.map(|hop| Hop(hop.0 + i as u32 % 2));
        (0..count).map(|i| Change { prefix: prefix(i), hop: hop(i) }).collect()
    };
    for round in 0..if cfg!(miri) { 3 } else { 60 } {
        table.change(around, Some(Hop(10 + round)));
        table.change_all(&inside(Some(Hop(1))));
        table.change_all(&inside(None));
    }
    // Some wait for the grace period.
    let (cells, units) = (table.counter("cells"), table.counter("units"));
    assert!(cells < 1200 && units < 2000, "{cells} {units}");
}

/// Two /16s of 32 cells take each other's old ones in turn: neither writes into what
/// lies beside its own.
#[test]
fn cells_end_where_the_next_begin() {
    let inside = |at: u128, i: u128| Prefix::covering(at << 112 | i << 100, 28);
    let prefixes: Vec<_> =
        [0x2001, 0x2003].iter().flat_map(|&at| (0..180).map(move |i| inside(at, i))).collect();
    let hop = |i| Hop(1 + i as u32 % 2);
    let mut table = Fixture::new(prefixes.iter().enumerate().map(|(i, &p)| (p, hop(i))));
    let rounds = if cfg!(miri) { 2 } else { 100 };
    for round in 0..rounds {
        for at in [0x2001, 0x2003] {
            table.change(Prefix::covering(at << 112, 16), Some(Hop(3 + round)));
        }
        table.agree(&prefixes);
    }
    let cells = table.counter("cells");
    assert!((4 * 32..5000).contains(&cells), "{cells}");
}

/// Two nodes above the plain one: no array tells apart what lies so close together.
#[test]
#[cfg_attr(miri, ignore = "many routes")]
fn a_tree_of_four_levels() {
    let count = 3000;
    let prefixes: Vec<_> =
        (0..count).map(|i| Prefix::covering(0x2001 << 112 | i << 80, 48)).collect();
    let hop = |i| Some(Hop(1 + i as u32 % 2));
    let changes: Vec<_> =
        (0..).zip(&prefixes).map(|(i, &prefix)| Change { prefix, hop: hop(i) }).collect();
    for mut table in of_each_isa() {
        table.change_all(&changes);
        table.agree(&prefixes);
        let reads: Vec<_> = prefixes.iter().map(|p| table.reads.reads(p.first()).len()).collect();
        assert!(reads.contains(&6), "{reads:?}");
    }
}

/// Routes that come one by one get as many cells as those that are there at first.
#[test]
#[cfg_attr(miri, ignore = "many routes")]
fn an_array_grows_with_what_comes() {
    let count = 4096;
    let mut table = Fixture::new([]);
    let prefix = |i: u128| Prefix::covering(0x2001 << 112 | (i * 1021 % count) << 100, 28);
    for i in 0..count {
        table.change(prefix(i), Some(Hop(1 + (i * 1021 % count) as u32 % 2)));
    }
    let reads = |i| table.reads.reads(prefix(i).first()).len();
    let beyond = (0..count).filter(|&i| reads(i) > 4).count();
    assert!(beyond < 400, "{beyond}");
}

#[test]
fn a_prefix_over_several_groups_of_cells() {
    let inside = |i: u128| Prefix::covering(0x2001 << 112 | i << 100, 28);
    let around = Prefix::covering(0x2001 << 112, 17);
    let mut prefixes: Vec<_> = (0..180).map(inside).collect();
    prefixes.extend((0..40).map(|i| inside(600 + 50 * i)));
    let hop = |i| Hop(1 + i as u32 % 2);
    let mut table = Fixture::new(prefixes.iter().enumerate().map(|(i, &p)| (p, hop(i))));
    prefixes.push(around);
    for hop in [Some(Hop(3)), Some(Hop(4)), None] {
        table.change(around, hop);
        table.agree(&prefixes);
    }
}

/// Cells of its own that have come to one answer still go when the /16 is given it.
#[test]
fn a_16_without_longer_routes_shares_again() {
    let (around, inside) = (Prefix::covering(7 << 112, 16), Prefix::covering(7 << 112 | 5, 48));
    let mut table = Fixture::new([(around, Hop(1)), (inside, Hop(2))]);
    for hop in [3, 4] {
        table.change_all(&[
            Change { prefix: inside, hop: None },
            Change { prefix: around, hop: Some(Hop(1)) },
        ]);
        table.agree(&[around, inside]);
        table.change(inside, Some(Hop(hop)));
        table.agree(&[around, inside]);
    }
}

#[test]
#[cfg_attr(miri, ignore = "many routes")]
fn what_lies_idle_asks_for_a_rebuild() {
    let count = 100_000;
    let inside = |i: u128| Prefix::covering(0x2001 << 112 | i << 80 | 1 << 64, 64);
    let mut rib: Rib<u128> = (0..count).map(|i| (inside(i), Hop(1))).collect();
    let mut writer = build_wide(&rib, &Options::default(), &Domain::new()).unwrap();
    let mut apply = |prefixes: std::ops::Range<u128>, hop: Option<Hop>| {
        let changes: Vec<_> = prefixes.map(|i| Change { prefix: inside(i), hop }).collect();
        changes.iter().for_each(|change| {
            rib.apply(change);
        });
        writer.apply(&rib, &changes)
    };
    assert_eq!(apply(0..1, None), Ok(Applied::InPlace));
    assert_eq!(apply(1..count, None), Ok(Applied::Rebuild));
    // What asks for a new table is in line with the routes all the same.
    let beside = writer.table().lookup(inside(count).first());
    assert_eq!((beside, writer.table().lookup(inside(7).first())), (Hop::NONE, Hop::NONE));
}

/// Address space is what `ulimit -v` and strict overcommit count: 4 GiB for two routes do
/// not get past either.
#[test]
#[cfg(not(miri))]
fn reservations_follow_need() {
    let reserved = |routes: u128| {
        let route = |i: u128| (Prefix::covering(0x2001 << 112 | i << 70, 64), Hop(1 + i as u32));
        let before = crate::pages::address_space();
        let _table = Fixture::new((0..routes).map(route));
        crate::pages::address_space() - before
    };
    assert!(reserved(2) < 8 << 20, "{}", reserved(2));
    assert!(reserved(30_000) < 32 << 20, "{}", reserved(30_000));
}

#[test]
fn reads_lead_to_the_answer() {
    let place = 0x2001 << 112 | 7 << 80;
    let (around, inside) = (Prefix::covering(place, 48), Prefix::covering(place, 64));
    let rib = [(around, Hop(1)), (inside, Hop(2))].into_iter().collect();
    let domain = Domain::new();
    let writer = writer::Rutter6::<Narrow>::build(&rib, Isa::Portable, &domain).unwrap();
    let (table, view) = (&writer.trees.table, writer.trees.table.view());
    let unit = |place: usize| view.units.at((place - address(view.units.at(0))) / 64);
    let beside = 2 << 112 | place;
    for (dst, hop, is_deep) in
        [(around.last(), 1, true), (inside.first(), 2, true), (beside, 0, false)]
    {
        let (reads, root) = (table.reads(dst), view.root_word((dst >> 112) as usize));
        assert_eq!((reads.len(), reads[0]), (if is_deep { 6 } else { 4 }, address(root)));
        let entry = view.entry((dst >> 64) as u64);
        let first = address(view.cells.at(0));
        assert_eq!(view.cells.at((reads[1] - first) / 4).load(Relaxed), entry);
        assert_eq!(reads[2], address(view.unit(entry)));
        let answer =
            |read, level| Narrow::widen(Narrow::search(Portable, unit(read), x_of(dst, level)));
        let mut value = answer(reads[3], 0);
        if is_deep {
            assert_eq!(reads[4], address(view.deep(value)));
            assert_eq!(reads[5], address(view.unit(view.deep(value).load(Relaxed))));
            value = answer(reads[5], 1);
        }
        assert_eq!(value, hop);
    }
}

#[test]
fn a_long_route_like_its_parent_costs_nothing() {
    let (around, inside) = (Prefix::covering(7 << 80, 48), Prefix::covering(7 << 80, 64));
    let mut table = Fixture::new([(around, Hop(1))]);
    table.change(inside, Some(Hop(1)));
    assert_eq!(table.counter("deep_trees"), 0);
    // But it counts when the parent changes.
    table.change(around, Some(Hop(2)));
    table.agree(&[around, inside]);
    assert_eq!(table.counter("deep_trees"), 1);
}

#[test]
#[cfg_attr(miri, ignore = "many routes")]
fn more_deeper_trees_than_15_bits_make_it_wide() {
    let count = (1 << 15) + 1;
    let route = |i: u128| (Prefix::covering(0x2001 << 112 | i << 80 | 1 << 64, 64), Hop(3));
    let table = Fixture::new((0..count).map(route));
    assert_eq!(table.counter("hop_bits"), 32);
    assert_eq!(table.writer.table().lookup(route(count - 1).0.last()), Hop(3));
}

#[test]
fn many_changes_at_once_are_made_in_place() {
    let mut table = Fixture::new([]);
    let place = |i: u128| Prefix::covering(0x2001 << 112 | i << 80, 48);
    let count = if cfg!(miri) { 14 } else { 40 };
    let changes = |hop: Option<Hop>| -> Vec<_> {
        (0..count).map(|i| Change { prefix: place(i), hop }).collect()
    };
    let prefixes: Vec<_> = (0..count).map(place).collect();
    for hop in [Some(Hop(Narrow::MOST)), Some(Hop(1)), None] {
        table.change_all(&changes(hop));
        table.agree(&prefixes);
    }
}

#[test]
fn bytes_are_what_was_taken() {
    // The cells of all /16s without a route, and of those with one: a line each,
    // and a node with a line below it each.
    let bytes = |routes: &[(Prefix<u128>, Hop)]| {
        Fixture::new(routes.iter().copied()).writer.table().bytes()
    };
    let one = (Prefix::covering(1 << 125, if cfg!(miri) { 15 } else { 3 }), Hop(1));
    let two = (Prefix::covering(7 << 80, 64), Hop(2));
    assert_eq!(bytes(&[]), (1 << 18) + 64 + 2 * 64);
    assert_eq!(bytes(&[one]), (1 << 18) + 2 * (64 + 2 * 64));
    // A /16 of its own, and below it a deeper tree: a line.
    assert_eq!(bytes(&[two]), (1 << 18) + 2 * (64 + 2 * 64) + 64 + 4);
}

#[test]
fn a_hop_beyond_15_bits_asks_for_a_rebuild() {
    let mut table = Fixture::new([(Prefix::all(), Hop(1))]);
    assert_eq!(table.counter("hop_bits"), 16);
    let change = Change { prefix: Prefix::all(), hop: Some(Hop(Narrow::MOST + 1)) };
    table.rib.apply(&change);
    assert_eq!(table.writer.apply(&table.rib, &[change]), Ok(Applied::Rebuild));
}
