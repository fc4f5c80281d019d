//! ICMPv6 (RFC 4443) and neighbour discovery (RFC 4861). The header is ICMP's
//! ([`Header`], [`View`]); the checksum covers the pseudo header too.

use core::net::Ipv6Addr;

use crate::bytes::{array, ipv6, put16};
use crate::checksum::Sum;
use crate::ethernet::Mac;
use crate::protocol::ICMPV6;
use crate::{Error, room, split};

pub use crate::icmp::{CHECKSUM, CODE, Header, LEN, REST, TYPE, View};

/// Type: destination unreachable.
pub const UNREACHABLE: u8 = 1;
/// Type: packet too big; the MTU is the rest of the header.
pub const PACKET_TOO_BIG: u8 = 2;
/// Type: time exceeded.
pub const TIME_EXCEEDED: u8 = 3;
/// Type: parameter problem.
pub const PARAMETER_PROBLEM: u8 = 4;
/// Type: echo request.
pub const ECHO_REQUEST: u8 = 128;
/// Type: echo reply.
pub const ECHO_REPLY: u8 = 129;
/// Type: multicast listener query (RFC 2710); 131, 132 and 143 are reports.
pub const LISTENER_QUERY: u8 = 130;
/// Type: router solicitation.
pub const ROUTER_SOLICITATION: u8 = 133;
/// Type: router advertisement.
pub const ROUTER_ADVERTISEMENT: u8 = 134;
/// Type: neighbour solicitation.
pub const NEIGHBOUR_SOLICITATION: u8 = 135;
/// Type: neighbour advertisement.
pub const NEIGHBOUR_ADVERTISEMENT: u8 = 136;
/// Type: redirect.
pub const REDIRECT: u8 = 137;

/// Code of [`UNREACHABLE`]: no route.
pub const NO_ROUTE: u8 = 0;
/// Code of [`UNREACHABLE`]: prohibited.
pub const PROHIBITED: u8 = 1;
/// Code of [`UNREACHABLE`]: address.
pub const ADDRESS: u8 = 3;
/// Code of [`UNREACHABLE`]: port.
pub const PORT: u8 = 4;

/// True for error messages: types below 128 (RFC 4443 §2.1).
pub fn is_error(kind: u8) -> bool {
    kind < 128
}

/// True for the messages of neighbour discovery, which are valid only with a hop
/// limit of 255 (RFC 4861 §6.1, §7.1, §8.1).
pub fn is_neighbour_discovery(kind: u8) -> bool {
    matches!(kind, ROUTER_SOLICITATION..=REDIRECT)
}

/// True when the checksum is right (RFC 4443 §2.3).
pub fn checksum_ok(src: Ipv6Addr, dst: Ipv6Addr, message: &[u8]) -> bool {
    pseudo(src, dst, message.len()).bytes(message).is_right()
}

/// Writes the checksum (RFC 4443 §2.3).
///
/// # Errors
/// When there are fewer than [`LEN`] bytes.
pub fn fill_checksum(src: Ipv6Addr, dst: Ipv6Addr, message: &mut [u8]) -> Result<(), Error> {
    let have = message.len();
    if have < LEN {
        return Err(Error::Truncated { header: "icmpv6", need: LEN, have });
    }
    put16(message, CHECKSUM, 0);
    let sum = pseudo(src, dst, have).bytes(message).checksum();
    put16(message, CHECKSUM, sum);
    Ok(())
}

/// The MTU that a [`PACKET_TOO_BIG`] reports (RFC 4443 §3.2).
pub fn mtu(header: &Header) -> u32 {
    u32::from_be_bytes(header.rest)
}

/// A neighbour solicitation or advertisement (RFC 4861 §4.3, §4.4).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Neighbour {
    /// [`NEIGHBOUR_SOLICITATION`] or [`NEIGHBOUR_ADVERTISEMENT`].
    pub kind: u8,
    /// [`Neighbour::ROUTER`], [`Neighbour::SOLICITED`], [`Neighbour::OVERRIDE`]; 0 in a solicitation.
    pub flags: u8,
    /// The address asked for or advertised.
    pub target: Ipv6Addr,
    /// The source's (solicitation) or target's (advertisement) link-layer address.
    pub mac: Option<Mac>,
}

impl Neighbour {
    /// Flag: the sender is a router.
    pub const ROUTER: u8 = 0x80;
    /// Flag: sent in answer to a solicitation.
    pub const SOLICITED: u8 = 0x40;
    /// Flag: overrides an existing cache entry.
    pub const OVERRIDE: u8 = 0x20;
    /// Bytes without options.
    pub const LEN: usize = 24;
    /// Bytes of the link-layer address option.
    const OPTION_LEN: usize = 8;

