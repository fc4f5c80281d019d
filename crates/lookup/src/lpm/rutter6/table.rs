//! What readers share, and how they look up.

#[cfg(avx512)]
mod avx512;
mod deeper;
mod export;

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

use super::rank::{BURST, GROUP, List, Portable, Rank, Unit};
use super::sizes::{DEEPS, Sizes, UNITS};
use super::{CARD, LEVELS, LINE, SEPARATORS, SUPER, x_of};
use crate::Hop;
use crate::hint::{prefetch, prefetch_all};
use crate::lpm::default_hop::{self, DefaultHop};
use crate::lpm::instruments::{Reads, address};
use crate::lpm::isa::Isa;
use crate::lpm::space::Space;
use crate::lpm::{Lpm, Refusal};
use crate::pages::{Masked, Pages};
use crate::sync::Domain;

/// A value of a line: 16 bits where every hop fits in 15, else 32.
///
/// The top bit distinguishes a hop, 0 for nothing but /0, from the number of a deeper
/// tree. Values are handed around as 32 bits with [`DEEP`] as the top bit.
pub(super) trait Value: Send + Sync + 'static {
    /// Keys of a line; a value more follows them.
    const KEYS: usize;
    /// Bits of a value.
    const WIDTH: u32;
    /// The largest hop, and the largest number of a deeper tree.
    const MOST: u32;
    /// Value `i` of a line, as it is there.
    fn raw(unit: &Unit, i: usize) -> u32;
    /// Puts value `i` into a line that is still private.
    fn put(words: &mut [u32; 16], i: usize, value: u32);
    /// Looks `x` up in a line; the value as it is there.
    fn search(rank: impl Rank, unit: &Unit, x: u32) -> u32;

    /// A value as it is in a line, with its top bit as [`DEEP`].
    #[inline(always)]
    fn widen(raw: u32) -> u32 {
        if raw > Self::MOST { raw & Self::MOST | DEEP } else { raw }
    }
}

pub(super) struct Narrow;

impl Value for Narrow {
    const KEYS: usize = 10;
    const WIDTH: u32 = 16;
    const MOST: u32 = (1 << 15) - 1;

    #[inline(always)]
    fn raw(unit: &Unit, i: usize) -> u32 {
        const { assert!(2 * Self::KEYS + Self::KEYS < 2 * 16) };
        let halves: *const AtomicU16 = unit.as_ptr().cast();
        let half = halves.wrapping_add((2 * Self::KEYS + i) & 31);
        // SAFETY: one of the 32 halves of the unit; nobody writes whole words of
        // it meanwhile (I2), and where a reader is not to be relied on (I3), this
        // is one load like another.
        let half = unsafe { &*half };
        u32::from(half.load(Ordering::Relaxed))
    }

    fn put(words: &mut [u32; 16], i: usize, value: u32) {
        let half = value & Self::MOST | value >> 16 & !Self::MOST;
        let at = 2 * Self::KEYS + i;
        let upper = (at % 2 == 1) == cfg!(target_endian = "little");
        words[at / 2] |= if upper { half << 16 } else { half };
    }

    #[inline(always)]
    fn search(rank: impl Rank, unit: &Unit, x: u32) -> u32 {
        Self::raw(unit, rank.rank::<{ Self::KEYS }>(unit, x) as usize)
    }
}

pub(super) struct Wide;

impl Value for Wide {
    const KEYS: usize = 7;
    const WIDTH: u32 = 32;
    const MOST: u32 = DEEP - 1;

    #[inline(always)]
    fn raw(unit: &Unit, i: usize) -> u32 {
        unit[(Self::KEYS + i) & 15].load(Ordering::Relaxed)
    }

    fn put(words: &mut [u32; 16], i: usize, value: u32) {
        words[Self::KEYS + i] = value;
    }

    #[inline(always)]
    fn search(rank: impl Rank, unit: &Unit, x: u32) -> u32 {
        Self::raw(unit, rank.rank::<{ Self::KEYS }>(unit, x) as usize)
    }
}

