//! Sixteen lookups side by side. Of a line only the comparison is made for each key
//! alone; what lies between two lines is done for sixteen at once, by gathers.
#![allow(clippy::incompatible_msrv)] // `avx512` is set for compilers that have it

use core::arch::x86_64::*;
use std::sync::atomic::Ordering;

use super::super::{LEVELS, LINE, SEPARATORS, SIGN};
use super::{MOST_STEPS, Table, UNITS, Value, View};
use crate::Hop;
use crate::hint::prefetch_all;
use crate::lpm::default_hop;

/// As `Lpm::lookup_batch`; the slices are of one length.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt,avx512f,avx512bw,avx512dq,avx512vl")]
#[target_feature(enable = "avx512vpopcntdq,avx512vbmi2")]
pub(super) fn batch<V: Value>(table: &Table<V>, dsts: &[u128], hops: &mut [Hop]) {
    let (view, default) = (table.view(), table.default.get());
    let mut burst = Burst::new();
    let next = dsts.chunks(BURST).skip(1).chain([&[][..]]);
    for ((dsts, hops), next) in dsts.chunks(BURST).zip(hops.chunks_mut(BURST)).zip(next) {
        if burst.run(view, default, dsts, next, hops) != 0 {
            burst.deepen(view, default, dsts, hops);
        }
    }
}

/// Where the keys of a burst have got to; a row is sixteen of them.
#[repr(align(64))]
struct Burst {
    /// The `x` of each, its top bit turned.
    x: [[u32; LANES]; ROWS],
    /// Entries of trees, nodes or lines.
    entries: [[u32; LANES]; ROWS],
    /// Which words of its node or line are less than each `x`.
    less: [[u16; LANES]; ROWS],
    /// Numbers of those whose entry names a super node.
    supers: [u32; BURST + LANES],
    count: usize,
    /// Which lanes of a row have values that name deeper trees.
    deep: [__mmask16; ROWS],
}

impl Burst {
    fn new() -> Self {
        Burst {
            x: [[0; LANES]; ROWS],
            entries: [[0; LANES]; ROWS],
            less: [[0; LANES]; ROWS],
            supers: [0; BURST + LANES],
            count: 0,
            deep: [0; ROWS],
        }
    }

    /// Not zero where there are deeper trees. Asks for `next`, the keys behind `dsts`.
    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt,avx512f,avx512bw,avx512dq,avx512vl")]
    #[target_feature(enable = "avx512vpopcntdq,avx512vbmi2")]
    fn run<V: Value>(
        &mut self,
        view: View<'_, V>,
        default: u32,
        dsts: &[u128],
        next: &[u128],
        hops: &mut [Hop],
    ) -> __mmask16 {
        let (whole, rest) = dsts.as_chunks();
        let (next, _) = next.as_chunks::<LANES>();
        self.count = 0;
        let (blocks, rows) = whole.as_chunks::<BLOCK>();
        for (block, keys) in blocks.iter().enumerate() {
            self.enter(view, block * BLOCK, keys);
        }
        for (row, keys) in (blocks.len() * BLOCK..).zip(rows) {
            self.enter(view, row, std::array::from_ref(keys));
        }
        if !rest.is_empty() {
            let mut keys = [0; LANES];
            keys[..rest.len()].copy_from_slice(rest);
            self.enter(view, whole.len(), &[keys]);
        }
        let rows = dsts.len().div_ceil(LANES);
        self.step_supers(view);
        self.compare(view, rows);
        for row in 0..rows {
            if let Some(next) = next.get(row) {
                prefetch_all(next); // here, where all reads are near
            }
            self.step(view, row);
        }
        self.compare(view, rows);
        let mut any = 0;
        let (whole, rest) = hops.as_chunks_mut();
        for (row, hops) in whole.iter_mut().enumerate() {
            self.deep[row] = self.leave(view, row, default, hops);
            any |= self.deep[row];
        }
        if !rest.is_empty() {
            let mut found = [Hop::NONE; LANES];
            let deep = self.leave(view, whole.len(), default, &mut found);
            self.deep[whole.len()] = deep & first_lanes(rest.len());
            any |= self.deep[whole.len()];
            rest.copy_from_slice(&found[..rest.len()]);
        }
        any
    }

