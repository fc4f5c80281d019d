//! When a flow goes, in 16 bits beside its tag: coarse, and only to choose who makes room.
//!
//! ```text
//!    class (2) │ time (14)         0: no flow
//!    request     its expiry,  in units of 4 to 8 ms: 33 s ahead and behind, or more
//!    spare       its expiry,  in units 32 times as long: 17 minutes
//!    kept        its last use, in these
//! ```
//!
//! Times wrap round. One that is further ahead is written as far ahead as can be: when that
//! has come, whoever reads the flow finds out ([`Clock::is_early`]) and writes it anew. A flow
//! that is behind by more was swept long ago, or looks as if it had time: it goes later.

use super::{Class, Flow};

/// The clock of a table, as the last call set it.
#[derive(Clone, Copy)]
pub(super) struct Clock {
    now: u64,
    /// A unit of a request's times is so many ticks, as a power of two.
    shift: u32,
    keep: u16,
}

/// What goes first where a new flow needs a place.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Prefer {
    /// A request; else a decided flow that may go.
    Requests,
    /// A decided flow that may go; else a request.
    Decided,
    /// That, or nothing.
    DecidedOnly,
}

/// [`Prefer`] at one time, for many comparisons.
#[derive(Clone, Copy)]
pub(super) struct Order {
    base: [u16; 4],
    rank: [u16; 4],
    idle: u16,
}

impl Clock {
    /// With `second` ticks a second; a kept flow is idle after `keep_s` seconds.
    pub(super) fn new(second: u64, keep_s: u64) -> Clock {
        let shift = (second / 250).max(1).next_power_of_two().ilog2();
        let ticks = u128::from(keep_s) * u128::from(second);
        // One unit for each of the times that are cut off.
        let keep = (ticks >> (shift + LONGER)).min(u128::from(HALF - 8)) as u16 + 2;
        Clock { now: 0, shift, keep }
    }

    pub(super) fn set(&mut self, now: u64) {
        self.now = now;
    }

    /// In units.
    #[inline(always)]
    fn shift_of(&self, class: Class) -> u32 {
        if class == Class::Request { self.shift } else { self.shift + LONGER }
    }

    /// The word of a flow of `class` that expires, or was used, at `time`.
    #[inline(always)]
    fn word(&self, class: Class, time: u64) -> u16 {
        let shift = self.shift_of(class);
        let (now, half) = (self.now >> shift, u64::from(HALF));
        let time = (time >> shift).clamp(now.saturating_sub(half), now.saturating_add(half - 1));
        (class as u16) << TIME_BITS | time as u16 & TIME
    }

    /// The word of `flow`: of a kept one, as if it were used now.
    #[inline(always)]
    pub(super) fn word_of(&self, flow: &Flow) -> u16 {
        let class = flow.class();
        self.word(class, if class == Class::Kept { self.now } else { flow.expires() })
    }

    /// The word of a flow that is in use just now: it does not go.
    #[inline(always)]
    pub(super) fn pin(&self) -> u16 {
        self.word(Class::Kept, self.now)
    }

    /// True if `word` says of `flow` that it goes earlier than it does.
    #[inline(always)]
    pub(super) fn is_early(&self, word: u16, flow: &Flow) -> bool {
        let class = flow.class();
        let base = self.base(class);
        let ahead = |word: u16| word.wrapping_sub(base) & TIME;
        word >> TIME_BITS != class as u16
            || class != Class::Kept && ahead(word) < ahead(self.word_of(flow))
    }

    /// The earliest time that a word can say.
    #[inline(always)]
    fn base(&self, class: Class) -> u16 {
        ((self.now >> self.shift_of(class)) as u16).wrapping_sub(HALF)
    }

    /// What goes first now.
    #[inline(always)]
    pub(super) fn order(&self, prefer: Prefer) -> Order {
        let [request, decided] = [Class::Request, Class::Spare].map(|class| self.base(class));
        let rank = match prefer {
            Prefer::Requests => [LAST, 0, 1, 2],
            Prefer::Decided => [LAST, 2, 0, 1],
            Prefer::DecidedOnly => [LAST, LAST, 0, 1],
        };
        Order { base: [0, request, decided, decided], rank, idle: HALF - self.keep }
    }
}

impl Order {
    /// The lower, the earlier the flow of `word` goes; [`NEVER`] for one that does not.
    #[inline(always)]
    pub(super) fn of(&self, word: u16) -> u16 {
        let class = usize::from(word >> TIME_BITS);
        let time = word.wrapping_sub(self.base[class]) & TIME;
        let in_use = class == Class::Kept as usize && time > self.idle;
        let order = self.rank[class] << TIME_BITS | time;
        if in_use || self.rank[class] == LAST { NEVER } else { order }
    }
}

/// Of a flow that does not go.
pub(super) const NEVER: u16 = u16::MAX;

/// The word of a place without a flow.
pub(super) const FREE: u16 = 0;

/// True of a place without a flow.
#[inline(always)]
pub(super) fn is_free(word: u16) -> bool {
    word >> TIME_BITS == 0
}

const TIME_BITS: u32 = 14;
const TIME: u16 = (1 << TIME_BITS) - 1;
const HALF: u16 = 1 << (TIME_BITS - 1);
const LAST: u16 = 3;

/// A decided flow's units are 2^5 times as long.
const LONGER: u32 = 5;
