//! Sixteen searches at a time, by gathers; some such vectors side by side.
#![allow(clippy::incompatible_msrv)] // `avx512` is set for compilers that have it

use core::arch::x86_64::*;
use std::sync::atomic::Ordering;

use super::search::{FORMAT_SHIFT, FORMATS, PLACE_MASK, SIZE_SHIFT, WIDE};
use super::{Dxr, View};
use crate::Hop;

/// As `Lpm::lookup_batch`; the slices are of one length.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt,avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn batch(table: &Dxr, dsts: &[u32], hops: &mut [Hop]) {
    let (view, formats) = (table.view(), Formats::new());
    let default = number(table.default.load(Ordering::Acquire));
    for (dsts, hops) in dsts.chunks(VECTORS * LANES).zip(hops.chunks_mut(VECTORS * LANES)) {
        let mut searches = [Search::none(); VECTORS];
        for (v, search) in searches.iter_mut().enumerate() {
            let left = dsts.len().saturating_sub(v * LANES).min(LANES);
            let lanes = ((1_u32 << left) - 1) as __mmask16;
            let place = dsts.as_ptr().wrapping_add(v * LANES).cast();
            // SAFETY: the lanes set lie inside the slice.
            let keys = unsafe { _mm512_maskz_loadu_epi32(lanes, place) };
            *search = Search::new(view, &formats, lanes, keys);
        }
        while searches.iter().fold(0, |any, search| any | search.active) != 0 {
            for search in &mut searches {
                search.step(view);
            }
        }
        for (v, search) in searches.iter().enumerate() {
            let found = search.hops(view, &formats);
            let none = _mm512_testn_epi32_mask(found, found);
            let found = _mm512_mask_mov_epi32(found, none, default);
            let place = hops.as_mut_ptr().wrapping_add(v * LANES).cast();
            // SAFETY: as above; a `Hop` is a `u32`.
            unsafe { _mm512_mask_storeu_epi32(place, search.lanes, found) };
        }
    }
}

/// [`FORMATS`] by column, in the lanes that the formats number.
struct Formats {
    masks: __m512i,
    shifts: __m512i,
    ones: __m512i,
    offsets: __m512i,
}

impl Formats {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn new() -> Self {
        let column = |of: fn((u32, u32, u32, u32)) -> u32| {
            let all: [u32; LANES] = std::array::from_fn(|i| of(FORMATS[i % FORMATS.len()]));
            // SAFETY: sixteen words.
            unsafe { _mm512_loadu_si512(all.as_ptr().cast()) }
        };
        let (masks, shifts) = (column(|format| format.0), column(|format| format.1));
        let (ones, offsets) = (column(|format| format.2), column(|format| format.3));
        Formats { masks, shifts, ones, offsets }
    }
}

/// Sixteen of `search::Search`: the fields are those there.
#[derive(Clone, Copy)]
struct Search {
    /// Lanes that have a key, a chunk, and more than one range left.
    lanes: __mmask16,
    chunks: __mmask16,
    active: __mmask16,
    entries: __m512i,
    format: __m512i,
    left: __m512i,
    at: __m512i,
    key: __m512i,
    mask: __m512i,
}

impl Search {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn none() -> Self {
        let zero = _mm512_setzero_si512();
        let (entries, format, left, at, key, mask) = (zero, zero, zero, zero, zero, zero);
        Search { lanes: 0, chunks: 0, active: 0, entries, format, left, at, key, mask }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn new(view: View<'_>, formats: &Formats, lanes: __mmask16, keys: __m512i) -> Self {
        let slots = _mm512_srlv_epi32(keys, number(u32::BITS - view.k));
        // SAFETY: `slots` has the first k bits of a key, and there are 2^24 entries. A
        // lane is one load of four aligned bytes, so an entry is read whole.
        let entries = unsafe { _mm512_i32gather_epi32::<4>(slots, view.root.as_ptr().cast()) };
        let chunks = _mm512_mask_cmpge_epu32_mask(lanes, entries, number(1 << FORMAT_SHIFT));
        let format = _mm512_srli_epi32::<FORMAT_SHIFT>(entries);
        let place = _mm512_slli_epi32::<3>(_mm512_and_si512(entries, number(PLACE_MASK)));
        let at = _mm512_add_epi32(place, _mm512_permutexvar_epi32(format, formats.offsets));
        let power = _mm512_srli_epi32::<{ SIZE_SHIFT + 2 }>(entries);
        let power = _mm512_and_si512(power, number(15));
        let quarters = _mm512_and_si512(_mm512_srli_epi32::<SIZE_SHIFT>(entries), number(3));
        let twice = _mm512_sllv_epi32(_mm512_or_si512(quarters, number(4)), power);
        let left = _mm512_srli_epi32::<1>(twice);
        let low = _mm512_and_si512(keys, number(view.low_mask()));
        let base = _mm512_sllv_epi32(low, _mm512_permutexvar_epi32(format, formats.shifts));
        let key = _mm512_or_si512(base, _mm512_permutexvar_epi32(format, formats.ones));
        let mask = _mm512_permutexvar_epi32(format, formats.masks);
        Search { lanes, chunks, active: chunks, entries, format, left, at, key, mask }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn step(&mut self, view: View<'_>) {
        let half = _mm512_srli_epi32::<1>(self.left);
        let probe = _mm512_add_epi32(self.at, _mm512_sllv_epi32(half, self.format));
        let words = _mm512_and_si512(words(view, self.active, probe), self.mask);
        let before = _mm512_mask_cmple_epu32_mask(self.active, words, self.key);
        self.at = _mm512_mask_mov_epi32(self.at, before, probe);
        self.left = _mm512_sub_epi32(self.left, half);
        self.active = _mm512_mask_cmpgt_epu32_mask(self.active, self.left, number(1));
    }

    /// The hops of the keys, 0 where only /0 covers a key.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn hops(&self, view: View<'_>, formats: &Formats) -> __m512i {
        let offsets = _mm512_permutexvar_epi32(self.format, formats.offsets);
        let words = words(view, self.chunks, _mm512_sub_epi32(self.at, offsets));
        let wide = _mm512_cmpeq_epi32_mask(self.format, number(WIDE));
        let ones = _mm512_permutexvar_epi32(self.format, formats.ones);
        let ones = _mm512_mask_mov_epi32(ones, wide, number(u32::MAX));
        _mm512_mask_and_epi32(self.entries, self.chunks, words, ones)
    }
}

/// The four bytes from each byte of `places` on, in the lanes set.
#[inline]
#[target_feature(enable = "avx512f")]
fn words(view: View<'_>, lanes: __mmask16, places: __m512i) -> __m512i {
    let places = _mm512_and_si512(places, number(8 * super::UNITS as u32 - 1));
    let base = view.ranges.as_ptr().cast();
    let zero = _mm512_setzero_si512();
    // SAFETY: as in `View::word`.
    unsafe { _mm512_mask_i32gather_epi32::<1>(zero, lanes, places, base) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn number(n: u32) -> __m512i {
    _mm512_set1_epi32(n as i32)
}

const LANES: usize = 16;

/// Vectors searched side by side: one alone waits for each of its reads. Eight lose
/// 10 % to four: they do not fit the registers.
const VECTORS: usize = 4;
