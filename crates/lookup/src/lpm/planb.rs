//! PlanB: IPv6 lookup as a search for the elementary interval, in a B⁺-tree laid
//! out level after level.
//!
//! ```text
//!    nodes    level 0 [n]   level 1 [n n n n n n n n n]   …   leaves [n n n n …]
//!             node = 8 × 8 B, one cache line: (start of an interval) - 1, ascending
//!             from node i, with r of its keys below x:  to node 9 i + r one level down
//!    hops     [h h h h h h h h h …]     at leaf i, with r keys below x:  hops[8 i + r]
//!
//!    x        bits 0..64 of the address; keys and x have their top bit turned, for
//!             AVX2 compares signed numbers only
//!    hop      bit 31 = 0: bits 30..0 are the hop, 0 for nothing but /0
//!             bit 31 = 1: bits 30..0 are the number of a block, for a /64 with
//!                         borders inside: its low halves, searched by halving
//! ```
//!
//! | operation | cost                                                           |
//! |-----------|----------------------------------------------------------------|
//! | lookup    | a line a level (6 for 60 k to 531 k intervals) and one for the hop |
//! | build     | a sweep over the routes and a copy: 6-10 ms for 180 k prefixes |
//! | update    | built anew; a change of /0 is one store                        |
//! | memory    | 13 bytes an interval                                           |
//!
//! Source: *PlanB*, NSDI 2026. We differ: the paper ends at /64, we search what
//! is longer in blocks, so /0-/128 are exact; it compares eight keys with
//! AVX-512 only, we with AVX2 and one by one too (option `isa`); hops have 31
//! bits. As in the paper, a batch walks the levels together.

use std::sync::Arc;

use super::default_hop::{self, DefaultHop};
use super::flatten::Flatten;
use super::instruments::{Instrumented, Reads, address};
use super::isa::{self, Isa};
use super::rebuilt::{Rebuilt, RebuiltWriter};
use super::{Card, Entry, Lpm, Options, Refusal, Writer};
use crate::hint::{LINE, prefetch};
use crate::pages::Pages;
use crate::sync::Domain;
use crate::{Hop, Prefix, Rib};

/// The registry's line.
pub const ENTRY: Entry<u128> = Entry { card: &CARD, build };

const CARD: Card = Card {
    name: "planb",
    paper: "PlanB (NSDI 2026)",
    help: "merged intervals in a linearized B+-tree, one cache line per level; rebuilt at each change",
    max_hop: Hop::MAX.0,
    max_len: 128,
    max_prefixes: Some(1 << 30),
    options: &[isa::OPTION],
};

/// Never changed after `build`, but for `default`.
///
/// - I1: `levels[i]` is the place in `nodes` of level i's first node; the last
///   level is the leaves. A node that a separator leads to exists.
/// - I2: `hops` has a value for every interval, one more than there are keys.
/// - I3: a value with `DEEP` names a block of `blocks`.
struct PlanB {
    nodes: Pages<Node>,
    levels: Vec<u32>,
    hops: Pages<u32>,
    blocks: Blocks,
    default: DefaultHop,
    rank: Isa,
}

/// Eight keys, the empty places after the last one filled with the largest.
type Node = [u64; KEYS];

/// The /64s with borders inside.
///
/// I4: block i is `starts[ends[i - 1]..ends[i]]`, ascending from 0, and its hops.
#[derive(Default)]
struct Blocks {
    ends: Vec<u32>,
    starts: Vec<u64>,
    hops: Vec<u32>,
}

impl Lpm<u128> for PlanB {
    fn lookup(&self, dst: u128) -> Hop {
        self.default.or(self.value_by(dst, |_| ()))
    }

    fn lookup_batch(&self, dsts: &[u128], hops: &mut [Hop]) {
        assert_eq!(dsts.len(), hops.len());
        match self.rank {
            Isa::Portable => self.batch::<Portable>(dsts, hops),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `Isa::choose` gives this value only where there is AVX2.
            Isa::Avx2 => unsafe { self.batch_avx2(dsts, hops) },
            #[cfg(avx512)]
            // SAFETY: as above, AVX-512.
            Isa::Avx512 => unsafe { self.batch_avx512(dsts, hops) },
        }
    }

