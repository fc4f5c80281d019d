//! One /18 as the writer sees it: from intervals to cells.

use super::SLOTS;
use super::table::{DEEP_WORDS, Value};
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
    cells: Vec<u32>,
}

impl Painted {
    pub(super) fn new() -> Self {
        Painted { slots: [0; SLOTS], borders: 0, deep: Vec::new(), cells: Vec::new() }
    }

    /// Paints a /18 from its intervals; before the first one holds `outside`. The
    /// hop at the end.
    pub(super) fn paint(&mut self, intervals: &[(u32, Hop)], mut outside: u32) -> u32 {
        self.deep.clear();
        self.borders = 0;
        let mut from = 0;
        for of_24 in intervals.chunk_by(|a, b| a.0 >> 8 == b.0 >> 8) {
            let slot = (of_24[0].0 >> 8) as usize % SLOTS;
            let (last_start, last) = of_24[of_24.len() - 1];
            self.slots[from..slot].fill(outside);
            self.borders |= slot;
            from = slot;
            if last_start & 0xff != 0 {
                self.slots[slot] = DEEP | self.deep.len() as u32;
                from += 1;
                self.borders |= from;
                let mut addresses = [outside; 256];
                for &(start, hop) in of_24 {
                    addresses[(start & 0xff) as usize..].fill(hop.0);
                }
                self.deep.push(addresses);
            }
            outside = last.0;
        }
        self.slots[from..].fill(outside);
        outside
    }

    /// The hop of the whole /18, if it has one.
    pub(super) fn uniform(&self) -> Option<u32> {
        (self.borders == 0).then_some(self.slots[0])
    }

    /// Cells of the record proper, a power of two.
    pub(super) fn len(&self) -> usize {
        SLOTS >> (self.borders | SLOTS).trailing_zeros()
    }

    /// The record: its cells, then, each on lines of its own, what is deep.
    pub(super) fn cells<V: Value>(&mut self) -> &[u32] {
        let (step, cells) = (SLOTS / self.len(), &mut self.cells);
        cells.clear();
        cells.extend(self.slots.iter().step_by(step));
        for slot in 0..if self.deep.is_empty() { 0 } else { SLOTS } {
            if self.slots[slot] & DEEP != 0 {
                cells.resize(cells.len().next_multiple_of(V::LINE), 0);
                cells[slot] = V::DEEP | (cells.len() / V::LINE) as u32;
                encode::<V>(&self.deep[(self.slots[slot] & !DEEP) as usize], cells);
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

/// In a slot: the rest is a number of `deep`.
const DEEP: u32 = 1 << 31;
