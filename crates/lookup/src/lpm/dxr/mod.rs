//! DXR: IPv4 lookup by a direct table of 2^k chunks and a binary search among
//! the address ranges of one chunk.
//!
//! ```text
//!    dst      k bits          32 - k bits (`low`)
//!               ▼                 ▼
//!    root    [ hop | chunk | hop | … ]      2^k entries × 4 B
//!    ranges   base hop | base hop | …       ascending; the first base is 0
//!
//!    root entry   bits 31..30 = 0: bits 29..0 are the hop, 0 for nothing but /0
//!                 bits 31..30 = 1, 2, 3: a chunk of short, long or wide ranges,
//!                 bits 29..24 its size, bits 23..0 its place in units of 8 bytes
//!    size         e in bits 29..26, m in 25..24: (4 + m) × 2^e / 2 ranges
//!    short range  16 bits: base = low >> 8 in bits 15..8, hop in 7..0
//!    long range   32 bits: base = low in bits 31..16, hop in 15..0
//!    wide range   64 bits: base = low in bits 63..32, hop in 31..0
//! ```
//!
//! | operation | cost                                                             |
//! |-----------|------------------------------------------------------------------|
//! | lookup    | 1 read, then log2(n) ranges where it is a chunk of n             |
//! | build     | one sweep over the routes                                        |
//! | update    | the chunk anew; shorter than /k: an entry a chunk owned; /0: one store |
//! | memory    | 4 × 2^k bytes, then 2, 4 or 8 a range and an eighth more         |
//!
//! Source: Zec, Rizzo, Mikuc, *DXR: Towards a Billion Routing Lookups per Second
//! in Software*, CCR 2012: D16R is k = 16, D18R is k = 18. We differ: the
//! paper's entry has 19 bits for the place and 12 for the size of a chunk, and
//! hops of 16 bits; today's tables have more ranges and hops, so the place has
//! 24 bits, a size is one of 64, and wide ranges hold the hops beyond 65,535. A
//! chunk is filled up to its size with its last range, which changes no answer.
//! A default route is not merged into the ranges but replaces hop 0. The readers
//! go on while a chunk is rebuilt: the new one is written elsewhere and one
//! store turns the root entry.
//!
//! A burst takes its searches together, step by step and without a branch on a
//! key: searched one by one, each key costs a misprediction or two. Nothing but
//! the root entry says how a chunk is searched, so that the formats mix freely
//! in a step, and eight keys make one with AVX2, sixteen with AVX-512. These list
//! the keys that have a chunk first, so that all lanes of a step have work. What that
//! gained, and what was tried and lost: `docs/lab/TRIED.md`.

mod batch;
mod search;
#[cfg(target_arch = "x86_64")]
mod vectors;
mod writer;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::isa::{self, Isa};
#[cfg(target_arch = "x86_64")]
use super::lanes;
use super::{Card, Entry, Lpm};
use crate::Hop;
use crate::hint::prefetch;
use crate::lpm::default_hop::DefaultHop;
use crate::pages::Pages;
use search::{DIRECT, LONG, SHORT, Search, WIDE, cells_of, format_of, place_of};

/// The registry's line.
pub const ENTRY: Entry<u32> = Entry { card: &CARD, build: writer::build };

const CARD: Card = Card {
    name: "dxr",
    paper: "Zec, Rizzo, Mikuc: DXR, Towards a Billion Routing Lookups per Second (2012)",
    help: "a direct table, then binary search among ranges; small; updates chunks in place",
    max_hop: search::MAX_HOP,
    max_len: 32,
    max_prefixes: None,
    options: &[
        ("k", "18", "bits of the direct table, 16 to 24; 16 and 18 are the paper's D16R and D18R"),
        isa::OPTION,
    ],
};

/// What the readers share.
///
/// - I1: a root entry of a format places a chunk of this format and size that was
///   written before; it is not written again until every thread that was online
///   when the entry went has quiesced.
/// - I2: a chunk has at least two ranges, the first of base 0.
/// - I3: whatever a reader sees that does not quiesce as it should, every place
///   that is made from it lies inside the arrays: all are masked.
struct Dxr {
    root: Pages<[AtomicU32; ROOTS]>,
    ranges: Pages<[AtomicU64; UNITS + SPARE]>,
    k: u32,
    isa: Isa,
    default: DefaultHop,
    /// Units of `ranges` that were ever used.
    touched: Arc<AtomicU32>,
}

