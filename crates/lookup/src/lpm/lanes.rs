//! Numbers of 32 bits side by side: what AVX2 and AVX-512 have in common, so that a
//! search is written once for eight keys at a time and for sixteen.
//!
//! Readers gather from what a writer stores meanwhile: a lane is one load of four
//! bytes. Where these are aligned, and where they lie in one cache line, it sees
//! them as they were at one time, as an atomic load would.

use core::arch::x86_64::*;

use super::bitmap::ONES;

/// An instruction set; a value is made by code only that has it enabled, and so
/// vouches for the instructions.
pub(super) trait Lanes: Copy {
    type Words: Copy;
    /// A bit or a word of ones for each lane that is set.
    type Mask: Copy;
    const COUNT: usize;

    fn splat(self, n: u32) -> Self::Words;
    /// The first of `words`, of which there are enough.
    fn load(self, words: &[u32]) -> Self::Words;
    /// Over the first of `to`, of which there are enough.
    fn store(self, to: &mut [u32], words: Self::Words);

    fn add(self, a: Self::Words, b: Self::Words) -> Self::Words;
    fn sub(self, a: Self::Words, b: Self::Words) -> Self::Words;
    fn and(self, a: Self::Words, b: Self::Words) -> Self::Words;
    fn or(self, a: Self::Words, b: Self::Words) -> Self::Words;
    /// By less than 32 bits.
    fn shl(self, a: Self::Words, by: Self::Words) -> Self::Words;
    /// By less than 32 bits.
    fn shr(self, a: Self::Words, by: Self::Words) -> Self::Words;
    /// Lanes of `table`, of which the first eight are to be had.
    fn pick(self, table: Self::Words, at: Self::Words) -> Self::Words;

    fn all(self) -> Self::Mask;
    /// `a <= b`
    fn at_most(self, a: Self::Words, b: Self::Words) -> Self::Mask;
    /// `a > b`, of numbers less than 2^31.
    fn above(self, a: Self::Words, b: Self::Words) -> Self::Mask;
    fn select(self, mask: Self::Mask, set: Self::Words, clear: Self::Words) -> Self::Words;
    fn bits(self, mask: Self::Mask) -> u32;
    /// The lanes that `bits` has set, side by side; others behind them.
    fn compress(self, bits: u32, words: Self::Words) -> Self::Words;
    /// The first of `words` in the lanes that `bits` has set; the others of `clear`.
    fn expand(self, bits: u32, words: Self::Words, clear: Self::Words) -> Self::Words;

    /// In the lanes set the four bytes `SCALE * at` behind `base`, in the others 0.
    ///
    /// # Safety
    /// `at` is less than 2^31, and the bytes may be read.
    unsafe fn gather<const SCALE: i32>(
        self,
        mask: Self::Mask,
        base: *const u32,
        at: Self::Words,
    ) -> Self::Words;
}

/// Operations that are one instruction.
macro_rules! single {
    ($($name:ident($($arg:ident: $of:ident),*) -> $to:ident = $does:expr;)*) => {$(
        #[inline(always)]
        fn $name(self, $($arg: Self::$of),*) -> Self::$to {
            // SAFETY: `self` vouches for the instruction.
            unsafe { $does }
        }
    )*};
}

#[derive(Clone, Copy)]
pub(super) struct Avx2(());

impl Avx2 {
    /// # Safety
    /// The processor has AVX2.
    pub(super) unsafe fn new() -> Self {
        Avx2(())
    }
}

impl Lanes for Avx2 {
    type Words = __m256i;
    type Mask = __m256i;
    const COUNT: usize = 8;

    #[inline(always)]
    fn splat(self, n: u32) -> __m256i {
        // SAFETY: `self` vouches for the instruction.
        unsafe { _mm256_set1_epi32(n as i32) }
    }
    #[inline(always)]
    fn load(self, words: &[u32]) -> __m256i {
        // SAFETY: eight words, or it panics; `self` vouches for the instruction.
        unsafe { _mm256_loadu_si256(words[..8].as_ptr().cast()) }
    }
    #[inline(always)]
    fn store(self, to: &mut [u32], words: __m256i) {
        // SAFETY: eight words, or it panics; `self` vouches for the instruction.
        unsafe { _mm256_storeu_si256(to[..8].as_mut_ptr().cast(), words) }
    }

