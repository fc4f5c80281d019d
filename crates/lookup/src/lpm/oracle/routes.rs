//! Addresses and routes at random.

use super::Route;
use crate::rng::Rng;
use crate::{Addr, Hop, Prefix};

impl Rng {
    /// An address that shares 0, 16, 32, 48 … bits with one of 4,096 places, so
    /// that prefixes nest often, at any depth.
    pub(super) fn near<A: Addr>(&mut self) -> A {
        let place: A = Rng::new(self.below(2).into()).addr();
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
