//! DXR: IPv4 lookup by a direct table of 2^k chunks and a binary search among
//! the address ranges of one chunk.
//!
//! ```text
//!    dst      k bits          32 - k bits (`low`)
//!               ▼                 ▼
//!    root    [ hop | chunk | hop | … ]      2^k entries × 4 B
//!    ranges   n | base hop | base hop | …   n ranges, ascending; the first base is 0
//!
//!    root entry   bits 31..30 = 0: bits 29..0 are the hop, 0 for nothing but /0
//!                 bits 31..30 = 1, 2, 3: bits 29..0 place the chunk, in 8 bytes,
//!                 in the array of short, long or wide ranges
//!    short range  16 bits: base = low >> 8 in bits 15..8, hop in 7..0
//!    long range   32 bits: base = low in bits 31..16, hop in 15..0
//!    wide range   64 bits: base = low in bits 47..32, hop in 31..0
//! ```
//!
//! | operation | cost                                                             |
//! |-----------|------------------------------------------------------------------|
//! | lookup    | 1 read, then the chunk's size and log2(n) ranges where it is one |
//! | build     | one sweep over the routes                                        |
//! | update    | the chunk anew; shorter than /k: an entry a chunk owned; /0: one store |
//! | memory    | 4 × 2^k bytes, then 2, 4 or 8 a range                            |
//!
//! Source: Zec, Rizzo, Mikuc, *DXR: Towards a Billion Routing Lookups per Second
//! in Software*, CCR 2012: D16R is k = 16, D18R is k = 18. We differ: the
//! paper's entry has 19 bits for the place and 12 for the size of a chunk, and
//! hops of 16 bits; today's tables have more ranges and hops, so the size stands
//! before the chunk, the place has 30 bits, and wide ranges hold the hops beyond
//! 65,535. A default route is not merged into the ranges but replaces hop 0. The
//! readers go on while a chunk is rebuilt: the new one is written elsewhere and
//! one store turns the root entry.
//!
//! A burst takes the searches of one format together, step by step and without a
//! branch on a key: searched one by one, each key costs a misprediction.

mod writer;

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use super::{Card, Entry, Lpm};
use crate::Hop;
use crate::hint::prefetch;
use crate::pages::{Pages, Zeroed};

/// The registry's line.
pub const ENTRY: Entry<u32> = Entry { card: &CARD, build: writer::build };

const CARD: Card = Card {
    name: "dxr",
    paper: "Zec, Rizzo, Mikuc: DXR, Towards a Billion Routing Lookups per Second (2012)",
    help: "a direct table and binary search among ranges, small; chunks updated in place",
    max_hop: HOP_MASK,
    max_len: 32,
    max_prefixes: None,
    options: &[("k", "18", "bits of the direct table, 16 to 24: D16R, D18R")],
};

/// What the readers share.
///
/// - I1: a root entry of a format places a chunk of this format that was written
///   before; it is not written again until every thread that was online when
///   the entry went has quiesced.
/// - I2: a chunk has at least two ranges, the first of base 0.
struct Dxr {
    root: Pages<AtomicU32>,
    k: u32,
    short: Ranges<AtomicU16>,
    long: Ranges<AtomicU32>,
    wide: Ranges<AtomicU64>,
    default: AtomicU32,
}

/// The chunks of one format: a count and its ranges, each.
struct Ranges<R: Range> {
    cells: Pages<[R; CELLS]>,
    touched: Arc<AtomicU32>,
}

/// A range as one number, ordered by its base.
trait Range: Zeroed + Sized {
    const HOP_BITS: u32;
    /// Ranges in 8 bytes, in which chunks are placed.
    const PER_UNIT: usize = 8 / size_of::<Self>();

    fn get(&self) -> u64;
    fn set(&self, value: u64);
    /// `low` as a base of this format.
    fn base(low: u32) -> u64;
}

impl Range for AtomicU16 {
    const HOP_BITS: u32 = 8;
    #[inline(always)]
    fn get(&self) -> u64 {
        self.load(Ordering::Relaxed).into()
    }
    fn set(&self, value: u64) {
        self.store(value as u16, Ordering::Relaxed);
    }
    #[inline(always)]
    fn base(low: u32) -> u64 {
        (low >> 8).into()
    }
}

impl Range for AtomicU32 {
    const HOP_BITS: u32 = 16;
    #[inline(always)]
    fn get(&self) -> u64 {
        self.load(Ordering::Relaxed).into()
    }
    fn set(&self, value: u64) {
        self.store(value as u32, Ordering::Relaxed);
    }
    #[inline(always)]
    fn base(low: u32) -> u64 {
        low.into()
    }
}

impl Range for AtomicU64 {
    const HOP_BITS: u32 = 32;
    #[inline(always)]
    fn get(&self) -> u64 {
        self.load(Ordering::Relaxed)
    }
    fn set(&self, value: u64) {
        self.store(value, Ordering::Relaxed);
    }
    #[inline(always)]
    fn base(low: u32) -> u64 {
        low.into()
    }
}

