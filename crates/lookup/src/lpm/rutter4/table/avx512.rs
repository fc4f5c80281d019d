//! Sixteen lookups at a time, by gathers.
#![allow(clippy::incompatible_msrv)] // `avx512` is set for compilers that have it

use core::arch::x86_64::*;

use super::super::REST_BITS;
use super::{DEEP_WORDS, SHIFT_BITS, Table, Value, View};
use crate::Hop;

/// As `Lpm::lookup_batch`; the slices are of one length.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt,avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn batch<V: Value>(table: &Table<V>, dsts: &[u32], hops: &mut [Hop]) {
    let (view, default) = (table.view(), table.default.get());
    for (dsts, hops) in dsts.chunks(BURST).zip(hops.chunks_mut(BURST)) {
        burst(view, default, dsts, hops);
    }
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt,avx512f,avx512bw,avx512dq,avx512vl")]
fn burst<V: Value>(view: View<'_, V>, default: u32, dsts: &[u32], hops: &mut [Hop]) {
    let (whole, rest) = dsts.as_chunks();
    let (found, rest_found) = hops.as_chunks_mut();
    let (whole, found) = blocks::<V, 8>(view, default, whole, found);
    let (whole, found) = blocks::<V, 4>(view, default, whole, found);
    blocks::<V, 1>(view, default, whole, found);
    if !rest.is_empty() {
        let (mut keys, mut found) = ([0; LANES], [Hop::NONE; LANES]);
        keys[..rest.len()].copy_from_slice(rest);
        block(view, default, &[keys], std::array::from_mut(&mut found));
        rest_found.copy_from_slice(&found[..rest.len()]);
    }
}

/// As [`burst`], of as many whole blocks as there are; what remains behind them.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt,avx512f,avx512bw,avx512dq,avx512vl")]
fn blocks<'d, 'h, V: Value, const ROWS: usize>(
    view: View<'_, V>,
    default: u32,
    dsts: &'d [[u32; LANES]],
    hops: &'h mut [[Hop; LANES]],
) -> (&'d [[u32; LANES]], &'h mut [[Hop; LANES]]) {
    let (whole, rest) = dsts.as_chunks::<ROWS>();
    let (found, rest_found) = hops.as_chunks_mut::<ROWS>();
    for (keys, hops) in whole.iter().zip(found) {
        block(view, default, keys, hops);
    }
    (rest, rest_found)
}

/// Two passes: the gathers of one wait for nothing. Roots stay in registers between
/// them: of stores on their way, each delays the loads whose places are like its own in
/// their last twelve bits.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt,avx512f,avx512bw,avx512dq,avx512vl")]
fn block<V: Value, const ROWS: usize>(
    view: View<'_, V>,
    default: u32,
    dsts: &[[u32; LANES]; ROWS],
    hops: &mut [[Hop; LANES]; ROWS],
) {
    let mut rows = [number(0); ROWS];
    for (root, keys) in rows.iter_mut().zip(dsts) {
        *root = roots(view, load(keys));
    }
    let mut deep = [0; ROWS];
    for ((root, keys), (hops, deep)) in rows.iter().zip(dsts).zip(hops.iter_mut().zip(&mut deep)) {
        let found = values(view, *root, load(keys));
        *deep = _mm512_test_epi32_mask(found, number(V::DEEP));
        let none = _mm512_testn_epi32_mask(found, found);
        let found = _mm512_mask_mov_epi32(found, none, number(default));
        // A root and a cell of one moment, so the place is that of their own deep record.
        store(hops, if *deep == 0 { found } else { deep_places::<V>(*root, found, *deep) });
    }
    if deep.iter().any(|deep| *deep != 0) {
        finish_deep(view, default, dsts, hops, deep);
    }
}

/// `found`, with the places of deep records in the lanes `deep`.
#[inline]
#[target_feature(enable = "avx512f")]
fn deep_places<V: Value>(roots: __m512i, found: __m512i, deep: __mmask16) -> __m512i {
    let records = _mm512_srli_epi32::<SHIFT_BITS>(roots);
    let lines = _mm512_andnot_si512(number(V::DEEP), found);
    let cells = _mm512_sllv_epi32(lines, number(V::LINE.trailing_zeros()));
    _mm512_mask_add_epi32(found, deep, records, cells)
}

