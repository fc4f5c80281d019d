//! What is known of a number: between which two, unsigned, it lies.

use crate::bpf::insn::{
    ADD, AND, ARSH, DIV, JEQ, JGE, JGT, JLE, JLT, JNE, JSGE, JSGT, JSLE, JSLT, LSH, MOD, MUL, OR,
    RSH, SUB, XOR,
};

/// The numbers from `min` to `max`, both among them; `min <= max`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::bpf) struct Range {
    pub(in crate::bpf) min: u64,
    pub(in crate::bpf) max: u64,
}

impl Range {
    pub(super) const ALL: Range = Range { min: 0, max: u64::MAX };

    pub(super) fn exact(value: u64) -> Range {
        Range { min: value, max: value }
    }

    /// What `bytes` bytes can hold.
    pub(super) fn of_bytes(bytes: usize) -> Range {
        Range { min: 0, max: u64::MAX >> (64 - 8 * bytes.clamp(1, 8)) }
    }

    pub(super) fn join(self, other: Range) -> Range {
        Range { min: self.min.min(other.min), max: self.max.max(other.max) }
    }

    /// The lower half of the number.
    pub(super) fn low(self) -> Range {
        if self.max <= LOW { self } else { Range { min: 0, max: LOW } }
    }

    /// As signed numbers, lowest and highest; `None` where both signs occur.
    pub(super) fn signed(self) -> Option<(i64, i64)> {
        let same = (self.min as i64) < 0 || (self.max as i64) >= 0;
        same.then_some((self.min as i64, self.max as i64)).filter(|(min, max)| min <= max)
    }

    /// The number after an operation of 64 bits. A shift's bits are fewer than 64.
    pub(super) fn after(self, op: u8, by: Range) -> Range {
        let range = match op {
            ADD => self.min.checked_add(by.min).zip(self.max.checked_add(by.max)),
            SUB => self.min.checked_sub(by.max).zip(self.max.checked_sub(by.min)),
            MUL => self.min.checked_mul(by.min).zip(self.max.checked_mul(by.max)),
            DIV => self.min.checked_div(by.max).zip(self.max.checked_div(by.min)),
            MOD => by.max.checked_sub(1).map(|most| (0, most.min(self.max))),
            AND => Some((0, self.max.min(by.max))),
            OR => Some((self.min.max(by.min), ones(self.max | by.max))),
            XOR => Some((0, ones(self.max | by.max))),
            LSH if by.max < 64 && self.max.leading_zeros() >= by.max as u32 => {
                Some((self.min << by.min, self.max << by.max))
            }
            RSH if by.max < 64 => Some((self.min >> by.max, self.max >> by.min)),
            RSH => Some((0, self.max)),
            ARSH if by.max < 64 && self.max <= i64::MAX as u64 => {
                Some((self.min >> by.max, self.max >> by.min))
            }
            _ => None,
        };
        range.map_or(Range::ALL, |(min, max)| Range { min, max })
    }

    /// What is known of two numbers where a comparison holds; as before, where it cannot.
    pub(super) fn where_holds(op: u8, a: Range, b: Range) -> (Range, Range) {
        let plain = a.max <= i64::MAX as u64 && b.max <= i64::MAX as u64;
        let found = match op {
            JEQ => {
                let both = between(a.min.max(b.min), a.max.min(b.max));
                both.zip(both)
            }
            JNE => without(a, b).zip(without(b, a)),
            JGT => less(b, a, 1).map(|(b, a)| (a, b)),
            JGE => less(b, a, 0).map(|(b, a)| (a, b)),
            JLT => less(a, b, 1),
            JLE => less(a, b, 0),
            JSGT if plain => less(b, a, 1).map(|(b, a)| (a, b)),
            JSGE if plain => less(b, a, 0).map(|(b, a)| (a, b)),
            JSLT if plain => less(a, b, 1),
            JSLE if plain => less(a, b, 0),
            _ => None,
        };
        found.unwrap_or((a, b))
    }
}

/// The comparison that holds where this one does not.
pub(super) fn opposite(op: u8) -> Option<u8> {
    Some(match op {
        JEQ => JNE,
        JNE => JEQ,
        JGT => JLE,
        JLE => JGT,
        JGE => JLT,
        JLT => JGE,
        JSGT => JSLE,
        JSLE => JSGT,
        JSGE => JSLT,
        JSLT => JSGE,
        _ => return None,
    })
}

fn between(min: u64, max: u64) -> Option<Range> {
    (min <= max).then_some(Range { min, max })
}

/// `a + by <= b`.
fn less(a: Range, b: Range, by: u64) -> Option<(Range, Range)> {
    let a_max = a.max.min(b.max.checked_sub(by)?);
    let b_min = b.min.max(a.min.checked_add(by)?);
    between(a.min, a_max).zip(between(b_min, b.max))
}

/// `a` without what `b` certainly is.
fn without(a: Range, b: Range) -> Option<Range> {
    match b.min == b.max {
        true if a.min == b.min => between(a.min.checked_add(1)?, a.max),
        true if a.max == b.min => between(a.min, a.max.checked_sub(1)?),
        _ => Some(a),
    }
}

/// As many ones as the number has bits.
fn ones(number: u64) -> u64 {
    u64::MAX.checked_shr(number.leading_zeros()).unwrap_or(0)
}

const LOW: u64 = u32::MAX as u64;
