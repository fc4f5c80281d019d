//! The trait of rules, built in or programs: how a decision treats a flow's packets.

use std::sync::Arc;

pub use policy::program::{Answer, Arrival, BadParameters, GRANTED, Page, Program, RENEWAL};

use super::times::Times;

/// A page in words, each of which may be in a register; little-endian.
pub(super) type Words = [u64; 8];

/// The words of a page.
pub(super) fn words_of(page: &Page) -> Words {
    std::array::from_fn(|word| u64::from_le_bytes(wire::bytes::array(page, 8 * word)))
}

/// Writes them, one by one.
#[inline(always)]
pub(super) fn put_words(page: &mut Page, words: Words) {
    for (bytes, word) in page.chunks_exact_mut(8).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
}

/// Says what becomes of each packet, from the flow's own [`Page`].
pub trait Rule: Send + Sync {
    /// A decision came: makes state of the parameters in `page`, once for each decision.
    ///
    /// # Errors
    /// When the parameters make no sense; the decision is dropped.
    fn init(&self, times: &Times, now: u64, page: &mut Page) -> Result<(), BadParameters>;

    /// A packet came, before the decision's end at `expires`.
    fn packet(&self, times: &Times, arrival: &Arrival<'_>, expires: u64, page: &mut Page)
    -> Answer;

    /// What a packet at `now` would find, where the rule keeps a budget of bytes: to be shown.
    fn budget(&self, _page: &Page, _now: u64) -> Option<Budget> {
        None
    }
}

/// What a flow may send.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Budget {
    /// A second's.
    pub rate_kib: u32,
    /// Bytes that are left of it.
    pub left: u64,
}

/// Numbers that a program may have.
pub const PROGRAMS: usize = 1 << u8::BITS;

/// A program knows the length of a tick from when it was loaded.
impl Rule for Arc<dyn Program> {
    fn init(&self, _: &Times, now: u64, page: &mut Page) -> Result<(), BadParameters> {
        Program::init(&**self, now, page)
    }

    fn packet(&self, _: &Times, arrival: &Arrival<'_>, expires: u64, page: &mut Page) -> Answer {
        Program::packet(&**self, arrival, expires, page)
    }
}