/// - I1: a root word names cells that were written before; a cell, and a word of
///   `deep`, names a tree that was written before. What a store replaced is not
///   written again until every thread online then has quiesced.
/// - I2: a unit that a tree in use consists of is never written.
/// - I3: whatever words a reader sees that does not quiesce as it should, every
///   place that is made from them lies inside the arrays: all are masked.
pub(super) struct Table<V> {
    /// Root words, then cells. In one mapping: the root alone would be too small for a
    /// page of 2 MB.
    top: Pages<AtomicU32>,
    units: Pages<Unit>,
    deep: Pages<AtomicU32>,
    sizes: Sizes,
    /// The hop of /0.
    pub(super) default: DefaultHop,
    isa: Isa,
    /// How many of `cells` (in [`CELL_UNIT`]), `units` and `deep` were ever used.
    touched: [Arc<AtomicU32>; 3],
    width: std::marker::PhantomData<V>,
}

/// A table's arrays. Read through the table, each would cost a load and a
/// comparison a key.
pub(super) struct View<'t, V> {
    pub(super) root: &'t [AtomicU32; ROOTS],
    pub(super) cells: Masked<'t, AtomicU32>,
    pub(super) units: Masked<'t, Unit>,
    deep: Masked<'t, AtomicU32>,
    width: std::marker::PhantomData<V>,
}

impl<V> Clone for View<'_, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V> Copy for View<'_, V> {}

/// The writer's account of a table's three arrays.
pub(super) struct Spaces {
    pub(super) cells: Space,
    pub(super) units: Space,
    pub(super) deep: Space,
}

impl<V: Value> Table<V> {
    /// A table whose root names nothing yet: the writer fills it.
    pub(super) fn new(
        isa: Isa,
        sizes: Sizes,
        domain: &Arc<Domain>,
    ) -> Result<(Self, Spaces), Refusal> {
        let deeps = (V::MOST as usize).min(sizes.deep - 1) + 1;
        let spaces = Spaces {
            cells: Space::new(domain, (sizes.cells / CELL_UNIT) as u32, WAITING),
            units: Space::new(domain, sizes.units as u32, WAITING),
            deep: Space::new(domain, deeps as u32, WAITING),
        };
        let no_memory = |error: std::io::Error| CARD.refuse(format!("no memory: {error}"));
        let table = Table {
            top: Pages::zeroed(ROOTS + sizes.cells).map_err(no_memory)?,
            units: Pages::zeroed(sizes.units).map_err(no_memory)?,
            deep: Pages::zeroed(sizes.deep).map_err(no_memory)?,
            sizes,
            default: DefaultHop::default(),
            isa,
            touched: [&spaces.cells, &spaces.units, &spaces.deep].map(Space::touched),
            width: std::marker::PhantomData,
        };
        Ok((table, spaces))
    }

