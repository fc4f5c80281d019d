//! IPv4 (RFC 791), as a router checks it (RFC 1812 §5.2.2).
//!
//! ```text
//!  0        1        2                 4
//!  │ver│IHL │DS, ECN │  total length   │
//!  │   identification│flg│ fragment at │  8
//!  │  TTL   │protocol│    checksum     │ 12
//!  │         source address            │ 16
//!  │       destination address         │ 20
//!  │ options (IHL - 5 words)           │
//! ```

use core::net::Ipv4Addr;

use crate::bytes::{be16, ipv4, put16};
use crate::{Error, checksum, room, split};

/// Bytes of a header without options.
pub const MIN_LEN: usize = 20;
/// Bytes of a header with all the options it can carry.
pub const MAX_LEN: usize = 60;
/// Place of version and header length.
pub const VERSION_IHL: usize = 0;
/// Place of differentiated services and ECN.
pub const TOS: usize = 1;
/// Place of the total length.
pub const TOTAL_LEN: usize = 2;
/// Place of the identification.
pub const IDENT: usize = 4;
/// Place of flags and fragment offset.
pub const FRAGMENT: usize = 6;
/// Place of the time to live.
pub const TTL: usize = 8;
/// Place of the protocol.
pub const PROTOCOL: usize = 9;
/// Place of the header checksum.
pub const CHECKSUM: usize = 10;
/// Place of the source address.
pub const SRC: usize = 12;
/// Place of the destination address.
pub const DST: usize = 16;

/// First byte of a header without options.
pub const PLAIN: u8 = 0x45;
/// In the word at [`FRAGMENT`]: don't fragment.
pub const DONT_FRAGMENT: u16 = 0x4000;
/// In the word at [`FRAGMENT`]: more fragments follow.
pub const MORE_FRAGMENTS: u16 = 0x2000;
/// In the word at [`FRAGMENT`]: the offset, in units of eight bytes.
pub const OFFSET_MASK: u16 = 0x1fff;

/// Option: end of the list.
pub const OPTION_END: u8 = 0;
/// Option: no operation.
pub const OPTION_NOP: u8 = 1;
/// Option: record route.
pub const OPTION_RECORD_ROUTE: u8 = 7;
/// Option: timestamp.
pub const OPTION_TIMESTAMP: u8 = 68;
/// Option: loose source route.
pub const OPTION_LOOSE_ROUTE: u8 = 131;
/// Option: strict source route.
pub const OPTION_STRICT_ROUTE: u8 = 137;
/// Option: router alert (RFC 2113).
pub const OPTION_ROUTER_ALERT: u8 = 148;

/// True when the word at [`FRAGMENT`] is that of a fragment, the first included.
#[inline(always)]
pub fn is_fragment(word: u16) -> bool {
    word & (MORE_FRAGMENTS | OFFSET_MASK) != 0
}

/// Whether an address can be a sender's on the Internet: not "this network", loopback, link-local,
/// a group or reserved. RFC 1122 §3.2.1.3, RFC 3927 §2.6.2.
#[inline]
pub const fn is_source(ip: [u8; 4]) -> bool {
    !matches!(ip, [0 | 127 | 224.., ..] | [169, 254, ..])
}

/// A packet whose version and lengths are right; its checksum may be wrong.
///
/// Invariants: I1: `header` has 20 to 60 bytes, as IHL says. I2: header and
/// payload together have as many bytes as the total length says, or fewer where
/// [`View::quoted`] made the view.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    header: &'a [u8],
    payload: &'a [u8],
}

impl<'a> View<'a> {
    /// Checks a packet; bytes behind its total length are the link's padding.
    ///
    /// # Errors
    /// When a length or the version is wrong: RFC 1812 §5.2.2 (1), (3), (4), (5).
    pub fn new(bytes: &'a [u8]) -> Result<Self, Error> {
        let view = View::quoted(bytes)?;
        let (need, have) = (usize::from(view.total_len()), bytes.len());
        if need > have {
            return Err(Error::Truncated { header: "ipv4", need, have });
        }
        Ok(view)
    }

    /// As [`View::new`] for a packet whose end is missing, such as one that an
    /// ICMP error quotes.
    ///
    /// # Errors
    /// As [`View::new`]; an end that is missing is none.
    pub fn quoted(bytes: &'a [u8]) -> Result<Self, Error> {
        let (fixed, _) = split(bytes, MIN_LEN, "ipv4")?;
        let field = |field, found: u32| Error::Field { header: "ipv4", field, found };
        let version = fixed[VERSION_IHL] >> 4;
        if version != 4 {
            return Err(field("version", version.into())); // RFC 1812 §5.2.2 (3)
        }
        let header_len = usize::from(fixed[VERSION_IHL] & 15) * 4;
        if header_len < MIN_LEN {
            return Err(field("header length", header_len as u32)); // (4)
        }
        let total = usize::from(be16(fixed, TOTAL_LEN));
        if total < header_len {
            return Err(field("total length", total as u32)); // (5)
        }
        let (header, rest) = split(bytes, header_len, "ipv4")?;
        let payload = &rest[..rest.len().min(total - header_len)];
        Ok(View { header, payload })
    }

