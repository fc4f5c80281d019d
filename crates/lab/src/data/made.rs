//! Tables that the papers describe by their distributions, and changes to tables.
//!
//! | name         | table                                                         |
//! |--------------|---------------------------------------------------------------|
//! | `rv-linx:N`  | N IPv6 prefixes, lengths as RouteViews' LINX archive has them |
//! | `dt-ip6:N`   | N IPv6 prefixes, lengths as Deutsche Telekom's looking glass  |
//! | `flat6:N`    | N IPv6 prefixes, all of them /64                              |
//! | `…\|keep=N`  | every N-th prefix of `…`, at random                           |
//! | `…\|long=P`  | as many random /25 to /32 as P % of the IPv4 prefixes of `…`  |
//!
//! The paper on CuVPP (§V-A) gives the largest shares of both distributions and
//! the number of lengths; the rest is spread evenly over plausible lengths. As
//! there, prefixes are random numbers: nothing is clustered.

use std::collections::BTreeMap;

use lookup::{Addr, Hop, Prefix};

use super::Rng;

/// The IPv6 routes that `name` describes; `None` where it is another kind of name.
pub fn routes(name: &str) -> Option<Vec<(Prefix<u128>, Hop)>> {
    let (kind, count) = name.split_once(':')?;
    let lengths = match kind {
        "rv-linx" => RV_LINX,
        "dt-ip6" => DT_IP6,
        "flat6" => &[(64, 1.0)],
        _ => return None,
    };
    Some(drawn(lengths, count.parse().ok()?))
}

/// Changes the routes of a table as `word` says.
pub(super) fn change(
    ipv4: &mut Vec<(Prefix<u32>, Hop)>,
    ipv6: &mut Vec<(Prefix<u128>, Hop)>,
    word: &str,
) -> Result<(), String> {
    let unknown = || format!("`{word}` is no change of a table");
    let (name, value) = word.split_once('=').ok_or_else(unknown)?;
    let value: usize = value.parse().map_err(|_| unknown())?;
    let mut rng = Rng::new(value as u64);
    match name {
        "keep" if value > 0 => {
            ipv4.retain(|_| rng.below(value) == 0);
            ipv6.retain(|_| rng.below(value) == 0);
        }
        "long" => {
            let wanted = ipv4.len() * value / 100;
            let hops: Vec<Hop> = ipv4.iter().map(|(_, hop)| *hop).collect();
            let mut all: BTreeMap<_, _> = ipv4.drain(..).collect();
            let most = all.len() + wanted;
            while !hops.is_empty() && all.len() < most {
                let first = ((1 + rng.below(223)) as u32) << 24 | (rng.next() >> 40) as u32;
                let prefix = Prefix::covering(first, 25 + rng.below(8) as u8);
                all.entry(prefix).or_insert(hops[rng.below(hops.len())]);
            }
            *ipv4 = all.into_iter().collect();
        }
        _ => return Err(unknown()),
    }
    Ok(())
}

/// `count` prefixes in global unicast space (2000::/3), lengths by weight.
fn drawn(lengths: &[(u8, f64)], count: usize) -> Vec<(Prefix<u128>, Hop)> {
    let total: f64 = lengths.iter().map(|(_, weight)| weight).sum();
    let mut rng = Rng::new(1);
    let mut routes = BTreeMap::new();
    for &(len, weight) in lengths {
        // No more than fit: a handful of short lengths run out of prefixes.
        let room = 1_u64 << (len - 3).min(40);
        let most = routes.len() + ((count as f64 * weight / total) as u64).min(room / 2) as usize;
        fill(&mut routes, len, most, &mut rng);
    }
    fill(&mut routes, lengths[0].0, count, &mut rng);
    routes.into_iter().collect()
}

fn fill(routes: &mut BTreeMap<Prefix<u128>, Hop>, len: u8, most: usize, rng: &mut Rng) {
    while routes.len() < most {
        let addr = u128::from_u128(rng.wide()) >> 3 | 1 << 125;
        routes.insert(Prefix::covering(addr, len), Hop(1 + rng.below(HOPS) as u32));
    }
}

/// 34 lengths; /48 and /32 are more than 73 %, with /40 /44 /36 /29 over 90 %.
const RV_LINX: &[(u8, f64)] = &[
    (48, 44.0),
    (32, 29.5),
    (40, 6.0),
    (44, 5.0),
    (36, 4.0),
    (29, 3.5),
    (19, 0.001),
    (20, 0.002),
    (21, 0.002),
    (22, 0.005),
    (24, 0.02),
    (26, 0.05),
    (27, 0.1),
    (28, 0.3),
    (30, 0.6),
    (31, 0.3),
    (33, 0.9),
    (34, 0.7),
    (35, 0.6),
    (37, 0.3),
    (38, 0.5),
    (39, 0.3),
    (41, 0.3),
    (42, 0.6),
    (43, 0.3),
    (45, 0.5),
    (46, 0.7),
    (47, 0.7),
    (49, 0.1),
    (52, 0.05),
    (56, 0.1),
    (60, 0.02),
    (64, 0.2),
    (128, 0.05),
];

/// 17 lengths; /48 is more than 72 %, a few /67, /17 and /16.
const DT_IP6: &[(u8, f64)] = &[
    (48, 72.5),
    (32, 12.0),
    (40, 3.5),
    (44, 3.0),
    (36, 2.0),
    (33, 1.5),
    (46, 1.3),
    (47, 1.0),
    (35, 0.8),
    (29, 0.8),
    (30, 0.4),
    (34, 0.4),
    (56, 0.3),
    (64, 0.2),
    (67, 0.1),
    (17, 0.1),
    (16, 0.1),
];

const HOPS: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Table;

    #[test]
    fn lengths_are_distributed_as_the_paper_says() {
        for (name, most) in [("rv-linx:20000", 0.46), ("dt-ip6:20000", 0.75)] {
            let routes = routes(name).unwrap();
            assert_eq!(routes.len(), 20_000);
            assert!(routes.is_sorted_by_key(|(prefix, _)| *prefix));
            let share = |len| {
                let of = routes.iter().filter(|(prefix, _)| prefix.len() == len);
                of.count() as f64 / routes.len() as f64
            };
            assert!(share(48) < most && share(48) > most - 0.04, "{name}: {}", share(48));
        }
        assert!(routes("internet:5").is_none());
    }

    #[test]
    fn changes_keep_and_lengthen() {
        let sizes = |name: &str| {
            let table = Table::load(name).unwrap();
            let long = table.ipv4.iter().filter(|(prefix, _)| prefix.len() > 24).count();
            (table.ipv4.len(), long)
        };
        let (all, long) = sizes("internet:10000");
        assert_eq!(sizes("internet:10000|long=10"), (all + 1000, long + 1000));
        assert!((500..750).contains(&sizes("internet:10000|keep=16").0));
        assert!(Table::load("internet:10|colour=3").is_err());
    }
}
