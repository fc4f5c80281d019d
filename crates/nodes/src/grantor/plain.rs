//! The usual packet for a Grantor: granted, from a Gatekeeper, with two headers in which nothing is
//! uncommon. It is recognised from a few words of both headers, and unwrapped in one step.
//!
//! ```text
//!  outer and inner header ─► all tests at once, one branch ─┬ plain ► unwrapped
//!                                                           └ other ► untouched: `inner`, `unwrap`
//! ```
//!
//! What is plain here, [`inner`](super::inner) accepts and [`unwrap`](super::unwrap) changes in the
//! same way; a test compares them. They take all other packets, and name defects.

use graph::Packets;
use wire::bytes::{array, be16, be128};
use wire::{checksum, ethernet, ipv4, ipv6};

use super::inner::is_ip;
use super::unwrap::{LinkHeader, TAGGED_LEN};
use crate::family::{Family, V4, V6};

/// What differs between the families.
pub trait Plain: Family {
    /// Bytes of the outer header.
    const OUTER: usize;

    /// The beginning of packet `i`'s inner packet, its header at least.
    fn within<N>(v: &Packets<N>, i: usize) -> Option<&[u8]>;

    /// Length and destination of the inner packet, where both headers are plain. The header check
    /// has passed the outer one, which has no options. It holds a packet of its own family.
    fn read(outer: &[u8; 64], inner: &[u8]) -> Option<(u16, Self::Addr)>;

    /// Adds 1 to the TTL or hop limit of a plain inner header.
    fn raise(head: &mut [u8; 64]);
}

impl Plain for V4 {
    const OUTER: usize = ipv4::MIN_LEN;

    #[inline(always)]
    fn within<N>(v: &Packets<N>, i: usize) -> Option<&[u8]> {
        v.head(i).get(Self::OUTER..) // bytes that the packet does not have, its length tells
    }

    #[inline(always)]
    fn read(outer: &[u8; 64], inner: &[u8]) -> Option<(u16, u32)> {
        let (outer_word, word) = (word(outer, 0), word(inner, 0));
        let dst = u32::from_le_bytes(array(inner, ipv4::DST));
        let [outer_total, total] =
            [outer_word, word].map(|word| ((word >> 16) as u16).swap_bytes());
        let (protocol, src) = (inner[ipv4::PROTOCOL], inner[ipv4::SRC]);
        let is_plain = (outer_word ^ word) & SAME_4 | outer_word & UNUSUAL_4 == 0
            && total >= ipv4::MIN_LEN as u16
            && usize::from(total) + Self::OUTER <= outer_total.into()
            && inner[ipv4::TTL] < u8::MAX
            && PLAIN[usize::from(protocol)] & UPPER != 0
            && PLAIN[usize::from(src)] & SOURCE != 0
            && checksum::is_right_words(word, self::word(inner, 8), dst);
        is_plain.then_some((total, dst.swap_bytes()))
    }

    #[inline(always)]
    fn raise(head: &mut [u8; 64]) {
        let word = raised(Self::limit(head));
        head[ipv4::TTL..ipv4::TTL + 4].copy_from_slice(&word.to_le_bytes());
    }
}

impl Plain for V6 {
    const OUTER: usize = ipv6::LEN;

    #[inline(always)]
    fn within<N>(v: &Packets<N>, i: usize) -> Option<&[u8]> {
        v.behind(i, Self::OUTER).map(|head| &head[..])
    }

    #[inline(always)]
    fn read(outer: &[u8; 64], inner: &[u8]) -> Option<(u16, u128)> {
        let (outer_word, word) = (word(outer, 0), word(inner, 0));
        let lens = [outer, inner].map(|head| usize::from(be16(head, ipv6::PAYLOAD_LEN)));
        let [outer_len, inner_len] = lens;
        let is_plain = (outer_word ^ word) & SAME_6 | outer_word & UNUSUAL_6 == 0
            && Self::OUTER + inner_len <= outer_len
            && PLAIN[usize::from(inner[ipv6::NEXT_HEADER])] & UPPER != 0
            && is_global(u64::from_be_bytes(array(inner, ipv6::SRC)));
        // No overflow: it is at most `outer_len`.
        is_plain.then(|| ((Self::OUTER + inner_len) as u16, be128(inner, ipv6::DST)))
    }