    /// The header, options included.
    pub fn header(&self) -> &'a [u8] {
        self.header
    }

    /// Bytes of header and payload, as the header says.
    pub fn total_len(&self) -> u16 {
        be16(self.header, TOTAL_LEN)
    }

    /// Differentiated services (6 bits) and ECN (2 bits).
    pub fn tos(&self) -> u8 {
        self.header[TOS]
    }

    /// The identification of a datagram's fragments.
    pub fn ident(&self) -> u16 {
        be16(self.header, IDENT)
    }

    /// Flags and fragment offset as they stand in the header.
    pub fn fragment(&self) -> u16 {
        be16(self.header, FRAGMENT)
    }

    /// True for a fragment, the first included.
    pub fn is_fragment(&self) -> bool {
        is_fragment(self.fragment())
    }

    /// The place of this fragment's payload in the datagram's, in bytes.
    pub fn offset(&self) -> u16 {
        (self.fragment() & OFFSET_MASK) * 8
    }

    /// Time to live.
    pub fn ttl(&self) -> u8 {
        self.header[TTL]
    }

    /// The payload's protocol.
    pub fn protocol(&self) -> u8 {
        self.header[PROTOCOL]
    }

    /// Source address.
    pub fn src(&self) -> Ipv4Addr {
        ipv4(self.header, SRC)
    }

    /// Destination address.
    pub fn dst(&self) -> Ipv4Addr {
        ipv4(self.header, DST)
    }

    /// True when the header checksum is right: RFC 1812 §5.2.2 (2).
    pub fn checksum_ok(&self) -> bool {
        checksum::is_right(self.header)
    }

    /// The options, unread.
    pub fn options(&self) -> &'a [u8] {
        &self.header[MIN_LEN..] // cannot panic: I1
    }

    /// What the packet carries.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// One option of a header.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Opt<'a> {
    /// Copied flag, class and number.
    pub kind: u8,
    /// What follows type and length.
    pub data: &'a [u8],
}

/// Walks options up to their end; an option of a wrong length is the last item,
/// an error (RFC 791 §3.1, RFC 1812 §5.3.13).
#[derive(Clone, Copy, Debug)]
pub struct Options<'a>(&'a [u8]);

impl<'a> Options<'a> {
    /// Options as [`View::options`] gives them.
    pub fn new(bytes: &'a [u8]) -> Self {
        Options(bytes)
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<Opt<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let (kind, bytes) = loop {
            let (&kind, rest) = self.0.split_first()?;
            match kind {
                OPTION_END => return None,
                OPTION_NOP => self.0 = rest,
                _ => break (kind, core::mem::take(&mut self.0)),
            }
        };
        let len = bytes.get(1).map_or(0, |&len| usize::from(len));
        if len < 2 || len > bytes.len() {
            let found = len as u32;
            return Some(Err(Error::Field { header: "ipv4", field: "option length", found }));
        }
        self.0 = &bytes[len..];
        Some(Ok(Opt { kind, data: &bytes[2..len] }))
    }
}

/// An IPv4 header's fields; length of header and checksum follow from them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Header<'a> {
    /// Differentiated services and ECN.
    pub tos: u8,
    /// Bytes of header and payload.
    pub total_len: u16,
    /// Identification.
    pub ident: u16,
    /// Flags and fragment offset as on the wire.
    pub fragment: u16,
    /// Time to live.
    pub ttl: u8,
    /// The payload's protocol.
    pub protocol: u8,
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
    /// Options, padded to a multiple of four bytes, at most 40.
    pub options: &'a [u8],
}

