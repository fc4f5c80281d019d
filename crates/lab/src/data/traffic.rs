//! Destinations: what is looked up decides how fast a lookup is.

use std::fmt;

use lookup::lpm::Intervals;
use lookup::{Addr, Hop, Prefix};

use super::Rng;

/// How destinations are drawn.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Traffic {
    /// IPv4: every unicast address equally likely. IPv6: every /32 that holds or
    /// lies in a route equally likely, any address in it: uniform addresses would
    /// nearly all miss, and flatter every trie.
    Random,
    /// Every prefix equally likely, any address in it.
    Prefix,
    /// 100,000 addresses drawn as in [`Traffic::Prefix`], the k-th with
    /// probability proportional to 1/k.
    Zipf,
    /// Addresses as in [`Traffic::Random`], each 16 times in a row: long flows.
    Repeated,
    /// Every address of the family equally likely.
    Uniform,
    /// As [`Traffic::Prefix`], but in the table's order: neighbours follow each other.
    Swept,
    /// So many of a hundred addresses as in [`Traffic::Prefix`], the others without
    /// a route (a default route does not count).
    Matching(u8),
}

impl Traffic {
    /// The four that every comparison has.
    pub const ALL: [Traffic; 4] =
        [Traffic::Random, Traffic::Prefix, Traffic::Zipf, Traffic::Repeated];

    /// `n` destinations for `routes`, the same for the same seed. A table without
    /// routes gets random addresses whatever the kind.
    pub fn draw<A: Addr>(self, routes: &[(Prefix<A>, Hop)], n: usize, seed: u64) -> Vec<A> {
        let mut rng = Rng::new(seed ^ self.salt() << 56);
        if routes.is_empty() {
            return (0..n).map(|_| A::from_u128(rng.wide())).collect();
        }
        let inside = |rng: &mut Rng| within(&routes[rng.below(routes.len())].0, rng);
        match self {
            Traffic::Random => random(routes, n, &mut rng),
            Traffic::Prefix => (0..n).map(|_| inside(&mut rng)).collect(),
            Traffic::Zipf => {
                let targets: Vec<A> = (0..ZIPF_TARGETS).map(|_| inside(&mut rng)).collect();
                zipf(&targets, n, &mut rng)
            }
            Traffic::Repeated => {
                let some = random(routes, n.div_ceil(REPEATS), &mut rng);
                (0..n).map(|i| some[i / REPEATS]).collect()
            }
            Traffic::Uniform => (0..n).map(|_| A::from_u128(rng.wide())).collect(),
            Traffic::Swept => {
                let nth = |i: usize| (i as u128 * routes.len() as u128 / n as u128) as usize;
                (0..n).map(|i| within(&routes[nth(i)].0, &mut rng)).collect()
            }
            Traffic::Matching(percent) => matching(routes, n, percent, &mut rng),
        }
    }

    /// Kinds draw different numbers from one seed.
    fn salt(self) -> u64 {
        match self {
            Traffic::Random => 0,
            Traffic::Prefix => 1,
            Traffic::Zipf => 2,
            Traffic::Repeated => 3,
            Traffic::Uniform => 4,
            Traffic::Swept => 5,
            Traffic::Matching(_) => 6,
        }
    }
}

impl fmt::Display for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Traffic::Random => "random",
            Traffic::Prefix => "prefix",
            Traffic::Zipf => "zipf",
            Traffic::Repeated => "repeated",
            Traffic::Uniform => "uniform",
            Traffic::Swept => "swept",
            Traffic::Matching(percent) => return write!(f, "matching-{percent}"),
        })
    }
}

/// An address that this prefix covers.
fn within<A: Addr>(prefix: &Prefix<A>, rng: &mut Rng) -> A {
    prefix.first().or(A::from_u128(rng.wide()).and(prefix.host_mask()))
}

fn random<A: Addr>(routes: &[(Prefix<A>, Hop)], n: usize, rng: &mut Rng) -> Vec<A> {
    if A::WIDTH == 32 {
        // 1.0.0.0 to 223.255.255.255 without 127/8.
        let unicast = |rng: &mut Rng| loop {
            let dst = (rng.next() >> 32) as u32;
            if (1..=223).contains(&(dst >> 24)) && dst >> 24 != 127 {
                return A::from_u128(u128::from(dst));
            }
        };
        return (0..n).map(|_| unicast(rng)).collect();
    }
    let blocks = routed_blocks(routes);
    // Blocks before each range, to draw one of all with equal probability.
    let ends: Vec<u64> = blocks
        .iter()
        .scan(0, |sum, (first, last)| {
            *sum += last - first + 1;
            Some(*sum)
        })
        .collect();
    let total = ends.last().copied().unwrap_or(1);
    let draw = |rng: &mut Rng| {
        let pick = ((u128::from(rng.next()) * u128::from(total)) >> 64) as u64;
        let i = ends.partition_point(|end| *end <= pick);
        let before = if i == 0 { 0 } else { ends[i - 1] };
        let block = blocks[i].0 + (pick - before);
        A::from_u128(u128::from(block) << 96 | rng.wide() >> 32)
    };
    (0..n).map(|_| draw(rng)).collect()
}

