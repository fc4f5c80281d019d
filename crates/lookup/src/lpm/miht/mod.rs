//! MIHT, the multi-index hybrid trie: a B⁺-tree of the first k bits, and for each
//! of its keys a priority trie of what follows.
//!
//! ```text
//!    i-node   [ key × m ] [ child × m ]              m = 16: 128 B, m = 32: 256 B
//!             internal: the smallest key below each child
//!             external: a key, and the priority trie of the prefixes that begin so
//!             unused keys, behind the others, are all ones
//!    d-node   a prefix without its first k bits, its hop, and two children: below
//!             it the next bit 0, the next bit 1
//!
//!                 IPv4, 16 B                                 IPv6, 32 B
//!             [ left | right ]                           [ left | right ]
//!             [ suffix 24 | length 8 | P | hop 31 ]      [ P | length 8 | 0 | hop 32 ]
//!                                                        [ suffix × 128 ]
//!
//!    P = 0    an ordinary node: its prefix is as long as the node is deep
//!    P = 1    a priority node: the longest prefix of all below it; a search
//!             whose address it covers ends here
//!    PT[-1]   a priority trie of the prefixes shorter than k
//! ```
//!
//! | operation | cost                                                             |
//! |-----------|------------------------------------------------------------------|
//! | lookup    | an i-node a level, log2(m) keys of each; then a d-node a bit     |
//! | build     | one sweep over the routes                                        |
//! | update    | another hop: one store; else a copy of the path in the priority  |
//! |           | trie, and one store; a new key or the last of a key: of the path |
//! |           | in the B⁺-tree; /0: one store                                    |
//! | memory    | 16 (32) bytes a prefix, 10 (20) a key                            |
//!
//! Source: Lin et al., *MIHT*, as §5 of *Bloomfwd* describes it, with (k, m) =
//! (16, 16) for IPv4 and (32, 32) for IPv6; Lim, Yim, Swartzlander, *Priority
//! Tries for IP Address Lookup*, 2010. We differ: the papers change the nodes as
//! they lie, we copy the path of a change, so readers go on; after a priority
//! trie without a match, PT\[-1\] is searched as where there is no key. A burst
//! takes the B⁺-tree level by level, then the tries bit by bit.

mod btree;
mod export;
mod priority;
mod writer;

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::{Card, Entry, Lpm};
use crate::hint::prefetch;
use crate::lpm::default_hop::{self, DefaultHop};
use crate::pages::Cut;
use crate::{Addr, Hop};

pub(super) use writer::exported;

/// The registry's line for IPv4.
pub const ENTRY: Entry<u32> = Entry { card: &CARD, build: writer::build::<u32> };

/// The registry's line for IPv6.
pub const ENTRY_6: Entry<u128> = Entry { card: &CARD_6, build: writer::build::<u128> };

const CARD: Card = Card {
    name: "miht",
    paper: "Lin et al.: Multi-Index Hybrid Trie, as compared with in Bloomfwd",
    help: "B+-tree of k-bit keys over priority tries; updates in place",
    max_hop: Hop::MAX.0,
    max_len: 32,
    max_prefixes: Some(DNODES as u64 / 2),
    options: &[("k", "16", "bits of a key, 8 to 24")],
};

const CARD_6: Card =
    Card { name: "miht6", max_len: 128, options: &[("k", "32", "bits of a key, 8 to 32")], ..CARD };

/// What the readers share.
///
/// - I1: what can be reached is not written, but for the hops of d-nodes and the
///   tries of external i-nodes; what could be is not written until every thread
///   that was online when it no longer could has quiesced.
/// - I2: the keys of an i-node ascend; all external i-nodes are equally deep.
/// - I3: of an unused place, the child is the last one used; in an external
///   i-node there is none, unless the last key used is all ones itself.
struct Miht<A> {
    /// The root i-node, and how many levels there are.
    root: AtomicU64,
    /// PT[-1].
    keyless: AtomicU32,
    inodes: Cut<AtomicU32>,
    dnodes: Cut<AtomicU64>,
    k: u8,
    default: DefaultHop,
    /// I-nodes and d-nodes that have ever been used.
    touched: [Arc<AtomicU32>; 2],
    family: PhantomData<A>,
}

