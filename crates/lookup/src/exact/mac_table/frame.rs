//! One size of the table: its lines, and how a key is found in them.

use super::away::Away;
use super::{BITS_AT_LEAST, BITS_AT_MOST};
use crate::exact::ABSENT;
use crate::exact::lines::{Line, Lines, SLOTS};
use crate::exact::scan::{FREE_BITS, NONE, Portable, Scan};
use crate::exact::search::{Buckets, Slot};
use crate::hint::{prefetch, prefetch_near};
use crate::pages::{Kind, TOUCH_STEP, Touch};
use crate::sync::{AtomicU64, Ordering, fence};

/// What readers share of one size.
///
/// - I1: there are 2^`bits` lines, `bits` from [`BITS_AT_LEAST`] to [`BITS_AT_MOST`].
/// - I2: an entry is in its first line or, marked `OTHER`, in its second,
///   and then the hint of its number is set in the first.
/// - I3: before an entry's word is overwritten because it has moved, `moves` was
///   advanced, and before that the copy and (I2) the hint were written; only
///   after it was, a hint that the move has made needless is cleared.
/// - I4: `away` counts for each hint the entries that I2 is about: a hint without
///   any is clear.
pub(super) struct Frame {
    lines: Lines<Line>,
    away: Away,
    pub(super) bits: u32,
    moves: Moves,
}

/// Counts displacements. A line of its own: readers look at it all the time.
#[repr(align(128))]
struct Moves(AtomicU64);

/// A frame as a lookup holds it, in registers: loads of words are barriers, across
/// which the compiler would read the fields of a `&Frame` again.
#[derive(Clone, Copy)]
pub(super) struct View<'f> {
    lines: &'f [Line],
    pub(super) bits: u32,
    moves: &'f Moves,
}

/// Where an entry may stand, and what its word begins with, there.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) line: usize,
    pub(super) want: u64,
}

impl Place {
    /// The number of the key of this first place in a table of 2^`bits` lines.
    pub(super) fn mixed(self, bits: u32) -> u64 {
        (self.line as u64) << (64 - bits) | (self.want & REST) >> bits
    }
}

impl Frame {
    /// An empty table of 2^`bits` lines on such pages.
    pub(super) fn new(bits: u32, pages: Kind) -> std::io::Result<Frame> {
        debug_assert!((BITS_AT_LEAST..=BITS_AT_MOST).contains(&bits));
        let (lines, away) = (Lines::zeroed(bits, pages)?, Away::new(1 << bits)?);
        Ok(Frame { lines, away, bits, moves: Moves(AtomicU64::new(0)) })
    }

    /// Memory of a table of 2^`bits` lines.
    pub(super) fn bytes(bits: u32) -> usize {
        (size_of::<Line>() << bits) + Away::bytes(1 << bits)
    }

    /// How many lines there are.
    pub(super) fn len(&self) -> usize {
        1 << self.bits
    }

    #[inline(always)]
    pub(super) fn view(&self) -> View<'_> {
        View { lines: &self.lines, bits: self.bits, moves: &self.moves }
    }

    /// The line at `at`.
    pub(super) fn line(&self, at: usize) -> &Line {
        &self.lines[at]
    }

    /// The two lines of the key of number `mixed`.
    pub(super) fn lines_of(&self, mixed: u64) -> [usize; 2] {
        let first = self.view().first(mixed);
        [first.line, self.view().second(first).line]
    }

    /// The number of the key of `word`, found in `line`.
    pub(super) fn mixed(&self, line: usize, word: u64) -> u64 {
        let first = if word & OTHER == 0 { line } else { self.other_line(line, word) };
        Place { line: first, want: word }.mixed(self.bits)
    }

    /// The other line of the entry `word`, found in `line`.
    pub(super) fn other_line(&self, line: usize, word: u64) -> usize {
        line ^ self.view().distance(word)
    }
}

impl Touch for Frame {
    fn touch(&self, step: usize) -> bool {
        let lines = (size_of::<Line>() << self.bits).div_ceil(TOUCH_STEP);
        self.lines.touch(step) || step >= lines && self.away.touch(step - lines)
    }
}

