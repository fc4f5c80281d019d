//! Poptrie: a trie of 64-way nodes. Two bitmaps in a node, and a count of their bits,
//! find the child or the leaf.
//!
//! ```text
//!    dst      s bits     6 bits    6 bits    …
//!               ▼           ▼         ▼
//!    direct   [ e | e | e | … ]                 2^s entries × 4 B
//!    nodes    ( vector 64 | leafvec 64 | base0 32, base1 32 )      24 B
//!    leaves   [ hop | hop | … ]                 2 B; 4 B where a hop needs it
//!
//!    entry    bit 31 = 1: bits 30..0 are the hop; 0: no route but the default
//!             bit 31 = 0: the place of a node
//!    node     bit v of `vector` = 1: slot v has a child, node
//!             base1 + (bits of vector up to v) - 1; bit v = 0: it has a hop, leaf
//!             base0 + (bits of leafvec up to v) - 1
//!    leafvec  a bit where a run of equal leaves begins, children skipped
//! ```
//!
//! | operation | cost                                                              |
//! |-----------|-------------------------------------------------------------------|
//! | lookup    | 1 read, a node every 6 bits beyond s, a leaf; IPv4: 2 nodes to /30 |
//! | build     | one sweep over the routes                                         |
//! | update    | new copies of the nodes from the direct entry to the prefix, each |
//! |           | with its siblings; /s and shorter: each entry owned; /0: one store |
//! | memory    | 4 × 2^s, then 24 a node, 2 or 4 a leaf                            |
//!
//! One address, bit by bit, with s = 18. The routes are 10.1.0.0/16 to hop 5,
//! 10.1.2.0/24 to hop 7 and 10.1.2.192/28 to hop 9; the address is 10.1.2.200,
//! 0x0a0102c8.
//!
//! 1. The first 18 bits are 0x2804. `direct[0x2804]` is the index of a node: this /18
//!    has longer prefixes.
//! 2. The next 6 bits are 2, a /24. Bit 2 of `vector` is set, the only one up to there,
//!    so the child is node base1. (Slot 3 has no child: bit 0 of `leafvec` is the only one
//!    up to there, so its leaf is base0, hop 5.)
//! 3. The next 6 bits are 50, a /30. `vector` of the child is 0. Its `leafvec` has the bits
//!    0, 48 and 52, where runs of the leaves 7, 9 and 7 begin. Two of these runs begin at
//!    or before slot 50, so the leaf is base0 + 1: hop 9.
//!
//! Source: Asai, Ohara, *Poptrie: A Compressed Trie with Population Count for
//! Fast and Scalable Software IP Routing Table Lookup*, SIGCOMM 2015: direct
//! pointing (`s`), leaf compression (`leafvec`), updates beside the readers. We
//! differ: the paper's leaves have 16 bits, ours 32 where a hop needs them; the
//! default route is not pushed into leaves but replaces hop 0; a node whose
//! slots all have one hop is a leaf of its parent (the paper aggregates routes
//! beforehand). The paper looks up one address after the other. We search a burst
//! level by level, so that the reads of one level overlap, and choose between child
//! and leaf without a branch.

mod writer;

use std::sync::atomic::{AtomicU32, Ordering};

use super::bitmap::{STRIDE, six, top};
use super::blocks::{Blocks, Node};
use super::bursts::{self, BURST, Bursts};
use super::cell::Cell;
use super::default_hop::DefaultHop;
use super::isa::{self, Isa};
use super::{Card, Entry, Lpm};
use crate::hint::prefetch_either;
use crate::pages::Pages;
use crate::{Addr, Hop};

/// The registry's line for IPv4.
pub const ENTRY: Entry<u32> = Entry { card: &CARD, build: writer::build::<u32> };

/// The registry's line for IPv6.
pub const ENTRY_6: Entry<u128> = Entry { card: &CARD_6, build: writer::build::<u128> };

const CARD: Card = Card {
    name: "poptrie",
    paper: "Asai, Ohara: Poptrie, A Compressed Trie with Population Count (2015)",
    help: "64-way nodes with two bitmaps below a direct table; small; updates in place",
    max_hop: Hop::MAX.0,
    max_len: 32,
    max_prefixes: None,
    options: &[
        ("s", "18", "bits of the direct table, 12 to 24"),
        ("leafvec", "yes", "yes or no: store a run of equal leaves once"),
        isa::OPTION,
    ],
};

const CARD_6: Card = Card { max_len: 128, ..CARD };

/// What the readers share.
///
/// - I1: what an entry of `direct` leads to was written before the entry, and is
///   not written again until every thread that was online when it could no
///   longer be reached has quiesced.
/// - I2: a bit of `vector` stands for a child at its place; for a slot without,
///   there is a bit of `leafvec` at or before it.
struct Poptrie<L: Cell> {
    direct: Pages<AtomicU32>,
    s: u8,
    blocks: Blocks<L>,
    default: DefaultHop,
    isa: Isa,
}

/// Where slot `v` leads: true and a node's place, or false and a leaf's.
#[inline(always)]
fn step(node: &Node, v: u32) -> (bool, u32) {
    // The bits up to v, shifted so that v's own is the highest.
    let up_to = |bits: u64| bits << (63 - v);
    let [vector, leafvec] = node.maps;
    let inner = up_to(vector) >> 63 != 0;
    let bits = std::hint::select_unpredictable(inner, vector, leafvec);
    let base = std::hint::select_unpredictable(inner, node.children, node.hops);
    (inner, base.wrapping_add(up_to(bits).count_ones()).wrapping_sub(1))
}

