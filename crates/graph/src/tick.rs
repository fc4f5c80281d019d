//! When nodes run without packets.
//!
//! ```text
//!  Node::tick ──► Due ──► Ticking: the nodes that tick, each with its next time
//!                            │ traffic in this round: all of them
//!                            │ none: those whose time has come
//!                            └ the earliest time ──► how long an idle worker may sleep
//! ```
//!
//! | cost | a round of a graph without such nodes: one compare; with: a compare and the call a node |
//! |------|------------------------------------------------------------------------------------------|

/// When a node must run next: a time in ticks of [`clock::now`](crate::clock::now).
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Due(u64);

impl Due {
    /// At once: in the next poll.
    pub const NOW: Due = Due(0);
    /// Not before packets come.
    pub const NEVER: Due = Due(u64::MAX);

    /// At the time `ticks`.
    pub const fn at(ticks: u64) -> Due {
        Due(ticks)
    }

    /// The time; `u64::MAX` is never.
    pub const fn ticks(self) -> u64 {
        self.0
    }

    /// Whether the time has come.
    #[inline]
    pub const fn has_come(self, now: u64) -> bool {
        self.0 <= now && self.0 != u64::MAX
    }
}

/// The nodes of a graph that tick, in the graph's order, so that one that is fed by
/// another's tick runs after it in the same round.
pub(crate) struct Ticking(Vec<(usize, Due)>);

impl Ticking {
    /// `slots` tick, each in the first round.
    pub fn new(slots: impl Iterator<Item = usize>) -> Ticking {
        Ticking(slots.map(|slot| (slot, Due::NOW)).collect())
    }

    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The slot of the `k`th node, if it has to run.
    pub fn to_run(&self, k: usize, traffic: bool, now: u64) -> Option<usize> {
        let (slot, due) = self.0[k];
        (traffic || due.has_come(now)).then_some(slot)
    }

    /// The `k`th node runs again at `due`.
    pub fn set(&mut self, k: usize, due: Due) {
        self.0[k].1 = due;
    }

    /// The node at `slot` runs in the next round, because something changed it.
    pub fn wake(&mut self, slot: usize) {
        for (_, due) in self.0.iter_mut().filter(|(other, _)| *other == slot) {
            *due = Due::NOW;
        }
    }

    /// The earliest time of all.
    pub fn first(&self) -> Due {
        self.0.iter().map(|&(_, due)| due).min().unwrap_or(Due::NEVER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_comes_and_never_does_not() {
        assert!(Due::NOW.has_come(0) && Due::at(7).has_come(7) && !Due::at(8).has_come(7));
        assert!(!Due::NEVER.has_come(u64::MAX));
    }

    #[test]
    fn those_that_are_due_run_and_with_traffic_all() {
        let mut ticking = Ticking::new([3, 5].into_iter());
        assert_eq!((ticking.first(), ticking.to_run(1, false, 0)), (Due::NOW, Some(5)));
        ticking.set(0, Due::at(10));
        ticking.set(1, Due::NEVER);
        assert_eq!(ticking.first(), Due::at(10));
        let run = |traffic, now| [0, 1].map(|k| ticking.to_run(k, traffic, now).is_some());
        assert_eq!(
            [run(false, 9), run(false, 10), run(true, 9)],
            [[false, false], [true, false], [true, true]]
        );
        assert_eq!(Ticking::new(std::iter::empty()).first(), Due::NEVER);
    }
}
