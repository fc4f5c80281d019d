//! The budget of the request channel, shared by all workers.
//!
//! ```text
//!  made(now) = bytes a second × whole picoseconds since the start / 10^12      a function, kept nowhere
//!  taken     = bytes taken since the start                                     one atomic
//!
//!  left = capacity + made - max(taken, made)            what a full bucket lost counts as taken
//! ```
//!
//! What was made follows from the time alone, so no fraction is ever rounded away or
//! counted twice, by however many workers and however they take turns. A worker whose
//! time is a little behind sees a little less, and takes nothing from the others.
//!
//! | cost | the time's bytes, once a poll: a multiplication and a division of 128 bits; a packet: one exchange |
//! |------|-----------------------------------------------------------------------------------------------------|

use crate::sync::{AtomicU64, Ordering};

use super::super::times::Times;

/// A token bucket: a token is a byte, its capacity those of a second. It starts full.
#[derive(Debug)]
pub struct Bucket {
    start: u64,
    bytes_per_s: u64,
    taken: AtomicU64,
}

impl Bucket {
    /// So many bytes a second (one at least) from now on.
    pub fn new(bytes_per_s: u64, now: u64) -> Self {
        let bytes_per_s = bytes_per_s.clamp(1, MOST);
        Bucket { start: now, bytes_per_s, taken: AtomicU64::new(0) }
    }

    /// Bytes a second, which are the capacity too.
    pub fn bytes_per_s(&self) -> u64 {
        self.bytes_per_s
    }

    /// Bytes that were made until `now`.
    pub fn made(&self, times: &Times, now: u64) -> u64 {
        // Cannot overflow: 2^64 ticks of 2^24 ps, and 2^37 bytes a second.
        let ps = times.rate().ps(now.saturating_sub(self.start));
        (ps * u128::from(self.bytes_per_s) / PS_IN_S).min(LAST.into()) as u64
    }

    /// Takes `cost` tokens of those [`made`](Bucket::made), or none. What costs more than
    /// a full bucket has is let through by one, and leaves a debt: else it would bar all
    /// that is behind it for ever.
    #[inline]
    pub fn take(&self, made: u64, cost: u64) -> bool {
        // Relaxed: nothing is published with it, and a single atomic has one order.
        let mut taken = self.taken.load(Ordering::Relaxed);
        loop {
            let from = taken.max(made);
            let to = from.saturating_add(cost);
            if to > made.saturating_add(self.bytes_per_s) && from > made {
                return false;
            }
            let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
            match self.taken.compare_exchange_weak(taken, to, success, failure) {
                Ok(_) => return true,
                Err(other) => taken = other,
            }
        }
    }

    /// Gives tokens back that were taken for what then was not sent.
    pub fn give_back(&self, cost: u64) {
        let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        // Another worker may have rewound the bucket in between.
        let _ = self.taken.fetch_update(success, failure, |taken| Some(taken.saturating_sub(cost)));
    }

    /// True when more was taken than could be by now, by seconds: the clock ran back, or
    /// this worker lost its core between a look at the clock and this.
    #[inline]
    pub fn is_ahead(&self, made: u64) -> bool {
        self.taken.load(Ordering::Relaxed) > self.most_taken(made)
    }

    /// Empties a bucket that is ahead: without that, who waits for the clock to come back
    /// to where it was would wait as long as it jumped.
    pub fn rewind(&self, made: u64) {
        let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        let empty = made.saturating_add(self.bytes_per_s);
        // Another worker may have been first.
        let _ = self.taken.fetch_update(success, failure, |taken| {
            (taken > self.most_taken(made)).then_some(empty)
        });
    }

    /// An empty bucket, the longest debt, and a second that another worker is before.
    fn most_taken(&self, made: u64) -> u64 {
        made.saturating_add(2 * self.bytes_per_s + LONGEST)
    }
}