    #[inline(always)]
    fn raise(head: &mut [u8; 64]) {
        head[ipv6::HOP_LIMIT] = head[ipv6::HOP_LIMIT].saturating_add(1);
    }
}

/// True for a packet of `len` bytes without a tunnel in which [`inner`](super::inner) would surely
/// find no defect, nor bytes behind it. The header check has passed it.
#[inline(always)]
pub(super) fn is_alone(head: &[u8; 64], len: u16) -> bool {
    let is_upper = |protocol: u8| PLAIN[usize::from(protocol)] & UPPER != 0;
    if head[0] >> 4 == 4 {
        be16(head, ipv4::TOTAL_LEN) == len
            && is_upper(head[ipv4::PROTOCOL])
            && PLAIN[usize::from(head[ipv4::SRC])] & SOURCE != 0
    } else {
        ipv6::LEN + usize::from(be16(head, ipv6::PAYLOAD_LEN)) == len.into()
            && is_upper(head[ipv6::NEXT_HEADER])
            && is_global(u64::from_be_bytes(array(head, ipv6::SRC)))
    }
}

/// Takes the outer header off packet `i`, whose inner packet is plain and of `total` bytes, which
/// is then at its head. Returns false, and changes nothing, where the packet is shorter, or its
/// link header is neither plain nor with one tag.
#[inline(always)]
pub(super) fn unwrap<F: Plain, N>(v: &mut Packets<N>, i: usize, total: u16) -> bool {
    match usize::from(v.frame_len(i).wrapping_sub(v.len(i))) {
        ethernet::LEN => take::<F, N, { ethernet::LEN }>(v, i, total),
        TAGGED_LEN => take::<F, N, TAGGED_LEN>(v, i, total),
        _ => false,
    }
}

#[inline(always)]
fn take<F: Plain, N, const LINK: usize>(v: &mut Packets<N>, i: usize, total: u16) -> bool {
    let Some(header) = LinkHeader::of(v.before_mut(i), LINK) else { return false };
    if !v.unwrap(i, F::OUTER, total.into()) {
        return false;
    }
    F::raise(v.head_mut(i));
    header.put(v.before_mut(i));
    true
}

/// 8 bytes of a header, in memory order.
#[inline(always)]
fn word(head: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array(head, at))
}

/// TTL, protocol and checksum, as [`Family::limit`] has them, with the TTL one more. It is not 255.
/// In memory order the checksum is in the upper half, and 1 less (RFC 1624, equation 3: by carry 2
/// less where it is 0).
#[inline(always)]
fn raised(word: u32) -> u32 {
    let carry = u32::from(word < 0x1_0000) << 16;
    word.wrapping_sub(0xffff).wrapping_sub(carry)
}

/// True for a first half that is surely of a sender: not all zero (unspecified, loopback,
/// IPv4-mapped), nor from link-local (`fe80::/10`) to multicast (`ff00::/8`).
#[inline(always)]
fn is_global(upper: u64) -> bool {
    upper.wrapping_sub(1) < (0xfe80 << 48) - 1
}

/// In the first words of both IPv4 headers: version and header length, and ECN. Where its bits are
/// the same in both headers, the inner ones stay by either rule of [`Ecn`](super::settings::Ecn).
const SAME_4: u64 = u64::from_le_bytes([0xff, 3, 0, 0, 0, 0, 0, 0]);

/// In an outer IPv4 header's first word: a DSCP beyond [`GRANTED`], and all that makes a fragment.
const UNUSUAL_4: u64 = {
    let [high, low] = (ipv4::OFFSET_MASK | ipv4::MORE_FRAGMENTS).to_be_bytes();
    u64::from_le_bytes([0, BEYOND << 2, 0, 0, 0, 0, high, low])
};

