//! Time: the machine's, or a made one in which tests of rates are exact and take no time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A clock; copies of it show the same time.
#[derive(Clone, Debug)]
pub enum Clock {
    /// The machine's.
    Real(Instant),
    /// One that goes only where somebody waits: nanoseconds.
    Made(Arc<AtomicU64>),
}

impl Clock {
    /// The machine's.
    pub fn real() -> Self {
        Clock::Real(Instant::now())
    }

    /// A made one, at 0.
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

    /// Waits until then.
    pub fn wait_until(&self, then: Duration) {
        match self {
            Clock::Real(_) => std::thread::sleep(then.saturating_sub(self.now())),
            Clock::Made(now) => {
                now.fetch_max(then.as_nanos() as u64, Ordering::Relaxed);
            }
        }
    }

    /// Waits a little for whatever comes first.
    pub fn pause(&self) {
        self.wait_until(self.now() + PAUSE);
    }
}

/// Short beside the time of a batch.
const PAUSE: Duration = Duration::from_micros(20);
