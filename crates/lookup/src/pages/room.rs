//! Whether the machine has memory for a table to grow.
//!
//! ```text
//!   admit(bytes) ──► of what was granted ahead? ─ yes ─► granted
//!                          └ no ─► free − promised − bytes ≥ RESERVE? ─ yes ─► granted, and promised
//!                                        └ no ─► refused, counted
//! ```
//!
//! Memory that was granted is taken page by page, later: for a while the machine still
//! reports it as free. Until then it is a promise, which nobody else is granted.
//!
//! - [`admit`]: the caller writes it now. The promise is forgotten as memory is seen to
//!   go, or in time.
//! - [`ask`]: the same question; nothing is promised.
//! - [`promise`]: an array that may lie untouched for hours. The promise ends piece by
//!   piece as the array is touched, or with the array.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

#[cfg(not(any(miri, test)))]
use super::machine;

/// Too little memory is free for a table to grow.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("too little memory is free: {} MiB, {} wanted and {} kept", .free >> 20, .wanted >> 20, RESERVE >> 20)]
pub struct NoRoom {
    /// Bytes that the machine could give, less those promised to others.
    pub free: u64,
    /// Bytes that were asked for.
    pub wanted: u64,
}

/// Asked before a table takes `bytes` more, each time: the machine is asked only
/// when [`STEP`] bytes were granted since. A machine that does not report how much
/// is free is trusted.
///
/// # Errors
/// When less than [`RESERVE`] would be left; counted in [`refused`].
pub fn admit(bytes: usize) -> Result<(), NoRoom> {
    let answer = account().admit(bytes as u64, available, Instant::now);
    REFUSED.fetch_add(u64::from(answer.is_err()), Ordering::Relaxed);
    answer
}

/// Whether `bytes` would be granted now; for those who will take an unknown part of them, and
/// ask again. Nothing is promised.
///
/// # Errors
/// As [`admit`].
pub fn ask(bytes: usize) -> Result<(), NoRoom> {
    let answer = account().ask(bytes as u64, available, Instant::now);
    REFUSED.fetch_add(u64::from(answer.is_err()), Ordering::Relaxed);
    answer
}

/// How often [`admit`] has refused in this process.
pub fn refused() -> u64 {
    REFUSED.load(Ordering::Relaxed)
}

/// From here on the machine is not asked, and trusted: for a process with a limit of memory
/// of its own, which may open no file (a policy's).
pub fn trust() {
    TRUSTED.store(true, Ordering::Relaxed);
}

/// Bytes that the machine could give without swapping, as Linux estimates it; and that the
/// control groups of this process allow.
#[cfg(not(any(miri, test)))]
pub fn available() -> Option<u64> {
    if TRUSTED.load(Ordering::Relaxed) { None } else { machine::available() }
}

/// What [`tests::PRETENDED`] says.
#[cfg(any(miri, test))]
pub fn available() -> Option<u64> {
    #[cfg(test)]
    return tests::PRETENDED.get();
    #[cfg(not(test))]
    None
}

/// Asks for the `bytes` of an array of which nobody knows when it is written.
///
/// # Errors
/// As [`admit`].
pub(super) fn promise(bytes: usize) -> Result<Promise, NoRoom> {
    let answer = account().promise(bytes as u64, available, Instant::now);
    REFUSED.fetch_add(u64::from(answer.is_err()), Ordering::Relaxed);
    answer
}

/// What was granted to one array. Nobody else is granted what of it is not touched, however
/// long that takes, until this is dropped.
pub(super) struct Promise {
    account: &'static Account,
    left: AtomicU64,
}

impl Promise {
    /// All of it has been touched but the last `left` bytes.
    pub(super) fn keep(&self, left: u64) {
        let mut last = self.account.lock();
        let before = self.left.fetch_min(left, Ordering::Relaxed);
        let taken = before.saturating_sub(left);
        last.untouched -= taken;
        // What the next look finds to be taken by this is no promise of the short kind.
        last.free = last.free.saturating_sub(taken);
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.account.lock().untouched -= *self.left.get_mut();
    }
}

/// What was granted, and not seen to be taken yet.
struct Account {
    /// Granted by the last look for those who ask next. Only who holds `last` adds to it.
    ahead: AtomicU64,
    last: Mutex<Look>,
}

/// The last look at the machine's memory.
struct Look {
    free: u64,
    at: Option<Instant>,
    /// Bytes granted by [`Account::admit`] that the machine may still report as free, those
    /// ahead included.
    promised: u64,
    /// What is left of all [`Promise`]s.
    untouched: u64,
}

impl Account {
    const fn new() -> Account {
        let last = Look { free: 0, at: None, promised: 0, untouched: 0 };
        Account { ahead: AtomicU64::new(0), last: Mutex::new(last) }
    }

    fn admit(
        &self,
        wanted: u64,
        available: impl Fn() -> Option<u64>,
        now: impl Fn() -> Instant,
    ) -> Result<(), NoRoom> {
        if self.spend(wanted) {
            return Ok(());
        }
        let mut last = self.lock();
        if self.spend(wanted) {
            return Ok(()); // another thread has looked meanwhile
        }
        let Some(free) = available() else { return Ok(()) };
        let left = self.look(&mut last, wanted, free, now())?;
        let ahead = left.min(STEP);
        last.promised += wanted + ahead;
        self.ahead.store(ahead, Ordering::Relaxed);
        Ok(())
    }