impl<A: Addr, L: Cell> Lpm<A> for Poptrie<L> {
    fn lookup(&self, dst: A) -> Hop {
        let entry = self.entry(dst);
        let hop = if entry & LEAF != 0 { entry & !LEAF } else { self.descend(entry, dst) };
        self.default.or(hop)
    }

    fn lookup_batch(&self, dsts: &[A], hops: &mut [Hop]) {
        bursts::lookup_batch(self, dsts, hops);
    }

    fn isa(&self) -> &'static str {
        bursts::isa::<A>(self)
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.direct) + self.blocks.bytes()
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let [nodes, leaves] = self.blocks.used();
        vec![("nodes", nodes), ("leaves", leaves)]
    }
}

impl<A: Addr, L: Cell> Bursts<A> for Poptrie<L> {
    fn chosen(&self) -> Isa {
        self.isa
    }

    #[inline(always)]
    fn default_hop(&self) -> &DefaultHop {
        &self.default
    }

    /// Up to [`BURST`] lookups, a level of all at a time. `at` is where each key
    /// is: a node while it is in the list, then a leaf.
    #[inline(always)]
    fn burst(&self, dsts: &[A], hops: &mut [Hop]) {
        let (mut at, mut deeper) = ([0; BURST], [0_u8; BURST]);
        let mut count = 0;
        for ((i, &dst), hop) in dsts.iter().enumerate().zip(hops.iter_mut()) {
            let entry = self.entry(dst);
            (at[i], hop.0) = (entry, entry & !LEAF);
            deeper[count % BURST] = i as u8;
            count += usize::from(entry & LEAF == 0);
        }
        let (below, all) = (deeper, count);
        let mut from = self.s;
        while count > 0 && from < A::WIDTH {
            count = if from <= 64 - STRIDE {
                let window = |dst: A| ((top(dst) << from) >> (64 - STRIDE)) as u32;
                self.level(dsts, &mut at, &mut deeper, count, window)
            } else {
                self.level(dsts, &mut at, &mut deeper, count, |dst| six(dst, from))
            };
            from += STRIDE;
        }
        for &i in &below[..all] {
            hops[usize::from(i)].0 = self.blocks.hop(at[usize::from(i)]).get();
        }
    }
}

impl<L: Cell> Poptrie<L> {
    /// One step of the keys listed; lists those that have reached a node.
    #[inline(always)]
    fn level<A: Addr>(
        &self,
        dsts: &[A],
        at: &mut [u32; BURST],
        list: &mut [u8; BURST],
        count: usize,
        window: impl Fn(A) -> u32,
    ) -> usize {
        let mut left = 0;
        for k in 0..count {
            let i = usize::from(list[k]);
            let (inner, next) = step(&self.blocks.node(at[i]), window(dsts[i]));
            at[i] = next;
            list[left] = i as u8;
            left += usize::from(inner);
            prefetch_either(inner, &self.blocks.words(next)[0], self.blocks.hop(next));
        }
        left
    }

    fn descend<A: Addr>(&self, mut at: u32, dst: A) -> u32 {
        let mut from = self.s;
        // Bounded, so that nobody can be led in a circle.
        while from < A::WIDTH {
            let (inner, next) = step(&self.blocks.node(at), six(dst, from));
            if !inner {
                return self.blocks.hop(next).get();
            }
            at = next;
            from += STRIDE;
        }
        0
    }

    #[inline(always)]
    fn entry<A: Addr>(&self, dst: A) -> u32 {
        self.direct[(top(dst) >> (64 - self.s)) as usize].load(Ordering::Acquire)
    }
}

const LEAF: u32 = 1 << 31;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lpm::Options;
    use crate::sync::Domain;
    use crate::{Prefix, Rib};

    crate::lpm::oracle::conformance!(u32, ENTRY);
    crate::lpm::oracle::conformance!(ipv6: u128, ENTRY_6);
    crate::lpm::oracle::conformance!(portable: u32, ENTRY, "isa" = "portable", "s" = "16");
    crate::lpm::oracle::conformance!(plain: u128, ENTRY_6, "leafvec" = "no", "s" = "13");

    /// The same with leaves of 32 bits.
    const WIDE: Entry<u32> = Entry { card: &CARD, build: writer::build_with::<u32, AtomicU32> };
    const WIDE_6: Entry<u128> =
        Entry { card: &CARD_6, build: writer::build_with::<u128, AtomicU32> };
    crate::lpm::oracle::conformance!(wide: u32, WIDE);
    crate::lpm::oracle::conformance!(wide6: u128, WIDE_6);

    fn counters(options: &[(&str, &str)], routes: &[(u32, u8, u32)]) -> [u64; 2] {
        let route = |&(first, len, hop)| (Prefix::covering(first, len), Hop(hop));
        let options = options.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let rib: Rib<u32> = routes.iter().map(route).collect();
        let table = writer::build(&rib, &Options(options), &Domain::new()).unwrap().table();
        let counters = table.counters();
        [counters[0].1, counters[1].1]
    }

    #[test]
    fn a_run_of_equal_leaves_is_stored_once() {
        let routes = [(0x0a00_0000, 8, 1), (0x0a00_0100, 24, 2)];
        assert_eq!(counters(&[], &routes), [1, 3]);
        assert_eq!(counters(&[("leafvec", "no")], &routes), [1, 64]);
    }

    #[test]
    fn a_node_of_one_hop_is_no_node() {
        assert_eq!(counters(&[], &[(0x0a00_0000, 8, 1), (0x0a00_0100, 24, 1)]), [0, 0]);
    }
}
