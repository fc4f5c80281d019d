//! A hierarchical timing wheel: many timers for one node.
//!
//! ```text
//!  time in granules:  …│ 6 bits │ 6 bits │ 6 bits │   a digit names a place of its level
//!  level 0   [ ][ ][x][ ]…64     one granule a place: what is there runs out together
//!  level 1   [ ][y][ ][ ]…64     64 granules a place: goes down a level when its time begins
//!  level 2   [ ][ ][ ][z]…64     4,096 …                              11 levels hold any time
//!  entries   [due │ next │ previous │ generation │ value]…   lists through the places, and the free list
//! ```
//!
//! | operation | cost                                                                         |
//! |-----------|------------------------------------------------------------------------------|
//! | `insert`  | one entry, the last of its place                                             |
//! | `cancel`  | one entry and its neighbours                                                 |
//! | `advance` | a step: one entry that runs out or goes down a level; at most `steps`.       |
//! |           | An entry takes at most 11 in all                                             |
//! | memory    | 24 bytes and the value an entry, 5.6 KiB of places; all of it when it is made |
//!
//! A timer never expires early. It expires late by less than a granule, plus the time until
//! its owner calls `advance`.
//!
//! Source: G. Varghese, T. Lauck, "Hashed and hierarchical timing wheels", 1987, scheme 7.
//! We differ: the highest digit in which a time differs from the wheel's selects the place,
//! so no level has a hand of its own; and the work may stop after any step.
//!
//! Invariants: W1: an entry is in the free list or in the list of exactly one place.
//! W2: bit `p` of `full[l]` is set if and only if place `p` of level `l` has entries.
//! W3: an entry at level `l` agrees with `time` in all digits above `l`, and its digit
//! `l` is not below `time`'s.

use crate::tick::Due;

/// Timers that carry a `T` each.
pub struct Wheel<T> {
    entries: Box<[Entry<T>]>,
    places: Box<[Place]>,
    full: [u64; LEVELS],
    /// The first free entry.
    free: u32,
    running: usize,
    /// Granules up to which all has run out or is waiting in the first place.
    time: u64,
    /// A granule is `1 << grain` ticks.
    grain: u32,
}

/// A running timer, to cancel it by. One that has run out is known as such, even
/// where its entry serves another.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Timer {
    entry: u32,
    generation: u32,
}

struct Entry<T> {
    /// In granules.
    due: u64,
    next: u32,
    previous: u32,
    generation: u32,
    /// Index of its place.
    place: u16,
    /// `None` in the free list.
    value: Option<T>,
}

/// Ends of a list of entries.
#[derive(Clone, Copy)]
struct Place {
    first: u32,
    last: u32,
}

impl<T> Wheel<T> {
    /// A wheel with room for `capacity` timers, with granules of `1 << grain` ticks, that
    /// starts at the time `now`.
    ///
    /// # Panics
    /// When `capacity` is 2³² − 1 or more, or `grain` exceeds 63.
    pub fn new(capacity: usize, grain: u32, now: u64) -> Wheel<T> {
        assert!(capacity < NONE as usize, "{capacity} timers exceed 2^32 - 2");
        assert!(grain < 64, "granules of 2^{grain} ticks");
        let free = |i: usize| Entry {
            due: 0,
            next: if i + 1 == capacity { NONE } else { i as u32 + 1 },
            previous: NONE,
            generation: 0,
            place: 0,
            value: None,
        };
        Wheel {
            entries: (0..capacity).map(free).collect(),
            places: vec![Place { first: NONE, last: NONE }; LEVELS * PLACES].into_boxed_slice(),
            full: [0; LEVELS],
            free: if capacity == 0 { NONE } else { 0 },
            running: 0,
            time: now >> grain,
            grain,
        }
    }