/// A table's arrays. Read through the table, each would cost a load a key.
#[derive(Clone, Copy)]
struct View<'t> {
    root: &'t [AtomicU32; ROOTS],
    ranges: &'t [AtomicU64; UNITS + SPARE],
    k: u32,
}

impl Dxr {
    /// The arrays, to be taken once a batch.
    #[inline(always)]
    fn view(&self) -> View<'_> {
        View { root: &self.root[0], ranges: &self.ranges[0], k: self.k }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
    fn batch_avx2(&self, dsts: &[u32], hops: &mut [Hop]) {
        // SAFETY: it is enabled here.
        vectors::batch(unsafe { lanes::Avx2::new() }, self, dsts, hops);
    }

    #[cfg(avx512)]
    #[allow(clippy::incompatible_msrv)] // `avx512` is set for compilers that have it
    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt,avx512f,avx512bw,avx512dq,avx512vl")]
    fn batch_avx512(&self, dsts: &[u32], hops: &mut [Hop]) {
        // SAFETY: it is enabled here.
        vectors::batch(unsafe { lanes::Avx512::new() }, self, dsts, hops);
    }
}

impl View<'_> {
    #[inline(always)]
    fn entry(self, dst: u32) -> u32 {
        self.root[self.slot(dst)].load(Ordering::Acquire)
    }

    #[inline(always)]
    fn slot(self, dst: u32) -> usize {
        (dst >> (u32::BITS - self.k)) as usize % ROOTS
    }

    /// Ones where a chunk's addresses differ.
    #[inline(always)]
    fn low_mask(self) -> u32 {
        u32::MAX >> self.k
    }

    #[inline(always)]
    fn prefetch(self, at: u32) {
        prefetch(&self.ranges[at as usize / 8 % UNITS]);
    }

    /// The four bytes from byte `at` on.
    #[inline(always)]
    fn word(self, at: u32) -> u32 {
        const { assert!(8 * UNITS <= u32::MAX as usize + 1 && (8 * UNITS).is_power_of_two()) };
        let place = self.ranges.as_ptr().cast::<u8>().wrapping_add(at as usize % (8 * UNITS));
        // SAFETY: they lie inside the array and its spare end (I3); nobody writes
        // them meanwhile (I1), and where a reader is not to be relied on (I3), this
        // is one load like another.
        u32::from_le(unsafe { place.cast::<u32>().read_unaligned() })
    }
}

impl Lpm<u32> for Dxr {
    fn lookup(&self, dst: u32) -> Hop {
        let view = self.view();
        let mut hop = view.entry(dst);
        if format_of(hop) != DIRECT {
            let mut search = Search::new(hop, dst & view.low_mask());
            while search.left > 1 {
                search.step(view);
            }
            hop = search.hop(view);
        }
        self.default.or(hop)
    }

    fn lookup_batch(&self, dsts: &[u32], hops: &mut [Hop]) {
        assert_eq!(dsts.len(), hops.len());
        match self.isa {
            Isa::Portable => self.view().batch(self.default.get(), dsts, hops),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `Isa::choose` gives this value only where there is AVX2.
            Isa::Avx2 => unsafe { self.batch_avx2(dsts, hops) },
            #[cfg(avx512)]
            // SAFETY: as above, AVX-512.
            Isa::Avx512 => unsafe { self.batch_avx512(dsts, hops) },
        }
    }

    fn isa(&self) -> &'static str {
        self.isa.name()
    }

    fn bytes(&self) -> usize {
        (4 << self.k) + 8 * self.touched.load(Ordering::Relaxed) as usize
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let (mut chunks, mut ranges) = (0, [0; 4]);
        for entry in self.root[0][..1 << self.k].iter().map(|entry| entry.load(Ordering::Acquire)) {
            let format = format_of(entry);
            chunks += u64::from(format != DIRECT);
            ranges[format as usize] += if format == DIRECT { 0 } else { self.count(entry) };
        }
        vec![
            ("chunks", chunks),
            ("short_ranges", ranges[SHORT as usize]),
            ("long_ranges", ranges[LONG as usize]),
            ("wide_ranges", ranges[WIDE as usize]),
        ]
    }
}

impl Dxr {
    /// Ranges of the chunk that `entry` places, without what fills it up.
    fn count(&self, entry: u32) -> u64 {
        let (format, view) = (format_of(entry), self.view());
        let base = |i: u32| {
            // The word that holds the base: the upper one of a wide range.
            let word =
                view.word((place_of(entry) << 3) + (i << format) + (format == WIDE) as u32 * 4);
            search::base_of(format, word)
        };
        1 + (1..cells_of(entry)).filter(|&i| base(i) != base(i - 1)).count() as u64
    }
}

