//! IPv6 and its extension headers (RFC 8200).
//!
//! ```text
//!  0          4         6    7    8           24               40
//!  │6│TC│flow │payload  │next│hop │ source    │ destination    │ extension headers, upper layer …
//!  │ │  │label│length   │    │lim │           │                │
//! ```

use core::net::Ipv6Addr;

use crate::bytes::{be16, be32, ipv6, put16, put32};
use crate::protocol::{AH, DESTINATION_OPTIONS, FRAGMENT, HOP_BY_HOP, ROUTING};
use crate::{Error, room, split};

/// Bytes of the fixed header.
pub const LEN: usize = 40;
/// Place of version, traffic class, flow label.
pub const VERSION: usize = 0;
/// Place of the payload length, which counts from the end of the fixed header.
pub const PAYLOAD_LEN: usize = 4;
/// Place of the next header.
pub const NEXT_HEADER: usize = 6;
/// Place of the hop limit.
pub const HOP_LIMIT: usize = 7;
/// Place of the source address.
pub const SRC: usize = 8;
/// Place of the destination address.
pub const DST: usize = 24;

/// Smallest link MTU (RFC 8200 §5).
pub const MIN_MTU: usize = 1280;
/// Extension headers that [`walk`] follows: each of RFC 8200 §4.1 once and the
/// destination options twice are six; two more for the liberal receiver.
pub const MAX_EXTENSIONS: usize = 8;

/// Option in a hop-by-hop header: router alert (RFC 2711).
pub const OPTION_ROUTER_ALERT: u8 = 5;
/// Option in a hop-by-hop header: jumbo payload (RFC 2675), not supported.
pub const OPTION_JUMBO: u8 = 0xc2;

/// True for the next headers that [`walk`] can step over (RFC 8200 §4, RFC 4302).
/// ESP is none: what follows it is not readable.
#[inline(always)]
pub const fn is_extension(next_header: u8) -> bool {
    matches!(next_header, HOP_BY_HOP | ROUTING | FRAGMENT | AH | DESTINATION_OPTIONS)
}

/// Whether an address can be a sender's on the Internet: not a group, unspecified, loopback,
/// IPv4-mapped or link-local. RFC 4291 §2.5.2, §2.5.3, §2.5.5, §2.5.6, §2.7.
#[inline]
pub fn is_source(ip: u128) -> bool {
    ip > 1 && ip >> 32 != 0xffff && ip >> 118 != 0x3fa && ip >> 120 != 0xff
}

/// A Fragment header's content (RFC 8200 §4.5).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Fragment {
    /// The place of the payload in the original packet's, in bytes.
    pub offset: u16,
    /// More fragments follow.
    pub more: bool,
    /// Identification of a packet's fragments.
    pub ident: u32,
}

impl Fragment {
    /// Bytes of the header.
    pub const LEN: usize = 8;

    /// Writes the header: the [`Fragment::LEN`] bytes before a payload of
    /// protocol `next_header`. Returns their number.
    ///
    /// # Errors
    /// When the buffer is shorter or the offset not a multiple of eight.
    pub fn emit(&self, next_header: u8, buffer: &mut [u8]) -> Result<usize, Error> {
        if !self.offset.is_multiple_of(8) {
            let found = self.offset.into();
            return Err(Error::Field { header: "ipv6", field: "fragment offset", found });
        }
        let out = room(buffer, Fragment::LEN, "ipv6 fragment")?;
        out[0] = next_header;
        out[1] = 0;
        put16(out, 2, self.offset | u16::from(self.more));
        put32(out, 4, self.ident);
        Ok(Fragment::LEN)
    }
}

/// What a walk over the extension headers found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Chain {
    /// The upper-layer protocol; an extension header's number only behind the
    /// Fragment header of a fragment that is not the first.
    pub protocol: u8,
    /// Where the upper layer starts, counted from the end of the fixed header.
    pub at: usize,
    /// The Fragment header, if there is one.
    pub fragment: Option<Fragment>,
    /// True with a Hop-by-Hop Options header.
    pub hop_by_hop: bool,
    /// True with a Routing header.
    pub routing: bool,
}