/// A prefix in a priority trie.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Item<A> {
    suffix: A,
    len: u8,
    hop: Hop,
}

impl<A: Addr> Item<A> {
    #[inline(always)]
    fn covers(&self, suffix: A) -> bool {
        self.suffix.common(suffix) >= self.len
    }

    fn is_of(&self, other: &Self) -> bool {
        (self.suffix, self.len) == (other.suffix, other.len)
    }
}

#[derive(Clone, Copy, Debug)]
struct Dnode<A> {
    item: Item<A>,
    priority: bool,
    child: [u32; 2],
}

impl<A: Addr> Lpm<A> for Miht<A> {
    fn lookup(&self, dst: A) -> Hop {
        let trie = self.trie_of(key(dst, self.k));
        let mut hop = self.walk(trie, suffix(dst, self.k));
        if hop.is_none() {
            hop = self.walk(self.keyless.load(Ordering::Acquire), dst);
        }
        self.default.or(hop.0)
    }

    fn lookup_batch(&self, dsts: &[A], hops: &mut [Hop]) {
        assert_eq!(dsts.len(), hops.len());
        let default = self.default.get();
        for (dsts, hops) in dsts.chunks(BURST).zip(hops.chunks_mut(BURST)) {
            self.burst(dsts, hops);
            default_hop::fill(hops, default);
        }
    }

    fn bytes(&self) -> usize {
        let [inodes, dnodes] = [0, 1].map(|i| self.touched[i].load(Ordering::Relaxed) as usize);
        inodes * 2 * order::<A>() * size_of::<u32>() + dnodes * words_of::<A>() * size_of::<u64>()
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let [inodes, dnodes] = [0, 1].map(|i| self.touched[i].load(Ordering::Relaxed).into());
        let levels = self.root.load(Ordering::Relaxed) >> 32;
        vec![("i-nodes", inodes), ("d-nodes", dnodes), ("levels", levels)]
    }
}

impl<A: Addr> Miht<A> {
    /// The priority trie of `key`.
    fn trie_of(&self, key: u32) -> u32 {
        let (mut at, levels) = self.top();
        for _ in 1..levels {
            at = self.child(at, self.search(at, key));
        }
        if levels == 0 { NONE } else { self.external(at, key) }
    }

    /// Root and levels; bounded, so that nobody is led in a circle.
    #[inline(always)]
    fn top(&self) -> (u32, u32) {
        let root = self.root.load(Ordering::Acquire);
        (root as u32, ((root >> 32) as u32).min(MAX_LEVELS))
    }

    #[inline(always)]
    fn external(&self, at: u32, key: u32) -> u32 {
        let i = self.search(at, key);
        let child = self.child(at, i);
        if self.key(at, i) == key { child } else { NONE }
    }

    /// The last place of an i-node whose key is not greater; 0 if all are.
    #[inline(always)]
    fn search(&self, at: u32, key: u32) -> usize {
        let keys = self.inode(at);
        let (mut i, mut half) = (0, order::<A>() / 2);
        while half > 0 {
            let there = keys[(i + half) % keys.len()].load(Ordering::Relaxed);
            i += if there <= key { half } else { 0 };
            half /= 2;
        }
        i
    }

    /// The hop of the longest prefix in a priority trie that covers `suffix`.
    fn walk(&self, mut at: u32, suffix: A) -> Hop {
        let mut best = Hop::NONE;
        for depth in 0..=A::WIDTH {
            if at == NONE {
                break;
            }
            let node = self.dnode(at);
            if node.item.covers(suffix) {
                best = node.item.hop;
                if node.priority {
                    break;
                }
            }
            at = node.child[bit(suffix, depth)];
        }
        best
    }