/// Answers from the deep records whose places are in the lanes `deep` of `hops`: these lanes are
/// gathered, answered by eights, and put back.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt,avx512f,avx512bw,avx512dq,avx512vl")]
fn finish_deep<V: Value, const ROWS: usize>(
    view: View<'_, V>,
    default: u32,
    dsts: &[[u32; LANES]; ROWS],
    hops: &mut [[Hop; LANES]; ROWS],
    deep: [__mmask16; ROWS],
) {
    let (mut keys, mut answers) = ([0; BLOCK + LANES], [Hop::NONE; BLOCK + LANES]);
    let mut len = 0;
    for ((dsts, hops), deep) in dsts.iter().zip(&*hops).zip(deep) {
        store_keys(lanes(&mut keys, len), _mm512_maskz_compress_epi32(deep, load(dsts)));
        store(lanes(&mut answers, len), _mm512_maskz_compress_epi32(deep, load_hops(hops)));
        len += deep.count_ones() as usize;
    }
    let (keys, eights) = (keys.as_chunks().0, answers.as_chunks_mut().0);
    for (keys, hops) in keys.iter().zip(eights).take(len.div_ceil(EIGHT)) {
        deep_values(view, default, keys, hops);
    }
    len = 0;
    for (hops, deep) in hops.iter_mut().zip(deep) {
        let found = load_hops(lanes(&mut answers, len));
        store(hops, _mm512_mask_expand_epi32(load_hops(hops), deep, found));
        len += deep.count_ones() as usize;
    }
}

/// Sixteen of `all` from `at` on.
#[inline(always)]
fn lanes<T>(all: &mut [T; BLOCK + LANES], at: usize) -> &mut [T; LANES] {
    all[at..].first_chunk_mut().expect("there are as many behind each row")
}

/// Answers from the deep records at the places in `hops`.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt,avx512f,avx512bw,avx512dq,avx512vl")]
fn deep_values<V: Value>(
    view: View<'_, V>,
    default: u32,
    keys: &[u32; EIGHT],
    hops: &mut [Hop; EIGHT],
) {
    // SAFETY: eight words.
    let keys = unsafe { _mm256_loadu_epi32(keys.as_ptr().cast()) };
    // SAFETY: eight words: a `Hop` is a `u32`.
    let records = unsafe { _mm256_loadu_epi32(hops.as_ptr().cast()) };
    let lows = _mm512_cvtepu8_epi64(_mm256_cvtepi32_epi8(keys));
    let mut sums = number(0);
    for word in 0..DEEP_WORDS {
        // From the key's own bit on: of words before it none, of words behind it all.
        let from = _mm512_subs_epu16(lows, _mm512_set1_epi64(64 * i64::from(word)));
        let bits = _mm512_srlv_epi64(deep_words(view, records, word), from);
        sums = _mm512_add_epi8(sums, bits_set(bits));
    }
    let later = _mm512_cvtepi64_epi32(_mm512_sad_epu8(sums, number(0)));
    let values = _mm256_set1_epi32((DEEP_WORDS * V::WORD as u32) as i32);
    let found = deep_cells(view, _mm256_add_epi32(_mm256_add_epi32(records, values), later));
    let none = _mm256_testn_epi32_mask(found, found);
    let found = _mm256_mask_mov_epi32(found, none, _mm256_set1_epi32(default as i32));
    // SAFETY: as above.
    unsafe { _mm256_storeu_epi32(hops.as_mut_ptr().cast(), found) };
}

/// Of each byte, how many of its bits are set.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn bits_set(bytes: __m512i) -> __m512i {
    let counts = _mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4);
    let (counts, half) = (_mm512_broadcast_i32x4(counts), _mm512_set1_epi8(0xf));
    let low = _mm512_shuffle_epi8(counts, _mm512_and_si512(bytes, half));
    let high = _mm512_and_si512(_mm512_srli_epi16::<4>(bytes), half);
    _mm512_add_epi8(low, _mm512_shuffle_epi8(counts, high))
}

