//! Warnings about what a Grantor counts: at most one a minute about each.

use std::time::{Duration, Instant};

use nodes::grantor::settings::PRIORITIES;

/// What was reported.
#[derive(Debug, Default)]
pub(super) struct Warned {
    /// Requests that found no room to wait.
    pub shed: Shed,
    /// Verdicts without a decision.
    pub undecided: Rising,
    /// Decisions that could not be sent.
    pub unsent: Rising,
}

/// A count that rises.
#[derive(Debug, Default)]
pub(super) struct Rising {
    reported: u64,
    at: Option<Instant>,
}

/// The requests of each priority that found no room.
#[derive(Debug)]
pub(super) struct Shed {
    reported: [u64; PRIORITIES],
    at: Option<Instant>,
}

impl Rising {
    /// What has come since the last report, if it is time for another.
    pub fn news(&mut self, count: u64, now: Instant) -> Option<u64> {
        if count <= self.reported || !is_due(self.at, now) {
            return None;
        }
        self.at = Some(now);
        Some(count - std::mem::replace(&mut self.reported, count))
    }
}

impl Default for Shed {
    fn default() -> Self {
        Shed { reported: [0; PRIORITIES], at: None }
    }
}

impl Shed {
    /// How many were shed since the last report, and the highest priority among these, if it is time
    /// for another report.
    pub fn news(&mut self, counts: [u64; PRIORITIES], now: Instant) -> Option<(u64, usize)> {
        let more = |priority: usize| counts[priority].saturating_sub(self.reported[priority]);
        let highest = (0..PRIORITIES).rev().find(|priority| more(*priority) > 0)?;
        if !is_due(self.at, now) {
            return None;
        }
        let sum = (0..PRIORITIES).map(more).sum();
        (self.reported, self.at) = (counts, Some(now));
        Some((sum, highest))
    }
}

fn is_due(last: Option<Instant>, now: Instant) -> bool {
    last.is_none_or(|last| now.duration_since(last) >= MINUTE)
}

/// Between two reports about one thing.
const MINUTE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_reported_once_a_minute() {
        let (mut count, now) = (Rising::default(), Instant::now());
        let mut news = |n, s| count.news(n, now + Duration::from_secs(s));
        assert_eq!(
            [news(0, 0), news(3, 1), news(9, 60), news(9, 61)],
            [None, Some(3), None, Some(6)]
        );
        assert_eq!([news(9, 200), news(10, 201)], [None, Some(1)]);
    }

    /// Each report has the priorities of its own minute.
    #[test]
    fn the_highest_priority_is_that_of_the_report() {
        let (mut shed, now) = (Shed::default(), Instant::now());
        let mut counts = [0; PRIORITIES];
        let mut news = |more: &[(usize, u64)], s| {
            more.iter().for_each(|(priority, n)| counts[*priority] += n);
            shed.news(counts, now + Duration::from_secs(s))
        };
        assert_eq!(news(&[], 0), None);
        assert_eq!(news(&[(60, 1), (10, 4)], 1), Some((5, 60)));
        assert_eq!(news(&[(10, 2)], 30), None);
        assert_eq!(news(&[(10, 1)], 61), Some((3, 10)));
        assert_eq!(news(&[], 200), None);
    }
}