/// Follows the extension headers from `next_header` through `payload`, the bytes
/// behind the fixed header. At a fragment that is not the first it stops: what
/// follows is no header.
///
/// # Errors
/// When a header is cut off, a Hop-by-Hop header is not the first (RFC 8200
/// §4.1), or there are more than [`MAX_EXTENSIONS`].
pub fn walk(next_header: u8, payload: &[u8]) -> Result<Chain, Error> {
    let mut chain =
        Chain { protocol: next_header, at: 0, fragment: None, hop_by_hop: false, routing: false };
    for n in 0..=MAX_EXTENSIONS {
        let kind = chain.protocol;
        let later_fragment = chain.fragment.is_some_and(|fragment| fragment.offset != 0);
        if !is_extension(kind) || later_fragment {
            return Ok(chain);
        }
        if kind == HOP_BY_HOP && n > 0 {
            return Err(Error::Field {
                header: "ipv6",
                field: "hop-by-hop header",
                found: n as u32,
            });
        }
        // cannot panic: `at` was inside the payload when it was last moved.
        let (fixed, _) = split(&payload[chain.at..], 8, "ipv6 extension")?;
        let len = match kind {
            FRAGMENT => Fragment::LEN,
            AH => (usize::from(fixed[1]) + 2) * 4, // RFC 4302 §2.2
            _ => (usize::from(fixed[1]) + 1) * 8,  // RFC 8200 §4.3, §4.4, §4.6
        };
        split(&payload[chain.at..], len, "ipv6 extension")?;
        if kind == FRAGMENT {
            let word = be16(fixed, 2);
            let (offset, more) = (word & 0xfff8, word & 1 != 0);
            chain.fragment = Some(Fragment { offset, more, ident: be32(fixed, 4) });
        }
        chain.hop_by_hop |= kind == HOP_BY_HOP;
        chain.routing |= kind == ROUTING;
        chain.protocol = fixed[0];
        chain.at += len;
    }
    Err(Error::TooManyExtensions { most: MAX_EXTENSIONS })
}

/// One option of a Hop-by-Hop or Destination Options header.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Opt<'a> {
    /// The option type; its two highest bits say what to do if it is unknown.
    pub kind: u8,
    /// The data.
    pub data: &'a [u8],
}

/// Walks the options of such a header; one of a wrong length is the last item,
/// an error (RFC 8200 §4.2).
#[derive(Clone, Copy, Debug)]
pub struct Options<'a>(&'a [u8]);

impl<'a> Options<'a> {
    /// The options of the extension header at the start of `bytes`.
    ///
    /// # Errors
    /// When the header is cut off.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Error> {
        let (fixed, _) = split(bytes, 8, "ipv6 options")?;
        let (header, _) = split(bytes, (usize::from(fixed[1]) + 1) * 8, "ipv6 options")?;
        Ok(Options(&header[2..]))
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<Opt<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        while let Some((&PAD1, rest)) = self.0.split_first() {
            self.0 = rest;
        }
        let bytes = core::mem::take(&mut self.0);
        let (&kind, rest) = bytes.split_first()?;
        let option = rest.split_first().and_then(|(&len, data)| data.split_at_checked(len.into()));
        let Some((data, rest)) = option else {
            let found = rest.first().copied().unwrap_or(0).into();
            return Some(Err(Error::Field { header: "ipv6", field: "option length", found }));
        };
        self.0 = rest;
        Some(Ok(Opt { kind, data }))
    }
}

/// The one-byte padding, the only option without a length.
const PAD1: u8 = 0;

/// A packet whose version and length are right.
///
/// Invariant I1: `header` has [`LEN`] bytes.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    header: &'a [u8],
    payload: &'a [u8],
}

impl<'a> View<'a> {
    /// Checks a packet; bytes behind its payload length are the link's padding.
    ///
    /// # Errors
    /// When the version is not 6, or the packet is shorter than it says (RFC 8200 §3).
    pub fn new(bytes: &'a [u8]) -> Result<Self, Error> {
        let view = View::quoted(bytes)?;
        let (need, have) = (LEN + usize::from(view.payload_len()), bytes.len());
        if need > have {
            return Err(Error::Truncated { header: "ipv6", need, have });
        }
        Ok(view)
    }

    /// As [`View::new`] for a packet whose end is missing, such as one that an
    /// ICMPv6 error quotes.
    ///
    /// # Errors
    /// As [`View::new`]; an end that is missing is none.
    pub fn quoted(bytes: &'a [u8]) -> Result<Self, Error> {
        let (header, rest) = split(bytes, LEN, "ipv6")?;
        let version = header[VERSION] >> 4;
        if version != 6 {
            return Err(Error::Field { header: "ipv6", field: "version", found: version.into() });
        }
        let len = usize::from(be16(header, PAYLOAD_LEN));
        Ok(View { header, payload: &rest[..rest.len().min(len)] })
    }

