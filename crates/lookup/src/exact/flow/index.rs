//! The lines of tags: which places the flows of a hash may have, and when each goes.

use std::hint::select_unpredictable;

use super::age::{self, Clock, Due, FREE, NEVER, Order};
use super::key::Seed;
use super::words::{Base, Words};
use super::{Flow, FlowId, FlowKey};
use crate::exact::search::{Buckets, Slot};
use crate::hash::GOLDEN;
use crate::hint::{prefetch, prefetch_at};
use crate::pages::{Pages, Zeroed};

/// Eight slots: of each its tag, when its flow goes ([`age`]), and its place.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Line {
    tags: [u16; SLOTS],
    ages: [u16; SLOTS],
    places: [u32; SLOTS],
}

const _: () = assert!(size_of::<Line>() == 64);

// SAFETY: integers, of which zero is a value, without a destructor.
unsafe impl Zeroed for Line {}

/// - I1: each place is named by one slot, whether a flow is there or not: a slot without one
///   has the place for its next, and nobody has to keep a list of those that are free.
/// - I2: a flow's slot is in one of the two lines of its hash, and has its tag.
pub(super) struct Index {
    lines: Pages<Line>,
    pub(super) seed: Seed,
    pub(super) clock: Clock,
}

impl Index {
    /// Over `lines`, all zero.
    pub(super) fn new(mut lines: Pages<Line>, seed: Seed, clock: Clock) -> Self {
        for (at, line) in lines.as_mut_slice().iter_mut().enumerate() {
            line.places = std::array::from_fn(|slot| (at * SLOTS + slot) as u32);
        }
        Index { lines, seed, clock }
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.lines)
    }

    /// The two lines of `hash`; of one in many hashes they are the same.
    #[inline(always)]
    pub(super) fn lines_of(&self, hash: u64) -> [usize; 2] {
        let first = below((hash >> 32) as u32, self.lines.len());
        [first, self.other_line(first, hash as u16)]
    }

    /// The tag alone says what both lines add up to, so a move reads no entry.
    #[inline(always)]
    fn other_line(&self, line: usize, tag: u16) -> usize {
        let sum = below(
            (u64::from(tag) + 1).wrapping_mul(GOLDEN).wrapping_shr(32) as u32,
            self.lines.len(),
        );
        let other = sum.wrapping_sub(line);
        if sum < line { other.wrapping_add(self.lines.len()) } else { other }
    }

    #[inline(always)]
    pub(super) fn ask(&self, [first, second]: [usize; 2]) {
        prefetch_at(&self.lines, first);
        prefetch_at(&self.lines, second);
    }

    /// Slots of `lines` whose tag is that of `hash`: a bit each, eight a line. A free slot,
    /// whose tag is 0, may be among them.
    ///
    /// No branch depends on which line or slot it is: with one, `gatekeeper/fig4.7` had
    /// 19.5 million flows found a second at a load of 0.9, in groups, where it had 34.
    #[inline(always)]
    fn matches(&self, lines: [usize; 2], hash: u64) -> u32 {
        Base.equal(lines.map(|line| &self.lines[line].tags), hash as u16)
    }

    /// The slot of the lowest of `bits`.
    #[inline(always)]
    fn slot_of(lines: [usize; 2], bits: u32) -> Slot {
        let at = bits.trailing_zeros() as usize;
        Slot { bucket: Self::line_of(lines, at), slot: at % SLOTS }
    }

    /// Of two lines that of slot `at` of both; not by an index, for which they would have to be
    /// in memory.
    #[inline(always)]
    fn line_of(lines: [usize; 2], at: usize) -> usize {
        select_unpredictable(at < SLOTS, lines[0], lines[1])
    }

    /// Those slots, one by one.
    #[inline(always)]
    pub(super) fn slots(&self, hash: u64) -> impl Iterator<Item = Slot> {
        let lines = self.lines_of(hash);
        let next = |bits: &u32| Some(bits & bits.wrapping_sub(1));
        let left = std::iter::successors(Some(self.matches(lines, hash)), next);
        left.take_while(|&bits| bits != 0).map(move |bits| Self::slot_of(lines, bits))
    }

    #[inline(always)]
    pub(super) fn place(&self, slot: Slot) -> u32 {
        self.lines[slot.bucket].places[slot.slot]
    }

    #[inline(always)]
    pub(super) fn age(&self, slot: Slot) -> u16 {
        self.lines[slot.bucket].ages[slot.slot]
    }

    #[inline(always)]
    pub(super) fn set_age(&mut self, slot: Slot, age: u16) {
        self.lines.as_mut_slice()[slot.bucket].ages[slot.slot] = age;
    }

    #[inline(always)]
    pub(super) fn set(&mut self, slot: Slot, tag: u16, age: u16) {
        let line = &mut self.lines.as_mut_slice()[slot.bucket];
        (line.tags[slot.slot], line.ages[slot.slot]) = (tag, age);
    }

    /// Tag and age of the slot of this number.
    #[inline(always)]
    pub(super) fn slot_mut(&mut self, number: u32) -> Option<(&mut u16, &mut u16)> {
        let Slot { bucket, slot } = slot_at(number);
        let line = self.lines.as_mut_slice().get_mut(bucket)?;
        Some((&mut line.tags[slot], &mut line.ages[slot]))
    }

    /// Those of eight slots' flows that `due` has, a bit each.
    #[inline(always)]
    pub(super) fn due(&self, line: usize, due: &Due) -> u8 {
        // Far enough ahead for the memory; pages of 4 KB end what the processor asks for by itself.
        prefetch_at(&self.lines, line + SWEPT_AHEAD);
        let bits = self.lines[line].ages.iter().zip(0..);
        bits.fold(0, |bits, (&word, at)| bits | u8::from(due.has(word)) << at)
    }

    pub(super) fn free(&mut self, slot: Slot) {
        self.set(slot, 0, FREE);
    }

    #[inline(always)]
    pub(super) fn is_free(&self, slot: Slot) -> bool {
        age::is_free(self.age(slot))
    }

    /// A slot of `line` without a flow.
    pub(super) fn empty(&self, line: usize) -> Option<Slot> {
        let free = self.lines[line].ages.iter().position(|&age| age::is_free(age));
        free.map(|slot| Slot { bucket: line, slot })
    }

    /// A slot of `lines` without a flow, of the emptier one.
    #[inline(always)]
    pub(super) fn empty_of(&self, lines: [usize; 2]) -> Option<Slot> {
        let free = self.free_of(lines);
        let of_second = (free >> SLOTS).count_ones() > (free & 0xff).count_ones();
        let free = if of_second { free & !0xff } else { free };
        (free != 0).then(|| Self::slot_of(lines, free))
    }

    /// `lines`, the emptier first: both are asked for in any case, and fewer lines fill up.
    pub(super) fn emptier(&self, [first, second]: [usize; 2]) -> [usize; 2] {
        let free = self.free_of([first, second]);
        let of_second = (free >> SLOTS).count_ones() > (free & 0xff).count_ones();
        if of_second { [second, first] } else { [first, second] }
    }

    /// Slots of `lines` without a flow: a bit each.
    #[inline(always)]
    fn free_of(&self, lines: [usize; 2]) -> u32 {
        Base.equal(lines.map(|line| &self.lines[line].ages), FREE)
    }

    /// Of the flows in `lines`, which are those of `hash`, the one that goes first. Of requests that
    /// go at the same time another for each hash: always the first would be the newest.
    #[inline(always)]
    pub(super) fn first_to_go(
        &self,
        words: impl Words,
        (lines, hash): ([usize; 2], u64),
        order: &Order,
    ) -> Option<Slot> {
        let slot = |at| Slot { bucket: Self::line_of(lines, at), slot: at % SLOTS };
        if let Some(requests) = order.requests() {
            let ages = [&self.lines[lines[0]].ages, &self.lines[lines[1]].ages];
            let (first, at) = words.first(ages, requests, (hash >> TAG_BITS) as u32);
            if first < requests.others {
                return Some(slot(at));
            }
        }
        // Not `lines.map`, which calls a function for it.
        let of_line = |line: usize| order.of(self.lines[line].ages);
        let (first, at) = words.least([of_line(lines[0]), of_line(lines[1])]);
        (first != NEVER).then(|| slot(at))
    }

    /// The first slot of `lines` with the tag of `hash`.
    #[inline(always)]
    pub(super) fn first_match(&self, lines: [usize; 2], hash: u64) -> Option<Slot> {
        let bits = self.matches(lines, hash);
        (bits != 0).then(|| Self::slot_of(lines, bits))
    }

    /// The slot of the flow at `id`, where one is there: as the id says, or else, after it
    /// was moved, as the key does.
    #[inline(always)]
    pub(super) fn locate(&self, id: FlowId, flow: &Flow) -> Option<Slot> {
        let slot = slot_at(id.slot());
        let as_said =
            self.lines.get(slot.bucket).is_some_and(|line| line.places[slot.slot] == id.place);
        if as_said { Some(slot) } else { self.search(id.place, &flow.key()) }
    }

    #[cold]
    fn search(&self, place: u32, key: &FlowKey) -> Option<Slot> {
        self.slots(key.hash(&self.seed)).find(|&slot| self.place(slot) == place)
    }

    /// Writes when `flow`, which is at `id`, goes.
    #[inline(always)]
    pub(super) fn settle(&mut self, id: FlowId, flow: &Flow) {
        if let Some(slot) = self.locate(id, flow) {
            self.set_age(slot, self.clock.word_of(flow));
        }
    }
}

