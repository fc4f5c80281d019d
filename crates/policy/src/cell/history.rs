//! The failures of a policy: which are reported, when there are too many, and how long a restart waits.

use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};

/// The failures of one policy.
#[derive(Debug, Default)]
pub(super) struct History {
    recent: VecDeque<Instant>,
    /// Those that ended a process.
    ends: VecDeque<Instant>,
    reported: HashSet<String>,
}

impl History {
    /// Notes a failure. True when its cause is new.
    pub fn note(&mut self, now: Instant, cause: &str) -> bool {
        self.forget(now);
        push(&mut self.recent, now);
        // A policy that invents causes is reported this often and no more.
        self.reported.len() < CAUSES && self.reported.insert(cause.to_owned())
    }

    /// Notes that a process has ended by its failure.
    pub fn note_end(&mut self, now: Instant) {
        self.forget(now);
        push(&mut self.ends, now);
    }

    /// The number of failures within the last minute.
    pub fn recent(&mut self, now: Instant) -> usize {
        self.forget(now);
        self.recent.len()
    }

    /// When the next process may be started: at once after the first that ended, later and later
    /// after further ones. Failures of a process that goes on delay nothing.
    pub fn next_start(&mut self, now: Instant) -> Instant {
        self.forget(now);
        let more = self.ends.len().saturating_sub(AT_ONCE);
        match self.ends.back() {
            Some(last) if more > 0 => *last + (FIRST_WAIT * (1 << more.min(6))).min(WAIT),
            _ => now,
        }
    }

    fn forget(&mut self, now: Instant) {
        for all in [&mut self.recent, &mut self.ends] {
            while all.front().is_some_and(|first| now.duration_since(*first) >= MINUTE) {
                all.pop_front();
            }
        }
    }
}

fn push(all: &mut VecDeque<Instant>, now: Instant) {
    if all.len() == MOST {
        all.pop_front();
    }
    all.push_back(now);
}

const MINUTE: Duration = Duration::from_secs(60);
/// Failures that are remembered.
const MOST: usize = 4096;
/// Causes that are reported.
const CAUSES: usize = 32;
/// Ends of processes after which another is started without a wait.
const AT_ONCE: usize = 3;
const FIRST_WAIT: Duration = Duration::from_millis(25);
/// Where one process failed, others' decisions wait no longer than this for the next.
const WAIT: Duration = Duration::from_millis(150);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_count_for_a_minute_and_causes_are_reported_once() {
        let (mut history, now) = (History::default(), Instant::now());
        let at = |s| now + Duration::from_secs(s);
        assert!(history.note(at(0), "a") && !history.note(at(30), "a"));
        assert!(history.note(at(59), "b"));
        assert_eq!(history.recent(at(59)), 3);
        assert_eq!(history.recent(at(60)), 2);
        assert_eq!(history.recent(at(119)), 0);
        assert!(!history.note(at(200), "a"));
        let reported = (0..1000).filter(|i| history.note(at(200), &i.to_string())).count();
        assert_eq!(reported, CAUSES - 2);
    }

    #[test]
    fn restarts_wait_longer_and_longer() {
        let (mut history, now) = (History::default(), Instant::now());
        let mut waits = Vec::new();
        for _ in 0..12 {
            history.note_end(now);
            waits.push((history.next_start(now) - now).as_millis());
        }
        assert_eq!(waits[..6], [0, 0, 0, 50, 100, 150]);
        assert!(waits.iter().all(|wait| *wait <= 150) && waits[11] == 150);
        // What fails again and again without an end does not keep others waiting.
        let then = now + Duration::from_millis(151);
        history.note(then, "a");
        assert!(history.next_start(then) <= then);
    }
}
