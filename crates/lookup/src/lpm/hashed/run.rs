//! A burst of addresses on its way through tables, the longest prefixes first:
//! all reads of one kind are asked for before the first is waited for.

use super::Hashed;
use super::tally::Sums;
use crate::Addr;

/// Addresses that go through the tables together.
pub(in crate::lpm) const BURST: usize = 64;

/// Hops of a burst; 0 where none was found.
pub(in crate::lpm) type Found<const N: usize> = [u32; N];

/// A burst of up to `N` addresses, [`BURST`] at most: the first `count` have no hop yet.
/// One address alone is a burst of 1, for which nothing else is made ready.
pub(in crate::lpm) struct Run<'r, A, const N: usize> {
    dsts: [A; N],
    /// The place of each in the burst.
    places: [u8; N],
    count: usize,
    pub found: &'r mut Found<N>,
    pub sums: &'r mut Sums,
}

impl<'r, A: Addr, const N: usize> Run<'r, A, N> {
    /// Begins with up to `N` addresses.
    #[inline(always)]
    pub(in crate::lpm) fn new(from: &[A], found: &'r mut Found<N>, sums: &'r mut Sums) -> Self {
        const { assert!(N <= BURST) };
        prepares(N);
        let mut dsts = [A::default(); N];
        dsts[..from.len()].copy_from_slice(from);
        *found = [0; N];
        Run { dsts, places: std::array::from_fn(|i| i as u8), count: from.len(), found, sums }
    }

    /// The addresses without a hop.
    #[inline(always)]
    pub(in crate::lpm) fn left(&self) -> &[A] {
        &self.dsts[..self.count]
    }

    /// As [`Run::left`], with others behind them.
    #[inline(always)]
    pub(in crate::lpm) fn padded(&self) -> &[A; N] {
        &self.dsts
    }

    /// Searches `table` for those that `passes` (by their number in `left`).
    #[inline(always)]
    pub(in crate::lpm) fn probe<const W: usize>(
        &mut self,
        table: &Hashed<W>,
        passes: impl Fn(usize) -> bool,
        hash: impl Fn(usize) -> u32,
        key: impl Fn(A) -> [u64; W],
        value: impl Fn(A, u32) -> u32,
    ) {
        // Each number is written to the end of the list; only some lengthen it.
        let (mut passed, mut end) = ([0_u8; N], 0);
        for i in 0..self.count {
            passed[end % N] = i as u8;
            end += usize::from(passes(i));
        }
        if end == 0 {
            return;
        }
        let passed = &passed[..end];
        for &i in passed {
            table.prefetch(hash(usize::from(i) % N));
        }
        let mut headers = [0; N];
        for (header, &i) in headers.iter_mut().zip(passed) {
            *header = table.header(hash(usize::from(i) % N));
            if *header != 0 {
                table.prefetch_records(*header);
            }
        }
        let mut hits = 0;
        for (&header, &i) in headers.iter().zip(passed) {
            let i = usize::from(i) % N;
            let there = if header == 0 { 0 } else { table.find(header, &key(self.dsts[i])) };
            let hop = if there == 0 { 0 } else { value(self.dsts[i], there) };
            self.found[usize::from(self.places[i]) % N] = hop;
            hits += usize::from(hop != 0);
        }
        self.sums.fib_probes += end as u64;
        self.sums.false_positives += (end - hits) as u64;
        if hits > 0 {
            self.close_ranks();
        }
    }

    /// Gives all that are left the hop of `hop`.
    #[inline(always)]
    pub(in crate::lpm) fn finish(self, hop: impl Fn(A) -> u32) {
        for (&dst, &place) in self.dsts[..self.count].iter().zip(&self.places) {
            self.found[usize::from(place) % N] = hop(dst);
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
            kept += usize::from(self.found[usize::from(place) % N] == 0);
        }
        self.count = kept;
    }
}

/// Notes that a lookup makes ready for `n` addresses: tests look whether one alone pays for
/// a burst.
#[inline(always)]
pub(in crate::lpm) fn prepares(_n: usize) {
    #[cfg(test)]
    tests::PREPARED.set(tests::PREPARED.get() + _n);
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::lpm::{Engines, Entry, Options};
    use crate::sync::Domain;
    use crate::{Hop, Prefix, Rib};

    thread_local! {
        /// Addresses that lookups of this thread have made ready for.
        pub(super) static PREPARED: Cell<usize> = const { Cell::new(0) };
    }

    /// What lookups of so many addresses make ready for, by the engine's name.
    fn prepared<A: Engines>(count: usize) -> Vec<(&'static str, usize)> {
        let rib: Rib<A> = [(Prefix::covering(A::MAX, 24), Hop(1))].into_iter().collect();
        let prepared = |entry: &Entry<A>| {
            let writer = (entry.build)(&rib, &Options::default(), &Domain::new()).unwrap();
            PREPARED.set(0);
            let mut hops = vec![Hop::NONE; count];
            match &mut hops[..] {
                [hop] => *hop = writer.table().lookup(A::MAX),
                hops => writer.table().lookup_batch(&vec![A::MAX; count], hops),
            }
            assert!(hops.iter().all(|&hop| hop == Hop(1)), "{}", entry.card.name);
            (entry.card.name, PREPARED.get())
        };
        A::engines().iter().map(prepared).collect()
    }

    #[test]
    #[cfg_attr(miri, ignore = "every engine")]
    fn a_single_lookup_prepares_no_burst() {
        for (name, addresses) in [prepared::<u32>(1), prepared::<u128>(1)].concat() {
            assert!(addresses <= 2, "{name} prepares {addresses}");
        }
        // That the count sees those that there are.
        let bursts = prepared::<u128>(BURST);
        for name in ["vpp-hash", "vpp-bloom", "vpp-trie", "cuvpp", "bloomfwd6"] {
            let of_name = bursts.iter().find(|(known, _)| *known == name);
            assert!(
                of_name.is_some_and(|(_, addresses)| *addresses >= BURST),
                "{name}: {bursts:?}"
            );
        }
    }
}