    fn isa(&self) -> &'static str {
        self.rank.name()
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.nodes) + size_of_val(&*self.hops) + self.blocks.bytes()
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let keys = self.hops.len() as u64 - 1;
        let portable = u64::from(self.rank == Isa::Portable);
        let levels = self.levels.len() as u64;
        let blocks = self.blocks.ends.len() as u64;
        let intervals = keys + 1;
        vec![
            ("intervals", intervals),
            ("levels", levels),
            ("blocks", blocks),
            ("portable", portable),
        ]
    }
}

impl Reads<u128> for PlanB {
    fn reads(&self, dst: u128) -> Vec<usize> {
        let mut reads = Vec::new();
        self.value_by(dst, |place| reads.push(place));
        // A block is searched by halving: the last steps are on one line.
        reads.dedup_by_key(|place| *place / LINE);
        reads
    }
}

impl PlanB {
    /// The value of `dst`; `seen` is called with each place that is read.
    #[inline(always)]
    fn value_by(&self, dst: u128, mut seen: impl FnMut(usize)) -> u32 {
        let (x, mut at) = (turned(high(dst)), 0);
        let (&leaves, inner) = self.levels.split_last().expect("I1: there are leaves");
        let mut rank = |place: u32| {
            let node = &self.nodes[place as usize];
            seen(address(node));
            Portable::rank(node, x)
        };
        for &level in inner {
            at = at * FANOUT + rank(level + at);
        }
        at = at * KEYS as u32 + rank(leaves + at);
        let value = &self.hops[at as usize];
        seen(address(value));
        self.finish(*value, dst, seen)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,popcnt")]
    fn batch_avx2(&self, dsts: &[u128], hops: &mut [Hop]) {
        self.batch::<Avx2>(dsts, hops);
    }

    #[cfg(avx512)]
    #[allow(clippy::incompatible_msrv)] // `avx512` is set for compilers that have it
    #[target_feature(enable = "avx2,popcnt,avx512f")]
    fn batch_avx512(&self, dsts: &[u128], hops: &mut [Hop]) {
        self.batch::<Avx512>(dsts, hops);
    }

    #[inline(always)]
    fn batch<R: Rank>(&self, dsts: &[u128], hops: &mut [Hop]) {
        let default = self.default.get();
        for (dsts, hops) in dsts.chunks(BURST).zip(hops.chunks_mut(BURST)) {
            let mut padded = [0; BURST];
            let keys: &[u128; BURST] = match dsts.try_into() {
                Ok(whole) => whole,
                Err(_) => {
                    padded[..dsts.len()].copy_from_slice(dsts);
                    &padded
                }
            };
            let found = self.burst::<R>(keys);
            for ((hop, &value), &dst) in hops.iter_mut().zip(&found).zip(dsts) {
                let value = self.finish(value, dst, |_| ());
                *hop = default_hop::or(value, default);
            }
        }
    }

    /// Takes a burst down the levels together: the reads of one level overlap.
    #[inline(always)]
    fn burst<R: Rank>(&self, dsts: &[u128; BURST]) -> [u32; BURST] {
        let x = dsts.map(|dst| turned(high(dst)));
        let mut at = [0_u32; BURST];
        for pair in self.levels.windows(2) {
            for (at, &x) in at.iter_mut().zip(&x) {
                // SAFETY: I1: separators of the level above led here.
                let node = unsafe { self.node(pair[0] + *at) };
                *at = *at * FANOUT + R::rank(node, x);
                // SAFETY: I1: this node's separators lead there.
                prefetch(unsafe { self.node(pair[1] + *at) });
            }
        }
        let leaves = self.levels[self.levels.len() - 1];
        for (at, &x) in at.iter_mut().zip(&x) {
            // SAFETY: I1: separators led here, or it is the only node.
            let node = unsafe { self.node(leaves + *at) };
            *at = *at * KEYS as u32 + R::rank(node, x);
            // SAFETY: I2: `at` keys of all are below x.
            prefetch(unsafe { self.hops.get_unchecked(*at as usize) });
        }
        // SAFETY: as for the prefetch.
        at.map(|at| unsafe { *self.hops.get_unchecked(at as usize) })
    }

    /// A node without a bounds check, worth 40 % (67 to 91 M/s on Sapphire
    /// Rapids, 112,717 intervals).
    ///
    /// # Safety
    /// `place` is a level's first node plus what separators led to (I1).
    #[inline(always)]
    unsafe fn node(&self, place: u32) -> &Node {
        // SAFETY: the caller's promise.
        unsafe { self.nodes.get_unchecked(place as usize) }
    }

    #[inline(always)]
    fn finish(&self, value: u32, dst: u128, seen: impl FnMut(usize)) -> u32 {
        if value & DEEP == 0 { value } else { self.blocks.lookup(value & !DEEP, dst as u64, seen) }
    }
}

/// The number of keys of a node that are less than `x`.
trait Rank {
    fn rank(node: &Node, x: i64) -> u32;
}

struct Portable;

impl Rank for Portable {
    #[inline(always)]
    fn rank(node: &Node, x: i64) -> u32 {
        // Halving: a sum over all eight comparisons took twice as long.
        let below = |i: usize| usize::from((node[i & (KEYS - 1)] as i64) < x);
        let mut rank = 4 * below(3);
        rank += 2 * below(rank + 1);
        rank += below(rank);
        rank += below(rank); // the eighth key; any other is known to be no less
        rank as u32
    }
}

#[cfg(target_arch = "x86_64")]
struct Avx2;

#[cfg(target_arch = "x86_64")]
impl Rank for Avx2 {
    #[inline(always)]
    fn rank(node: &Node, x: i64) -> u32 {
        // SAFETY: the only caller, `batch_avx2`, has the instructions enabled.
        unsafe { rank_avx2(node, x) }
    }
}

// A function of its own: the intrinsics are inlined into one that has the same
// instructions enabled, and with it.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2,popcnt")]
fn rank_avx2(node: &Node, x: i64) -> u32 {
    use core::arch::x86_64::*;
    let place = node.as_ptr().cast::<__m256i>();
    let x = _mm256_set1_epi64x(x);
    // SAFETY: the node's first half.
    let low = unsafe { _mm256_loadu_si256(place) };
    // SAFETY: the second half starts 32 bytes on, inside the node.
    let high = unsafe { _mm256_loadu_si256(place.wrapping_add(1)) };
    let (low, high) = (_mm256_cmpgt_epi64(x, low), _mm256_cmpgt_epi64(x, high));
    // Four bytes of ones for each key below x.
    _mm256_movemask_epi8(_mm256_packs_epi32(low, high)).count_ones() / 4
}

#[cfg(avx512)]
struct Avx512;

#[cfg(avx512)]
impl Rank for Avx512 {
    #[inline(always)]
    fn rank(node: &Node, x: i64) -> u32 {
        // SAFETY: the only caller, `batch_avx512`, has the instructions enabled.
        unsafe { rank_avx512(node, x) }
    }
}

#[cfg(avx512)]
#[inline]
#[target_feature(enable = "avx512f,popcnt")]
#[allow(clippy::incompatible_msrv)] // `avx512` is set for compilers that have it
fn rank_avx512(node: &Node, x: i64) -> u32 {
    use core::arch::x86_64::*;
    // SAFETY: the whole node.
    let keys = unsafe { _mm512_loadu_si512(node.as_ptr().cast()) };
    _mm512_cmplt_epi64_mask(keys, _mm512_set1_epi64(x)).count_ones()
}

impl Blocks {
    fn lookup(&self, block: u32, low: u64, mut seen: impl FnMut(usize)) -> u32 {
        let block = block as usize;
        let first = block.checked_sub(1).map_or(0, |before| self.ends[before]) as usize;
        seen(address(&self.ends[block])); // the end before it is beside it
        let starts = &self.starts[first..self.ends[block] as usize];
        let after = starts.partition_point(|start| {
            seen(address(start));
            *start <= low
        });
        let hop = &self.hops[first + after - 1]; // after >= 1: I4, a block starts at 0
        seen(address(hop));
        *hop
    }

