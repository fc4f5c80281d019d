//! The Internet checksum: RFC 1071 (in full), RFC 1624 (a change).
//!
//! A [`Sum`] is a one's complement sum that is not folded yet. It is kept in
//! little-endian order: the sum of byte-swapped words is the byte-swapped sum
//! (RFC 1071 §2 (B)), so the swap is done once, at the end.

use core::net::{Ipv4Addr, Ipv6Addr};

/// A one's complement sum in the making.
///
/// Invariant I1: fewer than 2^31 parts of 32 bits were added, so `self.0` has not
/// overflowed: no packet has more than 2^16 bytes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Sum(u64);

impl Sum {
    /// Nothing added.
    #[inline]
    pub fn new() -> Self {
        Sum(0)
    }

    /// Adds bytes; an odd last one is padded with zero (RFC 1071 §4.1), so of
    /// several parts only the last may have an odd length.
    #[inline]
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        let mut sum = self.0;
        let (words, tail) = bytes.as_chunks::<4>();
        for word in words {
            sum += u64::from(u32::from_le_bytes(*word));
        }
        let mut last = [0; 4];
        last[..tail.len()].copy_from_slice(tail);
        Sum(sum + u64::from(u32::from_le_bytes(last)))
    }

    /// Adds a 16-bit number in host byte order.
    #[inline]
    #[must_use]
    pub fn word(self, word: u16) -> Self {
        Sum(self.0 + u64::from(word.swap_bytes().to_le()))
    }

    /// The pseudo header of IPv4 (RFC 9293 §3.1, RFC 768); `len` is the length of
    /// the upper-layer header and data.
    #[inline]
    pub fn pseudo4(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, len: u16) -> Self {
        Sum::new().bytes(&src.octets()).bytes(&dst.octets()).word(protocol.into()).word(len)
    }

    /// The pseudo header of IPv6 (RFC 8200 §8.1); `protocol` is the upper layer's,
    /// not an extension header's.
    #[inline]
    pub fn pseudo6(src: Ipv6Addr, dst: Ipv6Addr, protocol: u8, len: u32) -> Self {
        let sum = Sum::new().bytes(&src.octets()).bytes(&dst.octets());
        sum.bytes(&len.to_be_bytes()).word(protocol.into())
    }

    /// The sum folded to 16 bits, host byte order.
    #[inline]
    pub fn fold(self) -> u16 {
        let sum = (self.0 & 0xffff_ffff) + (self.0 >> 32);
        let sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = (sum & 0xffff) + (sum >> 16);
        (sum as u16).swap_bytes()
    }

    /// The checksum field's value: the complement of the sum.
    #[inline]
    pub fn checksum(self) -> u16 {
        !self.fold()
    }

    /// True when the sum over data *and* checksum field is right: all ones, in
    /// one's complement zero (RFC 1071 §1 (3)).
    #[inline]
    pub fn is_right(self) -> bool {
        self.fold() == 0xffff
    }
}

/// The checksum over `bytes`, whose own checksum field is zero.
#[inline]
pub fn checksum(bytes: &[u8]) -> u16 {
    Sum::new().bytes(bytes).checksum()
}

/// True when `bytes`, checksum field included, sum up to zero.
#[inline]
pub fn is_right(bytes: &[u8]) -> bool {
    Sum::new().bytes(bytes).is_right()
}

/// As [`is_right`] for an IPv4 header without options. An all-zero header passes; its version
/// does not.
#[inline(always)]
pub fn is_right_20(header: &[u8; 20]) -> bool {
    let (words, _) = header.as_chunks::<4>();
    let word = |i: usize| u64::from(u32::from_le_bytes(words[i])); // cannot panic: there are five
    is_right_words(word(0) | word(1) << 32, word(2) | word(3) << 32, word(4) as u32)
}

/// The same for a header in three words, in memory order (little-endian), for nodes that also
/// compare these.
#[inline(always)]
pub fn is_right_words(first: u64, second: u64, third: u32) -> bool {
    // RFC 1071: words of any size may be summed, with their carries.
    let (sum, carry) = first.overflowing_add(second);
    let (sum, again) = sum.overflowing_add(u64::from(third) + u64::from(carry));
    is_multiple(sum.wrapping_add(u64::from(again)))
}

