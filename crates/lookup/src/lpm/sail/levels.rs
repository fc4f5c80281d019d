//! Prefixes pushed to a first level and to every eight bits beyond: a root of 2^16
//! entries, or of as many as `ROOT` says, and chunks of 256 cells below, as the readers
//! see them. Drawn in the cards of `sail-l` and `sail6`.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

use super::accesses::Accesses;
use crate::hint::prefetch;
use crate::lpm::Lpm;
use crate::lpm::default_hop::{self, DefaultHop};
use crate::pages::{Pages, Zeroed};
use crate::{Addr, Hop};

/// A place in a chunk: a hop, or the number of the chunk a level below.
///
/// Loaded with `CHUNK` as the mark of the latter, however it is stored.
pub(super) trait Cell: Zeroed + Send {
    /// The largest hop, and the largest number.
    const MOST: u32;

    fn load(&self) -> u32;
    fn store(&self, entry: u32);
}

impl Cell for AtomicU16 {
    const MOST: u32 = 0x7fff;

    #[inline(always)]
    fn load(&self) -> u32 {
        // Bit 15, the mark, is spread by the sign; who uses the number cuts it off.
        self.load(Ordering::Acquire) as i16 as u32
    }
    #[inline(always)]
    fn store(&self, entry: u32) {
        self.store((entry >> 16 & 0x8000 | entry & 0x7fff) as u16, Ordering::Release);
    }
}

impl Cell for AtomicU32 {
    const MOST: u32 = Hop::MAX.0;

    #[inline(always)]
    fn load(&self) -> u32 {
        self.load(Ordering::Acquire)
    }
    #[inline(always)]
    fn store(&self, entry: u32) {
        self.store(entry, Ordering::Release);
    }
}

/// What the readers share.
///
/// - I1: an entry with `CHUNK` names a chunk that was filled before; it is not
///   used for another prefix until every thread that was online when the entry
///   went has quiesced.
/// - I2: where the writer rests, an entry of level l names a chunk exactly when the
///   `Rib` holds a route longer than /l inside.
pub(super) struct Levels<A, C: Cell, const ROOT: u8> {
    pub(super) root: Pages<AtomicU32>,
    /// Chunks below the root: where that is of level 16, cells of level 24.
    pub(super) mid: Pages<[C; CELLS]>,
    /// Chunks below those, of any level.
    pub(super) deep: Pages<[C; CELLS]>,
    /// Lines of chunks that have ever been used.
    pub(super) touched: [Arc<AtomicU32>; 2],
    pub(super) default: DefaultHop,
    pub(super) accesses: Accesses,
    pub(super) family: PhantomData<A>,
}

impl<A: Addr, C: Cell, const ROOT: u8> Lpm<A> for Levels<A, C, ROOT> {
    fn lookup(&self, dst: A) -> Hop {
        let mut entry = self.root[dst.bits(0, ROOT) as usize].load(Ordering::Acquire);
        if entry & CHUNK != 0 {
            entry = cell(&self.mid, entry, dst.bits(ROOT, 8)).load();
            let mut level = Self::BELOW;
            while entry & CHUNK != 0 && level < A::WIDTH {
                entry = cell(&self.deep, entry, dst.bits(level, 8)).load();
                level += 8;
            }
        }
        self.default.or(entry)
    }

    fn lookup_batch(&self, dsts: &[A], hops: &mut [Hop]) {
        assert_eq!(dsts.len(), hops.len());
        for (dsts, hops) in dsts.chunks(BURST).zip(hops.chunks_mut(BURST)) {
            self.burst(dsts, hops);
        }
    }

    fn bytes(&self) -> usize {
        let lines: usize = self.touched.iter().map(|n| n.load(Ordering::Relaxed) as usize).sum();
        size_of_val(&*self.root) + lines * 64
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut counters = self.accesses.counters();
        let lines = size_of::<[C; CELLS]>() as u64 / 64;
        let chunks = |i: usize| u64::from(self.touched[i].load(Ordering::Relaxed)) / lines;
        let [mid, deep] = [0, 1].map(chunks);
        counters.extend([("chunks_24", mid), ("chunks_deeper", deep)]);
        counters.push(("cell_bytes", size_of::<C>() as u64));
        // As the thesis splits them: the root, and of each cell of /24 the mark.
        let on_chip = size_of_val(&*self.root) as u64 + mid * CELLS as u64 / 8;
        counters.extend([("on_chip_bytes", on_chip), ("on_chip_reads", 2)]);
        counters
    }
}

