//! What is counted in a window in which the worker had its core.
//!
//! ```text
//!  slices of a second:  │ kept │ kept │ taken │ kept │ …      until there are enough kept
//! ```
//!
//! A flood at 80 % of the capacity leaves a worker 256 µs: what the machine takes from its core is
//! lost packets, which are nobody's of those measured. So such slices are left out, whatever came
//! of them, and counted.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use crate::Row;

/// Packets, bytes or time-stamp ticks, by name.
pub(super) type Counts = BTreeMap<String, u64>;

/// A moment.
pub(super) struct Mark {
    at: Instant,
    taken: Duration,
    counts: Counts,
}

/// What was counted between moments.
#[derive(Default)]
pub(super) struct Found {
    time: Duration,
    taken: Duration,
    counts: Counts,
    left_out: usize,
}

impl Mark {
    /// Now: so much was taken from the worker, and these are counted so far.
    pub fn new(taken: Duration, counts: Counts) -> Mark {
        Mark { at: Instant::now(), taken, counts }
    }
}

/// What is counted in slices in which the worker had its core, `window` in all; or, where
/// there are too few, in those in which least was taken from it.
pub(super) fn window(window: Duration, mark: impl Fn() -> Mark) -> Found {
    let enough = window.div_duration_f64(SLICE).ceil() as usize;
    let mut slices: Vec<Found> = Vec::new();
    let mut before = mark();
    let is_kept = |slice: &Found| slice.taken <= slice.time / TAKEN;
    while slices.iter().filter(|slice| is_kept(slice)).count() < enough
        && slices.len() < PATIENCE * enough
    {
        thread::sleep(SLICE);
        let after = mark();
        slices.push(Found::between(&before, &after));
        before = after;
    }
    Found::least_taken(slices, enough)
}

impl Found {
    fn between(before: &Mark, after: &Mark) -> Found {
        let of_before = |name: &str| before.counts.get(name).copied().unwrap_or(0);
        let new = |(name, n): (&String, &u64)| (name.clone(), n.saturating_sub(of_before(name)));
        Found {
            time: after.at - before.at,
            taken: after.taken.saturating_sub(before.taken),
            counts: after.counts.iter().map(new).collect(),
            left_out: 0,
        }
    }

    /// The sum of the `enough` of them in which least was taken.
    fn least_taken(mut slices: Vec<Found>, enough: usize) -> Found {
        slices.sort_by_key(|slice| slice.taken);
        let left_out = slices.len().saturating_sub(enough);
        slices.truncate(enough);
        let mut sum = Found { left_out, ..Found::default() };
        for slice in slices {
            sum.time += slice.time;
            sum.taken += slice.taken;
            slice
                .counts
                .into_iter()
                .for_each(|(name, n)| *sum.counts.entry(name).or_default() += n);
        }
        sum
    }

    /// How many of this name.
    pub fn of(&self, name: &str) -> f64 {
        self.counts.get(name).copied().unwrap_or(0) as f64
    }

    /// How many of this name a second.
    pub fn per_s(&self, name: &str) -> f64 {
        self.of(name) / self.time.as_secs_f64().max(1e-9)
    }

    /// The part of the time that so many ticks are.
    pub fn percent(&self, name: &str) -> f64 {
        self.per_s(name) / graph::clock::hz() as f64 * 100.0
    }

    /// With what the machine took, and how many slices were left out for it.
    pub fn beside(&self, row: Row) -> Row {
        let taken = self.taken.as_secs_f64() / self.time.as_secs_f64().max(1e-9) * 100.0;
        row.with("taken_percent", taken).with("slices_left_out", self.left_out as f64)
    }
}

const SLICE: Duration = Duration::from_secs(1);
/// The part of a slice that may be taken from a worker: 1 ms of a second.
const TAKEN: u32 = 1_000;
/// So many times as long as the window is may be waited for slices to keep.
const PATIENCE: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_of_which_most_was_taken_are_left_out() {
        let start = Instant::now();
        let mark = |s: u64, taken_ms: u64, n: u64| Mark {
            at: start + Duration::from_secs(s),
            taken: Duration::from_millis(taken_ms),
            counts: [("given".to_string(), n)].into(),
        };
        let marks = [mark(0, 7, 0), mark(1, 7, 100), mark(2, 57, 110), mark(3, 58, 220)];
        let slices = || marks.windows(2).map(|of| Found::between(&of[0], &of[1])).collect();
        let found = Found::least_taken(slices(), 2);
        assert_eq!((found.of("given"), found.per_s("given"), found.left_out), (210.0, 105.0, 1));
        assert_eq!((found.taken, found.of("none")), (Duration::from_millis(1), 0.0));
        let all = Found::least_taken(slices(), 3);
        assert_eq!((all.of("given"), all.left_out), (220.0, 0));
    }
}
