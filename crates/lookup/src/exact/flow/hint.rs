//! What a first look at the lines of a key has found, for the second: good until one of the
//! lines is written.

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

    #[inline(always)]
    pub(super) fn goes_id(&self) -> Option<FlowId> {
        (self.kind == Kind::Goes).then_some(FlowId::at(self.place, self.slot))
    }
}

/// Which lines were written since a hint was given, by the low bits of their numbers.
///
/// Groups are counted: a hint of one group is used [`HINTS_LAST`] later. A mark says in which group a
/// line was written last; where the count runs over, hints are doubted, not trusted.
pub(super) struct Touched {
    marks: [u16; MARKS],
    /// The group under way.
    now: u64,
    /// Hints of this group and those before it are invalid.
    renewed: u64,
    /// Until this group flows may be in other slots than hints say.
    moved: u64,
}

impl Default for Touched {
    fn default() -> Self {
        Touched { marks: [0; MARKS], now: HINTS_LAST + 1, renewed: 0, moved: 0 }
    }
}

impl Touched {
    /// Another group begins; with `anew` what hints said before is invalid.
    #[inline(always)]
    pub(super) fn begin_group(&mut self, anew: bool) {
        if anew {
            self.renewed = self.now;
        }
        self.now += 1;
    }

    #[inline(always)]
    pub(super) fn mark(&mut self, line: usize) {
        self.marks[line % MARKS] = self.now as u16;
    }

    /// Any line may have been written, and flows moved.
    pub(super) fn mark_all(&mut self) {
        (self.renewed, self.moved) = (self.now, self.now + HINTS_LAST);
    }

    /// True where slots that hints name may have other places.
    #[inline(always)]
    pub(super) fn moved(&self) -> bool {
        self.now <= self.moved
    }

    /// Is what `hint` says, of the group [`HINTS_LAST`] before, still so?
    #[inline(always)]
    pub(super) fn agrees(&self, hint: &Hint) -> bool {
        let ago = |line: u32| (self.now as u16).wrapping_sub(self.marks[line as usize % MARKS]);
        let was_written = |line: u32| ago(line) <= HINTS_LAST as u16;
        let [one, two] = hint.lines;
        let is_new = self.renewed + HINTS_LAST < self.now;
        hint.kind != Kind::Unknown && is_new && !was_written(one) && !was_written(two)
    }
}

/// Groups from the one in which a hint is given to that in which it is used.
pub(super) const HINTS_LAST: u64 = 2;

/// Of groups of 8 keys one key in 50 looks again without need.
const MARKS: usize = 2048;
