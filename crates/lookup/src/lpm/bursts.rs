//! Batches in bursts, for engines that take all keys of a burst down a level together
//! (`poptrie`, `tree-bitmap`): the choice of the instruction set, and the default route's hop.
//! The loop over the levels is each engine's own, which takes fewer instructions.

use super::default_hop::{self, DefaultHop};
use super::isa::Isa;
use crate::{Addr, Hop};

/// A table that looks up a burst at a time.
pub(super) trait Bursts<A: Addr> {
    /// What it was built for.
    fn chosen(&self) -> Isa;

    fn default_hop(&self) -> &DefaultHop;

    /// Up to [`BURST`] lookups without the default route. To be inlined: it is compiled
    /// for each instruction set.
    fn burst(&self, dsts: &[A], hops: &mut [Hop]);
}

/// [`Lpm::isa`](super::Lpm::isa).
pub(super) fn isa<A: Addr>(table: &impl Bursts<A>) -> &'static str {
    // AVX-512 adds nothing.
    if table.chosen() == Isa::Portable { "portable" } else { "avx2" }
}

/// [`Lpm::lookup_batch`](super::Lpm::lookup_batch).
// Not inlined, it takes up to 10 % more instructions without AVX2.
#[inline(always)]
pub(super) fn lookup_batch<A: Addr>(table: &impl Bursts<A>, dsts: &[A], hops: &mut [Hop]) {
    assert_eq!(dsts.len(), hops.len());
    #[cfg(target_arch = "x86_64")]
    if table.chosen() != Isa::Portable {
        // SAFETY: every other set has AVX2, BMI2 and POPCNT.
        return unsafe { batch_avx2(table, dsts, hops) };
    }
    batch(table, dsts, hops);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi2,popcnt")]
fn batch_avx2<A: Addr>(table: &impl Bursts<A>, dsts: &[A], hops: &mut [Hop]) {
    batch(table, dsts, hops);
}

#[inline(always)]
fn batch<A: Addr>(table: &impl Bursts<A>, dsts: &[A], hops: &mut [Hop]) {
    let default = table.default_hop().get();
    for (dsts, hops) in dsts.chunks(BURST).zip(hops.chunks_mut(BURST)) {
        table.burst(dsts, hops);
        default_hop::fill(hops, default);
    }
}

/// 64 and 128 measured alike for IPv4, 10 % slower for IPv6; a prefetch of the
/// first nodes, before the first level, gains nothing (`poptrie`).
pub(super) const BURST: usize = 256;
