//! Tree Bitmap: a trie of 64-way nodes that hold the prefixes of six lengths in
//! one bitmap and the children in another.
//!
//! ```text
//!    dst      13 bits      6 bits    6 bits    …
//!                ▼            ▼         ▼
//!    initial  [ e | e | e | … ]          2^13 entries: hop 32, node 32
//!    nodes    ( internal 64 | external 64 | results 32, children 32 )     24 B
//!    results  [ hop | hop | … ]          2 B; 4 B where a hop needs it
//!
//!    entry    the hop of the longest prefix to /12, 0 for nothing but /0; the
//!             place of a node, all ones: none
//!    internal bit 0: the prefix that is the node; 1, 2: one bit longer; 3-6: two;
//!             … 31-62: five. A prefix's hop is result number `results` + its rank
//!    external bit v: slot v has a child, node `children` + its rank
//! ```
//!
//! | operation | cost                                                             |
//! |-----------|------------------------------------------------------------------|
//! | lookup    | 1 read, a node every 6 bits (IPv4: /24s in the second), a result |
//! | build     | one sweep over the routes                                        |
//! | update    | another hop: one store; else the nodes from the initial entry to |
//! |           | the prefix, each with its siblings, anew; /0: one store          |
//! | memory    | 64 KiB, 24 a node, 2 or 4 a prefix: no route is stored twice     |
//!
//! Source: Eatherton, Varghese, Dittia, *Tree Bitmap: Hardware/Software IP
//! Lookups with Incremental Updates*, CCR 2004: initial array, nodes in blocks
//! of siblings, results read at the end only. We differ: the paper's strides are
//! 4 and its nodes one burst of a memory of its day; ours are 6, for 64-bit
//! words, after 13 bits, so that /24 and /48 end in a node's last length. The
//! longest match inside a node is found by a mask of the prefixes that cover the
//! slot, not by a search through the lengths. Short prefixes are expanded into
//! the initial array.

mod writer;

use std::sync::atomic::{AtomicU64, Ordering};

use super::bitmap::{SLOTS, STRIDE, six, top};
use super::blocks::{Blocks, Node};
use super::bursts::{self, BURST, Bursts};
use super::cell::Cell;
use super::default_hop::DefaultHop;
use super::isa::{self, Isa};
use super::{Card, Entry, Lpm};
use crate::hint::prefetch;
use crate::pages::Pages;
use crate::{Addr, Hop};

/// The registry's line for IPv4.
pub const ENTRY: Entry<u32> = Entry { card: &CARD, build: writer::build::<u32> };

/// The registry's line for IPv6.
pub const ENTRY_6: Entry<u128> = Entry { card: &CARD_6, build: writer::build::<u128> };

const CARD: Card = Card {
    name: "tree-bitmap",
    paper: "Eatherton, Varghese, Dittia: Tree Bitmap (2004)",
    help: "64-way nodes with a bitmap of prefixes and one of children; small; updates in place",
    max_hop: Hop::MAX.0,
    max_len: 32,
    max_prefixes: None,
    options: &[isa::OPTION],
};

const CARD_6: Card = Card { max_len: 128, ..CARD };

/// What the readers share.
///
/// - I1: what an entry of `initial` leads to was written before the entry, and,
///   results apart, is not written again until every thread that was online when
///   it could no longer be reached has quiesced.
/// - I2: a bit of `internal` stands for a result at its place, one of `external`
///   for a child.
struct TreeBitmap<L: Cell> {
    initial: Pages<[AtomicU64; 1 << INITIAL]>,
    blocks: Blocks<L>,
    default: DefaultHop,
    isa: Isa,
}

/// The place of the child in slot `v`, where it has one.
#[inline(always)]
fn child_of(node: &Node, v: u32) -> (bool, u32) {
    let [_, external] = node.maps;
    (external >> v & 1 != 0, node.children.wrapping_add(rank(external, v)))
}

