//! Random numbers for tests, the same for the same seed.

use crate::Addr;

/// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): a seed in a failure message
/// is enough to see the failure again.
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Rng(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: u32) -> u32 {
        (((self.next() >> 32) * u64::from(n)) >> 32) as u32
    }

    pub(crate) fn addr<A: Addr>(&mut self) -> A {
        A::from_u128(u128::from(self.next()) << 64 | u128::from(self.next()))
    }
}
