//! What readers share: tops, blocks, default hop.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

use super::{CARD, RECORD_BITS, REST_BITS, SLOTS};
use crate::Hop;
use crate::lpm::isa::Isa;
use crate::lpm::space::Space;
use crate::lpm::{Lpm, Refusal};
use crate::pages::{Pages, Zeroed};
use crate::sync::Domain;

/// The width of entries and values: 16 bits where every hop fits in 15, else 32.
///
/// The top bit tells a hop, 0 for nothing but /0, from a place in the block.
/// Values are handed around as 32 bits with [`PLACE`] as the top bit.
pub(super) trait Value: Send + Sync + 'static {
    type Cell: Zeroed + Send;
    /// Bits of a cell.
    const WIDTH: u32;
    /// The largest hop.
    const MOST: u32 = (1 << (Self::WIDTH - 1)) - 1;
    /// Entries of a block: one cache line.
    const ENTRIES: usize = LINE_BITS / Self::WIDTH as usize;
    /// Bits of the address that choose the block.
    const TOP_BITS: u32 = RECORD_BITS - Self::ENTRIES.trailing_zeros();
    /// Cells of a record's bits; the values follow.
    const MAP_CELLS: usize = SLOTS / Self::WIDTH as usize;

    fn load(cell: &Self::Cell) -> u32;
    fn store(cell: &Self::Cell, value: u32);

    /// As a cell holds it.
    #[inline(always)]
    fn widen(cell: u32) -> u32 {
        cell & Self::MOST | (cell & !Self::MOST) << (32 - Self::WIDTH)
    }
}

pub(super) struct Narrow;

impl Value for Narrow {
    type Cell = AtomicU16;
    const WIDTH: u32 = 16;

    #[inline(always)]
    fn load(cell: &AtomicU16) -> u32 {
        Self::widen(cell.load(Ordering::Relaxed).into())
    }
    #[inline(always)]
    fn store(cell: &AtomicU16, value: u32) {
        cell.store((value | value >> 16) as u16, Ordering::Relaxed);
    }
}

pub(super) struct Wide;

impl Value for Wide {
    type Cell = AtomicU32;
    const WIDTH: u32 = 32;

    #[inline(always)]
    fn load(cell: &AtomicU32) -> u32 {
        cell.load(Ordering::Relaxed)
    }
    #[inline(always)]
    fn store(cell: &AtomicU32, value: u32) {
        cell.store(value, Ordering::Relaxed);
    }
}

/// - I1: a word of `tops` places a block that was complete before it was stored,
///   and is not written again until every thread online when the word went has
///   quiesced.
/// - I2: the first line of `cells` is zeros for ever.
/// - I3: whatever a reader sees that does not quiesce as it should, every place
///   that is made from it lies inside the arrays: all are masked.
pub(super) struct Table<V: Value> {
    tops: Pages<[AtomicU32; TOPS]>,
    cells: Pages<[V::Cell; CELLS + SPARE]>,
    /// The hop of /0: a change of the default route is one store.
    pub(super) default: AtomicU32,
    isa: Isa,
    /// Lines of `cells` that were ever used.
    touched: Arc<AtomicU32>,
}

/// A table's arrays. Read through the table, each would cost a load and a
/// comparison a key.
pub(super) struct View<'t, V: Value> {
    pub(super) tops: &'t [AtomicU32; TOPS],
    pub(super) cells: &'t [V::Cell; CELLS + SPARE],
}

impl<V: Value> Clone for View<'_, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V: Value> Copy for View<'_, V> {}

impl<V: Value> Table<V> {
    /// A table in which nothing has a route.
    pub(super) fn new(isa: Isa, domain: &Arc<Domain>) -> Result<(Self, Space), Refusal> {
        let no_memory = |error: std::io::Error| CARD.refuse(format!("no memory: {error}"));
        let mut space = Space::new(domain, (CELLS / V::ENTRIES) as u32, WAITING);
        let full = |space: &Space| CARD.refuse(space.limit(|| "no memory".to_string()));
        space.take(1).ok_or_else(|| full(&space))?; // I2; and the block of all tops
        let table = Table {
            tops: Pages::zeroed(1).map_err(no_memory)?,
            cells: Pages::zeroed(1).map_err(no_memory)?,
            default: AtomicU32::new(0),
            isa,
            touched: space.touched(),
        };
        Ok((table, space))
    }