/// A terabit a second.
const MOST: u64 = 1 << 37;
/// No frame costs as much.
const LONGEST: u64 = 1 << 17;
/// Where counting ends, far enough from the end of the numbers: after two years at the highest
/// rate, and later at any other.
const LAST: u64 = 1 << 63;
const PS_IN_S: u128 = 1_000_000_000_000;

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use graph::clock::Rate;
    use proptest::prelude::*;

    use super::*;

    fn times(ticks: u64, ns: u64) -> Times {
        Times::new(Rate::measured(ticks, Duration::from_nanos(ns)).unwrap())
    }

    #[test]
    fn it_starts_full_holds_a_second_and_fills_by_whole_bytes() {
        let times = times(2_445_000_000, 1_000_000_000);
        let second = times.second();
        let bucket = Bucket::new(6_250_000, 100); // 5 % of 1 Gbit/s
        assert!(bucket.take(0, 6_250_000) && !bucket.take(0, 1));
        // The n-th byte comes with the first tick that is late enough.
        for n in 1..2_000_u64 {
            let at = times.rate().ticks_until(u128::from(n) * 160_000);
            assert_eq!(bucket.made(&times, 100 + at), n);
            assert_eq!(bucket.made(&times, 100 + at - 1), n - 1);
            assert!(bucket.take(n, 1) && !bucket.take(n, 1));
        }
        assert_eq!(bucket.made(&times, 0), 0, "before the start");
        let late = bucket.made(&times, 100 + 1_000 * second);
        let bucket = Bucket::new(6_250_000, 100);
        assert!(bucket.take(late, 6_250_000) && !bucket.take(late, 1), "a second, not more");
    }

    /// A fraction lost a poll would be all of it: 1,000 polls for each byte.
    #[test]
    fn fractions_add_up_over_any_number_of_polls() {
        let times = times(2_445_000_000, 1_000_000_000);
        let bucket = Bucket::new(1_001, 0);
        let mut sent = 0;
        let (polls, second) = (1_000_003_u64, times.second());
        for poll in 0..=polls {
            let now = (u128::from(poll) * u128::from(10 * second) / u128::from(polls)) as u64;
            let made = bucket.made(&times, now);
            while bucket.take(made, 1) {
                sent += 1;
            }
        }
        let end = bucket.made(&times, 10 * second);
        assert_eq!(sent, 1_001 + end);
        assert!((10_009..=10_010).contains(&end), "{end}");
    }

    #[test]
    fn tokens_given_back_are_there_again_and_overflow_a_full_bucket() {
        let bucket = Bucket::new(100, 0);
        assert!(bucket.take(0, 100) && !bucket.take(0, 60));
        bucket.give_back(60);
        assert!(bucket.take(0, 60) && !bucket.take(0, 1));
        bucket.give_back(60);
        assert!(bucket.take(1_000, 100) && !bucket.take(1_000, 1));
    }

    #[test]
    fn what_is_longer_than_a_second_waits_for_a_full_bucket_and_leaves_a_debt() {
        let bucket = Bucket::new(100, 0);
        assert!(bucket.take(0, 1));
        assert!(!bucket.take(0, 350));
        assert!(bucket.take(1, 350), "full again");
        assert!(!bucket.is_ahead(1), "a debt is no jump");
        assert!(!bucket.take(251, 1), "1 + 350 - 100");
        assert!(bucket.take(252, 1) && !bucket.take(252, 1));
    }

    #[test]
    fn after_a_jump_of_the_clock_and_back_it_is_empty_not_shut() {
        let bucket = Bucket::new(1_000_000, 0);
        let (jump, back) = (1 << 50, 5_000_000);
        assert!(bucket.take(jump, 60), "forward: as after a long idleness");
        assert!(!bucket.take(back, 60) && bucket.is_ahead(back));
        bucket.rewind(back);
        bucket.rewind(back);
        assert!(!bucket.take(back, 60) && bucket.take(back + 60, 60));
        assert!(!bucket.is_ahead(back));
        bucket.rewind(back);
        assert!(!bucket.take(back + 60, 1), "and nothing happens to one that is not ahead");
        assert!(!bucket.is_ahead(back - 1_000_000), "a second behind is no jump");
    }

    #[test]
    fn no_time_overflows() {
        let times = times(1, 16_000);
        let bucket = Bucket::new(u64::MAX, 0);
        assert_eq!(bucket.made(&times, u64::MAX), LAST);
        assert!(bucket.take(LAST, 60) && bucket.take(u64::MAX, 60));
        bucket.rewind(u64::MAX);
        assert_eq!(Bucket::new(0, 0).bytes_per_s(), 1);
    }

    /// No token is lost or made by threads that fight for them.
    #[test]
    fn four_threads() {
        let (rounds, cost) = if cfg!(miri) { (200, 7) } else { (100_000, 7) };
        let bucket = Bucket::new(1_000, 0);
        let sent: u64 = std::thread::scope(|scope| {
            let worker = |own: u64| {
                let bucket = &bucket;
                scope.spawn(move || {
                    let mut sent = 0;
                    for made in 0..=rounds {
                        let made = if made == rounds { made } else { made.max(own) - own };
                        while bucket.take(made, cost) {
                            sent += cost;
                        }
                        if made % 3 == own % 3 && bucket.take(made, cost) {
                            bucket.give_back(cost);
                        }
                    }
                    sent
                })
            };
            let workers: Vec<_> = (0..4).map(worker).collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).sum()
        });
        // What was given back at the end came too late for the others.
        let mut rest = 0;
        while bucket.take(rounds, cost) {
            rest += cost;
        }
        assert!(sent + rest <= 1_000 + rounds, "{sent} and {rest}");
        assert!(sent + rest + cost > 1_000 + rounds, "{sent} and {rest}");
    }

    proptest! {
        /// Against a bucket of one thread that is filled byte by byte.
        #[test]
        fn a_bucket_is_its_model(steps in proptest::collection::vec((0_u64..400, 0_u64..150), 1..200)) {
            let bucket = Bucket::new(100, 0);
            let (mut left, mut made) = (100_i64, 0);
            for (pass, cost) in steps {
                made += pass;
                left = 100.min(left + pass as i64);
                let fits = cost as i64 <= left || left == 100;
                prop_assert_eq!(bucket.take(made, cost), fits);
                left -= if fits { cost as i64 } else { 0 };
            }
        }
    }
}

