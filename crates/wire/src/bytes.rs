//! Numbers in network byte order at a place in a slice.
//!
//! The place must lie inside: callers have checked the length once (a `View`)
//! or hold an array. With an array and a constant place there is no check left
//! in the machine code.

use core::net::{Ipv4Addr, Ipv6Addr};

/// `N` bytes at `at`.
///
/// # Panics
/// When they do not lie inside `bytes`.
#[inline(always)]
pub fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("the slice has N bytes")
}

/// The 16-bit number at `at`.
///
/// # Panics
/// When it does not lie inside `bytes`.
#[inline(always)]
pub fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(array(bytes, at))
}

/// The 32-bit number at `at`.
///
/// # Panics
/// When it does not lie inside `bytes`.
#[inline(always)]
pub fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(array(bytes, at))
}

/// The 128-bit number at `at`.
///
/// # Panics
/// When it does not lie inside `bytes`.
#[inline(always)]
pub fn be128(bytes: &[u8], at: usize) -> u128 {
    u128::from_be_bytes(array(bytes, at))
}

/// Writes a 16-bit number at `at`.
///
/// # Panics
/// When it does not lie inside `bytes`.
#[inline(always)]
pub fn put16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// Writes a 32-bit number at `at`.
///
/// # Panics
/// When it does not lie inside `bytes`.
#[inline(always)]
pub fn put32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

/// The IPv4 address at `at`.
///
/// # Panics
/// When it does not lie inside `bytes`.
#[inline]
pub fn ipv4(bytes: &[u8], at: usize) -> Ipv4Addr {
    Ipv4Addr::from(array::<4>(bytes, at))
}

/// The IPv6 address at `at`.
///
/// # Panics
/// When it does not lie inside `bytes`.
#[inline]
pub fn ipv6(bytes: &[u8], at: usize) -> Ipv6Addr {
    Ipv6Addr::from(array::<16>(bytes, at))
}
