//! Lookup by Bloom filters and hash tables, a pair for each of a few lengths: the
//! engines of the Bloomfwd paper.
//!
//! ```text
//!    dst ──► level /32   filter ──passes──► table ──► hop
//!              │ no                           │ not there
//!              ▼  ◄───────────────────────────┘
//!            level /24   filter ──passes──► table ──► hop
//!              ▼
//!            direct      [ hop; 2^20 ]            (IPv4, but for `bloom-naive`)
//!              ▼
//!            default     the hop of /0
//!
//!    deep    IPv6, prefixes longer than /64: a table of their own, searched where
//!            the /64's value has bit 31 set
//! ```
//!
//! A prefix shorter than its level is expanded ([`expand`]); a key has the hop of
//! the longest prefix of the level that covers it, so changing a prefix rewrites the
//! keys that it owns. Each filter is a counting one at the writer's. A burst goes
//! through the levels together.
//!
//! | engine           | levels             | filters      | hashes                     |
//! |------------------|--------------------|--------------|----------------------------|
//! | `bloom-naive`    | every length       | of one size  | k for the filter, 1 for the table |
//! | `pbf`            | every length       | by need      | 2, combined and shared     |
//! | `bloom-baseline` | /24, /32, direct   | by need      | the same                   |
//! | `bloomfwd`       | /24, /32, direct   | by need      | 2, combined and shared, in vectors |
//! | `bloomfwd6`      | 5 by DPCPE, deep   | by need      | the same                   |

mod baseline;
mod deep;
pub mod expand;
mod export;
mod four;
mod hashing;
mod naive;
mod pbf;
mod plan;
mod six;
mod writer;

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use self::deep::Deep;
use self::hashing::Scheme;
use super::Lpm;
use super::hashed::{BURST, Found, Hashed, Run, Sums, Tally};
use super::isa::Isa;
use crate::filter::Bloom;
use crate::lpm::default_hop::{self, DefaultHop};
use crate::pages::Pages;
use crate::{Addr, Hop, hint};

pub use baseline::ENTRY as BASELINE;
pub use four::ENTRY as FOUR;
pub(super) use four::exported as exported_four;
pub use naive::ENTRY as NAIVE;
pub use pbf::ENTRY as PBF;
pub use six::ENTRY as SIX;
pub(super) use six::exported as exported_six;

/// An address whose leading bits are a key of `W` words.
trait Key<const W: usize>: Addr {
    /// The record of a key (host bits zero), its value left out.
    fn record(self) -> [u64; W];
}

impl Key<1> for u32 {
    #[inline(always)]
    fn record(self) -> [u64; 1] {
        [u64::from(self) << 32]
    }
}

impl Key<2> for u128 {
    #[inline(always)]
    fn record(self) -> [u64; 2] {
        [(self >> 64) as u64, 0]
    }
}

/// What readers share.
///
/// - I1: a level whose table has keys has its bit in `live`.
/// - I2: a key of a table is in the level's filter.
struct Table<A, const W: usize, S> {
    /// The longest first.
    levels: Vec<Level<W>>,
    /// Bit i stands for `levels[i]`.
    live: AtomicU64,
    direct: Option<Direct>,
    deep: Option<Deep>,
    default: DefaultHop,
    tally: Tally,
    isa: Isa,
    scheme: PhantomData<(A, S)>,
}

struct Level<const W: usize> {
    len: u8,
    filter: Arc<Bloom>,
    table: Arc<Hashed<W>>,
}

/// Hops by the first bits of the address; 0 for nothing but /0.
struct Direct {
    bits: u8,
    hops: Pages<AtomicU32>,
}

impl<A: Key<W>, const W: usize, S: Scheme<A>> Lpm<A> for Table<A, W, S> {
    fn lookup(&self, dst: A) -> Hop {
        let mut hop = [Hop::NONE];
        self.lookup_batch(&[dst], &mut hop);
        hop[0]
    }

    fn lookup_batch(&self, dsts: &[A], hops: &mut [Hop]) {
        assert_eq!(dsts.len(), hops.len());
        let start = hint::cycles();
        let mut sums = Sums { lookups: dsts.len() as u64, ..Sums::default() };
        match self.isa {
            Isa::Portable => self.batch(dsts, hops, &mut sums),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `Isa::choose` gives this value only where all of it is there.
            Isa::Avx2 => unsafe { self.batch_avx2(dsts, hops, &mut sums) },
            #[cfg(avx512)]
            // SAFETY: as above.
            Isa::Avx512 => unsafe { self.batch_avx512(dsts, hops, &mut sums) },
        }
        sums.cycles = hint::cycles().wrapping_sub(start);
        self.tally.add(&sums);
    }

