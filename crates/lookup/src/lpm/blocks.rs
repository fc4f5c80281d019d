//! Nodes of 24 bytes and hops, each in an array of its own and in blocks of siblings:
//! what `poptrie` and `tree-bitmap` are made of.
//!
//! ```text
//!    nodes    ( bitmap 64 | bitmap 64 | first hop 32, first child 32 )
//!    hops     [ hop | hop | … ]             2 B; 4 B where a hop needs it
//! ```

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use super::cell::Cell;
use super::scale::Scale;
use super::staged::{Full, Staged};
use super::{Applied, Card, Options, Refusal, Writer};
use crate::pages::Cut;
use crate::rib::Change;
use crate::sync::Domain;
use crate::{Addr, Hop, Prefix, Rib};

/// The arrays, which readers and the writer share.
pub(super) struct Blocks<L: Cell> {
    nodes: Cut<Words>,
    hops: Cut<L>,
    /// Nodes and hops that have ever been used.
    touched: [Arc<AtomicU32>; 2],
}

/// A node as it is in the array.
pub(super) type Words = [AtomicU64; 3];

/// A node as it was read.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Node {
    /// What the bits mean, the engine says.
    pub maps: [u64; 2],
    /// The places of its first hop and of its first child.
    pub hops: u32,
    pub children: u32,
}

impl<L: Cell> Blocks<L> {
    #[inline(always)]
    pub(super) fn node(&self, at: u32) -> Node {
        let words = self.words(at);
        let [first, second, places] = [0, 1, 2].map(|i| words[i].load(Ordering::Relaxed));
        Node { maps: [first, second], hops: places as u32, children: (places >> 32) as u32 }
    }

    /// Masked to the array: whatever a node says, the read stays inside.
    #[inline(always)]
    pub(super) fn words(&self, at: u32) -> &Words {
        self.nodes.at(at as usize)
    }

    /// Masked, as `words`.
    #[inline(always)]
    pub(super) fn hop(&self, at: u32) -> &L {
        self.hops.at(at as usize)
    }

    /// By the writer alone.
    pub(super) fn write(&self, at: u32, node: &Node) {
        let places = u64::from(node.hops) | u64::from(node.children) << 32;
        let values = [node.maps[0], node.maps[1], places];
        let words = self.words(at).iter().zip(values);
        words.for_each(|(word, value)| word.store(value, Ordering::Relaxed));
    }

    /// Nodes and hops that have ever been used.
    pub(super) fn used(&self) -> [u64; 2] {
        [0, 1].map(|i| self.touched[i].load(Ordering::Relaxed).into())
    }

    pub(super) fn bytes(&self) -> usize {
        let [nodes, hops] = self.used().map(|used| used as usize);
        nodes * size_of::<Words>() + hops * size_of::<L>()
    }
}

/// The writer's account of the arrays.
pub(super) struct Room {
    pub nodes: Staged,
    pub hops: Staged,
}

impl Room {
    /// Arrays of this scale, of which nothing is used.
    pub(super) fn new<L: Cell>(
        domain: &Arc<Domain>,
        scale: Scale,
    ) -> io::Result<(Room, Blocks<L>)> {
        let staged = |len: usize| Staged::new(domain, len as u32, BLOCKS_IN_LIMBO);
        let [most_nodes, most_hops] = [NODES, HOPS].map(|most| scale.len(most));
        let [nodes, hops] = [most_nodes, most_hops].map(staged);
        let blocks = Blocks {
            nodes: Cut::zeroed(most_nodes)?,
            hops: Cut::zeroed(most_hops)?,
            touched: [nodes.touched(), hops.touched()],
        };
        Ok((Room { nodes, hops }, blocks))
    }

    /// The scale to begin with for so many routes.
    pub(super) fn scale(routes: usize) -> Scale {
        Scale::of(routes, 4, NODES)
    }

