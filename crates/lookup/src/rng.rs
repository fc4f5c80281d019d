//! Pseudo-random numbers that are the same on every machine and for ever.

use crate::hash::GOLDEN;

/// SplitMix64 (Steele, Lea, Flood, *Fast Splittable Pseudorandom Number
/// Generators*, OOPSLA 2014), from a seed: what is generated is fixed by it, which no
/// library's generator promises, and a seed in a failure message is enough to see the
/// failure again. Each number of a sequence occurs once.
#[derive(Clone, Debug)]
pub struct SplitMix64(pub u64);

impl SplitMix64 {
    /// The next 64 bits.
    #[inline]
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    /// A number below `n` (0 where `n` is 0), by Lemire's multiplication; its
    /// bias, at most n / 2^64, does not matter here.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    /// The next 128 bits, the upper half first.
    #[inline]
    pub fn wide(&mut self) -> u128 {
        u128::from(self.next()) << 64 | u128::from(self.next())
    }
}

/// Mixes 64 bits so that every input bit moves every output bit.
#[inline]
pub fn mix(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
pub(crate) use for_tests::Rng;

#[cfg(test)]
mod for_tests {
    use super::SplitMix64;
    use crate::{Addr, hash};

    /// Numbers below 2^32, and addresses.
    pub(crate) struct Rng(SplitMix64);

    impl Rng {
        pub(crate) fn new(seed: u64) -> Self {
            Rng(SplitMix64(seed))
        }

        pub(crate) fn next(&mut self) -> u64 {
            self.0.next()
        }

        pub(crate) fn below(&mut self, n: u32) -> u32 {
            hash::below((self.next() >> 32) as u32, n.into()) as u32
        }

        pub(crate) fn addr<A: Addr>(&mut self) -> A {
            A::from_u128(self.0.wide())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_sequence() {
        let mut rng = SplitMix64(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| rng.next()).collect();
        let published = [6457827717110365317, 3203168211198807973, 9817491932198370423];
        assert_eq!(first, published);
    }

    #[test]
    fn below_stays_below() {
        let mut rng = SplitMix64(0);
        assert!((0..1000).all(|_| rng.below(7) < 7));
        assert_eq!(rng.below(0), 0);
    }
}
