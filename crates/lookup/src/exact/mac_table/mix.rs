//! The keyed permutation of the keys: what a bucket is chosen by, and what is
//! stored instead of the key.
//!
//! ```text
//!    x = (key + a) · m mod 2^60      a, m, n: from the seed, m and n odd
//!    x = x xor (x >> 30)
//!    x = x · n mod 2^60
//! ```
//!
//! Each step is a permutation of the 60-bit numbers, so the whole is one. By the
//! last step the leading b bits of two keys that somebody chose without knowing
//! the seed are equal with a probability of at most 2 / 2^b (Dietzfelbinger et
//! al., *A Reliable Randomized Algorithm for the Closest-Pair Problem*, 1997: the
//! multiplier n is random and odd); the steps before break up the arithmetic
//! sequences that a single multiplication would spread evenly or not at all.

use std::hash::{BuildHasher, RandomState};

use crate::exact::Key;
use crate::rng::SplitMix64;

/// A permutation of 60-bit numbers, drawn by a seed.
#[derive(Clone, Copy)]
pub(super) struct Mix {
    add: u64,
    first: u64,
    second: u64,
    first_inverse: u64,
    second_inverse: u64,
}

impl Mix {
    /// Drawn by `seed`, or at random.
    pub(super) fn new(seed: Option<u64>) -> Mix {
        let mut rng = SplitMix64(seed.unwrap_or_else(|| RandomState::new().hash_one(0)));
        let (add, first, second) = (rng.next() & !LOW, rng.next() | 1, rng.next() | 1);
        let (first_inverse, second_inverse) = (inverse(first), inverse(second));
        Mix { add, first, second, first_inverse, second_inverse }
    }

    /// The number of `key`, in the upper 60 bits; the low four are 0.
    #[inline(always)]
    pub(super) fn mix(&self, key: Key) -> u64 {
        let x = key.bits().wrapping_add(self.add).wrapping_mul(self.first);
        fold(x).wrapping_mul(self.second)
    }

    /// The key of a number.
    pub(super) fn unmix(&self, mixed: u64) -> Key {
        let x = fold(mixed.wrapping_mul(self.second_inverse));
        Key::from_bits(x.wrapping_mul(self.first_inverse).wrapping_sub(self.add))
    }
}

/// Adds the upper half of 60 bits to the lower; its own inverse.
#[inline(always)]
fn fold(x: u64) -> u64 {
    x ^ (x >> 30 & !LOW)
}

/// The inverse of an odd number modulo 2^64, by Newton's steps: each doubles the
/// correct low bits, of which `odd` itself has three.
fn inverse(odd: u64) -> u64 {
    (0..5).fold(odd, |x, _| x.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(x))))
}

/// Bits below a key.
const LOW: u64 = 0xf;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_key_comes_back(mac: u64, domain: u16, seed: u64) {
            let (key, mix) = (Key::new(mac, domain), Mix::new(Some(seed)));
            prop_assert_eq!(mix.unmix(mix.mix(key)), key);
            prop_assert_eq!(mix.mix(key) & LOW, 0);
        }
    }

    /// Of 2^12 keys in 2^9 groups, 8 in each on average, no group holds many:
    /// for keys as they are bought, numbered, or chosen against a plain hash.
    #[test]
    fn keys_in_sequence_spread_evenly() {
        for seed in 0..if cfg!(miri) { 2 } else { 200 } {
            let mix = Mix::new(Some(seed));
            for step in [1_u64, 2, 256, 1 << 20, 1 << 36, 0x1_0000_0001, 0x9e37_79b9_7f4b] {
                let mut groups = [0_u8; 512];
                for i in 0..4096_u64 {
                    let key = Key::new(i.wrapping_mul(step), (i >> 8) as u16);
                    groups[(mix.mix(key) >> 55) as usize] += 1;
                }
                let most = groups.iter().max().copied().unwrap_or(0);
                assert!(most <= 40, "seed {seed} step {step:#x}: {most}");
            }
        }
    }
}
