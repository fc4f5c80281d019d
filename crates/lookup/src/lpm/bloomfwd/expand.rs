//! Controlled prefix expansion: which lengths the prefixes of a table are expanded
//! to, and what an expanded prefix becomes.
//!
//! A prefix of length l is kept at the shortest level q >= l, as up to 2^(q - l)
//! keys: those that no longer prefix of the same level owns.

use std::ops::RangeInclusive;

use crate::{Addr, Hop, Prefix, Rib};

/// Prefixes by length.
pub type Counts = [u64; 129];

/// Keys that prefixes of `counts` become at most at `levels` (ascending), without
/// regard to those that longer prefixes own: the paper's cost.
pub fn cost(counts: &Counts, levels: &[u8]) -> u128 {
    let (mut from, mut sum) = (0, 0);
    for &level in levels {
        sum += segment(counts, from, level);
        from = level;
    }
    sum
}

/// The paper's choice (DPCPE): starts with `last`, and adds the length that lowers
/// the cost most until there are `n`.
pub fn greedy(counts: &Counts, n: usize, last: u8) -> Vec<u8> {
    let mut levels = vec![last];
    while levels.len() < n {
        let with = |len: u8| {
            let mut levels = levels.clone();
            levels.insert(levels.partition_point(|&level| level < len), len);
            levels
        };
        let others = (1..last).filter(|len| !levels.contains(len)).map(with);
        match others.min_by_key(|levels| cost(counts, levels)) {
            Some(better) => levels = better,
            None => break,
        }
    }
    levels
}

/// The cheapest levels of all, by dynamic programming over (levels, last level).
pub fn optimal(counts: &Counts, n: usize, last: u8) -> Vec<u8> {
    let ends = usize::from(last) + 1;
    // best[q]: the cost with so many levels, the longest of them q; and before[..][q]
    // the one before it.
    let mut best: Vec<u128> = (0..ends).map(|q| segment(counts, 0, q as u8)).collect();
    let mut before = vec![vec![0_u8; ends]];
    for _ in 1..n.min(usize::from(last)) {
        let mut from = vec![0; ends];
        let next = (0..ends).map(|q| {
            let through = |p: usize| best[p] + segment(counts, p as u8, q as u8);
            let cheapest = (0..q).min_by_key(|&p| through(p)).unwrap_or(0);
            from[q] = cheapest as u8;
            if q == 0 { 0 } else { through(cheapest) }
        });
        best = next.collect();
        before.push(from);
    }
    let (mut levels, mut at) = (Vec::new(), last);
    for from in before.iter().rev() {
        if at == 0 {
            break; // fewer levels do as well
        }
        levels.push(at);
        at = from[usize::from(at)];
    }
    levels.reverse();
    levels
}

/// The cost of expanding all prefixes longer than `from` to `level`.
fn segment(counts: &Counts, from: u8, level: u8) -> u128 {
    let lens = usize::from(from) + 1..=usize::from(level);
    lens.map(|len| u128::from(counts[len]) << (usize::from(level) - len)).sum()
}

/// Calls `each` with the runs of `prefix`'s keys (its parts of `level` bits, by
/// number from the start of the address space) that no longer prefix of up to
/// `level` bits owns.
pub(super) fn owned<A: Addr>(
    rib: &Rib<A>,
    prefix: Prefix<A>,
    level: u8,
    mut each: impl FnMut(RangeInclusive<u64>),
) {
    let number = |addr: A| (addr.to_u128() >> (A::WIDTH - level)) as u64;
    let (mut next, last) = (number(prefix.first()), number(prefix.last()));
    if prefix.len() < level {
        for (child, _) in rib.children(prefix).filter(|(child, _)| child.len() <= level) {
            let first = number(child.first());
            if next < first {
                each(next..=first - 1);
            }
            match number(child.last()).checked_add(1) {
                Some(after) => next = after,
                None => return,
            }
        }
    }
    if next <= last {
        each(next..=last);
    }
}

/// The hop of the longest prefix that covers `prefix` and is longer than `from`.
pub(super) fn owner<A: Addr>(rib: &Rib<A>, prefix: Prefix<A>, from: u8) -> Option<Hop> {
    let longest = rib.covering(prefix).next();
    longest.filter(|(owner, _)| owner.len() > from).map(|(_, hop)| hop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the paper's tables: most at /32 and /48.
    fn counts() -> Counts {
        let mut counts = [0; 129];
        for (len, count) in
            [(20, 14), (28, 162), (29, 5566), (32, 27_003), (36, 9625), (40, 23_716), (44, 26_233)]
        {
            counts[len] = count;
        }
        for (len, count) in [(33, 5817), (47, 9183), (48, 119_755), (56, 60), (64, 205)] {
            counts[len] = count;
        }
        counts
    }

    #[test]
    fn the_optimum_is_no_worse_than_greed_nor_than_any_other_choice() {
        let counts = counts();
        for n in 1..=10 {
            let (greedy, optimal) = (greedy(&counts, n, 64), optimal(&counts, n, 64));
            assert!(greedy.is_sorted() && optimal.is_sorted());
            assert_eq!((greedy.len(), greedy.last()), (n, Some(&64)));
            assert!(optimal.len() <= n && optimal.last() == Some(&64));
            assert!(cost(&counts, &optimal) <= cost(&counts, &greedy), "{n}");
        }
        let all_pairs = (1..64).flat_map(|a| (1..a).map(move |b| [b, a, 64]));
        let least = all_pairs.map(|levels| cost(&counts, &levels)).min().unwrap();
        assert_eq!(cost(&counts, &optimal(&counts, 3, 64)), least);
        assert_eq!(cost(&counts, &optimal(&counts, 64, 64)), counts.iter().sum::<u64>().into());
    }

    #[test]
    fn a_key_has_one_owner() {
        let rib: Rib<u32> = [("10", 8, 1), ("10.16", 12, 2), ("10.16.1", 24, 3)]
            .into_iter()
            .map(|(name, len, hop)| {
                let bytes = name.split('.').map(|byte| byte.parse::<u32>().unwrap());
                let addr = bytes.zip([24, 16, 8]).map(|(byte, shift)| byte << shift).sum();
                (Prefix::covering(addr, len), Hop(hop))
            })
            .collect();
        let runs = |len: u8, level: u8| {
            let mut runs = Vec::new();
            owned(&rib, Prefix::covering(0x0a00_0000, len), level, |run| runs.push(run));
            runs
        };
        assert_eq!(runs(8, 16), [0x0a00..=0x0a0f, 0x0a20..=0x0aff]);
        assert_eq!(runs(8, 12), [0x0a0..=0x0a0, 0x0a2..=0x0af]);
        assert_eq!(runs(8, 8), [0x0a..=0x0a]);
    }
}