    fn isa(&self) -> &'static str {
        self.isa.name()
    }

    fn bytes(&self) -> usize {
        let levels: usize = self.levels.iter().map(|level| level.table.bytes()).sum();
        let direct = self.direct.as_ref().map_or(0, |direct| size_of_val(&*direct.hops));
        let deep = self.deep.as_ref().map_or(0, Deep::bytes);
        levels + self.filter_bytes() + direct + deep
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut counters = self.tally.counters();
        counters.push(("filter_bytes", self.filter_bytes() as u64));
        counters.push(("levels", self.levels.len() as u64));
        counters.push(("live_levels", self.live.load(Ordering::Relaxed).count_ones().into()));
        counters
    }

    fn reset_counters(&self) {
        self.tally.reset();
    }
}

impl<A: Key<W>, const W: usize, S: Scheme<A>> Table<A, W, S> {
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi2,popcnt")]
    fn batch_avx2(&self, dsts: &[A], hops: &mut [Hop], sums: &mut Sums) {
        self.batch(dsts, hops, sums);
    }

    #[cfg(avx512)]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi2,popcnt")]
    fn batch_avx512(&self, dsts: &[A], hops: &mut [Hop], sums: &mut Sums) {
        self.batch(dsts, hops, sums);
    }

    #[inline(always)]
    fn batch(&self, dsts: &[A], hops: &mut [Hop], sums: &mut Sums) {
        match dsts.len() {
            1 => self.bursts::<1>(dsts, hops, sums),
            _ => self.bursts::<BURST>(dsts, hops, sums),
        }
    }

    #[inline(always)]
    fn bursts<const N: usize>(&self, dsts: &[A], hops: &mut [Hop], sums: &mut Sums) {
        let default = self.default.get();
        let mut found = [0; N];
        for (dsts, hops) in dsts.chunks(N).zip(hops.chunks_mut(N)) {
            self.burst(dsts, &mut found, sums);
            for (hop, &found) in hops.iter_mut().zip(&found) {
                *hop = default_hop::or(found, default);
            }
        }
    }

    #[inline(always)]
    fn burst<const N: usize>(&self, dsts: &[A], found: &mut Found<N>, sums: &mut Sums) {
        let mut run = Run::new(dsts, found, sums);
        let mut live = self.live.load(Ordering::Acquire);
        while live != 0 && !run.left().is_empty() {
            let level = &self.levels[live.trailing_zeros() as usize];
            live &= live - 1;
            self.probe(level, &mut run);
        }
        if let Some(direct) = &self.direct {
            run.finish(|dst| direct.hop(dst));
        }
    }

    #[inline(always)]
    fn probe<const N: usize>(&self, level: &Level<W>, run: &mut Run<A, N>) {
        let mask = A::mask(level.len);
        let dsts = run.padded();
        let keys: [A; N] = std::array::from_fn(|i| dsts[i].and(mask)); // `map` copies them first
        let (passes, hashes) = S::screen(&level.filter, &keys, run.left().len());
        run.sums.filter_probes += run.left().len() as u64;
        run.probe(
            &level.table,
            |i| passes[i % N],
            |i| hashes[i % N],
            |dst| dst.and(mask).record(),
            |dst, value| if value & DEEP == 0 { value } else { self.search_deep(dst, value) },
        );
    }

    #[cold]
    fn search_deep(&self, dst: A, value: u32) -> u32 {
        let deep = self.deep.as_ref().map_or(0, |deep| deep.lookup(dst.to_u128()));
        if deep == 0 { value & !DEEP } else { deep }
    }

    fn filter_bytes(&self) -> usize {
        self.levels.iter().map(|level| level.filter.bytes()).sum()
    }
}

impl Direct {
    #[inline(always)]
    fn hop<A: Addr>(&self, dst: A) -> u32 {
        self.hops[dst.bits(0, self.bits) as usize].load(Ordering::Acquire)
    }
}

/// Set in a /64's value: longer prefixes lie inside. Hops have 31 bits.
const DEEP: u32 = 1 << 31;

/// Keys, and so prefixes, that the tables have room for.
const MAX_PREFIXES: u64 = 1 << 26;
