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

fn lines(writer: &dyn crate::lpm::Writer<u32>) -> u64 {
    writer.table().counters().into_iter().find(|(name, _)| *name == "lines").expect("it is there").1
}

#[test]
fn a_record_takes_what_its_changes_do() {
    // The zeros; a block of one line of entries.
    assert_eq!(lines(&*built(&[(0x0a00_0000, 18, 1)]).1), 2);
    // And one record: two changes, three values.
    assert_eq!(lines(&*built(&[(0x0a00_0100, 24, 1)]).1), 3);
    // Two of them on one line.
    assert_eq!(lines(&*built(&[(0x0a00_0100, 24, 1), (0x0a00_4100, 24, 2)]).1), 3);
    // A deep record has a line of its own.
    assert_eq!(lines(&*built(&[(0x0a00_0100, 32, 1)]).1), 4);
}

#[test]
fn blocks_of_one_answer_are_one() {
    assert_eq!(lines(&*built(&[(0x0a00_0000, 8, 1), (0x0c00_0000, 8, 1)]).1), 2);
    let (mut rib, mut writer) = built(&[(0x0a00_0000, 8, 1)]);
    for hop in 2..1000 {
        let change = Change { prefix: Prefix::covering(0x0a00_0000, 8), hop: Some(Hop(hop)) };
        rib.apply(&change);
        assert_eq!(writer.apply(&rib, &[change]), Ok(Applied::InPlace));
        assert_eq!(writer.table().lookup(0x0aff_ffff), Hop(hop));
    }
    assert!(lines(&*writer) < 200, "{}", lines(&*writer));
}

#[test]
fn a_block_full_of_deep_records() {
    // Each address of a /13 has another answer than the one before.
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
