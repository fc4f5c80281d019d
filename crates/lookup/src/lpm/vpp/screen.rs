//! The search that asks a filter about each length before it probes the FIB.

use std::sync::Arc;

use super::fib::{Fib, narrow, wide};
use super::tally::Sums;
use super::{BURST, Found, Guide};
use crate::filter::{Bloom, Cuckoo, Still};
use crate::hash::Crc32c;
use crate::lpm::hashed::Hashed;

/// A filter as the search sees it.
pub(super) trait Screen: Send + Sync + 'static {
    /// False where every prefix passes: then nothing is asked.
    const ASKS: bool;

    fn prefetch(&self, hash: u64);
    fn may_hold(&self, hash: u64) -> bool;
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

    #[inline(always)]
    fn prefetch(&self, _: u64) {}
    #[inline(always)]
    fn may_hold(&self, _: u64) -> bool {
        true
    }
    fn bytes(&self) -> usize {
        0
    }
}

impl Screen for Arc<Bloom> {
    const ASKS: bool = true;

    #[inline(always)]
    fn prefetch(&self, hash: u64) {
        Bloom::prefetch(self, hash);
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

    #[inline(always)]
    fn prefetch(&self, hash: u64) {
        Cuckoo::prefetch(self, hash);
    }
    #[inline(always)]
    fn may_hold(&self, hash: u64) -> bool {
        self.contains(hash)
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
    fn burst<C: Crc32c>(&self, fib: &Fib, dsts: &[u128], found: &mut Found, sums: &mut Sums) {
        for _ in 0..TRIES {
            let before = self.0.version();
            search::<C, S>(&self.0, fib, dsts, found, sums);
            if self.0.is_still(before) {
                return;
            }
        }
        // A fingerprint was moved each time: without the filter nothing is missed.
        unscreened::<C>(fib, dsts, found, sums);
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }
}

#[cold]
fn unscreened<C: Crc32c>(fib: &Fib, dsts: &[u128], found: &mut Found, sums: &mut Sums) {
    search::<C, Open>(&Open, fib, dsts, found, sums);
}

#[inline(always)]
fn search<C: Crc32c, S: Screen>(
    screen: &S,
    fib: &Fib,
    dsts: &[u128],
    found: &mut Found,
    sums: &mut Sums,
) {
    let mut run = Run::new(dsts, found, sums);
    let mut lengths = fib.lengths();
    while lengths != 0 && run.count > 0 {
        let len = (128 - lengths.leading_zeros()) as u8; // the longest first
        lengths &= !(1 << (len - 1));
        if len > 64 {
            run.probe(
                screen,
                &fib.wide,
                |dst| wide(dst, len),
                |key| fib.hashing.of::<C, 3>(len, key),
            );
        } else {
            run.probe(
                screen,
                &fib.narrow,
                |dst| narrow(dst, len),
                |key| fib.hashing.of::<C, 2>(len, key),
            );
        }
    }
}

/// A burst on its way: the first `count` of `dsts` have no hop yet.
struct Run<'r> {
    dsts: [u128; BURST],
    /// Where each stands in the burst.
    places: [u8; BURST],
    count: usize,
    found: &'r mut Found,
    sums: &'r mut Sums,
}

impl<'r> Run<'r> {
    #[inline(always)]
    fn new(from: &[u128], found: &'r mut Found, sums: &'r mut Sums) -> Self {
        let mut dsts = [0; BURST];
        dsts[..from.len()].copy_from_slice(from);
        *found = [0; BURST];
        Run { dsts, places: std::array::from_fn(|i| i as u8), count: from.len(), found, sums }
    }

    /// Probes one length for all that have no hop.
    #[inline(always)]
    fn probe<S: Screen, const W: usize>(
        &mut self,
        screen: &S,
        table: &Hashed<W>,
        key: impl Fn(u128) -> [u64; W],
        hash: impl Fn(&[u64; W]) -> u64,
    ) {
        let mut hashes = [0; BURST];
        for (place, &dst) in hashes.iter_mut().zip(&self.dsts[..self.count]) {
            *place = hash(&key(dst));
            if S::ASKS {
                screen.prefetch(*place);
            } else {
                table.prefetch(*place as u32);
            }
        }
        // Each place is written to the end of the list; only some lengthen it.
        let (mut passed, mut end) = ([0_u8; BURST], 0);
        for (i, &hash) in hashes[..self.count].iter().enumerate() {
            passed[end % BURST] = i as u8;
            end += usize::from(!S::ASKS || screen.may_hold(hash));
        }
        self.sums.filter_probes += if S::ASKS { self.count as u64 } else { 0 };
        if end > 0 {
            self.finish(table, &hashes, &passed[..end], key);
        }
    }

    /// Searches the FIB for those that passed.
    #[inline(always)]
    fn finish<const W: usize>(
        &mut self,
        table: &Hashed<W>,
        hashes: &[u64; BURST],
        passed: &[u8],
        key: impl Fn(u128) -> [u64; W],
    ) {
        for &i in passed {
            table.prefetch(hashes[usize::from(i) % BURST] as u32);
        }
        let mut headers = [0; BURST];
        for (header, &i) in headers.iter_mut().zip(passed) {
            *header = table.header(hashes[usize::from(i) % BURST] as u32);
            if *header != 0 {
                table.prefetch_records(*header);
            }
        }
        let mut hits = 0;
        for (&header, &i) in headers.iter().zip(passed) {
            let i = usize::from(i) % BURST;
            let value = if header == 0 { 0 } else { table.find(header, &key(self.dsts[i])) };
            self.found[usize::from(self.places[i]) % BURST] = value;
            hits += usize::from(value != 0);
        }
        self.sums.fib_probes += passed.len() as u64;
        self.sums.false_positives += (passed.len() - hits) as u64;
        if hits > 0 {
            self.close_ranks();
        }
    }

    /// Leaves out those that have a hop.
    #[inline(always)]
    fn close_ranks(&mut self) {
        let mut kept = 0;
        for i in 0..self.count {
            let (dst, place) = (self.dsts[i], self.places[i]);
            self.dsts[kept] = dst;
            self.places[kept] = place;
            kept += usize::from(self.found[usize::from(place) % BURST] == 0);
        }
        self.count = kept;
    }
}

/// How often a burst is repeated because the filter was being changed.
const TRIES: usize = 2;
