//! UDP (RFC 768; over IPv6: RFC 8200 §8.1).
//!
//! ```text
//!  0      2      4      6         8
//!  │ src  │ dst  │length│checksum │ payload …
//! ```

use core::net::{Ipv4Addr, Ipv6Addr};

use crate::bytes::{be16, put16};
use crate::checksum::Sum;
use crate::protocol::UDP;
use crate::{Error, room, split};

/// Bytes of the header.
pub const LEN: usize = 8;
/// Place of the source port.
pub const SRC: usize = 0;
/// Place of the destination port.
pub const DST: usize = 2;
/// Place of the length of header and payload.
pub const LENGTH: usize = 4;
/// Place of the checksum.
pub const CHECKSUM: usize = 6;

/// A datagram whose length is right; its checksum may be wrong.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    datagram: &'a [u8],
}

impl<'a> View<'a> {
    /// Checks a datagram: the payload of an IP packet that is no fragment.
    ///
    /// # Errors
    /// When the length field is below [`LEN`] or more than is there (RFC 768).
    pub fn new(bytes: &'a [u8]) -> Result<Self, Error> {
        let (header, _) = split(bytes, LEN, "udp")?;
        let len = usize::from(be16(header, LENGTH));
        if len < LEN {
            return Err(Error::Field { header: "udp", field: "length", found: len as u32 });
        }
        split(bytes, len, "udp").map(|(datagram, _)| View { datagram })
    }

    /// Source port.
    pub fn src(&self) -> u16 {
        be16(self.datagram, SRC)
    }

    /// Destination port.
    pub fn dst(&self) -> u16 {
        be16(self.datagram, DST)
    }

    /// What the datagram carries.
    pub fn payload(&self) -> &'a [u8] {
        &self.datagram[LEN..]
    }

    /// True when the checksum is right, or zero: the sender made none (RFC 768).
    pub fn checksum_ok4(&self, src: Ipv4Addr, dst: Ipv4Addr) -> bool {
        let sum = Sum::pseudo4(src, dst, UDP, self.datagram.len() as u16);
        be16(self.datagram, CHECKSUM) == 0 || sum.bytes(self.datagram).is_right()
    }

    /// True when the checksum is right; zero is wrong (RFC 8200 §8.1).
    pub fn checksum_ok6(&self, src: Ipv6Addr, dst: Ipv6Addr) -> bool {
        let sum = Sum::pseudo6(src, dst, UDP, self.datagram.len() as u32);
        be16(self.datagram, CHECKSUM) != 0 && sum.bytes(self.datagram).is_right()
    }
}

/// A UDP header's fields, without the checksum, which depends on the payload.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Header {
    /// Source port.
    pub src: u16,
    /// Destination port.
    pub dst: u16,
    /// Bytes of header and payload.
    pub len: u16,
}

impl Header {
    /// Reads the fields.
    ///
    /// # Errors
    /// As [`View::new`].
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let view = View::new(bytes)?;
        Ok(Header { src: view.src(), dst: view.dst(), len: view.datagram.len() as u16 })
    }

    /// Writes [`LEN`] bytes, the checksum zero, and returns their number.
    /// [`fill_checksum`] comes after the payload.
    ///
    /// # Errors
    /// When the buffer is shorter or the length below [`LEN`].
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        if usize::from(self.len) < LEN {
            return Err(Error::Field { header: "udp", field: "length", found: self.len.into() });
        }
        let out = room(buffer, LEN, "udp")?;
        put16(out, SRC, self.src);
        put16(out, DST, self.dst);
        put16(out, LENGTH, self.len);
        put16(out, CHECKSUM, 0);
        Ok(LEN)
    }
}

/// Writes the checksum of a datagram; `pseudo` is [`Sum::pseudo4`] or
/// [`Sum::pseudo6`]. A sum of zero is sent as all ones (RFC 768).
///
/// # Errors
/// When there are fewer than [`LEN`] bytes.
pub fn fill_checksum(pseudo: Sum, datagram: &mut [u8]) -> Result<(), Error> {
    let have = datagram.len();
    if have < LEN {
        return Err(Error::Truncated { header: "udp", need: LEN, have });
    }
    put16(datagram, CHECKSUM, 0);
    let sum = match pseudo.bytes(datagram).checksum() {
        0 => 0xffff,
        sum => sum,
    };
    put16(datagram, CHECKSUM, sum);
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const B: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 2);

    #[test]
    fn a_sum_of_zero_is_sent_as_ones() {
        let mut datagram = [0; 10];
        Header { src: 0, dst: 0, len: 10 }.emit(&mut datagram).unwrap();
        let pseudo = Sum::pseudo4(A, B, UDP, 10);
        let rest = pseudo.bytes(&datagram).checksum();
        put16(&mut datagram, LEN, rest);
        fill_checksum(pseudo, &mut datagram).unwrap();
        assert_eq!(be16(&datagram, CHECKSUM), 0xffff);
        assert!(View::new(&datagram).unwrap().checksum_ok4(A, B));
    }

    #[test]
    fn no_checksum_is_right_over_ipv4_only() {
        let mut datagram = [0; 8];
        Header { src: 1, dst: 2, len: 8 }.emit(&mut datagram).unwrap();
        let view = View::new(&datagram).unwrap();
        assert!(view.checksum_ok4(A, B));
        assert!(!view.checksum_ok6(A.to_ipv6_mapped(), B.to_ipv6_mapped()));
    }

    proptest! {
        #[test]
        fn parse_after_emit_is_the_identity(src: u16, dst: u16, flip in 0_usize..64, a: [u16; 8],
                                            payload in proptest::collection::vec(any::<u8>(), 0..60)) {
            let len = (LEN + payload.len()) as u16;
            let header = Header { src, dst, len };
            let mut bytes = [&[0; LEN][..], &payload].concat();
            header.emit(&mut bytes).unwrap();
            prop_assert_eq!(Header::parse(&bytes), Ok(header));
            fill_checksum(Sum::pseudo4(A, B, UDP, len), &mut bytes).unwrap();
            prop_assert!(View::new(&bytes).unwrap().checksum_ok4(A, B));
            let (a, b) = (Ipv6Addr::from(a), A.to_ipv6_mapped());
            fill_checksum(Sum::pseudo6(a, b, UDP, len.into()), &mut bytes).unwrap();
            let mut wrong = bytes.clone();
            prop_assert!(View::new(&bytes).unwrap().checksum_ok6(a, b));
            wrong[flip / 8 % 4] ^= 1 << (flip % 8); // a bit of the ports
            prop_assert!(!View::new(&wrong).unwrap().checksum_ok6(a, b));
        }

        #[test]
        fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(view) = View::new(&bytes) {
                let _ = (view.payload(), view.checksum_ok4(A, B));
            }
        }
    }
}