/// The place of the hop of the longest prefix that covers slot `v`.
#[inline(always)]
fn result(node: &Node, v: u32) -> (bool, u32) {
    let [internal, _] = node.maps;
    let covering = internal & COVERING[(v >> 1) as usize % COVERING.len()];
    let longest = 63 - (covering | 1).leading_zeros();
    (covering != 0, node.hops.wrapping_add(rank(internal, longest)))
}

/// Set bits before bit `i`.
#[inline(always)]
fn rank(bits: u64, i: u32) -> u32 {
    (bits & ((1 << i) - 1)).count_ones()
}

impl<A: Addr, L: Cell> Lpm<A> for TreeBitmap<L> {
    fn lookup(&self, dst: A) -> Hop {
        let (mut at, hop) = split(self.entry(dst));
        let (mut best, mut from) = (None, INITIAL);
        // Bounded, so that nobody can be led in a circle.
        while at != NO_NODE && from < A::WIDTH {
            let (node, v) = (self.blocks.node(at), six(dst, from));
            let (covered, place) = result(&node, v);
            best = if covered { Some(place) } else { best };
            let (there, next) = child_of(&node, v);
            at = if there { next } else { NO_NODE };
            from += STRIDE;
        }
        let hop = best.map_or(hop, |place| self.blocks.hop(place).get());
        self.default.or(hop)
    }

    fn lookup_batch(&self, dsts: &[A], hops: &mut [Hop]) {
        bursts::lookup_batch(self, dsts, hops);
    }

    fn isa(&self) -> &'static str {
        bursts::isa::<A>(self)
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.initial) + self.blocks.bytes()
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let [nodes, results] = self.blocks.used();
        vec![("nodes", nodes), ("results", results)]
    }
}

impl<A: Addr, L: Cell> Bursts<A> for TreeBitmap<L> {
    fn chosen(&self) -> Isa {
        self.isa
    }

    #[inline(always)]
    fn default_hop(&self) -> &DefaultHop {
        &self.default
    }

    /// Up to [`BURST`] lookups, a level of all at a time. `at` is the node of each
    /// key in the list, `best` the place of the longest match so far.
    #[inline(always)]
    fn burst(&self, dsts: &[A], hops: &mut [Hop]) {
        let mut keys = Keys { at: [0; BURST], best: [NO_RESULT; BURST], list: [0; BURST] };
        let mut count = 0;
        for ((i, &dst), hop) in dsts.iter().enumerate().zip(hops.iter_mut()) {
            let node;
            (node, hop.0) = split(self.entry(dst));
            keys.at[i] = node;
            keys.list[count % BURST] = i as u8;
            count += usize::from(node != NO_NODE);
        }
        let mut from = INITIAL;
        while count > 0 && from < A::WIDTH {
            count = if from <= 64 - STRIDE {
                let window = |dst: A| ((top(dst) << from) >> (64 - STRIDE)) as u32;
                self.level(dsts, &mut keys, count, window)
            } else {
                self.level(dsts, &mut keys, count, |dst| six(dst, from))
            };
            from += STRIDE;
        }
        for (&best, hop) in keys.best.iter().zip(hops.iter_mut()) {
            // Result 0 is nobody's: what is read there is not used.
            let result = self.blocks.hop(best).get();
            hop.0 = if best == NO_RESULT { hop.0 } else { result };
        }
    }
}

impl<L: Cell> TreeBitmap<L> {
    /// One step of the keys listed; lists those that have a child to go to.
    #[inline(always)]
    fn level<A: Addr>(
        &self,
        dsts: &[A],
        keys: &mut Keys,
        count: usize,
        window: impl Fn(A) -> u32,
    ) -> usize {
        let mut left = 0;
        for k in 0..count {
            let i = usize::from(keys.list[k]);
            let (node, v) = (self.blocks.node(keys.at[i]), window(dsts[i]));
            let (covered, place) = result(&node, v);
            let best = std::hint::select_unpredictable(covered, place, keys.best[i]);
            let (there, next) = child_of(&node, v);
            (keys.at[i], keys.best[i]) = (next, best);
            keys.list[left] = i as u8;
            left += usize::from(there);
            // Of a child that is not there, too: a branch costs more.
            prefetch(self.blocks.words(next));
        }
        left
    }

