//! What readers share: roots, cells, default hop.

mod arrays;
#[cfg(avx512)]
mod avx512;
mod export;

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

use self::arrays::Arrays;
use super::{CARD, RECORD_BITS, REST_BITS};
use crate::Hop;
use crate::lpm::default_hop::{self, DefaultHop};
use crate::lpm::instruments::{Reads, address};
use crate::lpm::isa::Isa;
use crate::lpm::{Lpm, Refusal};
use crate::pages::Zeroed;

/// The width of a cell: 16 bits where every hop fits in 15, else 32.
///
/// The top bit distinguishes a hop, 0 for nothing but /0, from the place of a deep record.
pub(super) trait Value: Send + Sync + 'static {
    type Cell: Zeroed + Send;
    /// Bits of a cell.
    const WIDTH: u32;
    /// Its top bit.
    const DEEP: u32 = 1 << (Self::WIDTH - 1);
    /// The largest hop.
    const MOST: u32 = Self::DEEP - 1;
    /// Cells of a cache line.
    const LINE: usize = 512 / Self::WIDTH as usize;
    /// Cells of 64 bits.
    const WORD: usize = 64 / Self::WIDTH as usize;

    fn load(cell: &Self::Cell) -> u32;
    fn store(cell: &Self::Cell, value: u32);

    /// The cells of I3, to be copied.
    #[cfg(miri)]
    fn own() -> &'static [Self::Cell];
}

/// Cells from 0 on that hold their own numbers.
#[cfg(miri)]
macro_rules! own {
    ($cell:ident, $number:ty) => {{
        static CELLS: [$cell; OWN as usize] = {
            let mut cells = [const { $cell::new(0) }; OWN as usize];
            let mut hop = 0;
            while hop < OWN {
                cells[hop as usize] = $cell::new(hop as $number);
                hop += 1;
            }
            cells
        };
        &CELLS
    }};
}

pub(super) struct Narrow;

impl Value for Narrow {
    type Cell = AtomicU16;
    const WIDTH: u32 = 16;

    #[inline(always)]
    fn load(cell: &AtomicU16) -> u32 {
        cell.load(Ordering::Acquire).into()
    }
    #[inline(always)]
    fn store(cell: &AtomicU16, value: u32) {
        cell.store(value as u16, Ordering::Release);
    }

    #[cfg(miri)]
    fn own() -> &'static [AtomicU16] {
        own!(AtomicU16, u16)
    }
}

pub(super) struct Wide;

impl Value for Wide {
    type Cell = AtomicU32;
    const WIDTH: u32 = 32;

    #[inline(always)]
    fn load(cell: &AtomicU32) -> u32 {
        cell.load(Ordering::Acquire)
    }
    #[inline(always)]
    fn store(cell: &AtomicU32, value: u32) {
        cell.store(value, Ordering::Release);
    }

    #[cfg(miri)]
    fn own() -> &'static [AtomicU32] {
        own!(AtomicU32, u32)
    }
}

/// - I1: a root places a record that was complete before the root was stored. Until
///   every thread online when the root went has quiesced, its cells go from one
///   answer to another, each at once, and deep records are not written at all.
/// - I2: the place in a root is less than the number of cells, its shift from 8 to 14: what
///   a reader makes of any of them lies inside the array.
/// - I3: cell `h` holds `h` for ever, for all `h` less than [`OWN`].
pub(super) struct Table<V: Value> {
    arrays: Arrays<V>,
    /// The hop of /0: a change of the default route is one store.
    pub(super) default: DefaultHop,
    isa: Isa,
    /// How many records of [`SMALL`] cells, and lines of others, were ever used.
    touched: [Arc<AtomicU32>; 2],
}

/// A table's arrays. Read through the table, each would cost a load and a
/// comparison a key.
pub(super) struct View<'t, V: Value> {
    pub(super) roots: &'t [AtomicU32; ROOTS],
    pub(super) cells: &'t [V::Cell],
    /// Cells without the spare ones, less one.
    mask: u32,
}

impl<V: Value> Clone for View<'_, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V: Value> Copy for View<'_, V> {}

