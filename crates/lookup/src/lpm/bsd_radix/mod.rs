//! The BSD radix tree: a PATRICIA trie of addresses, with the shorter prefixes
//! found on the way back.
//!
//! ```text
//!    branch   tests one bit: left on 0, right on 1; bits between are skipped
//!             masks: the lengths (parent's bit < length <= own bit) of prefixes
//!             below, so that a search that fails knows where to look again
//!    leaf     an address, a length, a hop; further leaves of this address
//!             behind it, longest first
//!
//!                 IPv4, 16 B a node                 IPv6, 32 B a node
//!    branch    [ left | right ] [ masks | bit ]     [ left | right ] [ bit ] [ masks × 128 ]
//!    leaf      [ hop | next ]   [ address | len ]   [ hop | next ]   [ len ] [ address × 128 ]
//!    left, right, next: bit 31 = leaf, bits 30..0 the node's number; all ones: none
//! ```
//!
//! | operation | cost                                                            |
//! |-----------|-----------------------------------------------------------------|
//! | lookup    | a dependent read a branch, 20-25 in a full table; then a search for |
//! |           | each mask on the way back until one fits                        |
//! | build     | an insert a route                                               |
//! | update    | copies the path, 20-25 nodes; one store turns the root          |
//! | memory    | two nodes a prefix                                              |
//!
//! Source: Sklower, *A Tree-Based Packet Routing Table for Berkeley Unix*, USENIX
//! 1991, as DXR compares with it. We differ: BSD's tree is locked or changed
//! under its readers, ours is copied along the path of a change, so a reader sees
//! all changes of one update or none; the way back is a stack of the reader, not
//! a parent pointer; a set of lengths takes the place of the list of masks. A
//! burst goes down in groups, or as coroutines, reading ahead (option `batch`).

mod writer;

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::{Card, Entry, Lpm, Options, Refusal};
use crate::hint::prefetch;
use crate::interleave::{fetch, grouped, interleave};
use crate::pages::Cut;
use crate::{Addr, Hop};

/// The registry's line for IPv4.
pub const ENTRY: Entry<u32> = entry();

/// The registry's line for IPv6.
pub const ENTRY_6: Entry<u128> = entry();

const fn entry<A: Addr>() -> Entry<A> {
    Entry { card: if A::WIDTH == 32 { &CARD } else { &CARD_6 }, build: writer::build::<A> }
}

const CARD: Card = Card {
    name: "bsd-radix",
    paper: "Sklower: A Tree-Based Packet Routing Table for Berkeley Unix (1991)",
    help: "PATRICIA trie with backtracking, as in BSD kernels; updates in place",
    max_hop: Hop::MAX.0,
    max_len: 32,
    max_prefixes: Some(MAX_NODES as u64 / 2),
    options: &[("batch", "group", "group, async or scalar: how the searches of a burst overlap")],
};

const CARD_6: Card = Card { max_len: 128, ..CARD };

/// What the readers share.
///
/// - I1: nodes that can be reached from a root that was stored are not written
///   until every thread that was online when they could no longer be reached
///   has quiesced.
/// - I2: bits ascend from branch to branch; a branch has two children.
/// - I3: a prefix stored below a branch whose bit is at least its length has its
///   length in the masks of the highest such branch on its path, and nowhere else.
/// - I4: all addresses below a branch agree in the bits before its bit.
struct BsdRadix<A> {
    nodes: Cut<AtomicU64>,
    root: AtomicU32,
    /// Nodes that have ever been used.
    touched: Arc<AtomicU32>,
    batch: Batch,
    family: PhantomData<A>,
}

/// How the searches of a burst overlap.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Batch {
    /// Down in groups; those that must look back do so one by one.
    Group,
    /// As coroutines, down and back.
    Async,
    /// Not beyond what the processor does by itself.
    Scalar,
}

impl Batch {
    fn choose(options: &Options, card: &'static Card) -> Result<Batch, Refusal> {
        let by_name = |name: &str| match name {
            "group" => Some(Batch::Group),
            "async" => Some(Batch::Async),
            "scalar" => Some(Batch::Scalar),
            _ => None,
        };
        let name: String = options.get(card, "batch", |name: &String| by_name(name).is_some())?;
        Ok(by_name(&name).expect("it was just looked at"))
    }
}

/// Names a node; see the header for its bits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Ref(u32);

impl Ref {
    const NONE: Ref = Ref(u32::MAX);

