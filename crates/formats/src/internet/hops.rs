//! Which next hop each generated prefix has.

use lookup::rng::SplitMix64;
use lookup::{Addr, Hop, Prefix};

use super::shape::{LIKE_PARENT, apportion};

/// Gives each of `prefixes`, in (address, length) order, one of `count` next
/// hops, numbered from `first`.
///
/// Four hops take 90 %, as on routers with few peers. Neighbours in address
/// space often share a hop, since they are one network's; that is what lets real
/// tables flatten to half as many runs as prefixes.
pub(super) fn assign<A: Addr>(
    prefixes: Vec<Prefix<A>>,
    count: u32,
    first: u32,
    rng: &mut SplitMix64,
) -> impl Iterator<Item = (Prefix<A>, Hop)> {
    let skew = Skew::new(count);
    // Covering prefixes, outermost first: their hop, and the last other hop that
    // was drawn below them.
    let mut covering: Vec<(Prefix<A>, u32, Option<u32>)> = Vec::new();
    let mut last = skew.draw(rng);
    prefixes.into_iter().map(move |prefix| {
        while covering.pop_if(|(outer, ..)| !outer.covers(&prefix)).is_some() {}
        let hop = match covering.last_mut() {
            None if rng.below(100) < LIKE_NEIGHBOUR => last,
            None => skew.draw(rng),
            Some((_, hop, _)) if count == 1 || rng.below(100) < LIKE_PARENT => *hop,
            Some((_, _, Some(other))) if rng.below(100) < LIKE_SIBLING => *other,
            Some((_, hop, other)) => {
                let drawn = skew.draw_other(*hop, rng);
                *other = Some(drawn);
                drawn
            }
        };
        if covering.is_empty() {
            last = hop;
        }
        covering.push((prefix, hop, None));
        (prefix, Hop(first + hop))
    })
}

/// A draw of hops 0, 1, … with falling probability.
struct Skew {
    /// Sums of the weights up to each hop.
    sums: Vec<u64>,
}

impl Skew {
    fn new(count: u32) -> Self {
        let top = &TOP[..TOP.len().min(count as usize)];
        let rest: Vec<u64> = (1..=u64::from(count) - top.len() as u64).map(|i| SCALE / i).collect();
        let rest = apportion(REST, &rest);
        // A weight of at least 1, so that each hop can be drawn.
        let weights = top.iter().copied().chain(rest.into_iter().map(|weight| weight.max(1)));
        let sums = weights.scan(0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        });
        Skew { sums: sums.collect() }
    }

    fn draw(&self, rng: &mut SplitMix64) -> u32 {
        let at = rng.below(self.sums.last().copied().unwrap_or(1));
        self.sums.partition_point(|&sum| sum <= at) as u32
    }

    /// Any hop but `hop`; there must be two.
    fn draw_other(&self, hop: u32, rng: &mut SplitMix64) -> u32 {
        loop {
            let drawn = self.draw(rng);
            if drawn != hop {
                return drawn;
            }
        }
    }
}

/// The `i`th next hop of IPv4, from 1: a documentation address (RFC 5737), or
/// where those are too few one of the benchmarking range (RFC 2544).
pub(super) fn name_v4(i: u32, count: u32) -> String {
    let base = if count <= 254 { 0xc000_0200 } else { 0xc612_0000 };
    core::net::Ipv4Addr::from(base + i).to_string()
}

/// The `i`th next hop of IPv6, from 1: a documentation address (RFC 3849).
pub(super) fn name_v6(i: u32) -> String {
    core::net::Ipv6Addr::from((0x2001_0db8_u128 << 96) + u128::from(i)).to_string()
}

/// Shares of the first hops of [`SCALE`]; 10 % are left for the others, which
/// fall as 1/i.
const TOP: [u64; 4] = [400_000_000, 250_000_000, 150_000_000, 100_000_000];
const REST: u64 = 100_000_000;
const SCALE: u64 = 1_000_000_000;

/// Percent of the prefixes inside no other that have the hop of the one before.
const LIKE_NEIGHBOUR: u64 = 85;

/// Percent of the nested prefixes with another hop than their parent's that have
/// that of the last such sibling.
const LIKE_SIBLING: u64 = 85;
