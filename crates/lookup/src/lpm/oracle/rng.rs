//! Numbers and routes at random, the same for the same seed.

use super::Route;
use crate::{Addr, Hop, Prefix};

/// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): a seed in a failure message
/// is enough to see the failure again.
pub(crate) struct Rng(u64);

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

    /// An address that shares 0, 16, 32, 48 … bits with one of 4,096 places, so
    /// that prefixes nest often, at any depth.
    pub(super) fn near<A: Addr>(&mut self) -> A {
        let place: A = Rng(u64::from(self.below(2))).addr();
        let fixed = Prefix::covering(place, A::WIDTH / 8 * (2 * self.below(4) as u8 + 1));
        let step = u128::from(self.below(64)) << (A::WIDTH - fixed.len()).saturating_sub(6);
        let noise = if self.below(2) == 0 { self.addr::<A>() } else { A::default() };
        let low = A::from_u128(step).or(noise.and(fixed.host_mask()));
        fixed.first().or(low.and(fixed.host_mask()))
    }

    /// A route near one of a few places or anywhere.
    pub(crate) fn route<A: Addr>(&mut self) -> Route<A> {
        let len = self.below(u32::from(A::WIDTH) + 1) as u8;
        let addr = if self.below(4) == 0 { self.addr() } else { self.near() };
        (Prefix::covering(addr, len), Hop(1 + self.below(1000)))
    }
}
