//! Prefixes of either family, as feeds and commands name them.

use core::fmt;
use core::net::IpAddr;
use core::str::FromStr;

use lookup::{Addr, Prefix};

/// An address family.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// The family of an address.
    pub fn of(ip: IpAddr) -> Family {
        if ip.is_ipv4() { Family::V4 } else { Family::V6 }
    }

    /// The family of an engine's address type.
    pub(crate) fn of_addr<A: Addr>() -> Family {
        if A::WIDTH == 32 { Family::V4 } else { Family::V6 }
    }

    /// Bits of an address.
    pub fn width(self) -> u8 {
        match self {
            Family::V4 => 32,
            Family::V6 => 128,
        }
    }

    /// `ipv4` or `ipv6`.
    pub fn name(self) -> &'static str {
        match self {
            Family::V4 => "ipv4",
            Family::V6 => "ipv6",
        }
    }
}

/// A prefix of either family; no bit is set to the right of its length.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Net {
    addr: IpAddr,
    len: u8,
}

impl Net {
    /// The prefix of `len` bits that covers `addr`: host bits are cleared.
    /// `None` when `len` exceeds the family's bits.
    pub fn covering(addr: IpAddr, len: u8) -> Option<Net> {
        match addr {
            IpAddr::V4(ip) if len <= 32 => Some(Prefix::covering(u32::from(ip), len).into()),
            IpAddr::V6(ip) if len <= 128 => Some(Prefix::covering(u128::from(ip), len).into()),
            _ => None,
        }
    }

    /// The route to one host.
    pub fn host(addr: IpAddr) -> Net {
        Net { addr, len: Family::of(addr).width() }
    }

    /// The first address.
    pub fn addr(&self) -> IpAddr {
        self.addr
    }

    /// The length in bits.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u8 {
        self.len
    }

    /// The family.
    pub fn family(&self) -> Family {
        Family::of(self.addr)
    }

    /// True when `other` is this prefix or lies inside it.
    pub fn covers(&self, other: &Net) -> bool {
        self.len <= other.len && Net::covering(other.addr, self.len) == Some(*self)
    }

    /// As a prefix of family `A`; `None` where it is of the other.
    pub fn prefix<A: Addr>(&self) -> Option<Prefix<A>> {
        let addr = number::<A>(self.addr)?;
        Some(Prefix::covering(addr, self.len)) // cannot panic: the length was checked
    }
}

/// The address as a number of family `A`; `None` where it is of the other.
pub(crate) fn number<A: Addr>(ip: IpAddr) -> Option<A> {
    match ip {
        IpAddr::V4(ip) if A::WIDTH == 32 => Some(A::from_u128(u32::from(ip).into())),
        IpAddr::V6(ip) if A::WIDTH == 128 => Some(A::from_u128(ip.into())),
        _ => None,
    }
}

impl<A: Addr> From<Prefix<A>> for Net {
    fn from(prefix: Prefix<A>) -> Net {
        Net { addr: prefix.first().to_ip().into(), len: prefix.len() }
    }
}

impl fmt::Display for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr, self.len)
    }
}

impl FromStr for Net {
    type Err = BadNet;

    /// `10.0.0.0/8`, `2001:db8::/32`, or a bare address (a host route).
    fn from_str(text: &str) -> Result<Net, BadNet> {
        let (addr, len) = match text.split_once('/') {
            Some((addr, len)) => (addr, Some(len)),
            None => (text, None),
        };
        let addr: IpAddr = addr.parse().map_err(|_| BadNet::Address)?;
        let Some(len) = len else { return Ok(Net::host(addr)) };
        let len: u8 = len.parse().map_err(|_| BadNet::Length)?;
        let net = Net::covering(addr, len).ok_or(BadNet::Length)?;
        if net.addr == addr { Ok(net) } else { Err(BadNet::HostBits) }
    }
}

/// Why a text is no prefix.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BadNet {
    /// Not an address before the slash.
    #[error("not an IPv4 or IPv6 address")]
    Address,
    /// Not a length of the family behind the slash.
    #[error("not a prefix length of the family")]
    Length,
    /// Bits are set to the right of the length.
    #[error("host bits are set to the right of the length")]
    HostBits,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_to_prefix_and_back() {
        for text in ["10.0.0.0/8", "0.0.0.0/0", "2001:db8::/32", "::/0", "192.0.2.1/32"] {
            let net: Net = text.parse().unwrap();
            assert_eq!(net.to_string(), text);
        }
        assert_eq!("192.0.2.1".parse::<Net>().unwrap().to_string(), "192.0.2.1/32");
        assert_eq!("10.0.0.1/8".parse::<Net>(), Err(BadNet::HostBits));
        assert_eq!("10.0.0.0/33".parse::<Net>(), Err(BadNet::Length));
        assert_eq!("ten/8".parse::<Net>(), Err(BadNet::Address));
    }

    #[test]
    fn a_family_is_not_the_other() {
        let net: Net = "10.0.0.0/8".parse().unwrap();
        assert_eq!(net.prefix::<u32>().unwrap().first(), 0x0a00_0000);
        assert!(net.prefix::<u128>().is_none());
        let inner: Net = "10.3.0.0/16".parse().unwrap();
        assert!(net.covers(&inner) && net.covers(&net) && !inner.covers(&net));
        assert!(!Net::covering("::".parse().unwrap(), 0).unwrap().covers(&net));
    }
}
