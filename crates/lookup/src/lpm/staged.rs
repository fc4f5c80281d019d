//! Blocks of an arena as one update takes and gives them up: for engines that
//! write a new version beside the old one and then turn one reference.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use super::space::Space;
use crate::sync::{Congested, Domain};

/// A [`Space`] whose changes since the last commit can be taken back.
///
/// I1: `fresh` are blocks that no reader has seen; `stale` are blocks that no
/// reader will find once the update is published.
pub(super) struct Staged {
    space: Space,
    fresh: Vec<Block>,
    stale: Vec<Block>,
}

/// Where, and how many units.
type Block = (u32, u32);

/// The arena is full.
#[derive(Debug)]
pub(super) struct Full;

impl Staged {
    /// An untouched arena of `units`; of its blocks `waiting` may wait for readers.
    pub(super) fn new(domain: &Arc<Domain>, units: u32, waiting: usize) -> Self {
        let space = Space::new(domain, units, waiting);
        Staged { space, fresh: Vec::new(), stale: Vec::new() }
    }

    /// Units that have ever been used; grows with this.
    pub(super) fn touched(&self) -> Arc<AtomicU32> {
        self.space.touched()
    }

    /// A block for the version under construction; of no units it is at 0.
    pub(super) fn take(&mut self, units: u32) -> Result<u32, Full> {
        if units == 0 {
            return Ok(0);
        }
        let at = self.space.take(units).ok_or(Full)?;
        self.fresh.push((at, units));
        Ok(at)
    }

    /// Gives up a block of the version that is read now.
    pub(super) fn give_up(&mut self, at: u32, units: u32) {
        if units > 0 {
            self.stale.push((at, units));
        }
    }

    /// To be called when the new version is published.
    pub(super) fn commit(&mut self) {
        self.fresh.clear();
        for (at, units) in self.stale.drain(..) {
            self.space.retire(at, units);
        }
    }

    /// To be called when it will not be.
    pub(super) fn abort(&mut self) {
        self.stale.clear();
        for (at, units) in self.fresh.drain(..) {
            self.space.untake(at, units);
        }
    }

    /// Says whether the writer may go on; to be asked before an update.
    pub(super) fn admit(&mut self) -> Result<(), Congested> {
        self.space.admit()
    }

    /// As [`Space::is_tight`].
    pub(super) fn is_tight(&self) -> bool {
        self.space.is_tight()
    }

    /// As [`Space::lacks_memory`].
    pub(super) fn lacks_memory(&self) -> bool {
        self.space.lacks_memory()
    }

    /// Why [`Staged::take`] had nothing: memory, or else `full`.
    pub(super) fn limit(&self, full: impl FnOnce() -> String) -> String {
        self.space.limit(full)
    }

    /// Heap bytes.
    pub(super) fn bytes(&self) -> usize {
        let blocks = self.fresh.capacity() + self.stale.capacity();
        self.space.bytes() + blocks * size_of::<Block>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_aborted_can_be_taken_again() {
        let mut staged = Staged::new(&Domain::new(), 10, 100);
        let kept = staged.take(4).unwrap();
        staged.commit();
        staged.give_up(kept, 4);
        let dropped = staged.take(6).unwrap();
        assert!(staged.take(1).is_err());
        staged.abort();
        assert_eq!(staged.take(6).unwrap(), dropped);
        assert!(staged.take(4).is_err(), "the block given up is in use still");
    }

    #[test]
    fn what_is_given_up_comes_back_after_commit() {
        let domain = Domain::new();
        let mut staged = Staged::new(&domain, 200, 100);
        assert_eq!(staged.take(0).unwrap(), 0);
        for _ in 0..1000 {
            let at = staged.take(1).unwrap();
            staged.give_up(at, 1);
            staged.commit();
            staged.admit().unwrap();
            domain.reclaim();
        }
    }
}
