//! Things that stay where they are: a pool with a list of those that are free.

use super::{Flow, Page};
use crate::exact::Card;
use crate::lpm::Refusal;
use crate::pages::{Pages, Zeroed};

/// What a pool holds, with room for a link while it is free.
pub(super) trait Pooled: Zeroed {
    /// What was given to [`Pooled::unlink`].
    fn link(&self) -> u32;
    /// Leaves nothing but `link`.
    fn unlink(&mut self, link: u32);
}

impl Pooled for Flow {
    fn link(&self) -> u32 {
        self.link()
    }

    fn unlink(&mut self, link: u32) {
        self.clear();
        self.set_link(link);
    }
}

impl Pooled for Page {
    fn link(&self) -> u32 {
        let [a, b, c, d, ..] = self.0;
        u32::from_le_bytes([a, b, c, d])
    }

    fn unlink(&mut self, link: u32) {
        self.0[..4].copy_from_slice(&link.to_le_bytes());
    }
}

/// - I1: a place below `fresh` was taken, or is in the list that begins at `free`; the others
///   were never used.
/// - I2: a link is the place behind, + 1, or 0 at the end.
pub(super) struct Pool<T: Zeroed> {
    all: Pages<T>,
    free: u32,
    fresh: u32,
    taken: usize,
}

impl<T: Pooled> Pool<T> {
    pub(super) fn new(card: &'static Card, places: usize) -> Result<Pool<T>, Refusal> {
        Ok(Pool { all: super::memory::zeroed(card, places)?, free: 0, fresh: 0, taken: 0 })
    }

    /// A place, with whatever was left in it; `None` when all are taken.
    pub(super) fn take(&mut self) -> Option<u32> {
        let at = match self.free.checked_sub(1) {
            Some(at) => {
                self.free = self.all[at as usize].link();
                at
            }
            None if (self.fresh as usize) < self.all.len() => {
                self.fresh += 1;
                self.fresh - 1
            }
            None => return None,
        };
        self.taken += 1;
        Some(at)
    }

    /// Frees a place.
    pub(super) fn give(&mut self, at: u32) {
        self.all.as_mut_slice()[at as usize].unlink(self.free);
        self.free = at + 1;
        self.taken -= 1;
    }

    #[inline(always)]
    pub(super) fn all(&self) -> &[T] {
        &self.all
    }

    #[inline(always)]
    pub(super) fn all_mut(&mut self) -> &mut [T] {
        self.all.as_mut_slice()
    }

    /// How many are taken.
    pub(super) fn taken(&self) -> usize {
        self.taken
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.all)
    }
}
