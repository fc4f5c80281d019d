//! The flattened table: where the answer changes, and to what. Exact, simple
//! and quick enough for full tables; `rutter check` and the lab compare with it.
//!
//! Built independently of the engines' own flattening: prefixes paint the
//! elementary segments from the longest to the shortest, and a segment keeps
//! its first colour (union-find steps over what is painted). Tested against the
//! linear scan.
//!
//! | operation | cost                                             |
//! |-----------|--------------------------------------------------|
//! | build     | O(n log n)                                       |
//! | lookup    | one binary search over the borders               |
//! | memory    | an address, a length and a hop a border          |

use crate::{Addr, Hop, Prefix};

/// All addresses as intervals in which one prefix answers.
///
/// I1: `starts` ascends strictly from the lowest address; `owners` is as long.
#[derive(Clone, Debug)]
pub struct Intervals<A> {
    starts: Vec<A>,
    owners: Vec<Option<(Prefix<A>, Hop)>>,
}

impl<A: Addr> Intervals<A> {
    /// Flattens `routes`, in any order. Of two equal prefixes the later counts.
    pub fn new(routes: impl IntoIterator<Item = (Prefix<A>, Hop)>) -> Self {
        let mut routes: Vec<_> = routes.into_iter().collect();
        let mut starts: Vec<A> = routes.iter().flat_map(|(prefix, _)| borders(prefix)).collect();
        starts.push(A::default());
        starts.sort_unstable();
        starts.dedup();
        routes.reverse(); // stable sort: the later of equals now comes first and wins
        routes.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        let mut owners = vec![None; starts.len()];
        let mut unpainted = Unpainted((0..=starts.len()).collect());
        for (prefix, hop) in routes {
            let first = starts.partition_point(|&start| start < prefix.first());
            let mut segment = unpainted.from(first);
            while starts.get(segment).is_some_and(|&start| start <= prefix.last()) {
                owners[segment] = Some((prefix, hop));
                segment = unpainted.after(segment);
            }
        }
        Intervals { starts, owners }
    }

    /// The hop of the longest prefix that covers `dst`.
    pub fn lookup(&self, dst: A) -> Hop {
        self.route(dst).map_or(Hop::NONE, |(_, hop)| hop)
    }

    /// The longest prefix that covers `dst`, and its hop.
    pub fn route(&self, dst: A) -> Option<(Prefix<A>, Hop)> {
        let after = self.starts.partition_point(|&start| start <= dst);
        self.owners[after - 1] // after >= 1: I1, the lowest address is a start
    }

    /// Start and hop of each interval, ascending; neighbours may have one hop.
    pub fn iter(&self) -> impl Iterator<Item = (A, Hop)> + '_ {
        let hops = self.owners.iter().map(|owner| owner.map_or(Hop::NONE, |(_, hop)| hop));
        self.starts.iter().copied().zip(hops)
    }

    /// Number of intervals.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.starts.len()
    }
}

/// Where the answer may change because of `prefix`.
fn borders<A: Addr>(prefix: &Prefix<A>) -> impl Iterator<Item = A> + use<A> {
    let behind = (prefix.last() != A::MAX).then(|| prefix.last().plus(1));
    [prefix.first()].into_iter().chain(behind)
}

/// For each segment one at or after it that is not painted, or leads to one.
struct Unpainted(Vec<usize>);

impl Unpainted {
    /// The first unpainted segment at or after `segment`.
    fn from(&mut self, segment: usize) -> usize {
        let mut root = segment;
        while self.0[root] != root {
            root = self.0[root];
        }
        let mut on_path = segment;
        while self.0[on_path] != root {
            on_path = std::mem::replace(&mut self.0[on_path], root);
        }
        root
    }

    /// Marks `segment` painted; the first unpainted one behind it.
    fn after(&mut self, segment: usize) -> usize {
        self.0[segment] = segment + 1;
        self.from(segment + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lpm::oracle::{Linear, Rng, probes};

    fn agrees<A: Addr>() {
        for seed in 0..if cfg!(miri) { 6 } else { 60 } {
            let mut rng = Rng::new(seed);
            let count = if cfg!(miri) { 20 } else { 1 << (seed % 10) };
            let routes: Vec<_> = (0..count).map(|_| rng.route::<A>()).collect();
            let (flat, linear) = (Intervals::new(routes.iter().copied()), Linear::new(&routes));
            for dst in probes(&routes, &mut rng) {
                assert_eq!(flat.route(dst), linear.route(dst), "seed {seed} dst {dst:#x?}");
            }
        }
    }

    #[test]
    fn agrees_with_the_linear_scan() {
        agrees::<u32>();
        agrees::<u128>();
    }

    #[test]
    fn nothing_and_everything() {
        assert_eq!(Intervals::<u32>::new([]).lookup(7), Hop::NONE);
        let all = Intervals::new([(Prefix::<u128>::all(), Hop(3))]);
        assert_eq!((all.lookup(u128::MAX), all.len()), (Hop(3), 1));
    }
}
