//! SAIL_L: IPv4 lookup pushed to two levels, 16 and 24, and /32 beyond: two reads
//! on chip, two off chip at most.
//!
//! ```text
//!    dst = 10.1.2.200      10 . 1            2              200
//!                            ▼               ▼               ▼
//!    BCN16  [ hop | chunk c | … ]   c: [ hop; 256 | chunk d ]   d: [ hop; 256 ]
//!           2^16 × 4 B = 256 KB        BN24, C24: 512 B a chunk    N32: 512 B
//!
//!    BCN16 entry   bit 31 = 0: a hop, 0 for nothing but /0; 1: a chunk of level 24
//!    cell          bit 15 = 0: a hop; 1: a chunk of level 32 (1 KB a chunk and
//!                  bit 31 where 15 bits do not hold every hop and number)
//!    default       the hop of /0; replaces zeros at the end of a burst
//! ```
//!
//! | operation | cost                                                             |
//! |-----------|------------------------------------------------------------------|
//! | lookup    | 1 read, then 1 where the /16 holds longer, then 1 where the /24 does |
//! | build     | one write per cell that a route covers, nested ones again        |
//! | update    | the cells that the prefix owns at its level, chunks below: not   |
//! |           | bounded; 1.8 to 2.3 words of 64 bits on average in the thesis, more |
//! |           | where a chunk is opened (64 words); /0: one store                |
//! | memory    | 256 KB, and 512 B (1 KB) a /16 or /24 that holds longer routes   |
//!
//! Source: thesis, section 3.4.2. We differ: the paper's chunk numbers have 15
//! bits at /16, which today's tables exceed; ours 31, so the bound of table 3.2 for
//! memory on chip, 2.13 MiB, is 2.25 MiB. As the paper does on processors, B and N
//! are one array; C too, so that a /24 with longer routes costs one read less. The
//! paper's mark is 0, ours a bit: 0 is "nothing but /0", and a default route is not
//! painted. The cells' width is chosen at build, and the first level by an option: of
//! 8, 16 as in the paper (the picture), or 24 bits, for one read more or less where
//! routes are long; chunks are of 256 cells below each.
//!
//! The open problem of section 5.2.1, a bounded update with this lookup, is not
//! solved here but by `sail-b`: the domino effect comes with pushing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32};

use super::levels::Cell;
use super::push::Pusher;
use crate::lpm::{Card, Entry, Options, Refusal, Writer};
use crate::sync::Domain;
use crate::{Hop, Rib};

/// The registry's line.
pub const ENTRY: Entry<u32> = Entry { card: &CARD, build };

const CARD: Card = Card {
    name: "sail-l",
    paper: "Fu: High-Performance Software Packet Processing (2020), section 3.4.2",
    help: "prefixes are pushed to /16, /24 and /32; one to three reads; updates in place",
    max_hop: Hop::MAX.0,
    max_len: 32,
    max_prefixes: None,
    options: &[
        ("root", "16", "prefix length of the first level: 8, 16 or 24"),
        ("cells", "auto", "bits of a cell: 16, 32 or auto (by the largest hop)"),
    ],
};

fn build(
    rib: &Rib<u32>,
    options: &Options,
    domain: &Arc<Domain>,
) -> Result<Box<dyn Writer<u32>>, Refusal> {
    options.check(&CARD)?;
    match options.get(&CARD, "root", |root: &u8| [8, 16, 24].contains(root))? {
        8 => build_from::<8>(rib, options, domain),
        16 => build_from::<16>(rib, options, domain),
        _ => build_from::<24>(rib, options, domain),
    }
}