    /// The arrays, to be taken once a batch.
    #[inline(always)]
    pub(super) fn view(&self) -> View<'_, V> {
        View { tops: &self.tops[0], cells: &self.cells[0] }
    }

    #[inline(always)]
    fn batch(&self, dsts: &[u32], hops: &mut [Hop]) {
        let (view, default) = (self.view(), self.default.load(Ordering::Relaxed));
        for (dsts, hops) in dsts.chunks(BURST).zip(hops.chunks_mut(BURST)) {
            view.burst(default, dsts, hops);
        }
    }

    /// The portable code, with the one instruction that counts ones.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
    fn batch_avx2(&self, dsts: &[u32], hops: &mut [Hop]) {
        self.batch(dsts, hops);
    }
}

impl<'t, V: Value> View<'t, V> {
    #[inline(always)]
    pub(super) fn cell(self, at: u32) -> u32 {
        V::load(&self.cells[at as usize % CELLS])
    }

    /// The block that holds `dst`.
    #[inline(always)]
    pub(super) fn block(self, dst: u32) -> u32 {
        self.tops[(dst >> (32 - V::TOP_BITS)) as usize % TOPS].load(Ordering::Acquire)
    }

    /// The bits at `at`, that of the first /24 (address) the lowest.
    #[inline(always)]
    pub(super) fn map(self, at: u32) -> u64 {
        let place: *const V::Cell = &self.cells[at as usize % CELLS];
        // SAFETY: 8 bytes from a cell on lie inside the array and its spare end;
        // nobody writes them meanwhile (I1), and where a reader is not to be
        // relied on (I3), this is one load like another.
        u64::from_le(unsafe { place.cast::<u64>().read_unaligned() })
    }

    /// Where in the block entry `number` has its record, and its cells; none for a
    /// hop. `None` where it leads to deep records.
    pub(super) fn record(self, block: u32, number: u32) -> Option<(u32, usize)> {
        let entry = self.cell(block + number);
        if entry & PLACE == 0 {
            return Some((0, 0));
        }
        let at = entry & !PLACE;
        let values = self.map(block + at).count_ones() + 1;
        let mut cells = (0..values).map(|i| self.cell(block + at + V::MAP_CELLS as u32 + i));
        let deep = cells.any(|value| value & PLACE != 0);
        (!deep).then_some((at, V::MAP_CELLS + values as usize))
    }

    /// Writes cells where no reader is.
    pub(super) fn write(self, at: u32, values: &[u32]) {
        for (cell, &value) in self.cells[at as usize..][..values.len()].iter().zip(values) {
            V::store(cell, value);
        }
    }

    /// Copies `lines` of a block to where no reader is.
    pub(super) fn copy(self, from: u32, to: u32, lines: u32) {
        let cells = lines as usize * V::ENTRIES;
        let from = self.cells[from as usize..][..cells].as_ptr();
        let to = self.cells[to as usize..][..cells].as_ptr().cast_mut();
        // SAFETY: both lie inside the array; `to` was taken from the `Space` since
        // `from` was, so they do not overlap; nobody writes `from` (I1) nor reads
        // `to`, and the cells are atomics, which may be written when shared.
        unsafe { std::ptr::copy_nonoverlapping(from, to, cells) };
    }

    /// What the block says of `dst`: a hop, or the place of a deep record.
    #[inline(always)]
    fn value(self, block: u32, dst: u32) -> u32 {
        let entry = self.cell(block + (dst >> REST_BITS) % V::ENTRIES as u32);
        let is_record = entry & PLACE != 0;
        // The record of zeros (I2) for the others: no branch on a key.
        let at = std::hint::select_unpredictable(is_record, block.wrapping_add(entry & !PLACE), 0);
        let later = (self.map(at) >> ((dst >> 8) % SLOTS as u32)).count_ones();
        let value = self.cell(at.wrapping_add(V::MAP_CELLS as u32 + later));
        std::hint::select_unpredictable(is_record, value, entry)
    }

