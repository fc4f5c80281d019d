//! IP in IP: the outer header of a packet on its way to a Grantor (RFC 2003, RFC 2473,
//! with the field values that the deployed Gatekeeper sends).
//!
//! ```text
//!  IPv4  DSCP, ECN │ inner + 20 │ ident 0, DF │ TTL 64        │ protocol 4     │ checksum │ src, dst
//!  IPv6  DSCP, ECN │ inner      │ label 0     │ hop limit 255 │ next header 41 │          │ src, dst
//! ```
//!
//! The inner packet stays as it is, its TTL too. Its ECN is copied, but for "congestion
//! experienced", which becomes ECT(0): the outer header begins a new path (RFC 3168
//! §9.1.1, the full-functionality option).
//!
//! | cost | IPv4: 20 bytes and the sum of two words; IPv6: 40 bytes |
//! |------|---------------------------------------------------------|

use core::net::{Ipv4Addr, Ipv6Addr};

use crate::bytes::{be16, put16};
use crate::protocol::{IPIP, IPV6};
use crate::{ipv4, ipv6};

/// TTL of an outer IPv4 header.
pub const TTL: u8 = 64;
/// Hop limit of an outer IPv6 header, unless configured otherwise.
pub const HOP_LIMIT: u8 = 255;

/// The outer ECN for an inner traffic class: both of its bits, but ECT(0) for CE.
#[inline(always)]
pub fn outer_ecn(inner: u8) -> u8 {
    let ecn = inner & ECN;
    if ecn == CE { ECT0 } else { ecn }
}

/// IPv4 in IPv4, from one address to another.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Tunnel4 {
    /// The addresses, as they are in memory.
    src: u32,
    dst: u32,
    /// The sum of the header's words that no packet changes.
    sum: u32,
}

impl Tunnel4 {
    /// Between these ends.
    #[inline]
    pub fn new(src: Ipv4Addr, dst: Ipv4Addr) -> Self {
        let words = |ip: Ipv4Addr| (ip.to_bits() >> 16) + (ip.to_bits() & 0xffff);
        let rest = u32::from(ipv4::DONT_FRAGMENT) + u32::from(u16::from_be_bytes([TTL, IPIP]));
        let sum = rest + words(src) + words(dst);
        let [src, dst] = [src, dst].map(|ip| u32::from_le_bytes(ip.octets()));
        Tunnel4 { src, dst, sum }
    }

    /// The outer header of an inner packet, whose length is what its header says; `None`
    /// where both together are longer than a packet can be. Of `dscp` six bits count.
    ///
    /// Made of whole words: bytes that were just written one by one would have to reach the
    /// cache before they can be read together (`gatekeeper/granted`).
    #[inline]
    pub fn header(&self, dscp: u8, inner: &[u8; ipv4::MIN_LEN]) -> Option<[u8; ipv4::MIN_LEN]> {
        let mut header = [0; ipv4::MIN_LEN];
        self.outer(dscp, inner)?.put(&mut header);
        Some(header)
    }

    /// The same, to be [put](Outer4::put) where it belongs.
    #[inline(always)]
    pub fn outer(&self, dscp: u8, inner: &[u8; ipv4::MIN_LEN]) -> Option<Outer4> {
        let len = be16(inner, ipv4::TOTAL_LEN).checked_add(ipv4::MIN_LEN as u16)?;
        let tos = dscp << 2 | outer_ecn(inner[ipv4::TOS]);
        let first = u16::from_be_bytes([ipv4::PLAIN, tos]);
        let sum = self.sum + u32::from(first) + u32::from(len); // nine words: no overflow
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        let swapped = |word: u16| u64::from(word.swap_bytes());
        let low = swapped(first) | swapped(len) << 16 | swapped(ipv4::DONT_FRAGMENT) << 48;
        let high = u64::from(u16::from_le_bytes([TTL, IPIP]))
            | swapped(sum) << 16
            | u64::from(self.src) << 32;
        Some(Outer4 { low, high, dst: self.dst, len })
    }
}

