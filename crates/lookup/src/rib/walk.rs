//! Ways through the store.

use super::{Place, Rib, shortest_at};
use crate::{Addr, Hop, Prefix};

/// Predecessor jumps: everything that covers the target stands before it, and
/// what lies between does not reach it. A predecessor that does not cover the
/// target shares `c` bits with it, so no longer prefix than `c` can.
pub(super) struct Covering<'r, A> {
    pub(super) rib: &'r Rib<A>,
    pub(super) target: A,
    /// The length to search next.
    pub(super) next: Option<u8>,
    /// The chunk of the last find: the next one is there or before.
    pub(super) chunk: usize,
}

impl<A: Addr> Iterator for Covering<'_, A> {
    type Item = (Prefix<A>, Hop);

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(len) = self.next {
            let wanted = Prefix::covering(self.target, len);
            let (found, hop) = self.at_or_before(&wanted)?;
            if found.covers(&wanted) {
                let shorter = found.len().checked_sub(1);
                self.next = shorter.and_then(|len| self.rib.longest_present(len));
                return Some((found, hop));
            }
            self.next = self.rib.longest_present(found.first().common(self.target));
        }
        None
    }
}

impl<A: Addr> Covering<'_, A> {
    #[inline]
    fn at_or_before(&mut self, wanted: &Prefix<A>) -> Option<(Prefix<A>, Hop)> {
        let heads = &self.rib.heads;
        if heads.get(self.chunk).is_none_or(|head| head > wanted) {
            let before = heads[..self.chunk].partition_point(|head| head <= wanted);
            self.chunk = before.checked_sub(1)?;
        }
        let chunk = &self.rib.chunks[self.chunk];
        let slot = chunk.lower_bound(wanted);
        let slot = if chunk.holds(slot, wanted) { slot } else { slot - 1 };
        Some(chunk.get(slot)) // slot - 1 exists: the chunk's head is not after `wanted`
    }
}

pub(super) struct Inside<'r, A> {
    pub(super) rib: &'r Rib<A>,
    pub(super) at: Place,
    pub(super) last: A,
}

impl<A: Addr> Iterator for Inside<'_, A> {
    type Item = (Prefix<A>, Hop);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let route = self.rib.at(self.at)?;
        if route.0.first() > self.last {
            return None;
        }
        self.at = self.rib.after(self.at);
        Some(route)
    }
}

pub(super) struct Children<'r, A> {
    pub(super) rib: &'r Rib<A>,
    pub(super) at: Option<Place>,
    pub(super) last: A,
}

impl<A: Addr> Iterator for Children<'_, A> {
    type Item = (Prefix<A>, Hop);

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.at?;
        let child = self.rib.at(at).filter(|(child, _)| child.first() <= self.last)?;
        self.at = (child.0.last() < self.last).then(|| self.beyond(at, child.0.last()));
        Some(child)
    }
}

impl<A: Addr> Children<'_, A> {
    /// The first place after `at` whose prefix starts after `last`.
    fn beyond(&self, mut at: Place, last: A) -> Place {
        for _ in 0..NEAR {
            at = self.rib.after(at);
            if self.rib.at(at).is_none_or(|(prefix, _)| prefix.first() > last) {
                return at;
            }
        }
        self.rib.at_or_after(&shortest_at(last.plus(1)))
    }
}

/// Records that [`Children`] steps over before it searches.
const NEAR: usize = 8;
