//! A run of neighbouring prefixes.

use crate::{Addr, Hop, Prefix};

/// I4: the three are equally long, at most [`CHUNK`].
#[derive(Clone, Debug)]
pub(super) struct Chunk<A> {
    pub(super) firsts: Vec<A>,
    pub(super) lens: Vec<u8>,
    pub(super) hops: Vec<Hop>,
}

impl<A: Addr> Chunk<A> {
    pub(super) fn of(prefix: Prefix<A>, hop: Hop) -> Self {
        let mut chunk = Chunk::with_room(STEP);
        chunk.insert(0, prefix, hop);
        chunk
    }

    pub(super) fn with_room(records: usize) -> Self {
        Chunk {
            firsts: Vec::with_capacity(records),
            lens: Vec::with_capacity(records),
            hops: Vec::with_capacity(records),
        }
    }

    pub(super) fn insert(&mut self, slot: usize, prefix: Prefix<A>, hop: Hop) {
        if self.len() == self.firsts.capacity() {
            self.firsts.reserve_exact(STEP);
            self.lens.reserve_exact(STEP);
            self.hops.reserve_exact(STEP);
        }
        self.firsts.insert(slot, prefix.first());
        self.lens.insert(slot, prefix.len());
        self.hops.insert(slot, hop);
    }

    pub(super) fn remove(&mut self, slot: usize) -> Hop {
        self.firsts.remove(slot);
        self.lens.remove(slot);
        let hop = self.hops.remove(slot);
        if self.len().is_multiple_of(STEP) {
            self.shrink(self.len() + STEP);
        }
        hop
    }

    /// Moves the upper half of a full chunk into a new one.
    pub(super) fn split(&mut self) -> Self {
        let mut upper = Chunk::with_room(CHUNK / 2 + STEP);
        upper.firsts.extend(self.firsts.drain(CHUNK / 2..));
        upper.lens.extend(self.lens.drain(CHUNK / 2..));
        upper.hops.extend(self.hops.drain(CHUNK / 2..));
        self.shrink(CHUNK / 2 + STEP);
        upper
    }

    pub(super) fn append(&mut self, mut upper: Self) {
        self.firsts.append(&mut upper.firsts);
        self.lens.append(&mut upper.lens);
        self.hops.append(&mut upper.hops);
    }

    pub(super) fn shrink(&mut self, room: usize) {
        self.firsts.shrink_to(room);
        self.lens.shrink_to(room);
        self.hops.shrink_to(room);
    }

    pub(super) fn bytes(&self) -> usize {
        self.firsts.capacity() * size_of::<A>()
            + self.lens.capacity()
            + self.hops.capacity() * size_of::<Hop>()
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.firsts.len()
    }

    #[inline]
    pub(super) fn get(&self, slot: usize) -> (Prefix<A>, Hop) {
        (Prefix::covering(self.firsts[slot], self.lens[slot]), self.hops[slot])
    }

    #[inline]
    pub(super) fn holds(&self, slot: usize, prefix: &Prefix<A>) -> bool {
        slot < self.len() && self.firsts[slot] == prefix.first() && self.lens[slot] == prefix.len()
    }

    /// The first slot whose prefix is `prefix` or follows it.
    #[inline]
    pub(super) fn lower_bound(&self, prefix: &Prefix<A>) -> usize {
        let firsts = &self.firsts;
        let mut slot = firsts.partition_point(|&first| first < prefix.first());
        while slot < firsts.len()
            && firsts[slot] == prefix.first()
            && self.lens[slot] < prefix.len()
        {
            slot += 1;
        }
        slot
    }
}

/// Records in a chunk: an insert moves half of them; more of them mean fewer
/// heads to search. 128 to 512 measured alike.
pub(super) const CHUNK: usize = 256;

/// Records by which a chunk's memory grows: fixed chunks fell to half full when
/// prefixes arrive evenly spread (42 bytes a prefix for IPv6).
pub(super) const STEP: usize = 32;