/// True for a multiple of 0xffff: what the sum of a right header is. By the inverse of 0xffff
/// modulo 2^64: one multiplication instead of a remainder.
#[inline(always)]
fn is_multiple(sum: u64) -> bool {
    const INVERSE: u64 = 0x0001_0001_0001_0001_u64.wrapping_neg();
    const { assert!(INVERSE.wrapping_mul(0xffff) == 1) };
    sum.wrapping_mul(INVERSE) <= u64::MAX / 0xffff
}

/// The checksum after a 16-bit word of the data changed from `old` to `new`:
/// HC' = ~(~HC + ~m + m') (RFC 1624 §3, equation 3). All in host byte order.
#[inline]
pub fn update(checksum: u16, old: u16, new: u16) -> u16 {
    let sum = u32::from(!checksum) + u32::from(!old) + u32::from(new);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    !(sum as u16)
}

/// As [`update`] for a 32-bit field at an even place, such as an IPv4 address.
#[inline]
pub fn update32(checksum: u16, old: u32, new: u32) -> u16 {
    let high = update(checksum, (old >> 16) as u16, (new >> 16) as u16);
    update(high, old as u16, new as u16)
}

/// An IPv4 header's checksum after its TTL was decremented by one: equation 3
/// with m' = m - 0x0100, so ~m + m' = 0xfeff whatever the protocol is. Never
/// 0xffff, which RFC 1141's C + 0x0100 could give (RFC 1624 §4).
#[inline(always)]
pub fn after_ttl_decrement(checksum: u16) -> u16 {
    let sum = u32::from(!checksum) + 0xfeff;
    !((sum & 0xffff) + (sum >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// RFC 1071 §4.1, word by word.
    fn by_definition(bytes: &[u8]) -> u16 {
        let mut sum = 0_u64;
        for pair in bytes.chunks(2) {
            sum += u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |&low| u64::from(low));
        }
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    #[test]
    fn the_example_of_rfc_1071() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::new().bytes(&bytes).fold(), 0xddf2); // §3
    }

    #[test]
    fn multiples_are_told_from_others() {
        for sum in (0..100).chain((1..1000).map(|i: u64| i.wrapping_mul(0x0123_4567_89ab_cdef))) {
            for sum in [sum, sum - sum % 0xffff, u64::MAX - sum] {
                assert_eq!(is_multiple(sum), sum % 0xffff == 0, "{sum}");
            }
        }
    }

    #[test]
    fn the_example_of_rfc_1624() {
        assert_eq!(update(0xdd2f, 0x5555, 0x3285), 0x0000); // §4
    }

    proptest! {
        #[test]
        fn the_sum_is_the_definition(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(Sum::new().bytes(&bytes).fold(), by_definition(&bytes));
        }

        #[test]
        fn parts_of_even_length_add_up(a in proptest::collection::vec(any::<[u8; 2]>(), 0..40),
                                       b in proptest::collection::vec(any::<u8>(), 0..80)) {
            let a = a.concat();
            let whole = [a.clone(), b.clone()].concat();
            prop_assert_eq!(Sum::new().bytes(&a).bytes(&b).fold(), by_definition(&whole));
        }

        #[test]
        fn an_update_is_the_full_sum(mut header in any::<[u8; 20]>(), word in 0_usize..10, new: u16) {
            prop_assume!(word != 5);
            header[10..12].fill(0);
            header[0] = 0x45; // some word is not zero, as in every real header
            let before = checksum(&header);
            let old = u16::from_be_bytes([header[2 * word], header[2 * word + 1]]);
            header[2 * word..2 * word + 2].copy_from_slice(&new.to_be_bytes());
            header[10..12].copy_from_slice(&update(before, old, new).to_be_bytes());
            prop_assume!(header[..10].iter().chain(&header[12..]).any(|&byte| byte != 0));
            prop_assert!(is_right(&header));
            prop_assert!(is_right_20(&header));
        }

        #[test]
        fn ttl_decrement_is_an_update(check: u16, ttl in 1_u8.., protocol: u8) {
            let word = |ttl| u16::from_be_bytes([ttl, protocol]);
            prop_assert_eq!(after_ttl_decrement(check), update(check, word(ttl), word(ttl - 1)));
        }

        #[test]
        fn twenty_bytes_are_judged_alike(header: [u8; 20]) {
            prop_assume!(header != [0; 20]);
            prop_assert_eq!(is_right_20(&header), is_right(&header));
        }

        #[test]
        fn a_filled_header_is_right(mut header: [u8; 20]) {
            header[10..12].fill(0);
            let check = checksum(&header);
            header[10..12].copy_from_slice(&check.to_be_bytes());
            prop_assert!(is_right(&header));
        }
    }
}
