use super::table::OWN;
use super::*;
use crate::Prefix;
use crate::lpm::oracle::{conformance, passes_with_isa};
use crate::lpm::{Applied, Intervals};
use crate::rib::Change;

conformance!(u32, ENTRY);
conformance!(portable: u32, ENTRY, "isa" = "portable");
conformance!(wide: u32, WIDE);
conformance!(wide_portable: u32, WIDE, "isa" = "portable");

const WIDE: Entry<u32> = Entry { card: &CARD, build: build_wide };

#[test]
fn avx2_passes_where_the_processor_has_it() {
    passes_with_isa(ENTRY, "avx2");
    passes_with_isa(WIDE, "avx2");
}

/// The same with hops that need 32 bits.
fn build_wide(
    rib: &Rib<u32>,
    options: &Options,
    domain: &Arc<Domain>,
) -> Result<Box<dyn crate::lpm::Writer<u32>>, Refusal> {
    rib.iter().try_for_each(|(_, hop)| CARD.admit_hop(hop))?;
    Ok(Box::new(writer::Rutter4::<Wide>::build(rib, Isa::choose(&CARD, options)?, domain)?))
}

fn built(routes: &[(u32, u8, u32)]) -> (Rib<u32>, Box<dyn crate::lpm::Writer<u32>>) {
    let route = |&(first, len, hop): &(u32, u8, u32)| (Prefix::covering(first, len), Hop(hop));
    let rib: Rib<u32> = routes.iter().map(route).collect();
    let writer = build(&rib, &Options::default(), &Domain::new()).expect("within the limits");
    (rib, writer)
}

/// Records of up to eight cells, and lines of others.
fn taken(writer: &dyn crate::lpm::Writer<u32>) -> (u64, u64) {
    let counters = writer.table().counters();
    let counter = |wanted| counters.iter().find(|(name, _)| *name == wanted).expect("is there").1;
    (counter("small"), counter("lines"))
}

#[test]
fn a_record_is_as_fine_as_its_borders() {
    // A /18 of one hop is a root.
    assert_eq!(taken(&*built(&[(0x0a00_0000, 8, 1)]).1), (0, 0));
    // Two halves, and eight parts.
    assert_eq!(taken(&*built(&[(0x0a00_0000, 19, 1)]).1), (1, 0));
    assert_eq!(taken(&*built(&[(0x0a00_0800, 21, 1)]).1), (1, 0));
    // 16, 32 and 64.
    assert_eq!(taken(&*built(&[(0x0a00_0400, 22, 1)]).1), (0, 1));
    assert_eq!(taken(&*built(&[(0x0a00_0200, 23, 1)]).1), (0, 1));
    assert_eq!(taken(&*built(&[(0x0a00_0100, 24, 1)]).1), (0, 2));
    // A deep record has lines of its own.
    assert_eq!(taken(&*built(&[(0x0a00_0100, 32, 1)]).1), (0, 3));
    assert_eq!(taken(&*built(&[(0x0a00_3fff, 32, 1)]).1), (0, 3));
}

#[test]
fn a_hop_without_a_cell_of_its_own_takes_a_record() {
    let (_, writer) = built(&[(0x0a00_0000, 17, OWN - 1)]);
    assert_eq!(taken(&*writer), (0, 0));
    let (_, writer) = built(&[(0x0a00_0000, 17, OWN)]);
    assert_eq!((taken(&*writer), writer.table().lookup(0x0a00_7fff)), ((2, 0), Hop(OWN)));
}

#[test]
fn sixteen_blocks_full_of_deep_records() {
    // Each address has another answer than the one before.
    let count = if cfg!(miri) { 1 << 8 } else { 1 << 18 };
    let routes: Vec<_> = (0..count).map(|i| (0x0a00_0000 + 2 * i, 32, 1 + i % 30_000)).collect();
    let (_, writer) = built(&routes);
    let table = writer.table();
    for &(dst, _, hop) in routes.iter().step_by(7) {
        assert_eq!((table.lookup(dst), table.lookup(dst + 1)), (Hop(hop), Hop::NONE));
    }
}

#[test]
fn bytes_are_the_roots_and_what_was_taken() {
    let bytes = |routes: &[(u32, u8, u32)]| built(routes).1.table().bytes();
    let empty = 4 * (1 << 18) + 2 * OWN as usize;
    assert_eq!(bytes(&[(0x0a00_0000, 8, 1)]), empty);
    assert_eq!(bytes(&[(0x0a00_0800, 21, 1)]), empty + 16);
    assert_eq!(bytes(&[(0x0a00_0800, 21, 1), (0x0b00_0100, 24, 1)]), empty + 16 + 128);
}

/// Makes the changes all at once; the table takes them as it is.
fn change(
    rib: &mut Rib<u32>,
    writer: &mut dyn crate::lpm::Writer<u32>,
    routes: &[(u32, u8, Option<u32>)],
) {
    let change = |&(first, len, hop): &(u32, u8, Option<u32>)| Change {
        prefix: Prefix::covering(first, len),
        hop: hop.map(Hop),
    };
    let changes: Vec<_> = routes.iter().map(change).collect();
    changes.iter().for_each(|change| {
        rib.apply(change);
    });
    assert_eq!(writer.apply(rib, &changes), Ok(Applied::InPlace), "{changes:x?}");
    let (table, flat) = (writer.table(), Intervals::new(rib.iter()));
    for dst in (0x0a00_0000..0x0a01_0000).step_by(if cfg!(miri) { 63 * 64 } else { 64 }) {
        assert_eq!(table.lookup(dst), flat.lookup(dst), "{dst:x} after {changes:x?}");
    }
}

