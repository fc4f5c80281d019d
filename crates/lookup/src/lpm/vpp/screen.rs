//! The search that asks a filter about each length before it probes the FIB.

use std::sync::Arc;

use super::Guide;
use super::fib::{Fib, narrow, wide};
use crate::filter::{Bloom, Cuckoo, Spot, Still};
use crate::hash::Crc32c;
use crate::lpm::hashed::{Found, Hashed, Run, Sums};

/// A filter as the search sees it.
pub(super) trait Screen: Send + Sync + 'static {
    /// False where every prefix passes: then nothing is asked.
    const ASKS: bool;

    /// What is kept of a prefix from the one to the other.
    type Mark: Copy + Default;

    /// Asks for what a test of the prefix will read.
    fn prefetch(&self, hash: u64) -> Self::Mark;
    fn may_hold(&self, mark: Self::Mark) -> bool;
    fn bytes(&self) -> usize;

    /// Before and after a burst: whether what the filter denied can be trusted.
    #[inline(always)]
    fn version(&self) -> Option<Still> {
        None
    }
    #[inline(always)]
    fn is_still(&self, _: Option<Still>) -> bool {
        true
    }
}

/// Lets everything pass.
pub(super) struct Open;

impl Screen for Open {
    const ASKS: bool = false;
    type Mark = ();

    #[inline(always)]
    fn prefetch(&self, _: u64) {}
    #[inline(always)]
    fn may_hold(&self, (): ()) -> bool {
        true
    }
    fn bytes(&self) -> usize {
        0
    }
}

impl Screen for Arc<Bloom> {
    const ASKS: bool = true;
    type Mark = u64;

    #[inline(always)]
    fn prefetch(&self, hash: u64) -> u64 {
        Bloom::prefetch(self, hash);
        hash
    }
    #[inline(always)]
    fn may_hold(&self, hash: u64) -> bool {
        self.contains(hash)
    }
    fn bytes(&self) -> usize {
        Bloom::bytes(self)
    }
}

impl Screen for Arc<Cuckoo> {
    const ASKS: bool = true;
    type Mark = Spot;

    #[inline(always)]
    fn prefetch(&self, hash: u64) -> Spot {
        let spot = self.spot(hash);
        Cuckoo::prefetch(self, spot);
        spot
    }
    #[inline(always)]
    fn may_hold(&self, spot: Spot) -> bool {
        self.holds(spot)
    }
    fn bytes(&self) -> usize {
        Cuckoo::bytes(self)
    }
    #[inline(always)]
    fn version(&self) -> Option<Still> {
        Some(Cuckoo::version(self))
    }
    #[inline(always)]
    fn is_still(&self, before: Option<Still>) -> bool {
        before.is_some_and(|before| Cuckoo::is_still(self, before))
    }
}

/// The lengths that a filter passes.
pub(super) struct Screened<S>(pub S);

impl<S: Screen> Guide for Screened<S> {
    #[inline(always)]
    fn burst<C: Crc32c, const N: usize>(
        &self,
        fib: &Fib,
        dsts: &[u128],
        found: &mut Found<N>,
        sums: &mut Sums,
    ) {
        for _ in 0..TRIES {
            let before = self.0.version();
            search::<C, S, N>(&self.0, fib, dsts, found, sums);
            if self.0.is_still(before) {
                return;
            }
        }
        // A fingerprint was moved each time: without the filter nothing is missed.
        unscreened::<C, N>(fib, dsts, found, sums);
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }
}

#[cold]
fn unscreened<C: Crc32c, const N: usize>(
    fib: &Fib,
    dsts: &[u128],
    found: &mut Found<N>,
    sums: &mut Sums,
) {
    search::<C, Open, N>(&Open, fib, dsts, found, sums);
}

#[inline(always)]
fn search<C: Crc32c, S: Screen, const N: usize>(
    screen: &S,
    fib: &Fib,
    dsts: &[u128],
    found: &mut Found<N>,
    sums: &mut Sums,
) {
    let mut run = Run::new(dsts, found, sums);
    let mut lengths = fib.lengths();
    while lengths != 0 && !run.left().is_empty() {
        let len = (128 - lengths.leading_zeros()) as u8; // the longest first
        lengths &= !(1 << (len - 1));
        if len > 64 {
            let key = |dst| wide(dst, len);
            probe(&mut run, screen, &fib.wide, key, |key| fib.hashing.of::<C, 3>(len, key));
        } else {
            let key = |dst| narrow(dst, len);
            probe(&mut run, screen, &fib.narrow, key, |key| fib.hashing.of::<C, 2>(len, key));
        }
    }
}

/// Probes one length for all that have no hop.
#[inline(always)]
fn probe<S: Screen, const W: usize, const N: usize>(
    run: &mut Run<u128, N>,
    screen: &S,
    table: &Hashed<W>,
    key: impl Fn(u128) -> [u64; W],
    hash: impl Fn(&[u64; W]) -> u64,
) {
    let (mut hashes, mut marks) = ([0; N], [S::Mark::default(); N]);
    for ((place, mark), &dst) in hashes.iter_mut().zip(&mut marks).zip(run.left()) {
        let hash = hash(&key(dst));
        (*place, *mark) = (hash as u32, screen.prefetch(hash));
    }
    if S::ASKS {
        run.sums.filter_probes += run.left().len() as u64;
    }
    let passes = |i: usize| !S::ASKS || screen.may_hold(marks[i % N]);
    run.probe(table, passes, |i| hashes[i % N], key, |_, hop| hop);
}

/// How often a burst is repeated because the filter was being changed.
const TRIES: usize = 2;