/// Root entries for which address space is reserved: for k = 24.
const ROOTS: usize = 1 << 24;

/// Units of 8 bytes for which address space is reserved: what a place can name.
const UNITS: usize = if cfg!(miri) { 1 << 12 } else { 1 << 24 };

/// Units behind them that a read of four bytes may reach.
const SPARE: usize = 1;

/// Chunks that may wait for readers.
const CHUNKS_IN_LIMBO: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lpm::{Applied, Options};
    use crate::rib::Change;
    use crate::sync::Domain;
    use crate::{Prefix, Rib};

    crate::lpm::oracle::conformance!(u32, ENTRY);
    crate::lpm::oracle::conformance!(portable: u32, ENTRY, "isa" = "portable");
    crate::lpm::oracle::conformance!(d16r: u32, ENTRY, "k" = "16");
    crate::lpm::oracle::conformance!(d20r: u32, ENTRY, "k" = "20", "isa" = "portable");

    #[test]
    fn avx2_passes_where_the_processor_has_it() {
        crate::lpm::oracle::passes_with_isa(ENTRY, "avx2");
    }

    fn table(k: &str, routes: &[(u32, u8, u32)]) -> Arc<dyn Lpm<u32>> {
        let route = |&(first, len, hop)| (Prefix::covering(first, len), Hop(hop));
        let options = Options([("k".to_string(), k.to_string())].into());
        let rib: Rib<u32> = routes.iter().map(route).collect();
        writer::build(&rib, &options, &Domain::new()).unwrap().table()
    }

    fn counters(k: &str, routes: &[(u32, u8, u32)]) -> Vec<u64> {
        table(k, routes).counters().into_iter().map(|(_, value)| value).collect()
    }

    #[test]
    fn bytes_are_the_root_and_what_was_taken() {
        assert_eq!(table("16", &[]).bytes(), 4 << 16);
        // Three ranges of two bytes, in a unit of eight; then of eight bytes.
        assert_eq!(table("18", &[(0x0a00_0100, 24, 255)]).bytes(), (4 << 18) + 8);
        assert_eq!(table("18", &[(0x0a00_0100, 24, 65_536)]).bytes(), (4 << 18) + 3 * 8);
    }

    #[test]
    fn changes_are_made_in_place() {
        let (mut rib, domain) = (Rib::new(), Domain::new());
        let mut writer = writer::build(&rib, &Options::default(), &domain).unwrap();
        for (len, hop) in [(32, Some(Hop(1))), (8, Some(Hop(2))), (32, None), (0, Some(Hop(3)))] {
            let change = Change { prefix: Prefix::covering(0x0a00_0001, len), hop };
            rib.apply(&change);
            assert_eq!(writer.apply(&rib, &[change]), Ok(Applied::InPlace));
            let table = writer.table();
            let owner = rib.lookup(0x0a00_0001);
            assert_eq!(table.lookup(0x0a00_0001), owner.map_or(Hop::NONE, |(_, hop)| hop));
        }
    }

    #[test]
    fn the_papers_example_merges_into_one_chunk_of_five_ranges() {
        // Section 3.1, without its default route: 1.2.0.0/16 holds C, D, C and,
        // merged into it, a /32 of C.
        let routes =
            [(0x0100_0000, 8, 1), (0x0102_0000, 16, 2), (0x0102_0300, 24, 3), (0x0102_0405, 32, 2)];
        assert_eq!(counters("16", &routes), [1, 3, 0, 0]);
    }

    #[test]
    fn the_format_is_the_smallest_that_holds_the_chunk() {
        assert_eq!(counters("18", &[(0x0a00_0100, 24, 255)]), [1, 3, 0, 0]);
        assert_eq!(counters("18", &[(0x0a00_0100, 24, 256)]), [1, 0, 3, 0]);
        assert_eq!(counters("18", &[(0x0a00_0100, 25, 1)]), [1, 0, 3, 0]);
        assert_eq!(counters("18", &[(0x0a00_0100, 24, 65_536)]), [1, 0, 0, 3]);
        // Two chunks: the second one's place is not 0.
        let two = [(0x0a00_0100, 24, 1), (0x0a01_0100, 24, 1), (0x0a01_0300, 24, 2)];
        assert_eq!(counters("18", &two), [2, 3 + 5, 0, 0]);
    }
}