    /// True where updates soon lack room in arrays that might be larger.
    fn is_tight(&self) -> bool {
        let lacks_memory = self.nodes.lacks_memory() || self.hops.lacks_memory();
        (self.nodes.is_tight() || self.hops.is_tight()) && !lacks_memory
    }

    /// To be called when a new version is published.
    pub(super) fn commit(&mut self) {
        self.nodes.commit();
        self.hops.commit();
    }

    /// A node in a block of its own: its place.
    pub(super) fn place<L: Cell>(&mut self, blocks: &Blocks<L>, node: &Node) -> Result<u32, Full> {
        let at = self.nodes.take(1)?;
        blocks.write(at, node);
        Ok(at)
    }

    /// Why [`Staged::take`] had nothing.
    pub(super) fn limit(&self) -> String {
        let full = || format!("more than {NODES} nodes or {HOPS} hops in them");
        self.nodes.limit(|| self.hops.limit(full))
    }

    pub(super) fn bytes(&self) -> usize {
        self.nodes.bytes() + self.hops.bytes()
    }
}

/// A writer of such a table.
pub(super) trait BlockWriter<A: Addr, L: Cell> {
    fn room(&mut self) -> &mut Room;

    /// Writes all of `rib` into the empty table.
    fn fill(&mut self, rib: &Rib<A>) -> Result<(), Full>;

    /// Brings what `prefix` owns or owned in line with `rib`.
    fn change(&mut self, rib: &Rib<A>, prefix: Prefix<A>) -> Result<(), Full>;

    /// This writer, with its table filled from `rib`; and whether the arrays are tight.
    fn filled(mut self, card: &Card, rib: &Rib<A>) -> (Result<Box<dyn Writer<A>>, Refusal>, bool)
    where
        Self: Writer<A> + Sized + 'static,
    {
        let filled = self.fill(rib);
        let (limit, is_tight) = (self.room().limit(), self.room().is_tight());
        match filled {
            Ok(()) => (Ok(Box::new(self)), is_tight),
            Err(Full) => (Err(card.refuse(limit)), is_tight),
        }
    }

    /// [`Writer::apply`].
    fn apply_all(
        &mut self,
        card: &Card,
        rib: &Rib<A>,
        changes: &[Change<A>],
    ) -> Result<Applied, Refusal> {
        let largest = changes.iter().filter_map(|change| change.hop).max().unwrap_or(Hop::NONE);
        card.admit_hop(largest)?;
        if largest.0 > L::MAX_HOP {
            return Ok(Applied::Rebuild); // with wider hops
        }
        let Room { nodes, hops } = self.room();
        for staged in [nodes, hops] {
            staged.admit().map_err(|congested| card.refuse(congested.to_string()))?;
        }
        // Full half-way: a rebuilt table has no gaps, or names the limit.
        if changes.iter().try_for_each(|change| self.change(rib, change.prefix)).is_err() {
            let room = self.room();
            room.nodes.abort();
            room.hops.abort();
            return Ok(Applied::Rebuild);
        }
        Ok(Applied::InPlace)
    }
}

/// Builds an engine.
type Build<A> = fn(&Rib<A>, &Options, &Arc<Domain>) -> Result<Box<dyn Writer<A>>, Refusal>;

/// The one that stores the hops of `rib` in 16 bits where they fit, else the one of 32.
pub(super) fn by_width<A: Addr>(rib: &Rib<A>, narrow: Build<A>, wide: Build<A>) -> Build<A> {
    let largest = rib.iter().map(|(_, hop)| hop).max().unwrap_or(Hop::NONE);
    if largest.0 <= AtomicU16::MAX_HOP { narrow } else { wide }
}

/// The most nodes for which address space is reserved; a power of two.
const NODES: usize = if cfg!(miri) { 1 << 12 } else { 1 << 24 };

/// The most hops for which address space is reserved; a power of two.
const HOPS: usize = if cfg!(miri) { 1 << 14 } else { 1 << 27 };

/// Blocks of each kind that may wait for readers.
const BLOCKS_IN_LIMBO: usize = 1 << 18;
