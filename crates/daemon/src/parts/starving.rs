//! Whether workers get their cores: the kernel counts how long each thread was ready to run and did
//! not. A worker that is preempted in the middle of a poll loses packets, and its cycle counts
//! include the pause: 583,293 a packet, where only another process was running.

use std::time::{Duration, Instant};

/// The kernel's counters of a thread (`schedstat`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Account {
    /// Ready, and waiting for the core.
    waited: Duration,
    /// How often the thread was given the core.
    slices: u64,
}

/// How a worker was starved.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Starved {
    /// How long it waited for its core, in those seconds in which that was long.
    pub waited: Duration,
    /// The last of those seconds.
    pub last: Option<Instant>,
}

/// Watches one thread.
#[derive(Debug)]
pub struct Watch {
    thread: u32,
    before: Option<Account>,
    at: Instant,
}

impl Watch {
    /// A thread of this process, by its thread id.
    pub fn new(thread: u32) -> Watch {
        Watch { thread, before: account(thread), at: Instant::now() }
    }

    /// How long the thread waited since the last call, if that was long, and how long ago that was: a
    /// second at least.
    pub fn look(&mut self) -> Option<(Duration, Duration)> {
        let since = self.at.elapsed();
        if since < WINDOW {
            return None;
        }
        self.at = Instant::now();
        let before = std::mem::replace(&mut self.before, account(self.thread));
        much(before?, self.before?, since).map(|waited| (waited, since))
    }
}

/// How long a thread waited between two calls, if its wake-ups do not explain it: more than a
/// hundredth of the time.
fn much(before: Account, now: Account, since: Duration) -> Option<Duration> {
    let waited = now.waited.saturating_sub(before.waited);
    let slices = now.slices.saturating_sub(before.slices);
    let usual = USUAL.saturating_mul(u32::try_from(slices).unwrap_or(u32::MAX));
    (waited.saturating_sub(usual) >= since / 100).then_some(waited)
}

/// `None` where the kernel does not count, or the thread has ended.
fn account(thread: u32) -> Option<Account> {
    parse(&std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?)
}

/// Nanoseconds run, nanoseconds waited, slices.
fn parse(text: &str) -> Option<Account> {
    let mut words = text.split_ascii_whitespace().skip(1).map(|word| word.parse().ok());
    Some(Account { waited: Duration::from_nanos(words.next()??), slices: words.next()?? })
}

/// The time between two checks.
const WINDOW: Duration = Duration::from_secs(1);
/// From wake-up to running on a free core: an idle worker wakes thousands of times a second.
const USUAL: Duration = Duration::from_micros(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_beyond_wake_ups_is_much() {
        let account = |ms, slices| Account { waited: Duration::from_millis(ms), slices };
        let second = Duration::from_secs(1);
        assert_eq!(parse("700 30000000 12\n"), Some(account(30, 12)));
        assert_eq!((parse(""), parse("7 x 1")), (None, None));
        // Preempted for 50 ms; woken 20,000 times, 15 µs each; both.
        let before = account(1000, 10);
        assert_eq!(much(before, account(1050, 12), second), Some(Duration::from_millis(50)));
        assert_eq!(much(before, account(1300, 20_010), second), None);
        assert_eq!(much(before, account(1450, 20_010), second), Some(Duration::from_millis(450)));
        assert_eq!(much(before, account(1009, 11), second), None);
        assert_eq!(much(before, account(0, 0), second), None, "another thread of that number");
    }

    /// Two threads that want one core: each waits for half of the time.
    #[test]
    fn a_thread_that_shares_its_core_is_starved() {
        use rustix::thread::{CpuSet, gettid, sched_getaffinity, sched_setaffinity};
        let allowed = sched_getaffinity(None).unwrap();
        let core = (0..CpuSet::MAX_CPU).find(|core| allowed.is_set(*core)).unwrap();
        let spin = move |until: Instant| {
            let mut one = CpuSet::new();
            one.set(core);
            sched_setaffinity(None, &one).unwrap();
            while Instant::now() < until {
                std::hint::spin_loop();
            }
        };
        let until = Instant::now() + WINDOW * 2;
        let other = std::thread::spawn(move || spin(until));
        let mut watch = Watch::new(gettid().as_raw_nonzero().get() as u32);
        spin(Instant::now() + WINDOW + WINDOW / 5);
        let waited = watch.look();
        other.join().unwrap();
        if account(watch.thread).is_none() {
            return testing::skip("the kernel does not count what threads wait");
        }
        assert!(waited.is_some_and(|(waited, _)| waited > WINDOW / 5), "{waited:?}");
    }
}