impl<'f> View<'f> {
    /// The line at `at`.
    #[inline(always)]
    pub(super) fn line(self, at: usize) -> &'f Line {
        &self.lines[at]
    }

    /// The first place of the key of number `mixed`.
    #[inline(always)]
    pub(super) fn first(self, mixed: u64) -> Place {
        Place { line: (mixed >> (64 - self.bits)) as usize, want: mixed << self.bits | USED }
    }

    /// The second place of the entry whose first is `place`.
    #[inline(always)]
    pub(super) fn second(self, place: Place) -> Place {
        Place { line: place.line ^ self.distance(place.want), want: place.want | OTHER }
    }

    /// How far the lines of an entry are apart, as a pattern of bits. Odd, so
    /// they differ; of the stored part only, so a move needs no key.
    #[inline(always)]
    fn distance(self, word: u64) -> usize {
        let spread = (word & REST).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (spread >> (64 - self.bits)) as usize | 1
    }

    /// The line at `at`, unchecked: 4 % of the instructions of a batched lookup.
    ///
    /// # Safety
    /// `at` is less than 2^`bits`.
    #[inline(always)]
    pub(super) unsafe fn line_of(self, at: usize) -> &'f Line {
        debug_assert!(at < self.lines.len());
        // SAFETY: by the caller, and I1 of the frame.
        unsafe { self.lines.get_unchecked(at) }
    }

    /// Asks for the line at `at`, which is read much later.
    ///
    /// # Safety
    /// `at` is less than 2^`bits`.
    #[inline(always)]
    pub(super) unsafe fn ask(self, at: usize) {
        // SAFETY: passed on.
        let line = unsafe { self.line_of(at) };
        if self.bits > NEAR_BITS {
            prefetch_near(line);
        } else {
            prefetch(line);
        }
    }

    /// True when the entry of this first place may stand in the second.
    #[inline(always)]
    pub(super) fn hints(self, first: Place) -> bool {
        self.line(first.line).load(hint_slot(first.want)) & HINT != 0
    }

    /// Displacements until now, and all that was written before the last.
    #[inline(always)]
    pub(super) fn moves(self) -> u64 {
        self.moves.0.load(Ordering::Acquire)
    }

    /// True when no entry that this thread has read was moved since `moves`.
    #[inline(always)]
    pub(super) fn still(self, moves: u64) -> bool {
        fence(Ordering::Acquire);
        self.moves.0.load(Ordering::Relaxed) == moves
    }

    /// The value of the entry whose first place is `first`.
    pub(super) fn lookup(self, first: Place) -> u16 {
        // SAFETY: every processor can do what is portable.
        let find = |Place { line, want }| unsafe { Portable::scan(self.line(line), &want) };
        loop {
            let moves = self.moves();
            let mut word = find(first);
            if word == NONE && self.hints(first) {
                word = find(self.second(first));
            }
            if word != NONE {
                return word as u16;
            }
            if self.still(moves) {
                return ABSENT;
            }
        }
    }
}

/// The slot that holds the hint of an entry: other bits than say the distance.
#[inline(always)]
pub(super) fn hint_slot(word: u64) -> usize {
    (word >> 61) as usize % SLOTS
}

/// What the writer alone does.
impl Frame {
    /// Where the entry of number `mixed` is. One line says it of most that are
    /// absent, as for readers.
    pub(super) fn locate(&self, mixed: u64) -> Option<Slot> {
        let first = self.view().first(mixed);
        let stands = |Place { line, want }| {
            let slot = self.line(line).position(|word| (word ^ want) >> FREE_BITS == 0);
            slot.map(|slot| Slot { bucket: line, slot })
        };
        let second = || self.view().hints(first).then(|| self.view().second(first));
        stands(first).or_else(|| second().and_then(stands))
    }

    /// Asks for the first line of `mixed`, for [`Frame::ask_second`] and
    /// [`Frame::locate`].
    pub(super) fn ask_first(&self, mixed: u64) {
        prefetch(self.line(self.view().first(mixed).line));
    }

    /// Asks for what an insertion of `mixed` needs beside the first line, which has
    /// come, where that is full or may not be all.
    pub(super) fn ask_second(&self, mixed: u64) {
        let first = self.view().first(mixed);
        if self.empty(first.line).is_none() || self.view().hints(first) {
            prefetch(self.line(self.view().second(first).line));
            self.away.ask(first.line);
        }
    }

    /// The word at `slot`.
    pub(super) fn word(&self, slot: Slot) -> u64 {
        self.line(slot.bucket).own(slot.slot)
    }