    #[inline(always)]
    fn entry<A: Addr>(&self, dst: A) -> u64 {
        let initial: &[AtomicU64; 1 << INITIAL] = &self.initial[0];
        initial[slot(dst)].load(Ordering::Acquire)
    }
}

/// A burst on its way down.
struct Keys {
    at: [u32; BURST],
    best: [u32; BURST],
    list: [u8; BURST],
}

/// Node and hop of an initial entry.
#[inline(always)]
fn split(entry: u64) -> (u32, u32) {
    (entry as u32, (entry >> 32) as u32)
}

/// The initial entry of `dst`.
#[inline(always)]
fn slot<A: Addr>(dst: A) -> usize {
    (top(dst) >> (64 - INITIAL)) as usize
}

/// The bit in `internal` of the prefix of `len` bits (at most 5) that are `bits`.
const fn bit_of(len: u8, bits: u32) -> u32 {
    (1 << len) - 1 + bits
}

/// By the five upper bits of a slot: the internal prefixes that cover it.
static COVERING: [u64; SLOTS / 2] = covering();

const fn covering() -> [u64; SLOTS / 2] {
    let (mut table, mut upper) = ([0; SLOTS / 2], 0);
    while upper < SLOTS / 2 {
        let mut len = 0;
        while len < STRIDE {
            table[upper] |= 1 << bit_of(len, (upper >> (STRIDE - 1 - len)) as u32);
            len += 1;
        }
        upper += 1;
    }
    table
}

/// Bits of the address that index the initial array.
const INITIAL: u8 = 13;

const NO_NODE: u32 = u32::MAX;

/// A place that no result is at: blocks of results start behind it.
const NO_RESULT: u32 = 0;

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;
    use crate::lpm::Options;
    use crate::sync::Domain;
    use crate::{Prefix, Rib};

    crate::lpm::oracle::conformance!(u32, ENTRY);
    crate::lpm::oracle::conformance!(ipv6: u128, ENTRY_6);
    crate::lpm::oracle::conformance!(portable: u128, ENTRY_6, "isa" = "portable");

    /// The same with results of 32 bits.
    const WIDE: Entry<u32> = Entry { card: &CARD, build: writer::build_with::<u32, AtomicU32> };
    const WIDE_6: Entry<u128> =
        Entry { card: &CARD_6, build: writer::build_with::<u128, AtomicU32> };
    crate::lpm::oracle::conformance!(wide: u32, WIDE);
    crate::lpm::oracle::conformance!(wide6: u128, WIDE_6);

    #[test]
    fn six_prefixes_cover_a_slot() {
        assert!(COVERING.iter().all(|mask| mask.count_ones() == 6 && mask & 1 != 0));
        assert_eq!(COVERING[31], 1 | 1 << 2 | 1 << 6 | 1 << 14 | 1 << 30 | 1 << 62);
    }

    #[test]
    fn a_prefix_is_one_result_and_six_lengths_share_a_node() {
        for (lens, nodes) in [(13..=18, 1), (19..=24, 2), (31..=32, 4)] {
            let routes = lens.clone().map(|len| (Prefix::covering(0x0a00_0000_u32, len), Hop(1)));
            let (rib, count): (Rib<u32>, _) = (routes.collect(), lens.count() as u64);
            let table = writer::build(&rib, &Options::default(), &Domain::new()).unwrap().table();
            assert_eq!(table.counters()[..2], [("nodes", nodes), ("results", count + 1)]);
        }
    }
}