impl<A: Addr, C: Cell, const ROOT: u8> Levels<A, C, ROOT> {
    /// The level of the chunks below the root.
    const BELOW: u8 = ROOT + 8;

    /// All down one level at a time, cells fetched ahead and without a branch on a
    /// key. Few keys stop at /16 or, in IPv4, go beyond /24: all are read at two
    /// levels, below only those that are listed.
    #[inline(always)]
    fn burst(&self, dsts: &[A], hops: &mut [Hop]) {
        // Taken once: after a load that acquires, a field would be read again.
        let (root, mid, deep) = (self.root(), &self.mid[..], &self.deep[..]);
        for (&dst, hop) in dsts.iter().zip(hops.iter_mut()) {
            hop.0 = root[dst.bits(0, ROOT) as usize].load(Ordering::Acquire);
            prefetch(cell(mid, hop.0, dst.bits(ROOT, 8)));
        }
        let mut any = 0;
        for (&dst, hop) in dsts.iter().zip(hops.iter_mut()) {
            let below = cell(mid, hop.0, dst.bits(ROOT, 8)).load();
            hop.0 = if hop.0 & CHUNK != 0 { below } else { hop.0 };
            any |= hop.0;
            if A::WIDTH > 32 || Self::BELOW < 24 {
                prefetch(cell(deep, hop.0, dst.bits(Self::BELOW, 8)));
            }
        }
        if any & CHUNK != 0 {
            Self::go_on(deep, dsts, hops);
        }
        let default = self.default.get();
        default_hop::fill(hops, default);
    }

    /// From below the second level on.
    #[inline(always)]
    fn go_on(deep: &[[C; CELLS]], dsts: &[A], hops: &mut [Hop]) {
        let (mut list, mut left) = ([0_u8; BURST], 0);
        for (i, hop) in hops.iter().enumerate() {
            list[left % BURST] = i as u8;
            left += (hop.0 >> CHUNK.trailing_zeros()) as usize;
        }
        let mut level = Self::BELOW;
        while left > 0 && level < A::WIDTH {
            left = Self::step(dsts, hops, &mut list, left, |entry, dst| {
                let entry = cell(deep, entry, dst.bits(level, 8)).load();
                if level + 8 < A::WIDTH {
                    prefetch(cell(deep, entry, dst.bits(level + 8, 8)));
                }
                entry
            });
            level += 8;
        }
    }

    /// Takes the first `left` of `list` down; returns how many go on.
    #[inline(always)]
    fn step(
        dsts: &[A],
        hops: &mut [Hop],
        list: &mut [u8; BURST],
        left: usize,
        down: impl Fn(u32, A) -> u32,
    ) -> usize {
        let mut stay = 0;
        for at in 0..left {
            let i = usize::from(list[at % BURST]);
            let entry = down(hops[i].0, dsts[i]);
            hops[i].0 = entry;
            list[stay % BURST] = i as u8;
            stay += (entry >> CHUNK.trailing_zeros()) as usize;
        }
        stay
    }

    #[inline(always)]
    fn root(&self) -> &[AtomicU32] {
        &self.root[..1 << ROOT] // as many as an index can be
    }
}

/// Masked to the array, whose length is a power of two: whatever an entry says,
/// the read stays inside.
#[inline(always)]
fn cell<C: Cell>(chunks: &[[C; CELLS]], entry: u32, byte: u32) -> &C {
    &chunks[entry as usize & (chunks.len() - 1)][byte as usize % CELLS]
}

/// Marks an entry that is a chunk's number.
pub(super) const CHUNK: u32 = 1 << 31;

/// Cells of a chunk.
pub(super) const CELLS: usize = 256;

const BURST: usize = 128;