    /// Adds the block of one /64, given by its low halves, and names it.
    fn push(&mut self, intervals: &[(u128, Hop)], outside: u32) -> u32 {
        if intervals.first().is_some_and(|&(start, _)| start as u64 != 0) {
            self.starts.push(0);
            self.hops.push(outside);
        }
        self.starts.extend(intervals.iter().map(|&(start, _)| start as u64));
        self.hops.extend(intervals.iter().map(|&(_, hop)| hop.0));
        self.ends.push(self.starts.len() as u32);
        DEEP | (self.ends.len() - 1) as u32
    }

    fn bytes(&self) -> usize {
        (self.ends.len() + self.hops.len()) * size_of::<u32>()
            + self.starts.len() * size_of::<u64>()
    }
}

impl Rebuilt<u128> for PlanB {
    const CARD: &'static Card = &CARD;

    fn default_hop(&self) -> &DefaultHop {
        &self.default
    }
}

fn build(
    rib: &Rib<u128>,
    options: &Options,
    domain: &Arc<Domain>,
) -> Result<Box<dyn Writer<u128>>, Refusal> {
    Ok(instrumented(rib, options, domain)?.writer)
}

pub(super) fn instrumented(
    rib: &Rib<u128>,
    options: &Options,
    _: &Arc<Domain>,
) -> Result<Instrumented<u128>, Refusal> {
    options.check(&CARD)?;
    let rank = Isa::choose(&CARD, options)?;
    let limit = CARD.max_prefixes.unwrap_or(u64::MAX);
    if rib.len() as u64 > limit {
        return Err(CARD.refuse(format!("{} prefixes exceed {limit}", rib.len())));
    }
    rib.iter().try_for_each(|(_, hop)| CARD.admit_hop(hop))?;
    let mut flatten = Flatten::new();
    let (top, blocks) = cut_at_64(flatten.sweep(rib, Prefix::all()));
    CARD.admit_bytes(2 * size_of::<(u64, u32)>() * top.len())?; // values and nodes
    let no_memory = |error: std::io::Error| CARD.refuse(format!("no memory: {error}"));
    let mut hops = Pages::zeroed(top.len()).map_err(no_memory)?;
    for (place, &(_, value)) in hops.as_mut_slice().iter_mut().zip(&top) {
        *place = value;
    }
    let (nodes, levels) = lay_out(&top).map_err(no_memory)?;
    let default = DefaultHop::of(rib);
    let table = Arc::new(PlanB { nodes, levels, hops, blocks, default, rank });
    Ok(Instrumented { reads: table.clone(), writer: Box::new(RebuiltWriter(table)) })
}

/// Starts of intervals by their high halves, with values; and what lies deeper.
fn cut_at_64(intervals: &[(u128, Hop)]) -> (Vec<(u64, u32)>, Blocks) {
    let (mut top, mut blocks) = (Vec::with_capacity(intervals.len()), Blocks::default());
    let mut outside = 0;
    let mut push = |half: u64, value: u32| {
        if top.last().is_none_or(|&(_, before)| before != value) {
            top.push((half, value));
        }
    };
    for of_one_64 in intervals.chunk_by(|a, b| high(a.0) == high(b.0)) {
        let &(last, hop) = of_one_64.last().expect("a chunk is not empty");
        let half = high(last);
        if last as u64 == 0 {
            push(half, hop.0); // the only one: starts ascend
        } else {
            push(half, blocks.push(of_one_64, outside));
            if let Some(next) = half.checked_add(1) {
                push(next, hop.0); // put right where another interval starts there
            }
        }
        outside = hop.0;
    }
    // The next /64 may have begun with the same start: the later word counts.
    top.reverse();
    top.dedup_by_key(|&mut (half, _)| half);
    top.reverse();
    (top, blocks)
}

/// The levels of the tree over `top`'s starts, the first left out: it is 0.
fn lay_out(top: &[(u64, u32)]) -> std::io::Result<(Pages<Node>, Vec<u32>)> {
    let keys = top.len() - 1;
    let mut sizes = vec![keys.div_ceil(KEYS).max(1)];
    while sizes[sizes.len() - 1] > 1 {
        sizes.push(sizes[sizes.len() - 1].div_ceil(FANOUT as usize));
    }
    sizes.reverse();
    let first_of = |level: usize| sizes[..level].iter().sum::<usize>();
    let levels = (0..sizes.len()).map(|level| first_of(level) as u32).collect();
    let mut pages = Pages::<Node>::zeroed(sizes.iter().sum())?;
    let key = |i: usize| top.get(i + 1).map_or(PAD, |&(start, _)| turned(start - 1) as u64);
    // One step at the leaves passes one key; a level up it passes a subtree.
    let mut step = 1;
    for level in (0..sizes.len()).rev() {
        let nodes = &mut pages.as_mut_slice()[first_of(level)..][..sizes[level]];
        for (i, node) in nodes.iter_mut().enumerate() {
            for (j, place) in node.iter_mut().enumerate() {
                // A separator is the first key of the subtree to its right.
                *place = if step == 1 {
                    key(i * KEYS + j)
                } else {
                    key((i * FANOUT as usize + j + 1) * step)
                };
            }
        }
        step = if step == 1 { KEYS } else { step * FANOUT as usize };
    }
    Ok((pages, levels))
}

#[inline(always)]
fn high(dst: u128) -> u64 {
    (dst >> 64) as u64
}

/// Unsigned order as signed order.
#[inline(always)]
fn turned(half: u64) -> i64 {
    (half ^ 1 << 63) as i64
}

/// No turned key exceeds it, and no `x` is greater.
const PAD: u64 = i64::MAX as u64;

/// Keys in a node: one cache line.
const KEYS: usize = 8;

const FANOUT: u32 = KEYS as u32 + 1;

const DEEP: u32 = 1 << 31;

/// 16 and 64 measured alike.
const BURST: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    crate::lpm::oracle::conformance!(u128, ENTRY);
    crate::lpm::oracle::conformance!(portable: u128, ENTRY, "isa" = "portable");

