//! The two address families as one generic parameter.

use core::fmt::{Debug, Display};
use core::hash::Hash;
use core::net::{Ipv4Addr, Ipv6Addr};

/// An address as a number in host byte order: [`u32`] for IPv4, [`u128`] for IPv6.
pub trait Addr: Copy + Ord + Hash + Debug + Default + Send + Sync + 'static {
    /// Bits of an address, and so the longest prefix length.
    const WIDTH: u8;
    /// The name of the family in `show` output and engine cards.
    const FAMILY: &'static str;
    /// The standard library's type, which prints as people expect (RFC 5952).
    type Ip: Display + Debug + Copy + Into<core::net::IpAddr>;

    /// The address with every bit set.
    const MAX: Self;

    /// The standard library's form.
    fn to_ip(self) -> Self::Ip;
    /// From the standard library's form.
    fn from_ip(ip: Self::Ip) -> Self;
    /// Ones in the `len` highest bits. `len` is at most [`Addr::WIDTH`].
    fn mask(len: u8) -> Self;
    /// Bitwise and.
    fn and(self, other: Self) -> Self;
    /// Bitwise or.
    fn or(self, other: Self) -> Self;
    /// Bitwise complement.
    fn not(self) -> Self;
    /// Bits that `self` and `other` share from the top.
    fn common(self, other: Self) -> u8;
    /// Wrapping addition of a small number.
    fn plus(self, n: u64) -> Self;
    /// Wrapping subtraction of a small number.
    fn minus(self, n: u64) -> Self;
    /// Bit `i` from the top (0 is the highest), as 0 or 1.
    fn bit(self, i: u8) -> usize;
    /// The `len` bits after the first `from`, as a number. `len` is at most 32
    /// and `from + len` at most [`Addr::WIDTH`].
    fn bits(self, from: u8, len: u8) -> u32;
    /// From 128 bits, the upper ones dropped.
    fn from_u128(value: u128) -> Self;
    /// Widened with zeros on the left.
    fn to_u128(self) -> u128;
}

macro_rules! addr {
    ($int:ty, $ip:ty, $bits:literal, $family:literal) => {
        impl Addr for $int {
            const WIDTH: u8 = $bits;
            const FAMILY: &'static str = $family;
            type Ip = $ip;
            const MAX: Self = <$int>::MAX;

            fn to_ip(self) -> $ip {
                <$ip>::from(self)
            }
            fn from_ip(ip: $ip) -> Self {
                <$int>::from(ip)
            }
            #[inline]
            fn mask(len: u8) -> Self {
                debug_assert!(len <= Self::WIDTH);
                <$int>::MAX.checked_shl(u32::from(Self::WIDTH - len)).unwrap_or(0)
            }
            #[inline]
            fn and(self, other: Self) -> Self {
                self & other
            }
            #[inline]
            fn or(self, other: Self) -> Self {
                self | other
            }
            #[inline]
            fn not(self) -> Self {
                !self
            }
            #[inline]
            fn common(self, other: Self) -> u8 {
                (self ^ other).leading_zeros() as u8
            }
            #[inline]
            fn plus(self, n: u64) -> Self {
                self.wrapping_add(n as $int)
            }
            #[inline]
            fn minus(self, n: u64) -> Self {
                self.wrapping_sub(n as $int)
            }
            #[inline]
            fn bit(self, i: u8) -> usize {
                (self >> (Self::WIDTH - 1 - i)) as usize & 1
            }
            #[inline]
            fn bits(self, from: u8, len: u8) -> u32 {
                if len == 0 {
                    return 0;
                }
                ((self << from) >> (Self::WIDTH - len)) as u32
            }
            #[inline]
            fn from_u128(value: u128) -> Self {
                value as $int
            }
            #[inline]
            fn to_u128(self) -> u128 {
                self as u128
            }
        }
    };
}

addr!(u32, Ipv4Addr, 32, "ipv4");
addr!(u128, Ipv6Addr, 128, "ipv6");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_at_both_ends() {
        assert_eq!(<u32 as Addr>::mask(0), 0);
        assert_eq!(<u32 as Addr>::mask(32), u32::MAX);
        assert_eq!(<u32 as Addr>::mask(9), 0xff80_0000);
        assert_eq!(<u128 as Addr>::mask(0), 0);
        assert_eq!(<u128 as Addr>::mask(128), u128::MAX);
    }

    #[test]
    fn bits_are_counted_from_the_top() {
        assert_eq!(0x0a01_02c8_u32.bits(8, 8), 1);
        assert_eq!(0x0a01_02c8_u32.bits(24, 8), 0xc8);
        assert_eq!(0x0a01_02c8_u32.bits(0, 32), 0x0a01_02c8);
        assert_eq!(0x8000_0000_u32.bit(0), 1);
        assert_eq!(1_u128.bit(127), 1);
    }
}
