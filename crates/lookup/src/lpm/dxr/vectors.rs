//! Eight or sixteen searches at a time, by gathers; some such vectors side by side.

use super::search::{FORMAT_SHIFT, FORMATS, PLACE_MASK, SIZE_SHIFT, WIDE};
use super::{Dxr, View};
use crate::Hop;
use crate::lpm::default_hop;
use crate::lpm::lanes::Lanes;

/// As `Lpm::lookup_batch`; the slices are of one length.
#[inline(always)]
pub(super) fn batch<L: Lanes>(lanes: L, table: &Dxr, dsts: &[u32], hops: &mut [Hop]) {
    let default = table.default.get();
    let view = Vectors { lanes, view: table.view(), formats: Formats::new(lanes) };
    let mut burst = Burst::new();
    for (dsts, hops) in dsts.chunks(BURST).zip(hops.chunks_mut(BURST)) {
        view.burst(&mut burst, dsts);
        for (hop, &found) in hops.iter_mut().zip(&burst.found) {
            *hop = default_hop::or(found, default);
        }
    }
}

/// A burst, and the keys of it that have a chunk to search, side by side.
struct Burst {
    /// Root entries, then hops.
    found: [u32; BURST],
    /// Those listed, then their hops.
    keys: [u32; BURST + SPARE],
    entries: [u32; BURST + SPARE],
    listed: usize,
}

impl Burst {
    fn new() -> Self {
        let spare = [0; BURST + SPARE];
        Burst { found: [0; BURST], keys: spare, entries: spare, listed: 0 }
    }
}

#[derive(Clone, Copy)]
struct Vectors<'t, L: Lanes> {
    lanes: L,
    view: View<'t>,
    formats: Formats<L>,
}

