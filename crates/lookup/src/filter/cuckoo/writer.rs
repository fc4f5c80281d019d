//! What changes a cuckoo filter: insertions, the moves that make way for them, removals.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use super::{Cuckoo, Full, Layout, SLOTS, Spot};
use crate::pages::Pages;

/// The one thread that changes a filter.
pub struct CuckooWriter {
    filter: Arc<Cuckoo>,
    len: usize,
    most: usize,
    moves: u64,
}

/// A step of a path: what lies in `slot` of bucket `at` can go to the bucket of
/// the step before it in the path, or to a free lane.
#[derive(Clone, Copy)]
struct Step {
    at: u32,
    /// The step that would put something here, and the lane that it would leave.
    from: Option<(usize, usize)>,
}

impl CuckooWriter {
    /// A filter with room for at least `entries` fingerprints of `bits` (4 to 16),
    /// of which at most `load` percent are used.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn new(entries: usize, bits: u32, load: u8) -> io::Result<Self> {
        let buckets = entries.div_ceil(SLOTS).clamp(1, 1 << 32);
        let layout = Layout::new(bits);
        let words = Pages::zeroed(buckets.div_ceil(1 << layout.halves))?;
        let filter = Cuckoo {
            words,
            buckets: buckets as u64,
            layout,
            version: AtomicU64::new(0),
            stashed: AtomicU32::new(0),
            stash: Default::default(),
        };
        let most = buckets * SLOTS * usize::from(load.min(100)) / 100;
        Ok(CuckooWriter { filter: Arc::new(filter), len: 0, most: most.max(1), moves: 0 })
    }

    /// What the readers test.
    pub fn filter(&self) -> &Arc<Cuckoo> {
        &self.filter
    }

    /// Elements inserted and not removed.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Moves from bucket to bucket that insertions have made so far.
    pub fn moves(&self) -> u64 {
        self.moves
    }

    /// Adds an element; twice counts twice.
    ///
    /// # Errors
    /// When the load limit is reached, or there is no place; nothing has changed.
    pub fn insert(&mut self, hash: u64) -> Result<(), Full> {
        if self.len >= self.most {
            return Err(self.full());
        }
        let spot = self.filter.spot(hash);
        let placed = self.put(spot.at, spot.fingerprint) || self.put(spot.other, spot.fingerprint);
        if !placed && !self.make_way(spot) {
            self.put_aside(spot)?;
        }
        self.len += 1;
        Ok(())
    }

    /// Takes an element out that was inserted before; false if it is not there.
    pub fn remove(&mut self, hash: u64) -> bool {
        let filter = self.filter.clone();
        let spot = filter.spot(hash);
        let held = [spot.at, spot.other].into_iter().find_map(|at| {
            let slot = filter.layout.find(filter.bucket(at), spot.fingerprint)?;
            Some((at, slot))
        });
        let held = match held {
            Some((at, slot)) => {
                self.write(at, slot, 0);
                self.unstash();
                true
            }
            None => self.take_aside(spot),
        };
        self.len -= usize::from(held);
        held
    }

    /// Writes `fingerprint` into a free lane of bucket `at`, if there is one.
    fn put(&mut self, at: u32, fingerprint: u32) -> bool {
        let slot = self.filter.layout.find(self.filter.bucket(at), 0);
        slot.inspect(|&slot| self.write(at, slot, fingerprint)).is_some()
    }

    fn write(&mut self, at: u32, slot: usize, fingerprint: u32) {
        let layout = self.filter.layout;
        let cell = self.filter.word(at);
        let shift = 32 * (at & layout.halves) + layout.lane * slot as u32;
        let others = cell.load(Ordering::Relaxed) & !(((1 << layout.lane) - 1) << shift);
        cell.store(others | u64::from(fingerprint) << shift, Ordering::Release); // we alone write
    }

    /// Moves others, until there is a free lane in one of the two buckets.
    fn make_way(&mut self, spot: Spot) -> bool {
        let mut steps = vec![Step { at: spot.at, from: None }, Step { at: spot.other, from: None }];
        let mut next = 0;
        while next < steps.len() {
            let bucket = self.filter.bucket(steps[next].at);
            if let Some(free) = self.filter.layout.find(bucket, 0) {
                let (at, slot) = self.walk(&steps, next, free);
                self.write(at, slot, spot.fingerprint);
                return true;
            }
            if steps.len() < REACH {
                let around = steps[next].at;
                for slot in 0..SLOTS {
                    let inside = self.filter.layout.lane(bucket, slot);
                    let at = self.filter.other(around, inside);
                    if !on_path(&steps, next, at) {
                        steps.push(Step { at, from: Some((next, slot)) });
                    }
                }
            }
            next += 1;
        }
        false
    }

    /// Walks a path from its free end; the lane that is free in the end. No bucket
    /// is on it twice, so each lane still holds what the search saw.
    fn walk(&mut self, steps: &[Step], end: usize, free: usize) -> (u32, usize) {
        let (mut step, mut free) = (&steps[end], free);
        while let Some((before, slot)) = step.from {
            let source = steps[before].at;
            let moving = self.filter.layout.lane(self.filter.bucket(source), slot);
            self.moving(|writer| {
                writer.write(step.at, free, moving);
                writer.write(source, slot, 0);
            });
            self.moves += 1;
            (step, free) = (&steps[before], slot);
        }
        (step.at, free)
    }

    /// Does `change` while readers can see that something moves (I2).
    pub(crate) fn moving(&mut self, change: impl FnOnce(&mut Self)) {
        let version = self.filter.version.load(Ordering::Relaxed);
        self.filter.version.store(version + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        change(self);
        self.filter.version.store(version + 2, Ordering::Release);
    }

    fn put_aside(&mut self, spot: Spot) -> Result<(), Full> {
        let filter = self.filter.clone();
        let free = filter.stash.iter().find(|place| place.load(Ordering::Relaxed) == 0);
        let free = free.ok_or_else(|| self.full())?;
        free.store(spot.stashed(), Ordering::Release);
        filter.stashed.fetch_add(1, Ordering::Release); // I3 a moment late: not yet inserted
        Ok(())
    }

    fn take_aside(&mut self, spot: Spot) -> bool {
        let wanted = spot.stashed();
        let mut places = self.filter.stash.iter();
        let held = places.find(|place| place.load(Ordering::Relaxed) == wanted);
        let Some(place) = held else { return false };
        place.store(0, Ordering::Release);
        self.filter.stashed.fetch_sub(1, Ordering::Release);
        true
    }

    /// Takes back from the stash what fits when a lane has become free.
    fn unstash(&mut self) {
        if self.filter.stashed.load(Ordering::Relaxed) == 0 {
            return;
        }
        let filter = self.filter.clone();
        for place in &filter.stash {
            let held = place.load(Ordering::Relaxed);
            if held == 0 {
                continue;
            }
            let (at, fingerprint) = ((held >> 16) as u32, held as u32 & 0xffff);
            let other = filter.other(at, fingerprint);
            self.moving(|writer| {
                if writer.put(at, fingerprint) || writer.put(other, fingerprint) {
                    place.store(0, Ordering::Release);
                    filter.stashed.fetch_sub(1, Ordering::Release);
                }
            });
        }
    }

    fn full(&self) -> Full {
        Full { load: (self.len * 100 / self.filter.entries()) as u8 }
    }
}

/// True when bucket `at` is `step`'s, or on the path that led there.
fn on_path(steps: &[Step], step: usize, at: u32) -> bool {
    let before = |&step: &usize| steps[step].from.map(|(before, _)| before);
    std::iter::successors(Some(step), before).any(|step| steps[step].at == at)
}

/// Buckets that the search for a path looks at.
const REACH: usize = 1024;
