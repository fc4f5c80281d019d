//! Which places of the arena are free.
//!
//! Records of up to 64 values have a power of two of places, cut from blocks of
//! 64; longer ones have a multiple of 64. A freed record waits for a grace
//! period, then serves the next record of its size.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::SLOTS;
use crate::pages::{self, NoRoom};
use crate::sync::{Congested, Domain, Limbo};

/// A run of places: start and number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Run {
    pub(super) at: u32,
    pub(super) places: u32,
}

/// I1: every place below `reached` is in exactly one of: a record in use, `free`, `waiting`.
pub(super) struct Arena {
    /// Freed runs by size; those of at most 64 places by their exponent.
    free: [Vec<u32>; 7],
    free_long: BTreeMap<u32, Vec<u32>>,
    /// Replaced runs, and their places.
    waiting: Limbo<Run>,
    waiting_places: u32,
    /// The first place never used, and the limit.
    pub(super) reached: u32,
    limit: u32,
    /// Places of records in use.
    pub(super) live: u32,
    /// Why the last record had no room, where that was for memory.
    no_room: Option<NoRoom>,
}

impl Arena {
    /// Places from `first` (a multiple of 64) to `limit` are free.
    pub(super) fn new(domain: &Arc<Domain>, first: u32, limit: u32) -> Self {
        Arena {
            free: Default::default(),
            free_long: BTreeMap::new(),
            waiting: Limbo::new(domain, LIMIT),
            waiting_places: 0,
            reached: first.next_multiple_of(SLOTS as u32),
            limit,
            live: 0,
            no_room: None,
        }
    }

    /// Places that a record of `len` values takes.
    pub(super) fn places(len: usize) -> u32 {
        let len = len as u32;
        if len <= SLOTS as u32 { len.next_power_of_two() } else { len.next_multiple_of(64) }
    }

    /// Room for `len` values, aligned to their number up to 64; `None` when full,
    /// or when the machine has no memory for more ([`Arena::limit`]).
    pub(super) fn allocate(&mut self, len: usize) -> Option<Run> {
        let places = Self::places(len);
        let at = if places <= SLOTS as u32 {
            self.short(places.trailing_zeros() as usize)?
        } else {
            match self.long(places) {
                Some(run) => return Some(run),
                None => self.extend(places)?,
            }
        };
        self.live += places;
        Some(Run { at, places })
    }

    /// A run of 2^`class` places, cut from a larger one where there is none.
    fn short(&mut self, class: usize) -> Option<u32> {
        let at = (class..self.free.len()).find(|&c| !self.free[c].is_empty());
        let (mut from, at) = match at {
            Some(c) => (c, self.free[c].pop().expect("it is not empty")),
            None => (self.free.len() - 1, self.extend(SLOTS as u32)?),
        };
        while from > class {
            from -= 1;
            self.free[from].push(at + (1 << from)); // the upper half stays free
        }
        Some(at)
    }

    /// A freed run of `places` or up to a quarter more: else each of the many
    /// sizes of long records would keep runs of its own.
    fn long(&mut self, places: u32) -> Option<Run> {
        let mut fitting = self.free_long.range_mut(places..=places + places / 4);
        let (&places, runs) = fitting.find(|(_, runs)| !runs.is_empty())?;
        let at = runs.pop().expect("it is not empty");
        self.live += places;
        Some(Run { at, places })
    }

    fn extend(&mut self, places: u32) -> Option<u32> {
        let at = self.reached;
        let end = at.checked_add(places).filter(|&end| end <= self.limit);
        self.no_room = end.and_then(|_| pages::admit(places as usize * size_of::<u32>()).err());
        self.reached = end.filter(|_| self.no_room.is_none())?;
        Some(at)
    }

    /// Why [`Arena::allocate`] had nothing: memory, or else `full`.
    pub(super) fn limit(&self, full: impl FnOnce() -> String) -> String {
        self.no_room.map_or_else(full, |no_room| no_room.to_string())
    }

    /// States that the record at `run` was replaced.
    pub(super) fn retire(&mut self, run: Run) {
        self.live -= run.places;
        self.waiting_places += run.places;
        self.waiting.push(run);
    }

    /// Takes back what no reader can see any more.
    ///
    /// # Errors
    /// When readers hold up more than the limit.
    pub(super) fn reclaim(&mut self) -> Result<(), Congested> {
        if self.waiting_places > WAITING {
            let mut freed = Vec::new();
            self.waiting.drain(|run| freed.push(run));
            freed.into_iter().for_each(|run| self.free(run));
        }
        self.waiting.admit()
    }

    fn free(&mut self, run: Run) {
        self.waiting_places -= run.places;
        if run.places <= SLOTS as u32 {
            self.free[run.places.trailing_zeros() as usize].push(run.at);
        } else {
            self.free_long.entry(run.places).or_default().push(run.at);
        }
    }

    /// True when most of what was ever used lies idle: time to build anew.
    pub(super) fn sprawls(&self) -> bool {
        self.reached / 2 > self.live + SLACK
    }

    /// Heap bytes.
    pub(super) fn bytes(&self) -> usize {
        let short: usize = self.free.iter().map(Vec::capacity).sum();
        let long: usize = self.free_long.values().map(Vec::capacity).sum();
        (short + long) * 4 + self.waiting.len() * size_of::<Run>()
    }
}

/// Places that wait before the arena asks whether readers have passed.
const WAITING: u32 = 1 << 14;
/// Replaced records that may wait: more than a change of a /1 leaves behind.
const LIMIT: usize = 1 << 20;
/// Idle places that are never too many.
const SLACK: u32 = 1 << 21;
