//! One /18 as values: what the writer paints, and how it is encoded.

use super::table::Value;
use super::{REST_BITS, ROOT_BITS, SHIFT_BITS, SLOTS, range};
use crate::{Prefix, Rib};

/// The answers inside one /18, painted from the routes.
pub(super) struct Painted {
    /// One answer a /24; 0 for nothing but the default route.
    slots: [u32; SLOTS],
    /// For /24s that hold longer prefixes: which, and an answer an address.
    deep: Vec<(u8, [u32; 256])>,
}

/// Where a record starts is left to the allocator.
pub(super) enum Encoded {
    /// Every address has this answer.
    Uniform(u32),
    /// 2^(14 - shift) values, and what follows them; `values` of the buffer.
    Array { shift: u32 },
}

impl Painted {
    /// Paints root slot `i`. Prefixes come by address, then length: a longer one
    /// paints over the shorter one it lies in.
    pub(super) fn new(rib: &Rib<u32>, i: usize) -> Painted {
        let whole = Prefix::covering(*range(i).start(), ROOT_BITS as u8);
        let base = rib.covering(whole).next().filter(|(prefix, _)| prefix.len() > 0);
        let mut painted =
            Painted { slots: [base.map_or(0, |(_, hop)| hop.0); SLOTS], deep: Vec::new() };
        for (prefix, hop) in rib.inside(range(i)).filter(|(p, _)| p.len() > ROOT_BITS as u8) {
            painted.paint(prefix, hop.0);
        }
        painted
    }

    fn paint(&mut self, prefix: Prefix<u32>, hop: u32) {
        let (first, last) = (prefix.first(), prefix.last());
        let slot = |addr: u32| (addr >> 8) as usize % SLOTS;
        if prefix.len() <= 24 {
            return self.slots[slot(first)..=slot(last)].fill(hop);
        }
        let at = slot(first) as u8;
        if self.deep.last().is_none_or(|(slot, _)| *slot != at) {
            self.deep.push((at, [self.slots[usize::from(at)]; 256]));
        }
        let (_, values) = self.deep.last_mut().expect("it was just pushed");
        values[(first & 0xff) as usize..=(last & 0xff) as usize].fill(hop);
    }

    /// Encodes into `values` (cleared first).
    pub(super) fn encode<V: Value>(&mut self, values: &mut Vec<u32>) -> Encoded {
        values.clear();
        self.deep.retain(|(slot, answers)| {
            let same = answers.iter().all(|&answer| answer == answers[0]);
            if same {
                self.slots[usize::from(*slot)] = answers[0];
            }
            !same
        });
        if !self.deep.is_empty() {
            self.encode_deep::<V>(values);
            return Encoded::Array { shift: REST_BITS - 6 };
        }
        let g = stride(&self.slots);
        if g == 0 {
            return Encoded::Uniform(self.slots[0]);
        }
        values.extend(self.slots.iter().step_by(SLOTS >> g));
        Encoded::Array { shift: REST_BITS - g }
    }

    fn encode_deep<V: Value>(&self, values: &mut Vec<u32>) {
        values.extend(self.slots);
        let mut map = 0_u64;
        for (slot, _) in &self.deep {
            map |= 1 << slot;
            values[usize::from(*slot)] = V::ESCAPE;
        }
        push_word::<V>(values, map, 64);
        let mut offset = values.len() + self.deep.len() * 32 / V::WIDTH;
        let strides: Vec<_> = self.deep.iter().map(|(_, answers)| stride(answers)).collect();
        for g in &strides {
            push_word::<V>(values, (offset as u64) << SHIFT_BITS | u64::from(8 - g), 32);
            offset += 1 << g;
        }
        for ((_, answers), g) in self.deep.iter().zip(&strides) {
            values.extend(answers.iter().step_by(256 >> g));
        }
    }
}

/// The least g such that 2^g equal parts of `answers` have one answer each.
fn stride<const N: usize>(answers: &[u32; N]) -> u32 {
    // The lowest set bit of a border's place is the largest part that ends there.
    let part = (1..N).fold(N, |part, i| {
        if answers[i] == answers[i - 1] { part } else { part.min(i & i.wrapping_neg()) }
    });
    (N / part).trailing_zeros()
}

/// `bits` bits, low part first, in as many values as they need.
fn push_word<V: Value>(values: &mut Vec<u32>, word: u64, bits: usize) {
    let mask = (1_u64 << V::WIDTH) - 1;
    values.extend((0..bits / V::WIDTH).map(|i| (word >> (i * V::WIDTH) & mask) as u32));
}