    /// The arrays, to be taken once a batch.
    #[inline(always)]
    pub(super) fn view(&self) -> View<'_, V> {
        let (root, cells) = self.top.split_first_chunk().expect("`new`: root words come first");
        View {
            root,
            cells: Masked::new(cells),
            units: Masked::new(&self.units),
            deep: Masked::new(&self.deep),
            width: std::marker::PhantomData,
        }
    }

    #[inline(always)]
    fn batch(&self, rank: impl Rank, dsts: &[u128], hops: &mut [Hop]) {
        let (view, default) = (self.view(), self.default.get());
        let (groups, last) = dsts.as_chunks::<GROUP>();
        let (outs, last_out) = hops.as_chunks_mut::<GROUP>();
        let next = groups.chunks(BURST / GROUP).skip(1).chain([&[][..]]);
        let bursts = groups.chunks(BURST / GROUP).zip(outs.chunks_mut(BURST / GROUP)).zip(next);
        bursts.for_each(|((dsts, hops), next)| view.burst(rank, dsts, next, hops, default));
        if !last.is_empty() {
            let (mut padded, mut found) = ([[0; GROUP]], [[Hop::NONE; GROUP]]);
            padded[0][..last.len()].copy_from_slice(last);
            view.burst(rank, &padded, &[], &mut found, default);
            last_out.copy_from_slice(&found[0][..last.len()]);
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
    fn batch_avx2(&self, dsts: &[u128], hops: &mut [Hop]) {
        // SAFETY: they are enabled here.
        self.batch(unsafe { super::rank::Avx2::new() }, dsts, hops);
    }
}

impl<V> Table<V> {
    /// True where updates soon lack room, so that it should have been made larger.
    pub(super) fn is_tight(&self) -> bool {
        let used = [0, 1, 2].map(|i| self.touched[i].load(Ordering::Relaxed) as usize);
        let Sizes { cells, units, deep } = self.sizes;
        2 * used[0] * CELL_UNIT > cells || 2 * used[1] > units || 2 * used[2] > deep
    }

    /// True where there is no number for another deeper tree, however large the arrays.
    pub(super) fn is_out_of_numbers(&self) -> bool
    where
        V: Value,
    {
        self.touched[2].load(Ordering::Relaxed) > V::MOST
    }
}

impl<'t, V: Value> View<'t, V> {
    /// Root word `i`: which cells, and 64 less the bits that choose among them.
    #[inline(always)]
    pub(super) fn root_word(self, i: usize) -> &'t AtomicU32 {
        &self.root[i % ROOTS]
    }

    #[inline(always)]
    pub(super) fn cell(self, i: usize) -> &'t AtomicU32 {
        self.cells.at(i)
    }

    /// The unit that `entry` names; its flags are ignored.
    #[inline(always)]
    pub(super) fn unit(self, entry: u32) -> &'t Unit {
        const { assert!(UNITS <= LINE as usize) };
        self.units.at(entry as usize)
    }

    #[inline(always)]
    pub(super) fn deep(self, value: u32) -> &'t AtomicU32 {
        const { assert!(DEEPS <= DEEP as usize) };
        self.deep.at(value as usize)
    }

    /// The entry of the tree that holds the answer for an address that starts
    /// with `high`.
    #[inline(always)]
    pub(super) fn entry(self, high: u64) -> u32 {
        let word = self.root_word((high >> 48) as usize).load(Ordering::Acquire);
        self.cell_of(word, high).load(Ordering::Acquire)
    }

    #[inline(always)]
    fn cell_of(self, word: u32, high: u64) -> &'t AtomicU32 {
        let within = (high << 16) >> (word & 63);
        self.cell((word >> 6) as usize + within as usize)
    }

    /// The entry one step down from `entry`.
    #[inline(always)]
    fn step(self, rank: impl Rank, entry: u32, x: u32) -> u32 {
        let node = self.unit(entry);
        let first = node[SEPARATORS].load(Ordering::Relaxed);
        first.wrapping_add(rank.rank::<SEPARATORS>(node, x))
    }

    /// The value for `x` in the tree of `entry`.
    #[inline]
    pub(super) fn value(self, entry: u32, x: u32) -> u32 {
        self.value_by(entry, x, |_| ())
    }

    /// As [`View::value`]; reports each unit on the way.
    #[inline(always)]
    fn value_by(self, mut entry: u32, x: u32, mut reads: impl FnMut(&Unit)) -> u32 {
        for _ in 0..MOST_STEPS {
            if entry & LINE != 0 {
                break;
            }
            let plain = entry & SUPER == 0;
            reads(self.unit(entry));
            entry = self.step(Portable, entry, x);
            if plain {
                break;
            }
        }
        reads(self.unit(entry));
        V::widen(V::search(Portable, self.unit(entry), x))
    }

    /// Takes up to [`BURST`] keys down together, and asks for the `next` ones.
    #[inline(always)]
    fn burst(
        self,
        rank: impl Rank,
        dsts: &[[u128; GROUP]],
        next: &[[u128; GROUP]],
        hops: &mut [[Hop; GROUP]],
        default: u32,
    ) {
        let mut entries = [[0; GROUP]; BURST / GROUP];
        let count = dsts.len().min(BURST / GROUP);
        let (entries, hops) = (&mut entries[..count], &mut hops[..count]);
        for (i, (entries, dsts)) in entries.iter_mut().zip(dsts).enumerate() {
            if let Some(next) = next.get(i) {
                prefetch_all(next);
            }
            *entries = dsts.map(|dst| self.entry((dst >> 64) as u64));
        }
        self.supers(rank, dsts.as_flattened(), entries);
        for (entries, dsts) in entries.iter_mut().zip(dsts) {
            for (entry, &dst) in entries.iter_mut().zip(dsts) {
                *entry = self.step(rank, *entry, x_of(dst, 0));
                prefetch(self.unit(*entry));
            }
        }
        for ((hops, entries), dsts) in hops.iter_mut().zip(&*entries).zip(dsts) {
            for ((hop, &entry), &dst) in hops.iter_mut().zip(entries).zip(dsts) {
                hop.0 = V::search(rank, self.unit(entry), x_of(dst, 0));
            }
        }
        // A pass of its own: many at a time, where it costs 5 instructions a key.
        let (hops, mut any) = (hops.as_flattened_mut(), 0);
        for hop in &mut *hops {
            any |= hop.0;
            *hop = default_hop::or(hop.0, default);
        }
        if any > V::MOST {
            self.finish_deep(rank, dsts.as_flattened(), hops, default);
        }
    }

    /// Steps down from super nodes until every entry names a plain one.
    #[inline(always)]
    fn supers(self, rank: impl Rank, dsts: &[u128], entries: &mut [[u32; GROUP]]) {
        let mut list = List::new();
        for (i, group) in entries.iter().enumerate() {
            rank.compress(group, i * GROUP, &mut list);
        }
        let entries = entries.as_flattened_mut();
        for _ in 0..MOST_STEPS {
            let (listed, mut left) = (list.len, 0);
            for at in 0..listed {
                let i = usize::from(list.places[at]);
                entries[i] = self.step(rank, entries[i], x_of(dsts[i], 0));
                prefetch(self.unit(entries[i]));
                list.places[left] = i as u8; // `left` is not ahead of `at`
                left += (entries[i] >> 31) as usize;
            }
            list.len = left;
            if left == 0 {
                break;
            }
        }
    }
}

