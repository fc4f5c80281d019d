//! Inserting and deleting by copying the path; one store makes all visible.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{Batch, Branch, BsdRadix, Leaf, MAX_NODES, Ref, entry, words_of};
use crate::lpm::scale::Scale;
use crate::lpm::space::Space;
use crate::lpm::{Applied, Lpm, Options, Refusal, Writer};
use crate::pages::Cut;
use crate::rib::Change;
use crate::sync::Domain;
use crate::{Addr, Hop, Prefix, Rib};

/// An update is a transaction: nodes made in it are changed as they lie, all
/// others are copied first; `commit` shows the new root, `abort` forgets it.
///
/// I5: `fresh` are the nodes that no reader can reach and `is_fresh` marks;
/// `stale` are those that it can, but not from the new root.
struct RadixWriter<A: Addr> {
    table: Arc<BsdRadix<A>>,
    space: Space,
    scale: Scale,
    root: Ref,
    fresh: Vec<u32>,
    is_fresh: Vec<u64>,
    stale: Vec<u32>,
}

/// The arena is full.
struct Full;

/// Where a reference to a node is.
#[derive(Clone, Copy)]
enum Link {
    Root,
    Child(Ref, usize),
}

pub(super) fn build<A: Addr>(
    rib: &Rib<A>,
    options: &Options,
    domain: &Arc<Domain>,
) -> Result<Box<dyn Writer<A>>, Refusal> {
    let card = entry::<A>().card;
    options.check(card)?;
    let batch = Batch::choose(options, card)?;
    rib.iter().try_for_each(|(_, hop)| card.admit_hop(hop))?;
    let no_memory = |error: std::io::Error| card.refuse(format!("no memory: {error}"));
    let empty = |scale: Scale| -> std::io::Result<_> {
        let len = scale.len(MAX_NODES as usize);
        let nodes = Cut::zeroed(len * words_of::<A>())?;
        let space = Space::new(domain, len as u32, NODES_IN_LIMBO);
        let (root, touched) = (AtomicU32::new(Ref::NONE.0), space.touched());
        Ok(RadixWriter {
            table: Arc::new(BsdRadix { nodes, root, touched, batch, family: PhantomData }),
            space,
            scale,
            root: Ref::NONE,
            fresh: Vec::new(),
            is_fresh: Vec::new(),
            stale: Vec::new(),
        })
    };
    let mut writer = Scale::of(rib.len(), 4, MAX_NODES as usize).build(|scale| {
        let mut writer = match empty(scale) {
            Ok(writer) => writer,
            Err(error) => return (Err(no_memory(error)), false),
        };
        let filled = rib.iter().try_for_each(|(prefix, hop)| writer.insert(prefix, hop));
        let is_tight = writer.space.is_tight() && !writer.space.lacks_memory();
        (filled.map_err(|Full| writer.refusal()).map(|()| writer), is_tight)
    })?;
    writer.commit();
    writer.fresh.shrink_to_fit();
    Ok(Box::new(writer))
}

impl<A: Addr> Writer<A> for RadixWriter<A> {
    fn table(&self) -> Arc<dyn Lpm<A>> {
        self.table.clone()
    }

    fn apply(&mut self, rib: &Rib<A>, changes: &[Change<A>]) -> Result<Applied, Refusal> {
        let card = entry::<A>().card;
        for hop in changes.iter().filter_map(|change| change.hop) {
            card.admit_hop(hop)?;
        }
        self.space.admit().map_err(|congested| card.refuse(congested.to_string()))?;
        for change in changes {
            // What the Rib says in the end, so that order does not matter.
            let done = match rib.get(&change.prefix) {
                Some(hop) => self.insert(change.prefix, hop),
                None => self.delete(change.prefix),
            };
            if let Err(Full) = done {
                let may_grow = !self.scale.is_largest() && !self.space.lacks_memory();
                let refusal = self.refusal();
                self.abort();
                return if may_grow { Ok(Applied::Rebuild) } else { Err(refusal) };
            }
        }
        self.commit();
        Ok(Applied::InPlace)
    }

    fn bytes(&self) -> usize {
        let vectors = (self.fresh.capacity() + self.stale.capacity()) * size_of::<u32>();
        self.space.bytes() + vectors + self.is_fresh.capacity() * size_of::<u64>()
    }
}

impl<A: Addr> RadixWriter<A> {
    fn refusal(&self) -> Refusal {
        entry::<A>().card.refuse(self.space.limit(|| format!("more than {MAX_NODES} nodes")))
    }

