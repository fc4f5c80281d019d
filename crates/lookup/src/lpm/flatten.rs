//! From prefixes to merged intervals, in one sweep over the `Rib`: what the
//! engines that search ranges are built from.

use crate::{Addr, Hop, Prefix, Rib};

/// Sweeps with memory that is kept from one sweep to the next.
pub struct Flatten<A> {
    intervals: Vec<(A, Hop)>,
    /// The last address and the hop of each prefix that the sweep is inside of.
    open: Vec<(A, Hop)>,
}

impl<A: Addr> Flatten<A> {
    /// Nothing swept yet.
    pub fn new() -> Self {
        Flatten { intervals: Vec::new(), open: Vec::new() }
    }

    /// Start and hop of each interval of `within`, ascending: the first one at
    /// its start, no two neighbours with one hop. A default route counts as
    /// none: engines keep its hop beside the table.
    pub fn sweep(&mut self, rib: &Rib<A>, within: Prefix<A>) -> &[(A, Hop)] {
        let outside = owner(rib, within);
        self.open.clear();
        self.intervals.clear();
        self.intervals.push((within.first(), outside));
        for (prefix, hop) in rib.inside(within.first()..=within.last()) {
            if prefix.len() <= within.len() {
                continue; // in `outside`, or /0
            }
            while self.open.last().is_some_and(|&(last, _)| last < prefix.first()) {
                self.close(outside);
            }
            self.border(prefix.first(), hop);
            self.open.push((prefix.last(), hop));
        }
        while self.open.last().is_some_and(|&(last, _)| last < within.last()) {
            self.close(outside);
        }
        &self.intervals
    }

    /// Heap bytes.
    pub fn bytes(&self) -> usize {
        (self.intervals.capacity() + self.open.capacity()) * size_of::<(A, Hop)>()
    }

    /// Leaves the innermost open prefix for the one around it.
    fn close(&mut self, outside: Hop) {
        let (last, _) = self.open.pop().expect("the callers looked");
        let hop = self.open.last().map_or(outside, |&(_, hop)| hop);
        self.border(last.plus(1), hop);
    }

    /// From `start` on the answer is `hop`; a later word about `start` counts.
    #[inline]
    fn border(&mut self, start: A, hop: Hop) {
        let same = |&(last, _): &(A, Hop)| last == start;
        self.intervals.pop_if(|last| same(last));
        if self.intervals.last().is_none_or(|&(_, before)| before != hop) {
            self.intervals.push((start, hop));
        }
    }
}

/// The hop, /0 left out, of the longest prefix that covers `prefix`.
pub(super) fn owner<A: Addr>(rib: &Rib<A>, prefix: Prefix<A>) -> Hop {
    let longest = rib.covering(prefix).next();
    longest.filter(|(owner, _)| owner.len() > 0).map_or(Hop::NONE, |(_, hop)| hop)
}

impl<A: Addr> Default for Flatten<A> {
    fn default() -> Self {
        Flatten::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lpm::Intervals;
    use crate::lpm::oracle::Rng;

    fn agrees<A: Addr>() {
        let mut flatten = Flatten::new();
        for seed in 0..if cfg!(miri) { 4 } else { 200 } {
            let mut rng = Rng::new(seed);
            let rib: Rib<A> = (0..1 << (seed % 9)).map(|_| rng.route()).collect();
            let flat = Intervals::new(rib.iter().filter(|(prefix, _)| prefix.len() > 0));
            let (anywhere, len) = (rng.route::<A>().0.first(), rng.below(33) as u8);
            for within in [Prefix::all(), Prefix::covering(anywhere, len)] {
                let got = flatten.sweep(&rib, within);
                let mut want = vec![(within.first(), flat.lookup(within.first()))];
                for (start, hop) in flat.iter().filter(|&(start, _)| within.contains(start)) {
                    if want.last().is_some_and(|&(_, before)| before != hop) {
                        want.push((start, hop));
                    }
                }
                assert_eq!(got, want, "seed {seed} within {within}");
            }
        }
    }

    #[test]
    fn agrees_with_the_other_way_of_flattening() {
        agrees::<u32>();
        agrees::<u128>();
    }
}