    #[inline(always)]
    fn burst(&self, dsts: &[A], hops: &mut [Hop]) {
        let mut at = self.tries_of(dsts);
        let (mut suffixes, mut list) = ([A::default(); BURST], [0; BURST]);
        let mut count = 0;
        for (i, (&dst, hop)) in dsts.iter().zip(hops.iter_mut()).enumerate() {
            (suffixes[i], *hop) = (suffix(dst, self.k), Hop::NONE);
            list[count % BURST] = i as u8;
            count += usize::from(at[i] != NONE);
        }
        self.walk_all(&suffixes, &mut at, &mut list, count, hops);
        let (keyless, mut count) = (self.keyless.load(Ordering::Acquire), 0);
        if keyless == NONE {
            return;
        }
        for (i, (&dst, hop)) in dsts.iter().zip(hops.iter()).enumerate() {
            (suffixes[i], at[i]) = (dst, keyless);
            list[count % BURST] = i as u8;
            count += usize::from(hop.is_none());
        }
        self.walk_all(&suffixes, &mut at, &mut list, count, hops);
    }

    /// The B⁺-tree for all, level by level.
    #[inline(always)]
    fn tries_of(&self, dsts: &[A]) -> [u32; BURST] {
        let (root, levels) = self.top();
        if levels == 0 {
            return [NONE; BURST];
        }
        let mut at = [root; BURST];
        for _ in 1..levels {
            for (at, &dst) in at.iter_mut().zip(dsts) {
                *at = self.child(*at, self.search(*at, key(dst, self.k)));
                prefetch(self.key_word(*at, 0));
            }
        }
        for (at, &dst) in at.iter_mut().zip(dsts) {
            *at = self.external(*at, key(dst, self.k));
            prefetch(self.word(*at, 0));
        }
        at
    }

    /// Priority tries for those listed, bit by bit.
    #[inline(always)]
    fn walk_all(
        &self,
        suffixes: &[A; BURST],
        at: &mut [u32; BURST],
        list: &mut [u8; BURST],
        mut count: usize,
        hops: &mut [Hop],
    ) {
        for depth in 0..=A::WIDTH {
            let mut left = 0;
            for k in 0..count {
                let i = usize::from(list[k]);
                let node = self.dnode(at[i]);
                let covers = node.item.covers(suffixes[i]);
                hops[i] = std::hint::select_unpredictable(covers, node.item.hop, hops[i]);
                at[i] = node.child[bit(suffixes[i], depth)];
                prefetch(self.word(at[i], 0));
                list[left] = i as u8;
                left += usize::from(at[i] != NONE && !(covers && node.priority));
            }
            count = left;
            if count == 0 {
                break;
            }
        }
    }

    #[inline(always)]
    fn dnode(&self, at: u32) -> Dnode<A> {
        let words = self.dnode_words(at);
        let [children, tag] = [0, 1].map(|i| words[i].load(Ordering::Relaxed));
        let child = [children as u32, (children >> 32) as u32];
        if A::WIDTH == 32 {
            let (hop, suffix) = (tag as u32 & !PRIORITY, (tag >> 32) as u32);
            let (suffix, len) = (A::from_u128(u128::from(suffix & !0xff)), suffix as u8);
            let item = Item { suffix, len, hop: Hop(hop) };
            return Dnode { item, priority: tag as u32 & PRIORITY != 0, child };
        }
        let [high, low] = [2, 3].map(|i| words[i].load(Ordering::Relaxed));
        let suffix = A::from_u128(u128::from(high) << 64 | u128::from(low));
        let item = Item { suffix, len: (tag >> 32) as u8, hop: Hop(tag as u32) };
        Dnode { item, priority: tag >> 63 != 0, child }
    }