impl<R: Range> Ranges<R> {
    /// The hop of the range that `low` falls into.
    #[inline(always)]
    fn search(&self, place: u32, low: u32) -> u32 {
        let (cells, key) = (self.cells(), key::<R>(low));
        let mut at = first_cell::<R>(place);
        let mut left = cells[at].get() as usize & (CELLS - 1);
        at += 1;
        while left > 1 {
            let half = left / 2;
            let below = cells[(at + half) & (CELLS - 1)].get() <= key;
            at += if below { half } else { 0 };
            left -= half;
        }
        hop_of::<R>(cells[at & (CELLS - 1)].get())
    }

    /// The same for many: `found[i]` is the place of a chunk and gets the hop.
    ///
    /// The keys are sorted by the steps that they need, most first, so that each
    /// step is one loop without a branch on a key, over those that still need it.
    #[inline(always)]
    fn search_all(&self, chosen: &[u8], lows: &[u32; BURST], found: &mut [u32; BURST]) {
        let cells = self.cells();
        let (mut firsts, mut counts) = ([0_u32; BURST], [0_u32; BURST]);
        let mut needing = [0_u16; STEPS + 1]; // keys that need so many steps, then: at least
        for ((&i, first), count) in chosen.iter().zip(&mut firsts).zip(&mut counts) {
            let cell = first_cell::<R>(found[usize::from(i) % BURST]);
            *first = cell as u32;
            *count = (cells[cell].get() as usize & (CELLS - 1)) as u32;
            needing[steps(*count)] += 1;
        }
        for step in (0..STEPS).rev() {
            needing[step] += needing[step + 1];
        }
        let mut ends = needing;
        let mut work = [Search::default(); BURST];
        for ((&i, &first), &left) in chosen.iter().zip(&firsts).zip(&counts) {
            let end = &mut ends[steps(left)];
            *end -= 1;
            let key = key::<R>(lows[usize::from(i) % BURST]);
            work[usize::from(*end) % BURST] = Search { key, at: first + 1, left, who: i.into() };
        }
        for active in needing[1..].iter().map(|&active| usize::from(active)) {
            for search in &mut work[..active] {
                let half = search.left / 2;
                let probe = cells[(search.at + half) as usize & (CELLS - 1)].get();
                search.at += if probe <= search.key { half } else { 0 };
                search.left -= half;
            }
        }
        for search in &work[..chosen.len()] {
            let range = cells[search.at as usize & (CELLS - 1)].get();
            found[search.who as usize % BURST] = hop_of::<R>(range);
        }
    }

    fn write(&self, place: u32, chunk: &[(u32, Hop)], low_mask: u32) {
        let first = first_cell::<R>(place);
        self.cells()[first].set(chunk.len() as u64);
        for (i, &(start, hop)) in chunk.iter().enumerate() {
            let low = if i == 0 { 0 } else { start & low_mask }; // the first may start before
            self.cells()[first + 1 + i].set(R::base(low) << R::HOP_BITS | u64::from(hop.0));
        }
    }

    /// Ranges of the chunk at `place`.
    fn count(&self, place: u32) -> u32 {
        self.cells()[first_cell::<R>(place)].get() as u32
    }

    /// Units of a chunk of `count` ranges.
    fn units(count: u32) -> u32 {
        (count + 1).div_ceil(R::PER_UNIT as u32)
    }

    fn bytes(&self) -> usize {
        self.touched.load(Ordering::Relaxed) as usize * 8
    }

    #[inline(always)]
    fn cells(&self) -> &[R; CELLS] {
        &self.cells[0]
    }
}

/// One key's search: the first range that may be the one, and how many may.
#[derive(Clone, Copy, Default)]
struct Search {
    key: u64,
    at: u32,
    left: u32,
    who: u32,
}

/// Halvings until one of `count` ranges is left.
#[inline(always)]
fn steps(count: u32) -> usize {
    (u32::BITS - count.saturating_sub(1).leading_zeros()) as usize
}

/// The greatest range whose base is at most that of `low`.
#[inline(always)]
fn key<R: Range>(low: u32) -> u64 {
    R::base(low) << R::HOP_BITS | ((1 << R::HOP_BITS) - 1)
}

#[inline(always)]
fn hop_of<R: Range>(range: u64) -> u32 {
    (range & ((1 << R::HOP_BITS) - 1)) as u32
}

/// Masked to the array: whatever an entry says, the read stays inside.
#[inline(always)]
fn first_cell<R: Range>(place: u32) -> usize {
    ((place & HOP_MASK) as usize * R::PER_UNIT) & (CELLS - 1)
}

impl Lpm<u32> for Dxr {
    fn lookup(&self, dst: u32) -> Hop {
        let entry = self.root[self.slot(dst)].load(Ordering::Acquire);
        let hop = match entry >> FORMAT_SHIFT {
            DIRECT => entry,
            SHORT => self.short.search(entry, dst & self.low_mask()),
            LONG => self.long.search(entry, dst & self.low_mask()),
            _ => self.wide.search(entry, dst & self.low_mask()),
        };
        Hop(if hop == 0 { self.default.load(Ordering::Acquire) } else { hop })
    }

