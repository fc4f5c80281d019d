//! What a first look at the lines of a key has found, for the second: that the tag is not there,
//! and that a slot is free, or goes, has to be seen again, which is less than to look for it.

use super::FlowId;

/// What was found; nothing, for engines that do not look twice.
#[derive(Clone, Copy)]
pub(super) struct Hint {
    lines: [u32; 2],
    /// The number of the slot of which it speaks, if it does of one, and that slot's place.
    slot: u32,
    place: u32,
    kind: Kind,
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Kind {
    /// Nothing is known, but the lines to those who have asked for them.
    Unknown,
    /// The slot has the tag.
    Found,
    /// No slot has the tag.
    Absent,
    /// No slot has it, and this one is free, or goes first in the order of the batch.
    Goes,
}

/// What a hint says for sure.
pub(super) enum Sure {
    /// The flow is there.
    Found(FlowId),
    /// It is not.
    Absent,
    /// One has to look again.
    Nothing,
}

impl Hint {
    /// Nothing is known.
    pub(super) const NONE: Hint = Hint { lines: [0; 2], slot: 0, place: 0, kind: Kind::Unknown };

    /// Nothing but the lines.
    #[inline(always)]
    pub(super) fn of(lines: [usize; 2]) -> Hint {
        Hint { lines: lines.map(|line| line as u32), ..Hint::NONE }
    }

    /// The lines that [`Hint::of`] was given.
    #[inline(always)]
    pub(super) fn lines(&self) -> [usize; 2] {
        self.lines.map(|line| line as usize)
    }

    /// The flow at this id has the tag.
    #[inline(always)]
    pub(super) fn found(self, id: FlowId) -> Hint {
        Hint { slot: id.slot, place: id.place, kind: Kind::Found, ..self }
    }

    #[inline(always)]
    pub(super) fn absent(self) -> Hint {
        Hint { kind: Kind::Absent, ..self }
    }

    /// The place of this id is free, or its flow goes.
    #[inline(always)]
    pub(super) fn goes(self, id: FlowId) -> Hint {
        Hint { kind: Kind::Goes, ..self.found(id) }
    }

    #[inline(always)]
    pub(super) fn found_id(&self) -> Option<FlowId> {
        (self.kind == Kind::Found).then_some(FlowId::at(self.place, self.slot))
    }

    /// Has the key been looked for?
    #[inline(always)]
    pub(super) fn is_known(&self) -> bool {
        self.kind != Kind::Unknown
    }

    #[inline(always)]
    pub(super) fn goes_id(&self) -> Option<FlowId> {
        (self.kind == Kind::Goes).then_some(FlowId::at(self.place, self.slot))
    }
}

/// Whether hints are still good at all.
///
/// Groups are counted: a hint of one group is used [`HINTS_LAST`] later.
pub(super) struct Groups {
    /// The one under way.
    now: u64,
    /// Hints of this group and those before it are invalid.
    renewed: u64,
    /// Until this group flows may be in other slots than hints say.
    moved: u64,
}

impl Default for Groups {
    fn default() -> Self {
        Groups { now: HINTS_LAST + 1, renewed: 0, moved: 0 }
    }
}

impl Groups {
    /// Another group begins; with `anew` what hints said before is invalid.
    #[inline(always)]
    pub(super) fn begin(&mut self, anew: bool) {
        if anew {
            self.renewed = self.now;
        }
        self.now += 1;
    }

    /// Flows are moved.
    pub(super) fn move_some(&mut self) {
        (self.renewed, self.moved) = (self.now, self.now + HINTS_LAST);
    }

    /// True where slots that hints name may have other places.
    #[inline(always)]
    pub(super) fn moved(&self) -> bool {
        self.now <= self.moved
    }

    /// True where hints of the group [`HINTS_LAST`] before are of the same order.
    #[inline(always)]
    pub(super) fn are_alike(&self) -> bool {
        self.renewed + HINTS_LAST < self.now
    }
}

/// Groups from the one in which a hint is given to that in which it is used.
pub(super) const HINTS_LAST: u64 = 2;
