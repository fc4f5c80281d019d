//! How many keys of a unit are less than a number, on each instruction set.

use std::sync::atomic::Ordering;

use super::SIGN;
#[cfg(avx512)]
use super::table::CELLS;
use super::table::{Unit, Value, View};

/// Counts keys, and gives numbers to a batch.
pub(super) trait Rank: Copy {
    /// The number of the first `KEYS` words of `unit`, ascending, that are less
    /// than `x`, all with their top bits turned.
    fn rank<const KEYS: usize>(self, unit: &Unit, x: u32) -> u32;

    /// The entries of the trees for a group of keys.
    #[inline(always)]
    fn entries<V: Value>(self, view: View<'_, V>, dsts: &[u128; GROUP]) -> [u32; GROUP] {
        dsts.map(|dst| view.entry((dst >> 64) as u64))
    }

    /// Appends to `list` the numbers `base..` of `entries` that have bit 31 set.
    fn compress(self, entries: &[u32; GROUP], base: usize, list: &mut List);
}

/// Numbers of keys in a burst.
pub(super) struct List {
    pub(super) places: [u8; super::table::BURST + GROUP],
    pub(super) len: usize,
}

/// Entries that [`Rank::compress`] takes at a time.
pub(super) const GROUP: usize = 8;

#[derive(Clone, Copy)]
pub(super) struct Portable;

impl Rank for Portable {
    #[inline(always)]
    fn rank<const KEYS: usize>(self, unit: &Unit, x: u32) -> u32 {
        // Halving without a branch on a key; KEYS is known, so it is unrolled.
        let x = (x ^ SIGN) as i32;
        let less = |i: usize| (unit[i & (unit.len() - 1)].load(Ordering::Relaxed) as i32) < x;
        let (mut rank, mut left) = (0, KEYS);
        while left > 1 {
            let half = left / 2;
            rank += if less(rank + half - 1) { half } else { 0 };
            left -= half;
        }
        (rank + usize::from(less(rank))) as u32
    }

    #[inline(always)]
    fn compress(self, entries: &[u32; GROUP], base: usize, list: &mut List) {
        let mask = (0..GROUP).fold(0, |mask, i| mask | (entries[i] >> 31) << i);
        list.append(mask as u8, base);
    }
}

impl List {
    pub(super) fn new() -> Self {
        List { places: [0; super::table::BURST + GROUP], len: 0 }
    }

    /// Appends the places of the ones of `mask`. Not one by one: a store whose
    /// place waits for the count before costs 3 cycles a key, this 0.4.
    #[inline(always)]
    fn append(&mut self, mask: u8, base: usize) {
        let ones = ONES[usize::from(mask)].wrapping_add(base as u64 * 0x0101_0101_0101_0101);
        let at = self.len & (super::table::BURST - 1); // a burst has no more
        let place = self.places[at..].first_chunk_mut().expect("GROUP more than a burst");
        *place = ones.to_le_bytes();
        self.len += mask.count_ones() as usize;
    }
}

/// For each byte the places of its ones, a byte each.
static ONES: [u64; 256] = {
    let mut all = [0; 256];
    let mut mask = 0;
    while mask < 256 {
        let (mut bit, mut at) = (0, 0);
        while bit < 8 {
            if mask >> bit & 1 == 1 {
                all[mask] |= (bit as u64) << (8 * at);
                at += 1;
            }
            bit += 1;
        }
        mask += 1;
    }
    all
};

/// Made by code only that AVX2, BMI2 and POPCNT are enabled for.
///
/// It holds [`SIGN`] eight times, in a way that the compiler does not see through:
/// else it turns the bit of `x` before it spreads it, for 2 instructions more.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(super) struct Avx2(core::arch::x86_64::__m256i);

#[cfg(target_arch = "x86_64")]
impl Avx2 {
    /// # Safety
    /// The processor has AVX2, BMI2 and POPCNT.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn new() -> Self {
        Avx2(std::hint::black_box(core::arch::x86_64::_mm256_set1_epi32(SIGN as i32)))
    }
}

#[cfg(target_arch = "x86_64")]
impl Rank for Avx2 {
    #[inline(always)]
    fn rank<const KEYS: usize>(self, unit: &Unit, x: u32) -> u32 {
        // SAFETY: `new` asks for the instructions.
        unsafe { rank_avx2::<KEYS>(self.0, unit, x) }
    }

