//! VPP's lookup behind a two-way trie: the trie reports which lengths match, one
//! probe of the FIB then gives the hop.
//!
//! ```text
//!    node     [ left × 32 | right × 32 ]        8 B; bit i of the address chooses
//!    left     bit 31       a prefix ends with this bit
//!             bits 30..0   the node that goes on, 0: none
//!    root     node 1
//! ```
//!
//! | operation | cost                                                         |
//! |-----------|--------------------------------------------------------------|
//! | lookup    | a dependent read a bit, down to where no prefix goes on (about 48); |
//! |           | then one FIB probe, of the longest length that was passed    |
//! | build     | a descent a prefix, and its nodes                            |
//! | update    | the same; new nodes are linked, and old ones cut off, by one store |
//! | memory    | the FIB, and 8 bytes a node: 3 nodes a prefix in real tables  |
//!
//! Source: Kwon et al., *CuVPP*, 2020, "VPP + Trie". We differ: a node has 8 bytes
//! instead of 24 (numbers for pointers, the mark of a prefix in its parent, so that
//! the last bit of a prefix needs no node); a burst goes down together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::fib::{Fib, narrow, wide};
use super::writer::{Steer, build};
use super::{Guide, MAX_PREFIXES};
use crate::hash::Crc32c;
use crate::hint::prefetch;
use crate::lpm::hashed::{Found, NoRoom, Sums, prepares};
use crate::lpm::space::Space;
use crate::lpm::{Card, Entry, isa};
use crate::pages::{Masked, Pages};
use crate::sync::{Congested, Domain};
use crate::{Addr, Hop, Prefix};

/// The registry's line.
pub const ENTRY: Entry<u128> = Entry {
    card: &CARD,
    build: |rib, options, domain| {
        let room = |attempt| room_for(rib.len()) << (2 * attempt);
        build(&CARD, rib, options, domain, |attempt| TrieWriter::new(domain, room(attempt)))
    },
};

const CARD: Card = Card {
    name: "vpp-trie",
    paper: "Kwon et al.: CuVPP (2020), its VPP with a trie",
    help: "a binary trie finds the length, then one hash probe the hop; updates in place",
    max_hop: Hop::MAX.0,
    max_len: 128,
    max_prefixes: Some(MAX_PREFIXES),
    options: &[isa::OPTION],
};

/// What readers share.
///
/// - I1: a link names a node that was written before, and is not used again until
///   every thread that was online when the link went has quiesced.
/// - I2: but for the root, no node has two empty links.
struct Trie {
    nodes: Pages<Node>,
    touched: Arc<AtomicU32>,
}

type Node = [AtomicU32; 2];

impl Guide for Trie {
    #[inline(always)]
    fn burst<C: Crc32c, const N: usize>(
        &self,
        fib: &Fib,
        dsts: &[u128],
        found: &mut Found<N>,
        sums: &mut Sums,
    ) {
        prepares(N);
        let mut masks = [0_u128; N];
        if N == 1 {
            sums.filter_probes += self.descend::<1>(dsts, &mut masks);
        } else {
            for (dsts, masks) in dsts.chunks(GROUP).zip(masks.chunks_mut(GROUP)) {
                sums.filter_probes += self.descend::<GROUP>(dsts, masks);
            }
        }
        *found = [0; N];
        let (mut left, mut end) = ([0_u8; N], 0);
        for (i, &mask) in masks.iter().enumerate() {
            left[end % N] = i as u8;
            end += usize::from(mask != 0);
        }
        while end > 0 {
            end = probe::<C, N>(fib, dsts, &mut left, end, &mut masks, found, sums);
        }
    }

    fn bytes(&self) -> usize {
        self.touched.load(Ordering::Relaxed) as usize * size_of::<Node>()
    }
}

impl Trie {
    /// Goes down with a group, a bit of all at a time; of each address, bit n - 1 of
    /// `masks` says that a prefix of length n covers it. Returns the nodes read.
    #[inline(always)]
    fn descend<const GROUP: usize>(&self, dsts: &[u128], masks: &mut [u128]) -> u64 {
        prepares(GROUP);
        let (nodes, mut at, mut read) = (Masked::new(&self.nodes), [0; GROUP], 0);
        at[..dsts.len()].fill(ROOT);
        for half in 0..2 {
            let (mut words, mut found) = ([0; GROUP], [0; GROUP]);
            let shift = 64 * (1 - half);
            words.iter_mut().zip(dsts).for_each(|(word, dst)| *word = (dst >> shift) as u64);
            for depth in 0..64 {
                let mut inside = 0;
                for ((at, word), found) in at.iter_mut().zip(&mut words).zip(&mut found) {
                    // Node 0 leads nowhere: no branch for those that have ended.
                    read += u64::from(*at != 0);
                    let link =
                        nodes.at(*at as usize)[(*word >> 63) as usize].load(Ordering::Acquire);
                    *found |= u64::from(link >> 31) << depth;
                    *word <<= 1;
                    *at = link & !MARK;
                    prefetch(nodes.at(*at as usize));
                    inside |= *at;
                }
                if inside == 0 {
                    break;
                }
            }
            for (mask, found) in masks.iter_mut().zip(found) {
                *mask |= u128::from(found) << (64 * half);
            }
        }
        read
    }

