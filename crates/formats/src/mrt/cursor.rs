//! Reading numbers in network order from a slice.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::prefix::AnyPrefix;
use crate::report::Fault;

/// What is left of a slice; each read says what it reads, so that a fault can
/// name it.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a>(pub &'a [u8]);

/// An address family, by its number in BGP (RFC 4760 §3).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Family {
    V4,
    V6,
}

impl Family {
    pub fn from_afi(afi: u16) -> Option<Self> {
        match afi {
            1 => Some(Family::V4),
            2 => Some(Family::V6),
            _ => None,
        }
    }
}

impl<'a> Cursor<'a> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn take(&mut self, n: usize, what: &'static str) -> Result<&'a [u8], Fault> {
        let (taken, rest) = self.0.split_at_checked(n).ok_or(Fault::Short(what))?;
        self.0 = rest;
        Ok(taken)
    }

    /// What the next `n` bytes hold, as a cursor of their own.
    pub fn sub(&mut self, n: usize, what: &'static str) -> Result<Cursor<'a>, Fault> {
        self.take(n, what).map(Cursor)
    }

    pub fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Fault> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Fault::Short(what))?;
        self.0 = rest;
        Ok(*taken)
    }

    pub fn u8(&mut self, what: &'static str) -> Result<u8, Fault> {
        self.array(what).map(u8::from_be_bytes)
    }

    pub fn u16(&mut self, what: &'static str) -> Result<u16, Fault> {
        self.array(what).map(u16::from_be_bytes)
    }

    pub fn u32(&mut self, what: &'static str) -> Result<u32, Fault> {
        self.array(what).map(u32::from_be_bytes)
    }

    /// An AS number of 2 or 4 bytes.
    pub fn asn(&mut self, wide: bool, what: &'static str) -> Result<u32, Fault> {
        if wide { self.u32(what) } else { self.u16(what).map(u32::from) }
    }

    pub fn addr(&mut self, family: Family, what: &'static str) -> Result<IpAddr, Fault> {
        Ok(match family {
            Family::V4 => Ipv4Addr::from(self.array(what)?).into(),
            Family::V6 => Ipv6Addr::from(self.array(what)?).into(),
        })
    }

    /// A prefix as BGP writes it: length in bits, then as many bytes as needed.
    /// Bits behind the length are irrelevant (RFC 4271 §4.3) and cleared.
    pub fn prefix(&mut self, family: Family, what: &'static str) -> Result<AnyPrefix, Fault> {
        let len = self.u8(what)?;
        let bytes = self.take(usize::from(len).div_ceil(8), what)?;
        let addr = match family {
            Family::V4 => IpAddr::from(padded::<4>(bytes)?),
            Family::V6 => IpAddr::from(padded::<16>(bytes)?),
        };
        AnyPrefix::covering(addr, len).ok_or(TOO_LONG)
    }
}

fn padded<const N: usize>(bytes: &[u8]) -> Result<[u8; N], Fault> {
    let mut all = [0; N];
    all.get_mut(..bytes.len()).ok_or(TOO_LONG)?.copy_from_slice(bytes);
    Ok(all)
}

const TOO_LONG: Fault = Fault::Malformed("a prefix longer than an address");
