//! VLAN tags: IEEE 802.1Q, stacked by 802.1ad (QinQ).
//!
//! ```text
//!  12   14   16   18                       after the two MAC addresses
//!  │TPID│TCI │type│ payload …              TCI = priority 3, DEI 1, VLAN id 12 bits
//! ```

use crate::bytes::{be16, put16};
use crate::ethernet::{ETHERTYPE, LEN as ETHERNET_LEN, QINQ, VLAN};
use crate::{Error, room, split};

/// Bytes of a tag.
pub const LEN: usize = 4;
/// Bits of the tag control information that are the VLAN id.
pub const ID_MASK: u16 = 0x0fff;
/// Tags that [`Stack::parse`] takes off; a third one is payload.
pub const MAX_TAGS: usize = 2;

/// One tag.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Tag {
    /// Its EtherType: [`VLAN`] or [`QINQ`].
    pub tpid: u16,
    /// Priority (3 bits), drop eligibility (1), VLAN id (12).
    pub tci: u16,
}

impl Tag {
    /// An 802.1Q tag of priority 0.
    pub fn new(id: u16) -> Self {
        Tag { tpid: VLAN, tci: id & ID_MASK }
    }

    /// An 802.1ad (outer) tag of priority 0.
    pub fn outer(id: u16) -> Self {
        Tag { tpid: QINQ, tci: id & ID_MASK }
    }

    /// The VLAN id; 0 means "priority only" (IEEE 802.1Q §9.6), 4095 is reserved.
    pub fn id(self) -> u16 {
        self.tci & ID_MASK
    }

    /// The priority code point.
    pub fn priority(self) -> u8 {
        (self.tci >> 13) as u8
    }

    /// Writes tag control information and the EtherType that follows: the
    /// [`LEN`] bytes after the tag's own EtherType. Returns their number.
    ///
    /// # Errors
    /// When the buffer is shorter.
    pub fn emit(self, next: u16, buffer: &mut [u8]) -> Result<usize, Error> {
        let out = room(buffer, LEN, "vlan")?;
        put16(out, 0, self.tci);
        put16(out, 2, next);
        Ok(LEN)
    }
}

/// True for the EtherTypes that announce a tag.
#[inline(always)]
pub fn is_tag(ethertype: u16) -> bool {
    ethertype == VLAN || ethertype == QINQ
}

/// What is between the MAC addresses of a frame and its payload.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Stack {
    tags: [Tag; MAX_TAGS],
    n: usize,
    ethertype: u16,
}

impl Stack {
    /// Reads up to [`MAX_TAGS`] tags of a frame that starts at its MAC addresses.
    ///
    /// # Errors
    /// When the frame ends inside the header or a tag.
    pub fn parse(frame: &[u8]) -> Result<Self, Error> {
        let (header, mut rest) = split(frame, ETHERNET_LEN, "ethernet")?;
        let ethertype = be16(header, ETHERTYPE);
        let mut stack = Stack { tags: [Tag::default(); MAX_TAGS], n: 0, ethertype };
        while stack.n < MAX_TAGS && is_tag(stack.ethertype) {
            let (tag, after) = split(rest, LEN, "vlan")?;
            stack.tags[stack.n] = Tag { tpid: stack.ethertype, tci: be16(tag, 0) };
            stack.n += 1;
            stack.ethertype = be16(tag, 2);
            rest = after;
        }
        Ok(stack)
    }

    /// The tags, outermost first.
    pub fn tags(&self) -> &[Tag] {
        &self.tags[..self.n]
    }

    /// What the payload is.
    pub fn ethertype(&self) -> u16 {
        self.ethertype
    }

    /// Where in the frame the payload starts.
    pub fn payload_at(&self) -> usize {
        ETHERNET_LEN + self.n * LEN
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ethernet::{Header, IPV4};

    #[test]
    fn a_cut_off_tag_is_an_error() {
        let mut frame = [0; 18];
        Header { ethertype: VLAN, ..Header::default() }.emit(&mut frame).unwrap();
        assert!(Stack::parse(&frame[..17]).is_err());
        assert_eq!(Stack::parse(&frame).unwrap().payload_at(), 18);
    }

    proptest! {
        #[test]
        fn a_stack_is_read_as_written(tcis in proptest::collection::vec(any::<u16>(), 0..=MAX_TAGS)) {
            let mut frame = [0; 22];
            let tag = |i: usize| Tag { tpid: if i == 0 { QINQ } else { VLAN }, tci: tcis[i] };
            let kind = |i: usize| if i < tcis.len() { tag(i).tpid } else { IPV4 };
            Header { ethertype: kind(0), ..Header::default() }.emit(&mut frame).unwrap();
            for i in 0..tcis.len() {
                tag(i).emit(kind(i + 1), &mut frame[ETHERNET_LEN + i * LEN..]).unwrap();
            }
            let stack = Stack::parse(&frame).unwrap();
            prop_assert_eq!(stack.ethertype(), IPV4);
            prop_assert_eq!(stack.tags().len(), tcis.len());
            for (i, read) in stack.tags().iter().enumerate() {
                prop_assert_eq!(*read, tag(i));
            }
        }

        #[test]
        fn any_bytes(frame in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(stack) = Stack::parse(&frame) {
                prop_assert!(stack.payload_at() <= frame.len());
            }
        }
    }
}
