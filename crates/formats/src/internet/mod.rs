//! Generated tables that look like the Internet's: `internet:N`.
//!
//! ```text
//!   internet:1000000            a million IPv4 prefixes
//!   internet6:200000            IPv6
//!   internet:1000000+200000     both
//!   internet:5000,7,hops=64     with seed 7 and 64 next hops a family
//!   internet:600000,long=22     22 % of them longer than /24 (IPv6: /48) beyond the
//!                               Internet's own two in a thousand (see [`long`])
//! ```
//!
//! Exactly N distinct prefixes, no default route; lengths, nesting, borders and
//! next hops follow distributions measured on full tables (see [`shape`]). What
//! a specification gives never changes: the tests hold checksums.

mod hops;
mod long;
pub mod shape;
mod v4;
mod v6;

use lookup::Rib;
use lookup::rng::{SplitMix64, mix};

use crate::hops::Hops;
use crate::table::{Listed, Table};

/// A generated table's specification.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Internet {
    /// IPv4 prefixes.
    pub v4: usize,
    /// IPv6 prefixes.
    pub v6: usize,
    /// Another seed gives another table of the same shape.
    pub seed: u64,
    /// Next hops of each family.
    pub hops: u32,
    /// Percent of the prefixes that are longer than the Internet's.
    pub long: u8,
}

impl Internet {
    /// The most prefixes of a family.
    pub const MOST: usize = 20_000_000;

    /// The most next hops of a family.
    pub const MOST_HOPS: u32 = 1 << 17;

    /// The largest percentage of long prefixes.
    pub const MOST_LONG: u8 = 90;

    /// Parses `internet:N[+M]` or `internet6:N`, each with `[,SEED][,hops=K][,long=P]`;
    /// `None` where `spec` names a file.
    pub fn parse(spec: &str) -> Option<Result<Self, BadSpec>> {
        let (ipv6, rest) = match spec.strip_prefix("internet6:") {
            Some(rest) => (true, rest),
            None => (false, spec.strip_prefix("internet:")?),
        };
        Some(Self::parse_rest(ipv6, rest))
    }

    fn parse_rest(ipv6: bool, rest: &str) -> Result<Self, BadSpec> {
        let mut parts = rest.split(',');
        let counts = parts.next().unwrap_or("");
        let (v4, v6) = match counts.split_once('+') {
            Some(_) if ipv6 => return Err(BadSpec::Count(counts.into())),
            Some((v4, v6)) => (count(v4)?, count(v6)?),
            None if ipv6 => (0, count(counts)?),
            None => (count(counts)?, 0),
        };
        let mut internet = Internet { v4, v6, seed: 1, hops: 20, long: 0 };
        for part in parts {
            if let Some(long) = part.strip_prefix("long=") {
                let long = number(long).and_then(|long| u8::try_from(long).ok());
                let long = long.filter(|long| *long <= Self::MOST_LONG);
                internet.long = long.ok_or(BadSpec::Long)?;
                continue;
            }
            let seed = part.strip_prefix("seed=").unwrap_or(part);
            match (part.strip_prefix("hops="), number(seed)) {
                (Some(hops), _) => {
                    let hops = number(hops).and_then(|hops| u32::try_from(hops).ok());
                    internet.hops = hops
                        .filter(|hops| (1..=Self::MOST_HOPS).contains(hops))
                        .ok_or(BadSpec::Hops)?;
                }
                (None, Some(seed)) => internet.seed = seed,
                (None, None) => return Err(BadSpec::Option(part.into())),
            }
        }
        Ok(internet)
    }

    /// Memory that making the table takes, as measured.
    pub(crate) fn bytes(&self) -> usize {
        self.v4 * 64 + self.v6 * 192
    }

    /// Makes the table.
    pub fn table(&self) -> Table {
        self.listed_table(None)
    }

    /// The table; its routes are shown to `listed` first.
    pub(crate) fn listed_table(&self, listed: Option<&dyn Fn(Listed)>) -> Table {
        let mut table = Table::default();
        if self.v4 > 0 {
            let names = (1..=self.hops).map(|i| hops::name_v4(i, self.hops));
            table.v4 = self.rib_v4(first_id(&mut table.hops, names), listed);
        }
        if self.v6 > 0 {
            let names = (1..=self.hops).map(hops::name_v6);
            table.v6 = self.rib_v6(first_id(&mut table.hops, names), listed);
        }
        table
    }

