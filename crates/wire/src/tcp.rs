//! TCP segments (RFC 9293 §3.1).
//!
//! ```text
//!  0      2      4          8          12          14      16        18     20
//!  │ src  │ dst  │ sequence │ ack      │ofs │flags │window │checksum │urgent│ options …
//! ```

use core::net::{Ipv4Addr, Ipv6Addr};

use crate::bytes::{be16, be32, put16, put32};
use crate::checksum::Sum;
use crate::protocol::TCP;
use crate::{Error, room, split};

/// Bytes of a header without options.
pub const MIN_LEN: usize = 20;
/// Bytes of a header with all the options it can carry.
pub const MAX_LEN: usize = 60;
/// Place of the source port.
pub const SRC: usize = 0;
/// Place of the destination port.
pub const DST: usize = 2;
/// Place of the sequence number.
pub const SEQUENCE: usize = 4;
/// Place of the acknowledgement number.
pub const ACK_NUMBER: usize = 8;
/// Place of data offset (4 bits), reserved bits (4) and flags (8).
pub const OFFSET_FLAGS: usize = 12;
/// Place of the window.
pub const WINDOW: usize = 14;
/// Place of the checksum.
pub const CHECKSUM: usize = 16;
/// Place of the urgent pointer.
pub const URGENT: usize = 18;

/// Flag: no more data from the sender.
pub const FIN: u16 = 0x01;
/// Flag: synchronise sequence numbers.
pub const SYN: u16 = 0x02;
/// Flag: reset.
pub const RST: u16 = 0x04;
/// Flag: push.
pub const PSH: u16 = 0x08;
/// Flag: the acknowledgement number counts.
pub const ACK: u16 = 0x10;
/// Flag: the urgent pointer counts.
pub const URG: u16 = 0x20;
/// Flag: ECN echo (RFC 3168).
pub const ECE: u16 = 0x40;
/// Flag: congestion window reduced (RFC 3168).
pub const CWR: u16 = 0x80;

/// A segment whose header is whole; its checksum may be wrong.
///
/// Invariant I1: `header` has 20 to 60 bytes, as the data offset says.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    header: &'a [u8],
    payload: &'a [u8],
}

impl<'a> View<'a> {
    /// Checks a segment: the payload of an IP packet that is no fragment.
    ///
    /// # Errors
    /// When the data offset is below five words or beyond the end.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Error> {
        let (fixed, _) = split(bytes, MIN_LEN, "tcp")?;
        let len = usize::from(fixed[OFFSET_FLAGS] >> 4) * 4;
        if len < MIN_LEN {
            return Err(Error::Field { header: "tcp", field: "data offset", found: len as u32 });
        }
        split(bytes, len, "tcp").map(|(header, payload)| View { header, payload })
    }

    /// Source port.
    pub fn src(&self) -> u16 {
        be16(self.header, SRC)
    }

    /// Destination port.
    pub fn dst(&self) -> u16 {
        be16(self.header, DST)
    }

    /// Sequence number.
    pub fn sequence(&self) -> u32 {
        be32(self.header, SEQUENCE)
    }

    /// Acknowledgement number.
    pub fn ack_number(&self) -> u32 {
        be32(self.header, ACK_NUMBER)
    }

    /// The flags and, above them, the four reserved bits.
    pub fn flags(&self) -> u16 {
        be16(self.header, OFFSET_FLAGS) & 0x0fff
    }

    /// The window, unscaled.
    pub fn window(&self) -> u16 {
        be16(self.header, WINDOW)
    }

    /// The urgent pointer.
    pub fn urgent(&self) -> u16 {
        be16(self.header, URGENT)
    }

    /// The options, unread.
    pub fn options(&self) -> &'a [u8] {
        &self.header[MIN_LEN..] // cannot panic: I1
    }

    /// What the segment carries.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// True when the checksum is right.
    pub fn checksum_ok4(&self, src: Ipv4Addr, dst: Ipv4Addr) -> bool {
        let len = self.header.len() + self.payload.len();
        self.is_right(Sum::pseudo4(src, dst, TCP, len as u16))
    }

    /// True when the checksum is right.
    pub fn checksum_ok6(&self, src: Ipv6Addr, dst: Ipv6Addr) -> bool {
        let len = self.header.len() + self.payload.len();
        self.is_right(Sum::pseudo6(src, dst, TCP, len as u32))
    }

    fn is_right(&self, pseudo: Sum) -> bool {
        pseudo.bytes(self.header).bytes(self.payload).is_right() // the header's length is even: I1
    }
}