    /// Traffic class: differentiated services and ECN.
    pub fn traffic_class(&self) -> u8 {
        (be16(self.header, VERSION) >> 4) as u8
    }

    /// The flow label, 20 bits (RFC 6437).
    pub fn flow_label(&self) -> u32 {
        be32(self.header, VERSION) & 0xf_ffff
    }

    /// Bytes behind the fixed header, as the header says.
    pub fn payload_len(&self) -> u16 {
        be16(self.header, PAYLOAD_LEN)
    }

    /// What follows the fixed header: an extension header or the upper layer.
    pub fn next_header(&self) -> u8 {
        self.header[NEXT_HEADER]
    }

    /// The hop limit.
    pub fn hop_limit(&self) -> u8 {
        self.header[HOP_LIMIT]
    }

    /// Source address.
    pub fn src(&self) -> Ipv6Addr {
        ipv6(self.header, SRC)
    }

    /// Destination address.
    pub fn dst(&self) -> Ipv6Addr {
        ipv6(self.header, DST)
    }

    /// What follows the fixed header.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// Follows the extension headers.
    ///
    /// # Errors
    /// As [`walk`].
    pub fn chain(&self) -> Result<Chain, Error> {
        walk(self.next_header(), self.payload)
    }

    /// The upper layer behind the extension headers.
    ///
    /// # Errors
    /// As [`walk`].
    pub fn upper(&self) -> Result<(Chain, &'a [u8]), Error> {
        let chain = self.chain()?;
        Ok((chain, &self.payload[chain.at..]))
    }
}

/// The fixed header's fields.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Header {
    /// Traffic class.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Bytes behind the fixed header.
    pub payload_len: u16,
    /// What follows the fixed header.
    pub next_header: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source address.
    pub src: Ipv6Addr,
    /// Destination address.
    pub dst: Ipv6Addr,
}

impl Header {
    /// Reads the fields.
    ///
    /// # Errors
    /// As [`View::new`].
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        View::new(bytes).map(|view| Header::of(&view))
    }

    /// The fields of a checked packet.
    pub fn of(view: &View<'_>) -> Self {
        Header {
            traffic_class: view.traffic_class(),
            flow_label: view.flow_label(),
            payload_len: view.payload_len(),
            next_header: view.next_header(),
            hop_limit: view.hop_limit(),
            src: view.src(),
            dst: view.dst(),
        }
    }

    /// Writes [`LEN`] bytes and returns their number.
    ///
    /// # Errors
    /// When the buffer is shorter or the flow label longer than 20 bits.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        let found = self.flow_label;
        if found > 0xf_ffff {
            return Err(Error::Field { header: "ipv6", field: "flow label", found });
        }
        let out = room(buffer, LEN, "ipv6")?;
        put32(out, VERSION, 6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label);
        put16(out, PAYLOAD_LEN, self.payload_len);
        out[NEXT_HEADER] = self.next_header;
        out[HOP_LIMIT] = self.hop_limit;
        out[SRC..DST].copy_from_slice(&self.src.octets());
        out[DST..LEN].copy_from_slice(&self.dst.octets());
        Ok(LEN)
    }
}

#[cfg(test)]
mod tests {
    use std::vec;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn senders_have_addresses_of_hosts() {
        let at = |text: &str| is_source(text.parse::<Ipv6Addr>().unwrap().to_bits());
        let none = ["::", "::1", "::ffff:8.8.8.8", "fe80::9", "febf::1", "ff02::1"];
        assert!(none.iter().all(|text| !at(text)));
        assert!(
            ["::2", "64:ff9b::808:808", "2600::1", "fc00::9", "fec0::1"]
                .iter()
                .all(|text| at(text))
        );
    }
    use crate::protocol::{TCP, UDP};

