//! Chains of slots, one for each level.
//!
//! The slots' links are in a slab, which several sets of chains share: a slot goes from one to
//! another without a move.

/// A slot's neighbours in its chain.
#[derive(Clone, Copy)]
pub(super) struct Link {
    /// Of the same level, nearer to its last; or free.
    pub next: u32,
    /// Of the same level, nearer to its first.
    pub before: u32,
}

/// A chain for each level.
///
/// Invariant: a level's bit is set exactly when its ends are slots.
pub(super) struct Chains {
    ends: [Ends; LEVELS],
    levels: u64,
}

#[derive(Clone, Copy)]
struct Ends {
    first: u32,
    last: u32,
}

impl Default for Chains {
    fn default() -> Self {
        Chains { ends: [NO; LEVELS], levels: 0 }
    }
}

impl Chains {
    /// A bit for each level that has a slot.
    #[inline]
    pub fn levels(&self) -> u64 {
        self.levels
    }

    /// The highest level that has a slot.
    #[inline]
    pub fn highest(&self) -> Option<u8> {
        self.levels.checked_ilog2().map(|level| level as u8)
    }

    /// The first slot of a level.
    #[inline]
    pub fn first(&self, level: u8) -> u32 {
        self.ends[usize::from(level)].first
    }

    /// Puts a slot that is in no chain behind those of a level.
    #[inline]
    pub fn append(&mut self, links: &mut [Link], level: u8, at: u32) {
        let ends = &mut self.ends[usize::from(level)];
        let before = ends.last;
        ends.last = at;
        if before == NONE {
            ends.first = at;
            self.levels |= 1 << level;
        } else {
            links[before as usize].next = at;
        }
        links[at as usize] = Link { next: NONE, before };
    }

    /// Puts a slot that is in no chain before those of a level.
    #[inline]
    pub fn prepend(&mut self, links: &mut [Link], level: u8, at: u32) {
        let ends = &mut self.ends[usize::from(level)];
        let next = ends.first;
        ends.first = at;
        if next == NONE {
            ends.last = at;
            self.levels |= 1 << level;
        } else {
            links[next as usize].before = at;
        }
        links[at as usize] = Link { next, before: NONE };
    }

    /// Takes the first slot out of a level that has one.
    #[inline]
    pub fn take_first(&mut self, links: &mut [Link], level: u8) -> u32 {
        let ends = &mut self.ends[usize::from(level)];
        let at = ends.first;
        let next = links[at as usize].next;
        ends.first = next;
        if next == NONE {
            ends.last = NONE;
            self.levels &= !(1 << level);
        } else {
            links[next as usize].before = NONE;
        }
        at
    }

    /// Takes the last slot out of a level that has one.
    #[inline]
    pub fn take_last(&mut self, links: &mut [Link], level: u8) -> u32 {
        let ends = &mut self.ends[usize::from(level)];
        let at = ends.last;
        let before = links[at as usize].before;
        ends.last = before;
        if before == NONE {
            ends.first = NONE;
            self.levels &= !(1 << level);
        } else {
            links[before as usize].next = NONE;
        }
        at
    }

    /// Puts all slots of others before those of the same levels here.
    pub fn put_before(&mut self, links: &mut [Link], others: &mut Chains) {
        while let Some(level) = others.highest() {
            let Ends { first, last } = std::mem::replace(&mut others.ends[usize::from(level)], NO);
            others.levels &= !(1 << level);
            let ends = &mut self.ends[usize::from(level)];
            let next = ends.first;
            ends.first = first;
            links[last as usize].next = next;
            if next == NONE {
                ends.last = last;
                self.levels |= 1 << level;
            } else {
                links[next as usize].before = last;
            }
        }
    }
}

/// Levels, one for each DSCP.
pub const LEVELS: usize = 64;
/// No slot.
pub(super) const NONE: u32 = u32::MAX;
const NO: Ends = Ends { first: NONE, last: NONE };