    /// The answers of keys whose values name deeper trees: all go down together, a level at a
    /// time, as all keys did before.
    #[inline(never)]
    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt,avx512f,avx512bw,avx512dq,avx512vl")]
    #[target_feature(enable = "avx512vpopcntdq,avx512vbmi2")]
    fn deepen<V: Value>(
        &mut self,
        view: View<'_, V>,
        default: u32,
        dsts: &[u128],
        hops: &mut [Hop],
    ) {
        let (mut keys, mut count) = (Keys { numbers: [0; BURST + LANES] }, 0);
        for (row, &deep) in self.deep[..dsts.len().div_ceil(LANES)].iter().enumerate() {
            let numbers = _mm512_add_epi32(lanes(), number((row * LANES) as u32));
            count = keys.append(count, deep, numbers);
        }
        for level in 1..LEVELS {
            let rows = count.div_ceil(LANES);
            self.count = 0;
            for row in 0..rows {
                let there = first_lanes(count - row * LANES);
                let numbers = keys.row(row);
                let (upper, lower) = words_of(dsts, level, there, numbers);
                let found = gather_hops(hops, there, numbers);
                let entries = deep_entries(view, _mm512_and_si512(found, number(V::MOST)));
                self.note(row, _mm512_shldi_epi32::<16>(upper, lower), entries);
            }
            self.step_supers(view);
            self.compare(view, rows);
            (0..rows).for_each(|row| self.step_deep(view, row));
            self.compare(view, rows);
            let mut left = 0;
            for row in 0..rows {
                let there = first_lanes(count - row * LANES);
                let (numbers, mut found) = (keys.row(row), [Hop::NONE; LANES]);
                let deep = self.leave(view, row, default, &mut found) & there;
                scatter_hops(hops, there, numbers, &found);
                left = keys.append(left, deep, numbers); // `left` is not ahead of this row
            }
            count = left;
            if count == 0 {
                return;
            }
        }
        // Of a reader that does not quiesce: some hop or other.
        for &i in &keys.numbers[..count] {
            let hop = &mut hops[i as usize];
            *hop = default_hop::or(hop.0 & V::MOST, default);
        }
    }

    /// Reads root words, then cells, of `N` rows from `row` on. What is found stays in
    /// registers until all are read: stores on their way delay loads of like places.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512vbmi2,popcnt")]
    fn enter<V: Value, const N: usize>(
        &mut self,
        view: View<'_, V>,
        row: usize,
        keys: &[[u128; LANES]; N],
    ) {
        let (mut x, mut found) = ([number(0); N], [number(0); N]);
        for ((x, word), keys) in x.iter_mut().zip(&mut found).zip(keys) {
            let (upper, lower) = halves(keys);
            *x = _mm512_shldi_epi32::<16>(upper, lower);
            let roots = _mm512_srli_epi32::<16>(upper);
            // SAFETY: 16 bits, and there are 2^16 words. A lane is one load of four aligned
            // bytes, so a word that is stored meanwhile is read whole.
            *word = unsafe { _mm512_i32gather_epi32::<4>(roots, view.root.as_ptr().cast()) };
        }
        for (x, word) in x.iter().zip(&mut found) {
            // 64 less the bits that choose the cell, 16 at most; 32 of them are not in `x`.
            let shifts = _mm512_and_si512(*word, number(31));
            let places = _mm512_srli_epi32::<6>(*word);
            let cells = _mm512_add_epi32(places, _mm512_srlv_epi32(*x, shifts));
            let cells = _mm512_and_si512(cells, number(view.cells.mask() as u32));
            // SAFETY: masked to the array's length; otherwise as above.
            *word = unsafe { _mm512_i32gather_epi32::<4>(cells, view.cells.as_ptr().cast()) };
        }
        for (row, (x, entries)) in (row..).zip(x.into_iter().zip(found)) {
            self.note(row, x, entries);
        }
    }

    /// Takes down what [`Burst::enter`] found.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,popcnt")]
    fn note(&mut self, row: usize, x: __m512i, entries: __m512i) {
        store(&mut self.x[row], _mm512_xor_si512(x, number(SIGN)));
        store(&mut self.entries[row], entries);
        let supers = _mm512_movepi32_mask(entries);
        let numbers = _mm512_add_epi32(lanes(), number((row * LANES) as u32));
        let at = self.count % BURST; // a burst has no more
        let place = self.supers[at..].first_chunk_mut().expect("a row more than a burst");
        store(place, _mm512_maskz_compress_epi32(supers, numbers));
        self.count += supers.count_ones() as usize;
    }

    /// Steps down from super nodes until every entry names a plain one.
    #[inline]
    #[target_feature(enable = "avx512f,popcnt")]
    fn step_supers<V: Value>(&mut self, view: View<'_, V>) {
        let (x, entries) = (self.x.as_flattened(), self.entries.as_flattened_mut());
        for _ in 0..MOST_STEPS {
            let (listed, mut left) = (self.count, 0);
            for at in 0..listed {
                let i = self.supers[at] as usize % BURST;
                let node = view.unit(entries[i]);
                let first = node[SEPARATORS].load(Ordering::Relaxed);
                let less = less(view, entries[i], x[i]) & of_keys(SEPARATORS);
                entries[i] = first.wrapping_add(less.count_ones());
                self.supers[left] = i as u32; // `left` is not ahead of `at`
                left += (entries[i] >> 31) as usize;
            }
            self.count = left;
            if left == 0 {
                break;
            }
        }
    }

