//! When routes follow their links: at once where they are few; else when the links
//! have been quiet for a while, a slice of the table at a time. What packets take
//! follows at once in any case; a link that comes back before its routes have
//! followed has cost a store a hop.

use std::time::{Duration, Instant};

/// See the module.
pub(crate) struct Pace {
    /// So many routes follow at once.
    pub(crate) few: usize,
    first: Duration,
    /// How long links must have been quiet.
    hold: Duration,
    due: Option<Instant>,
    /// When routes followed last.
    followed: Option<Instant>,
    /// Targets whose routes follow now.
    pub(crate) marks: Option<Vec<bool>>,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace::new(FEW, FIRST)
    }
}

impl Pace {
    /// So many routes follow at once; of more, the links must have been quiet for
    /// `first`.
    pub(crate) fn new(few: usize, first: Duration) -> Pace {
        Pace { few, first, hold: first, due: None, followed: None, marks: None }
    }

    /// A link came or went.
    pub(crate) fn flip(&mut self, now: Instant) {
        if self.followed.is_some_and(|at| now - at > FORGET) {
            (self.hold, self.followed) = (self.first, None);
        }
        self.due = Some(now + self.hold);
    }

    /// How long until routes may follow.
    pub(crate) fn left(&self, now: Instant) -> Duration {
        self.due.map_or(Duration::ZERO, |due| due.saturating_duration_since(now))
    }

    /// Routes follow: the next time a link must have been quiet for longer.
    pub(crate) fn begin(&mut self, now: Instant, marks: Vec<bool>) {
        if self.followed.replace(now).is_some() {
            self.hold = (self.hold * 2).min(MOST);
        }
        (self.due, self.marks) = (None, Some(marks));
    }
}

/// Routes that follow within milliseconds.
const FEW: usize = 4096;
const FIRST: Duration = Duration::from_millis(100);
const MOST: Duration = Duration::from_secs(10);
/// A link that was quiet for so long does not flap.
const FORGET: Duration = Duration::from_secs(60);
/// Prefixes that are looked at between two looks at what else there is to do: another link
/// that is lost meanwhile waits for so many (`router/failover`, `following_step_ms`).
pub(crate) const SLICE: usize = 2048;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_goes_on_flapping_is_waited_for_longer() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut pace = Pace::default();
        assert_eq!(pace.left(start), Duration::ZERO, "nothing to wait for");
        let mut waits = Vec::new();
        for time in [0, 1000, 2000, 62_001] {
            pace.flip(at(time));
            pace.flip(at(time + 50));
            waits.push(pace.left(at(time + 50)).as_millis());
            pace.begin(at(time + 500), Vec::new());
        }
        assert_eq!(waits, [100, 100, 200, 400]);
        pace.flip(at(200_000));
        assert_eq!(pace.left(at(200_000)), FIRST, "it was quiet for long");
        for time in (300_000..400_000).step_by(1000) {
            pace.flip(at(time));
            pace.begin(at(time), Vec::new());
        }
        pace.flip(at(400_000));
        assert_eq!(pace.left(at(400_000)), MOST);
    }
}
