//! A prefix of either family, and its text form.

use core::fmt;
use core::net::{IpAddr, Ipv6Addr};

use lookup::{Addr, BadPrefix, Prefix};

use crate::report::Fault;

/// A prefix of either family.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum AnyPrefix {
    /// IPv4.
    V4(Prefix<u32>),
    /// IPv6; also where an IPv4 address is mapped into it.
    V6(Prefix<u128>),
}

impl AnyPrefix {
    /// The prefix of `len` bits that covers `addr`: host bits are cleared.
    /// `None` when `len` exceeds the family's bits.
    pub fn covering(addr: IpAddr, len: u8) -> Option<Self> {
        match addr {
            IpAddr::V4(a) if len <= 32 => Some(Self::V4(Prefix::covering(a.into(), len))),
            IpAddr::V6(a) if len <= 128 => Some(Self::V6(Prefix::covering(a.into(), len))),
            _ => None,
        }
    }

    /// True for `0.0.0.0/0` and `::/0`.
    pub fn is_default(&self) -> bool {
        matches!(self, Self::V4(prefix) if prefix.len() == 0)
            || matches!(self, Self::V6(prefix) if prefix.len() == 0)
    }

    /// Parses `address/length`, or a bare address as a host route. With `mask`,
    /// bits to the right of the length are cleared instead of refused; the flag
    /// returned says that some were.
    pub(crate) fn parse(text: &[u8], mask: bool) -> Result<(Self, bool), Fault> {
        let (addr, len) = match text.iter().position(|&byte| byte == b'/') {
            Some(slash) => (&text[..slash], Some(&text[slash + 1..])),
            None => (text, None),
        };
        let len = len.map(|len| decimal(len).ok_or(Fault::Length)).transpose()?;
        if addr.contains(&b':') {
            let addr = core::str::from_utf8(addr).ok().and_then(|addr| addr.parse().ok());
            let addr: Ipv6Addr = addr.ok_or(Fault::Address)?;
            let (prefix, masked) = checked(u128::from(addr), len, mask)?;
            return Ok((Self::V6(prefix), masked));
        }
        let (prefix, masked) = checked(ipv4(addr).ok_or(Fault::Address)?, len, mask)?;
        Ok((Self::V4(prefix), masked))
    }
}

impl fmt::Display for AnyPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::V4(prefix) => prefix.fmt(f),
            Self::V6(prefix) => prefix.fmt(f),
        }
    }
}

fn checked<A: Addr>(addr: A, len: Option<u8>, mask: bool) -> Result<(Prefix<A>, bool), BadPrefix> {
    let len = len.unwrap_or(A::WIDTH);
    match Prefix::new(addr, len) {
        Ok(prefix) => Ok((prefix, false)),
        Err(BadPrefix::HostBits { .. }) if mask => Ok((Prefix::covering(addr, len), true)),
        Err(error) => Err(error),
    }
}

/// `a.b.c.d`, each 0..=255 without leading zeros. Written out because a table
/// has a million of them: 5 times faster than `core`'s parser.
fn ipv4(text: &[u8]) -> Option<u32> {
    let mut addr = 0;
    let mut octets = text.split(|&byte| byte == b'.');
    for _ in 0..4 {
        addr = addr << 8 | u32::from(decimal(octets.next()?)?);
    }
    octets.next().is_none().then_some(addr)
}

/// 0..=255 without leading zeros or a sign.
fn decimal(text: &[u8]) -> Option<u8> {
    if text.is_empty() || text.len() > 3 || (text.len() > 1 && text[0] == b'0') {
        return None;
    }
    let value = text.iter().try_fold(0_u16, |value, byte| {
        byte.is_ascii_digit().then(|| value * 10 + u16::from(byte - b'0'))
    })?;
    value.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<String, Fault> {
        AnyPrefix::parse(text.as_bytes(), false).map(|(prefix, _)| prefix.to_string())
    }

    #[test]
    fn what_is_a_prefix() {
        for text in ["0.0.0.0/0", "10.0.0.0/8", "255.255.255.255/32", "::/0", "2001:db8::/32"] {
            assert_eq!(parse(text).as_deref(), Ok(text));
        }
        assert_eq!(parse("192.0.2.1").as_deref(), Ok("192.0.2.1/32"));
        assert_eq!(parse("2001:DB8:0:0::1").as_deref(), Ok("2001:db8::1/128"));
        assert_eq!(parse("::ffff:192.0.2.0/120").as_deref(), Ok("::ffff:192.0.2.0/120"));
    }

    #[test]
    fn what_is_not() {
        for text in [
            "",
            "default",
            "10/8",
            "010.0.0.0/8",
            "10.0.0.00/8",
            "1.2.3",
            "1.2.3.4.5",
            "256.0.0.0/8",
            "1.2.3.4x",
            "fe80::1%eth0",
            ":::/0",
            "1:2/16",
            "+1.2.3.4",
        ] {
            assert_eq!(parse(text), Err(Fault::Address), "{text}");
        }
        for text in ["/", "10.0.0.0/", "10.0.0.0/08", "10.0.0.0/+8", "10.0.0.0/8/8", "::/1000"] {
            assert_eq!(parse(text), Err(Fault::Length), "{text}");
        }
        assert_eq!(parse("10.0.0.0/33").unwrap_err().to_string(), "length /33 exceeds /32");
        assert_eq!(parse("::/129").unwrap_err().to_string(), "length /129 exceeds /128");
        let host = parse("10.0.0.1/8").unwrap_err().to_string();
        assert_eq!(host, "host bits are set to the right of /8");
    }

    #[test]
    fn mask_clears_host_bits() {
        let (prefix, masked) = AnyPrefix::parse(b"10.1.2.3/8", true).unwrap();
        assert_eq!((prefix.to_string().as_str(), masked), ("10.0.0.0/8", true));
        let (prefix, masked) = AnyPrefix::parse(b"10.0.0.0/8", true).unwrap();
        assert_eq!((prefix.to_string().as_str(), masked), ("10.0.0.0/8", false));
    }
}
