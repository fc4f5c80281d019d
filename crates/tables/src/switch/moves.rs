//! Stations that change their port too often: a loop, or a forgery.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use lookup::exact::Key;

/// More moves than this within [`WINDOW`] and the station is held where it is.
const MOST: u32 = 5;
const WINDOW: Duration = Duration::from_secs(10);
/// For so long.
const HELD: Duration = Duration::from_secs(60);
/// Stations that are watched at once; a flood of moves must not fill memory.
const WATCHED: usize = 4096;

/// The watch over stations that have moved of late.
#[derive(Default)]
pub(super) struct Moves(HashMap<Key, Watch>);

struct Watch {
    since: Instant,
    moves: u32,
    held_until: Option<Instant>,
}

/// What to do about a move.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Ruling {
    Follow,
    /// It stays where it was; true for the first refusal.
    Hold(bool),
}

impl Moves {
    /// Notes a move of `key`.
    pub(super) fn rule(&mut self, key: Key, now: Instant) -> Ruling {
        if self.0.len() >= WATCHED && !self.0.contains_key(&key) {
            self.0.retain(|_, watch| !watch.is_over(now));
            if self.0.len() >= WATCHED {
                return Ruling::Follow;
            }
        }
        let fresh = || Watch { since: now, moves: 0, held_until: None };
        let watch = self.0.entry(key).or_insert_with(fresh);
        if watch.is_over(now) {
            *watch = fresh();
        }
        if watch.held_until.is_some() {
            return Ruling::Hold(false);
        }
        watch.moves += 1;
        if watch.moves > MOST {
            watch.held_until = Some(now + HELD);
            return Ruling::Hold(true);
        }
        Ruling::Follow
    }

    /// Stations that are held.
    pub(super) fn held(&self, now: Instant) -> Vec<Key> {
        let held = self.0.iter().filter(|(_, watch)| watch.held_until.is_some_and(|end| end > now));
        held.map(|(key, _)| *key).collect()
    }
}

impl Watch {
    fn is_over(&self, now: Instant) -> bool {
        match self.held_until {
            Some(end) => now >= end,
            None => now.saturating_duration_since(self.since) >= WINDOW,
        }
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
            assert_eq!(moves.rule(key, at(i)), Ruling::Follow);
        }
        assert_eq!(moves.rule(key, at(5)), Ruling::Hold(true));
        assert_eq!(moves.rule(key, at(64)), Ruling::Hold(false));
        assert_eq!(moves.held(at(64)), [key]);
        assert_eq!(moves.held(at(65)), []);
        assert_eq!(moves.rule(key, at(65)), Ruling::Follow);
    }

    #[test]
    fn a_station_that_moves_now_and_then_is_followed() {
        let (mut moves, start) = (Moves::default(), Instant::now());
        let key = Key::of([2, 0, 0, 0, 0, 1], 1);
        for i in 0..100 {
            let now = start + Duration::from_secs(3 * i);
            assert_eq!(moves.rule(key, now), Ruling::Follow, "{i}");
        }
    }

    #[test]
    fn a_flood_of_moves_takes_bounded_memory() {
        let (mut moves, now) = (Moves::default(), Instant::now());
        for i in 0..10 * WATCHED as u64 {
            moves.rule(Key::new(i, 1), now);
        }
        assert_eq!(moves.0.len(), WATCHED);
    }
}