    /// Of so many prefixes those as the Internet has them, and the long ones beyond.
    fn split(&self, count: usize) -> (usize, usize) {
        let long = count * usize::from(self.long) / 100;
        (count - long, long)
    }

    fn rib_v4(&self, first_hop: u32, listed: Option<&dyn Fn(Listed)>) -> Rib<u32> {
        let mut rng = SplitMix64(mix(self.seed) ^ 4);
        let (usual, long) = self.split(self.v4);
        let mut prefixes = v4::prefixes(usual, &mut rng);
        long::add_v4(&mut prefixes, long, &mut rng);
        let routes = hops::assign(prefixes, self.hops, first_hop, &mut rng);
        let Some(listed) = listed else { return routes.collect() };
        let routes: Vec<_> = routes.collect();
        listed(Listed::V4(&routes));
        routes.into_iter().collect()
    }

    fn rib_v6(&self, first_hop: u32, listed: Option<&dyn Fn(Listed)>) -> Rib<u128> {
        let mut rng = SplitMix64(mix(self.seed) ^ 6);
        let (usual, long) = self.split(self.v6);
        let mut prefixes = v6::prefixes(usual, &mut rng);
        long::add_v6(&mut prefixes, long, &mut rng);
        let routes = hops::assign(prefixes, self.hops, first_hop, &mut rng);
        let Some(listed) = listed else { return routes.collect() };
        let routes: Vec<_> = routes.collect();
        listed(Listed::V6(&routes));
        routes.into_iter().collect()
    }
}

/// Why a specification is refused.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BadSpec {
    /// Not a number of prefixes.
    #[error("expected a number of prefixes from 0 to {most}, found `{0}`", most = Internet::MOST)]
    Count(String),
    /// Not a number of next hops.
    #[error("expected hops=1 to hops={most}", most = Internet::MOST_HOPS)]
    Hops,
    /// Not a percentage of long prefixes.
    #[error("expected long=0 to long={most}", most = Internet::MOST_LONG)]
    Long,
    /// Neither a seed nor an option.
    #[error("expected a seed, hops=K or long=P, found `{0}`")]
    Option(String),
}

/// Numbers `names`, which are new; returns the id of the first.
fn first_id(hops: &mut Hops, names: impl Iterator<Item = String>) -> u32 {
    let first = hops.len() as u32 + 1;
    for name in names {
        hops.id(&name).expect("MOST_HOPS is far below the number of ids");
    }
    first
}

fn count(text: &str) -> Result<usize, BadSpec> {
    let count = number(text).and_then(|count| usize::try_from(count).ok());
    count.filter(|&count| count <= Internet::MOST).ok_or_else(|| BadSpec::Count(text.into()))
}

/// Digits, which may be grouped by `_`.
fn number(text: &str) -> Option<u64> {
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    text.replace('_', "").parse().ok()
}

#[cfg(test)]
mod tests {
    use lookup::{Addr, Hop, Prefix};

    use super::*;

    fn table(spec: &str) -> Table {
        Internet::parse(spec).expect("a specification").expect("a sound one").table()
    }

    /// A checksum over everything that a table says, in order.
    fn checksum(table: &Table) -> u64 {
        fn add<A: Addr>(sum: u64, rib: &Rib<A>, hops: &Hops) -> u64 {
            rib.iter().fold(sum, |sum, (prefix, hop)| {
                let addr = prefix.first().to_u128();
                let name = hops.name(hop).unwrap_or("-").bytes();
                let name = name.fold(0, |sum, byte| mix(sum ^ u64::from(byte)));
                let parts = [addr as u64, (addr >> 64) as u64, prefix.len().into(), name];
                parts.iter().fold(sum, |sum, &part| mix(sum ^ part))
            })
        }
        let sum = add(0, &table.v4, &table.hops);
        add(sum, &table.v6, &table.hops)
    }

