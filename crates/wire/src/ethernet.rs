//! Ethernet II frames (RFC 894, IEEE 802.3).
//!
//! ```text
//!  0      6      12   14
//!  │ dst  │ src  │type│ payload …
//! ```

use core::fmt;
use core::str::FromStr;

use crate::bytes::{array, be16, put16};
use crate::{Error, room, split};

/// Bytes of the header.
pub const LEN: usize = 14;
/// Place of the destination address.
pub const DST: usize = 0;
/// Place of the source address.
pub const SRC: usize = 6;
/// Place of the EtherType.
pub const ETHERTYPE: usize = 12;
/// Shortest frame without frame check sequence (IEEE 802.3 §4A.4.2).
pub const MIN_FRAME: usize = 60;

/// EtherType of IPv4.
pub const IPV4: u16 = 0x0800;
/// EtherType of ARP.
pub const ARP: u16 = 0x0806;
/// EtherType of a VLAN tag (IEEE 802.1Q).
pub const VLAN: u16 = 0x8100;
/// EtherType of IPv6.
pub const IPV6: u16 = 0x86dd;
/// EtherType of an outer VLAN tag (IEEE 802.1ad).
pub const QINQ: u16 = 0x88a8;
/// EtherType of MPLS unicast.
pub const MPLS: u16 = 0x8847;
/// EtherType of LLDP (IEEE 802.1AB).
pub const LLDP: u16 = 0x88cc;
/// Smaller values of the type field are lengths (IEEE 802.3 §3.2.6).
pub const FIRST_ETHERTYPE: u16 = 0x0600;

/// A MAC address, in the order of the wire.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// All ones.
    pub const BROADCAST: Mac = Mac([0xff; 6]);

    /// True for group addresses, broadcast included: the I/G bit.
    #[inline]
    pub fn is_group(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// True for an address of the bridge-reserved group `01:80:c2:00:00:0x`,
    /// which no bridge forwards (IEEE 802.1Q table 8-1).
    #[inline]
    pub fn is_link_local(self) -> bool {
        self.0[..5] == [0x01, 0x80, 0xc2, 0, 0] && self.0[5] < 0x10
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl FromStr for Mac {
    type Err = Error;

    /// Six hexadecimal numbers of one or two digits with colons between them.
    fn from_str(text: &str) -> Result<Self, Error> {
        let bad =
            |at: usize| Error::Field { header: "mac", field: "wrong at octet", found: at as u32 };
        let mut mac = Mac::default();
        let mut parts = text.split(':');
        for (i, octet) in mac.0.iter_mut().enumerate() {
            let part = parts.next().filter(|part| matches!(part.len(), 1 | 2)).ok_or(bad(i))?;
            if !part.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return Err(bad(i));
            }
            *octet = u8::from_str_radix(part, 16).map_err(|_| bad(i))?;
        }
        parts.next().map_or(Ok(mac), |_| Err(bad(6)))
    }
}

/// A frame with a whole header.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    header: &'a [u8],
    payload: &'a [u8],
}

impl<'a> View<'a> {
    /// # Errors
    /// When there are fewer than [`LEN`] bytes.
    pub fn new(frame: &'a [u8]) -> Result<Self, Error> {
        let (header, payload) = split(frame, LEN, "ethernet")?;
        Ok(View { header, payload })
    }

    /// The destination address.
    pub fn dst(&self) -> Mac {
        Mac(array(self.header, DST))
    }

    /// The source address.
    pub fn src(&self) -> Mac {
        Mac(array(self.header, SRC))
    }

    /// The EtherType; below [`FIRST_ETHERTYPE`] the length of an 802.3 frame.
    pub fn ethertype(&self) -> u16 {
        be16(self.header, ETHERTYPE)
    }

    /// What follows the header: tags first, where there are any.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// An Ethernet header's fields.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Header {
    /// Destination address.
    pub dst: Mac,
    /// Source address.
    pub src: Mac,
    /// EtherType.
    pub ethertype: u16,
}

impl Header {
    /// Reads the fields.
    ///
    /// # Errors
    /// As [`View::new`].
    pub fn parse(frame: &[u8]) -> Result<Self, Error> {
        let view = View::new(frame)?;
        Ok(Header { dst: view.dst(), src: view.src(), ethertype: view.ethertype() })
    }

    /// Writes [`LEN`] bytes and returns their number.
    ///
    /// # Errors
    /// When the buffer is shorter.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        let out = room(buffer, LEN, "ethernet")?;
        out[DST..SRC].copy_from_slice(&self.dst.0);
        out[SRC..ETHERTYPE].copy_from_slice(&self.src.0);
        put16(out, ETHERTYPE, self.ethertype);
        Ok(LEN)
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn macs_are_read_strictly() {
        assert_eq!("2:0:0:0:0:1".parse(), Ok(Mac([2, 0, 0, 0, 0, 1])));
        for text in
            ["", "1:2:3:4:5", "1:2:3:4:5:6:7", "1:2:3:4:5:+6", "1:2:3:4:5:666", "1:2:3:4::6"]
        {
            assert!(text.parse::<Mac>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_mac_prints_as_it_reads(octets: [u8; 6]) {
            prop_assert_eq!(Mac(octets).to_string().parse(), Ok(Mac(octets)));
        }

        #[test]
        fn any_14_bytes_are_a_header(bytes: [u8; LEN]) {
            let mut out = [0; LEN];
            Header::parse(&bytes).unwrap().emit(&mut out).unwrap();
            prop_assert_eq!(out, bytes);
        }
    }
}
