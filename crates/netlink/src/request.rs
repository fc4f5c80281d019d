//! Requests, put together piece by piece.

use crate::message::{HEADER, fixed_len};
use crate::names::{
    NLA_F_NESTED, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST,
};

/// A request under construction.
#[derive(Clone, Debug)]
pub struct Request(Vec<u8>);

impl Request {
    /// A request of `kind`; `flags` beside those of a request.
    pub fn new(kind: u16, flags: u16) -> Request {
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(flags | NLM_F_REQUEST).to_ne_bytes());
        Request(bytes)
    }

    /// Appends a fixed part.
    #[must_use]
    pub fn body(mut self, bytes: &[u8]) -> Request {
        self.0.extend_from_slice(bytes);
        self.pad();
        self
    }

    /// Appends an attribute.
    #[must_use]
    pub fn attr(mut self, kind: u16, value: &[u8]) -> Request {
        self.0.extend_from_slice(&((ATTR + value.len()) as u16).to_ne_bytes());
        self.0.extend_from_slice(&kind.to_ne_bytes());
        self.0.extend_from_slice(value);
        self.pad();
        self
    }

    /// Appends an attribute that holds attributes.
    #[must_use]
    pub fn nest(mut self, kind: u16, inner: impl FnOnce(Request) -> Request) -> Request {
        let start = self.0.len();
        self.0.extend_from_slice(&[0; ATTR]);
        self = inner(self);
        let length = (self.0.len() - start) as u16;
        self.0[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self.0[start + 2..start + 4].copy_from_slice(&(kind | NLA_F_NESTED).to_ne_bytes());
        self
    }

    /// Appends text and a zero byte as an attribute.
    #[must_use]
    pub fn text(self, kind: u16, text: &str) -> Request {
        let mut bytes = text.as_bytes().to_vec();
        bytes.push(0);
        self.attr(kind, &bytes)
    }

    /// The attributes alone, of a message without a fixed part.
    pub fn into_attributes(mut self) -> Vec<u8> {
        self.0.split_off(HEADER)
    }

    fn pad(&mut self) {
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }

    /// The bytes to send, with these flags beside its own.
    pub fn finish(mut self, sequence: u32, flags: u16) -> Vec<u8> {
        let length = self.0.len() as u32;
        self.0[0..4].copy_from_slice(&length.to_ne_bytes());
        let all = u16::from_ne_bytes([self.0[6], self.0[7]]) | flags;
        self.0[6..8].copy_from_slice(&all.to_ne_bytes());
        self.0[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.0
    }
}

/// Asks for a listing of everything of a kind of rtnetlink: a fixed part of zeros that is long
/// enough for every kind, beginning with the family.
pub fn listing(kind: u16, family: u8, sequence: u32) -> Vec<u8> {
    let mut fixed = vec![0; fixed_len(kind)];
    fixed[0] = family; // cannot panic: every fixed part has 8 bytes or more
    Request::new(kind, 0).body(&fixed).finish(sequence, NLM_F_DUMP)
}

/// Make; fail where it is there.
pub const CREATE: u16 = NLM_F_CREATE | NLM_F_EXCL;
/// Make, or replace what is there.
pub const REPLACE: u16 = NLM_F_CREATE | NLM_F_REPLACE;

/// Bytes of an attribute's header.
const ATTR: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Messages, attributes};
    use crate::names::{NLM_F_ACK, RTM_GETROUTE};

    #[test]
    fn requests_are_padded_and_nested() {
        let message = Request::new(16, 0)
            .body(&[1, 2, 3])
            .nest(5, |inner| inner.text(1, "ab").attr(2, &[9]))
            .finish(7, NLM_F_ACK);
        assert_eq!(message.len() % 4, 0);
        assert_eq!(u32::from_ne_bytes(message[..4].try_into().unwrap()) as usize, message.len());
        let all: Vec<_> = attributes(&message[20..]).collect();
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].0, 5);
        let inner: Vec<_> = attributes(all[0].1).collect();
        assert_eq!(inner, [(1, &b"ab\0"[..]), (2, &[9][..])]);
    }

    #[test]
    fn a_request_for_a_listing_is_one_message() {
        let bytes = listing(RTM_GETROUTE, 2, 7);
        let mut all = Messages::new(&bytes);
        let message = all.next().unwrap();
        assert_eq!((message.kind, message.sequence, message.payload[0]), (26, 7, 2));
        assert_eq!((message.payload.len(), all.rest()), (12, 0));
    }
}