    /// Inserts or changes.
    fn insert(&mut self, prefix: Prefix<A>, hop: Hop) -> Result<(), Full> {
        let (addr, len) = (prefix.first(), prefix.len());
        if self.root == Ref::NONE {
            self.root = self.new_leaf(prefix, hop, Ref::NONE)?;
            return Ok(());
        }
        let shared = self.nearest(addr).common(addr);
        let (mut link, mut at, mut above) = (Link::Root, self.root, None);
        loop {
            if at.is_leaf() && shared == A::WIDTH {
                let chain = self.insert_into_chain(at, prefix, hop)?;
                self.set(link, chain);
                return Ok(());
            }
            let bit = if at.is_leaf() { A::WIDTH } else { self.table.small(at) };
            if bit > shared {
                let branch = self.split(at, above, shared, prefix, hop)?;
                self.set(link, branch);
                return Ok(());
            }
            at = self.own(at)?;
            self.set(link, at);
            if placed(len, above, bit) {
                let masks = self.table.wide(at) | 1 << len;
                self.set_masks(at, masks);
            }
            let side = addr.bit(bit);
            (link, above) = (Link::Child(at, side), Some(bit));
            at = self.table.branch(at).child[side];
        }
    }

    /// A new branch at bit `shared`, over `at` and a leaf of `prefix`.
    fn split(
        &mut self,
        mut at: Ref,
        above: Option<u8>,
        shared: u8,
        prefix: Prefix<A>,
        hop: Hop,
    ) -> Result<Ref, Full> {
        let leaf = self.new_leaf(prefix, hop, Ref::NONE)?;
        let mut masks = 0;
        if at.is_leaf() {
            let lens = self.table.chain(at).map(|leaf| leaf.len);
            lens.filter(|&len| placed(len, above, shared)).for_each(|len| masks |= 1 << len);
        } else {
            // The new branch is the highest now for what is not longer than its bit (I3).
            let below = self.table.wide(at);
            masks = below & up_to(shared);
            if masks != 0 {
                at = self.own(at)?;
                self.set_masks(at, below & !masks);
            }
        }
        if placed(prefix.len(), above, shared) {
            masks |= 1 << prefix.len();
        }
        let mut child = [at, at];
        child[prefix.first().bit(shared)] = leaf;
        self.new_branch(&Branch { child, bit: shared, masks })
    }

    /// Deletes; nothing happens where the prefix is not there.
    fn delete(&mut self, prefix: Prefix<A>) -> Result<(), Full> {
        let (addr, len) = (prefix.first(), prefix.len());
        if self.root == Ref::NONE || self.table.search_exactly(self.root, addr, len).is_none() {
            return Ok(());
        }
        // The last branch passed, and the link to it.
        let (mut link, mut parent) = (Link::Root, None);
        let (mut at, mut above) = (self.root, None);
        while !at.is_leaf() {
            at = self.own(at)?;
            self.set(link, at);
            let Branch { child, bit, masks } = self.table.branch(at);
            if placed(len, above, bit) {
                self.set_masks(at, masks & !(1 << len));
            }
            let side = addr.bit(bit);
            parent = Some((link, at, side));
            (link, above) = (Link::Child(at, side), Some(bit));
            at = child[side];
        }
        let rest = self.delete_from_chain(at, len)?;
        match parent {
            Some((link, parent, side)) if rest == Ref::NONE => {
                self.join(link, parent, 1 - side)?;
            }
            _ => self.set(link, rest),
        }
        Ok(())
    }

    /// Puts the child at `side` of `branch` in its place.
    fn join(&mut self, link: Link, branch: Ref, side: usize) -> Result<(), Full> {
        let Branch { child, masks, .. } = self.table.branch(branch);
        let mut at = child[side];
        if !at.is_leaf() && masks != 0 {
            at = self.own(at)?;
            let below = self.table.wide(at);
            self.set_masks(at, below | masks); // it is the highest now (I3)
        }
        self.set(link, at);
        self.drop_node(branch);
        Ok(())
    }

    /// The chain from `at` with the prefix in it, longest first.
    fn insert_into_chain(&mut self, at: Ref, prefix: Prefix<A>, hop: Hop) -> Result<Ref, Full> {
        if at == Ref::NONE || self.table.leaf(at).len < prefix.len() {
            return self.new_leaf(prefix, hop, at);
        }
        let at = self.own(at)?;
        let mut leaf = self.table.leaf(at);
        if leaf.len == prefix.len() {
            leaf.hop = hop;
        } else {
            leaf.next = self.insert_into_chain(leaf.next, prefix, hop)?;
        }
        self.write_leaf(at, &leaf);
        Ok(at)
    }

    /// The chain from `at` without the leaf of `len`, which is in it.
    fn delete_from_chain(&mut self, at: Ref, len: u8) -> Result<Ref, Full> {
        let mut leaf = self.table.leaf(at);
        if leaf.len == len {
            self.drop_node(at);
            return Ok(leaf.next);
        }
        leaf.next = self.delete_from_chain(leaf.next, len)?;
        let at = self.own(at)?;
        self.write_leaf(at, &leaf);
        Ok(at)
    }

