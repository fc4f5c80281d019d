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
    let view = table.view();
    let default = number(table.default.load(Ordering::Acquire));
    for (dsts, hops) in dsts.chunks(VECTORS * LANES).zip(hops.chunks_mut(VECTORS * LANES)) {
        let lanes = std::array::from_fn(|v| {
            let left = dsts.len().saturating_sub(v * LANES).min(LANES);
            ((1_u32 << left) - 1) as __mmask16
        });
        let mut keys = [_mm512_setzero_si512(); VECTORS];
        for v in 0..VECTORS {
            let place = dsts.as_ptr().wrapping_add(v * LANES).cast();
            // SAFETY: the lanes set lie inside the slice.
            keys[v] = unsafe { _mm512_maskz_loadu_epi32(lanes[v], place) };
        }
        let found = search(view, keys, lanes);
        for v in 0..VECTORS {
            let none = _mm512_testn_epi32_mask(found[v], found[v]);
            let found = _mm512_mask_mov_epi32(found[v], none, default);
            let place = hops.as_mut_ptr().wrapping_add(v * LANES).cast();
            // SAFETY: as above; a `Hop` is a `u32`.
            unsafe { _mm512_mask_storeu_epi32(place, lanes[v], found) };
        }
    }
}

/// The hops of `keys` in their `lanes`, 0 where only /0 covers a key.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt,avx512f,avx512bw,avx512dq,avx512vl")]
fn search(
    view: View<'_>,
    keys: [__m512i; VECTORS],
    lanes: [__mmask16; VECTORS],
) -> [__m512i; VECTORS] {
    let (slot_shift, low_mask) = (number(32 - view.k), number(view.low_mask()));
    let table = |field: fn((u32, u32, u32, u32)) -> u32| {
        let all: [u32; LANES] = std::array::from_fn(|i| field(FORMATS[i % 4]));
        // SAFETY: sixteen words.
        unsafe { _mm512_loadu_si512(all.as_ptr().cast()) }
    };
    let (masks, shifts) = (table(|f| f.0), table(|f| f.1));
    let (ones, offsets) = (table(|f| f.2), table(|f| f.3));
    let zero = _mm512_setzero_si512();
    let mut entries = [zero; VECTORS];
    for v in 0..VECTORS {
        let slots = _mm512_srlv_epi32(keys[v], slot_shift);
        // SAFETY: `slots` has the first k bits of a key, and there are 2^24 entries. A
        // lane is one load of four aligned bytes, so an entry is read whole.
        entries[v] = unsafe { _mm512_i32gather_epi32::<4>(slots, view.root.as_ptr().cast()) };
    }
    let mut active = [0; VECTORS];
    let (mut formats, mut at, mut left) = ([zero; VECTORS], [zero; VECTORS], [zero; VECTORS]);
    let (mut least, mut mask) = ([zero; VECTORS], [zero; VECTORS]);
    let mut chunks = [0; VECTORS];
    for v in 0..VECTORS {
        let entry = entries[v];
        chunks[v] = _mm512_cmpge_epu32_mask(entry, number(1 << FORMAT_SHIFT)) & lanes[v];
        active[v] = chunks[v];
        formats[v] = _mm512_srli_epi32::<FORMAT_SHIFT>(entry);
        let place = _mm512_slli_epi32::<3>(_mm512_and_si512(entry, number(PLACE_MASK)));
        at[v] = _mm512_add_epi32(place, _mm512_permutexvar_epi32(formats[v], offsets));
        let quarters = _mm512_and_si512(_mm512_srli_epi32::<SIZE_SHIFT>(entry), number(3));
        let power = _mm512_srli_epi32::<{ SIZE_SHIFT + 2 }>(entry);
        let power = _mm512_and_si512(power, number(15));
        let cells = _mm512_sllv_epi32(_mm512_or_si512(quarters, number(4)), power);
        left[v] = _mm512_srli_epi32::<1>(cells);
        let low = _mm512_and_si512(keys[v], low_mask);
        let base = _mm512_sllv_epi32(low, _mm512_permutexvar_epi32(formats[v], shifts));
        least[v] = _mm512_or_si512(base, _mm512_permutexvar_epi32(formats[v], ones));
        mask[v] = _mm512_permutexvar_epi32(formats[v], masks);
    }
    while active.iter().fold(0, |any, lanes| any | lanes) != 0 {
        for v in 0..VECTORS {
            let half = _mm512_srli_epi32::<1>(left[v]);
            let probe = _mm512_add_epi32(at[v], _mm512_sllv_epi32(half, formats[v]));
            let words = words(view, active[v], probe);
            let words = _mm512_and_si512(words, mask[v]);
            let before = _mm512_mask_cmple_epu32_mask(active[v], words, least[v]);
            at[v] = _mm512_mask_mov_epi32(at[v], before, probe);
            left[v] = _mm512_sub_epi32(left[v], half);
            active[v] = _mm512_mask_cmpgt_epu32_mask(active[v], left[v], number(1));
        }
    }
    let wide = number(WIDE);
    for v in 0..VECTORS {
        let place = _mm512_sub_epi32(at[v], _mm512_permutexvar_epi32(formats[v], offsets));
        let words = words(view, chunks[v], place);
        let all = _mm512_cmpeq_epi32_mask(formats[v], wide);
        let ones = _mm512_permutexvar_epi32(formats[v], ones);
        let ones = _mm512_mask_mov_epi32(ones, all, number(u32::MAX));
        entries[v] = _mm512_mask_and_epi32(entries[v], chunks[v], words, ones);
    }
    entries
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

/// Vectors searched side by side: one alone waits for each of its reads.
const VECTORS: usize = 4;