impl<V: Value> Table<V> {
    /// A table whose roots are to be stored before it is read.
    pub(super) fn new(
        isa: Isa,
        cells: usize,
        touched: [Arc<AtomicU32>; 2],
    ) -> Result<Self, Refusal> {
        CARD.admit_bytes(ROOTS * 4 + OWN as usize * size_of::<V::Cell>())?;
        let no_memory = |error: std::io::Error| CARD.refuse(format!("no memory: {error}"));
        let table = Table {
            arrays: Arrays::zeroed(cells).map_err(no_memory)?,
            default: DefaultHop::default(),
            isa,
            touched,
        };
        #[cfg(not(miri))]
        (0..OWN).for_each(|hop| table.view().write(hop, &[hop]));
        #[cfg(miri)]
        crate::pages::copy(V::own(), table.view().cells); // at one go: pages::fill
        Ok(table)
    }

    /// The arrays, to be taken once a batch.
    #[inline(always)]
    pub(super) fn view(&self) -> View<'_, V> {
        let (roots, cells, mask) = self.arrays.all();
        View { roots, cells, mask }
    }

    #[inline(always)]
    fn batch(&self, dsts: &[u32], hops: &mut [Hop]) {
        let (view, default) = (self.view(), self.default.get());
        for (dsts, hops) in dsts.chunks(BURST).zip(hops.chunks_mut(BURST)) {
            view.burst(default, dsts, hops);
        }
    }

    /// The portable code, with shifts by counts of their own. Gathers for the reads
    /// would gain nothing on Zen 3 (on Sapphire Rapids two thirds).
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
    fn batch_avx2(&self, dsts: &[u32], hops: &mut [Hop]) {
        self.batch(dsts, hops);
    }
}

impl<'t, V: Value> View<'t, V> {
    #[inline(always)]
    pub(super) fn root(self, dst: u32) -> u32 {
        self.roots[(dst >> REST_BITS) as usize].load(Ordering::Acquire)
    }

    /// What the record of `root` says of `dst`; of a uniform /18, its hop (I3).
    #[inline(always)]
    fn value(self, root: u32, dst: u32) -> u32 {
        // SAFETY: at most 63 cells behind a place that has a cell (I2), by the spare end.
        V::load(unsafe { self.cells.get_unchecked(at(root, dst) as usize) })
    }

    #[inline(always)]
    fn cell(self, at: u32) -> u32 {
        // SAFETY: cut to the cells, whose number is a power of two (I5).
        V::load(unsafe { self.cells.get_unchecked((at & self.mask) as usize) })
    }

    /// The 64 bits at `at`, in a deep record; that of the first address is the lowest.
    #[inline(always)]
    fn bits(self, at: u32) -> u64 {
        if cfg!(target_endian = "big") {
            let cell = |i: u32| u64::from(self.cell(at.wrapping_add(i))) << (i * V::WIDTH);
            return (0..V::WORD as u32).fold(0, |bits, i| bits | cell(i));
        }
        // SAFETY: cut to the cells; those of a word are there behind it, by the spare end.
        let word = unsafe { self.cells.as_ptr().add((at & self.mask) as usize) };
        // SAFETY: any bits are a number; nobody writes to a deep record that readers may see (I1).
        unsafe { word.cast::<u64>().read_unaligned() }
    }

    /// Where records of whole lines begin.
    pub(super) fn large_at(self) -> u32 {
        large_at(self.mask as usize + 1)
    }