/// An outer IPv4 header in the words that it is written in, and the length that it says: from
/// an array of bytes the compiler would make a store of each field.
#[derive(Clone, Copy, Debug)]
pub struct Outer4 {
    low: u64,
    high: u64,
    dst: u32,
    len: u16,
}

impl Outer4 {
    /// Bytes of both headers and what they carry.
    #[inline(always)]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u16 {
        self.len
    }

    /// Writes it.
    #[inline(always)]
    pub fn put(&self, header: &mut [u8; ipv4::MIN_LEN]) {
        header[..8].copy_from_slice(&self.low.to_le_bytes());
        header[8..16].copy_from_slice(&self.high.to_le_bytes());
        header[16..].copy_from_slice(&self.dst.to_le_bytes());
    }
}

/// IPv6 in IPv6, from one address to another.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Tunnel6 {
    /// The header with a length and a traffic class of zero.
    header: [u8; ipv6::LEN],
}

impl Tunnel6 {
    /// Between these ends; `hop_limit` is [`HOP_LIMIT`] unless configured otherwise.
    #[inline]
    pub fn new(src: Ipv6Addr, dst: Ipv6Addr, hop_limit: u8) -> Self {
        let mut header = [0; ipv6::LEN];
        header[ipv6::VERSION] = 6 << 4;
        header[ipv6::NEXT_HEADER] = IPV6;
        header[ipv6::HOP_LIMIT] = hop_limit;
        header[ipv6::SRC..ipv6::DST].copy_from_slice(&src.octets());
        header[ipv6::DST..].copy_from_slice(&dst.octets());
        Tunnel6 { header }
    }

    /// The outer header of an inner packet, as [`Tunnel4::header`].
    #[inline]
    pub fn header(&self, dscp: u8, inner: &[u8; ipv6::LEN]) -> Option<[u8; ipv6::LEN]> {
        let len = be16(inner, ipv6::PAYLOAD_LEN).checked_add(ipv6::LEN as u16)?;
        let class = dscp << 2 | outer_ecn((be16(inner, ipv6::VERSION) >> 4) as u8);
        let mut header = self.header;
        put16(&mut header, ipv6::VERSION, 6 << 12 | u16::from(class) << 4);
        put16(&mut header, ipv6::PAYLOAD_LEN, len);
        Some(header)
    }
}

