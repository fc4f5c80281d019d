use super::table::OWN;
use super::*;
use crate::Prefix;
use crate::lpm::Applied;
use crate::lpm::oracle::{conformance, passes_with_isa};
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
    let count = if cfg!(miri) { 1 << 10 } else { 1 << 18 };
    let routes: Vec<_> = (0..count).map(|i| (0x0a00_0000 + 2 * i, 32, 1 + i % 30_000)).collect();
    let (_, writer) = built(&routes);
    let table = writer.table();
    for &(dst, _, hop) in routes.iter().step_by(7) {
        assert_eq!((table.lookup(dst), table.lookup(dst + 1)), (Hop(hop), Hop::NONE));
    }
}

#[test]
fn a_hop_beyond_15_bits_asks_for_a_rebuild() {
    let (mut rib, mut writer) = built(&[(0, 0, 1)]);
    let change = Change { prefix: Prefix::all(), hop: Some(Hop(Narrow::MOST + 1)) };
    rib.apply(&change);
    assert_eq!(writer.apply(&rib, &[change]), Ok(Applied::Rebuild));
}
