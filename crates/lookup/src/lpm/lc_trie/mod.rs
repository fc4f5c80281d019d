//! LC-trie: a trie compressed in level (one node of 2^b children for b levels)
//! and in path (bits that all routes below share are skipped).
//!
//! ```text
//!    nodes    [ n | n n n n n … n | n n | … ]      8 B each, children side by side
//!    routes   [ - | r | r | r | … ]                IPv4 16 B, IPv6 32 B
//!
//!    node     bits 0..32: place; 32..40: skip; 40..48: branch
//!             branch > 0: after `skip` bits, the next `branch` bits choose among
//!             2^branch children from `place` on; branch = 0: route `place`
//!    route    address, length, hop, and the number of the longest route around
//!             it: `up`. Route 0 is ::/0 of hop 0, around all others
//!
//!    IPv4     [ address | hop ] [ up | length ]
//!    IPv6     [ address × 128 ] [ hop | up ] [ length ]
//! ```
//!
//! | operation | cost                                                             |
//! |-----------|------------------------------------------------------------------|
//! | lookup    | a read for the root, 1-4 nodes, a route, and those around it     |
//! |           | until one fits: skipped bits were not compared                   |
//! | build     | O(n log n) comparisons                                           |
//! | update    | another hop: one store; /0: one store; else built anew           |
//! | memory    | 16 (32) bytes a route, 8 a node                                  |
//!
//! Source: Nilsson, Karlsson, *IP-Address Lookup Using LC-Tries*, JSAC 1999: fill
//! factor (`fill`), fixed branch of the root (`root`). We differ: the paper packs
//! a node into 32 bits, 20 of them for the place, which ends at a million nodes;
//! ours has 64. The paper keeps leaves (base vector) and routes around them
//! (prefix vector) apart, we keep all routes in one array; so an empty slot names
//! the longest route around it, where the paper must take a neighbour. A burst
//! goes down level by level.

mod builder;

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use self::builder::{Builder, Route};
use super::{Applied, Card, Entry, Lpm, Options, Refusal, Writer};
use crate::hint::{prefetch, prefetch_either};
use crate::lpm::default_hop::{self, DefaultHop};
use crate::pages::Pages;
use crate::rib::Change;
use crate::sync::Domain;
use crate::{Addr, Hop, Prefix, Rib};

/// The registry's line for IPv4.
pub const ENTRY: Entry<u32> = Entry { card: &CARD, build: build::<u32> };

/// The registry's line for IPv6.
pub const ENTRY_6: Entry<u128> = Entry { card: &CARD_6, build: build::<u128> };

const CARD: Card = Card {
    name: "lc-trie",
    paper: "Nilsson, Karlsson: IP-Address Lookup Using LC-Tries (1999)",
    help: "level- and path-compressed trie; hops change in place, a new prefix rebuilds the table",
    max_hop: Hop::MAX.0,
    max_len: 32,
    max_prefixes: Some(MAX_ROUTES),
    options: &[
        ("fill", "0.5", "share of a node's children that must not be empty, 0.1 to 1"),
        ("root", "16", "bits that the root branches on, 1 to 24"),
    ],
};

const CARD_6: Card = Card { max_len: 128, ..CARD };

/// Never changed after `build`, but for hops.
///
/// - I1: `nodes[0]` is the root; a node's children exist, or its route does.
/// - I2: a route's `up` is less than its own number, and 0 only around those that
///   no other route is around.
/// - I3: the route of a leaf and those around it hold every route that covers an
///   address that leads there.
struct LcTrie<A> {
    nodes: Pages<u64>,
    routes: Pages<AtomicU64>,
    default: DefaultHop,
    family: PhantomData<A>,
}

/// A node as a number.
#[derive(Clone, Copy)]
struct Node(u64);

impl Node {
    fn new(place: usize, skip: u8, branch: u8) -> Self {
        Node(place as u64 | u64::from(skip) << 32 | u64::from(branch) << 40)
    }