/// The bits of a traffic class that are ECN (RFC 3168 §5).
const ECN: u8 = 0b11;
/// Congestion experienced.
const CE: u8 = 0b11;
/// ECN-capable transport.
const ECT0: u8 = 0b10;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::checksum;

    const A: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 1);
    const B: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 9);
    const A6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 1);
    const B6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 9);

    /// Byte by byte, of a packet of 100 bytes with DSCP 41 and an inner ECN of 1.
    #[test]
    fn each_byte_of_both_headers() {
        let mut inner = [0; 20];
        (inner[0], inner[1], inner[3]) = (0x45, 0b1011_1001, 100);
        inner[8] = 1; // a TTL of 1 passes: it is not looked at
        let outer = Tunnel4::new(A, B).header(41, &inner).unwrap();
        let mut wanted = [0x45, 0xa5, 0, 120, 0, 0, 0x40, 0, 64, 4, 0, 0, 10, 0, 2, 1, 10, 0, 2, 9];
        let sum = checksum::checksum(&wanted);
        put16(&mut wanted, ipv4::CHECKSUM, sum);
        assert_eq!(outer, wanted);

        let mut inner = [0; 40];
        (inner[0], inner[1], inner[5]) = (0x6b, 0x9f, 60); // traffic class 0xb9, a flow label
        let outer = Tunnel6::new(A6, B6, HOP_LIMIT).header(41, &inner).unwrap();
        let mut wanted = [0; 40];
        wanted[..8].copy_from_slice(&[0x6a, 0x50, 0, 0, 0, 100, 41, 255]);
        wanted[8..24].copy_from_slice(&A6.octets());
        wanted[24..].copy_from_slice(&B6.octets());
        assert_eq!(outer, wanted);
    }

    #[test]
    fn congestion_experienced_is_not_copied() {
        for (inner, outer) in [(0, 0), (1, 1), (2, 2), (3, 2)] {
            assert_eq!(outer_ecn(0b1010_1000 | inner), outer);
            let mut four = [0; 20];
            (four[1], four[3]) = (0xfc | inner, 20);
            assert_eq!(Tunnel4::new(A, B).header(1, &four).unwrap()[1], 1 << 2 | outer);
            let mut six = [0; 40];
            put16(&mut six, 0, 6 << 12 | u16::from(0xfc | inner) << 4 | 0xf);
            let header = Tunnel6::new(A6, B6, 255).header(1, &six).unwrap();
            assert_eq!(be16(&header, 0), 6 << 12 | u16::from(1 << 2 | outer) << 4);
        }
    }

    #[test]
    fn what_gets_too_long_has_no_outer_header() {
        let mut inner = [0; 40];
        put16(&mut inner, ipv4::TOTAL_LEN, 65_515);
        let four: [u8; 20] = inner[..20].try_into().unwrap();
        let outer = Tunnel4::new(A, B).header(3, &four).unwrap();
        assert_eq!(be16(&outer, ipv4::TOTAL_LEN), 65_535);
        put16(&mut inner, ipv4::TOTAL_LEN, 65_516);
        let four: [u8; 20] = inner[..20].try_into().unwrap();
        assert_eq!(Tunnel4::new(A, B).header(3, &four), None);
        put16(&mut inner, ipv6::PAYLOAD_LEN, 65_495);
        let outer = Tunnel6::new(A6, B6, 255).header(3, &inner).unwrap();
        assert_eq!(be16(&outer, ipv6::PAYLOAD_LEN), 65_535);
        put16(&mut inner, ipv6::PAYLOAD_LEN, 65_496);
        assert_eq!(Tunnel6::new(A6, B6, 255).header(3, &inner), None);
    }

    proptest! {
        #[test]
        fn outer_headers_parse(src: [u8; 4], dst: [u8; 4], src6: [u16; 8], dst6: [u16; 8],
                               dscp in 0_u8..64, class: u8, len in 20_u16..=65_515) {
            let mut inner = [0; 20];
            inner[ipv4::TOS] = class;
            put16(&mut inner, ipv4::TOTAL_LEN, len);
            let outer = Tunnel4::new(src.into(), dst.into()).header(dscp, &inner).unwrap();
            let view = ipv4::View::quoted(&outer).unwrap();
            prop_assert!(view.checksum_ok());
            let header = ipv4::Header::of(&view);
            let wanted = ipv4::Header {
                tos: dscp << 2 | outer_ecn(class), total_len: len + 20, ident: 0, fragment: 0x4000,
                ttl: 64, protocol: 4, src: src.into(), dst: dst.into(), options: &[],
            };
            prop_assert_eq!(header, wanted);

            let mut inner = [0xff; 40];
            put16(&mut inner, 0, 6 << 12 | u16::from(class) << 4 | 0xf);
            put16(&mut inner, ipv6::PAYLOAD_LEN, len - 20);
            let outer = Tunnel6::new(src6.into(), dst6.into(), 9).header(dscp, &inner).unwrap();
            let wanted = ipv6::Header {
                traffic_class: dscp << 2 | outer_ecn(class), flow_label: 0, payload_len: len + 20,
                next_header: 41, hop_limit: 9, src: src6.into(), dst: dst6.into(),
            };
            prop_assert_eq!(ipv6::Header::of(&ipv6::View::quoted(&outer).unwrap()), wanted);
        }
    }
}