    #[inline(always)]
    fn leaf(number: u32) -> Ref {
        Ref(number | LEAF)
    }

    #[inline(always)]
    fn is_leaf(self) -> bool {
        self.0 & LEAF != 0
    }

    #[inline(always)]
    fn number(self) -> u32 {
        self.0 & !LEAF
    }
}

#[derive(Clone, Copy)]
struct Branch {
    child: [Ref; 2],
    bit: u8,
    /// Bit n stands for length n.
    masks: u128,
}

#[derive(Clone, Copy)]
struct Leaf<A> {
    addr: A,
    len: u8,
    hop: Hop,
    next: Ref,
}

impl<A: Addr> Lpm<A> for BsdRadix<A> {
    fn lookup(&self, dst: A) -> Hop {
        self.search(Ref(self.root.load(Ordering::Acquire)), dst)
    }

    fn lookup_batch(&self, dsts: &[A], hops: &mut [Hop]) {
        assert_eq!(dsts.len(), hops.len());
        let root = Ref(self.root.load(Ordering::Acquire));
        match self.batch {
            Batch::Group => self.group(root, dsts, hops),
            Batch::Async => {
                let task = |i: usize| self.search_in_turns(root, dsts[i]);
                interleave::<TURNS, _>(dsts.len(), task, |i, hop| hops[i] = hop);
            }
            Batch::Scalar => {
                for (&dst, hop) in dsts.iter().zip(hops) {
                    *hop = self.search(root, dst);
                }
            }
        }
    }

    fn bytes(&self) -> usize {
        self.touched.load(Ordering::Relaxed) as usize * words_of::<A>() * size_of::<u64>()
    }
}

impl<A: Addr> BsdRadix<A> {
    /// Down to a leaf; then back, to each prefix that may cover `dst`.
    fn search(&self, root: Ref, dst: A) -> Hop {
        let mut way: [Ref; 128] = [Ref::NONE; 128];
        let (mut at, mut depth) = (root, 0);
        while !at.is_leaf() && depth < way.len() {
            way[depth] = at;
            depth += 1;
            at = self.child(at, dst);
        }
        if let Some(hop) = self.match_leaf(at, dst) {
            return hop;
        }
        for &branch in way[..depth].iter().rev() {
            let mut masks = self.wide(branch);
            while masks != 0 {
                let len = masks.ilog2() as u8; // longest first
                masks &= !(1 << len);
                if let Some(hop) = self.search_exactly(branch, dst.and(A::mask(len)), len) {
                    return hop;
                }
            }
        }
        Hop::NONE
    }

    /// The hop of the prefix `addr`/`len`, if it is below `at`.
    fn search_exactly(&self, mut at: Ref, addr: A, len: u8) -> Option<Hop> {
        for _ in 0..A::WIDTH {
            if at.is_leaf() {
                break;
            }
            at = self.child(at, addr);
        }
        let same = |leaf: &Leaf<A>| leaf.len == len && leaf.addr == addr;
        self.chain(at).find(same).map(|leaf| leaf.hop)
    }

    /// The hop of the longest prefix among the leaves of one address that covers
    /// `dst`.
    #[inline(always)]
    fn match_leaf(&self, at: Ref, dst: A) -> Option<Hop> {
        let covers = |leaf: &Leaf<A>| dst.and(A::mask(leaf.len)) == leaf.addr;
        self.chain(at).find(covers).map(|leaf| leaf.hop)
    }