    /// The answer inside a /24 that holds longer prefixes.
    #[cold]
    #[inline(never)]
    fn deep(self, dst: u32) -> u32 {
        // The block is loaded anew, so all of the answer comes from one.
        let block = self.block(dst);
        let value = self.value(block, dst);
        if value & PLACE == 0 {
            return value; // it changed meanwhile
        }
        let lines = (value & !PLACE).wrapping_mul(V::ENTRIES as u32);
        let at = block.wrapping_add(lines);
        let low = dst & 0xff;
        let later = (low / 64..4).map(|word| {
            let bits = self.map(at.wrapping_add(word * V::MAP_CELLS as u32));
            let from = if word == low / 64 { low % 64 } else { 0 };
            (bits >> from).count_ones()
        });
        let values = at.wrapping_add(DEEP_WORDS * V::MAP_CELLS as u32);
        self.cell(values.wrapping_add(later.sum::<u32>())) & !PLACE
    }

    /// Up to [`BURST`] lookups, in two passes: blocks and entries, then values.
    #[inline(always)]
    fn burst(self, default: u32, dsts: &[u32], hops: &mut [Hop]) {
        for (hop, &dst) in hops.iter_mut().zip(dsts) {
            hop.0 = self.block(dst);
        }
        for (hop, &dst) in hops.iter_mut().zip(dsts) {
            hop.0 = self.value(hop.0, dst);
        }
        self.finish(default, dsts, hops);
    }

    /// Resolves deep records, then zeros to the default route.
    #[inline(always)]
    fn finish(self, default: u32, dsts: &[u32], hops: &mut [Hop]) {
        if hops.iter().fold(0, |any, hop| any | hop.0) & PLACE != 0 {
            self.finish_deep(default, dsts, hops);
        }
        for hop in hops {
            hop.0 = if hop.0 == 0 { default } else { hop.0 };
        }
    }

    /// Resolves deep records, zeros there to the default route.
    pub(super) fn finish_deep(self, default: u32, dsts: &[u32], hops: &mut [Hop]) {
        for (hop, &dst) in hops.iter_mut().zip(dsts).filter(|(hop, _)| hop.0 & PLACE != 0) {
            let found = self.deep(dst);
            hop.0 = if found == 0 { default } else { found };
        }
    }
}

impl<V: Value> Lpm<u32> for Table<V> {
    #[inline]
    fn lookup(&self, dst: u32) -> Hop {
        let (view, default) = (self.view(), self.default.load(Ordering::Relaxed));
        let mut hop = [Hop(view.value(view.block(dst), dst))];
        view.finish(default, &[dst], &mut hop);
        hop[0]
    }

    fn lookup_batch(&self, dsts: &[u32], hops: &mut [Hop]) {
        assert_eq!(dsts.len(), hops.len());
        match self.isa {
            Isa::Portable => self.batch(dsts, hops),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `Isa::choose` gives this value only where there is AVX2.
            Isa::Avx2 => unsafe { self.batch_avx2(dsts, hops) },
            #[cfg(avx512)]
            // SAFETY: as above, AVX-512.
            Isa::Avx512 => unsafe { super::avx512::batch(self, dsts, hops) },
        }
    }

    fn bytes(&self) -> usize {
        (4 << V::TOP_BITS) + self.touched.load(Ordering::Relaxed) as usize * LINE_BITS / 8
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("hop_bits", V::WIDTH.into()),
            ("lines", self.touched.load(Ordering::Relaxed).into()),
            ("portable", u64::from(self.isa == Isa::Portable)),
        ]
    }
}

/// In an entry: the rest is a record's place in the block, in cells; in a value:
/// a deep record's, in lines.
pub(super) const PLACE: u32 = 1 << 31;

/// Words of a deep record's bits.
pub(super) const DEEP_WORDS: u32 = 4;

pub(super) const LINE_BITS: usize = 512;

/// Tops of the wide table, which has more.
const TOPS: usize = 1 << 14;

/// Cells for which address space is reserved.
pub(super) const CELLS: usize = if cfg!(miri) { 1 << 18 } else { 1 << 27 };

/// Cells behind them that a read of 8 bytes may reach.
const SPARE: usize = 8;

/// Blocks that may wait for readers: more than there are.
const WAITING: usize = 1 << 18;

const BURST: usize = 256;
