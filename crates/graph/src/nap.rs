//! How long an idle worker sleeps.
//!
//! ```text
//!  bound            holds
//!  50 µs            while it has ports or sources that only polling empties
//!  500 ms           while it has none of these; so that it is seen to be alive
//!  the next tick    of its nodes, always; less what the kernel wakes it late
//!  a packet         ends any sleep, of ports that wake
//!  the bell         does, too: control's calls, frames of the kernel, other workers' packets
//! ```

use std::time::Duration;

use crate::clock;
use crate::tick::Due;

/// The longest sleep from `now` on with the next tick at `due`; `polled`: the graph has
/// what only polling finds. `None`: no time to sleep.
pub(crate) fn nap(now: u64, due: Due, polled: bool) -> Option<Duration> {
    let most = if polled { NAP } else { LONGEST };
    if due == Due::NEVER {
        return Some(most);
    }
    let left = due.ticks().saturating_sub(now).saturating_sub(clock::ticks(LATE));
    (left > 0).then(|| most.min(duration(left)))
}

/// `ticks` as a time.
fn duration(ticks: u64) -> Duration {
    let nanos = u128::from(ticks) * 1_000_000_000 / u128::from(clock::hz());
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// With something to poll.
pub(crate) const NAP: Duration = Duration::from_micros(50);
/// Without. Below half of the silence after which a sleeper counts as stalled.
const LONGEST: Duration = Duration::from_millis(500);
/// The kernel wakes a thread so much later than it asked for: Linux' timer slack of
/// 50 µs, and the switch. So near before a tick a worker goes on polling.
const LATE: Duration = Duration::from_micros(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bound_holds_where_it_should() {
        let (now, at) = (1 << 40, |after| Due::at((1 << 40) + clock::ticks(after)));
        for never in [Due::NEVER, at(Duration::from_secs(5))] {
            assert_eq!(
                [true, false].map(|polled| nap(now, never, polled)),
                [Some(NAP), Some(LONGEST)]
            );
        }
        let soon = at(LATE + Duration::from_micros(20));
        for polled in [true, false] {
            let nap = nap(now, soon, polled).unwrap().as_micros();
            assert!((19..=20).contains(&nap), "{nap}");
        }
        let between = nap(now, at(Duration::from_millis(5)), false).unwrap();
        assert!(between < Duration::from_millis(5) && between > Duration::from_micros(4_900));
        for past in [Due::NOW, Due::at(now - 7), at(LATE)] {
            assert_eq!(nap(now, past, true), None);
        }
    }
}