/// Run by `scripts/deep.sh loom`. Explored: two workers that take and give back, see
/// times that differ, and rewind. Not explored: more workers, more than two steps of each.
#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    fn both(
        bucket: Bucket,
        one: impl FnOnce(&Bucket) -> u64 + Send + 'static,
        other: impl FnOnce(&Bucket) -> u64,
    ) -> (u64, Arc<Bucket>) {
        let bucket = Arc::new(bucket);
        let shared = bucket.clone();
        let worker = thread::spawn(move || one(&shared));
        let sent = other(&bucket);
        (sent + worker.join().unwrap(), bucket)
    }

    fn sent(bucket: &Bucket, made: u64, cost: u64) -> u64 {
        if bucket.take(made, cost) { cost } else { 0 }
    }

    #[test]
    fn two_workers_share_what_there_is() {
        loom::model(|| {
            let twice = |bucket: &Bucket| sent(bucket, 0, 1) + sent(bucket, 0, 1);
            let (sent, bucket) = both(Bucket::new(3, 0), twice, twice);
            assert_eq!(sent, 3);
            assert!(!bucket.take(0, 1));
        });
    }

    #[test]
    fn a_worker_that_is_behind_loses_nothing_and_makes_nothing() {
        loom::model(|| {
            let behind = |bucket: &Bucket| sent(bucket, 0, 2) + sent(bucket, 1, 2);
            let before = |bucket: &Bucket| sent(bucket, 2, 2) + sent(bucket, 2, 2);
            let (taken, bucket) = both(Bucket::new(4, 0), behind, before);
            // Of 4 and 2 that were made, what a full bucket could not hold is gone.
            let rest = sent(&bucket, 2, 1) + sent(&bucket, 2, 1) + sent(&bucket, 2, 1);
            assert!((4..=6).contains(&(taken + rest)), "{taken} and {rest}");
        });
    }

    #[test]
    fn what_is_given_back_is_there() {
        loom::model(|| {
            let back = |bucket: &Bucket| {
                if bucket.take(0, 2) {
                    bucket.give_back(2);
                }
                0
            };
            let (sent, bucket) = both(Bucket::new(2, 0), back, |bucket| sent(bucket, 0, 1));
            assert_eq!(sent + u64::from(bucket.take(0, 1)) + u64::from(bucket.take(0, 1)), 2);
            assert!(!bucket.take(0, 1));
        });
    }

    #[test]
    fn two_that_rewind_empty_it_once() {
        loom::model(|| {
            let bucket = Bucket::new(10, 0);
            assert!(bucket.take(1 << 40, 1));
            let rewind = |bucket: &Bucket| {
                bucket.rewind(0);
                sent(bucket, 3, 2)
            };
            let (taken, bucket) = both(bucket, rewind, rewind);
            assert_eq!(taken, 2, "3 were made since");
            assert_eq!(sent(&bucket, 3, 1), 1);
            assert!(!bucket.take(3, 1));
        });
    }
}
