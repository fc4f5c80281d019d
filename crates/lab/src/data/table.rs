//! Tables of routes by name.

use lookup::{Addr, Hop, Prefix};

use super::made;
use crate::Error;

/// Routes of both families, ordered by address, then length.
#[derive(Default)]
pub struct Table {
    /// What names it in records: the specification, or a file's name without its
    /// folders.
    pub name: String,
    /// IPv4 routes.
    pub ipv4: Vec<(Prefix<u32>, Hop)>,
    /// IPv6 routes.
    pub ipv6: Vec<(Prefix<u128>, Hop)>,
    /// A checksum of all of them.
    pub checksum: u64,
    /// Lines or records of the file that could not be read.
    pub damaged: u64,
}

impl Table {
    /// Loads what `--table` names (a file, or `internet:N`) or what [`made`]
    /// describes, changed as what follows a `|` says. Of a damaged file what
    /// could be read is taken: a measurement needs a table, not a perfect one.
    ///
    /// # Errors
    /// When there is no such file, or no route in it.
    pub fn load(name: &str) -> Result<Table, Error> {
        let failed = |reason: String| Error::Table { table: name.into(), reason };
        let mut words = name.split('|');
        let base = words.next().unwrap_or_default();
        let mut table = match made::routes(base) {
            Some(ipv6) => Table { ipv6, ..Table::default() },
            None => {
                let found = formats::Table::open(base, &formats::Load::default());
                let found = found.map_err(|error| failed(error.to_string()))?;
                let (ipv4, ipv6) = (found.v4.iter().collect(), found.v6.iter().collect());
                Table { ipv4, ipv6, damaged: found.report.damaged, ..Table::default() }
            }
        };
        for word in words {
            made::change(&mut table.ipv4, &mut table.ipv6, word).map_err(failed)?;
        }
        if table.ipv4.is_empty() && table.ipv6.is_empty() {
            return Err(failed("it holds no route".into()));
        }
        let checksum = checksum(&table.ipv4) ^ checksum(&table.ipv6).rotate_left(1);
        Ok(Table { name: short_name(name), checksum, ..table })
    }

    /// Whether it has routes of `family`, `ipv4` or `ipv6`.
    pub fn has(&self, family: &str) -> bool {
        match family {
            "ipv4" => !self.ipv4.is_empty(),
            _ => !self.ipv6.is_empty(),
        }
    }
}

/// The same for the same routes in the same order.
pub fn checksum<A: Addr>(routes: &[(Prefix<A>, Hop)]) -> u64 {
    let mix =
        |sum: u64, part: u64| (sum ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    routes.iter().fold(0x5851_f42d_4c95_7f2d, |sum, (prefix, hop)| {
        let first = prefix.first().to_u128();
        let tail = u64::from(hop.0) << 8 | u64::from(prefix.len());
        mix(mix(mix(sum, first as u64), (first >> 64) as u64), tail)
    })
}

/// Records name no folder of the machine that they come from.
pub(crate) fn short_name(name: &str) -> String {
    name.rsplit('/').next().unwrap_or(name).to_string()
}

/// What a table of that name in records is: `generated`, or a real one by its own name.
pub fn kind(name: &str) -> &str {
    let base = name.split('|').next().unwrap_or(name);
    match base.split_once(':') {
        Some(("internet" | "internet6" | "rv-linx" | "dt-ip6" | "flat6", _)) => "generated",
        _ => base,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_routes_have_the_same_checksum() {
        let load = |text: &str| {
            let path =
                std::env::temp_dir().join(format!("rutter-lab-table-{}", std::process::id()));
            std::fs::write(&path, text).unwrap();
            let table = Table::load(path.to_str().unwrap());
            std::fs::remove_file(path).unwrap();
            table
        };
        let table = load("10.1.0.0/16 b\n10.0.0.0/8 a\n2001:db8::/32 a\n").unwrap();
        assert_eq!((table.ipv4.len(), table.ipv6.len()), (2, 1));
        assert!(table.ipv4.is_sorted_by_key(|(prefix, _)| *prefix));
        let other = load("10.1.0.0/16 b\n10.0.0.0/8 a\n2001:db8::/33 a\n").unwrap();
        assert_ne!(table.checksum, other.checksum);
        assert!(load("# nothing\n").is_err());
    }

    #[test]
    fn a_generated_table_is_the_same_every_time() {
        let table = Table::load("internet:1000+200").unwrap();
        assert_eq!((table.ipv4.len(), table.ipv6.len()), (1000, 200));
        assert_eq!(table.checksum, Table::load("internet:1000+200").unwrap().checksum);
        assert_ne!(table.checksum, Table::load("internet:1000+200,2").unwrap().checksum);
    }

    #[test]
    fn a_table_that_is_not_there_is_an_error() {
        assert!(Table::load("no/such/file").is_err());
        assert_eq!(short_name("a/b/c.txt"), "c.txt");
    }
}
