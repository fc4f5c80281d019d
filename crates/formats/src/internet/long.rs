//! Prefixes longer than /24 and /48 beyond the Internet's few: `long=P`.
//!
//! As location data have them: crowded in few places, a prefix's neighbours beside it. Of
//! 608,000 IPv4 prefixes of such data, 22 % were longer than /24, in 21,000 different /24s.
//! 36 % of those data were /24s; the other 78 % here keep the Internet's lengths, so 49.6 % are.
//! For IPv6 nobody has measured it: subnets and hosts in as few /48s.

use std::collections::BTreeSet;

use lookup::rng::SplitMix64;
use lookup::{Addr, Prefix};

use super::shape::apportion;

/// Adds `count` distinct prefixes longer than /24 to `prefixes`, which are in order and
/// stay so.
pub(super) fn add_v4(prefixes: &mut Vec<Prefix<u32>>, count: usize, rng: &mut SplitMix64) {
    add(prefixes, count, 24, &LENGTHS_V4, rng);
}

/// The same of prefixes longer than /48.
pub(super) fn add_v6(prefixes: &mut Vec<Prefix<u128>>, count: usize, rng: &mut SplitMix64) {
    add(prefixes, count, 48, &LENGTHS_V6, rng);
}

fn add<A: Addr>(
    prefixes: &mut Vec<Prefix<A>>,
    count: usize,
    block: u8,
    lengths: &[(u8, u64)],
    rng: &mut SplitMix64,
) {
    if count == 0 {
        return;
    }
    let mut all: BTreeSet<Prefix<A>> = prefixes.iter().copied().collect();
    // Blocks in what is routed, so that the long ones nest as real ones do.
    let routed: Vec<Prefix<A>> =
        prefixes.iter().copied().filter(|prefix| prefix.len() <= block).collect();
    let draw = |rng: &mut SplitMix64| {
        let within = match routed.is_empty() {
            true => Prefix::covering(A::from_u128(u128::from(rng.below(1 << 31))), 8),
            false => routed[rng.below(routed.len() as u64) as usize],
        };
        inside(within, block, rng)
    };
    let mut blocks: Vec<Prefix<A>> = (0..count.div_ceil(IN_A_BLOCK)).map(|_| draw(rng)).collect();
    let weights: Vec<u64> = lengths.iter().map(|(_, weight)| *weight).collect();
    for (&(len, _), wanted) in lengths.iter().zip(apportion(count as u64, &weights)) {
        let (mut placed, mut tries) = (0, 0);
        while placed < wanted {
            let at = blocks[rng.below(blocks.len() as u64) as usize];
            placed += u64::from(all.insert(inside(at, len, rng)));
            tries += 1;
            if tries > 4 * wanted {
                // The blocks are full of this length.
                blocks.push(draw(rng));
                tries = 0;
            }
        }
    }
    *prefixes = all.into_iter().collect();
}

/// A prefix of `len` at random in `outer`, which is no longer.
fn inside<A: Addr>(outer: Prefix<A>, len: u8, rng: &mut SplitMix64) -> Prefix<A> {
    // 126 bits, of which as many stay as are free.
    let wide = u128::from(rng.below(1 << 62)) << 64 | u128::from(rng.below(1 << 62)) << 2;
    let free = u32::from(A::WIDTH - outer.len()).min(126);
    Prefix::covering(A::from_u128(outer.first().to_u128() + (wide >> (126 - free))), len)
}

/// Lengths of the location data, in tenths of a percent of its prefixes.
const LENGTHS_V4: [(u8, u64); 8] =
    [(25, 9), (26, 10), (27, 17), (28, 34), (29, 61), (30, 32), (31, 13), (32, 41)];

/// Subnets of sites, links, hosts.
const LENGTHS_V6: [(u8, u64); 6] = [(49, 5), (52, 10), (56, 30), (60, 10), (64, 35), (128, 10)];

/// 132,000 in 21,000.
const IN_A_BLOCK: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_inside_is_within_its_block_and_anywhere_in_it() {
        fn check<A: Addr>(block: Prefix<A>, len: u8) {
            let mut rng = SplitMix64(3);
            let found: BTreeSet<_> = (0..400).map(|_| inside(block, len, &mut rng)).collect();
            assert!(found.iter().all(|prefix| prefix.len() == len));
            assert!(found.iter().all(|prefix| block.contains(prefix.first())), "{found:?}");
            // 400 draws out of 16.
            assert_eq!(found.len(), 16);
        }
        check(Prefix::covering(0xcb00_7180_u32, 26), 30);
        check(Prefix::covering(0x2001_0db8_00ff_0000_u128 << 64, 48), 52);
    }
}
