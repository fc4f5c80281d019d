//! Looking up, and comparing.

use formats::SplitMix64;
use lookup::lpm::{Intervals, Lpm};
use lookup::rib::Change;
use lookup::{Addr, Hop, Prefix, Rib};
use serde::Serialize;

/// What was looked up and compared so far.
pub struct Verify<A> {
    /// How much, and how often in vain.
    pub tally: Tally,
    wrong: Vec<Wrong<A>>,
    rng: SplitMix64,
}

/// Counts.
#[derive(Clone, Copy, Default, Serialize)]
pub struct Tally {
    /// Addresses looked up.
    pub addresses: u64,
    /// Answers that differ, of one lookup or in a batch.
    pub disagreements: u64,
}

/// A wrong answer.
#[derive(Clone, Copy)]
pub struct Wrong<A> {
    /// For which address.
    pub addr: A,
    /// The engine's.
    pub got: Hop,
    /// The right one.
    pub want: Hop,
}

impl<A> Default for Verify<A> {
    fn default() -> Self {
        Verify { tally: Tally::default(), wrong: Vec::new(), rng: SplitMix64(1) }
    }
}

impl<A: Addr> Verify<A> {
    /// Compares at every prefix's edges, beside them, and at random, with a
    /// flattened list.
    pub fn all(&mut self, rib: &Rib<A>, table: &dyn Lpm<A>) {
        let intervals = Intervals::new(rib.iter());
        let want = |addr| intervals.lookup(addr);
        let mut addrs = Vec::with_capacity(BATCH + 4);
        for (prefix, _) in rib.iter() {
            addrs.extend(edges(&prefix));
            if addrs.len() >= BATCH {
                self.compare(&addrs, table, want);
                addrs.clear();
            }
        }
        self.compare(&addrs, table, want);
        for _ in 0..RANDOM / BATCH {
            addrs.clear();
            let rng = &mut self.rng;
            addrs.extend(
                (0..BATCH)
                    .map(|_| A::from_u128(u128::from(rng.next()) << 64 | u128::from(rng.next()))),
            );
            self.compare(&addrs, table, want);
        }
    }

    /// Compares around each changed prefix, with the routes themselves.
    pub fn around(&mut self, changes: &[Change<A>], rib: &Rib<A>, table: &dyn Lpm<A>) {
        let addrs: Vec<A> = changes.iter().flat_map(|change| edges(&change.prefix)).collect();
        self.compare(&addrs, table, |addr| rib.lookup(addr).map_or(Hop::NONE, |(_, hop)| hop));
    }

    /// The first wrong answers.
    pub fn wrong(&self) -> &[Wrong<A>] {
        &self.wrong
    }

    fn compare(&mut self, addrs: &[A], table: &dyn Lpm<A>, want: impl Fn(A) -> Hop) {
        let mut hops = vec![Hop::NONE; addrs.len()];
        table.lookup_batch(addrs, &mut hops);
        self.tally.addresses += addrs.len() as u64;
        for (&addr, &batched) in addrs.iter().zip(&hops) {
            let (want, alone) = (want(addr), table.lookup(addr));
            if (batched, alone) == (want, want) {
                continue;
            }
            self.tally.disagreements += 1;
            if self.wrong.len() < SHOWN {
                let got = if alone == want { batched } else { alone };
                self.wrong.push(Wrong { addr, got, want });
            }
        }
    }
}

/// Errors live here: both ends, and the addresses beside them.
fn edges<A: Addr>(prefix: &Prefix<A>) -> [A; 4] {
    let (first, last) = (prefix.first(), prefix.last());
    [first.minus(1), first, last, last.plus(1)]
}

/// Addresses looked up at a time; not a power of two, so that engines meet rests.
const BATCH: usize = 1000;

const RANDOM: usize = 1_000_000;

/// Wrong answers printed.
const SHOWN: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers from a `Rib`, but for one address.
    struct Liar<'a>(&'a Rib<u32>, u32);

    impl Lpm<u32> for Liar<'_> {
        fn lookup(&self, dst: u32) -> Hop {
            let hop = self.0.lookup(dst).map_or(Hop::NONE, |(_, hop)| hop);
            if dst == self.1 { Hop(77) } else { hop }
        }
        fn lookup_batch(&self, dsts: &[u32], hops: &mut [Hop]) {
            dsts.iter().zip(hops).for_each(|(&dst, hop)| *hop = self.lookup(dst));
        }
        fn bytes(&self) -> usize {
            0
        }
    }

    #[test]
    fn a_lie_at_an_edge_is_found() {
        let routes = [(0x0a00_0000, 8, 1), (0x0a01_0000, 16, 2)];
        let route = |(addr, len, hop)| (Prefix::covering(addr, len), Hop(hop));
        let rib: Rib<u32> = routes.map(route).into_iter().collect();
        for lie in [0x09ff_ffff, 0x0a01_0000, 0x0a01_ffff, 0x0b00_0000] {
            let mut verify = Verify::default();
            verify.all(&rib, &Liar(&rib, lie));
            assert_eq!(verify.wrong().first().map(|wrong| wrong.addr), Some(lie));
            assert!(verify.tally.disagreements > 0);
        }
        let mut verify = Verify::default();
        verify.all(&rib, &Liar(&rib, 0x0a00_8000));
        assert_eq!((verify.tally.disagreements, verify.tally.addresses), (0, 1_000_008));
    }
}
