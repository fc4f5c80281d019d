//! How much address space a table's arrays take: some times what its routes need, by powers
//! of two. A table that outgrows them is built anew, with larger ones.
//!
//! Memory comes as it is used; but a limit of address space (`ulimit -v`) and a machine that
//! does not overcommit count what is reserved.

use crate::Rib;

/// An engine's largest arrays, halved some times.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Scale(u32);

impl Scale {
    /// For as many routes, where the largest arrays have `most` values and a route takes
    /// `each` of them or fewer, as a rule.
    pub(super) fn of(routes: usize, each: usize, most: usize) -> Scale {
        let wanted = routes.saturating_mul(each).clamp(1, most).next_power_of_two();
        Scale(most.ilog2().saturating_sub(wanted.ilog2()).min(MOST_HALVINGS))
    }

    /// True of an engine's largest arrays.
    pub(super) fn is_largest(self) -> bool {
        self.0 == 0
    }

    /// The length of an array that has `most` values where it is largest.
    pub(super) fn len(self, most: usize) -> usize {
        (most >> self.0).max(1)
    }

    /// What `build` makes at this scale; or, while it says that its arrays are tight, at
    /// larger ones. Where there is no room for those, tight ones serve.
    pub(super) fn build<T, E>(
        mut self,
        mut build: impl FnMut(Scale) -> (Result<T, E>, bool),
    ) -> Result<T, E> {
        let mut tight = None;
        loop {
            let (done, is_tight) = build(self);
            let done = match (done, tight.take()) {
                (Err(_), Some(tight)) => return Ok(tight),
                (done, _) => done,
            };
            if !is_tight || self.is_largest() {
                return done;
            }
            tight = done.ok();
            self.0 = self.0.saturating_sub(2);
        }
    }
}

/// Of arrays of 256 cells with a number, one for each /24 that holds longer routes: how many
/// to reserve, of `most`.
pub(super) fn deep_chunks(rib: &Rib<u32>, most: usize) -> usize {
    let long = rib.iter().filter(|(prefix, _)| prefix.len() > 24);
    let (mut last, mut count) = (None, 0_usize);
    for slot in long.map(|(prefix, _)| prefix.first() >> 8) {
        count += usize::from(last.replace(slot) != Some(slot));
    }
    (2 * count).clamp(LEAST_CHUNKS.min(most), most).next_power_of_two()
}

/// The least of them, 4 MiB.
const LEAST_CHUNKS: usize = 1 << 12;

/// Smaller ones are not worth a build when they grow, nor would they have pages of 2 MB.
const MOST_HALVINGS: u32 = if cfg!(miri) { 0 } else { 6 };

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Hop, Prefix};

    #[test]
    fn lengths_follow_the_routes() {
        let lens = |routes| Scale::of(routes, 4, 1 << 20).len(1 << 20);
        assert_eq!(
            [0, 1, 5000, 1 << 17, 1 << 18, 1 << 30].map(lens),
            if cfg!(miri) {
                [1 << 20; 6]
            } else {
                [1 << 14, 1 << 14, 1 << 15, 1 << 19, 1 << 20, 1 << 20]
            }
        );
        assert_eq!(Scale::of(1 << 18, 4, 1 << 20).len(1 << 3), 1 << 3);
    }

    #[test]
    fn what_is_tight_is_built_larger_until_nothing_is() {
        let mut lens = Vec::new();
        let mut build = |scale: Scale, enough: usize| {
            lens.push(scale.len(1 << 10));
            (Ok::<_, ()>(scale), scale.len(1 << 10) < enough)
        };
        let small = Scale(5);
        assert_eq!(small.build(|scale| build(scale, 1 << 8)), Ok(Scale(1)));
        assert_eq!(small.build(|scale| build(scale, 1 << 11)), Ok(Scale(0)));
        assert_eq!(lens, [1 << 5, 1 << 7, 1 << 9, 1 << 5, 1 << 7, 1 << 9, 1 << 10]);
        assert_eq!(small.build(|_| (Err::<(), _>(7), true)), Err(7));
        let no_room = |scale| (if scale == small { Ok(scale) } else { Err(7) }, scale == small);
        assert_eq!(small.build(no_room), Ok(small));
    }

    #[test]
    fn chunks_are_twice_the_24s_that_hold_longer_routes() {
        let of = |count: u32| {
            let both = (0..count).flat_map(|i| [i << 8, i << 8 | 128]);
            deep_chunks(&both.map(|at| (Prefix::covering(at, 25), Hop(1))).collect(), 1 << 14)
        };
        assert_eq!([0, 1, 3000, 9000].map(of), [1 << 12, 1 << 12, 1 << 13, 1 << 14]);
    }
}