    fn lookup_batch(&self, dsts: &[u32], hops: &mut [Hop]) {
        assert_eq!(dsts.len(), hops.len());
        let default = self.default.load(Ordering::Acquire);
        for (dsts, hops) in dsts.chunks(BURST).zip(hops.chunks_mut(BURST)) {
            let mut padded = [0; BURST];
            let dsts: &[u32; BURST] = match dsts.try_into() {
                Ok(whole) => whole,
                Err(_) => {
                    padded[..dsts.len()].copy_from_slice(dsts);
                    &padded
                }
            };
            for (hop, found) in hops.iter_mut().zip(self.burst(dsts)) {
                hop.0 = if found == 0 { default } else { found };
            }
        }
    }

    fn bytes(&self) -> usize {
        let ranges = self.short.bytes() + self.long.bytes() + self.wide.bytes();
        size_of_val(&*self.root) + ranges
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let (mut chunks, mut ranges) = (0, [0; 4]);
        for entry in self.root.iter().map(|entry| entry.load(Ordering::Acquire)) {
            let format = entry >> FORMAT_SHIFT;
            chunks += u64::from(format != DIRECT);
            ranges[format as usize] += u64::from(self.count(entry));
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
    #[inline(always)]
    fn burst(&self, dsts: &[u32; BURST]) -> [u32; BURST] {
        let found = dsts.map(|dst| self.root[self.slot(dst)].load(Ordering::Acquire));
        let mut found = found;
        // A list for each format; every key is written to the end of its own.
        let (mut lists, mut ends) = ([[0_u8; BURST]; 4], [0_usize; 4]);
        for (i, &entry) in found.iter().enumerate() {
            let format = (entry >> FORMAT_SHIFT) as usize;
            lists[format][ends[format] % BURST] = i as u8;
            ends[format] += 1;
        }
        if ends[DIRECT as usize] < BURST {
            self.finish(dsts, &lists, &ends, &mut found);
        }
        found
    }

    #[inline(always)]
    fn finish(
        &self,
        dsts: &[u32; BURST],
        lists: &[[u8; BURST]; 4],
        ends: &[usize; 4],
        found: &mut [u32; BURST],
    ) {
        let list = |format: u32| &lists[format as usize][..ends[format as usize]];
        for &i in list(SHORT) {
            prefetch(&self.short.cells()[first_cell::<AtomicU16>(found[usize::from(i) % BURST])]);
        }
        for &i in list(LONG) {
            prefetch(&self.long.cells()[first_cell::<AtomicU32>(found[usize::from(i) % BURST])]);
        }
        for &i in list(WIDE) {
            prefetch(&self.wide.cells()[first_cell::<AtomicU64>(found[usize::from(i) % BURST])]);
        }
        let lows = dsts.map(|dst| dst & self.low_mask());
        self.short.search_all(list(SHORT), &lows, found);
        self.long.search_all(list(LONG), &lows, found);
        self.wide.search_all(list(WIDE), &lows, found);
    }

    #[inline(always)]
    fn slot(&self, dst: u32) -> usize {
        (dst >> (32 - self.k)) as usize
    }

    /// Ones where a chunk's addresses differ.
    #[inline(always)]
    fn low_mask(&self) -> u32 {
        u32::MAX >> self.k
    }

    /// Ranges of the chunk that `entry` places; 0 where it is a hop.
    fn count(&self, entry: u32) -> u32 {
        match entry >> FORMAT_SHIFT {
            DIRECT => 0,
            SHORT => self.short.count(entry),
            LONG => self.long.count(entry),
            _ => self.wide.count(entry),
        }
    }
}

const DIRECT: u32 = 0;
const SHORT: u32 = 1;
const LONG: u32 = 2;
const WIDE: u32 = 3;

const FORMAT_SHIFT: u32 = 30;

/// The bits of a root entry beside the format: a hop, or a place.
const HOP_MASK: u32 = (1 << FORMAT_SHIFT) - 1;

/// Ranges of each format for which address space is reserved; a power of two.
const CELLS: usize = if cfg!(miri) { 1 << 12 } else { 1 << 26 };

/// Chunks of each format that may wait for readers.
const CHUNKS_IN_LIMBO: usize = 1 << 16;

/// Steps that the largest chunk could need.
const STEPS: usize = CELLS.ilog2() as usize;

const BURST: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lpm::Options;
    use crate::sync::Domain;
    use crate::{Prefix, Rib};

    crate::lpm::oracle::conformance!(u32, ENTRY);
    crate::lpm::oracle::conformance!(d16r: u32, ENTRY, "k" = "16");
    crate::lpm::oracle::conformance!(d20r: u32, ENTRY, "k" = "20");

    fn counters(k: &str, routes: &[(u32, u8, u32)]) -> Vec<u64> {
        let route = |&(first, len, hop)| (Prefix::covering(first, len), Hop(hop));
        let options = Options([("k".to_string(), k.to_string())].into());
        let rib: Rib<u32> = routes.iter().map(route).collect();
        let table = writer::build(&rib, &options, &Domain::new()).unwrap().table();
        table.counters().into_iter().map(|(_, value)| value).collect()
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
    }
}