/// In the first words of both IPv6 headers: version and ECN.
const SAME_6: u64 = u64::from_le_bytes([0xf0, 3 << 4, 0, 0, 0, 0, 0, 0]);

/// In an outer IPv6 header's first word: a DSCP beyond [`GRANTED`].
const UNUSUAL_6: u64 = u64::from_le_bytes([BEYOND >> 2, (BEYOND & 3) << 6, 0, 0, 0, 0, 0, 0]);

/// Bits of a DSCP of which each makes it exceed [`GRANTED`].
const BEYOND: u8 = 63 & !GRANTED;

/// The highest DSCP of packets that ask for nothing.
pub(super) const GRANTED: u8 = policy::program::GRANTED;

const _: () = assert!((GRANTED + 1).is_power_of_two());

/// What is sure of a protocol, and of a source by its first octet. A table, because a load is less
/// than the compares.
static PLAIN: [u8; 256] = {
    let mut plain = [0; 256];
    let mut at = 0;
    while at < plain.len() {
        let number = at as u8;
        if !is_ip(number) && !ipv6::is_extension(number) {
            plain[at] |= UPPER;
        }
        // Of 169, only some are.
        if ipv4::is_source([number, 0, 0, 0]) && ipv4::is_source([number, 254, 0, 0]) {
            plain[at] |= SOURCE;
        }
        at += 1;
    }
    plain
};

/// Neither IP again nor an extension header of IPv6.
const UPPER: u8 = 1;
/// [`ipv4::is_source`], whatever the other octets are.
const SOURCE: u8 = 2;

#[cfg(test)]
mod tests {
    use super::super::settings::Ecn;
    use super::super::unwrap::ecn;
    use super::*;

    #[test]
    fn the_checksum_follows_the_ttl() {
        for check in 0..=u16::MAX {
            let [high, low] = check.to_be_bytes();
            for (ttl, protocol) in [(0, 17), (63, 6), (254, 255)] {
                let word = u32::from_le_bytes([ttl, protocol, high, low]);
                let [raised, same, high, low] = super::raised(word).to_le_bytes();
                let [old, new] = [ttl, ttl + 1].map(|ttl| u16::from_be_bytes([ttl, protocol]));
                let want = (ttl + 1, protocol, checksum::update(check, old, new));
                assert_eq!((raised, same, u16::from_be_bytes([high, low])), want);
            }
        }
    }

    #[test]
    fn equal_ecn_bits_stay_by_either_rule() {
        for mode in [Ecn::Deployed, Ecn::Rfc6040] {
            assert!((0..4).all(|bits| ecn(bits, bits, mode) == Some(bits)), "{mode:?}");
        }
    }

    #[test]
    fn masks_have_the_bits_of_their_fields() {
        for dscp in 0..64_u8 {
            let four = u64::from_le_bytes([0x45, dscp << 2 | 3, 255, 255, 255, 255, 0x40, 0]);
            assert_eq!(four & UNUSUAL_4 == 0, dscp <= GRANTED, "{dscp}");
            let [first, second] = (0x6000 | u16::from(dscp) << 6 | 0x3f).to_be_bytes();
            let six = u64::from_le_bytes([first, second, 255, 255, 255, 255, 41, 255]);
            assert_eq!(six & UNUSUAL_6 == 0, dscp <= GRANTED, "{dscp}");
        }
        for fragment in [0x2000, 1, 0x1fff, 0x0100] {
            let [high, low] = u16::to_be_bytes(fragment);
            assert_ne!(u64::from_le_bytes([0x45, 0, 0, 0, 0, 0, high, low]) & UNUSUAL_4, 0);
        }
    }

    #[test]
    fn the_table_is_what_the_definitions_say() {
        for number in 0..=u8::MAX {
            let is_upper = !is_ip(number) && !ipv6::is_extension(number);
            assert_eq!(PLAIN[usize::from(number)] & UPPER != 0, is_upper, "{number}");
            let is_source = (0..=u8::MAX).all(|second| ipv4::is_source([number, second, 0, 0]));
            assert_eq!(PLAIN[usize::from(number)] & SOURCE != 0, is_source, "{number}");
        }
    }
}
