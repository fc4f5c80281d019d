//! What was wrong with a file, and where.

use core::fmt;

use lookup::BadPrefix;

/// What a load met besides good routes.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Report {
    /// Routes that a later one of the same prefix replaced.
    pub duplicates: u64,
    /// Prefixes kept with their host bits cleared, as asked for.
    pub masked: u64,
    /// Sound MRT records of kinds that hold no unicast route.
    pub other: u64,
    /// Lines or records that could not be read.
    pub damaged: u64,
    /// The first of them, at most [`Report::KEPT`].
    pub damage: Vec<Damage>,
}

impl Report {
    /// How many places of damage are kept; the rest is only counted.
    pub const KEPT: usize = 20;

    /// True when everything could be read.
    pub fn is_sound(&self) -> bool {
        self.damaged == 0
    }

    pub(crate) fn damage(&mut self, damage: Damage) {
        self.damaged += 1;
        if self.damage.len() < Self::KEPT {
            self.damage.push(damage);
        }
    }
}

/// One damaged line or record.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{place}: {fault}")]
pub struct Damage {
    /// Where.
    pub place: Place,
    /// What.
    pub fault: Fault,
}

/// A place in a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Place {
    /// A line of text, from 1.
    Line(u64),
    /// An MRT record.
    Record {
        /// From 1.
        number: u64,
        /// Of its header's first byte in the decompressed stream.
        offset: u64,
    },
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Line(line) => write!(f, "line {line}"),
            Place::Record { number, offset } => write!(f, "record {number} at byte {offset}"),
        }
    }
}

/// Why a line or record could not be read.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// Not an address in its usual text form.
    #[error("expected an IPv4 or IPv6 prefix such as 192.0.2.0/24")]
    Address,
    /// What follows the slash is not a length.
    #[error("expected a prefix length after the slash")]
    Length,
    /// A length out of range, or host bits.
    #[error(transparent)]
    Prefix(#[from] BadPrefix),
    /// Fields with commas between them.
    #[error("fields are separated by commas; expected blanks: `prefix next-hop`")]
    Commas,
    /// The first and the last address of a range.
    #[error("a range of addresses; expected a prefix such as 192.0.2.0/24")]
    Range,
    /// A third field.
    #[error("expected `prefix next-hop`, found a third field")]
    ThirdField,
    /// The next hop's text is longer than 255 bytes.
    #[error("a next hop of {bytes} bytes exceeds 255")]
    LongHop {
        /// Its length.
        bytes: usize,
    },
    /// The next hop's text is not printable UTF-8.
    #[error("a next hop that is not printable UTF-8")]
    HopText,
    /// More next hops than ids.
    #[error("more next hops than a table can number")]
    TooManyHops,
    /// A line beyond any sense.
    #[error("a line longer than {limit} bytes")]
    LongLine {
        /// The limit.
        limit: usize,
    },
    /// The decompressor or the disk failed; nothing behind this place was read.
    #[error("the file cannot be read any further: {0}")]
    Stream(String),
    /// The stream ends inside a record.
    #[error("the file ends inside this record: {have} of {want} bytes")]
    Truncated {
        /// Bytes that are there, the header included.
        have: u64,
        /// Bytes that the record should have.
        want: u64,
    },
    /// This is no header of an MRT record.
    #[error(
        "not an MRT header (type {kind}, subtype {subtype}, length {length}); {skipped} bytes skipped to the next"
    )]
    Header {
        /// The type field.
        kind: u16,
        /// The subtype field.
        subtype: u16,
        /// The length field.
        length: u32,
        /// Bytes passed over until a header was found, or the end.
        skipped: u64,
    },
    /// The record's content ends too early.
    #[error("malformed: ends inside the {0}")]
    Short(&'static str),
    /// The record's content is malformed.
    #[error("malformed: {0}")]
    Malformed(&'static str),
    /// An entry names a peer that the peer table does not hold.
    #[error("an entry names peer {index}, the peer table has {peers}")]
    Peer {
        /// The entry's index.
        index: u16,
        /// The table's size.
        peers: usize,
    },
    /// An announcement without a next hop.
    #[error("an announcement without a next hop")]
    NoNextHop,
}