    /// The cells of the record of `root`, without what is deep.
    pub(super) fn cells_of(self, root: u32) -> &'t [V::Cell] {
        &self.cells[place(root) as usize..][..len(root)]
    }

    /// Writes cells where no reader is.
    pub(super) fn write(self, at: u32, values: &[u32]) {
        for (cell, &value) in self.cells[at as usize..][..values.len()].iter().zip(values) {
            V::store(cell, value);
        }
    }

    /// The answer inside a /24 that holds longer prefixes.
    #[inline(always)]
    fn deep(self, dst: u32) -> u32 {
        // The root is loaded anew, so all of the answer comes from one record.
        let root = self.root(dst);
        let value = self.value(root, dst);
        if value & V::DEEP == 0 {
            return value; // it changed meanwhile
        }
        self.deep_value(deep_place::<V>(root, value), dst)
    }

    /// The answer of the deep record at `at`, as of a root and a cell of one moment.
    #[inline(always)]
    fn deep_value(self, at: u32, dst: u32) -> u32 {
        self.cell(self.deep_cell(at, dst)) & V::MOST
    }

    /// Where the deep record at `at` has its answer.
    #[inline(always)]
    fn deep_cell(self, at: u32, dst: u32) -> u32 {
        let low = dst & 0xff;
        // All words, though not all count: a branch would be as random as the address.
        let later = (0..DEEP_WORDS).map(|word| {
            let bits = self.bits(at.wrapping_add(word * V::WORD as u32));
            let from = low.saturating_sub(64 * word);
            bits.checked_shr(from).map_or(0, u64::count_ones)
        });
        let values = at.wrapping_add(DEEP_WORDS * V::WORD as u32);
        values.wrapping_add(later.sum::<u32>())
    }

    /// Up to [`BURST`] lookups, pass by pass: nothing waits for a read but a store,
    /// and what lies between the reads is done for eight keys at once.
    #[inline(always)]
    fn burst(self, default: u32, dsts: &[u32], hops: &mut [Hop]) {
        for (hop, &dst) in hops.iter_mut().zip(dsts) {
            hop.0 = self.root(dst);
        }
        for (hop, &dst) in hops.iter_mut().zip(dsts) {
            hop.0 = at(hop.0, dst);
        }
        for hop in hops.iter_mut() {
            // SAFETY: as in `value`.
            hop.0 = V::load(unsafe { self.cells.get_unchecked(hop.0 as usize) });
        }
        self.finish(default, dsts, hops);
    }

    /// Resolves zeros to the default route, then deep records.
    #[inline(always)]
    fn finish(self, default: u32, dsts: &[u32], hops: &mut [Hop]) {
        let mut any = 0;
        for hop in hops.iter_mut() {
            any |= hop.0;
            *hop = default_hop::or(hop.0, default);
        }
        if any & V::DEEP != 0 {
            self.finish_deep(default, dsts, hops);
        }
    }

    /// Looks up again where an answer is the place of a deep record: of at most [`BURST`].
    #[inline(always)]
    fn finish_deep(self, default: u32, dsts: &[u32], hops: &mut [Hop]) {
        // Listed first: which ones are deep, no processor foresees.
        let (mut list, mut len) = ([0_u8; BURST], 0);
        for (i, hop) in hops.iter().enumerate() {
            list[len % BURST] = i as u8;
            len += usize::from(hop.0 & V::DEEP != 0);
        }
        for &i in &list[..len] {
            hops[usize::from(i)] = self.answer(default, dsts[usize::from(i)]);
        }
    }

    /// One answer, default route and deep record included.
    #[inline(always)]
    pub(super) fn answer(self, default: u32, dst: u32) -> Hop {
        let value = self.value(self.root(dst), dst);
        let value = if value & V::DEEP == 0 { value } else { self.deep(dst) };
        default_hop::or(value, default)
    }
}

impl<V: Value> Lpm<u32> for Table<V> {
    #[inline]
    fn lookup(&self, dst: u32) -> Hop {
        self.view().answer(self.default.get(), dst)
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
            Isa::Avx512 => unsafe { avx512::batch(self, dsts, hops) },
        }
    }

    fn isa(&self) -> &'static str {
        self.isa.name()
    }

    fn bytes(&self) -> usize {
        let [small, lines] = self.touched.each_ref().map(|n| n.load(Ordering::Relaxed) as usize);
        let cells = OWN as usize + small * SMALL + lines * V::LINE;
        ROOTS * 4 + cells * size_of::<V::Cell>()
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let [small, lines] = self.touched.each_ref().map(|n| n.load(Ordering::Relaxed).into());
        vec![
            ("hop_bits", V::WIDTH.into()),
            ("small", small),
            ("lines", lines),
            ("portable", u64::from(self.isa == Isa::Portable)),
        ]
    }
}

impl<V: Value> Reads<u32> for Table<V> {
    fn reads(&self, dst: u32) -> Vec<usize> {
        let view = self.view();
        let cell = |at: u32| address(&view.cells[(at & view.mask) as usize]);
        let (root, mut reads) = (view.root(dst), Vec::with_capacity(2));
        reads.push(address(&view.roots[(dst >> REST_BITS) as usize]));
        if len(root) > 1 {
            reads.push(cell(at(root, dst)));
        }
        let value = view.value(root, dst);
        if value & V::DEEP != 0 {
            let record = deep_place::<V>(root, value);
            reads.extend([cell(record), cell(view.deep_cell(record, dst))]);
        }
        reads
    }
}

