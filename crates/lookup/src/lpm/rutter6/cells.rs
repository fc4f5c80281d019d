//! How a /16 is laid out: how many bits its cells take, and which of them share
//! a tree.

use super::X_BITS;
use super::table::Value;
use super::tree::{Answer, Trees};

/// Cells `first..=last`, and the answers of the tree they share.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Group {
    pub(super) first: u32,
    pub(super) last: u32,
    pub(super) answers: Vec<Answer>,
}

/// The bits for which array and steps over SUPER nodes together cost least.
pub(super) fn choose_bits<V: Value>(answers: &[Answer]) -> u32 {
    let cost = |&bits: &u32| {
        let same_cell = |a: &Answer, b: &Answer| cell(a.0, bits) == cell(b.0, bits);
        let beyond =
            |height, count: usize| if count > Trees::<V>::room(height) { count } else { 0 };
        let steps = answers.chunk_by(same_cell).map(<[Answer]>::len);
        let steps: usize = steps.map(|count| beyond(1, count) + beyond(2, count)).sum();
        (4 << bits) + STEP_BYTES * steps
    };
    (1..=16).min_by_key(cost).expect("there are sixteen")
}

/// Divides the cells `first..=last` of 2^`bits` into groups. The answers start
/// where the first cell does.
pub(super) fn groups<V: Value>(
    bits: u32,
    (mut first, last): (u32, u32),
    answers: &[Answer],
) -> Vec<Group> {
    let mut groups = Vec::new();
    let mut here: Vec<Answer> = Vec::new();
    for of_cell in answers.chunk_by(|a, b| cell(a.0, bits) == cell(b.0, bits)) {
        let at = cell(of_cell[0].0, bits);
        if at > first && here.len() + of_cell.len() > fill::<V>() {
            let start = at << (X_BITS - bits);
            let carried = here.last().map(|&(_, value)| (start, value));
            groups.push(Group { first, last: at - 1, answers: std::mem::take(&mut here) });
            first = at;
            here.extend(carried.filter(|_| of_cell[0].0 > start));
        }
        here.extend_from_slice(of_cell);
    }
    groups.push(Group { first, last, answers: here });
    groups
}

pub(super) fn cell(x: u32, bits: u32) -> u32 {
    x >> (X_BITS - bits)
}

/// Answers of a group at most, if several cells share it: seven eighths of the
/// room of a node.
fn fill<V: Value>() -> usize {
    Trees::<V>::room(1) / 8 * 7
}

/// Bytes of array that saving one border a SUPER node is worth. From 4 to 48 all
/// is alike (study).
const STEP_BYTES: usize = 16;