/// Word `word` of eight deep records.
#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
fn deep_words<V: Value>(view: View<'_, V>, records: __m256i, word: u32) -> __m512i {
    let records = _mm256_and_si256(records, _mm256_set1_epi32(view.mask as i32));
    let base = view.cells.as_ptr().wrapping_add(word as usize * V::WORD).cast();
    if V::WIDTH == 16 {
        // SAFETY: less than a line from a cell on, which the spare end has. Nobody
        // writes to a deep record that readers may see (I1).
        unsafe { _mm512_i32gather_epi64::<2>(records, base) }
    } else {
        // SAFETY: as above.
        unsafe { _mm512_i32gather_epi64::<4>(records, base) }
    }
}

/// Eight values of deep records.
#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
fn deep_cells<V: Value>(view: View<'_, V>, at: __m256i) -> __m256i {
    let at = _mm256_and_si256(at, _mm256_set1_epi32(view.mask as i32));
    let base = view.cells.as_ptr().cast();
    let found = if V::WIDTH == 16 {
        // SAFETY: four bytes from a cell on; the rest as above.
        unsafe { _mm256_i32gather_epi32::<2>(base, at) }
    } else {
        // SAFETY: as above.
        unsafe { _mm256_i32gather_epi32::<4>(base, at) }
    };
    _mm256_and_si256(found, _mm256_set1_epi32(V::MOST as i32))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn roots<V: Value>(view: View<'_, V>, keys: __m512i) -> __m512i {
    let numbers = _mm512_srli_epi32::<REST_BITS>(keys);
    // SAFETY: there is a root for all that remains of a key. A lane is one load of
    // four aligned bytes, so a root stored meanwhile is read whole.
    unsafe { _mm512_i32gather_epi32::<4>(numbers, view.roots.as_ptr().cast()) }
}

/// What the records of `roots` say of sixteen keys.
#[inline]
#[target_feature(enable = "avx512f")]
fn values<V: Value>(view: View<'_, V>, roots: __m512i, keys: __m512i) -> __m512i {
    let places = _mm512_srli_epi32::<SHIFT_BITS>(roots);
    let shifts = _mm512_and_si512(roots, number((1 << SHIFT_BITS) - 1));
    // A /18 of one hop has its place for an answer (I3): those lanes read no more.
    let records = _mm512_cmpneq_epi32_mask(shifts, number(REST_BITS));
    let rests = _mm512_and_si512(keys, number((1 << REST_BITS) - 1));
    let at = _mm512_add_epi32(places, _mm512_srlv_epi32(rests, shifts));
    let base = view.cells.as_ptr().cast();
    if V::WIDTH == 16 {
        // SAFETY: four bytes from a cell on: at most 63 cells behind a place that is
        // less than their number (I2), and the spare end.
        // A cell lies on one line, so one stored meanwhile is read whole.
        let pairs = unsafe { _mm512_mask_i32gather_epi32::<2>(places, records, at, base) };
        _mm512_and_si512(pairs, number(0xffff))
    } else {
        // SAFETY: as above.
        unsafe { _mm512_mask_i32gather_epi32::<4>(places, records, at, base) }
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(words: &[u32; LANES]) -> __m512i {
    // SAFETY: sixteen words.
    unsafe { _mm512_loadu_epi32(words.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_hops(hops: &[Hop; LANES]) -> __m512i {
    // SAFETY: sixteen words: a `Hop` is a `u32`.
    unsafe { _mm512_loadu_epi32(hops.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store_keys(to: &mut [u32; LANES], words: __m512i) {
    // SAFETY: sixteen words.
    unsafe { _mm512_storeu_epi32(to.as_mut_ptr().cast(), words) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(hops: &mut [Hop; LANES], words: __m512i) {
    // SAFETY: sixteen words: a `Hop` is a `u32`.
    unsafe { _mm512_storeu_epi32(hops.as_mut_ptr().cast(), words) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn number(n: u32) -> __m512i {
    _mm512_set1_epi32(n as i32)
}

const LANES: usize = 16;
const EIGHT: usize = 8;
/// The most keys between two passes.
const BLOCK: usize = 8 * LANES;
const BURST: usize = 256;