    /// Writes the entry of `mixed` to `slot`, which lies in one of its lines.
    pub(super) fn write(&self, slot: Slot, mixed: u64, value: u16) {
        let first = self.view().first(mixed);
        let here = if slot.bucket == first.line { first } else { self.view().second(first) };
        self.put(slot, here.want | u64::from(value));
    }

    /// Gives the entry at `slot` another value.
    pub(super) fn set_value(&self, slot: Slot, value: u16) {
        let rest = self.word(slot) & !u64::from(u16::MAX);
        self.line(slot.bucket).store(slot.slot, rest | u64::from(value));
    }

    /// Takes out the entry at `slot`.
    pub(super) fn clear(&self, slot: Slot) {
        let word = self.word(slot);
        self.vacate(slot);
        self.leave(slot.bucket, word);
    }

    /// Overwrites the copy that a move has left at `slot` (I3).
    pub(super) fn vacate(&self, slot: Slot) {
        self.line(slot.bucket).store(slot.slot, self.word(slot) & HINT);
    }

    /// The entry `word` has gone from `line`: if that was its second, and it was
    /// the last of its hint there, the hint goes (I4).
    fn leave(&self, line: usize, word: u64) {
        if word & OTHER != 0 {
            let (first, hint) = (self.other_line(line, word), hint_slot(word));
            if self.away.returns(first, hint) {
                let first = self.line(first);
                first.store(hint, first.own(hint) & !HINT);
            }
        }
    }

    /// Asks for the first line of the entry at `slot`, where it is not in that.
    pub(super) fn ask_home(&self, slot: Slot) {
        let word = self.word(slot);
        if word & OTHER != 0 {
            prefetch(self.line(self.other_line(slot.bucket, word)));
        }
    }

    /// Moves the entry at `slot` to its first line, where that has room.
    pub(super) fn bring_home(&self, slot: Slot) {
        let word = self.word(slot);
        if word & OTHER != 0
            && let mut frame = self
            && let Some(free) = frame.empty(self.other_line(slot.bucket, word))
        {
            frame.move_entry(slot, free);
            self.vacate(slot);
        }
    }

    /// Writes an entry's `word` beside the hint that `slot` has; before, where
    /// the line is its second, the entry's own hint in its first (I2).
    fn put(&self, slot: Slot, word: u64) {
        if word & OTHER != 0 {
            let (first, hint) = (self.other_line(slot.bucket, word), hint_slot(word));
            if self.away.goes(first, hint) {
                let first = self.line(first);
                first.store(hint, first.own(hint) | HINT);
            }
        }
        self.line(slot.bucket).store(slot.slot, word | self.word(slot) & HINT);
    }
}

impl Buckets for &Frame {
    const SLOTS: usize = SLOTS;
    /// The two, the 16 behind them, and 128 behind those: fills to 99 %.
    const MOST: usize = 2 * (1 + SLOTS + SLOTS * SLOTS);

    fn empty(&self, line: usize) -> Option<Slot> {
        let slot = self.line(line).position(|word| word & USED == 0);
        slot.map(|slot| Slot { bucket: line, slot })
    }

    fn other(&self, slot: Slot) -> usize {
        self.other_line(slot.bucket, self.word(slot))
    }

    fn ask(&self, line: usize) {
        prefetch(self.line(line));
    }

    /// By I3.
    fn move_entry(&mut self, from: Slot, to: Slot) {
        let word = self.word(from);
        self.put(to, (word ^ OTHER) & !HINT);
        let moves = self.moves.0.load(Ordering::Relaxed); // we alone write
        self.moves.0.store(moves + 1, Ordering::Release);
        self.leave(from.bucket, word);
    }
}

/// An entry is there; its value is the 16 bits below the hint.
pub(super) const USED: u64 = 1 << 17;

/// The entry is in its second line.
pub(super) const OTHER: u64 = 1 << 18;

/// Belongs to the slot, not to its entry: an entry of this line whose hint this
/// is may stand in its second line.
pub(super) const HINT: u64 = 1 << 16;

/// The part of the key that the line does not say.
const REST: u64 = !0 << 19;

/// Up to so many lines, 16 MiB, are asked for into the first-level cache. On
/// Sapphire Rapids that is 7 % faster at 8 MiB, as fast at 16, and from 32 on 10 %
/// slower than into the second, of which the first is not kept waiting.
const NEAR_BITS: u32 = 18;