    #[inline(always)]
    fn place(self) -> usize {
        self.0 as u32 as usize
    }

    #[inline(always)]
    fn skip(self) -> u8 {
        (self.0 >> 32) as u8
    }

    #[inline(always)]
    fn branch(self) -> u8 {
        (self.0 >> 40) as u8
    }
}

impl<A: Addr> Lpm<A> for LcTrie<A> {
    fn lookup(&self, dst: A) -> Hop {
        let mut at = self.leaf(dst);
        while !self.covers(at, dst) {
            at = self.up(at); // ends: route 0 covers everything
        }
        let hop = self.hop(at);
        self.default.or(hop)
    }

    fn lookup_batch(&self, dsts: &[A], hops: &mut [Hop]) {
        assert_eq!(dsts.len(), hops.len());
        let default = self.default.get();
        for (dsts, hops) in dsts.chunks(BURST).zip(hops.chunks_mut(BURST)) {
            let found = self.burst(dsts);
            for (hop, &at) in hops.iter_mut().zip(&found) {
                let found = self.hop(at as usize);
                *hop = default_hop::or(found, default);
            }
        }
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.nodes) + size_of_val(&*self.routes)
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let routes = self.routes.len() / words_of::<A>() - 1;
        vec![("nodes", self.nodes.len() as u64), ("routes", routes as u64)]
    }
}

impl<A: Addr> LcTrie<A> {
    /// The route that the search for `dst` ends at.
    fn leaf(&self, dst: A) -> usize {
        let (mut at, mut from) = (0, 0);
        loop {
            let node = Node(self.nodes[at]);
            if node.branch() == 0 {
                return node.place();
            }
            from += node.skip();
            at = node.place() + window(dst, from, node.branch());
            from += node.branch();
        }
    }

    /// The longest routes that cover each of up to [`BURST`] addresses: all go
    /// down together, then those that have missed look around together.
    #[inline(always)]
    fn burst(&self, dsts: &[A]) -> [u32; BURST] {
        let (mut at, mut from) = ([0_u32; BURST], [0_u8; BURST]);
        let mut list: [u8; BURST] = std::array::from_fn(|i| i as u8);
        let mut count = dsts.len();
        while count > 0 {
            let mut left = 0;
            for k in 0..count {
                let i = usize::from(list[k]);
                let node = Node(self.nodes[at[i] as usize]);
                let start = from[i] + node.skip();
                // A leaf has no bits to take: its place is the route.
                at[i] = (node.place() + window(dsts[i], start, node.branch())) as u32;
                from[i] = start + node.branch();
                let inner = node.branch() != 0;
                self.prefetch(inner, at[i] as usize);
                list[left] = i as u8;
                left += usize::from(inner);
            }
            count = left;
        }
        self.look_around(dsts, &mut at);
        at
    }

    #[inline(always)]
    fn look_around(&self, dsts: &[A], at: &mut [u32; BURST]) {
        let mut list: [u8; BURST] = std::array::from_fn(|i| i as u8);
        let mut count = dsts.len();
        while count > 0 {
            let mut left = 0;
            for k in 0..count {
                let i = usize::from(list[k]);
                let route = at[i] as usize;
                let fits = self.covers(route, dsts[i]);
                let next = std::hint::select_unpredictable(fits, route, self.up(route));
                at[i] = next as u32;
                prefetch(&self.routes[next * words_of::<A>()]);
                list[left] = i as u8;
                left += usize::from(!fits);
            }
            count = left;
        }
    }

    #[inline(always)]
    fn prefetch(&self, inner: bool, at: usize) {
        // One of the two indices may be beyond its array.
        let node = &self.nodes[if inner { at } else { 0 }];
        let route = &self.routes[if inner { 0 } else { at * words_of::<A>() }];
        prefetch_either(inner, node, route);
    }

