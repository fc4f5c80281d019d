//! Sixteen words of 16 bits, of two lines, looked at together.
//!
//! - [`Base`]: on x86-64 by SSE2, which all have: the compiler makes of the portable version ten
//!   times as many instructions to find a word, five times as many for the least.
//! - `Avx2`: both lines in one vector, and the least of eight words by one instruction; to find the
//!   request that goes first takes less than half of the instructions.

use super::age::Requests;

/// The words of two lines.
pub(super) type Lines<'a> = [&'a [u16; 8]; 2];

/// How they are looked at; a value exists where the processor has the instructions.
pub(super) trait Words: Copy {
    /// Which of `words` are `word`: of each a bit, the first the lowest.
    fn equal(self, words: Lines<'_>, word: u16) -> u32;

    /// The least of `words`, and the first that is it.
    fn least(self, words: [[i16; 8]; 2]) -> (i16, usize);

    /// The least [rank](Requests::rank) of `words`, and one that has it: the first from the one at
    /// `turn` on, round the end.
    fn first(self, words: Lines<'_>, requests: &Requests, turn: u32) -> (u16, usize);
}

/// What every processor has.
#[derive(Clone, Copy)]
pub(super) struct Base;

#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(super) use x86::Avx2;

#[cfg(any(miri, not(target_arch = "x86_64")))]
impl Words for Base {
    #[inline(always)]
    fn equal(self, words: Lines<'_>, word: u16) -> u32 {
        portable::equal(words, word)
    }

    #[inline(always)]
    fn least(self, words: [[i16; 8]; 2]) -> (i16, usize) {
        portable::least(words)
    }

    #[inline(always)]
    fn first(self, words: Lines<'_>, requests: &Requests, turn: u32) -> (u16, usize) {
        portable::first(words, requests, turn)
    }
}

#[cfg(any(test, miri, not(target_arch = "x86_64")))]
mod portable {
    use super::{Lines, Requests};

    #[inline(always)]
    pub(super) fn equal(words: Lines<'_>, word: u16) -> u32 {
        let all = words.into_iter().flatten().zip(0..);
        all.fold(0, |bits, (&other, at)| bits | u32::from(other == word) << at)
    }

    #[inline(always)]
    pub(super) fn least(words: [[i16; 8]; 2]) -> (i16, usize) {
        let numbered = words.as_flattened().iter().zip(0..);
        let numbered = numbered.map(|(&word, at)| i32::from(word) << 4 | at);
        let least = numbered.fold(i32::MAX, i32::min);
        ((least >> 4) as i16, (least & 15) as usize)
    }

    #[inline(always)]
    pub(super) fn first(words: Lines<'_>, requests: &Requests, turn: u32) -> (u16, usize) {
        let ranks = words.into_iter().flatten().map(|&word| requests.rank(word));
        // In a turn each is as many places on as there are from `turn` to it.
        let places = (0..).map(|at: u32| at.wrapping_sub(turn) % 16);
        let numbered = ranks.zip(places).map(|(rank, at)| u32::from(rank) << 4 | at);
        let least = numbered.fold(u32::MAX, u32::min);
        ((least >> 4) as u16, ((least & 15).wrapping_add(turn) % 16) as usize)
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86 {
    use core::arch::x86_64::*;

    use super::{Base, Lines, Requests, Words};
    use crate::exact::flow::age::{CLASS, TIME};

    impl Words for Base {
        #[inline(always)]
        fn equal(self, words: Lines<'_>, word: u16) -> u32 {
            // SAFETY: each x86-64 has SSE2.
            unsafe { equal(words, word) }
        }

        #[inline(always)]
        fn least(self, words: [[i16; 8]; 2]) -> (i16, usize) {
            // SAFETY: each x86-64 has SSE2.
            unsafe { least(words) }
        }

        #[inline(always)]
        fn first(self, words: Lines<'_>, requests: &Requests, turn: u32) -> (u16, usize) {
            // SAFETY: each x86-64 has SSE2.
            unsafe { first(words, requests, turn) }
        }
    }

    /// AVX2.
    #[derive(Clone, Copy)]
    pub(in super::super) struct Avx2(());

    impl Avx2 {
        /// # Safety
        /// The processor has AVX2.
        #[inline(always)]
        pub(in super::super) const unsafe fn new() -> Avx2 {
            Avx2(())
        }
    }

    impl Words for Avx2 {
        #[inline(always)]
        fn equal(self, words: Lines<'_>, word: u16) -> u32 {
            Base.equal(words, word)
        }

        #[inline(always)]
        fn least(self, words: [[i16; 8]; 2]) -> (i16, usize) {
            Base.least(words)
        }

        #[inline(always)]
        fn first(self, words: Lines<'_>, requests: &Requests, turn: u32) -> (u16, usize) {
            // SAFETY: there is an `Avx2` only where the processor has it.
            unsafe { first_avx2(words, requests, turn) }
        }
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn equal(words: Lines<'_>, word: u16) -> u32 {
        let wanted = _mm_set1_epi16(word as i16);
        bits(words.map(|words| _mm_cmpeq_epi16(load(words), wanted)))
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn least(words: [[i16; 8]; 2]) -> (i16, usize) {
        let (least, which) = least_of(words.map(vector));
        (least, which.trailing_zeros() as usize % 16)
    }

    /// The signs of all ranks are changed: SSE2 has no least of numbers without one.
    #[inline]
    #[target_feature(enable = "sse2")]
    fn first(words: Lines<'_>, requests: &Requests, turn: u32) -> (u16, usize) {
        let set = |word: u16| _mm_set1_epi16(word as i16);
        let [base, flip] = [requests.base, requests.flip ^ SIGN].map(set);
        let [time, class] = [TIME, CLASS].map(set);
        let (rank, which) = least_of(words.map(|words| {
            let words = load(words);
            let times = _mm_and_si128(_mm_sub_epi16(words, base), time);
            _mm_or_si128(times, _mm_and_si128(_mm_xor_si128(words, flip), class))
        }));
        let turn = turn % 16;
        let from = (which | which << 16).rotate_right(turn).trailing_zeros();
        (rank as u16 ^ SIGN, (from + turn) as usize % 16)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn first_avx2(words: Lines<'_>, requests: &Requests, turn: u32) -> (u16, usize) {
        let set = |word: u16| _mm256_set1_epi16(word as i16);
        let [base, flip] = [requests.base, requests.flip].map(set);
        let [time, class] = [TIME, CLASS].map(set);
        let [low, high] = words.map(load);
        let words = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high);
        let times = _mm256_and_si256(_mm256_sub_epi16(words, base), time);
        let classes = _mm256_and_si256(_mm256_xor_si256(words, flip), class);
        let ranks = _mm256_or_si256(times, classes);
        let both = [_mm256_castsi256_si128(ranks), _mm256_extracti128_si256::<1>(ranks)];
        let least = _mm_minpos_epu16(_mm_min_epu16(both[0], both[1]));
        let same = _mm256_cmpeq_epi16(ranks, _mm256_broadcastw_epi16(least));
        // Two bits a word.
        let (which, turn) = (_mm256_movemask_epi8(same) as u32, turn % 16);
        let from = which.rotate_right(2 * turn).trailing_zeros() / 2;
        (_mm_extract_epi16::<0>(least) as u16, (from + turn) as usize % 16)
    }

    /// The least, and of each word that it is a bit.
    #[inline]
    #[target_feature(enable = "sse2")]
    fn least_of(words: [__m128i; 2]) -> (i16, u32) {
        let least = _mm_min_epi16(words[0], words[1]);
        let least = _mm_min_epi16(least, _mm_shuffle_epi32::<0b0100_1110>(least));
        let least = _mm_min_epi16(least, _mm_shuffle_epi32::<0b1011_0001>(least));
        let least = _mm_min_epi16(least, _mm_shufflelo_epi16::<0b1011_0001>(least));
        let least = _mm_extract_epi16::<0>(least) as i16;
        let all = _mm_set1_epi16(least);
        (least, bits(words.map(|words| _mm_cmpeq_epi16(words, all))))
    }

    /// Of each word, all ones or zeros, a bit.
    #[inline]
    #[target_feature(enable = "sse2")]
    fn bits([low, high]: [__m128i; 2]) -> u32 {
        _mm_movemask_epi8(_mm_packs_epi16(low, high)) as u32
    }

    #[inline(always)]
    fn load(words: &[u16; 8]) -> __m128i {
        vector(words.map(|word| word as i16))
    }

    #[inline(always)]
    fn vector(words: [i16; 8]) -> __m128i {
        // SAFETY: both are 16 bytes, and any bytes are a vector.
        unsafe { core::mem::transmute::<[i16; 8], __m128i>(words) }
    }

    const SIGN: u16 = 1 << 15;
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn words_are_found_wherever_they_are() {
        for at in 0..16 {
            let mut words = [[9_i16; 8]; 2];
            words[at / 8][at % 8] = -3;
            let same = words.map(|words| words.map(|word| word as u16));
            assert_eq!(Base.equal(same.each_ref(), -3_i16 as u16), 1 << at);
            assert_eq!(Base.equal(same.each_ref(), 9), 0xffff ^ 1 << at);
            assert_eq!((Base.least(words), Base.equal(same.each_ref(), 0)), ((-3, at), 0));
        }
    }

    fn agrees(by: impl Words) {
        let mut rng = Rng::new(4);
        for _ in 0..if cfg!(miri) { 50 } else { 20_000 } {
            // Few different ones, and those at both ends.
            let word = |rng: &mut Rng| [0, 1, -1, i16::MIN, i16::MAX][rng.next() as usize % 5];
            let words: [[i16; 8]; 2] = [(); 2].map(|()| [(); 8].map(|()| word(&mut rng)));
            let wanted = word(&mut rng) as u16;
            let same = words.map(|words| words.map(|word| word as u16));
            assert_eq!(by.least(words), portable::least(words));
            assert_eq!(by.equal(same.each_ref(), wanted), portable::equal(same.each_ref(), wanted));
            let any = [(); 2].map(|()| [(); 8].map(|()| rng.next() as u16));
            let requests = Requests {
                base: rng.next() as u16,
                ..Requests::of(0, rng.next().is_multiple_of(2))
            };
            for words in [same, any] {
                let words = words.each_ref();
                let turn = rng.next() as u32;
                let first = by.first(words, &requests, turn);
                assert_eq!(first, portable::first(words, &requests, turn), "{turn}");
            }
        }
    }

    #[test]
    fn all_versions_agree() {
        agrees(Base);
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if is_x86_feature_detected!("avx2") {
            // SAFETY: as was just asked.
            agrees(unsafe { Avx2::new() });
        } else {
            testing::skip("no avx2");
        }
    }
}