    /// The leaves behind `at`, it included.
    #[inline(always)]
    fn chain(&self, mut at: Ref) -> impl Iterator<Item = Leaf<A>> + '_ {
        // Bounded, so that nobody can be led in a circle.
        (0..=A::WIDTH).map_while(move |_| {
            let leaf = (at != Ref::NONE && at.is_leaf()).then(|| self.leaf(at))?;
            at = leaf.next;
            Some(leaf)
        })
    }

    fn group(&self, root: Ref, dsts: &[A], hops: &mut [Hop]) {
        let step = |dst: A, at: &mut Ref| {
            if at.is_leaf() {
                return false;
            }
            *at = self.child(*at, dst);
            prefetch(self.word(*at, 0));
            true
        };
        grouped::<GROUP, _, _>(
            dsts,
            |_| root,
            step,
            |i, leaf| {
                let found = self.match_leaf(leaf, dsts[i]);
                // The way is in the cache now; the way back needs a stack.
                hops[i] = found.unwrap_or_else(|| self.search(root, dsts[i]));
            },
        );
    }

    /// `search`, with a turn for the others before each node is read.
    async fn search_in_turns(&self, root: Ref, dst: A) -> Hop {
        let mut way: [Ref; 128] = [Ref::NONE; 128];
        let (mut at, mut depth) = (root, 0);
        while !at.is_leaf() && depth < way.len() {
            way[depth] = at;
            depth += 1;
            at = self.child(at, dst);
            fetch(self.word(at, 0)).await;
        }
        if let Some(hop) = self.match_leaf(at, dst) {
            return hop;
        }
        for &branch in way[..depth].iter().rev() {
            let mut masks = self.wide(branch);
            while masks != 0 {
                let len = masks.ilog2() as u8; // longest first
                masks &= !(1 << len);
                let (mut at, addr) = (branch, dst.and(A::mask(len)));
                for _ in 0..A::WIDTH {
                    if at.is_leaf() {
                        break;
                    }
                    at = self.child(at, addr);
                    fetch(self.word(at, 0)).await;
                }
                let same = |leaf: &Leaf<A>| leaf.len == len && leaf.addr == addr;
                if let Some(leaf) = self.chain(at).find(same) {
                    return leaf.hop;
                }
            }
        }
        Hop::NONE
    }

    #[inline(always)]
    fn child(&self, branch: Ref, dst: A) -> Ref {
        let children = self.word(branch, 0).load(Ordering::Relaxed);
        let side = dst.bit(self.small(branch) & (A::WIDTH - 1)); // a bit of the address, whatever is read
        Ref((children >> (32 * side)) as u32)
    }

    fn branch(&self, at: Ref) -> Branch {
        let children = self.word(at, 0).load(Ordering::Relaxed);
        let child = [Ref(children as u32), Ref((children >> 32) as u32)];
        Branch { child, bit: self.small(at), masks: self.wide(at) }
    }

    #[inline(always)]
    fn leaf(&self, at: Ref) -> Leaf<A> {
        let word = self.word(at, 0).load(Ordering::Relaxed);
        Leaf {
            addr: A::from_u128(self.wide(at)),
            len: self.small(at).min(A::WIDTH), // a length, whatever is read
            hop: Hop(word as u32),
            next: Ref((word >> 32) as u32),
        }
    }

    /// A branch's bit, a leaf's length.
    #[inline(always)]
    fn small(&self, at: Ref) -> u8 {
        let word = self.word(at, 1).load(Ordering::Relaxed);
        (if A::WIDTH == 32 { word >> 32 } else { word }) as u8
    }

    /// A branch's masks, a leaf's address.
    #[inline(always)]
    fn wide(&self, at: Ref) -> u128 {
        if A::WIDTH == 32 {
            return (self.word(at, 1).load(Ordering::Relaxed) as u32).into();
        }
        let [high, low] = [2, 3].map(|i| self.word(at, i).load(Ordering::Relaxed));
        u128::from(high) << 64 | u128::from(low)
    }

    /// Masked to the array: whatever a reference says, the read stays inside.
    #[inline(always)]
    fn word(&self, at: Ref, i: usize) -> &AtomicU64 {
        const { assert!(words_of::<u32>() == 2 && words_of::<u128>() == 4) };
        let at = at.number() as usize;
        if A::WIDTH == 32 { &self.nodes.block::<2>(at)[i] } else { &self.nodes.block::<4>(at)[i] }
    }
}

const fn words_of<A: Addr>() -> usize {
    if A::WIDTH == 32 { 2 } else { 4 }
}

const LEAF: u32 = 1 << 31;

/// The most nodes for which address space is reserved; twice the prefixes, and what an
/// update copies.
const MAX_NODES: u32 = if cfg!(miri) { 1 << 12 } else { 1 << 26 };

/// Searches that go down together.
const GROUP: usize = 32;

/// Coroutines that take turns.
const TURNS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    crate::lpm::oracle::conformance!(u32, ENTRY);
    crate::lpm::oracle::conformance!(ipv6: u128, ENTRY_6);
    crate::lpm::oracle::conformance!(in_turns: u32, ENTRY, "batch" = "async");
    crate::lpm::oracle::conformance!(ipv6_in_turns: u128, ENTRY_6, "batch" = "async");
    crate::lpm::oracle::conformance!(one_by_one: u32, ENTRY, "batch" = "scalar");
}
