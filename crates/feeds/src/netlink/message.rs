//! Netlink's framing: messages in a datagram, attributes in a message. Whatever
//! the bytes are, nothing panics: a length that does not fit ends the iteration.

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
        Some((u16_at(header, 2) & KIND, value))
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

/// A request for a listing of everything: header and a fixed part of zeros that
/// is long enough for every kind, beginning with the family.
pub fn dump_request(kind: u16, family: u8, sequence: u32) -> Vec<u8> {
    const DUMP: u16 = 0x300;
    let mut fixed = vec![0; fixed_len(kind)];
    fixed[0] = family; // cannot panic: every fixed part has 8 bytes or more
    request(kind, DUMP, sequence, &fixed)
}

/// A request with this body; only an error is answered.
pub fn request(kind: u16, flags: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
    const REQUEST: u16 = 1;
    let mut bytes = Vec::with_capacity(HEADER + body.len());
    bytes.extend_from_slice(&((HEADER + body.len()) as u32).to_ne_bytes());
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(&(flags | REQUEST).to_ne_bytes());
    bytes.extend_from_slice(&sequence.to_ne_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(body);
    bytes
}

/// Bytes before the attributes of a message of this kind.
pub fn fixed_len(kind: u16) -> usize {
    match kind & !3 {
        RTM_LINK => 16,
        RTM_ADDRESS => 8,
        RTM_NEXTHOP => 8,
        _ => 12, // routes, neighbours
    }
}

/// Message types come in fours: new, delete, get, set.
pub const RTM_LINK: u16 = 16;
/// Addresses.
pub const RTM_ADDRESS: u16 = 20;
/// Routes.
pub const RTM_ROUTE: u16 = 24;
/// Neighbours.
pub const RTM_NEIGHBOUR: u16 = 28;
/// Next-hop objects.
pub const RTM_NEXTHOP: u16 = 104;
/// Added to the type: what went.
pub const DELETE: u16 = 1;
/// Added to the type: a request.
pub const GET: u16 = 2;

/// `NLMSG_ERROR`.
pub const ERROR: u16 = 2;
/// `NLMSG_DONE`.
pub const DONE: u16 = 3;

/// `NLM_F_MULTI`: part of a listing.
pub const MULTI: u16 = 0x2;
/// `NLM_F_DUMP_INTR`: the listing changed while it was made.
pub const INTERRUPTED: u16 = 0x10;
/// `NLM_F_REPLACE`.
pub const REPLACE: u16 = 0x100;
/// `NLM_F_APPEND`.
pub const APPEND: u16 = 0x800;

const HEADER: usize = 16;
/// Without `NLA_F_NESTED` and `NLA_F_NET_BYTEORDER`.
const KIND: u16 = 0x3fff;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_request_is_one_message() {
        let bytes = dump_request(RTM_ROUTE + GET, 2, 7);
        let mut all = Messages::new(&bytes);
        let message = all.next().unwrap();
        assert_eq!((message.kind, message.sequence, message.payload[0]), (26, 7, 2));
        assert_eq!((message.payload.len(), all.rest()), (12, 0));
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
