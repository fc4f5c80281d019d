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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lpm::oracle::Rng;
    use crate::lpm::rutter6::table::{Narrow, Wide};

    fn spaced(count: u32, by: u32) -> Vec<Answer> {
        (0..count).map(|i| (i << by, i % 7)).collect()
    }

    #[test]
    fn an_array_grows_where_it_saves_super_nodes() {
        // A node has room for 176 (wide: 128), a SUPER node for 16 times as many.
        assert_eq!(choose_bits::<Narrow>(&spaced(176, 23)), 1);
        assert_eq!(choose_bits::<Narrow>(&spaced(177, 23)), 2);
        assert_eq!(choose_bits::<Wide>(&spaced(128, 23)), 1);
        assert_eq!(choose_bits::<Wide>(&spaced(129, 23)), 2);
        // 600 steps saved are worth 8 KiB of cells, not 16; so are 3,000 twice.
        assert_eq!(choose_bits::<Narrow>(&spaced(600, 14)), 11);
        assert_eq!(choose_bits::<Narrow>(&spaced(600, 13)), 1);
        assert_eq!(choose_bits::<Narrow>(&spaced(3000, 9)), 12);
        assert_eq!(choose_bits::<Narrow>(&spaced(3000, 8)), 13);
        assert_eq!(choose_bits::<Narrow>(&spaced(3000, 4)), 1);
    }

    /// The value at `x`.
    fn at(answers: &[Answer], x: u32) -> u32 {
        answers[answers.partition_point(|&(start, _)| start <= x) - 1].1
    }

    #[test]
    fn cells_share_a_tree_as_long_as_it_has_room() {
        for seed in 0..60 {
            let (mut rng, bits) = (Rng::new(seed), 1 + seed as u32 % 9);
            let mut starts: Vec<u32> = (0..rng.below(3000)).map(|_| rng.next() as u32).collect();
            starts.extend([0, 1 << 31, 3 << 20]);
            starts.sort_unstable();
            starts.dedup();
            let answers: Vec<Answer> = starts.iter().map(|&x| (x, rng.below(9))).collect();
            let last = (1 << bits) - 1;
            let groups = groups::<Narrow>(bits, (0, last), &answers);
            let mut next = 0;
            for (i, group) in groups.iter().enumerate() {
                assert_eq!(group.first, next);
                next = group.last + 1;
                let start = group.first << (X_BITS - bits);
                assert_eq!(group.answers[0].0, start, "{group:?}");
                let one_cell = group.answers.iter().all(|a| cell(a.0, bits) == group.first);
                assert!(group.answers.len() <= 154 + 1 || one_cell);
                let within = |x: u32| (group.first..=group.last).contains(&cell(x, bits));
                for &x in starts.iter().filter(|&&x| within(x)) {
                    assert_eq!(at(&group.answers, x), at(&answers, x), "{x:x}");
                }
                // What comes next did not fit.
                let Some(next) = groups.get(i + 1) else { continue };
                let of_cell = answers.iter().filter(|a| cell(a.0, bits) == next.first).count();
                assert!(group.answers.len() + of_cell > 154, "{group:?} {next:?}");
            }
            assert_eq!(next, last + 1);
        }
    }
}
