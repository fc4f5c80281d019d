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

/// Lines that a batch has written, by the low bits of their numbers.
pub(super) struct Touched {
    marks: [bool; MARKS],
    /// Flows may be in other slots than they were.
    moved: bool,
}

impl Default for Touched {
    fn default() -> Self {
        Touched { marks: [false; MARKS], moved: false }
    }
}

impl Touched {
    #[inline(always)]
    pub(super) fn mark(&mut self, line: usize) {
        self.marks[line % MARKS] = true;
    }

    pub(super) fn mark_all(&mut self) {
        *self = Touched { marks: [true; MARKS], moved: true };
    }

    /// True where slots that hints name may have other places.
    #[inline(always)]
    pub(super) fn moved(&self) -> bool {
        self.moved
    }

    /// Is what `hint` says still so?
    #[inline(always)]
    pub(super) fn agrees(&self, hint: &Hint) -> bool {
        let [one, two] = hint.lines.map(|line| self.marks[line as usize % MARKS]);
        hint.kind != Kind::Unknown && !(one | two)
    }
}

/// Of a batch of 64 keys one in 16 looks again without need, of one of 256 one in 4.
const MARKS: usize = 1024;