    /// Compares each `x` with the keys of its entry's unit: nothing waits for the
    /// read of the unit but a store.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn compare<V: Value>(&mut self, view: View<'_, V>, rows: usize) {
        let rows = rows.min(ROWS);
        // By eights, so that the compiler unrolls them.
        let (x, _) = self.x[..rows].as_flattened().as_chunks::<8>();
        let (entries, _) = self.entries[..rows].as_flattened().as_chunks::<8>();
        let (masks, _) = self.less.as_flattened_mut().as_chunks_mut::<8>();
        for ((masks, x), entries) in masks.iter_mut().zip(x).zip(entries) {
            for ((mask, &x), &entry) in masks.iter_mut().zip(x).zip(entries) {
                *mask = less(view, entry, x);
            }
        }
    }

    /// From nodes to lines.
    #[inline]
    #[target_feature(enable = "avx512f,avx512vpopcntdq")]
    fn step<V: Value>(&mut self, view: View<'_, V>, row: usize) {
        let next = self.lines(view, row);
        store(&mut self.entries[row], next);
    }

    /// The same of deeper trees: those that are a line alone stay there.
    #[inline]
    #[target_feature(enable = "avx512f,avx512vpopcntdq")]
    fn step_deep<V: Value>(&mut self, view: View<'_, V>, row: usize) {
        let entries = load(&self.entries[row]);
        let alone = _mm512_test_epi32_mask(entries, number(LINE));
        let next = _mm512_mask_mov_epi32(self.lines(view, row), alone, entries);
        store(&mut self.entries[row], next);
    }

    /// The entries of the lines below nodes.
    #[inline]
    #[target_feature(enable = "avx512f,avx512vpopcntdq")]
    fn lines<V: Value>(&self, view: View<'_, V>, row: usize) -> __m512i {
        let at = _mm512_or_si512(first_words(view, load(&self.entries[row])), number(15));
        // SAFETY: word 15 of a unit that was just read.
        let first = unsafe { _mm512_i32gather_epi32::<4>(at, view.units.as_ptr().cast()) };
        _mm512_add_epi32(first, self.ranks(row, SEPARATORS))
    }

    /// From lines to hops.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vpopcntdq")]
    fn leave<V: Value>(
        &self,
        view: View<'_, V>,
        row: usize,
        default: u32,
        hops: &mut [Hop; LANES],
    ) -> __mmask16 {
        let words = first_words(view, load(&self.entries[row]));
        let index = _mm512_add_epi32(self.ranks(row, V::KEYS), number(V::KEYS as u32));
        let base = view.units.as_ptr().cast();
        let found = if V::WIDTH == 16 {
            let keys = number(V::KEYS as u32);
            let halves = _mm512_add_epi32(_mm512_slli_epi32::<1>(words), index);
            let halves = _mm512_add_epi32(halves, keys);
            // SAFETY: four bytes from half 2 * KEYS + 10 at most of a unit, 40 of 64.
            let pairs = unsafe { _mm512_i32gather_epi32::<2>(halves, base) };
            _mm512_and_si512(pairs, number(0xffff))
        } else {
            let words = _mm512_add_epi32(words, index);
            // SAFETY: word 14 at most of a unit.
            unsafe { _mm512_i32gather_epi32::<4>(words, base) }
        };
        let none = _mm512_testn_epi32_mask(found, found);
        let resolved = _mm512_mask_mov_epi32(found, none, number(default));
        // SAFETY: sixteen words: a `Hop` is a `u32`.
        unsafe { _mm512_storeu_si512(hops.as_mut_ptr().cast(), resolved) };
        _mm512_test_epi32_mask(found, number(V::MOST + 1))
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512vpopcntdq")]
    fn ranks(&self, row: usize, keys: usize) -> __m512i {
        // SAFETY: sixteen numbers of 16 bits.
        let less = unsafe { _mm256_loadu_si256(self.less[row].as_ptr().cast()) };
        let less = _mm512_and_si512(_mm512_cvtepu16_epi32(less), number(of_keys(keys).into()));
        _mm512_popcnt_epi32(less)
    }
}

/// Numbers of keys of a burst.
struct Keys {
    numbers: [u32; BURST + LANES],
}

impl Keys {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn row(&self, row: usize) -> __m512i {
        load(self.numbers[row * LANES..].first_chunk().expect("a row more than a burst"))
    }

    /// Puts some lanes of `numbers` at `at`; returns where the next ones come.
    #[inline]
    #[target_feature(enable = "avx512f,popcnt")]
    fn append(&mut self, at: usize, lanes: __mmask16, numbers: __m512i) -> usize {
        let place = self.numbers[at..].first_chunk_mut().expect("a row more than a burst");
        store(place, _mm512_maskz_compress_epi32(lanes, numbers));
        at + lanes.count_ones() as usize
    }
}

