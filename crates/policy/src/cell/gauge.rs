//! Counters of one pair of rings, shared by a worker and the supervisor.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// The worker writes all of it except `state` and `clock`, which the supervisor writes. The process
/// cannot see it.
#[derive(Debug, Default)]
pub(crate) struct Gauge {
    state: AtomicU8,
    /// The supervisor's clock in milliseconds, updated now and then.
    clock: AtomicU32,
    /// Questions that were handed over.
    pub asked: AtomicU64,
    /// Verdicts of the policy.
    pub decided: AtomicU64,
    /// Questions at which the policy failed.
    pub failed: AtomicU64,
    /// Questions whose process ended.
    pub lost: AtomicU64,
    /// Messages in the ring that were no valid verdict.
    pub refused: AtomicU64,
    /// Verdicts that were taken from the ring, including refused ones.
    pub taken: AtomicU32,
    /// 1 << 32 plus the clock at the oldest question without a verdict; 0: no question is open.
    pub oldest: AtomicU64,
}

/// The state of a pair of rings.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum State {
    /// Questions and verdicts.
    Open,
    /// Only verdicts of open questions.
    Draining,
    /// Its process is gone, or no longer trusted.
    Over,
}

impl Gauge {
    #[inline]
    pub fn state(&self) -> State {
        match self.state.load(Ordering::Acquire) {
            0 => State::Open,
            1 => State::Draining,
            _ => State::Over,
        }
    }

    /// A state never goes back to an earlier one.
    pub fn advance(&self, state: State) {
        self.state.fetch_max(state as u8, Ordering::AcqRel);
    }

    #[inline]
    pub fn clock(&self) -> u32 {
        self.clock.load(Ordering::Relaxed)
    }

    pub fn set_clock(&self, now: u32) {
        self.clock.store(now, Ordering::Relaxed);
    }

    /// When the oldest question without a verdict was put.
    pub fn oldest(&self) -> Option<u32> {
        let oldest = self.oldest.load(Ordering::Acquire);
        (oldest != 0).then_some(oldest as u32)
    }

    /// Adds to one of the worker's own counters.
    #[inline]
    pub fn add(counter: &AtomicU64, n: u64) {
        counter.store(counter.load(Ordering::Relaxed) + n, Ordering::Relaxed);
    }
}
