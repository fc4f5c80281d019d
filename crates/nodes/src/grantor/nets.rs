//! Sets of a few to some hundred prefixes: the sources that may ask, and the destinations that are served.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use lookup::{Addr, Prefix};

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
        find(&self.v4, ip.into()).is_some()
    }

    /// Whether the set contains an IPv6 address.
    #[inline]
    pub fn has6(&self, ip: Ipv6Addr) -> bool {
        find(&self.v6, ip.into()).is_some()
    }
}

/// A family's addresses in a set.
pub trait InNets: Addr {
    /// The ranges of this family.
    fn ranges(nets: &Nets) -> &[(Self, Self)];
}

impl InNets for u32 {
    fn ranges(nets: &Nets) -> &[(u32, u32)] {
        &nets.v4
    }
}

impl InNets for u128 {
    fn ranges(nets: &Nets) -> &[(u128, u128)] {
        &nets.v6
    }
}

/// A family's addresses in a set, for many that are mostly in the range of the one before: that is
/// two compares. It borrows the set, so it cannot outlive a change of the settings.
#[derive(Clone, Copy, Debug)]
pub struct Near<'n, A> {
    ranges: &'n [(A, A)],
    last: (A, A),
}

impl<'n, A: InNets> Near<'n, A> {
    /// Of `nets`; without, no address.
    pub fn of(nets: Option<&'n Nets>) -> Self {
        let ranges = nets.map_or(&[][..], A::ranges);
        // Where there is no range, one that no address is in.
        let last = ranges.first().copied().unwrap_or((A::MAX, A::default()));
        Near { ranges, last }
    }

    /// Whether the set contains an address.
    #[inline(always)]
    pub fn has(&mut self, ip: A) -> bool {
        self.last.0 <= ip && ip <= self.last.1 || self.find(ip)
    }

    #[inline(never)]
    fn find(&mut self, ip: A) -> bool {
        let found = find(self.ranges, ip);
        self.last = found.unwrap_or(self.last);
        found.is_some()
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

/// The range that has an address.
#[inline]
fn find<A: Copy + Ord>(ranges: &[(A, A)], ip: A) -> Option<(A, A)> {
    let behind = ranges.partition_point(|range| range.0 <= ip);
    let range = ranges.get(behind.checked_sub(1)?)?;
    (ip <= range.1).then_some(*range)
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

    #[test]
    fn addresses_near_the_last_one_are_as_any() {
        let nets = ["10.1.0.0/16", "10.3.0.0/16", "10.3.9.0/24", "192.0.2.7/32", "::/127"];
        let nets = Nets::new(nets.map(|text| {
            let (ip, len) = text.split_once('/').unwrap();
            (ip.parse().unwrap(), len.parse().unwrap())
        }));
        let none = Nets::default();
        let mut all = Near::<u32>::of(Some(&nets));
        let mut others = [Near::of(None), Near::of(Some(&none))];
        let edges = [0x0a01_0000, 0x0a02_0000, 0x0a03_0000, 0x0a04_0000, 0xc000_0207, 0, u32::MAX];
        let ips: Vec<u32> =
            edges.iter().flat_map(|ip| [-1, 0, 1].map(|by| ip.wrapping_add_signed(by))).collect();
        for (one, two) in ips.iter().flat_map(|one| ips.iter().map(move |two| (*one, *two))) {
            for ip in [one, two, one] {
                assert_eq!(all.has(ip), nets.has4(ip.into()), "{ip:x}");
                assert!(others.iter_mut().all(|near| !near.has(ip)), "{ip:x}");
            }
        }
        let mut six = Near::<u128>::of(Some(&nets));
        assert_eq!([0, 1, 2, u128::MAX].map(|ip| six.has(ip)), [true, true, false, false]);
    }
}
