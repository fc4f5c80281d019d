//! Sets of a few to some hundred prefixes: the sources that may ask, and the destinations that are served.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use lookup::Prefix;

/// A set of addresses, as disjoint ranges in order.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Nets {
    v4: Box<[(u32, u32)]>,
    v6: Box<[(u128, u128)]>,
}

impl Nets {
    /// The set of these prefixes; bits beyond a prefix's length are ignored.
    pub fn new(prefixes: impl IntoIterator<Item = (IpAddr, u8)>) -> Nets {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for (ip, len) in prefixes {
            match ip {
                IpAddr::V4(ip) => {
                    let prefix = Prefix::<u32>::covering(ip.into(), len.min(32));
                    v4.push((prefix.first(), prefix.last()));
                }
                IpAddr::V6(ip) => {
                    let prefix = Prefix::<u128>::covering(ip.into(), len.min(128));
                    v6.push((prefix.first(), prefix.last()));
                }
            }
        }
        Nets { v4: joined(v4), v6: joined(v6) }
    }

    /// Whether the set contains an IPv4 address.
    #[inline]
    pub fn has4(&self, ip: Ipv4Addr) -> bool {
        has(&self.v4, ip.into())
    }

    /// Whether the set contains an IPv6 address.
    #[inline]
    pub fn has6(&self, ip: Ipv6Addr) -> bool {
        has(&self.v6, ip.into())
    }
}

/// Merges overlapping ranges of a sorted list. Two prefixes overlap only if one contains the other.
fn joined<A: Copy + Ord>(mut ranges: Vec<(A, A)>) -> Box<[(A, A)]> {
    ranges.sort_unstable();
    let mut out: Vec<(A, A)> = Vec::new();
    for (first, last) in ranges {
        match out.last_mut() {
            Some(before) if first <= before.1 => before.1 = before.1.max(last),
            _ => out.push((first, last)),
        }
    }
    out.into()
}

#[inline]
fn has<A: Copy + Ord>(ranges: &[(A, A)], ip: A) -> bool {
    let behind = ranges.partition_point(|range| range.0 <= ip);
    behind > 0 && ranges[behind - 1].1 >= ip
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_inside_and_beside() {
        let prefix = |text: &str| {
            let (ip, len) = text.split_once('/').unwrap();
            (ip.parse().unwrap(), len.parse().unwrap())
        };
        let all = ["10.1.0.0/16", "10.1.2.0/24", "192.0.2.7/32", "2001:db8::/32", "::1/128"];
        let nets = Nets::new(all.map(prefix));
        for (ip, is) in [
            ("10.0.255.255", false),
            ("10.1.0.0", true),
            ("10.1.2.3", true),
            ("10.1.255.255", true),
            ("10.2.0.0", false),
            ("192.0.2.6", false),
            ("192.0.2.7", true),
            ("192.0.2.8", false),
            ("0.0.0.0", false),
            ("255.255.255.255", false),
        ] {
            assert_eq!(nets.has4(ip.parse().unwrap()), is, "{ip}");
        }
        for (ip, is) in [("::", false), ("::1", true), ("::2", false), ("2001:db8:9::1", true)] {
            assert_eq!(nets.has6(ip.parse().unwrap()), is, "{ip}");
        }
        assert!(!Nets::default().has4([0, 0, 0, 0].into()));
        assert!(Nets::new([prefix("0.0.0.0/0")]).has4([255; 4].into()));
        assert!(Nets::new([prefix("::/0")]).has6("ff::".parse().unwrap()));
    }
}
