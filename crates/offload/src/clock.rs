//! Time: the machine's clock, or an artificial one, by which tests of rates are exact and take no time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A clock; its clones share the time.
#[derive(Clone, Debug)]
pub enum Clock {
    /// The machine's clock.
    Real(Instant),
    /// An artificial clock, which advances only when somebody waits: nanoseconds.
    Made(Arc<AtomicU64>),
}

impl Clock {
    /// The machine's clock.
    pub fn real() -> Self {
        Clock::Real(Instant::now())
    }

    /// An artificial clock, at 0.
    pub fn made() -> Self {
        Clock::Made(Arc::default())
    }

    /// Time since the clock was made.
    pub fn now(&self) -> Duration {
        match self {
            Clock::Real(start) => start.elapsed(),
            Clock::Made(now) => Duration::from_nanos(now.load(Ordering::Relaxed)),
        }
    }

    /// Waits until that time.
    pub fn wait_until(&self, then: Duration) {
        match self {
            Clock::Real(_) => std::thread::sleep(then.saturating_sub(self.now())),
            Clock::Made(now) => {
                now.fetch_max(then.as_nanos() as u64, Ordering::Relaxed);
            }
        }
    }

    /// Waits a little, for whichever event comes first.
    pub fn pause(&self) {
        self.wait_until(self.now() + PAUSE);
    }
}

/// Short beside the time that a batch takes.
const PAUSE: Duration = Duration::from_micros(20);
