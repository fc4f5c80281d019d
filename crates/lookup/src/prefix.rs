//! Prefixes, valid by construction.

use core::fmt;

use crate::Addr;

/// `address/length` with no bit set to the right of the length.
///
/// Ordered by address, then length: a prefix comes before everything inside it.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Prefix<A> {
    first: A,
    len: u8,
}

impl<A: Addr> Prefix<A> {
    /// The prefix that covers everything, `/0`.
    pub fn all() -> Self {
        Prefix { first: A::default(), len: 0 }
    }

    /// The prefix of `len` bits that starts at `first`.
    ///
    /// # Errors
    /// When `len` exceeds the family's bits, or `first` has host bits set.
    pub fn new(first: A, len: u8) -> Result<Self, BadPrefix> {
        if len > A::WIDTH {
            return Err(BadPrefix::Length { len, most: A::WIDTH });
        }
        let prefix = Prefix { first, len };
        if first.and(prefix.host_mask()) == A::default() {
            Ok(prefix)
        } else {
            Err(BadPrefix::HostBits { len })
        }
    }

    /// The prefix of `len` bits that covers `addr`: host bits are cleared.
    ///
    /// # Panics
    /// When `len` exceeds the family's bits.
    pub fn covering(addr: A, len: u8) -> Self {
        assert!(len <= A::WIDTH, "a prefix of {len} bits");
        Prefix { first: addr.and(A::mask(len)), len }
    }

    /// The first address covered, host byte order.
    #[inline]
    pub fn first(&self) -> A {
        self.first
    }

    /// The last address covered, host byte order.
    #[inline]
    pub fn last(&self) -> A {
        self.first.or(self.host_mask())
    }

    /// The length in bits.
    #[inline]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u8 {
        self.len
    }

    /// Ones where the address is free: a `/24` gives `0x0000_00ff`.
    #[inline]
    pub fn host_mask(&self) -> A {
        A::mask(self.len).not()
    }

    /// True when `addr` lies inside.
    #[inline]
    pub fn contains(&self, addr: A) -> bool {
        addr.and(A::mask(self.len)) == self.first
    }

    /// True when `other` is this prefix or lies inside it.
    #[inline]
    pub fn covers(&self, other: &Self) -> bool {
        self.len <= other.len && self.contains(other.first)
    }
}

impl<A: Addr> fmt::Display for Prefix<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first.to_ip(), self.len)
    }
}

/// Why a prefix was refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BadPrefix {
    /// Address bits are set to the right of the prefix.
    #[error("host bits are set to the right of /{len}")]
    HostBits {
        /// As given.
        len: u8,
    },
    /// The prefix is longer than an address.
    #[error("length /{len} exceeds /{most}")]
    Length {
        /// As given.
        len: u8,
        /// The family's bits.
        most: u8,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_prefix_cannot_be_made() {
        assert_eq!(Prefix::new(0_u32, 33), Err(BadPrefix::Length { len: 33, most: 32 }));
        assert_eq!(Prefix::new(1_u32, 24), Err(BadPrefix::HostBits { len: 24 }));
        assert!(Prefix::new(0_u128, 0).is_ok());
    }

    #[test]
    fn ends_and_nesting() {
        let outer = Prefix::new(0x0a00_0000_u32, 8).unwrap();
        let inner = Prefix::covering(0x0a01_02c8_u32, 24);
        assert_eq!(inner.to_string(), "10.1.2.0/24");
        assert_eq!(outer.last(), 0x0aff_ffff);
        assert!(outer.covers(&inner) && outer < inner && !inner.covers(&outer));
    }
}