    single! {
        add(a: Words, b: Words) -> Words = _mm256_add_epi32(a, b);
        sub(a: Words, b: Words) -> Words = _mm256_sub_epi32(a, b);
        and(a: Words, b: Words) -> Words = _mm256_and_si256(a, b);
        or(a: Words, b: Words) -> Words = _mm256_or_si256(a, b);
        shl(a: Words, by: Words) -> Words = _mm256_sllv_epi32(a, by);
        shr(a: Words, by: Words) -> Words = _mm256_srlv_epi32(a, by);
        pick(table: Words, at: Words) -> Words = _mm256_permutevar8x32_epi32(table, at);
        all() -> Mask = _mm256_set1_epi32(-1);
        at_most(a: Words, b: Words) -> Mask = at_most_avx2(a, b);
        above(a: Words, b: Words) -> Mask = _mm256_cmpgt_epi32(a, b);
        select(mask: Mask, set: Words, clear: Words) -> Words =
            _mm256_blendv_epi8(clear, set, mask);
    }

    #[inline(always)]
    fn bits(self, mask: __m256i) -> u32 {
        // SAFETY: `self` vouches for the instruction.
        unsafe { bits_avx2(mask) }
    }
    #[inline(always)]
    fn compress(self, bits: u32, words: __m256i) -> __m256i {
        // SAFETY: `self` vouches for the instruction.
        unsafe { compress_avx2(ONES[bits as usize % 256], words) }
    }
    #[inline(always)]
    fn expand(self, bits: u32, words: __m256i, clear: __m256i) -> __m256i {
        // SAFETY: `self` vouches for the instruction.
        unsafe { expand_avx2(BEFORE[bits as usize % 256], words, clear) }
    }
    #[inline(always)]
    unsafe fn gather<const SCALE: i32>(
        self,
        mask: __m256i,
        base: *const u32,
        at: __m256i,
    ) -> __m256i {
        // SAFETY: the caller's promise; `self` vouches for the instruction.
        unsafe { gather_avx2::<SCALE>(mask, base, at) }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn at_most_avx2(a: __m256i, b: __m256i) -> __m256i {
    _mm256_cmpeq_epi32(_mm256_min_epu32(a, b), a) // there is no unsigned comparison
}

#[inline]
#[target_feature(enable = "avx2")]
fn bits_avx2(mask: __m256i) -> u32 {
    _mm256_movemask_ps(_mm256_castsi256_ps(mask)) as u32
}

#[inline]
#[target_feature(enable = "avx2")]
fn compress_avx2(places: u64, words: __m256i) -> __m256i {
    let places = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(places as i64));
    _mm256_permutevar8x32_epi32(words, places)
}

#[inline]
#[target_feature(enable = "avx2")]
fn expand_avx2(before: u64, words: __m256i, clear: __m256i) -> __m256i {
    let before = _mm256_cvtepi8_epi32(_mm_cvtsi64_si128(before as i64));
    let spread = _mm256_permutevar8x32_epi32(words, before);
    _mm256_blendv_epi8(spread, clear, _mm256_srai_epi32::<31>(before))
}

/// For each byte, a byte for each of its bits: how many ones are before it, and the
/// top bit where it is a zero itself.
static BEFORE: [u64; 256] = {
    let mut all = [0; 256];
    let mut mask = 0;
    while mask < 256 {
        let mut bit = 0;
        while bit < 8 {
            let ones = (mask as u32 & ((1 << bit) - 1)).count_ones() as u64;
            let zero = (!mask as u64 >> bit & 1) << 7;
            all[mask] |= (ones | zero) << (8 * bit);
            bit += 1;
        }
        mask += 1;
    }
    all
};

/// # Safety
/// As [`Lanes::gather`].
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn gather_avx2<const SCALE: i32>(mask: __m256i, base: *const u32, at: __m256i) -> __m256i {
    let zero = _mm256_setzero_si256();
    // SAFETY: the caller's promise.
    unsafe { _mm256_mask_i32gather_epi32::<SCALE>(zero, base.cast(), at, mask) }
}

#[cfg(avx512)]
#[derive(Clone, Copy)]
pub(super) struct Avx512(());

#[cfg(avx512)]
impl Avx512 {
    /// # Safety
    /// The processor has AVX-512 F.
    pub(super) unsafe fn new() -> Self {
        Avx512(())
    }
}

#[cfg(avx512)]
#[allow(clippy::incompatible_msrv)] // `avx512` is set for compilers that have it
impl Lanes for Avx512 {
    type Words = __m512i;
    type Mask = __mmask16;
    const COUNT: usize = 16;

