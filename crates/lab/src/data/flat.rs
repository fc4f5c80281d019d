//! The right answers, from an interval list that shares no code with any engine.
//!
//! ```text
//!  10/8 → 1, 10.1/16 → 2      start  0.0.0.0  10.0.0.0  10.1.0.0  10.2.0.0  11.0.0.0
//!                             hop    –        1         2         1         –
//! ```
//!
//! A prefix is an interval; a sweep in order of (address, length) keeps the open
//! ones on a stack, the innermost on top.

use lookup::{Addr, Hop, Prefix};

/// See the module.
pub struct Flat<A> {
    /// First addresses of the intervals, ascending; the first is 0.
    starts: Vec<A>,
    hops: Vec<Hop>,
}

impl<A: Addr> Flat<A> {
    /// The intervals of `routes`, which are ordered by address, then length, each
    /// prefix once.
    pub fn new(routes: impl IntoIterator<Item = (Prefix<A>, Hop)>) -> Flat<A> {
        let mut flat = Flat { starts: vec![A::default()], hops: vec![Hop::NONE] };
        let mut open: Vec<(A, Hop)> = Vec::new();
        for (prefix, hop) in routes {
            flat.close(&mut open, Some(prefix.first()));
            flat.cut(prefix.first(), hop);
            open.push((prefix.last(), hop));
        }
        flat.close(&mut open, None);
        flat
    }

    /// The hop of the longest prefix that covers `dst`.
    pub fn lookup(&self, dst: A) -> Hop {
        // cannot underflow: the first interval starts at the lowest address.
        self.hops[self.starts.partition_point(|start| *start <= dst) - 1]
    }

    /// Number of intervals.
    pub fn intervals(&self) -> usize {
        self.starts.len()
    }

    /// Ends what is open and ends before `next`; the enclosing one shows again.
    fn close(&mut self, open: &mut Vec<(A, Hop)>, next: Option<A>) {
        while let Some(&(last, _)) = open.last()
            && next.is_none_or(|next| last < next)
        {
            open.pop();
            if last != A::MAX {
                let outer = open.last().map_or(Hop::NONE, |(_, hop)| *hop);
                self.cut(last.plus(1), outer);
            }
        }
    }

    /// From `start` on the answer is `hop`.
    fn cut(&mut self, start: A, hop: Hop) {
        let last = self.starts.len() - 1;
        if self.starts[last] == start {
            self.hops[last] = hop;
        } else {
            self.starts.push(start);
            self.hops.push(hop);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Rng;

    /// The definition: search the list from end to end.
    fn scan<A: Addr>(routes: &[(Prefix<A>, Hop)], dst: A) -> Hop {
        let fits = routes.iter().filter(|(prefix, _)| prefix.contains(dst));
        fits.max_by_key(|(prefix, _)| prefix.len()).map_or(Hop::NONE, |(_, hop)| *hop)
    }

    fn agrees<A: Addr>(narrow: impl Fn(&mut Rng) -> A) {
        for seed in 0..40 {
            let mut rng = Rng::new(seed);
            let mut routes: Vec<_> = (0..1 << (seed % 8))
                .map(|i| {
                    let len = rng.below(usize::from(A::WIDTH) + 1) as u8;
                    (Prefix::covering(narrow(&mut rng), len), Hop(i + 1))
                })
                .collect();
            routes.sort_by_key(|(prefix, _)| *prefix);
            routes.dedup_by_key(|(prefix, _)| *prefix);
            let flat = Flat::new(routes.iter().copied());
            let edges = routes.iter().flat_map(|(prefix, _)| {
                let (first, last) = (prefix.first(), prefix.last());
                [first, last, first.minus(1), last.plus(1)]
            });
            let mut probes: Vec<A> = edges.collect();
            probes.extend((0..50).map(|_| A::from_u128(rng.wide())));
            for dst in probes {
                assert_eq!(flat.lookup(dst), scan(&routes, dst), "seed {seed} dst {dst:x?}");
            }
        }
    }

    #[test]
    fn agrees_with_the_linear_scan() {
        agrees::<u32>(|rng| 0x0a01_0000 | rng.next() as u32 & 0x3fff);
        agrees::<u32>(|rng| rng.next() as u32);
        agrees::<u128>(|rng| 0x2001_0db8 << 96 | rng.wide() & 0xffff);
        agrees::<u128>(|rng| rng.wide());
    }

    #[test]
    fn nothing_and_everything() {
        assert_eq!(Flat::<u32>::new([]).lookup(5), Hop::NONE);
        let all = Flat::new([(Prefix::<u32>::all(), Hop(3))]);
        assert_eq!((all.lookup(0), all.lookup(u32::MAX), all.intervals()), (Hop(3), Hop(3), 1));
    }
}