impl<L: Lanes> Vectors<'_, L> {
    #[inline(always)]
    fn burst(&self, burst: &mut Burst, dsts: &[u32]) {
        burst.listed = 0;
        let (whole, rest) = dsts.split_at(dsts.len() / L::COUNT * L::COUNT);
        for (row, keys) in whole.chunks_exact(L::COUNT).enumerate() {
            self.enter(burst, row * L::COUNT, keys);
        }
        if !rest.is_empty() {
            let mut keys = [0; MOST_LANES];
            keys[..rest.len()].copy_from_slice(rest);
            self.enter(burst, whole.len(), &keys);
        }
        // What is behind the last is searched with it: nothing, in the first chunk.
        burst.entries[burst.listed..][..SPARE].fill(0);
        for at in (0..burst.listed).step_by(VECTORS * L::COUNT) {
            self.search(burst, at);
        }
        let mut listed = 0;
        for row in (0..dsts.len()).step_by(L::COUNT) {
            listed = self.leave(burst, row, listed);
        }
    }

    /// Reads the root entries of a row of keys, and lists those of chunks.
    #[inline(always)]
    fn enter(&self, burst: &mut Burst, row: usize, keys: &[u32]) {
        let (l, view) = (self.lanes, self.view);
        let keys = l.load(keys);
        let slots = l.shr(keys, l.splat(u32::BITS - view.k));
        // SAFETY: `slots` has the first k bits of a key, 24 at most, and there are 2^24
        // entries.
        let entries = unsafe { l.gather::<4>(l.all(), view.root.as_ptr().cast(), slots) };
        l.store(&mut burst.found[row..], entries);
        let (chunks, at) = (self.chunks(entries), burst.listed.min(BURST));
        l.store(&mut burst.keys[at..], l.compress(chunks, keys));
        l.store(&mut burst.entries[at..], l.compress(chunks, entries));
        burst.listed += chunks.count_ones() as usize;
    }

    /// The lanes whose entry is a chunk.
    #[inline(always)]
    fn chunks(&self, entries: L::Words) -> u32 {
        let l = self.lanes;
        l.bits(l.above(l.shr(entries, l.splat(FORMAT_SHIFT)), l.splat(0)))
    }

    /// Puts the hops of a row's chunks, which are listed at `listed`, where they
    /// belong; where those of the next row are.
    #[inline(always)]
    fn leave(&self, burst: &mut Burst, row: usize, listed: usize) -> usize {
        let l = self.lanes;
        let entries = l.load(&burst.found[row..]);
        let hops = l.load(&burst.keys[listed.min(BURST)..]);
        let chunks = self.chunks(entries);
        l.store(&mut burst.found[row..], l.expand(chunks, hops, entries));
        listed + chunks.count_ones() as usize
    }

    /// Searches some vectors of the keys listed.
    #[inline(always)]
    fn search(&self, burst: &mut Burst, from: usize) {
        let l = self.lanes;
        // Not `from_fn`: its closure stays a call, and cannot have the instructions.
        let mut searches = [self.start(l.splat(0), l.splat(0)); VECTORS];
        for (v, search) in searches.iter_mut().enumerate() {
            let at = from + v * L::COUNT;
            *search = self.start(l.load(&burst.keys[at..]), l.load(&burst.entries[at..]));
        }
        while searches.iter().fold(0, |any, search| any | l.bits(search.active)) != 0 {
            for search in &mut searches {
                self.step(search);
            }
        }
        for (v, search) in searches.iter().enumerate() {
            l.store(&mut burst.keys[from + v * L::COUNT..], self.hops(search));
        }
    }

    #[inline(always)]
    fn start(&self, keys: L::Words, entries: L::Words) -> Search<L> {
        let (l, formats) = (self.lanes, &self.formats);
        let format = l.shr(entries, l.splat(FORMAT_SHIFT));
        let place = l.shl(l.and(entries, l.splat(PLACE_MASK)), l.splat(3));
        let at = l.add(place, l.pick(formats.offsets, format));
        let power = l.and(l.shr(entries, l.splat(SIZE_SHIFT + 2)), l.splat(15));
        let quarters = l.and(l.shr(entries, l.splat(SIZE_SHIFT)), l.splat(3));
        let left = l.shr(l.shl(l.or(quarters, l.splat(4)), power), l.splat(1));
        let low = l.and(keys, l.splat(self.view.low_mask()));
        let base = l.shl(low, l.pick(formats.shifts, format));
        let key = l.or(base, l.pick(formats.ones, format));
        let (mask, active) = (l.pick(formats.masks, format), l.above(left, l.splat(1)));
        Search { format, left, at, key, mask, active }
    }

    /// Halves the ranges of each; where one is left, its word is not behind the key,
    /// and it stays.
    #[inline(always)]
    fn step(&self, search: &mut Search<L>) {
        let l = self.lanes;
        let half = l.shr(search.left, l.splat(1));
        let probe = l.add(search.at, l.shl(half, search.format));
        let words = l.and(self.words(search.active, probe), search.mask);
        let before = l.at_most(words, search.key);
        search.at = l.select(before, probe, search.at);
        search.left = l.sub(search.left, half);
        search.active = l.above(search.left, l.splat(1));
    }

    /// The hops of the ranges that are left.
    #[inline(always)]
    fn hops(&self, search: &Search<L>) -> L::Words {
        let (l, formats) = (self.lanes, &self.formats);
        let places = l.sub(search.at, l.pick(formats.offsets, search.format));
        l.and(self.words(l.all(), places), l.pick(formats.hops, search.format))
    }

    /// The four bytes from each byte of `places` on, in the lanes set.
    #[inline(always)]
    fn words(&self, lanes: L::Mask, places: L::Words) -> L::Words {
        let l = self.lanes;
        let places = l.and(places, l.splat(8 * super::UNITS as u32 - 1));
        // SAFETY: as in `View::word`.
        unsafe { l.gather::<1>(lanes, self.view.ranges.as_ptr().cast(), places) }
    }
}

/// As many of `search::Search` as there are lanes: the fields are those there.
#[derive(Clone, Copy)]
struct Search<L: Lanes> {
    format: L::Words,
    left: L::Words,
    at: L::Words,
    key: L::Words,
    mask: L::Words,
    /// Where more than one range is left.
    active: L::Mask,
}

/// [`FORMATS`] by column, in the lanes that the formats number.
#[derive(Clone, Copy)]
struct Formats<L: Lanes> {
    masks: L::Words,
    shifts: L::Words,
    ones: L::Words,
    offsets: L::Words,
    /// The hop in a range's word.
    hops: L::Words,
}

impl<L: Lanes> Formats<L> {
    #[inline(always)]
    fn new(l: L) -> Self {
        let column = |of: fn(usize) -> u32| {
            l.load(&std::array::from_fn::<u32, MOST_LANES, _>(|i| of(i % FORMATS.len())))
        };
        Formats {
            masks: column(|i| FORMATS[i].0),
            shifts: column(|i| FORMATS[i].1),
            ones: column(|i| FORMATS[i].2),
            offsets: column(|i| FORMATS[i].3),
            hops: column(|i| if i as u32 == WIDE { u32::MAX } else { FORMATS[i].2 }),
        }
    }
}

const MOST_LANES: usize = 16;

/// Vectors searched side by side: one alone waits for each of its reads.
const VECTORS: usize = 4;

/// Places behind a burst that a row, or searches side by side, may reach.
const SPARE: usize = VECTORS * MOST_LANES;

const BURST: usize = 256;
