//! Time as the data path reads it: the processor's time-stamp counter.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Ticks of the time-stamp counter now (x86-64; elsewhere nanoseconds).
#[inline(always)]
pub fn now() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        // SAFETY: RDTSC is part of every x86-64 and only reads a counter.
        unsafe { core::arch::x86_64::_rdtsc() }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    {
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }
}

/// Ticks a second, measured once (10 ms) at the first call: never the first
/// time in a worker's loop.
pub fn hz() -> u64 {
    static HZ: OnceLock<u64> = OnceLock::new();
    *HZ.get_or_init(|| {
        let (ticks, start) = both();
        std::thread::sleep(Duration::from_millis(10));
        let (ticks_then, end) = both();
        let elapsed = end.saturating_duration_since(start).as_nanos().max(1);
        let ticks = u128::from(ticks_then.wrapping_sub(ticks));
        u64::try_from(ticks * 1_000_000_000 / elapsed).unwrap_or(u64::MAX).max(1)
    })
}

/// Both clocks at one moment: of a few looks the quickest, because a thread that loses
/// its core between the two clocks would have a rate that is wrong for good.
fn both() -> (u64, Instant) {
    let look = || {
        let (ticks, time) = (now(), Instant::now());
        (now().wrapping_sub(ticks), ticks, time)
    };
    let (_, ticks, time) =
        (0..7).map(|_| look()).fold(look(), |a, b| if b.0 < a.0 { b } else { a });
    (ticks, time)
}

/// `duration` in ticks.
pub fn ticks(duration: Duration) -> u64 {
    let ticks = duration.as_nanos() * u128::from(hz()) / 1_000_000_000;
    u64::try_from(ticks).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_measure_time() {
        let start = now();
        std::thread::sleep(Duration::from_millis(20));
        let passed = now() - start;
        assert!(passed >= ticks(Duration::from_millis(18)), "{passed} of {}", hz());
    }
}