/// Where room is searched for, over `MOST` lines.
pub(super) struct Around<'a, const MOST: usize>(pub(super) &'a mut Index);

impl<const MOST: usize> Buckets for Around<'_, MOST> {
    const SLOTS: usize = SLOTS;
    const MOST: usize = MOST;

    fn empty(&self, line: usize) -> Option<Slot> {
        self.0.empty(line)
    }

    fn other(&self, slot: Slot) -> usize {
        self.0.other_line(slot.bucket, self.0.lines[slot.bucket].tags[slot.slot])
    }

    fn ask(&self, line: usize) {
        prefetch(&self.0.lines[line]);
    }

    /// The slots change places, by I1.
    fn move_entry(&mut self, from: Slot, to: Slot) {
        let lines = self.0.lines.as_mut_slice();
        let of = |slot: Slot, lines: &[Line]| {
            let Line { tags, ages, places } = &lines[slot.bucket];
            (tags[slot.slot], ages[slot.slot], places[slot.slot])
        };
        for (slot, new) in [(to, of(from, lines)), (from, of(to, lines))] {
            let line = &mut lines[slot.bucket];
            (line.tags[slot.slot], line.ages[slot.slot], line.places[slot.slot]) = new;
        }
    }
}

/// As an id has it.
#[inline(always)]
pub(super) fn number(slot: Slot) -> u32 {
    (slot.bucket * SLOTS + slot.slot) as u32
}

#[inline(always)]
pub(super) fn slot_at(number: u32) -> Slot {
    Slot { bucket: number as usize / SLOTS, slot: number as usize % SLOTS }
}

/// A number below `n`.
#[inline(always)]
fn below(hash: u32, n: usize) -> usize {
    crate::hash::below(hash, n as u64) as usize
}

const TAG_BITS: u32 = u16::BITS;

/// Lines between the one that is swept and the one that is asked for.
const SWEPT_AHEAD: usize = 16;

/// Flows named by a line.
pub(super) const SLOTS: usize = 8;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn each_line_is_the_other_of_its_other() {
        let mut rng = Rng::new(3);
        for lines in [1, 2, 3, 7, 100, if cfg!(miri) { 9 } else { 5003 }] {
            let pages = Pages::zeroed(lines).unwrap();
            let index = Index::new(pages, Seed::new(1), Clock::new(1000, 10));
            for _ in 0..1000 {
                let hash = rng.next();
                let [first, second] = index.lines_of(hash);
                assert!(first < lines && second < lines);
                assert_eq!(index.other_line(second, hash as u16), first);
            }
        }
    }
}
