//! Sixteen words of 16 bits, of two lines, looked at together.
//!
//! On x86-64 by SSE2, which all have: the compiler makes of the portable version ten times
//! as many instructions for the one, five times as many for the other.

/// Which of `words` are `word`: of each a bit, the first the lowest.
#[inline(always)]
pub(super) fn equal(words: [&[u16; 8]; 2], word: u16) -> u32 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: each x86-64 has SSE2.
    return unsafe { x86::equal(words, word) };
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    portable::equal(words, word)
}

/// The least of `words`, and the first that is it.
#[inline(always)]
pub(super) fn least(words: [[i16; 8]; 2]) -> (i16, usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: each x86-64 has SSE2.
    return unsafe { x86::least(words) };
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    portable::least(words)
}

#[cfg(any(test, miri, not(target_arch = "x86_64")))]
mod portable {
    #[inline(always)]
    pub(super) fn equal(words: [&[u16; 8]; 2], word: u16) -> u32 {
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
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86 {
    use core::arch::x86_64::*;

    #[inline]
    #[target_feature(enable = "sse2")]
    pub(super) fn equal(words: [&[u16; 8]; 2], word: u16) -> u32 {
        let wanted = _mm_set1_epi16(word as i16);
        bits(words.map(|words| _mm_cmpeq_epi16(vector(words.map(|word| word as i16)), wanted)))
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    pub(super) fn least(words: [[i16; 8]; 2]) -> (i16, usize) {
        let words = [vector(words[0]), vector(words[1])];
        let least = _mm_min_epi16(words[0], words[1]);
        let least = _mm_min_epi16(least, _mm_shuffle_epi32::<0b0100_1110>(least));
        let least = _mm_min_epi16(least, _mm_shuffle_epi32::<0b1011_0001>(least));
        let least = _mm_min_epi16(least, _mm_shufflelo_epi16::<0b1011_0001>(least));
        let least = _mm_extract_epi16::<0>(least) as i16;
        let all = _mm_set1_epi16(least);
        let which = bits(words.map(|words| _mm_cmpeq_epi16(words, all)));
        (least, which.trailing_zeros() as usize % 16)
    }

    /// Of each word, all ones or zeros, a bit.
    #[inline]
    #[target_feature(enable = "sse2")]
    fn bits([low, high]: [__m128i; 2]) -> u32 {
        _mm_movemask_epi8(_mm_packs_epi16(low, high)) as u32
    }

    #[inline(always)]
    fn vector(words: [i16; 8]) -> __m128i {
        // SAFETY: both are 16 bytes, and any bytes are a vector.
        unsafe { core::mem::transmute::<[i16; 8], __m128i>(words) }
    }
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
            assert_eq!(equal(same.each_ref(), -3_i16 as u16), 1 << at);
            assert_eq!(equal(same.each_ref(), 9), 0xffff ^ 1 << at);
            assert_eq!((least(words), equal(same.each_ref(), 0)), ((-3, at), 0));
        }
    }

    #[test]
    fn both_versions_agree() {
        let mut rng = Rng::new(4);
        for _ in 0..if cfg!(miri) { 50 } else { 20_000 } {
            // Few different ones, and those at both ends.
            let word = |rng: &mut Rng| [0, 1, -1, i16::MIN, i16::MAX][rng.next() as usize % 5];
            let words: [[i16; 8]; 2] = [(); 2].map(|()| [(); 8].map(|()| word(&mut rng)));
            let wanted = word(&mut rng) as u16;
            let same = words.map(|words| words.map(|word| word as u16));
            assert_eq!(least(words), portable::least(words));
            assert_eq!(equal(same.each_ref(), wanted), portable::equal(same.each_ref(), wanted));
        }
    }
}
