//! Stations that change their port too often: a loop, or a forgery.
//!
//! ```text
//!  moves within 10 s   1 … 5 followed   6: back to where it was before the first, for a minute
//!                                          (flooded, where that is not known)
//! ```
//!
//! Any host can send frames in another's name, so the newest claim is the last to be
//! believed. Where a station was before counts only if it had been there for a minute:
//! who is patient moves it first and has it flap later.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use lookup::exact::Key;

/// More moves than this within [`WINDOW`] and the station is held.
const MOST: u32 = 5;
const WINDOW: Duration = Duration::from_secs(10);
/// For so long. Also: who has not moved for so long is at home.
const HELD: Duration = Duration::from_secs(60);
/// Stations that are watched at once; a flood of moves must not fill memory.
const WATCHED: usize = 4096;
/// Between two searches for watches that are over, while there is no room for more.
const TIDY: Duration = Duration::from_millis(100);

/// The watch over stations that have moved of late.
#[derive(Default)]
pub(super) struct Moves {
    watched: HashMap<Key, Watch>,
    tidied: Option<Instant>,
}

struct Watch {
    /// Where it was before it moved; `None` where it had not been there for long.
    home: Option<u16>,
    since: Instant,
    /// When somebody last claimed that it had moved.
    last: Instant,
    moves: u32,
    held_until: Option<Instant>,
}

/// What to do about a move.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Ruling {
    Follow,
    /// The first refusal: it goes back to this port; `None`: to none, it is flooded.
    Recall(Option<u16>),
    /// It stays where it is.
    Hold,
}

impl Moves {
    /// Notes a move of `key`, which was at port `from`.
    pub(super) fn rule(&mut self, key: Key, from: u16, now: Instant) -> Ruling {
        if !self.watched.contains_key(&key) && !self.has_room(now) {
            return Ruling::Follow;
        }
        let fresh = |home| Watch { home, since: now, last: now, moves: 0, held_until: None };
        let watch = self.watched.entry(key).or_insert_with(|| fresh(Some(from)));
        if watch.is_over(now) {
            let known = watch.is_settled(now) || watch.home == Some(from);
            *watch = fresh(known.then_some(from));
        }
        watch.last = now;
        if watch.held_until.is_some() {
            return Ruling::Hold;
        }
        watch.moves += 1;
        if watch.moves > MOST {
            watch.held_until = Some(now + HELD);
            return Ruling::Recall(watch.home);
        }
        Ruling::Follow
    }

    /// May a station that is not in the table be learnt at this port? Not while it is
    /// held, but at home.
    pub(super) fn admits(&self, key: Key, port: u16, now: Instant) -> bool {
        self.watched.get(&key).is_none_or(|watch| !watch.holds(now) || watch.home == Some(port))
    }

    /// Stations that are held.
    pub(super) fn held(&self, now: Instant) -> Vec<Key> {
        self.watched.iter().filter(|(_, watch)| watch.holds(now)).map(|(key, _)| *key).collect()
    }

    /// Is there room for one more? Makes some now and then.
    fn has_room(&mut self, now: Instant) -> bool {
        if self.watched.len() < WATCHED {
            return true;
        }
        if self.tidied.is_some_and(|then| now.saturating_duration_since(then) < TIDY) {
            return false;
        }
        self.tidied = Some(now);
        self.watched.retain(|_, watch| !(watch.is_over(now) && watch.is_settled(now)));
        if self.watched.len() >= WATCHED {
            self.watched.retain(|_, watch| !watch.is_over(now));
        }
        self.watched.len() < WATCHED
    }
}

impl Watch {
    fn is_over(&self, now: Instant) -> bool {
        match self.held_until {
            Some(end) => now >= end,
            None => now.saturating_duration_since(self.since) >= WINDOW,
        }
    }

    /// Has it been where it is for long?
    fn is_settled(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.last) >= HELD
    }

    fn holds(&self, now: Instant) -> bool {
        self.held_until.is_some_and(|end| now < end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flapping_station_is_held_for_a_minute() {
        let (mut moves, start) = (Moves::default(), Instant::now());
        let key = Key::of([2, 0, 0, 0, 0, 1], 1);
        let at = |seconds| start + Duration::from_secs(seconds);
        for i in 0..5 {
            assert_eq!(moves.rule(key, 3 + i as u16 % 2, at(i)), Ruling::Follow);
        }
        assert_eq!(moves.rule(key, 4, at(5)), Ruling::Recall(Some(3)));
        assert_eq!(moves.rule(key, 3, at(64)), Ruling::Hold);
        assert_eq!(moves.held(at(64)), [key]);
        let admitted = |port, second| moves.admits(key, port, at(second));
        assert_eq!([admitted(3, 64), admitted(4, 64), admitted(4, 65)], [true, false, true]);
        assert_eq!(moves.held(at(65)), []);
        assert_eq!(moves.rule(key, 3, at(65)), Ruling::Follow);
        for _ in 0..4 {
            moves.rule(key, 4, at(65));
        }
        assert_eq!(moves.rule(key, 4, at(65)), Ruling::Recall(Some(3)), "home stays home");
    }

    #[test]
    fn where_a_station_was_for_less_than_a_minute_is_not_its_home() {
        for (pause, home) in [(9, Some(0)), (11, None), (59, None), (60, Some(1))] {
            let (mut moves, start) = (Moves::default(), Instant::now());
            let key = Key::of([2, 0, 0, 0, 0, 1], 1);
            assert_eq!(moves.rule(key, 0, start), Ruling::Follow);
            let later = start + Duration::from_secs(pause);
            let mut rulings = (0..6).map(|i| moves.rule(key, 1 - i % 2, later));
            let recalled = rulings.find(|ruling| *ruling != Ruling::Follow);
            assert_eq!(recalled, Some(Ruling::Recall(home)), "after {pause} s");
        }
    }

    #[test]
    fn a_station_that_moves_now_and_then_is_followed() {
        let (mut moves, start) = (Moves::default(), Instant::now());
        let key = Key::of([2, 0, 0, 0, 0, 1], 1);
        for i in 0..100 {
            let now = start + Duration::from_secs(3 * i);
            assert_eq!(moves.rule(key, i as u16 % 2, now), Ruling::Follow, "{i}");
        }
    }

    #[test]
    fn a_flood_of_moves_takes_bounded_memory() {
        let (mut moves, now) = (Moves::default(), Instant::now());
        for i in 0..10 * WATCHED as u64 {
            moves.rule(Key::new(i, 1), 0, now);
        }
        assert_eq!(moves.watched.len(), WATCHED);
        let later = now + WINDOW;
        moves.rule(Key::new(u64::MAX >> 16, 1), 0, later);
        assert_eq!(moves.watched.len(), 1, "those that are over make room");
    }
}