fn matching<A: Addr>(routes: &[(Prefix<A>, Hop)], n: usize, percent: u8, rng: &mut Rng) -> Vec<A> {
    let routed: Vec<_> = routes.iter().filter(|(prefix, _)| prefix.len() > 0).copied().collect();
    let flat = Intervals::new(routed.iter().copied());
    if routed.is_empty() {
        return random(routes, n, rng);
    }
    // IPv6 misses lie in global unicast space (2000::/3), where a table has its routes.
    let elsewhere = |rng: &mut Rng| match A::WIDTH {
        32 => random::<A>(&[], 1, rng)[0],
        _ => A::from_u128(rng.wide() >> 3 | 1 << 125),
    };
    let draw = |rng: &mut Rng| {
        if rng.below(100) >= usize::from(percent) {
            // In a table that covers everything there is none: a matching one then.
            let miss = (0..1000).map(|_| elsewhere(rng)).find(|dst| flat.lookup(*dst).is_none());
            if let Some(dst) = miss {
                return dst;
            }
        }
        within(&routed[rng.below(routed.len())].0, rng)
    };
    (0..n).map(|_| draw(rng)).collect()
}

/// The /32s of the IPv6 space that hold or lie in a route, as ranges of their
/// numbers. Routes shorter than /16 count as one /32: they are defaults.
fn routed_blocks<A: Addr>(routes: &[(Prefix<A>, Hop)]) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for (prefix, _) in routes {
        let number = |addr: A| (addr.to_u128() >> 96) as u64;
        let first = number(prefix.first());
        let last = if prefix.len() < 16 { first } else { number(prefix.last()) };
        match ranges.last_mut() {
            Some(range) if first <= range.1 + 1 => range.1 = range.1.max(last),
            _ => ranges.push((first, last)),
        }
    }
    ranges
}

fn zipf<A: Addr>(targets: &[A], n: usize, rng: &mut Rng) -> Vec<A> {
    let sums: Vec<f64> = (1..=targets.len())
        .scan(0.0, |sum, rank| {
            *sum += 1.0 / rank as f64;
            Some(*sum)
        })
        .collect();
    let total = sums.last().copied().unwrap_or(1.0);
    let draw = |rng: &mut Rng| {
        let at = rng.unit() * total;
        targets[sums.partition_point(|sum| *sum <= at).min(targets.len() - 1)]
    };
    (0..n).map(|_| draw(rng)).collect()
}

const ZIPF_TARGETS: usize = 100_000;
const REPEATS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn routes6() -> Vec<(Prefix<u128>, Hop)> {
        let prefix = |text: &str, len| {
            (Prefix::new(u128::from_ip(text.parse().unwrap()), len).unwrap(), Hop(1))
        };
        vec![prefix("::", 0), prefix("2001:db8::", 31), prefix("2001:db8::", 48)]
    }

    #[test]
    fn prefix_traffic_has_a_route_and_is_repeatable() {
        let routes = routes6();
        for traffic in [Traffic::Prefix, Traffic::Zipf] {
            let keys = traffic.draw(&routes, 1000, 1);
            assert!(keys.iter().all(|key| routes.iter().any(|(prefix, _)| prefix.contains(*key))));
            assert_eq!(keys, traffic.draw(&routes, 1000, 1));
            assert_ne!(keys, traffic.draw(&routes, 1000, 2));
        }
    }

    #[test]
    fn random_ipv6_stays_inside_routed_space() {
        let keys = Traffic::Random.draw(&routes6(), 1000, 1);
        let block = |key: &u128| (key >> 96) as u32;
        let known = [0, 0x2001_0db8, 0x2001_0db9];
        assert!(keys.iter().all(|key| known.contains(&block(key))));
        assert!(known.iter().all(|k| keys.iter().filter(|key| block(key) == *k).count() > 250));
    }

    #[test]
    fn so_many_match() {
        let route = |first, len| (Prefix::new(first, len).unwrap(), Hop(1));
        let routes = [route(0, 0), route(0x0a00_0000_u32, 8), route(0x1400_0000, 8)];
        let hits = |percent| {
            let keys = Traffic::Matching(percent).draw(&routes, 10_000, 1);
            keys.iter().filter(|key| matches!(*key >> 24, 10 | 20)).count()
        };
        assert!(hits(0) == 0 && (7700..8300).contains(&hits(80)), "{} {}", hits(0), hits(80));
    }

    #[test]
    fn swept_traffic_follows_the_table() {
        let routes: Vec<_> = (0..100).map(|i| (Prefix::new(i << 24, 8).unwrap(), Hop(1))).collect();
        let keys: Vec<u32> = Traffic::Swept.draw(&routes, 1000, 1);
        assert!(keys.is_sorted_by_key(|key| key >> 24) && keys[999] >> 24 == 99);
    }

    #[test]
    fn random_ipv4_is_unicast() {
        let route = (Prefix::new(0x0a00_0000_u32, 8).unwrap(), Hop(1));
        let keys = Traffic::Random.draw(&[route], 10_000, 1);
        assert!(keys.iter().all(|key| !matches!(key >> 24, 0 | 127 | 224..)));
    }

    #[test]
    fn zipf_prefers_few_and_repeated_repeats() {
        let route = (Prefix::<u32>::all(), Hop(1));
        let mut keys = Traffic::Zipf.draw(&[route], 10_000, 1);
        keys.sort_unstable();
        let most = keys.chunk_by(|a, b| a == b).map(<[u32]>::len).max().unwrap();
        assert!((600..1100).contains(&most), "{most}"); // 1 / H(100,000) = 8.3 %
        let keys = Traffic::Repeated.draw(&[route], 100, 1);
        assert!(keys[..16].iter().all(|key| *key == keys[0]) && keys[16] != keys[0]);
    }
}