    #[test]
    fn avx2_passes_where_the_processor_has_it() {
        crate::lpm::oracle::passes_with_isa(ENTRY, "avx2");
    }

    /// A line a level and one for the hop; of a /64 with borders inside its block's beside.
    #[test]
    fn reads_are_lines_of_the_way_to_the_answer() {
        let place = |i: u128| 0x2001 << 112 | i << 81;
        let deep = place(3) | 1 << 70;
        let routes = (0..60).map(|i| (Prefix::covering(place(i), 48), Hop(i as u32 % 7 + 1)));
        let within = (0..40).map(|i| (Prefix::covering(deep | i << 8, 120), Hop(8 + i as u32 % 2)));
        let rib: Rib<u128> = routes.chain(within).collect();
        let built = instrumented(&rib, &Options::default(), &Domain::new()).unwrap();
        let counters = built.writer.table().counters();
        let levels =
            counters.iter().find(|count| count.0 == "levels").map_or(0, |one| one.1 as usize);
        assert!(levels > 1, "more than a root");
        for dst in [place(2), place(2) | 1 << 79, place(2) | 1 << 80, place(59)] {
            let reads = built.reads.reads(dst);
            assert_eq!(reads.len(), levels + 1);
            // The nodes lie in the order of their levels.
            assert!(reads[..levels].is_sorted() && reads.iter().all(|place| place % 4 == 0));
        }
        let inside = built.reads.reads(deep | 5 << 8).len();
        assert!((levels + 4..levels + 10).contains(&inside), "{inside} lines for {levels} levels");
    }

    #[test]
    #[cfg_attr(miri, ignore = "many routes")]
    fn every_height_of_the_tree() {
        for count in [0, 1, 7, 8, 9, 71, 72, 73, 80, 81, 647, 648, 649, 5831, 5832, 5833, 60_000] {
            // Ever other /48, so each route has a border at both ends.
            let place = |i: u128| 0x2001 << 112 | i << 81;
            let route = |i| (Prefix::covering(place(i), 48), Hop(i as u32 % 7 + 1));
            let rib: Rib<u128> = (0..count).map(route).collect();
            let table = build(&rib, &Options::default(), &Domain::new()).unwrap().table();
            for i in 0..count {
                let want = Hop(i as u32 % 7 + 1);
                assert_eq!(table.lookup(place(i)), want, "{count}");
                assert_eq!(table.lookup(place(i) | 1 << 79), want, "{count}");
                assert_eq!(table.lookup(place(i) | 1 << 80), Hop::NONE, "{count}");
            }
        }
    }
}