/// Where the deep record starts that `value`, found by way of `root`, stands for.
#[inline(always)]
fn deep_place<V: Value>(root: u32, value: u32) -> u32 {
    place(root).wrapping_add((value & !V::DEEP).wrapping_mul(V::LINE as u32))
}

/// The root of a record of `cells` (a power of two) at `place`.
pub(super) fn root_of_record(place: u32, cells: usize) -> u32 {
    place << SHIFT_BITS | (REST_BITS - cells.trailing_zeros())
}

/// The root of a /18 of one hop, less than [`OWN`]: a record of one cell.
pub(super) fn root_of_hop(hop: u32) -> u32 {
    root_of_record(hop, 1)
}

/// Where the record of `root` starts.
#[inline(always)]
pub(super) fn place(root: u32) -> u32 {
    root >> SHIFT_BITS
}

/// Its cells.
pub(super) fn len(root: u32) -> usize {
    1 << (REST_BITS - shift(root))
}

/// The cell of `dst` in the record of `root`.
#[inline(always)]
fn at(root: u32, dst: u32) -> u32 {
    place(root) + ((dst % (1 << REST_BITS)) >> shift(root))
}

/// Bits of the address behind those that choose the cell. A shift by a register
/// looks at no more bits of it.
#[inline(always)]
pub(super) fn shift(root: u32) -> u32 {
    root % (1 << SHIFT_BITS)
}

pub(super) const SHIFT_BITS: u32 = 5;

/// Words of a deep record's bits.
pub(super) const DEEP_WORDS: u32 = 4;

pub(super) const ROOTS: usize = 1 << RECORD_BITS;

/// The most cells for which address space is reserved: what a place can name.
pub(super) const CELLS: usize = if cfg!(miri) { 1 << 19 } else { 1 << 27 };

/// Of so many cells, where records of whole lines begin; the small ones lie before.
pub(super) const fn large_at(cells: usize) -> u32 {
    cells as u32 / 4
}

/// Cells behind them that a read may reach.
const SPARE: usize = 64;

/// Hops that have a cell of their own, which stands for a /18 of that hop.
pub(super) const OWN: u32 = 1 << 15;

/// Cells of a small record.
pub(super) const SMALL: usize = 8;

const BURST: usize = 256;

#[cfg(test)]
mod tests {
    use super::super::writer::Rutter4;
    use super::*;
    use crate::sync::Domain;
    use crate::{Prefix, Rib};

    fn table(routes: &[(u32, u8, u32)]) -> Arc<Table<Narrow>> {
        let route = |&(first, len, hop): &(u32, u8, u32)| (Prefix::covering(first, len), Hop(hop));
        let rib: Rib<u32> = routes.iter().map(route).collect();
        Rutter4::build(&rib, Isa::Portable, &Domain::new()).expect("within the limits").table
    }

    /// Between a reader's two looks the answer has become a plain one.
    #[test]
    fn an_answer_that_is_no_longer_deep_is_taken() {
        assert_eq!(table(&[(0x0a00_0100, 24, 7)]).view().deep(0x0a00_0101), 7);
    }

    #[test]
    fn reads_lead_to_the_answer() {
        let table = table(&[(0x0a00_0000, 18, 1), (0x0b00_0100, 24, 2), (0x0b00_0209, 32, 3)]);
        let view = table.view();
        let value = |place: usize| Narrow::load(&view.cells[(place - address(&view.cells[0])) / 2]);
        let root = |dst: u32| address(view.roots) + (dst >> REST_BITS) as usize * 4;
        assert_eq!(table.reads(0x0a00_1234), [root(0x0a00_1234)]);
        for (dst, hop) in [(0x0b00_0100, 2), (0x0b00_01ff, 2), (0x0b00_0300, 0)] {
            let reads = table.reads(dst);
            assert_eq!((reads[0], value(reads[1]), reads.len()), (root(dst), hop, 2));
        }
        // Of the values, the last address's comes first.
        for (dst, hop, later) in [(0x0b00_0208, 0, 2), (0x0b00_0209, 3, 1), (0x0b00_020a, 0, 0)] {
            let reads = table.reads(dst);
            let deep = reads[1] - 2 * 2 + (value(reads[1]) & Narrow::MOST) as usize * 64;
            assert_eq!(reads, [root(dst), reads[1], deep, deep + (16 + later) * 2]);
            assert_eq!(value(reads[3]), hop);
        }
    }
}