    fn ask(
        &self,
        wanted: u64,
        available: impl Fn() -> Option<u64>,
        now: impl Fn() -> Instant,
    ) -> Result<(), NoRoom> {
        let mut last = self.lock();
        let Some(free) = available() else { return Ok(()) };
        self.look(&mut last, wanted, free, now()).map(drop)
    }

    fn promise(
        &'static self,
        wanted: u64,
        available: impl Fn() -> Option<u64>,
        now: impl Fn() -> Instant,
    ) -> Result<Promise, NoRoom> {
        let mut last = self.lock();
        if let Some(free) = available() {
            self.look(&mut last, wanted, free, now())?;
        }
        // Of a machine that reports nothing more may be wanted than there are numbers.
        let wanted = wanted.min(u64::MAX - last.untouched);
        last.untouched += wanted;
        Ok(Promise { account: self, left: AtomicU64::new(wanted) })
    }

    /// What is left beyond the reserve where `wanted` are granted. What was granted ahead is
    /// asked for anew.
    fn look(&self, last: &mut Look, wanted: u64, free: u64, at: Instant) -> Result<u64, NoRoom> {
        last.see(free, at);
        last.promised = last.promised.saturating_sub(self.ahead.swap(0, Ordering::Relaxed));
        let free = free.saturating_sub(last.promised).saturating_sub(last.untouched);
        free.checked_sub(wanted.saturating_add(RESERVE)).ok_or(NoRoom { free, wanted })
    }

    /// Takes `wanted` of what was granted ahead.
    fn spend(&self, wanted: u64) -> bool {
        let spent = |ahead: u64| ahead.checked_sub(wanted);
        self.ahead.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spent).is_ok()
    }

    fn lock(&self) -> MutexGuard<'_, Look> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Look {
    /// Another look: what is free no more was taken, by whomever; and a promise of which
    /// nothing is seen is forgotten in time.
    fn see(&mut self, free: u64, at: Instant) {
        let passed = self.at.map_or(0, |before| at.saturating_duration_since(before).as_millis());
        let forgotten = u64::try_from(passed).unwrap_or(u64::MAX).saturating_mul(TAKEN_IN_A_MS);
        let taken = self.free.saturating_sub(free);
        self.promised = self.promised.saturating_sub(taken.max(forgotten));
        (self.free, self.at) = (free, Some(at));
    }
}

/// The process's.
#[cfg(not(test))]
fn account() -> &'static Account {
    static ACCOUNT: Account = Account::new();
    &ACCOUNT
}

/// In tests each thread has its own, beside the memory that it pretends.
#[cfg(test)]
fn account() -> &'static Account {
    tests::ACCOUNT.with(|own| *own)
}

static TRUSTED: AtomicBool = AtomicBool::new(false);
static REFUSED: AtomicU64 = AtomicU64::new(0);

/// Bytes that growth leaves free: what a busy machine needs to stay responsive.
pub const RESERVE: u64 = 64 << 20;

/// Bytes between two looks at the machine's memory, of some system calls each.
pub const STEP: u64 = 16 << 20;