    #[inline(always)]
    fn compress(self, entries: &[u32; GROUP], base: usize, list: &mut List) {
        // SAFETY: `new` asks for the instructions.
        let mask = unsafe { signs_avx2(entries) };
        list.append(mask, base);
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2,popcnt")]
fn rank_avx2<const KEYS: usize>(sign: core::arch::x86_64::__m256i, unit: &Unit, x: u32) -> u32 {
    use core::arch::x86_64::*;
    let place = unit.as_ptr().cast::<__m256i>();
    let x = _mm256_xor_si256(_mm256_set1_epi32(x as i32), sign);
    // SAFETY: the first half of the unit; no thread that quiesces as it should
    // is reading while it is written, and any words will do for the others.
    let low = _mm256_cmpgt_epi32(x, unsafe { _mm256_loadu_si256(place) });
    if KEYS <= 8 {
        let less = _mm256_movemask_ps(_mm256_castsi256_ps(low)) & ((1 << KEYS) - 1);
        return less.count_ones();
    }
    // SAFETY: the second half, otherwise as above.
    let high = _mm256_cmpgt_epi32(x, unsafe { _mm256_loadu_si256(place.wrapping_add(1)) });
    // Two bytes a key, in the order low 0-3, high 0-3, low 4-7, high 4-7.
    let less = _mm256_movemask_epi8(_mm256_packs_epi32(low, high)) as u32;
    let wanted =
        (0..KEYS).fold(0_u32, |mask, i| mask | 1 << (2 * (i % 4 + i / 8 * 4 + i / 4 % 2 * 8)));
    (less & wanted).count_ones()
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn signs_avx2(entries: &[u32; GROUP]) -> u8 {
    use core::arch::x86_64::*;
    // SAFETY: eight words.
    let entries = unsafe { _mm256_loadu_si256(entries.as_ptr().cast()) };
    _mm256_movemask_ps(_mm256_castsi256_ps(entries)) as u8
}

/// Made by code only that AVX-512 is enabled for.
#[cfg(avx512)]
#[derive(Clone, Copy)]
pub(super) struct Avx512(Avx2, core::arch::x86_64::__m512i);

#[cfg(avx512)]
impl Avx512 {
    /// # Safety
    /// The processor has AVX-512 F, beside what [`Avx2::new`] asks for.
    #[inline]
    #[target_feature(enable = "avx2,avx512f")]
    #[allow(clippy::incompatible_msrv)] // `avx512` is set for compilers that have them
    pub(super) unsafe fn new() -> Self {
        let sign = std::hint::black_box(core::arch::x86_64::_mm512_set1_epi32(SIGN as i32));
        // SAFETY: the caller's promise.
        Avx512(unsafe { Avx2::new() }, sign)
    }
}

#[cfg(avx512)]
impl Rank for Avx512 {
    #[inline(always)]
    fn rank<const KEYS: usize>(self, unit: &Unit, x: u32) -> u32 {
        // SAFETY: `new` asks for the instructions.
        unsafe { rank_avx512::<KEYS>(self.1, unit, x) }
    }

    #[inline(always)]
    fn entries<V: Value>(self, view: View<'_, V>, dsts: &[u128; GROUP]) -> [u32; GROUP] {
        // SAFETY: `new` asks for the instructions.
        unsafe { entries_avx512(view, dsts) }
    }

    #[inline(always)]
    fn compress(self, entries: &[u32; GROUP], base: usize, list: &mut List) {
        self.0.compress(entries, base, list);
    }
}

#[cfg(avx512)]
#[inline]
#[target_feature(enable = "avx512f,popcnt")]
#[allow(clippy::incompatible_msrv)] // `avx512` is set for compilers that have them
fn rank_avx512<const KEYS: usize>(sign: core::arch::x86_64::__m512i, unit: &Unit, x: u32) -> u32 {
    use core::arch::x86_64::*;
    // SAFETY: the whole unit; otherwise as in `rank_avx2`.
    let words = unsafe { _mm512_loadu_si512(unit.as_ptr().cast()) };
    let less = _mm512_cmplt_epi32_mask(words, _mm512_xor_si512(_mm512_set1_epi32(x as i32), sign));
    (u32::from(less) & ((1 << KEYS) - 1)).count_ones()
}

/// As `View::entry`, by gathers: 6 instructions a key instead of 15.
#[cfg(avx512)]
#[inline]
#[target_feature(enable = "avx512f")]
#[allow(clippy::incompatible_msrv)] // `avx512` is set for compilers that have them
fn entries_avx512<V: Value>(view: View<'_, V>, dsts: &[u128; GROUP]) -> [u32; GROUP] {
    use core::arch::x86_64::*;
    let number = |n: usize| _mm512_set1_epi64(n as i64);
    let (low, high) = dsts.split_at(GROUP / 2);
    // SAFETY: four keys.
    let low = unsafe { _mm512_loadu_si512(low.as_ptr().cast()) };
    // SAFETY: the other four.
    let high = unsafe { _mm512_loadu_si512(high.as_ptr().cast()) };
    let odd = _mm512_set_epi64(15, 13, 11, 9, 7, 5, 3, 1);
    let highs = _mm512_permutex2var_epi64(low, odd, high);
    let roots = _mm512_srli_epi64::<48>(highs);
    // SAFETY: 16 bits, and there are 2^16 words. A lane is one load of four aligned
    // bytes, so a word that is stored meanwhile is read whole.
    let words = unsafe { _mm512_i64gather_epi32::<4>(roots, view.root.as_ptr().cast()) };
    let words = _mm512_cvtepu32_epi64(words);
    let shifts = _mm512_and_si512(words, number(63));
    let within = _mm512_srlv_epi64(_mm512_slli_epi64::<16>(highs), shifts);
    let cells = _mm512_add_epi64(_mm512_srli_epi64::<6>(words), within);
    let cells = _mm512_and_si512(cells, number(CELLS - 1));
    // SAFETY: masked to the array's length; otherwise as above.
    let entries = unsafe { _mm512_i64gather_epi32::<4>(cells, view.cells.as_ptr().cast()) };
    let mut all = [0; GROUP];
    // SAFETY: eight words.
    unsafe { _mm256_storeu_si256(all.as_mut_ptr().cast(), entries) };
    all
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;
    use crate::lpm::oracle::Rng;

    fn agrees<const KEYS: usize>(rank: impl Rank) {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let mut words: [u32; 16] = std::array::from_fn(|_| rng.next() as u32 >> (seed % 30));
            words[..KEYS].sort_unstable();
            words[KEYS - (seed as usize % KEYS)..KEYS].fill(u32::MAX);
            let unit = words.map(|word| AtomicU32::new(word ^ SIGN));
            let near = words.iter().flat_map(|&w| [w.wrapping_sub(1), w, w.wrapping_add(1)]);
            for x in near.chain([0, u32::MAX, 1 << 31]) {
                let want = words[..KEYS].iter().filter(|&&word| word < x).count() as u32;
                assert_eq!(rank.rank::<KEYS>(&unit, x), want, "{words:?} {x}");
            }
        }
    }

    fn compresses(rank: impl Rank) {
        let mut rng = Rng::new(1);
        let (mut list, mut want) = (List::new(), Vec::new());
        for base in (0..64).step_by(GROUP) {
            let entries: [u32; GROUP] = std::array::from_fn(|_| rng.next() as u32);
            rank.compress(&entries, base, &mut list);
            want.extend((0..GROUP).filter(|&i| entries[i] >> 31 == 1).map(|i| (base + i) as u8));
        }
        assert_eq!(list.places[..list.len], want);
    }

    fn all(rank: impl Rank) {
        agrees::<15>(rank);
        agrees::<10>(rank);
        agrees::<8>(rank);
        agrees::<7>(rank);
        compresses(rank);
    }

    #[test]
    fn every_instruction_set_counts_alike() {
        all(Portable);
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("popcnt") {
            // SAFETY: it was just detected (BMI2 is used by none of these).
            all(unsafe { Avx2::new() });
            #[cfg(avx512)]
            if is_x86_feature_detected!("avx512f") {
                // SAFETY: it was just detected.
                all(unsafe { Avx512::new() });
            }
        }
    }
}