    #[inline(always)]
    fn covers(&self, route: usize, dst: A) -> bool {
        self.address(route).common(dst) >= self.len(route)
    }

    #[inline(always)]
    fn address(&self, route: usize) -> A {
        let high = self.word(route, 0);
        if A::WIDTH == 32 {
            return A::from_u128(u128::from(high as u32));
        }
        A::from_u128(u128::from(high) << 64 | u128::from(self.word(route, 1)))
    }

    #[inline(always)]
    fn len(&self, route: usize) -> u8 {
        if A::WIDTH == 32 { (self.word(route, 1) >> 32) as u8 } else { self.word(route, 3) as u8 }
    }

    #[inline(always)]
    fn up(&self, route: usize) -> usize {
        let up = if A::WIDTH == 32 { self.word(route, 1) } else { self.word(route, 2) >> 32 };
        up as u32 as usize
    }

    #[inline(always)]
    fn hop(&self, route: usize) -> u32 {
        if A::WIDTH == 32 { (self.word(route, 0) >> 32) as u32 } else { self.word(route, 2) as u32 }
    }

    fn set_hop(&self, route: usize, hop: Hop) {
        let (i, shift) = if A::WIDTH == 32 { (0, 32) } else { (2, 0) };
        let old = self.word(route, i) & !(u64::from(u32::MAX) << shift);
        let place = &self.routes[route * words_of::<A>() + i];
        place.store(old | u64::from(hop.0) << shift, Ordering::Release);
    }

    #[inline(always)]
    fn word(&self, route: usize, i: usize) -> u64 {
        self.routes[route * words_of::<A>() + i].load(Ordering::Relaxed)
    }

    /// The route of exactly this prefix. It is on the way from the leaf of its
    /// first address to route 0 (I3).
    fn find(&self, prefix: Prefix<A>) -> Option<usize> {
        let mut at = self.leaf(prefix.first());
        while at != 0 {
            if self.len(at) == prefix.len() && self.address(at) == prefix.first() {
                return Some(at);
            }
            at = self.up(at);
        }
        None
    }
}

struct LcTrieWriter<A>(Arc<LcTrie<A>>);

impl<A: Addr> Writer<A> for LcTrieWriter<A> {
    fn table(&self) -> Arc<dyn Lpm<A>> {
        self.0.clone()
    }

    fn apply(&mut self, rib: &Rib<A>, changes: &[Change<A>]) -> Result<Applied, Refusal> {
        for hop in changes.iter().filter_map(|change| change.hop) {
            card::<A>().admit_hop(hop)?;
        }
        for prefix in changes.iter().map(|change| change.prefix) {
            let hop = rib.get(&prefix);
            if prefix.len() == 0 {
                self.0.default.set(hop.unwrap_or(Hop::NONE));
                continue;
            }
            match (self.0.find(prefix), hop) {
                (None, None) => {}
                (Some(route), Some(hop)) => self.0.set_hop(route, hop),
                _ => return Ok(Applied::Rebuild),
            }
        }
        Ok(Applied::InPlace)
    }
}

fn build<A: Addr>(
    rib: &Rib<A>,
    options: &Options,
    _: &Arc<Domain>,
) -> Result<Box<dyn Writer<A>>, Refusal> {
    let card = card::<A>();
    options.check(card)?;
    let fill: f64 = options.get(card, "fill", |fill| (0.1..=1.0).contains(fill))?;
    let root: u8 = options.get(card, "root", |root| (1..=24).contains(root))?;
    if rib.len() as u64 > MAX_ROUTES {
        return Err(card.refuse(format!("{} prefixes exceed {MAX_ROUTES}", rib.len())));
    }
    rib.iter().try_for_each(|(_, hop)| card.admit_hop(hop))?;
    let builder = Builder::new(rib, fill, root);
    let too_large = || card.refuse(format!("more than {} nodes", u32::MAX));
    let nodes = builder.grow().ok_or_else(too_large)?;
    let no_memory = |error: std::io::Error| card.refuse(format!("no memory: {error}"));
    let words = nodes.len() + builder.routes.len() * words_of::<A>();
    card.admit_bytes(words * size_of::<u64>())?;
    let mut table = LcTrie {
        nodes: Pages::zeroed(nodes.len()).map_err(no_memory)?,
        routes: Pages::zeroed(builder.routes.len() * words_of::<A>()).map_err(no_memory)?,
        default: DefaultHop::of(rib),
        family: PhantomData,
    };
    table.nodes.as_mut_slice().copy_from_slice(&nodes);
    let words = builder.routes.iter().flat_map(Route::words);
    table.routes.iter().zip(words).for_each(|(place, word)| place.store(word, Ordering::Relaxed));
    Ok(Box::new(LcTrieWriter(Arc::new(table))))
}