#[test]
fn changes_are_made_in_place_alone_and_many_at_once() {
    let (mut rib, mut writer) = built(&[(0x0a00_0000, 8, 1)]);
    let mut change = |routes: &[_]| change(&mut rib, &mut *writer, routes);
    change(&[(0, 0, Some(9))]);
    change(&[(0x0a00_0000, 18, Some(Narrow::MOST))]);
    let few: Vec<_> = (0..3).map(|i| (0x0a00_0000 + (i << 8), 24, Some(2 + i))).collect();
    let many: Vec<_> = (0..if cfg!(miri) { 6 } else { 30 })
        .map(|i| (0x0a00_4000 + (i << 10), 25, Some(2 + i)))
        .collect();
    // More than are made one by one, in four records.
    let scattered: Vec<_> = (0..8).map(|i| (0x0a00_0000 + (i << 13), 24, Some(2 + i))).collect();
    for routes in [few, many, scattered] {
        change(&routes);
        change(&routes.iter().map(|&(first, len, _)| (first, len, None)).collect::<Vec<_>>());
    }
    change(&[(0x0a00_0000, 18, None), (0, 0, None), (0x0a00_8000, 32, Some(3))]);
    // Several in the first of the records that one of them covers.
    let mut covered: Vec<_> = (0..6).map(|i| (0x0a00_0000 + (i << 8), 24, Some(2 + i))).collect();
    covered.push((0x0a00_0000, 8, Some(8)));
    change(&covered);
}

#[test]
fn an_update_leaves_a_record_as_fine_as_its_borders() {
    let (mut rib, mut writer) = built(&[(0x0a00_0000, 19, 1)]);
    change(&mut rib, &mut *writer, &[(0x0a00_0000, 19, Some(2))]);
    change(&mut rib, &mut *writer, &[(0x0a00_2000, 19, Some(2))]);
    change(&mut rib, &mut *writer, &[(0x0a00_2000, 19, Some(1))]);
    assert_eq!(taken(&*writer), (2, 0));
    // From a record of 64 to none, and back.
    for hop in [Some(3), None, Some(3)] {
        change(&mut rib, &mut *writer, &[(0x0a00_0100, 24, hop)]);
    }
    assert!(taken(&*writer).1 <= 4, "{:?}", taken(&*writer));
}

#[test]
fn records_that_go_are_used_again() {
    let stay = [(0x0a00_0100, 24, 1), (0x0a00_4800, 21, 1), (0x0a00_8100, 32, 1)];
    let (mut rib, mut writer) = built(&stay);
    for round in 0..if cfg!(miri) { 4 } else { 300 } {
        let hop = (round % 2 == 0).then_some(2);
        // A record of 64 cells, one of eight, and one with a deep record of many values.
        change(&mut rib, &mut *writer, &[(0x0a00_c100, 24, hop)]);
        change(&mut rib, &mut *writer, &[(0x0a01_0800, 21, hop)]);
        let deep: Vec<_> = (0..if cfg!(miri) { 10 } else { 100 })
            .map(|i| (0x0a01_4100 + 2 * i, 32, hop))
            .collect();
        change(&mut rib, &mut *writer, &deep);
    }
    // Some wait for the grace period.
    let (small, lines) = taken(&*writer);
    assert!(small < 100 && lines < 600, "{small} {lines}");
}

#[test]
fn two_deep_records_behind_one_record() {
    let (mut rib, mut writer) = built(&[(0x0a00_0000, 32, 1), (0x0a00_0200, 32, 2)]);
    assert_eq!(taken(&*writer), (0, 4));
    change(&mut rib, &mut *writer, &[(0x0a00_0400, 25, Some(3)), (0x0a00_0600, 25, Some(3))]);
    change(&mut rib, &mut *writer, &[(0x0a00_0200, 32, None)]);
}

/// The middle of a /18 between its ends; then from the middle of one to that of another.
#[test]
fn what_lies_between_two_prefixes_is_filled() {
    let within = [(0x0a00_0000, 20, 2), (0x0a00_3000, 20, 3), (0x0a00_7000, 20, 4)];
    let across = [(0x0a00_0000, 20, 2), (0x0a00_5000, 20, 3)];
    // The second record is made anew while the first is still to be written.
    let anew = [(0x0a00_0000, 20, 2), (0x0a00_4001, 32, 3)];
    for ends in [&within[..], &across, &anew] {
        let (mut rib, mut writer) = built(ends);
        for hop in [Some(5), Some(6), None] {
            change(&mut rib, &mut *writer, &[(0x0a00_0000, 18, hop)]);
            change(&mut rib, &mut *writer, &[(0x0a00_0000, 17, hop)]);
        }
    }
}

#[test]
fn a_hop_beyond_15_bits_asks_for_a_rebuild() {
    let (mut rib, mut writer) = built(&[(0, 0, 1)]);
    let change = Change { prefix: Prefix::all(), hop: Some(Hop(Narrow::MOST + 1)) };
    rib.apply(&change);
    assert_eq!(writer.apply(&rib, &[change]), Ok(Applied::Rebuild));
}

/// 24,576 records of 64 cells are three quarters of the least array.
#[test]
#[cfg(not(miri))] // many routes
fn a_table_that_outgrows_its_arrays_is_built_anew() {
    let route = |i: u32| (Prefix::covering(i << 14, 24), Hop(1 + i % 1000));
    let routes: Vec<_> = (0..27_000).map(route).collect();
    let suite = crate::lpm::oracle::Suite::new(ENTRY, &[]);
    assert_eq!(suite.builds_of_growth(&routes), 1);
}