    /// Masked to the array: whatever a link says, the read stays inside.
    #[inline(always)]
    fn node(&self, number: u32) -> &Node {
        Masked::new(&self.nodes).at(number as usize)
    }
}

/// Probes the longest length of each mask; those that were not there (for a prefix
/// has gone meanwhile) stay in `left`, without that length.
#[inline(always)]
fn probe<C: Crc32c, const N: usize>(
    fib: &Fib,
    dsts: &[u128],
    left: &mut [u8; N],
    end: usize,
    masks: &mut [u128; N],
    found: &mut Found<N>,
    sums: &mut Sums,
) -> usize {
    let (mut hashes, mut headers) = ([0; N], [0; N]);
    let len_of = |mask: u128| (128 - mask.leading_zeros()) as u8;
    for (hash, &i) in hashes.iter_mut().zip(&left[..end]) {
        let (dst, len) = (dsts[usize::from(i)], len_of(masks[usize::from(i)]));
        if len > 64 {
            *hash = fib.hashing.of::<C, 3>(len, &wide(dst, len)) as u32;
            fib.wide.prefetch(*hash);
        } else {
            *hash = fib.hashing.of::<C, 2>(len, &narrow(dst, len)) as u32;
            fib.narrow.prefetch(*hash);
        }
    }
    for (header, (&hash, &i)) in headers.iter_mut().zip(hashes.iter().zip(&left[..end])) {
        if len_of(masks[usize::from(i)]) > 64 {
            *header = fib.wide.header(hash);
            fib.wide.prefetch_records(*header);
        } else {
            *header = fib.narrow.header(hash);
            fib.narrow.prefetch_records(*header);
        }
    }
    let mut kept = 0;
    for (k, &header) in headers[..end].iter().enumerate() {
        let i = usize::from(left[k]);
        let (dst, len) = (dsts[i], len_of(masks[i]));
        found[i] = match len {
            65.. => fib.wide.find(header, &wide(dst, len)),
            _ => fib.narrow.find(header, &narrow(dst, len)),
        };
        sums.false_positives += u64::from(found[i] == 0);
        masks[i] &= !(1 << (len - 1));
        left[kept] = i as u8;
        kept += usize::from(found[i] == 0 && masks[i] != 0);
    }
    sums.fib_probes += end as u64;
    kept
}

struct TrieWriter {
    trie: Arc<Trie>,
    space: Space,
}

impl TrieWriter {
    /// With room for so many nodes, a power of two.
    fn new(domain: &Arc<Domain>, nodes: usize) -> std::io::Result<Self> {
        let nodes = nodes.min(NODES);
        let mut space = Space::new(domain, nodes as u32, NODES_IN_LIMBO);
        let touched = space.touched();
        for _ in 0..=ROOT {
            space.take(1); // the place of "none", and the root
        }
        Ok(TrieWriter { trie: Arc::new(Trie { nodes: Pages::zeroed(nodes)?, touched }), space })
    }

    fn link(&self, node: u32, side: usize) -> &AtomicU32 {
        &self.trie.node(node)[side]
    }

    fn load(&self, node: u32, side: usize) -> u32 {
        self.link(node, side).load(Ordering::Relaxed) // we alone write
    }

    /// A new node with one link.
    fn node(&mut self, side: usize, link: u32) -> Result<u32, NoRoom> {
        let node = self.space.take(1).ok_or(NoRoom)?;
        self.link(node, side).store(link, Ordering::Relaxed);
        self.link(node, 1 - side).store(0, Ordering::Relaxed);
        Ok(node)
    }
}

impl Steer for TrieWriter {
    type Guide = Trie;

    fn guide(&self) -> Arc<Trie> {
        self.trie.clone()
    }

    fn insert(&mut self, prefix: Prefix<u128>, _: u64) -> Result<(), NoRoom> {
        let (dst, last) = (prefix.first(), prefix.len() - 1);
        let (mut at, mut depth) = (ROOT, 0);
        while depth < last && self.load(at, dst.bit(depth)) & !MARK != 0 {
            at = self.load(at, dst.bit(depth)) & !MARK;
            depth += 1;
        }
        // From the end upwards, so that one store shows all.
        let mut below = if depth == last { MARK } else { 0 };
        for depth in (depth + 1..=last).rev() {
            let link = if depth == last { MARK } else { below };
            match self.node(dst.bit(depth), link) {
                Ok(node) => below = node,
                Err(NoRoom) => {
                    self.forget(below);
                    return Err(NoRoom);
                }
            }
        }
        let link = self.load(at, dst.bit(depth)) | below;
        self.link(at, dst.bit(depth)).store(link, Ordering::Release); // I1
        Ok(())
    }