/// The `len` bits of `dst` after the first `from`; none are 0.
#[inline(always)]
fn window<A: Addr>(dst: A, from: u8, len: u8) -> usize {
    if A::WIDTH == 32 {
        return ((dst.to_u128() as u32) << (from & 31) >> 1 >> (31 - len)) as usize;
    }
    let shifted = (dst.to_u128() << (from & 127) >> 64) as u64;
    (shifted >> 1 >> (63 - len)) as usize
}

fn card<A: Addr>() -> &'static Card {
    if A::WIDTH == 32 { &CARD } else { &CARD_6 }
}

const fn words_of<A: Addr>() -> usize {
    if A::WIDTH == 32 { 2 } else { 4 }
}

/// A route's number has 32 bits.
const MAX_ROUTES: u64 = u32::MAX as u64 - 1;

const MAX_BRANCH: u8 = 24;

const BURST: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    crate::lpm::oracle::conformance!(u32, ENTRY);
    crate::lpm::oracle::conformance!(ipv6: u128, ENTRY_6);
    crate::lpm::oracle::conformance!(full: u32, ENTRY, "fill" = "1", "root" = "1");
    crate::lpm::oracle::conformance!(loose: u128, ENTRY_6, "fill" = "0.25", "root" = "8");

    #[test]
    fn windows_to_the_last_bit() {
        assert_eq!(window(0x89ab_cdef_u32, 4, 8), 0x9a);
        assert_eq!(window(0x89ab_cdef_u32, 32, 0), 0);
        assert_eq!(window(0x89ab_cdef_u32, 8, 24), 0xab_cdef);
        assert_eq!(window(u128::MAX - 6, 124, 4), 9);
        assert_eq!(window(u128::MAX, 128, 0), 0);
    }

    #[test]
    fn levels_and_paths_are_compressed() {
        // Sixteen /12s below 10.0.0.0/8: with a root of one bit, seven skipped
        // behind it, and one node for the four bits that differ.
        let route = |i: u32| (Prefix::covering(0x0a00_0000 | i << 20, 12), Hop(i + 1));
        let rib: Rib<u32> = (0..16).map(route).collect();
        let options = [("root", "1"), ("fill", "1")].map(|(k, v)| (k.to_string(), v.to_string()));
        let options = Options(options.into());
        let table = build(&rib, &options, &Domain::new()).unwrap().table();
        assert_eq!(table.counters(), [("nodes", 1 + 2 + 2 * 8), ("routes", 16)]);
    }

    #[test]
    fn another_hop_needs_no_rebuild() {
        let prefix = Prefix::covering(0x0a00_0000_u32, 8);
        let mut rib: Rib<u32> = [(prefix, Hop(1))].into_iter().collect();
        let mut writer = build(&rib, &Options::default(), &Domain::new()).unwrap();
        let mut change = |hop| {
            let change = Change { prefix, hop };
            rib.apply(&change);
            writer.apply(&rib, &[change]).unwrap()
        };
        assert_eq!(change(Some(Hop(7))), Applied::InPlace);
        assert_eq!(change(None), Applied::Rebuild);
    }
}
