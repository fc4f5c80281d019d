//! The failures of a policy: which are reported, when there are too many, and how long a restart waits.

use std::borrow::Cow;
use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};

/// The failures of one policy.
#[derive(Debug, Default)]
pub(super) struct History {
    recent: VecDeque<Instant>,
    /// Those that ended a process.
    ends: VecDeque<Instant>,
    /// Each kind has places of its own: a policy puts what its clients send into the words of an
    /// error, and these would take the places of all other causes.
    reported: [Causes; 3],
}

/// How a policy failed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    /// By an error, whose words are the policy's.
    Error,
    /// It was stopped.
    Stop,
    /// Its process ended, or was ended.
    End,
}

/// Whether a failure is reported.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum News {
    /// Its cause is new.
    Cause,
    /// Its cause was reported.
    Known,
    /// Its cause is new, and so many were reported that no further one of its kind is.
    TooMany,
}

/// Causes of a kind that were reported.
#[derive(Debug, Default)]
struct Causes {
    known: HashSet<String>,
    /// That there are too many was reported.
    full: bool,
}

impl Causes {
    fn note(&mut self, key: &str) -> News {
        if self.known.contains(key) || self.full {
            return News::Known;
        }
        self.full = self.known.len() == CAUSES;
        if self.full {
            return News::TooMany;
        }
        self.known.insert(key.to_owned());
        News::Cause
    }
}

impl History {
    /// Notes a failure. Errors of one line are one cause, whatever their words.
    pub fn note(&mut self, now: Instant, kind: Kind, cause: &str) -> News {
        self.forget(now);
        push(&mut self.recent, now);
        let key = if kind == Kind::Error { cause_of(cause) } else { cause.into() };
        self.reported[kind as usize].note(&key)
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

/// What errors of one cause have in common: the text up to its first line number, as `web.lua:12`;
/// of a text that has none all but its numbers.
fn cause_of(text: &str) -> Cow<'_, str> {
    let line_end = |(at, _)| {
        let digits = text[at + 1..].bytes().take_while(u8::is_ascii_digit).count();
        let end = at + 1 + digits;
        (digits > 0 && matches!(text.as_bytes().get(end), None | Some(b':'))).then_some(end)
    };
    match text.match_indices(':').find_map(line_end) {
        Some(end) => text[..end].into(),
        None => text.replace(|c: char| c.is_ascii_digit(), "").into(),
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
/// Causes of a kind that are reported.
pub(super) const CAUSES: usize = 32;
/// Ends of processes after which another is started without a wait.
const AT_ONCE: usize = 3;
const FIRST_WAIT: Duration = Duration::from_millis(25);
/// Where one process failed, others' decisions wait no longer than this for the next.
const WAIT: Duration = Duration::from_millis(150);

#[cfg(test)]
mod tests {
    use super::News::{Cause, Known, TooMany};
    use super::*;

    #[test]
    fn failures_count_for_a_minute_and_causes_are_reported_once() {
        let (mut history, now) = (History::default(), Instant::now());
        let at = |s| now + Duration::from_secs(s);
        let mut note = |s, cause: &str| history.note(at(s), Kind::Stop, cause);
        assert_eq!((note(0, "a"), note(30, "a"), note(59, "b")), (Cause, Known, Cause));
        assert_eq!(history.recent(at(59)), 3);
        assert_eq!(history.recent(at(60)), 2);
        assert_eq!(history.recent(at(119)), 0);
        assert_eq!(history.note(at(200), Kind::Stop, "a"), Known);
        let all: Vec<_> =
            (0..1000).map(|i| history.note(at(200), Kind::Stop, &i.to_string())).collect();
        let (new, rest) = all.split_at(CAUSES - 2);
        assert!(new.iter().all(|news| *news == Cause));
        // That there are too many is reported, too, and once.
        assert_eq!(rest[0], TooMany);
        assert!(rest[1..].iter().all(|news| *news == Known));
    }

    /// What clients send is in the words of an error, and takes no other cause's place.
    #[test]
    fn words_of_clients_hide_no_other_cause() {
        let (mut history, now) = (History::default(), Instant::now());
        let mut note = |kind, cause: &str| history.note(now, kind, cause);
        let odd = |i| format!("web.lua:7: odd packet from 2001:db8::{i}:9: stack traceback: …");
        assert_eq!(note(Kind::Error, &odd(0)), Cause);
        assert!((1..1000).all(|i| note(Kind::Error, &odd(i)) == Known));
        assert_eq!(note(Kind::Error, "web.lua:8: another"), Cause);
        assert_eq!(note(Kind::Error, "not enough memory: web.lua:7"), Cause);
        // Without a line a text is one cause with whatever numbers.
        let invalid = |i| format!("web.lua: cookie_len is {i}");
        assert_eq!(note(Kind::Error, &invalid(65)), Cause);
        assert!((66..1000).all(|i| note(Kind::Error, &invalid(i)) == Known));
        let words = (0..1000).map(|i| note(Kind::Error, &"x".repeat(i)));
        assert_eq!(words.filter(|news| *news == TooMany).count(), 1);
        for kind in [Kind::Stop, Kind::End] {
            assert_eq!(note(kind, "web.lua:7: odd packet"), Cause, "{kind:?}");
            assert_eq!(note(kind, "web.lua:7: another"), Cause, "{kind:?}");
        }
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
        history.note(then, Kind::Error, "a");
        assert!(history.next_start(then) <= then);
    }
}