    /// These never change: measurements name a table by its specification.
    #[test]
    fn what_a_specification_gives_is_fixed_for_ever() {
        let golden = [
            ("internet:1000", 0xc81e_8c45_cd0f_0efa),
            ("internet:100000", 0x11cb_7ec8_bc9a_5f9a),
            ("internet:1000,2", 0x2151_b393_d51d_2f9c),
            ("internet:3000,hops=300", 0xa696_8ab0_9ac5_abe4),
            ("internet6:50000", 0x1936_b2a2_fd8a_fb45),
            ("internet:2000+500,seed=7", 0xb0ec_98ea_892c_511c),
            ("internet:2000+500,long=22", 0xb42b_a1e0_256e_40e4),
        ];
        let got = golden.map(|(spec, _)| (spec, checksum(&table(spec))));
        assert_eq!(got, golden, "\n{got:#x?}");
    }

    #[test]
    fn specifications() {
        let parse = |spec| Internet::parse(spec).map(|parsed| parsed.map_err(|e| e.to_string()));
        let of = |v4, v6, seed, hops| Some(Ok(Internet { v4, v6, seed, hops, long: 0 }));
        assert_eq!(parse("internet:10"), of(10, 0, 1, 20));
        assert_eq!(parse("internet6:10,3"), of(0, 10, 3, 20));
        assert_eq!(parse("internet:1_000+20,hops=7,seed=9"), of(1000, 20, 9, 7));
        assert_eq!(parse("internet.txt"), None);
        assert_eq!(parse("/tmp/internet:3"), None);
        for bad in [
            "internet:",
            "internet:x",
            "internet:-1",
            "internet:1+",
            "internet6:1+2",
            "internet:99999999999",
            "internet:1,hops=0",
            "internet:1,hops=x",
            "internet:1,x",
            "internet:1,long=91",
            "internet:1,long=x",
            "internet:1,",
            "internet:+1+1",
        ] {
            assert!(matches!(parse(bad), Some(Err(_))), "{bad}");
        }
        let error = parse("internet:ten").unwrap().unwrap_err();
        assert_eq!(error, "expected a number of prefixes from 0 to 20000000, found `ten`");
    }

    fn lengths<A: Addr>(rib: &Rib<A>) -> Vec<(u8, u64)> {
        let mut counts = [0; 129];
        rib.iter().for_each(|(prefix, _)| counts[usize::from(prefix.len())] += 1);
        (0..).zip(counts).filter(|&(_, count)| count > 0).collect()
    }

    /// Prefixes of each depth, and how many of the nested ones are like their parent.
    fn nesting<A: Addr>(rib: &Rib<A>) -> (Vec<u64>, u64) {
        let (mut depths, mut like) = (vec![0; 9], 0);
        let mut covering: Vec<(Prefix<A>, Hop)> = Vec::new();
        for (prefix, hop) in rib.iter() {
            while covering.pop_if(|(outer, _)| !outer.covers(&prefix)).is_some() {}
            depths[covering.len()] += 1;
            like += u64::from(covering.last().is_some_and(|&(_, outer)| outer == hop));
            covering.push((prefix, hop));
        }
        (depths, like)
    }

    /// As in location data: 22 % longer than /24, by their lengths, six to a /24 that has any;
    /// but more are /24s.
    #[test]
    fn long_prefixes_are_crowded() {
        let table = table("internet:60000+6000,long=22");
        assert_eq!((table.v4.len(), table.v6.len()), (60_000, 6000));
        let share = |counts: &[(u8, u64)], longer: u8| {
            let long: u64 = counts.iter().filter(|(len, _)| *len > longer).map(|(_, n)| n).sum();
            long as f64 / counts.iter().map(|(_, n)| n).sum::<u64>() as f64
        };
        let (v4, v6) = (lengths(&table.v4), lengths(&table.v6));
        let (share4, share6) = (share(&v4, 24), share(&v6, 48));
        let permille = |len| {
            let found = v4.iter().find(|(found, _)| *found == len);
            found.map_or(0, |(_, n)| (n + 30) / 60)
        };
        // Those of the location data, from /25 on, make 21.7 %.
        for (len, want) in (24..).zip([496_u64, 9, 10, 17, 34, 61, 32, 13, 41]) {
            let found = permille(len);
            assert!(found.abs_diff(want) <= 1, "/{len}: {found} of {want}");
        }
        assert!((0.22..0.225).contains(&share4), "{share4}");
        assert!((0.22..0.225).contains(&share6), "{share6}");
        assert!(v6.iter().any(|(len, n)| *len == 128 && *n > 100), "{v6:?}");
        let long = table.v4.iter().filter(|(prefix, _)| prefix.len() > 24);
        let mut blocks: Vec<u32> = long.map(|(prefix, _)| prefix.first() >> 8).collect();
        let all = blocks.len();
        blocks.dedup();
        let each = all as f64 / blocks.len() as f64;
        assert!((4.5..7.5).contains(&each), "{each} in a /24");
    }

