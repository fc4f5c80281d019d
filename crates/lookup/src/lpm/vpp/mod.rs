//! IPv6 by one hash probe a prefix length, and three ways to spare most probes:
//! the four engines of the CuVPP paper.
//!
//! ```text
//!              which lengths to probe                        hash FIB (`fib`)
//!    dst ──►   hash    every length present       ──┐
//!              bloom   those a Bloom filter passes   ├──►  (prefix, length) → hop
//!              trie    those found on a binary trie  │     longest first, the first
//!              cuvpp   those a cuckoo filter passes ─┘     that is there answers
//! ```
//!
//! One hash of a prefix and its length (64 bits, two CRC-32C) serves the filter
//! and the FIB. A burst goes through the lengths together: all its filter words,
//! then all its index lines, then all its records are asked for before the first
//! is looked at. What the papers call filter probes, FIB probes and false positives
//! is counted in the loop's registers and added to the table's counters once a
//! burst.
//!
//! Every engine is updated in place: a prefix is put into the FIB, then into what
//! guides there. A change of /0 is one store.

mod bloom;
mod cuvpp;
mod fib;
mod hash;
mod screen;
mod trie;
mod writer;

use std::sync::Arc;

use self::fib::Fib;
use super::Lpm;
use super::hashed::{BURST, Found, Sums, Tally};
use super::isa::Isa;
use crate::hash::{Crc32c, Portable};
use crate::lpm::default_hop::{self, DefaultHop};
use crate::{Hop, hint};

pub use bloom::ENTRY as BLOOM;
pub use cuvpp::ENTRY as CUVPP;
pub use hash::ENTRY as HASH;
pub use trie::ENTRY as TRIE;

/// What readers share: the FIB, and what says where to look in it.
struct Table<G> {
    fib: Fib,
    guide: Arc<G>,
    default: DefaultHop,
    tally: Tally,
    isa: Isa,
}

/// A way to find the lengths to probe; the readers' half.
trait Guide: Send + Sync + 'static {
    /// The hops of up to `N` addresses, 0 for nothing but /0.
    fn burst<C: Crc32c, const N: usize>(
        &self,
        fib: &Fib,
        dsts: &[u128],
        found: &mut Found<N>,
        sums: &mut Sums,
    );

    /// Bytes that a lookup can read.
    fn bytes(&self) -> usize;
}

impl<G: Guide> Lpm<u128> for Table<G> {
    fn lookup(&self, dst: u128) -> Hop {
        let mut hop = [Hop::NONE];
        self.lookup_batch(&[dst], &mut hop);
        hop[0]
    }

    fn lookup_batch(&self, dsts: &[u128], hops: &mut [Hop]) {
        assert_eq!(dsts.len(), hops.len());
        let start = hint::cycles();
        let mut sums = Sums { lookups: dsts.len() as u64, ..Sums::default() };
        match self.isa {
            Isa::Portable => self.batch::<Portable>(dsts, hops, &mut sums),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `Isa::choose` gives any other value only where there is AVX2,
            // and so SSE 4.2.
            _ => unsafe { self.batch_sse42(dsts, hops, &mut sums) },
        }
        sums.cycles = hint::cycles().wrapping_sub(start);
        self.tally.add(&sums);
    }

    fn isa(&self) -> &'static str {
        if self.isa == Isa::Portable { "portable" } else { "sse4.2" }
    }

    fn bytes(&self) -> usize {
        self.fib.bytes() + self.guide.bytes()
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut counters = self.tally.counters();
        counters.push(("filter_bytes", self.guide.bytes() as u64));
        counters.push(("fib_bytes", self.fib.bytes() as u64));
        counters.push(("lengths", self.fib.lengths().count_ones().into()));
        counters
    }

    fn reset_counters(&self) {
        self.tally.reset();
    }
}

impl<G: Guide> Table<G> {
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi2,popcnt")]
    fn batch_sse42(&self, dsts: &[u128], hops: &mut [Hop], sums: &mut Sums) {
        self.batch::<crate::hash::Sse42>(dsts, hops, sums);
    }

    #[inline(always)]
    fn batch<C: Crc32c>(&self, dsts: &[u128], hops: &mut [Hop], sums: &mut Sums) {
        match dsts.len() {
            1 => self.bursts::<C, 1>(dsts, hops, sums),
            _ => self.bursts::<C, BURST>(dsts, hops, sums),
        }
    }

    #[inline(always)]
    fn bursts<C: Crc32c, const N: usize>(&self, dsts: &[u128], hops: &mut [Hop], sums: &mut Sums) {
        let default = self.default.get();
        let mut found = [0; N];
        for (dsts, hops) in dsts.chunks(N).zip(hops.chunks_mut(N)) {
            self.guide.burst::<C, N>(&self.fib, dsts, &mut found, sums);
            for (hop, &found) in hops.iter_mut().zip(&found) {
                *hop = default_hop::or(found, default);
            }
        }
    }
}

/// Prefixes that the FIB has room for.
const MAX_PREFIXES: u64 = 1 << 26;