/// What is granted and not taken at 1 GiB/s, slower than memory is cleared, will not be.
const TAKEN_IN_A_MS: u64 = 1 << 20;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::cell::Cell;
    use std::sync::Barrier;
    use std::time::Duration;

    thread_local! {
        /// What the machine of this test's thread has.
        pub(crate) static PRETENDED: Cell<Option<u64>> = const { Cell::new(None) };
        /// What was granted to it.
        pub(super) static ACCOUNT: &'static Account = for_good();
    }

    /// An account that is never dropped. Miri calls it lost unless a static has it.
    fn for_good() -> &'static Account {
        static ALL: Mutex<Vec<&Account>> = Mutex::new(Vec::new());
        let account: &'static Account = Box::leak(Box::new(Account::new()));
        if cfg!(miri) {
            ALL.lock().unwrap_or_else(PoisonError::into_inner).push(account);
        }
        account
    }

    #[test]
    fn growth_leaves_a_reserve_and_is_counted_where_it_is_refused() {
        PRETENDED.set(Some(RESERVE + 2 * STEP));
        let wanted = 3 * STEP as usize;
        let before = refused();
        let refusal = admit(wanted).expect_err("it is more than there is");
        assert_eq!((refusal.wanted, refusal.free), (wanted as u64, RESERVE + 2 * STEP));
        assert!(refused() > before);
        assert!(refusal.to_string().contains("96 MiB, 48 wanted and 64 kept"), "{refusal}");
        PRETENDED.set(Some(RESERVE + 3 * STEP));
        admit(wanted).expect("it is just enough");
        PRETENDED.set(None);
        admit(usize::MAX).expect("nobody knows better");
    }

    #[test]
    fn what_was_granted_is_granted_to_nobody_else_until_it_is_taken() {
        const GIB: u64 = 1 << 30;
        let (account, start) = (Account::new(), Instant::now());
        let ask = |wanted, free, ms| {
            account.admit(wanted, || Some(free), || start + Duration::from_millis(ms))
        };
        let free = RESERVE + 3 * GIB;
        assert_eq!(ask(2 * GIB, free, 0), Ok(()));
        let refusal = ask(2 * GIB, free, 0).expect_err("nothing of it was taken yet");
        assert_eq!(refusal, NoRoom { free: RESERVE + GIB, wanted: 2 * GIB });
        assert_eq!(ask(GIB, free, 0), Ok(()), "the rest");
        assert!(ask(2 * STEP, free, 1).is_err());
        // Taken: the machine says so, and has more by now.
        assert!(ask(1, RESERVE, 2).is_err());
        assert_eq!(ask(2 * GIB, free, 3), Ok(()));
        // Not taken, and forgotten after as many milliseconds as it has MiB.
        assert!(ask(2 * GIB, free, 500).is_err());
        assert_eq!(ask(2 * GIB, free, 4000), Ok(()));
    }

    #[test]
    fn a_question_alone_promises_nothing() {
        let (account, now) = (Account::new(), Instant::now());
        let free = || Some(RESERVE + 4 * STEP);
        for _ in 0..9 {
            assert_eq!(account.ask(4 * STEP, free, || now), Ok(()));
        }
        assert_eq!(account.admit(2 * STEP, free, || now), Ok(()));
        assert_eq!(
            account.ask(2 * STEP, free, || now),
            Ok(()),
            "what was granted ahead is asked for anew"
        );
        assert!(account.ask(2 * STEP + 1, free, || now).is_err());
    }

    #[test]
    fn what_was_granted_ahead_is_a_part_of_the_promise() {
        let (account, now) = (Account::new(), Instant::now());
        let ask = |wanted, free| account.admit(wanted, || Some(free), || now);
        let free = RESERVE + 2 * STEP;
        assert_eq!(ask(1, free), Ok(()));
        assert_eq!(ask(STEP, free), Ok(()), "granted ahead");
        assert_eq!(ask(STEP - 1, free), Ok(()));
        assert!(ask(1, free).is_err());
    }

    #[test]
    fn threads_that_ask_at_once_get_no_more_than_there_is() {
        const THREADS: usize = 4;
        for round in 0..if cfg!(miri) { 3 } else { 200 } {
            let (account, barrier) = (Account::new(), Barrier::new(THREADS));
            let (now, free) = (Instant::now(), RESERVE + 10 * STEP);
            let wanted = if round % 2 == 0 { 6 * STEP } else { 3 * STEP };
            let ask = || {
                barrier.wait();
                // A look takes a while; others ask meanwhile.
                let look = || {
                    std::thread::yield_now();
                    Some(free)
                };
                account.admit(wanted, look, || now).is_ok()
            };
            let granted: usize = std::thread::scope(|scope| {
                let asked: Vec<_> = (0..THREADS).map(|_| scope.spawn(ask)).collect();
                asked.into_iter().map(|one| usize::from(one.join().unwrap())).sum()
            });
            assert_eq!(granted as u64, 10 * STEP / wanted);
        }
    }

    #[test]
    fn four_arrays_of_17_gb_do_not_fit_into_23_however_late_they_are_touched() {
        const GB: u64 = 1_000_000_000;
        let account = for_good();
        let start = Instant::now();
        let ask = |free, hours: u64| {
            account.promise(17 * GB, || Some(free), || start + Duration::from_secs(3600 * hours))
        };
        let first = ask(23 * GB, 0).expect("one fits");
        for hours in 0..3 {
            let refusal = ask(23 * GB, hours).err().expect("nothing of the first was touched");
            assert_eq!(refusal, NoRoom { free: 6 * GB, wanted: 17 * GB });
        }
        let now = || start + Duration::from_secs(4 * 3600);
        assert!(account.admit(7 * GB, || Some(23 * GB), now).is_err(), "nor has another room");
        // Touched: the machine says the same.
        first.keep(10 * GB);
        assert_eq!(ask(16 * GB, 4).err().expect("no room").free, 6 * GB);
        first.keep(0);
        first.keep(10 * GB);
        assert_eq!(ask(6 * GB, 4).err().expect("no room").free, 6 * GB);
        drop(first);
        let second = ask(23 * GB, 4).expect("it is gone");
        drop(second);
        assert_eq!(account.lock().untouched, 0);
    }

    #[test]
    fn what_an_array_takes_is_not_what_others_were_promised() {
        const GIB: u64 = 1 << 30;
        let account = for_good();
        let now = Instant::now();
        let free = RESERVE + 4 * GIB;
        let array = account.promise(2 * GIB, || Some(free), || now).expect("it fits");
        assert_eq!(account.admit(2 * GIB, || Some(free), || now), Ok(()));
        array.keep(0);
        let refusal = account.admit(1, || Some(free - 2 * GIB), || now);
        assert_eq!(refusal, Err(NoRoom { free: RESERVE, wanted: 1 }));
    }
}
