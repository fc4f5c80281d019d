//! The priority of a request, from how long its flow has waited since the one before it.
//!
//! ```text
//!  base = floor(log2(picoseconds since the last packet)), 0 where time ran backwards
//!
//!  base < priority, and there is an allowance ─► the flow keeps its priority, for one of it
//!  else                                       ─► priority = base, allowance 7, a new life
//!
//!  DSCP = min(priority + 3, 63)
//! ```
//!
//! A new flow begins at 38, as if its last packet were a quarter of a second old, and the
//! allowance pays for its first packet: seven packets leave with DSCP 41, and the eighth
//! with its real priority.
//!
//! | spacing | 1 µs | 10 µs | 1 ms | 10 ms | 0.1 s | 0.275 … 0.55 s | 1 s | 1 min | 1 h | 13.4 days |
//! |---------|------|-------|------|-------|-------|----------------|-----|-------|-----|-----------|
//! | DSCP    | 22   | 26    | 32   | 36    | 39    | 41             | 42  | 48    | 54  | 63        |
//!
//! We differ: the deployed Gatekeeper takes whole picoseconds a cycle (408 for 408.998 at
//! 2.445 GHz), so it demands spacings 0.24 % longer, and remembers as much longer. Here a
//! tick has its exact length.

use super::times::Times;

/// What is known of a flow that nothing was decided for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Request {
    /// When its last packet came.
    pub seen: u64,
    /// The base priority that it has, at most [`MAX_BASE`](super::times::MAX_BASE).
    pub priority: u8,
    /// Packets that may still have it without having waited for it.
    pub allowance: u8,
}

/// A request's place in the channel, and when its entry ends if that changed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Asked {
    /// 3 to 63.
    pub dscp: u8,
    /// The new end of the entry's life.
    pub expires: Option<u64>,
}

impl Request {
    /// A flow whose first packet comes now; that packet is an ordinary one.
    #[inline]
    pub fn new(now: u64) -> Self {
        Request { seen: now, priority: FIRST, allowance: ALLOWANCE }
    }

    /// When the entry of a flow that is new now ends.
    #[inline]
    pub fn first_end(times: &Times, now: u64) -> u64 {
        now.saturating_add(times.life(FIRST))
    }

    /// A packet comes.
    #[inline]
    pub fn packet(&mut self, times: &Times, now: u64) -> Asked {
        let base = times.base(now.saturating_sub(self.seen));
        self.seen = now;
        let mut expires = None;
        if base < self.priority && self.allowance > 0 {
            self.allowance -= 1;
        } else {
            (self.priority, self.allowance) = (base, ALLOWANCE);
            expires = Some(now.saturating_add(times.life(base)));
        }
        Asked { dscp: (self.priority + LOWEST_DSCP).min(HIGHEST_DSCP), expires }
    }
}

/// The base priority of a new flow.
pub const FIRST: u8 = 38;
/// Packets that may have a priority without having waited for it.
pub const ALLOWANCE: u8 = 7;
/// The DSCP of the least patient request: those below say other things.
pub const LOWEST_DSCP: u8 = 3;
/// The DSCP of the most patient request.
pub const HIGHEST_DSCP: u8 = 63;