/// A TCP header's fields, without the checksum, which depends on the payload.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Header<'a> {
    /// Source port.
    pub src: u16,
    /// Destination port.
    pub dst: u16,
    /// Sequence number.
    pub sequence: u32,
    /// Acknowledgement number.
    pub ack_number: u32,
    /// Flags and, above them, the four reserved bits.
    pub flags: u16,
    /// Window.
    pub window: u16,
    /// Urgent pointer.
    pub urgent: u16,
    /// Options, padded to a multiple of four bytes, at most 40.
    pub options: &'a [u8],
}

impl<'a> Header<'a> {
    /// Reads the fields.
    ///
    /// # Errors
    /// As [`View::new`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let view = View::new(bytes)?;
        Ok(Header {
            src: view.src(),
            dst: view.dst(),
            sequence: view.sequence(),
            ack_number: view.ack_number(),
            flags: view.flags(),
            window: view.window(),
            urgent: view.urgent(),
            options: view.options(),
        })
    }

    /// Bytes that [`Header::emit`] writes.
    pub fn header_len(&self) -> usize {
        MIN_LEN + self.options.len()
    }

    /// Writes the header, the checksum zero, and returns its length.
    /// [`fill_checksum`] comes after the payload.
    ///
    /// # Errors
    /// When the buffer is shorter, the options are longer than 40 bytes or not a
    /// multiple of four, or there are more than twelve bits of flags.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        let len = self.header_len();
        let field = |field, found| Error::Field { header: "tcp", field, found };
        if len > MAX_LEN || !len.is_multiple_of(4) {
            return Err(field("data offset", len as u32));
        }
        if self.flags > 0x0fff {
            return Err(field("flags", self.flags.into()));
        }
        let out = room(buffer, len, "tcp")?;
        put16(out, SRC, self.src);
        put16(out, DST, self.dst);
        put32(out, SEQUENCE, self.sequence);
        put32(out, ACK_NUMBER, self.ack_number);
        put16(out, OFFSET_FLAGS, (len as u16 / 4) << 12 | self.flags);
        put16(out, WINDOW, self.window);
        put16(out, CHECKSUM, 0);
        put16(out, URGENT, self.urgent);
        out[MIN_LEN..].copy_from_slice(self.options);
        Ok(len)
    }
}

/// Writes the checksum of a segment; `pseudo` is [`Sum::pseudo4`] or [`Sum::pseudo6`].
///
/// # Errors
/// When there are fewer than [`MIN_LEN`] bytes.
pub fn fill_checksum(pseudo: Sum, segment: &mut [u8]) -> Result<(), Error> {
    let have = segment.len();
    if have < MIN_LEN {
        return Err(Error::Truncated { header: "tcp", need: MIN_LEN, have });
    }
    put16(segment, CHECKSUM, 0);
    let sum = pseudo.bytes(segment).checksum();
    put16(segment, CHECKSUM, sum);
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const B: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 2);

    proptest! {
        #[test]
        fn parse_after_emit_is_the_identity(
            ports: (u16, u16), sequence: u32, ack_number: u32, flags in 0_u16..0x1000, window: u16,
            urgent: u16, options in proptest::collection::vec(any::<[u8; 4]>(), 0..=10),
            payload in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let (src, dst) = ports;
            let options = options.concat();
            let header = Header {
                src, dst, sequence, ack_number, flags, window, urgent, options: &options,
            };
            let mut bytes = std::vec![0; header.header_len()];
            header.emit(&mut bytes).unwrap();
            bytes.extend(&payload);
            let len = bytes.len() as u16;
            prop_assert_eq!(Header::parse(&bytes), Ok(header));
            fill_checksum(Sum::pseudo4(A, B, TCP, len), &mut bytes).unwrap();
            prop_assert!(View::new(&bytes).unwrap().checksum_ok4(A, B));
            let (a, b) = (A.to_ipv6_mapped(), B.to_ipv6_compatible());
            fill_checksum(Sum::pseudo6(a, b, TCP, len.into()), &mut bytes).unwrap();
            prop_assert!(View::new(&bytes).unwrap().checksum_ok6(a, b));
            prop_assert!(!View::new(&bytes).unwrap().checksum_ok6(a, a) || a == b);
        }

        #[test]
        fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(header) = Header::parse(&bytes) {
                let mut out = [0; MAX_LEN];
                let n = header.emit(&mut out).unwrap();
                put16(&mut out, CHECKSUM, be16(&bytes, CHECKSUM));
                prop_assert_eq!(&out[..n], &bytes[..n]);
            }
        }
    }
}