/// The first `n` lanes, or all.
fn first_lanes(n: usize) -> __mmask16 {
    if n < LANES { (1 << n) - 1 } else { !0 }
}

/// The words of sixteen of the keys that have the bits of `level`, the upper word first.
#[inline]
#[target_feature(enable = "avx512f")]
fn words_of(dsts: &[u128], level: u32, there: __mmask16, numbers: __m512i) -> (__m512i, __m512i) {
    let none = number(0);
    let word = |word: u32| {
        let at = _mm512_or_si512(_mm512_slli_epi32::<2>(numbers), number(word));
        // SAFETY: one of the four words of a key that is there.
        unsafe { _mm512_mask_i32gather_epi32::<4>(none, there, at, dsts.as_ptr().cast()) }
    };
    // The lowest word is the first.
    let lower = 2_u32.checked_sub(level).map_or(none, word);
    (word(3 - level), lower)
}

/// Entries of the deeper trees with these numbers.
#[inline]
#[target_feature(enable = "avx512f")]
fn deep_entries<V>(view: View<'_, V>, trees: __m512i) -> __m512i {
    let at = _mm512_and_si512(trees, number(view.deep.mask() as u32));
    // SAFETY: masked to the array's length. A lane is one load of four aligned bytes, so a word
    // that is stored meanwhile is read whole.
    unsafe { _mm512_i32gather_epi32::<4>(at, view.deep.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn gather_hops(hops: &[Hop], there: __mmask16, numbers: __m512i) -> __m512i {
    let (none, base) = (number(0), hops.as_ptr().cast());
    // SAFETY: hops of keys that are there.
    unsafe { _mm512_mask_i32gather_epi32::<4>(none, there, numbers, base) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn scatter_hops(hops: &mut [Hop], there: __mmask16, numbers: __m512i, found: &[Hop; LANES]) {
    // SAFETY: sixteen words: a `Hop` is a `u32`.
    let found = unsafe { _mm512_loadu_si512(found.as_ptr().cast()) };
    // SAFETY: hops of keys that are there, all different.
    unsafe {
        _mm512_mask_i32scatter_epi32::<4>(hops.as_mut_ptr().cast(), there, numbers, found);
    }
}

/// Which words of a unit are less than `x`, all turned.
#[inline]
#[target_feature(enable = "avx512f")]
fn less<V: Value>(view: View<'_, V>, entry: u32, x: u32) -> u16 {
    // SAFETY: the whole unit; no thread that quiesces as it should is reading while
    // it is written (I2), and any words will do for the others (I3).
    let words = unsafe { _mm512_loadu_si512(view.unit(entry).as_ptr().cast()) };
    _mm512_cmpgt_epi32_mask(number(x), words)
}

/// Those of its first words.
const fn of_keys(keys: usize) -> u16 {
    (1 << keys) - 1
}

/// The number of the first word of each entry's unit; its flags are ignored.
#[inline]
#[target_feature(enable = "avx512f")]
fn first_words<V>(view: View<'_, V>, entries: __m512i) -> __m512i {
    const { assert!(UNITS.is_power_of_two() && UNITS <= 1 << 26) };
    _mm512_slli_epi32::<4>(_mm512_and_si512(entries, number(view.units.mask() as u32)))
}

/// Bits 127 to 96 and 95 to 64 of sixteen keys.
#[inline]
#[target_feature(enable = "avx512f")]
fn halves(keys: &[u128; LANES]) -> (__m512i, __m512i) {
    let quarters = keys.as_chunks::<4>().0;
    // SAFETY: four keys.
    let four = |i: usize| unsafe { _mm512_loadu_si512(quarters[i].as_ptr().cast()) };
    let odd = _mm512_set_epi64(15, 13, 11, 9, 7, 5, 3, 1);
    let low = _mm512_permutex2var_epi64(four(0), odd, four(1));
    let high = _mm512_permutex2var_epi64(four(2), odd, four(3));
    let even = _mm512_slli_epi32::<1>(lanes());
    let odd = _mm512_or_si512(even, number(1));
    (_mm512_permutex2var_epi32(low, odd, high), _mm512_permutex2var_epi32(low, even, high))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn lanes() -> __m512i {
    _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(words: &[u32; LANES]) -> __m512i {
    // SAFETY: sixteen words.
    unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(to: &mut [u32; LANES], words: __m512i) {
    // SAFETY: sixteen words.
    unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), words) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn number(n: u32) -> __m512i {
    _mm512_set1_epi32(n as i32)
}

const LANES: usize = 16;
const ROWS: usize = BURST / LANES;
/// Rows that enter together.
const BLOCK: usize = 4;
const BURST: usize = 256;