    /// Starts a timer that runs out at `due`; one in the past at the next
    /// [`Wheel::advance`].
    ///
    /// # Errors
    /// The value, when all timers are running.
    pub fn insert(&mut self, due: u64, value: T) -> Result<Timer, T> {
        let Some(entry) = self.entries.get_mut(self.free as usize) else { return Err(value) };
        let at = std::mem::replace(&mut self.free, entry.next);
        // Rounded up: not before its time.
        entry.due = (due >> self.grain) + u64::from(due & ((1 << self.grain) - 1) != 0);
        entry.value = Some(value);
        let timer = Timer { entry: at, generation: entry.generation };
        self.running += 1;
        self.link(at);
        Ok(timer)
    }

    /// Stops a timer and returns its value; `None` if it has run out or was stopped.
    pub fn cancel(&mut self, timer: Timer) -> Option<T> {
        let entry = self.entries.get(timer.entry as usize)?;
        if entry.generation != timer.generation || entry.value.is_none() {
            return None;
        }
        self.unlink(timer.entry);
        self.release(timer.entry)
    }

    /// Lets time pass up to `now`: calls `run_out` with what has run out, earlier
    /// granules first, in at most `steps` steps. Returns when to call it again: the
    /// next time at which there is something to do, [`Due::NOW`] where steps were
    /// lacking, [`Due::NEVER`] where no timer runs.
    pub fn advance(&mut self, now: u64, steps: usize, mut run_out: impl FnMut(T)) -> Due {
        let now = now >> self.grain;
        for _ in 0..steps {
            let Some((place, begins)) = self.next() else { break };
            if begins > now {
                break;
            }
            self.time = begins.max(self.time);
            let at = self.places[place].first;
            self.unlink(at);
            if self.entries[at as usize].due <= self.time {
                if let Some(value) = self.release(at) {
                    run_out(value);
                }
            } else {
                self.link(at);
            }
        }
        match self.next() {
            None => {
                self.time = now.max(self.time);
                Due::NEVER
            }
            Some((_, begins)) if begins <= now => Due::NOW,
            Some((_, begins)) => {
                self.time = now.max(self.time);
                Due::at(begins.saturating_mul(1 << self.grain))
            }
        }
    }

    /// Timers that run.
    pub fn len(&self) -> usize {
        self.running
    }

    /// True when no timer runs.
    pub fn is_empty(&self) -> bool {
        self.running == 0
    }

    /// Most timers that can run.
    pub fn capacity(&self) -> usize {
        self.entries.len()
    }

    /// The next place with entries, and the granule at which it begins.
    ///
    /// By W3 what is at a lower level is not after what is higher, except in the place
    /// of `time` itself: there a level above 0 holds only what was left off, which
    /// goes first.
    fn next(&self) -> Option<(usize, u64)> {
        let mut found = None;
        for level in 0..LEVELS {
            let digit = self.time >> (level * BITS) & MASK;
            let ahead = self.full[level] >> digit << digit;
            if ahead == 0 {
                continue;
            }
            let place = u64::from(ahead.trailing_zeros());
            let above = (level + 1) * BITS;
            let base = if above < 64 { self.time >> above << above } else { 0 };
            // W3: not before `time`, whose own place began earlier.
            let begins = (base | place << (level * BITS)).max(self.time);
            if found.is_none_or(|(_, earliest)| begins <= earliest) {
                found = Some((level * PLACES + place as usize, begins));
            }
        }
        found
    }

    /// Puts an entry at the end of the list of its place.
    fn link(&mut self, at: u32) {
        let due = self.entries[at as usize].due.max(self.time);
        let highest = 63 - (due ^ self.time | 1).leading_zeros() as usize;
        let level = highest / BITS;
        let digit = (due >> (level * BITS) & MASK) as usize;
        let index = level * PLACES + digit;
        let place = &mut self.places[index];
        let last = std::mem::replace(&mut place.last, at);
        match self.entries.get_mut(last as usize) {
            Some(last) => last.next = at,
            None => place.first = at,
        }
        let entry = &mut self.entries[at as usize];
        (entry.previous, entry.next, entry.place) = (last, NONE, index as u16);
        self.full[level] |= 1 << digit;
    }