fn build_from<const ROOT: u8>(
    rib: &Rib<u32>,
    options: &Options,
    domain: &Arc<Domain>,
) -> Result<Box<dyn Writer<u32>>, Refusal> {
    let known = |cells: &String| ["auto", "16", "32"].contains(&cells.as_str());
    let cells = options.get(&CARD, "cells", known)?;
    let largest = rib.iter().map(|(_, hop)| hop).max().unwrap_or(Hop::NONE);
    CARD.admit_hop(largest)?;
    if cells != "32" {
        if largest.0 <= AtomicU16::MOST {
            match Pusher::<u32, AtomicU16, ROOT>::build(&CARD, rib, domain) {
                Ok(writer) => return Ok(Box::new(writer)),
                Err(refusal) if cells == "16" => return Err(refusal),
                Err(_) => {} // too many chunks for 15 bits
            }
        } else if cells == "16" {
            return Err(CARD.refuse(format!("hop {} exceeds {}", largest.0, AtomicU16::MOST)));
        }
    }
    Ok(Box::new(Pusher::<u32, AtomicU32, ROOT>::build(&CARD, rib, domain)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Prefix;
    use crate::lpm::Applied;
    use crate::rib::Change;

    crate::lpm::oracle::conformance!(u32, ENTRY);
    crate::lpm::oracle::conformance!(wide: u32, ENTRY, "cells" = "32");
    crate::lpm::oracle::conformance!(root_8: u32, ENTRY, "root" = "8");
    crate::lpm::oracle::conformance!(root_24: u32, ENTRY, "root" = "24");

    fn counter(writer: &dyn Writer<u32>, name: &str) -> u64 {
        let counters = writer.table().counters();
        counters.iter().find(|(known, _)| *known == name).expect("it counts that").1
    }

    #[test]
    fn cells_widen_with_the_hops_and_with_the_chunks() {
        let narrow = [(Prefix::covering(0x0a01_0203, 32), Hop(0x7fff))].into_iter().collect();
        let wide = [(Prefix::covering(0x0a01_0203, 32), Hop(0x8000))].into_iter().collect();
        let cell_bytes = |rib: &Rib<u32>| {
            let built = build(rib, &Options::default(), &Domain::new()).unwrap();
            counter(&*built, "cell_bytes")
        };
        assert_eq!((cell_bytes(&narrow), cell_bytes(&wide)), (2, 4));
    }

    #[test]
    fn a_hop_beyond_the_cells_asks_for_a_rebuild() {
        for (hop, applied) in
            [(0x7fff, Applied::InPlace), (0x8000, Applied::Rebuild), (0x8001, Applied::Rebuild)]
        {
            let mut rib = Rib::new();
            let mut writer = build(&rib, &Options::default(), &Domain::new()).unwrap();
            let change = Change { prefix: Prefix::covering(0x0a01_0203, 32), hop: Some(Hop(hop)) };
            rib.apply(&change);
            assert_eq!(writer.apply(&rib, &[change]), Ok(applied), "{hop:#x}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "many routes")]
    fn more_chunks_than_15_bits_hold() {
        let mut rib: Rib<u32> =
            (0..1 << 15).map(|i| (Prefix::covering(i << 8, 25), Hop(1))).collect();
        let domain = Domain::new();
        let mut writer = build(&rib, &Options::default(), &domain).unwrap();
        assert_eq!(counter(&*writer, "cell_bytes"), 2);
        let change = Change { prefix: Prefix::covering(1 << 30, 32), hop: Some(Hop(2)) };
        rib.apply(&change);
        assert_eq!(writer.apply(&rib, &[change]), Ok(Applied::Rebuild));
        let narrow = Options([("cells".to_string(), "16".to_string())].into());
        assert!(build(&rib, &narrow, &domain).is_err());
        let writer = build(&rib, &Options::default(), &domain).unwrap();
        assert_eq!(counter(&*writer, "cell_bytes"), 4);
        assert_eq!(writer.table().lookup(1 << 30), Hop(2));
    }

    #[test]
    fn accesses_of_an_update_are_counted_in_words() {
        let mut rib: Rib<u32> = Rib::new();
        let mut writer = build(&rib, &Options::default(), &Domain::new()).unwrap();
        for (prefix, words) in [
            (Prefix::covering(0x0a00_0000, 8), (128, 0)), // 256 entries of 4 bytes
            (Prefix::covering(0x0b00_0000, 16), (1, 0)),
            (Prefix::covering(0x0c00_0000, 24), (1, 64 + 1)), // a chunk, a cell
            (Prefix::covering(0x0c00_1000, 20), (0, 4)),      // 16 cells of 2 bytes
        ] {
            let before = ["update_on_chip_words", "update_off_chip_words"]
                .map(|name| counter(&*writer, name));
            let change = Change { prefix, hop: Some(Hop(7)) };
            rib.apply(&change);
            writer.apply(&rib, &[change]).unwrap();
            let after = ["update_on_chip_words", "update_off_chip_words"]
                .map(|name| counter(&*writer, name));
            assert_eq!((after[0] - before[0], after[1] - before[1]), words, "{prefix}");
        }
        assert_eq!(counter(&*writer, "chunks_24"), 1);
        // The root, and a bit for each cell of the chunk.
        assert_eq!(counter(&*writer, "on_chip_bytes"), (1 << 18) + 256 / 8);
        assert_eq!(counter(&*writer, "chunks_deeper"), 0);
        assert_eq!(writer.table().bytes(), (4 << 16) + 256 * 2);
        let change = Change { prefix: Prefix::covering(0x0d00_0000, 24), hop: Some(Hop(7)) };
        rib.apply(&change);
        writer.apply(&rib, &[change]).unwrap();
        assert_eq!(counter(&*writer, "on_chip_bytes"), (1 << 18) + 2 * 256 / 8);
    }
}