    /// The address of the leaf that a search for `addr` ends at.
    fn nearest(&self, addr: A) -> A {
        let mut at = self.root;
        while !at.is_leaf() {
            at = self.table.child(at, addr);
        }
        self.table.leaf(at).addr
    }

    /// The node itself if it is of this update, else a copy.
    fn own(&mut self, at: Ref) -> Result<Ref, Full> {
        if self.is_fresh(at.number()) {
            return Ok(at);
        }
        let copy = Ref(self.take()? | at.0 & super::LEAF);
        for i in 0..words_of::<A>() {
            let word = self.table.word(at, i).load(Ordering::Relaxed);
            self.table.word(copy, i).store(word, Ordering::Relaxed);
        }
        self.stale.push(at.number());
        Ok(copy)
    }

    fn new_leaf(&mut self, prefix: Prefix<A>, hop: Hop, next: Ref) -> Result<Ref, Full> {
        let at = Ref::leaf(self.take()?);
        self.write_leaf(at, &Leaf { addr: prefix.first(), len: prefix.len(), hop, next });
        Ok(at)
    }

    fn new_branch(&mut self, branch: &Branch) -> Result<Ref, Full> {
        let at = Ref(self.take()?);
        self.write(at, branch.child.map(|child| child.0), branch.bit, branch.masks);
        Ok(at)
    }

    fn write_leaf(&self, at: Ref, leaf: &Leaf<A>) {
        self.write(at, [leaf.hop.0, leaf.next.0], leaf.len, leaf.addr.to_u128());
    }

    fn set_masks(&self, at: Ref, masks: u128) {
        let Branch { child, bit, .. } = self.table.branch(at);
        self.write(at, child.map(|child| child.0), bit, masks);
    }

    fn set(&mut self, link: Link, to: Ref) {
        match link {
            Link::Root => self.root = to,
            Link::Child(at, side) => {
                let Branch { mut child, bit, masks } = self.table.branch(at);
                child[side] = to;
                self.write(at, child.map(|child| child.0), bit, masks);
            }
        }
    }

    fn write(&self, at: Ref, pair: [u32; 2], small: u8, wide: u128) {
        debug_assert!(self.is_fresh(at.number()), "I5");
        let pair = u64::from(pair[0]) | u64::from(pair[1]) << 32;
        let words = if A::WIDTH == 32 {
            [pair, u64::from(wide as u32) | u64::from(small) << 32, 0, 0]
        } else {
            [pair, small.into(), (wide >> 64) as u64, wide as u64]
        };
        for (i, &word) in words[..words_of::<A>()].iter().enumerate() {
            self.table.word(at, i).store(word, Ordering::Relaxed);
        }
    }

    fn take(&mut self) -> Result<u32, Full> {
        let number = self.space.take(1).ok_or(Full)?;
        let word = number as usize / 64;
        if self.is_fresh.len() <= word {
            self.is_fresh.resize(word + 1, 0);
        }
        self.is_fresh[word] |= 1 << (number % 64);
        self.fresh.push(number);
        Ok(number)
    }

    fn is_fresh(&self, number: u32) -> bool {
        self.is_fresh.get(number as usize / 64).is_some_and(|word| word >> (number % 64) & 1 != 0)
    }

    /// Takes a node out of the new tree.
    fn drop_node(&mut self, at: Ref) {
        // A fresh one waits for `commit` as the others do: simpler, and rare.
        self.stale.push(at.number());
    }

    fn commit(&mut self) {
        self.table.root.store(self.root.0, Ordering::Release); // I1
        self.forget_fresh();
        for number in self.stale.drain(..) {
            self.space.retire(number, 1);
        }
    }

    fn abort(&mut self) {
        self.root = Ref(self.table.root.load(Ordering::Relaxed));
        self.forget_fresh().into_iter().for_each(|number| self.space.untake(number, 1));
        self.stale.clear();
    }

    fn forget_fresh(&mut self) -> Vec<u32> {
        let fresh = std::mem::take(&mut self.fresh);
        for &number in &fresh {
            self.is_fresh[number as usize / 64] &= !(1 << (number % 64));
        }
        fresh
    }
}

/// True when the branch of `bit` below one of bit `above` has `len` in its masks.
fn placed(len: u8, above: Option<u8>, bit: u8) -> bool {
    len <= bit && above.is_none_or(|above| above < len)
}

/// The lengths up to `bit`, which is less than 128.
fn up_to(bit: u8) -> u128 {
    u128::MAX >> (127 - bit)
}

/// Nodes that may wait for readers: about 50,000 updates.
const NODES_IN_LIMBO: usize = 1 << 20;
