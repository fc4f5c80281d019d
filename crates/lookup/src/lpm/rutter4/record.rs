//! One /18 as the writer sees it: from intervals to cells.

use std::ops::Range;

use super::SLOTS;
use super::table::{DEEP_WORDS, Value, View};
use crate::Hop;

/// The answers inside one /18.
pub(super) struct Painted {
    /// One a /24: a hop, or [`DEEP`] and a number of `deep`.
    slots: [u32; SLOTS],
    /// The numbers of all slots that differ from the one before, or-ed: the zeros
    /// at its end tell how many slots may share a cell.
    borders: usize,
    /// One an address, for /24s that are not uniform.
    deep: Vec<[u32; 256]>,
    /// Bit i: slot i, where it is not a hop, places a deep record of what was loaded.
    kept: u64,
    cells: Vec<u32>,
}

impl Painted {
    pub(super) fn new() -> Self {
        Painted { slots: [0; SLOTS], borders: 0, deep: Vec::new(), kept: 0, cells: Vec::new() }
    }

    /// Paints a /18 from its intervals; before the first one holds `outside`. The
    /// hop at the end.
    pub(super) fn paint(&mut self, intervals: &[(u32, Hop)], mut outside: u32) -> u32 {
        self.deep.clear();
        (self.borders, self.kept) = (0, 0);
        let mut from = 0;
        for of_24 in intervals.chunk_by(|a, b| a.0 >> 8 == b.0 >> 8) {
            let slot = (of_24[0].0 >> 8) as usize % SLOTS;
            let (last_start, last) = of_24[of_24.len() - 1];
            self.slots[from..slot].fill(outside);
            self.borders |= slot;
            from = slot;
            if last_start & 0xff != 0 {
                self.slots[slot] = self.deepen(of_24, outside);
                from += 1;
                self.borders |= from;
            }
            outside = last.0;
        }
        self.slots[from..].fill(outside);
        outside
    }

    /// Paints one /24 of a record that was loaded and kept, from the intervals in it.
    pub(super) fn paint_slot(&mut self, slot: usize, intervals: &[(u32, Hop)]) {
        self.kept &= !(1 << slot);
        self.slots[slot] = match intervals {
            [(_, hop)] => hop.0,
            _ => self.deepen(intervals, 0),
        };
    }

    /// The answers of a /24 that is not uniform; before its first interval holds `outside`.
    fn deepen(&mut self, intervals: &[(u32, Hop)], outside: u32) -> u32 {
        let mut addresses = [outside; 256];
        for &(start, hop) in intervals {
            addresses[(start & 0xff) as usize..].fill(hop.0);
        }
        self.deep.push(addresses);
        DEEP | (self.deep.len() - 1) as u32
    }

    /// Takes a record as it is; cells that place deep records stay what they are.
    pub(super) fn load<V: Value>(&mut self, view: View<'_, V>, root: u32) {
        self.deep.clear();
        self.kept = 0;
        let cells = view.cells_of(root);
        if cells.len() == SLOTS {
            // Most of them; one by one, `fill` below is four times as much work.
            self.slots.iter_mut().zip(cells).for_each(|(slot, cell)| *slot = V::load(cell));
            return;
        }
        for (slots, cell) in self.slots.chunks_exact_mut(SLOTS / cells.len()).zip(cells) {
            slots.fill(V::load(cell));
        }
    }

    /// To be called once before parts of a loaded record are painted: what is deep in the
    /// rest of it is to be copied.
    pub(super) fn keep<V: Value>(&mut self) {
        let bit = |i: usize| u64::from(self.slots[i] & V::DEEP != 0) << i;
        self.kept = (0..SLOTS).fold(0, |kept, i| kept | bit(i));
    }

    /// Gives some /24s a hop; [`Painted::measure`] is to follow.
    pub(super) fn fill(&mut self, slots: Range<usize>, hop: u32) {
        self.slots[slots].fill(hop);
    }

    /// Finds the borders anew.
    pub(super) fn measure(&mut self) {
        let differs = |i: usize| if self.slots[i] == self.slots[i - 1] { 0 } else { i };
        self.borders = (1..SLOTS).fold(0, |borders, i| borders | differs(i));
    }

    /// Writes over the cells of `slots` in a record that readers see, and which has
    /// as many cells as this one: each answers as before or as now.
    pub(super) fn patch<V: Value>(&self, cells: &[V::Cell], slots: Range<usize>) {
        let each = SLOTS / cells.len();
        let (first, end) = (slots.start / each, slots.end.div_ceil(each));
        let values = self.slots[first * each..].iter().step_by(each);
        cells[first..end].iter().zip(values).for_each(|(cell, &value)| V::store(cell, value));
    }

    /// Heap bytes.
    pub(super) fn bytes(&self) -> usize {
        self.deep.capacity() * size_of::<[u32; 256]>() + self.cells.capacity() * 4
    }

    /// The hop of the whole /18, if it has one.
    pub(super) fn uniform(&self) -> Option<u32> {
        (self.borders == 0).then_some(self.slots[0])
    }

    /// Cells of the record proper, a power of two.
    pub(super) fn len(&self) -> usize {
        SLOTS >> (self.borders | SLOTS).trailing_zeros()
    }

    /// The record: its cells, then, each on lines of its own, what is deep. `old` are the
    /// cells from where the record begins that was loaded.
    pub(super) fn cells<V: Value>(&mut self, old: &[V::Cell]) -> &[u32] {
        let (step, cells) = (SLOTS / self.len(), &mut self.cells);
        cells.clear();
        cells.extend(self.slots.iter().step_by(step));
        for slot in 0..if self.deep.is_empty() && self.kept == 0 { 0 } else { SLOTS } {
            let (value, kept) = (self.slots[slot], self.kept >> slot & 1 != 0);
            if value & if kept { V::DEEP } else { DEEP } == 0 {
                continue;
            }
            cells.resize(cells.len().next_multiple_of(V::LINE), 0);
            cells[slot] = V::DEEP | (cells.len() / V::LINE) as u32;
            if kept {
                copy::<V>(&old[(value & !V::DEEP) as usize * V::LINE..], cells);
            } else {
                encode::<V>(&self.deep[(value & !DEEP) as usize], cells);
            }
        }
        cells
    }
}

/// Appends the bits and the values, the last first, of `answers`.
fn encode<V: Value>(answers: &[u32; 256], to: &mut Vec<u32>) {
    let start = to.len();
    to.resize(start + DEEP_WORDS as usize * V::WORD, 0);
    for (i, pair) in answers.windows(2).enumerate().rev() {
        if pair[0] != pair[1] {
            to[start + i / V::WIDTH as usize] |= 1 << (i % V::WIDTH as usize);
            to.push(pair[1]);
        }
    }
    to.push(answers[0]);
}

/// Appends the deep record that `old` begins with.
fn copy<V: Value>(old: &[V::Cell], to: &mut Vec<u32>) {
    let words = DEEP_WORDS as usize * V::WORD;
    let borders: u32 = old[..words].iter().map(|cell| V::load(cell).count_ones()).sum();
    to.extend(old[..words + 1 + borders as usize].iter().map(V::load));
}

/// In a slot that is not kept: the rest is a number of `deep`.
const DEEP: u32 = 1 << 31;
