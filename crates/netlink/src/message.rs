//! Netlink's framing: messages in a datagram, attributes in a message. Whatever
//! the bytes are, nothing panics: a length that does not fit ends the iteration.

use crate::names::{NLA_TYPE_MASK, RTM_NEWADDR, RTM_NEWLINK, RTM_NEWNEXTHOP};

/// One message.
#[derive(Clone, Copy, Debug)]
pub struct Message<'b> {
    /// Its type.
    pub kind: u16,
    /// Its flags.
    pub flags: u16,
    /// The number of the request that it answers; 0 in notifications.
    pub sequence: u32,
    /// What follows the header.
    pub payload: &'b [u8],
}

/// The messages of a datagram, and whether bytes were left that are none.
#[derive(Clone, Debug)]
pub struct Messages<'b> {
    rest: &'b [u8],
}

impl<'b> Messages<'b> {
    /// The messages in `bytes`.
    pub fn new(bytes: &'b [u8]) -> Self {
        Messages { rest: bytes }
    }

    /// Bytes after the last message understood: damage, if any are left.
    pub fn rest(&self) -> usize {
        self.rest.len()
    }
}

impl<'b> Iterator for Messages<'b> {
    type Item = Message<'b>;

    fn next(&mut self) -> Option<Message<'b>> {
        let header = self.rest.first_chunk::<HEADER>()?;
        let length = u32_at(header, 0) as usize;
        let payload = self.rest.get(HEADER..length)?;
        self.rest = self.rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        let (kind, flags) = (u16_at(header, 4), u16_at(header, 6));
        Some(Message { kind, flags, sequence: u32_at(header, 8), payload })
    }
}

/// One attribute: its type without flag bits, and its value.
pub type Attribute<'b> = (u16, &'b [u8]);

/// The attributes in `bytes`.
pub fn attributes(bytes: &[u8]) -> impl Iterator<Item = Attribute<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let header = rest.first_chunk::<4>()?;
        let length = usize::from(u16_at(header, 0));
        let value = rest.get(4..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((u16_at(header, 2) & NLA_TYPE_MASK, value))
    })
}

/// The number at `at`, in the machine's byte order; 0 where there is none.
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let four = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>());
    four.map_or(0, |four| u32::from_ne_bytes(*four))
}

/// The number at `at`, in the machine's byte order; 0 where there is none.
pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    let two = bytes.get(at..).and_then(|rest| rest.first_chunk::<2>());
    two.map_or(0, |two| u16::from_ne_bytes(*two))
}

/// The value of the first attribute of this type.
pub fn find(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(k, _)| *k == kind).map(|(_, value)| value)
}

/// Bytes before the attributes of a message of this kind of rtnetlink.
pub fn fixed_len(kind: u16) -> usize {
    match kind & !3 {
        RTM_NEWLINK => 16,
        RTM_NEWADDR => 8,
        RTM_NEWNEXTHOP => 8,
        _ => 12, // routes, neighbours, rules
    }
}

/// Bytes of a message's header.
pub(crate) const HEADER: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn damage_ends_the_list() {
        assert_eq!(Messages::new(&[0; 15]).count(), 0);
        assert_eq!(Messages::new(&[255; 40]).count(), 0);
        assert_eq!(attributes(&[3, 0, 0, 0]).count(), 0);
        assert_eq!(attributes(&[255, 255, 0, 0]).count(), 0);
    }

    proptest! {
        #[test]
        fn any_bytes_end(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            for message in Messages::new(&bytes) {
                attributes(message.payload).for_each(drop);
            }
        }
    }
}
