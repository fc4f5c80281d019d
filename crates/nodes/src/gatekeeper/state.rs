//! The 16 bytes of state that an entry of the flow table has for us.
//!
//! ```text
//!            0           8                  9                   10                16
//!  request   │ last seen │ 00 │ priority    │ allowance         │ the caller's    │
//!  decided   │ last used │ kind │ edition   │ program's number  │ (which Grantors)│
//!                          2 bits, 6 bits
//! ```
//!
//! Every value of the bytes is a state: there is no unknown one to be dropped.

use super::request::Request;
use super::times::Times;

/// The state bytes of an entry.
pub type Bytes = [u8; 16];

/// Where the caller's bytes begin: nothing here reads or writes them.
pub const CALLERS: usize = 10;

/// What was decided for a flow.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// Nothing yet.
    Request,
    /// It has a budget.
    Granted,
    /// It gets nothing.
    Declined,
    /// The program of this number says.
    Program(u8),
}

impl Kind {
    /// Of an entry.
    #[inline]
    pub fn of(bytes: &Bytes) -> Kind {
        match bytes[KIND] >> PRIORITY_BITS {
            REQUEST => Kind::Request,
            GRANTED => Kind::Granted,
            DECLINED => Kind::Declined,
            _ => Kind::Program(bytes[MORE]),
        }
    }

    /// True for those that keep state in a page, whose packets may pass. In the table each
    /// decided flow has a page, also one that is declined: it counts among those that may be
    /// decided, and a grant that follows needs none.
    #[inline]
    pub fn uses_page(self) -> bool {
        matches!(self, Kind::Granted | Kind::Program(_))
    }
}

/// Kind and the caller's bytes of an entry, as one number: to be compared with
/// [`word_of`].
#[inline(always)]
pub(super) fn word(bytes: &Bytes) -> u64 {
    second(bytes) & WORD
}

/// The same of an entry of this kind, and these bytes of the caller's.
#[inline(always)]
pub(super) fn word_of(kind: Kind, callers: u64) -> u64 {
    let kind = match kind {
        Kind::Request => REQUEST,
        Kind::Granted => GRANTED,
        Kind::Declined => DECLINED,
        Kind::Program(_) => PROGRAM,
    };
    callers << CALLERS_AT | u64::from(kind) << PRIORITY_BITS
}

/// The caller's bytes, as a number of 48 bits.
#[inline(always)]
pub(super) fn callers(bytes: &Bytes) -> u64 {
    second(bytes) >> CALLERS_AT
}

/// Writes them.
#[inline(always)]
pub(super) fn set_callers(bytes: &mut Bytes, callers: u64) {
    let word = second(bytes) & !(u64::MAX << CALLERS_AT) | callers << CALLERS_AT;
    bytes[KIND..].copy_from_slice(&word.to_le_bytes());
}

/// When a decided flow last had a packet that passed, to the second; `None` for never.
#[inline]
pub fn last_used(bytes: &Bytes) -> Option<u64> {
    let used = load(bytes);
    (Kind::of(bytes).uses_page() && used != NEVER).then_some(used)
}

/// A packet of a decided flow passed. Written once a second, so that a line of the table
/// is not dirtied for each packet.
#[inline]
pub(super) fn mark_used(bytes: &mut Bytes, times: &Times, now: u64) {
    let used = load(bytes);
    // Where time ran backwards the difference wraps, and the later time goes.
    if used == NEVER || now.wrapping_sub(used) >= times.second() {
        bytes[..8].copy_from_slice(&now.max(NEVER + 1).to_le_bytes());
    }
}

/// The edition of the program that a flow was decided for: [`Programs::edition`].
///
/// [`Programs::edition`]: super::programs::Programs::edition
#[inline]
pub(super) fn edition(bytes: &Bytes) -> u8 {
    bytes[KIND] % EDITIONS
}

/// Makes an entry that of a decided flow, by a program of this edition. What is renewed while it
/// is in use stays in use.
pub(super) fn set_decided(bytes: &mut Bytes, kind: Kind, edition: u8) {
    if !(Kind::of(bytes).uses_page() && kind.uses_page()) {
        bytes[..8].copy_from_slice(&NEVER.to_le_bytes());
    }
    (bytes[KIND], bytes[MORE]) = match kind {
        Kind::Request => (REQUEST << PRIORITY_BITS, 0),
        Kind::Granted => (GRANTED << PRIORITY_BITS, 0),
        Kind::Declined => (DECLINED << PRIORITY_BITS, 0),
        Kind::Program(index) => ((PROGRAM << PRIORITY_BITS) | (edition % EDITIONS), index),
    };
}

/// The request that an entry is.
#[inline]
pub(super) fn request(bytes: &Bytes) -> Request {
    let priority = bytes[KIND] & ((1 << PRIORITY_BITS) - 1);
    Request { seen: load(bytes), priority, allowance: bytes[MORE] }
}

/// Makes an entry that of a request.
#[inline]
pub(super) fn set_request(bytes: &mut Bytes, request: Request) {
    bytes[..8].copy_from_slice(&request.seen.to_le_bytes());
    bytes[KIND] = request.priority; // REQUEST is 0, and a priority has six bits
    bytes[MORE] = request.allowance;
}

#[inline(always)]
fn load(bytes: &Bytes) -> u64 {
    u64::from_le_bytes(wire::bytes::array(bytes, 0))
}

#[inline(always)]
fn second(bytes: &Bytes) -> u64 {
    u64::from_le_bytes(wire::bytes::array(bytes, KIND))
}

const KIND: usize = 8;
const MORE: usize = 9;
const PRIORITY_BITS: u32 = 6;
/// Editions of a program that an entry can tell apart.
pub(super) const EDITIONS: u8 = 1 << PRIORITY_BITS;
const NEVER: u64 = 0;
/// Where the caller's bytes begin in the second half.
const CALLERS_AT: u32 = 8 * (CALLERS - KIND) as u32;
/// What [`word`] has of it: not the low bits of the kind, nor a program's number.
const WORD: u64 = u64::MAX << CALLERS_AT | 3 << PRIORITY_BITS;

const REQUEST: u8 = 0;
const GRANTED: u8 = 1;
const DECLINED: u8 = 2;
const PROGRAM: u8 = 3;
