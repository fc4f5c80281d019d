//! One /18 as the writer sees it: from intervals to cells.

use super::SLOTS;
use super::table::{DEEP_WORDS, PLACE, Value};
use crate::Hop;

/// The answers inside one /18.
pub(super) struct Painted {
    /// One a /24: a hop, or [`PLACE`] and a number of `deep`.
    slots: [u32; SLOTS],
    /// One an address, for /24s that are not uniform.
    deep: Vec<[u32; 256]>,
}

impl Painted {
    pub(super) fn new() -> Self {
        Painted { slots: [0; SLOTS], deep: Vec::new() }
    }

    /// Paints a /18 from its intervals; before the first one holds `outside`.
    pub(super) fn paint(&mut self, intervals: &[(u32, Hop)], mut outside: u32) {
        self.deep.clear();
        self.slots.fill(outside);
        for of_24 in intervals.chunk_by(|a, b| a.0 >> 8 == b.0 >> 8) {
            let slot = (of_24[0].0 >> 8) as usize % SLOTS;
            let last = of_24[of_24.len() - 1].1.0;
            if of_24[of_24.len() - 1].0 & 0xff == 0 {
                self.slots[slot..].fill(last); // the only one: starts ascend
            } else {
                self.slots[slot] = PLACE | self.deep.len() as u32;
                self.slots[slot + 1..].fill(last);
                let mut addresses = [outside; 256];
                for &(start, hop) in of_24 {
                    addresses[(start & 0xff) as usize..].fill(hop.0);
                }
                self.deep.push(addresses);
            }
            outside = last;
        }
    }

    /// The hop of the whole /18, if it has one.
    pub(super) fn uniform(&self) -> Option<u32> {
        self.slots.iter().all(|&slot| slot == self.slots[0]).then_some(self.slots[0])
    }

    /// Appends the record to `record`, and what is deep to `deep`, each deep
    /// record on lines of its own.
    pub(super) fn encode<V: Value>(&self, record: &mut Vec<u32>, deep: &mut Vec<u32>) {
        encode_map::<V>(&self.slots, 1, record, |value| {
            if value & PLACE == 0 {
                return value;
            }
            let place = (deep.len() / V::ENTRIES) as u32;
            let addresses = &self.deep[(value & !PLACE) as usize];
            encode_map::<V>(addresses, DEEP_WORDS as usize, deep, |hop| hop);
            deep.resize(deep.len().next_multiple_of(V::ENTRIES), 0);
            PLACE | place
        });
    }
}

/// Appends the bits and the values, the last first, of `answers`.
fn encode_map<V: Value>(
    answers: &[u32],
    words: usize,
    to: &mut Vec<u32>,
    mut value: impl FnMut(u32) -> u32,
) {
    let start = to.len();
    to.resize(start + words * V::MAP_CELLS, 0);
    for (i, pair) in answers.windows(2).enumerate().rev() {
        if pair[0] != pair[1] {
            to[start + i / V::WIDTH as usize] |= 1 << (i % V::WIDTH as usize);
            to.push(value(pair[1]));
        }
    }
    to.push(value(answers[0]));
}