    #[inline(always)]
    fn splat(self, n: u32) -> __m512i {
        // SAFETY: `self` vouches for the instruction.
        unsafe { _mm512_set1_epi32(n as i32) }
    }
    #[inline(always)]
    fn load(self, words: &[u32]) -> __m512i {
        // SAFETY: sixteen words, or it panics; `self` vouches for the instruction.
        unsafe { _mm512_loadu_si512(words[..16].as_ptr().cast()) }
    }
    #[inline(always)]
    fn store(self, to: &mut [u32], words: __m512i) {
        // SAFETY: sixteen words, or it panics; `self` vouches for the instruction.
        unsafe { _mm512_storeu_si512(to[..16].as_mut_ptr().cast(), words) }
    }

    single! {
        add(a: Words, b: Words) -> Words = _mm512_add_epi32(a, b);
        sub(a: Words, b: Words) -> Words = _mm512_sub_epi32(a, b);
        and(a: Words, b: Words) -> Words = _mm512_and_si512(a, b);
        or(a: Words, b: Words) -> Words = _mm512_or_si512(a, b);
        shl(a: Words, by: Words) -> Words = _mm512_sllv_epi32(a, by);
        shr(a: Words, by: Words) -> Words = _mm512_srlv_epi32(a, by);
        pick(table: Words, at: Words) -> Words = _mm512_permutexvar_epi32(at, table);
        at_most(a: Words, b: Words) -> Mask = _mm512_cmple_epu32_mask(a, b);
        above(a: Words, b: Words) -> Mask = _mm512_cmpgt_epi32_mask(a, b);
        select(mask: Mask, set: Words, clear: Words) -> Words =
            _mm512_mask_mov_epi32(clear, mask, set);
    }

    #[inline(always)]
    fn all(self) -> __mmask16 {
        __mmask16::MAX
    }
    #[inline(always)]
    fn bits(self, mask: __mmask16) -> u32 {
        mask.into()
    }
    #[inline(always)]
    fn compress(self, bits: u32, words: __m512i) -> __m512i {
        // SAFETY: `self` vouches for the instruction.
        unsafe { _mm512_maskz_compress_epi32(bits as __mmask16, words) }
    }
    #[inline(always)]
    fn expand(self, bits: u32, words: __m512i, clear: __m512i) -> __m512i {
        // SAFETY: `self` vouches for the instruction.
        unsafe { _mm512_mask_expand_epi32(clear, bits as __mmask16, words) }
    }
    #[inline(always)]
    unsafe fn gather<const SCALE: i32>(
        self,
        mask: __mmask16,
        base: *const u32,
        at: __m512i,
    ) -> __m512i {
        // SAFETY: the caller's promise; `self` vouches for the instruction.
        unsafe { gather_avx512::<SCALE>(mask, base, at) }
    }
}

/// # Safety
/// As [`Lanes::gather`].
#[cfg(avx512)]
#[inline]
#[target_feature(enable = "avx512f")]
#[allow(clippy::incompatible_msrv)] // `avx512` is set for compilers that have it
unsafe fn gather_avx512<const SCALE: i32>(
    mask: __mmask16,
    base: *const u32,
    at: __m512i,
) -> __m512i {
    let zero = _mm512_setzero_si512();
    // SAFETY: the caller's promise.
    unsafe { _mm512_mask_i32gather_epi32::<SCALE>(zero, mask, at, base.cast()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_mask(l: impl Lanes, count: usize) {
        let of = |start: u32| std::array::from_fn::<u32, 16, _>(|i| start + i as u32);
        for bits in 0..1_u32 << count {
            let ones: Vec<u32> = (0..count as u32).filter(|i| bits >> i & 1 == 1).collect();
            let mut found = [0; 16];
            l.store(&mut found, l.compress(bits, l.load(&of(0))));
            assert_eq!(found[..ones.len()], ones);
            l.store(&mut found, l.expand(bits, l.load(&of(0)), l.load(&of(100))));
            let mut next = 0..;
            let mut spread = |i| if bits >> i & 1 == 1 { next.next().unwrap() } else { 100 + i };
            let want: Vec<u32> = (0..count as u32).map(&mut spread).collect();
            assert_eq!(found[..count], want);
        }
    }

    #[test]
    fn compress_and_expand_are_each_others_inverse() {
        if is_x86_feature_detected!("avx2") {
            // SAFETY: it was just detected.
            every_mask(unsafe { Avx2::new() }, 8);
        }
        #[cfg(avx512)]
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: it was just detected.
            every_mask(unsafe { Avx512::new() }, 16);
        }
    }
}
