//! How many keys of a unit are less than a number, on each instruction set.

use std::sync::atomic::{AtomicU32, Ordering};

use super::SIGN;
use crate::lpm::bitmap::ONES;

/// A cache line: a node or a line.
pub(super) type Unit = [AtomicU32; 16];

/// Counts keys, and gives numbers to a batch.
pub(super) trait Rank: Copy {
    /// The number of the first `KEYS` words of `unit`, ascending, that are less
    /// than `x`, all with their top bits turned.
    fn rank<const KEYS: usize>(self, unit: &Unit, x: u32) -> u32;

    /// Appends to `list` the numbers `base..` of `entries` that have bit 31 set.
    fn compress(self, entries: &[u32; GROUP], base: usize, list: &mut List);
}

/// Numbers of keys in a burst.
pub(super) struct List {
    pub(super) places: [u8; BURST + GROUP],
    pub(super) len: usize,
}

pub(super) const BURST: usize = 256;

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
        List { places: [0; BURST + GROUP], len: 0 }
    }

    /// Appends the places of the ones of `mask`. Not one by one: a store whose
    /// place waits for the count before costs 3 cycles a key, this 0.4.
    #[inline(always)]
    fn append(&mut self, mask: u8, base: usize) {
        let ones = ONES[usize::from(mask)].wrapping_add(base as u64 * 0x0101_0101_0101_0101);
        let at = self.len & (BURST - 1); // a burst has no more
        let place = self.places[at..].first_chunk_mut().expect("GROUP more than a burst");
        *place = ones.to_le_bytes();
        self.len += mask.count_ones() as usize;
    }
}

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
        }
    }
}
