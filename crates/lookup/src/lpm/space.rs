//! Where in an arena blocks lie: for engines that update in place.
//!
//! The arena itself is an array of atomics that the readers share; this is the
//! writer's account of it. Blocks come in size classes, four to a doubling, so
//! that a block fits the next of its class; what a reader may still hold waits
//! in a [`Limbo`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::pages::{self, NoRoom};
use crate::sync::{Congested, Domain, Limbo};

/// Free and used blocks of an arena, counted in units of the engine's choice.
///
/// I1: a unit is free (in `free`), waiting (in `limbo`), in use (the engine
/// knows), or untouched (at or after `end`); never two of these.
pub struct Space {
    units: u32,
    /// Shared with the table, which reports how much memory it has touched.
    end: Arc<AtomicU32>,
    /// By class, then last in first out.
    free: Vec<Vec<u32>>,
    limbo: Limbo<Block>,
    /// Units in `limbo`.
    waiting: u32,
    /// Why the last block was not to be had, where that was for memory.
    no_room: Option<NoRoom>,
}

#[derive(Clone, Copy)]
struct Block {
    at: u32,
    class: u32,
}

impl Space {
    /// An untouched arena of `units`; of its blocks `waiting` may wait for readers.
    pub fn new(domain: &Arc<Domain>, units: u32, waiting: usize) -> Self {
        let limbo = Limbo::new(domain, waiting);
        let end = Arc::new(AtomicU32::new(0));
        Space { units, end, free: Vec::new(), limbo, waiting: 0, no_room: None }
    }

    /// Units that have ever been used; grows with this.
    pub fn touched(&self) -> Arc<AtomicU32> {
        self.end.clone()
    }

    /// A block of at least `units`; `None` when the arena is full, or the machine
    /// has no memory for it to grow: [`Space::limit`] says which.
    pub fn take(&mut self, units: u32) -> Option<u32> {
        let class = class_of(units);
        if self.free.len() <= class as usize {
            self.free.resize_with(class as usize + 1, Vec::new);
        }
        if self.free[class as usize].is_empty() && self.many_wait() {
            self.drain();
        }
        if let Some(at) = self.free[class as usize].pop() {
            return Some(at);
        }
        let at = self.end.load(Ordering::Relaxed); // we alone write
        let size = size_of_class(class);
        let end = at.checked_add(size).filter(|&end| end <= self.units);
        self.no_room = end.and_then(|_| pages::admit(size as usize * UNIT_BYTES).err());
        let end = end.filter(|_| self.no_room.is_none())?;
        self.end.store(end, Ordering::Relaxed);
        Some(at)
    }

    /// True where the last block was not to be had for lack of memory.
    pub fn lacks_memory(&self) -> bool {
        self.no_room.is_some()
    }

    /// True where more than three quarters were ever used: a table that is just built so is
    /// soon full.
    pub fn is_tight(&self) -> bool {
        self.end.load(Ordering::Relaxed) > self.units / 4 * 3
    }

    /// Why [`Space::take`] had nothing: memory, or else `full`.
    pub fn limit(&self, full: impl FnOnce() -> String) -> String {
        self.no_room.map_or_else(full, |no_room| no_room.to_string())
    }

    /// Takes back a block of `units` at `at` that no reader has ever seen.
    pub fn untake(&mut self, at: u32, units: u32) {
        self.free[class_of(units) as usize].push(at);
    }

    /// Takes back a block that no new reader can find.
    pub fn retire(&mut self, at: u32, units: u32) {
        let class = class_of(units);
        self.waiting += size_of_class(class);
        self.limbo.push(Block { at, class });
    }

    /// Blocks of `units` that [`Space::take`] has without growing.
    pub fn spare(&self, units: u32) -> usize {
        self.free.get(class_of(units) as usize).map_or(0, Vec::len)
    }

    /// Says whether the writer may go on; to be asked before an update.
    ///
    /// # Errors
    /// When too many blocks wait for readers.
    pub fn admit(&mut self) -> Result<(), Congested> {
        if self.many_wait() {
            self.drain();
        }
        self.limbo.admit()
    }

