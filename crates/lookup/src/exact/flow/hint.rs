//! What a first look at the lines of a key has found, for the second: good until one of the
//! lines is written.

use super::FlowId;
use super::age::Prefer;
use crate::exact::search::Slot;

/// What was found; nothing, for engines that do not look twice.
#[derive(Clone, Copy)]
pub(super) struct Hint {
    lines: [u32; 2],
    slot: u8,
    kind: Kind,
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Kind {
    /// Nothing is known.
    Unknown,
    /// The slot has the tag.
    Found,
    /// No slot has the tag.
    Absent,
    /// No slot has it, and this one goes first.
    Goes(Prefer),
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
    pub(super) const NONE: Hint = Hint { lines: [0; 2], slot: 0, kind: Kind::Unknown };

    #[inline(always)]
    pub(super) fn found(lines: [usize; 2], slot: Slot) -> Hint {
        Hint { kind: Kind::Found, ..Hint::absent(lines) }.at(slot)
    }

    #[inline(always)]
    pub(super) fn absent(lines: [usize; 2]) -> Hint {
        Hint { lines: lines.map(|line| line as u32), slot: 0, kind: Kind::Absent }
    }

    /// The flow in `slot` goes, if any does.
    #[inline(always)]
    pub(super) fn goes(lines: [usize; 2], prefer: Prefer, slot: Option<Slot>) -> Hint {
        let hint = Hint::absent(lines);
        slot.map_or(hint, |slot| Hint { kind: Kind::Goes(prefer), ..hint }.at(slot))
    }

    #[inline(always)]
    fn at(self, slot: Slot) -> Hint {
        let second = slot.bucket != self.lines[0] as usize;
        Hint { slot: slot.slot as u8 | u8::from(second) << 7, ..self }
    }

    /// The slot of which it speaks.
    #[inline(always)]
    pub(super) fn slot(&self) -> Option<Slot> {
        let bucket = self.lines[usize::from(self.slot >> 7)] as usize;
        let has_one = !matches!(self.kind, Kind::Unknown | Kind::Absent);
        has_one.then_some(Slot { bucket, slot: usize::from(self.slot & 127) })
    }

    #[inline(always)]
    pub(super) fn found_slot(&self) -> Option<Slot> {
        self.slot().filter(|_| self.kind == Kind::Found)
    }

    #[inline(always)]
    pub(super) fn goes_slot(&self, prefer: Prefer) -> Option<Slot> {
        self.slot().filter(|_| self.kind == Kind::Goes(prefer))
    }
}

/// Lines that a group has written, by the low bits of their numbers.
#[derive(Default)]
pub(super) struct Touched([u64; WORDS]);

impl Touched {
    #[inline(always)]
    pub(super) fn mark(&mut self, line: usize) {
        self.0[line / 64 % WORDS] |= 1 << (line % 64);
    }

    pub(super) fn mark_all(&mut self) {
        self.0 = [u64::MAX; WORDS];
    }

    /// Is what `hint` says still so?
    #[inline(always)]
    pub(super) fn agrees(&self, hint: &Hint) -> bool {
        let [one, two] = hint.lines.map(|line| line as usize);
        let is_marked = |line: usize| self.0[line / 64 % WORDS] >> (line % 64) & 1;
        hint.kind != Kind::Unknown && is_marked(one) | is_marked(two) == 0
    }
}

/// Of a group of 64 keys one in 16 looks again without need.
const WORDS: usize = 16;