    /// The words of a d-node.
    fn words(node: &Dnode<A>) -> [u64; 4] {
        let Item { suffix, len, hop } = node.item;
        let (wide, priority) = (suffix.to_u128(), u64::from(node.priority));
        let children = u64::from(node.child[0]) | u64::from(node.child[1]) << 32;
        let tag = u64::from(hop.0) | u64::from(len) << 32;
        if A::WIDTH == 32 {
            debug_assert_eq!(wide & 0xff, 0, "k leaves 24 bits");
            return [children, tag | priority << 31 | (wide as u64) << 32, 0, 0];
        }
        [children, tag | priority << 63, (wide >> 64) as u64, wide as u64]
    }

    #[inline(always)]
    fn key(&self, at: u32, i: usize) -> u32 {
        self.key_word(at, i).load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn child(&self, at: u32, i: usize) -> u32 {
        self.key_word(at, order::<A>() + i).load(Ordering::Acquire)
    }

    /// Masked to the array: whatever a reference says, the read stays inside.
    #[inline(always)]
    fn key_word(&self, at: u32, i: usize) -> &AtomicU32 {
        let inode = self.inode(at);
        &inode[i % inode.len()]
    }

    /// Masked, as `key_word`.
    #[inline(always)]
    fn word(&self, at: u32, i: usize) -> &AtomicU64 {
        &self.dnode_words(at)[i]
    }

    /// The words of an i-node: keys, then children. Cut, as all: any reference has some.
    #[inline(always)]
    fn inode(&self, at: u32) -> &[AtomicU32] {
        const { assert!(order::<u32>() == 16 && order::<u128>() == 32) };
        let at = at as usize;
        if A::WIDTH == 32 { self.inodes.block::<32>(at) } else { self.inodes.block::<64>(at) }
    }

    /// The words of a d-node, likewise.
    #[inline(always)]
    fn dnode_words(&self, at: u32) -> &[AtomicU64] {
        const { assert!(words_of::<u32>() == 2 && words_of::<u128>() == 4) };
        let at = at as usize;
        if A::WIDTH == 32 { self.dnodes.block::<2>(at) } else { self.dnodes.block::<4>(at) }
    }
}

/// The first `k` bits.
#[inline(always)]
fn key<A: Addr>(dst: A, k: u8) -> u32 {
    dst.bits(0, k)
}

/// What follows the first `k` bits, from the top, zeros behind.
#[inline(always)]
fn suffix<A: Addr>(dst: A, k: u8) -> A {
    A::from_u128(dst.to_u128() << k)
}

/// Bit `depth`; 0 behind the last.
#[inline(always)]
fn bit<A: Addr>(suffix: A, depth: u8) -> usize {
    if depth < A::WIDTH { suffix.bit(depth) } else { 0 }
}

/// Keys in an i-node: the papers' m.
const fn order<A: Addr>() -> usize {
    if A::WIDTH == 32 { 16 } else { 32 }
}

const fn words_of<A: Addr>() -> usize {
    if A::WIDTH == 32 { 2 } else { 4 }
}

/// No trie, no child.
const NONE: u32 = u32::MAX;

/// The bit beside an IPv4 hop that marks a priority node.
const PRIORITY: u32 = 1 << 31;

/// More than a B⁺-tree of 2^32 keys can have.
const MAX_LEVELS: u32 = 12;

/// The most d-nodes for which address space is reserved; a power of two.
const DNODES: usize = if cfg!(miri) { 1 << 12 } else { 1 << 25 };

/// The most i-nodes for which address space is reserved; a power of two.
const INODES: usize = if cfg!(miri) { 1 << 9 } else { 1 << 20 };

/// Nodes of each kind that may wait for readers.
const NODES_IN_LIMBO: usize = 1 << 19;

const BURST: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    crate::lpm::oracle::conformance!(u32, ENTRY);
    crate::lpm::oracle::conformance!(ipv6: u128, ENTRY_6);
    crate::lpm::oracle::conformance!(short_keys: u32, ENTRY, "k" = "8");
    crate::lpm::oracle::conformance!(long_keys: u32, ENTRY, "k" = "24");
    crate::lpm::oracle::conformance!(ipv6_of_9: u128, ENTRY_6, "k" = "9");
}