    /// Heap bytes.
    pub fn bytes(&self) -> usize {
        let free: usize = self.free.iter().map(|class| class.capacity() * size_of::<u32>()).sum();
        free + self.limbo.len() * size_of::<Block>()
    }

    fn many_wait(&self) -> bool {
        self.limbo.len() >= DRAIN_AT || self.waiting >= DRAIN_AT_UNITS
    }

    fn drain(&mut self) {
        let Space { free, waiting, .. } = self;
        self.limbo.drain(|block| {
            *waiting -= size_of_class(block.class);
            free[block.class as usize].push(block.at);
        });
    }
}

/// The smallest class whose blocks have `units`.
fn class_of(units: u32) -> u32 {
    let last = units.max(1) - 1;
    if last < 4 {
        return last;
    }
    // Two bits behind the leading one, of the last unit.
    let log = last.ilog2();
    4 * (log - 1) + (last >> (log - 2) & 3)
}

/// The units of a block.
fn size_of_class(class: u32) -> u32 {
    if class < 4 {
        return class + 1;
    }
    let log = class / 4 + 1;
    ((4 + class % 4 + 1) as u64 * (1 << (log - 2))) as u32
}

/// What a unit is taken for when memory is asked for: a line; no engine has larger
/// ones, and for smaller ones the machine is asked a little too often.
const UNIT_BYTES: usize = 64;

/// Waiting blocks at which the writer looks whether some may be used again: one
/// look at the readers' slots for so many blocks.
const DRAIN_AT: usize = 64;

/// The same of waiting units: 64 large blocks would be more than a small table. A look costs
/// little beside writing so many.
const DRAIN_AT_UNITS: u32 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_fits_and_wastes_a_fifth_at_most() {
        for units in 1..100_000 {
            let class = class_of(units);
            let size = size_of_class(class);
            assert!(size >= units && size - units <= units / 4, "{units}: {size}");
            assert!(class == 0 || size_of_class(class - 1) < units, "{units}");
        }
    }

    #[test]
    fn blocks_come_back_after_the_grace_period_and_do_not_overlap() {
        let domain = Domain::new();
        let mut reader = domain.register("reader");
        let mut space = Space::new(&domain, 1000, 1 << 20);
        let mut held = Vec::new();
        while let Some(at) = space.take(3) {
            held.push(at);
        }
        assert_eq!(held.len(), 333);
        held.iter().for_each(|&at| space.retire(at, 3));
        assert_eq!(space.take(3), None);
        reader.quiesce();
        let mut again: Vec<_> = std::iter::from_fn(|| space.take(3)).collect();
        again.sort_unstable();
        assert_eq!(again, held);
    }

    #[test]
    fn growth_ends_where_memory_does_and_freed_blocks_serve_on() {
        let domain = Domain::new();
        let mut space = Space::new(&domain, 1 << 30, 1 << 20);
        crate::pages::PRETENDED.set(Some(0));
        let held: Vec<_> = (0..2 << 20).map_while(|_| space.take(1)).collect();
        assert!(held.len() <= 2 * (crate::pages::STEP as usize / UNIT_BYTES), "{}", held.len());
        assert!(space.limit(|| "full".into()).starts_with("too little memory"));
        held.iter().for_each(|&at| space.retire(at, 1));
        held.iter().for_each(|_| assert!(space.take(1).is_some()));
        crate::pages::PRETENDED.set(None);
    }

    #[test]
    fn large_blocks_do_not_wait_for_many() {
        let mut space = Space::new(&Domain::new(), 1 << 20, 1 << 20);
        for _ in 0..100 {
            let at = space.take(1000).expect("there is room");
            space.retire(at, 1000);
            space.admit().expect("nobody reads");
        }
        let touched = space.touched().load(Ordering::Relaxed);
        assert!(touched <= 3 * 1024, "{touched} for one block");
    }

    #[test]
    fn the_writer_is_refused_while_too_much_waits() {
        let domain = Domain::new();
        let reader = domain.register("reader");
        let mut space = Space::new(&domain, 1000, 100);
        for _ in 0..=100 {
            let at = space.take(1).unwrap();
            space.retire(at, 1);
        }
        assert!(space.admit().is_err());
        drop(reader);
        assert!(space.admit().is_ok());
    }
}
