//! ICMP for IPv4 (RFC 792), and the header layout that ICMPv6 shares.
//!
//! ```text
//!  0    1    2          4              8
//!  │type│code│ checksum │ rest: by type │ data …
//! ```

use crate::bytes::{array, be16, put16};
use crate::{Error, checksum, room, split};

/// Bytes of the header.
pub const LEN: usize = 8;
/// Place of the type.
pub const TYPE: usize = 0;
/// Place of the code.
pub const CODE: usize = 1;
/// Place of the checksum.
pub const CHECKSUM: usize = 2;
/// Place of what depends on the type.
pub const REST: usize = 4;

/// Type: echo reply.
pub const ECHO_REPLY: u8 = 0;
/// Type: destination unreachable.
pub const UNREACHABLE: u8 = 3;
/// Type: redirect.
pub const REDIRECT: u8 = 5;
/// Type: echo request.
pub const ECHO_REQUEST: u8 = 8;
/// Type: time exceeded.
pub const TIME_EXCEEDED: u8 = 11;
/// Type: parameter problem.
pub const PARAMETER_PROBLEM: u8 = 12;

/// Code of [`UNREACHABLE`]: network.
pub const NETWORK: u8 = 0;
/// Code of [`UNREACHABLE`]: host.
pub const HOST: u8 = 1;
/// Code of [`UNREACHABLE`]: protocol.
pub const PROTOCOL: u8 = 2;
/// Code of [`UNREACHABLE`]: port.
pub const PORT: u8 = 3;
/// Code of [`UNREACHABLE`]: fragmentation needed; the MTU is in the rest (RFC 1191).
pub const FRAGMENTATION_NEEDED: u8 = 4;
/// Code of [`UNREACHABLE`]: administratively prohibited (RFC 1812 §5.2.7.1).
pub const PROHIBITED: u8 = 13;

/// True for the types that report an error and quote a packet; no error is ever
/// sent about one of them (RFC 1812 §4.3.2.7).
pub fn is_error(kind: u8) -> bool {
    matches!(kind, UNREACHABLE | 4 | REDIRECT | TIME_EXCEEDED | PARAMETER_PROBLEM)
}

/// A message with a whole header.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    message: &'a [u8],
}

impl<'a> View<'a> {
    /// A message: the payload of an IP packet that is no fragment.
    ///
    /// # Errors
    /// When there are fewer than [`LEN`] bytes.
    pub fn new(message: &'a [u8]) -> Result<Self, Error> {
        split(message, LEN, "icmp").map(|_| View { message })
    }

    /// The type.
    pub fn kind(&self) -> u8 {
        self.message[TYPE]
    }

    /// The code.
    pub fn code(&self) -> u8 {
        self.message[CODE]
    }

    /// Header and data.
    pub fn message(&self) -> &'a [u8] {
        self.message
    }

    /// What follows the header: echo data, or the quoted packet of an error.
    pub fn data(&self) -> &'a [u8] {
        &self.message[LEN..]
    }

    /// True when the ICMP (not ICMPv6) checksum is right.
    pub fn checksum_ok(&self) -> bool {
        checksum::is_right(self.message)
    }
}

/// The header's fields, without the checksum, which depends on the data.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Header {
    /// The type.
    pub kind: u8,
    /// The code.
    pub code: u8,
    /// What depends on the type.
    pub rest: [u8; 4],
}

impl Header {
    /// An echo header; `kind` is the request's or the reply's type.
    pub fn echo(kind: u8, ident: u16, sequence: u16) -> Self {
        let ([a, b], [c, d]) = (ident.to_be_bytes(), sequence.to_be_bytes());
        Header { kind, code: 0, rest: [a, b, c, d] }
    }

    /// Reads the fields.
    ///
    /// # Errors
    /// As [`View::new`].
    pub fn parse(message: &[u8]) -> Result<Self, Error> {
        let view = View::new(message)?;
        Ok(Header { kind: view.kind(), code: view.code(), rest: array(message, REST) })
    }

    /// Of an echo: the identifier.
    pub fn ident(&self) -> u16 {
        be16(&self.rest, 0)
    }

    /// Of an echo: the sequence number.
    pub fn sequence(&self) -> u16 {
        be16(&self.rest, 2)
    }

    /// Of [`FRAGMENTATION_NEEDED`]: the MTU of the next hop (RFC 1191 §4).
    pub fn mtu(&self) -> u16 {
        be16(&self.rest, 2)
    }

    /// Writes [`LEN`] bytes, the checksum zero, and returns their number.
    /// [`fill_checksum`] comes after the data.
    ///
    /// # Errors
    /// When the buffer is shorter.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        let out = room(buffer, LEN, "icmp")?;
        out[TYPE] = self.kind;
        out[CODE] = self.code;
        put16(out, CHECKSUM, 0);
        out[REST..LEN].copy_from_slice(&self.rest);
        Ok(LEN)
    }
}

/// Writes the checksum of an ICMP (not ICMPv6) message: it covers header and
/// data, no pseudo header (RFC 792).
///
/// # Errors
/// When there are fewer than [`LEN`] bytes.
pub fn fill_checksum(message: &mut [u8]) -> Result<(), Error> {
    let have = message.len();
    if have < LEN {
        return Err(Error::Truncated { header: "icmp", need: LEN, have });
    }
    put16(message, CHECKSUM, 0);
    let sum = checksum::checksum(message);
    put16(message, CHECKSUM, sum);
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parse_after_emit_is_the_identity(kind: u8, code: u8, rest: [u8; 4],
                                            data in proptest::collection::vec(any::<u8>(), 0..50)) {
            let header = Header { kind, code, rest };
            let mut message = [&[0; LEN][..], &data].concat();
            header.emit(&mut message).unwrap();
            fill_checksum(&mut message).unwrap();
            prop_assert_eq!(Header::parse(&message), Ok(header));
            let view = View::new(&message).unwrap();
            prop_assert!(view.checksum_ok());
            prop_assert_eq!(view.data(), &data);
        }

        #[test]
        fn any_bytes(message in proptest::collection::vec(any::<u8>(), 0..20)) {
            prop_assert_eq!(Header::parse(&message).is_ok(), message.len() >= LEN);
            prop_assert_eq!(fill_checksum(&mut message.clone()).is_ok(), message.len() >= LEN);
        }
    }

    #[test]
    fn echo_fields() {
        let header = Header::echo(ECHO_REQUEST, 0x1234, 7);
        assert_eq!((header.ident(), header.sequence()), (0x1234, 7));
        assert!(!is_error(header.kind) && is_error(TIME_EXCEEDED));
    }
}
