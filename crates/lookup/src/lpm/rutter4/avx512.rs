//! Sixteen lookups at a time, by gathers.
#![allow(clippy::incompatible_msrv)] // `avx512` is set for compilers that have it

use core::arch::x86_64::*;
use std::sync::atomic::Ordering;

use super::table::{CELLS, PLACE, Table, Value, View};
use super::{REST_BITS, SLOTS};
use crate::Hop;

/// As `Lpm::lookup_batch`; the slices are of one length.
#[target_feature(
    enable = "avx2,bmi1,bmi2,popcnt,avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq"
)]
pub(super) fn batch<V: Value>(table: &Table<V>, dsts: &[u32], hops: &mut [Hop]) {
    let (view, hop) = (table.view(), table.default.load(Ordering::Relaxed));
    let default = _mm512_set1_epi32(hop as i32);
    for (dsts, hops) in dsts.chunks(BURST).zip(hops.chunks_mut(BURST)) {
        let mut any = 0;
        let mut i = 0;
        while i < dsts.len() {
            let left = (dsts.len() - i).min(LANES);
            let lanes = (u32::MAX >> (32 - left)) as __mmask16;
            // SAFETY: the lanes set lie inside the slice.
            let keys =
                unsafe { _mm512_maskz_loadu_epi32(lanes, dsts.as_ptr().wrapping_add(i).cast()) };
            let (found, deep) = sixteen(view, keys);
            any |= deep & lanes;
            let none = _mm512_testn_epi32_mask(found, found);
            let found = _mm512_mask_mov_epi32(found, none, default);
            // SAFETY: as above; a `Hop` is a `u32`.
            unsafe {
                _mm512_mask_storeu_epi32(hops.as_mut_ptr().wrapping_add(i).cast(), lanes, found)
            };
            i += LANES;
        }
        if any != 0 {
            view.finish_deep(hop, dsts, hops);
        }
    }
}

/// What the blocks say of sixteen keys, and which are places of deep records.
#[inline]
#[target_feature(
    enable = "avx2,bmi1,bmi2,popcnt,avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq"
)]
fn sixteen<V: Value>(view: View<'_, V>, keys: __m512i) -> (__m512i, __mmask16) {
    let number = |n: u32| _mm512_set1_epi32(n as i32);
    let flag = number(1 << (V::WIDTH - 1));
    let tops = _mm512_srlv_epi32(keys, number(32 - V::TOP_BITS));
    // SAFETY: `tops` has an entry for all that remains of a key. A lane is one
    // load of four aligned bytes, so a word stored meanwhile is read whole.
    let blocks = unsafe { _mm512_i32gather_epi32::<4>(tops, view.tops.as_ptr().cast()) };
    let numbers = _mm512_srli_epi32::<REST_BITS>(keys);
    let numbers = _mm512_and_si512(numbers, number(V::ENTRIES as u32 - 1));
    let zeros = _mm512_setzero_si512();
    let entries = cells(view, zeros, 0xffff, _mm512_add_epi32(blocks, numbers));
    let records = _mm512_test_epi32_mask(entries, flag);
    let places = _mm512_add_epi32(blocks, _mm512_andnot_si512(flag, entries));
    let slots = _mm512_and_si512(_mm512_srli_epi32::<8>(keys), number(SLOTS as u32 - 1));
    let low = later(view, records as u8, half::<0>(places), half::<0>(slots));
    let high = later(view, (records >> 8) as u8, half::<1>(places), half::<1>(slots));
    let later = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high);
    let values = _mm512_add_epi32(places, number(V::MAP_CELLS as u32));
    let found = cells(view, entries, records, _mm512_add_epi32(values, later));
    let deep = _mm512_test_epi32_mask(found, flag);
    (_mm512_mask_or_epi32(found, deep, found, number(PLACE)), deep)
}

/// The cells at `places`, not widened; those of `other` where `lanes` has none.
#[inline]
#[target_feature(enable = "avx512f")]
fn cells<V: Value>(
    view: View<'_, V>,
    other: __m512i,
    lanes: __mmask16,
    places: __m512i,
) -> __m512i {
    let base = view.cells.as_ptr().cast();
    let places = _mm512_and_si512(places, _mm512_set1_epi32(CELLS as i32 - 1));
    if V::WIDTH == 16 {
        // SAFETY: four bytes from a cell on: I3, and a spare end. All cells that
        // a block in use consists of are written no more (I1).
        let pairs = unsafe { _mm512_mask_i32gather_epi32::<2>(other, lanes, places, base) };
        _mm512_and_si512(pairs, _mm512_set1_epi32(0xffff))
    } else {
        // SAFETY: as above.
        unsafe { _mm512_mask_i32gather_epi32::<4>(other, lanes, places, base) }
    }
}

/// Changes of the answer after `slots`, by the bits at `places`.
#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx512vpopcntdq")]
fn later<V: Value>(view: View<'_, V>, lanes: __mmask8, places: __m256i, slots: __m256i) -> __m256i {
    let (zeros, base) = (_mm512_setzero_si512(), view.cells.as_ptr().cast());
    let places = _mm256_and_si256(places, _mm256_set1_epi32(CELLS as i32 - 1));
    let maps = if V::WIDTH == 16 {
        // SAFETY: eight bytes from a cell on, otherwise as in `cells`.
        unsafe { _mm512_mask_i32gather_epi64::<2>(zeros, lanes, places, base) }
    } else {
        // SAFETY: as above.
        unsafe { _mm512_mask_i32gather_epi64::<4>(zeros, lanes, places, base) }
    };
    let later = _mm512_popcnt_epi64(_mm512_srlv_epi64(maps, _mm512_cvtepu32_epi64(slots)));
    _mm512_cvtepi64_epi32(later)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn half<const UPPER: i32>(lanes: __m512i) -> __m256i {
    _mm512_extracti64x4_epi64::<UPPER>(lanes)
}

const LANES: usize = 16;
const BURST: usize = 256;