    /// Reads a message; the checksum and the hop limit are the caller's to check.
    ///
    /// # Errors
    /// When it is another type, its code is not 0, it is cut off, or an option's
    /// length is 0 or beyond the end (RFC 4861 §7.1.1, §7.1.2).
    pub fn parse(message: &[u8]) -> Result<Self, Error> {
        let (fixed, mut options) = split(message, Self::LEN, "neighbour discovery")?;
        let field = |field, found: u8| Error::Field {
            header: "neighbour discovery",
            field,
            found: found.into(),
        };
        let kind = fixed[TYPE];
        if !matches!(kind, NEIGHBOUR_SOLICITATION | NEIGHBOUR_ADVERTISEMENT) {
            return Err(field("type", kind));
        }
        if fixed[CODE] != 0 {
            return Err(field("code", fixed[CODE]));
        }
        let mut mac = None;
        while !options.is_empty() {
            let (head, _) = split(options, Self::OPTION_LEN, "neighbour discovery option")?;
            if head[1] == 0 {
                return Err(field("option length", 0));
            }
            let len = usize::from(head[1]) * 8;
            let (_, rest) = split(options, len, "neighbour discovery option")?;
            if head[0] == link_layer_option(kind) && head[1] == 1 && mac.is_none() {
                mac = Some(Mac(array(head, 2)));
            }
            options = rest;
        }
        let flags = if kind == NEIGHBOUR_ADVERTISEMENT { fixed[REST] & 0xe0 } else { 0 };
        Ok(Neighbour { kind, flags, target: ipv6(fixed, LEN), mac })
    }

    /// Bytes that [`Neighbour::emit`] writes.
    pub fn len(&self) -> usize {
        Self::LEN + self.mac.map_or(0, |_| Self::OPTION_LEN)
    }

    /// Never: a message has at least [`Neighbour::LEN`] bytes.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Writes the message, the checksum zero, and returns its length.
    ///
    /// # Errors
    /// When the buffer is shorter.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        let out = room(buffer, self.len(), "neighbour discovery")?;
        Header { kind: self.kind, code: 0, rest: [self.flags, 0, 0, 0] }.emit(out)?;
        out[LEN..Self::LEN].copy_from_slice(&self.target.octets());
        if let Some(mac) = self.mac {
            out[Self::LEN..Self::LEN + 2].copy_from_slice(&[link_layer_option(self.kind), 1]);
            out[Self::LEN + 2..].copy_from_slice(&mac.0);
        }
        Ok(self.len())
    }
}

/// The option that carries a link-layer address: the source's in a solicitation,
/// the target's in an advertisement (RFC 4861 §4.6.1).
fn link_layer_option(kind: u8) -> u8 {
    if kind == NEIGHBOUR_SOLICITATION { 1 } else { 2 }
}

fn pseudo(src: Ipv6Addr, dst: Ipv6Addr, len: usize) -> Sum {
    Sum::pseudo6(src, dst, ICMPV6, len as u32)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_checksum_of_a_solicitation() {
        let (src, dst) = ("fe80::1".parse().unwrap(), "ff02::1:ff00:2".parse().unwrap());
        let mac = Some(Mac([2, 0, 0, 0, 0, 1]));
        let target = "fe80::2".parse().unwrap();
        let message = Neighbour { kind: NEIGHBOUR_SOLICITATION, flags: 0, target, mac };
        let mut bytes = [0; 32];
        message.emit(&mut bytes).unwrap();
        fill_checksum(src, dst, &mut bytes).unwrap();
        // fe80+1 + ff02+1+ff00+2 + 20+3a + 8700 + fe80+2 + 101+200+1 = 48564 -> 8568 -> 7a97
        assert_eq!(bytes[2..4], [0x7a, 0x97]);
        assert!(checksum_ok(src, dst, &bytes));
        bytes[31] ^= 1;
        assert!(!checksum_ok(src, dst, &bytes));
    }

    proptest! {
        #[test]
        fn parse_after_emit_is_the_identity(advertise: bool, flags: u8, target: [u16; 8],
                                            mac: Option<[u8; 6]>) {
            let kind = if advertise { NEIGHBOUR_ADVERTISEMENT } else { NEIGHBOUR_SOLICITATION };
            let flags = if advertise { flags & 0xe0 } else { 0 };
            let message = Neighbour { kind, flags, target: target.into(), mac: mac.map(Mac) };
            let mut bytes = [0; 32];
            let len = message.emit(&mut bytes).unwrap();
            prop_assert_eq!(Neighbour::parse(&bytes[..len]), Ok(message));
        }

        #[test]
        fn any_bytes(mut bytes in proptest::collection::vec(any::<u8>(), 0..80), typed: bool) {
            if typed && bytes.len() > 1 {
                bytes[..2].copy_from_slice(&[NEIGHBOUR_ADVERTISEMENT, 0]);
            }
            let _ = Neighbour::parse(&bytes);
        }
    }
}