impl<V: Value> Lpm<u128> for Table<V> {
    fn lookup(&self, dst: u128) -> Hop {
        let view = self.view();
        let mut value = view.value(view.entry((dst >> 64) as u64), x_of(dst, 0));
        if value & DEEP != 0 {
            value = view.below(value, dst);
        }
        self.default.or(value)
    }

    fn lookup_batch(&self, dsts: &[u128], hops: &mut [Hop]) {
        assert_eq!(dsts.len(), hops.len());
        match self.isa {
            Isa::Portable => self.batch(Portable, dsts, hops),
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
        let [cells, units, deep] =
            [0, 1, 2].map(|i| self.touched[i].load(Ordering::Relaxed) as usize);
        (ROOTS + cells * CELL_UNIT + deep) * size_of::<u32>() + units * size_of::<Unit>()
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let touched = |i: usize| u64::from(self.touched[i].load(Ordering::Relaxed));
        vec![
            ("hop_bits", V::WIDTH.into()),
            ("cells", touched(0) * CELL_UNIT as u64),
            ("units", touched(1)),
            ("deep_trees", touched(2)),
            ("portable", u64::from(self.isa == Isa::Portable)),
        ]
    }
}

impl<V: Value> Reads<u128> for Table<V> {
    fn reads(&self, dst: u128) -> Vec<usize> {
        let (view, high) = (self.view(), (dst >> 64) as u64);
        let root = view.root_word((high >> 48) as usize);
        let mut cell = view.cell_of(root.load(Ordering::Acquire), high);
        let mut reads = vec![address(root)];
        for level in 0..LEVELS {
            reads.push(address(cell));
            let entry = cell.load(Ordering::Acquire);
            let value = view.value_by(entry, x_of(dst, level), |unit| reads.push(address(unit)));
            if value & DEEP == 0 {
                break;
            }
            cell = view.deep(value);
        }
        reads
    }
}

/// The top bit of a value: the rest is the number of a deeper tree.
pub(super) const DEEP: u32 = 1 << 31;

pub(super) const ROOTS: usize = 1 << 16;

/// Cells are handed out by this many: a cache line.
pub(super) const CELL_UNIT: usize = 16;

/// Pieces of each array that may wait for readers.
const WAITING: usize = 1 << 20;

/// Steps from a tree's first node to its line: 15 times 16^6 lines are more than
/// there are units.
pub(super) const MOST_STEPS: usize = 8;