    #[test]
    fn ipv4_has_the_measured_shape() {
        let count = 200_000;
        let table = table("internet:200000");
        assert_eq!((table.v4.len() as u64, table.v6.len(), table.hops.len()), (count, 0, 20));
        let want = shape::apportion(count, &shape::LENGTHS_V4);
        let want: Vec<_> = (8..).zip(want).filter(|&(_, count)| count > 0).collect();
        assert_eq!(lengths(&table.v4), want);

        let (depths, like) = nesting(&table.v4);
        for (depth, want) in shape::apportion(count, &shape::DEPTHS_V4).into_iter().enumerate() {
            let off = depths[depth].abs_diff(want);
            assert!(off <= count / 1000, "depth {depth}: {} of {want}", depths[depth]);
        }
        let percent = like * 100 / (count - depths[0]);
        assert!((65..=67).contains(&percent), "{percent} % like their parent");

        let mut hops = [0; 20];
        table.v4.iter().for_each(|(_, hop)| hops[hop.index() - 1] += 1);
        assert!(hops.iter().all(|&n| n > 0));
        let four = hops[..4].iter().sum::<u64>() * 100 / count;
        assert!((80..=95).contains(&four), "four hops take {four} %");
    }

    #[test]
    fn ipv6_has_the_measured_shape() {
        let count = 100_000;
        let table = table("internet6:100000");
        assert_eq!((table.v4.len(), table.v6.len() as u64), (0, count));
        let want = shape::apportion(count, &shape::LENGTHS_V6.map(|(_, count)| count));
        let want: Vec<_> = shape::LENGTHS_V6.iter().map(|&(len, _)| len).zip(want).collect();
        let want: Vec<_> = want.into_iter().filter(|&(_, count)| count > 0).collect();
        assert_eq!(lengths(&table.v6), want);
        let (depths, _) = nesting(&table.v6);
        for (depth, want) in shape::apportion(count, &shape::DEPTHS_V6).into_iter().enumerate() {
            let off = depths[depth].abs_diff(want);
            assert!(off <= count / 100, "depth {depth}: {} of {want}", depths[depth]);
        }
        let mut blocks = std::collections::HashMap::new();
        for (prefix, _) in table.v6.iter().filter(|(prefix, _)| prefix.len() > 32) {
            *blocks.entry(prefix.first() >> 96).or_insert(0) += 1;
        }
        // 65,000 prefixes; in the real table 130,000 lie in 16,752 /32s.
        assert!((3000..12_000).contains(&blocks.len()), "{} /32s", blocks.len());
        // The fullest: one in 43 of the real table's prefixes, 4,127 of them.
        let fullest = blocks.values().max().copied().unwrap_or(0);
        assert!((800..6_000).contains(&fullest), "{fullest} in a /32");
    }

    #[test]
    fn every_size_gives_exactly_as_many() {
        for n in [0, 1, 2, 3, 7, 50, 999] {
            let table = table(&format!("internet:{n}+{n},hops=1"));
            assert_eq!((table.v4.len(), table.v6.len()), (n, n));
            assert!(table.v4.iter().all(|(prefix, hop)| prefix.len() > 0 && !hop.is_none()));
        }
    }

    #[test]
    fn next_hops_are_documentation_addresses_outside_the_table() {
        let table = table("internet:20000+5000,hops=3");
        let names: Vec<_> = table.hops.iter().filter_map(|(_, name)| name).collect();
        let v6 = ["2001:db8::1", "2001:db8::2", "2001:db8::3"];
        assert_eq!(names, [&["192.0.2.1", "192.0.2.2", "192.0.2.3"], &v6[..]].concat());
        assert!(table.v4.lookup(0xc000_0201).is_none());
        assert!(table.v6.iter().all(|(_, hop)| hop.0 > 3));
        assert!(table.v6.lookup(0x2001_0db8 << 96 | 1).is_none());
    }
}
