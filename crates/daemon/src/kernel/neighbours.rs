//! The limits of the kernel's neighbour tables. They apply to the whole machine. Only the first
//! network namespace has them as settings; the kernel reports them in every namespace.

use std::collections::BTreeMap;
use std::io;

use netlink::message::attributes;
use netlink::names::*;
use netlink::request::Request;

use super::link::Rtnetlink;

/// One table.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NeighbourTable {
    /// `ipv4` or `ipv6`.
    pub family: &'static str,
    /// Entries of all network namespaces.
    pub entries: u32,
    /// The most (`gc_thresh3`).
    pub most: u32,
    /// How often there was no room, since the machine started.
    pub refused: u64,
}

/// The refusals of the kernel's tables.
#[derive(Default)]
pub struct Refused {
    /// At the router's start, by family.
    pub before: BTreeMap<&'static str, u64>,
    /// At the last check.
    pub last: u64,
}

impl Rtnetlink {
    /// The tables of IPv4 and IPv6, as far as the kernel has them.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn neighbour_tables(&mut self) -> io::Result<Vec<NeighbourTable>> {
        let answers = self.0.dump(Request::new(RTM_GETNEIGHTBL, 0).body(&[0; 4]))?;
        Ok(answers.iter().filter_map(|answer| table(answer)).collect())
    }
}

/// `struct ndtmsg` and the attributes behind it. Further messages, for single interfaces, have no limits.
fn table(answer: &[u8]) -> Option<NeighbourTable> {
    let (mut family, mut entries, mut most, mut refused) = (None, 0, None, 0);
    for (kind, value) in attributes(answer.get(4..)?) {
        match kind {
            NDTA_NAME if value == b"arp_cache\0" => family = Some("ipv4"),
            NDTA_NAME if value == b"ndisc_cache\0" => family = Some("ipv6"),
            NDTA_THRESH3 => most = Some(u32::from_ne_bytes(*value.first_chunk()?)),
            NDTA_CONFIG => entries = u32::from_ne_bytes(*value.get(ENTRIES..)?.first_chunk()?),
            // Kernels before 4.3 do not count it.
            NDTA_STATS => {
                let full = value.get(FULL..).and_then(|rest| rest.first_chunk());
                refused = full.map_or(0, |count| u64::from_ne_bytes(*count));
            }
            _ => {}
        }
    }
    Some(NeighbourTable { family: family?, entries, most: most?, refused })
}

/// `entries` in `struct ndt_config`.
const ENTRIES: usize = 4;
/// `ndts_table_fulls` in `struct ndt_stats`.
const FULL: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_says_what_its_tables_hold() {
        let tables = Rtnetlink::open().unwrap().neighbour_tables().unwrap();
        let v4 = tables.iter().find(|table| table.family == "ipv4").expect("there is IPv4");
        assert!(v4.most > 0 && v4.entries <= v4.most * 2, "{tables:?}");
        let setting = std::fs::read_to_string("/proc/sys/net/ipv4/neigh/default/gc_thresh3");
        if let Ok(setting) = setting {
            assert_eq!(setting.trim(), v4.most.to_string(), "in the first namespace");
        }
    }

    #[test]
    fn what_is_damaged_or_of_an_interface_is_no_table() {
        for length in 0..8 {
            assert_eq!(table(&[0; 8][..length]), None);
        }
        let attribute = |kind: u16, value: &[u8]| {
            let mut bytes = (4 + value.len() as u16).to_ne_bytes().to_vec();
            bytes.extend(kind.to_ne_bytes());
            bytes.extend(value);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            bytes
        };
        let of = |all: &[Vec<u8>]| table(&[vec![0; 4], all.concat()].concat());
        let name = attribute(NDTA_NAME, b"arp_cache\0");
        assert_eq!(of(std::slice::from_ref(&name)), None);
        let most = attribute(NDTA_THRESH3, &1024_u32.to_ne_bytes());
        let small = [name.clone(), most.clone(), attribute(NDTA_STATS, &[1; 80])];
        let known = NeighbourTable { family: "ipv4", entries: 0, most: 1024, refused: 0 };
        assert_eq!(of(&small), Some(known));
        assert_eq!(of(&[name, most, attribute(NDTA_CONFIG, &[1; 7])]), None);
    }
}