    /// Takes an entry out of the list of its place.
    fn unlink(&mut self, at: u32) {
        let Entry { previous, next, place, .. } = self.entries[at as usize];
        let index = usize::from(place);
        match self.entries.get_mut(previous as usize) {
            Some(previous) => previous.next = next,
            None => self.places[index].first = next,
        }
        match self.entries.get_mut(next as usize) {
            Some(next) => next.previous = previous,
            None => self.places[index].last = previous,
        }
        if self.places[index].first == NONE {
            self.full[index / PLACES] &= !(1 << (index % PLACES));
        }
    }

    /// Gives an unlinked entry to the free list.
    fn release(&mut self, at: u32) -> Option<T> {
        let entry = &mut self.entries[at as usize];
        entry.generation = entry.generation.wrapping_add(1);
        entry.next = std::mem::replace(&mut self.free, at);
        self.running -= 1;
        entry.value.take()
    }
}

/// In the place of an index: no entry.
const NONE: u32 = u32::MAX;
const BITS: usize = 6;
const PLACES: usize = 1 << BITS;
const MASK: u64 = PLACES as u64 - 1;
/// So many digits has any time.
const LEVELS: usize = 64_usize.div_ceil(BITS);

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Runs until `now`, in calls of `steps`; what ran out, in order.
    fn run(wheel: &mut Wheel<u64>, now: u64, steps: usize) -> (Vec<u64>, Due) {
        let mut out = Vec::new();
        loop {
            let before = out.len();
            let due = wheel.advance(now, steps, |value| out.push(value));
            assert!(out.len() - before <= steps);
            if due != Due::NOW {
                return (out, due);
            }
        }
    }

    #[test]
    fn timers_run_out_in_order_and_not_early() {
        let mut wheel = Wheel::new(4, 3, 1000);
        for due in [1003, 5_000_000, 1100, 900] {
            wheel.insert(due, due).unwrap();
        }
        assert_eq!(wheel.insert(1, 1), Err(1));
        assert_eq!(run(&mut wheel, 1000, 9).0, [900]);
        assert_eq!(run(&mut wheel, 1007, 9), (vec![], Due::at(1008)));
        assert_eq!(run(&mut wheel, 1008, 9).0, [1003]);
        assert_eq!(run(&mut wheel, 1 << 40, 9), (vec![1100, 5_000_000], Due::NEVER));
        assert!(wheel.is_empty() && wheel.capacity() == 4);
    }

    #[test]
    fn a_timer_is_cancelled_once_and_not_after_it_ran_out() {
        let mut wheel = Wheel::new(1, 0, 0);
        let first = wheel.insert(5, 1).unwrap();
        assert_eq!((wheel.cancel(first), wheel.cancel(first), wheel.len()), (Some(1), None, 0));
        let second = wheel.insert(5, 2).unwrap();
        assert_eq!(run(&mut wheel, 5, 1).0, [2]);
        let third = wheel.insert(9, 3).unwrap();
        assert_eq!([first, second, third].map(|timer| wheel.cancel(timer)), [None, None, Some(3)]);
    }

    #[test]
    fn the_ends_of_time_are_times_too() {
        let mut wheel = Wheel::new(3, 0, u64::MAX - 100);
        for due in [u64::MAX, 0, u64::MAX - 1] {
            wheel.insert(due, due).unwrap();
        }
        assert_eq!(run(&mut wheel, u64::MAX - 1, 9).0, [0, u64::MAX - 1]);
        assert_eq!(run(&mut wheel, u64::MAX, 9).0, [u64::MAX]);
        let mut coarse = Wheel::new(1, 63, 0);
        coarse.insert(u64::MAX, 1).unwrap();
        assert_eq!(run(&mut coarse, u64::MAX, 9), (vec![], Due::NEVER.min(Due::at(u64::MAX))));
        assert!(Wheel::<()>::new(0, 0, 0).insert(0, ()).is_err());
    }

    #[test]
    fn an_entry_takes_few_steps() {
        let mut wheel = Wheel::new(64, 0, 0);
        for i in 0..64 {
            wheel.insert(i * 1_000_003, i).unwrap();
        }
        let (mut now, mut steps) = (0, 0);
        loop {
            let due = wheel.advance(now, 1, |_| {});
            if due == Due::NEVER {
                break;
            }
            now = now.max(due.ticks());
            steps += 1;
        }
        assert!(steps < 64 * 6, "{steps}");
    }

    #[derive(Clone, Debug)]
    enum Op {
        Insert(u64),
        Cancel(usize),
        Advance(u64, usize),
        /// One call that may leave off, then others go on.
        Partly(u64, usize),
    }

    fn ops() -> impl Strategy<Value = Vec<Op>> {
        let span =
            prop_oneof![0..70_u64, 0..5000_u64, 0..1_u64 << 20, any::<u64>().prop_map(|t| t >> 1)];
        let op = prop_oneof![
            4 => span.clone().prop_map(Op::Insert),
            1 => any::<usize>().prop_map(Op::Cancel),
            2 => (span.clone(), 1..20_usize).prop_map(|(by, steps)| Op::Advance(by, steps)),
            2 => (0..3000_u64, 1..4_usize).prop_map(|(by, steps)| Op::Partly(by, steps)),
        ];
        proptest::collection::vec(op, 0..120)
    }

    proptest! {
        #[test]
        fn it_is_a_sorted_map(ops in ops(), grain in 0..8_u32, start in any::<u64>().prop_map(|t| t >> 2)) {
            let capacity = 32;
            let mut wheel = Wheel::new(capacity, grain, start);
            let mut model = BTreeMap::new(); // by granule and number
            let mut timers = Vec::new();
            let (mut now, mut number) = (start, 0);
            for op in ops {
                match op {
                    Op::Insert(after) => {
                        let due = now.saturating_add(after);
                        let granule = due.div_ceil(1 << grain);
                        match wheel.insert(due, (granule, number)) {
                            Ok(timer) => {
                                model.insert((granule, number), timer);
                                timers.push((timer, (granule, number)));
                            }
                            Err(_) => prop_assert_eq!(model.len(), capacity),
                        }
                        number += 1;
                    }
                    Op::Cancel(which) => {
                        if !timers.is_empty() {
                            let (timer, key) = timers[which % timers.len()];
                            let there = model.remove(&key).map(|_| key);
                            prop_assert_eq!(wheel.cancel(timer), there);
                        }
                    }
                    Op::Advance(by, steps) | Op::Partly(by, steps) => {
                        now = now.saturating_add(by);
                        let passed = now >> grain;
                        let all = matches!(op, Op::Advance(..));
                        let mut out = Vec::new();
                        let mut due;
                        loop {
                            let before = out.len();
                            due = wheel.advance(now, steps, |key| out.push(key));
                            prop_assert!(out.len() - before <= steps);
                            if !all || due != Due::NOW {
                                break;
                            }
                        }
                        for key in &out {
                            prop_assert!(key.0 <= passed, "early: {:?} at {}", key, passed);
                            prop_assert!(model.remove(key).is_some(), "twice: {:?}", key);
                        }
                        prop_assert!(out.is_sorted_by_key(|key| key.0) || !all);
                        let first = model.keys().next().map(|key| key.0);
                        match first {
                            None => prop_assert_eq!(due, Due::NEVER),
                            Some(first) if due == Due::NOW => prop_assert!(!all || first > passed),
                            Some(first) => {
                                // All that was due has run out, and it wakes in time.
                                prop_assert!(first > passed, "late: {} at {}", first, passed);
                                prop_assert!(due.ticks() >> grain <= first);
                                prop_assert!(due.ticks() > now || due == Due::NEVER);
                            }
                        }
                    }
                }
                prop_assert_eq!(wheel.len(), model.len());
            }
        }
    }
}