    fn remove(&mut self, prefix: Prefix<u128>, _: u64) {
        let (dst, last) = (prefix.first(), prefix.len() - 1);
        let (mut at, mut way) = (ROOT, [ROOT; 128]);
        for depth in 0..last {
            way[usize::from(depth)] = at;
            at = self.load(at, dst.bit(depth)) & !MARK;
        }
        way[usize::from(last)] = at;
        // The highest link behind which nothing is left is the one to cut.
        let mut cut = last;
        let mut kept = self.load(at, dst.bit(last)) & !MARK;
        while cut > 0 && kept == 0 && self.load(way[usize::from(cut)], 1 - dst.bit(cut)) == 0 {
            cut -= 1;
            kept = self.load(way[usize::from(cut)], dst.bit(cut)) & MARK;
        }
        self.link(way[usize::from(cut)], dst.bit(cut)).store(kept, Ordering::Release);
        for &node in &way[usize::from(cut) + 1..=usize::from(last)] {
            self.space.retire(node, 1);
        }
    }

    fn admit(&mut self) -> Result<(), Congested> {
        self.space.admit()
    }

    fn bytes(&self) -> usize {
        self.space.bytes()
    }
}

impl TrieWriter {
    /// Takes back a chain that nobody has seen.
    fn forget(&mut self, mut node: u32) {
        while node & !MARK != 0 {
            let below = self.load(node, 0) | self.load(node, 1);
            self.space.untake(node, 1);
            node = below & !MARK;
        }
    }
}

const MARK: u32 = 1 << 31;

const ROOT: u32 = 1;

/// Nodes for which address space is reserved: twenty times what the prefixes of real tables
/// take, and half of what any do. Who needs more builds anew.
fn room_for(prefixes: usize) -> usize {
    (64 * prefixes + (1 << 16)).next_power_of_two()
}

/// The most nodes.
const NODES: usize = if cfg!(miri) { 1 << 14 } else { 1 << 30 };

/// Nodes that may wait for readers.
const NODES_IN_LIMBO: usize = 1 << 20;

/// Addresses that go down together.
const GROUP: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Portable;
    use crate::lpm::hashed::HashedWriter;
    use crate::lpm::oracle::Rng;
    use crate::lpm::vpp::fib::Hashing;

    crate::lpm::oracle::conformance!(u128, ENTRY);
    crate::lpm::oracle::conformance!(portable: u128, ENTRY, "isa" = "portable");

    #[test]
    fn nodes_go_with_their_last_prefix() {
        let domain = Domain::new();
        let mut writer = TrieWriter::new(&domain, 1 << 14).unwrap();
        let mut rng = Rng::new(1);
        for _ in 0..if cfg!(miri) { 2 } else { 50 } {
            let mut prefixes: Vec<_> = (0..40).map(|_| rng.route::<u128>().0).collect();
            prefixes.retain(|prefix| prefix.len() > 0);
            prefixes.sort_unstable();
            prefixes.dedup();
            prefixes.iter().for_each(|&prefix| writer.insert(prefix, 0).unwrap());
            prefixes.iter().for_each(|&prefix| writer.remove(prefix, 0));
            assert_eq!((writer.load(ROOT, 0), writer.load(ROOT, 1)), (0, 0));
        }
        assert!(writer.trie.bytes() < 8 * 40 * 128 * 2);
    }

    /// The trie still shows two longer prefixes that have gone from the FIB.
    #[test]
    fn a_prefix_that_has_gone_meanwhile_is_passed_over() {
        let (domain, dst, hashing) = (Domain::new(), 1 << 127, Hashing::new(0));
        let mut writer = TrieWriter::new(&domain, 1 << 14).unwrap();
        for len in [32, 48, 80] {
            writer.insert(Prefix::covering(dst, len), 0).unwrap();
        }
        let key = narrow(dst, 32);
        let record = (hashing.of::<Portable, 2>(32, &key) as u32, [key[0], key[1] | 5]);
        let narrow = HashedWriter::build(&domain, &[record]).unwrap().table().clone();
        let wide = HashedWriter::build(&domain, &[]).unwrap().table().clone();
        let fib = Fib::new(narrow, wide, hashing);
        let (mut found, mut sums) = ([0; 64], Sums::default());
        writer.guide().burst::<Portable, 64>(&fib, &[dst, 0, dst], &mut found, &mut sums);
        assert_eq!(found[..3], [5, 0, 5]);
        assert_eq!((sums.fib_probes, sums.false_positives), (2 * 3, 2 * 2));
        // A node a bit down to the longest; beside them the one that is nobody's.
        assert_eq!((sums.filter_probes, writer.guide().bytes()), (80 + 1 + 80, (1 + 80) * 8));
    }

    #[test]
    fn a_chain_that_finds_no_room_is_taken_back() {
        let domain = Domain::new();
        let mut writer = TrieWriter::new(&domain, 1 << 14).unwrap();
        writer.space = Space::new(&domain, 2 + 20, 100);
        (0..=ROOT).for_each(|_| assert!(writer.space.take(1).is_some()));
        let on_side = |side: u128, len| Prefix::covering(side << 127, len);
        writer.insert(on_side(0, 12), 0).unwrap(); // 11 nodes below the root
        for _ in 0..3 {
            assert!(writer.insert(on_side(1, 11), 0).is_err());
        }
        writer.insert(on_side(1, 10), 0).unwrap();
        assert!(writer.space.take(1).is_none());
    }
}