    #[test]
    fn extension_headers_are_stepped_over() {
        // Hop-by-hop (8), routing (24), AH (12 + 12), destination options (8), UDP.
        let mut payload = vec![0; 8 + 24 + 24 + 8 + 8];
        payload[0] = ROUTING;
        (payload[8], payload[9]) = (AH, 2);
        (payload[32], payload[33]) = (DESTINATION_OPTIONS, 4);
        payload[56] = UDP;
        let chain = walk(HOP_BY_HOP, &payload).unwrap();
        assert_eq!((chain.protocol, chain.at), (UDP, 64));
        assert!(chain.hop_by_hop && chain.routing && chain.fragment.is_none());
        for short in 0..64 {
            assert!(walk(HOP_BY_HOP, &payload[..short]).is_err(), "{short} bytes");
        }
    }

    #[test]
    fn behind_a_later_fragment_there_are_no_headers() {
        let mut payload = [0; 16];
        let fragment = Fragment { offset: 1232, more: true, ident: 7 };
        fragment.emit(DESTINATION_OPTIONS, &mut payload).unwrap();
        let chain = walk(FRAGMENT, &payload).unwrap();
        assert_eq!((chain.protocol, chain.at), (DESTINATION_OPTIONS, 8));
        assert_eq!(chain.fragment, Some(fragment));
        Fragment { offset: 0, ..fragment }.emit(TCP, &mut payload).unwrap();
        assert_eq!(walk(FRAGMENT, &payload).unwrap().protocol, TCP);
    }

    #[test]
    fn the_walk_is_bounded_and_the_order_is_kept() {
        let mut payload = [0; 8 * 20];
        payload.iter_mut().step_by(8).for_each(|next| *next = DESTINATION_OPTIONS);
        let most = MAX_EXTENSIONS;
        assert_eq!(walk(DESTINATION_OPTIONS, &payload), Err(Error::TooManyExtensions { most }));
        payload[8 * (most - 1)] = UDP;
        assert_eq!(walk(DESTINATION_OPTIONS, &payload).unwrap().at, 8 * most);
        payload[0] = HOP_BY_HOP;
        assert!(walk(DESTINATION_OPTIONS, &payload).is_err(), "RFC 8200 §4.1");
    }

    #[test]
    fn options_are_read_up_to_the_first_wrong_one() {
        let header = [UDP, 0, OPTION_ROUTER_ALERT, 2, 0, 0, 0, 0];
        let all: Vec<_> = Options::new(&header).unwrap().collect();
        assert_eq!(all, [Ok(Opt { kind: OPTION_ROUTER_ALERT, data: &[0, 0] })]);
        let all: Vec<_> = Options::new(&[UDP, 0, 1, 5, 0, 0, 0, 0]).unwrap().collect();
        assert!(all.len() == 1 && all[0].is_err());
        assert!(Options::new(&[UDP, 1, 0, 0, 0, 0, 0, 0]).is_err());
    }

    proptest! {
        #[test]
        fn parse_after_emit_is_the_identity(
            traffic_class: u8, flow_label in 0_u32..1 << 20, payload_len in 0_u16..50,
            next_header: u8, hop_limit: u8, src: [u16; 8], dst: [u16; 8],
        ) {
            let (src, dst) = (src.into(), dst.into());
            let header =
                Header { traffic_class, flow_label, payload_len, next_header, hop_limit, src, dst };
            let mut bytes = [0; LEN + 50];
            header.emit(&mut bytes).unwrap();
            prop_assert_eq!(Header::parse(&bytes), Ok(header));
        }

        #[test]
        fn emit_after_parse_is_the_identity(mut bytes: [u8; LEN]) {
            bytes[0] = 0x60 | bytes[0] & 15;
            let mut out = [0; LEN];
            Header::of(&View::quoted(&bytes).unwrap()).emit(&mut out).unwrap();
            prop_assert_eq!(out, bytes);
        }

        #[test]
        fn any_chain(next_header in 0_u8..64, lens in proptest::collection::vec((0_u8..64, 0_u8..4), 0..12),
                     cut in 0_usize..200) {
            let mut payload: Vec<u8> = Vec::new();
            for (next, len) in lens {
                payload.extend([next, len]);
                payload.extend([0; 14]);
            }
            payload.truncate(cut);
            if let Ok(chain) = walk(next_header, &payload) {
                prop_assert!(chain.at <= payload.len());
            }
        }

        #[test]
        fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            if let Ok(view) = View::quoted(&bytes) {
                let _ = view.upper();
            }
            if let Ok(options) = Options::new(&bytes) {
                let _ = options.count();
            }
        }
    }
}