impl<'a> Header<'a> {
    /// Reads the fields; the checksum is not looked at.
    ///
    /// # Errors
    /// As [`View::new`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        View::new(bytes).map(|view| Header::of(&view))
    }

    /// The fields of a checked packet.
    pub fn of(view: &View<'a>) -> Self {
        Header {
            tos: view.tos(),
            total_len: view.total_len(),
            ident: view.ident(),
            fragment: view.fragment(),
            ttl: view.ttl(),
            protocol: view.protocol(),
            src: view.src(),
            dst: view.dst(),
            options: view.options(),
        }
    }

    /// Bytes that [`Header::emit`] writes.
    pub fn header_len(&self) -> usize {
        MIN_LEN + self.options.len()
    }

    /// Writes the header with its checksum and returns its length.
    ///
    /// # Errors
    /// When the buffer is shorter, the options are longer than 40 bytes or not
    /// a multiple of four, or the total length is less than the header's.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        let len = self.header_len();
        let field =
            |field, found: usize| Error::Field { header: "ipv4", field, found: found as u32 };
        if len > MAX_LEN || !len.is_multiple_of(4) {
            return Err(field("header length", len));
        }
        if usize::from(self.total_len) < len {
            return Err(field("total length", self.total_len.into()));
        }
        let out = room(buffer, len, "ipv4")?;
        out[VERSION_IHL] = 0x40 | (len / 4) as u8;
        out[TOS] = self.tos;
        put16(out, TOTAL_LEN, self.total_len);
        put16(out, IDENT, self.ident);
        put16(out, FRAGMENT, self.fragment);
        out[TTL] = self.ttl;
        out[PROTOCOL] = self.protocol;
        put16(out, CHECKSUM, 0);
        out[SRC..DST].copy_from_slice(&self.src.octets());
        out[DST..MIN_LEN].copy_from_slice(&self.dst.octets());
        out[MIN_LEN..].copy_from_slice(self.options);
        let sum = checksum::checksum(out);
        put16(out, CHECKSUM, sum);
        Ok(len)
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
        let at = |text: &str| is_source(text.parse::<Ipv4Addr>().unwrap().octets());
        let none =
            ["0.0.0.0", "0.1.2.3", "127.0.0.1", "169.254.9.9", "224.0.0.1", "255.255.255.255"];
        assert!(none.iter().all(|text| !at(text)));
        assert!(
            ["1.0.0.0", "10.9.8.7", "126.1.1.1", "169.253.1.1", "223.255.255.255"]
                .iter()
                .all(|text| at(text))
        );
    }

    fn header() -> Header<'static> {
        Header {
            tos: 0,
            total_len: 24,
            ident: 1,
            fragment: DONT_FRAGMENT,
            ttl: 64,
            protocol: 17,
            src: Ipv4Addr::new(10, 0, 0, 1),
            dst: Ipv4Addr::new(10, 0, 1, 2),
            options: &[],
        }
    }

    #[test]
    fn each_check_of_rfc_1812() {
        let mut good = [0; 24];
        header().emit(&mut good).unwrap();
        assert!(View::new(&good).unwrap().checksum_ok());
        assert!(View::new(&good[..19]).is_err(), "(1) shorter than a header");
        assert!(View::new(&good[..23]).is_err(), "(1) shorter than its total length");
        assert_eq!(View::quoted(&good[..23]).unwrap().payload().len(), 3);
        for (place, value) in [(0, 0x65), (0, 0x44), (0, 0x47), (3, 19)] {
            let mut bad = good;
            bad[place] = value;
            assert!(View::new(&bad).is_err(), "byte {place} is {value:#x}");
        }
        good[CHECKSUM] ^= 1;
        assert!(!View::new(&good).unwrap().checksum_ok(), "(2)");
    }

    #[test]
    fn options_end_at_the_first_wrong_one() {
        let all: Vec<_> = Options::new(&[1, 7, 3, 9, 148, 4, 0, 0, 0, 99]).collect();
        assert_eq!(all[0], Ok(Opt { kind: 7, data: &[9] }));
        assert_eq!(all[1], Ok(Opt { kind: OPTION_ROUTER_ALERT, data: &[0, 0] }));
        assert_eq!(all.len(), 2);
        for bad in [&[7][..], &[7, 0], &[7, 1], &[7, 3]] {
            let all: Vec<_> = Options::new(bad).collect();
            assert!(all.len() == 1 && all[0].is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn parse_after_emit_is_the_identity(
            tos: u8, ident: u16, fragment: u16, ttl: u8, protocol: u8, src: [u8; 4], dst: [u8; 4],
            options in proptest::collection::vec(any::<[u8; 4]>(), 0..=10), payload in 0_u16..100,
        ) {
            let options = options.concat();
            let total_len = 20 + options.len() as u16 + payload;
            let (src, dst) = (src.into(), dst.into());
            let header =
                Header { tos, total_len, ident, fragment, ttl, protocol, src, dst, options: &options };
            let mut bytes = vec![0; total_len.into()];
            prop_assert_eq!(header.emit(&mut bytes), Ok(header.header_len()));
            prop_assert_eq!(Header::parse(&bytes), Ok(header));
            prop_assert!(View::new(&bytes).unwrap().checksum_ok());
        }

        #[test]
        fn any_bytes(mut bytes in proptest::collection::vec(any::<u8>(), 0..100), first: Option<u8>) {
            if let (Some(first), Some(byte)) = (first, bytes.first_mut()) {
                *byte = 0x40 | first & 15; // else nearly all have the wrong version
            }
            if let Ok(view) = View::quoted(&bytes) {
                let _ = Options::new(view.options()).count();
                let mut out = [0; MAX_LEN];
                let n = Header::of(&view).emit(&mut out).unwrap();
                put16(&mut out, CHECKSUM, be16(&bytes, CHECKSUM));
                prop_assert_eq!(&out[..n], view.header());
            }
        }
    }
}
