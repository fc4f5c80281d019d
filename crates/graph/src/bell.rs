//! A bell wakes a thread that sleeps until it has something to do.
//!
//! ```text
//!  giver                          sleeper
//!    puts something into a ring     lies down
//!    ── fence ──                    ── fence ──
//!    rings, if it lies down         looks into the rings once more; nothing: sleeps
//! ```
//!
//! One of the two fences comes first: either the giver sees that the sleeper lies down,
//! or the sleeper sees the new item. So a sleeper that is awake costs the giver a fence and
//! a read, and no system call.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use crate::sync::{Arc, AtomicBool, Ordering, fence};

/// A bell: clones ring the same sleeper.
#[derive(Clone, Debug)]
pub struct Bell(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    bed: Bed,
    /// An `eventfd`: readable once it was rung.
    file: OwnedFd,
}

impl Bell {
    /// A bell of nobody yet.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn new() -> io::Result<Bell> {
        let flags = libc::EFD_CLOEXEC | libc::EFD_NONBLOCK;
        // SAFETY: takes numbers only.
        let fd = unsafe { libc::eventfd(0, flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just opened, and nobody else's.
        let file = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Bell(Arc::new(Inner { bed: Bed::default(), file })))
    }

    /// Wakes the sleeper, if it sleeps or is about to: what was given before is seen.
    #[inline]
    pub fn ring(&self) {
        if self.0.bed.must_ring() {
            self.write();
        }
    }

    /// Whether its owner sleeps, or is about to.
    pub fn is_asleep(&self) -> bool {
        self.0.bed.lies.load(Ordering::Relaxed)
    }

    /// The owner is about to sleep. What was given before is to be looked for after this.
    pub fn lie_down(&self) {
        self.0.bed.lie_down();
    }

    /// The owner is awake.
    pub fn get_up(&self) {
        self.0.bed.get_up();
    }

    /// It is heard: for who sleeps on [`Bell::file`] and found it readable. One who rang
    /// too late for a sleep has ended the next, and no more.
    pub fn answer(&self) {
        let mut count = 0_u64;
        // SAFETY: writes 8 bytes at most.
        unsafe { libc::read(self.0.file.as_raw_fd(), (&raw mut count).cast(), 8) };
    }

    /// Wakes the owner from [`Bell::wait`], whether it lies down or not: what it sleeps in is
    /// over, or the next such sleep.
    pub fn wake(&self) {
        self.write();
    }

    /// Sleeps until it is rung or woken, `most` at the longest.
    pub fn wait(&self, most: Duration) {
        self.sleep(&mut Vec::new(), most);
    }

    /// Becomes readable when it is rung.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.0.file.as_fd()
    }

    /// Sleeps, lying down, until it is rung, one of `files` is readable or has an error,
    /// or `most` is over. False: some have errors, and nothing is readable.
    #[cfg(not(miri))]
    pub(crate) fn sleep(&self, files: &mut Vec<libc::pollfd>, most: Duration) -> bool {
        files.push(wanted(self.file()));
        let (nanos, n) = (most.subsec_nanos().into(), files.len() as libc::nfds_t);
        let most = libc::timespec { tv_sec: most.as_secs() as libc::time_t, tv_nsec: nanos };
        let (first, mask) = (files.as_mut_ptr(), std::ptr::null());
        // SAFETY: `n` structures, a time, no signals. Interrupted, it is over early.
        let ready = unsafe { libc::ppoll(first, n, &raw const most, mask) };
        let is_readable = |file: &libc::pollfd| file.revents & libc::POLLIN != 0;
        if files.last().is_some_and(is_readable) {
            self.answer();
        }
        ready <= 0 || files.iter().any(is_readable)
    }

    /// Miri has no `ppoll`.
    #[cfg(miri)]
    pub(crate) fn sleep(&self, _: &mut Vec<libc::pollfd>, most: Duration) -> bool {
        let end = std::time::Instant::now() + most;
        while self.is_asleep() && std::time::Instant::now() < end {
            std::thread::yield_now();
        }
        true
    }

    #[cold]
    fn write(&self) {
        let one = 1_u64;
        // SAFETY: reads the 8 bytes. It cannot fail but by a count that nobody reaches.
        unsafe { libc::write(self.0.file.as_raw_fd(), (&raw const one).cast(), 8) };
    }
}

/// A descriptor to be slept on.
pub(crate) fn wanted(file: BorrowedFd<'_>) -> libc::pollfd {
    libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLIN, revents: 0 }
}

/// Who lies down and who sees it.
#[derive(Debug, Default)]
struct Bed {
    lies: AtomicBool,
}

impl Bed {
    fn lie_down(&self) {
        self.lies.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    fn get_up(&self) {
        self.lies.store(false, Ordering::Relaxed);
    }

    /// True for the first who comes after it lay down.
    #[inline]
    fn must_ring(&self) -> bool {
        fence(Ordering::SeqCst);
        self.lies.load(Ordering::Relaxed) && self.lies.swap(false, Ordering::Relaxed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::time::Instant;

    const LONG: Duration = Duration::from_secs(5);

    fn sleeps(bell: &Bell, most: Duration) -> Duration {
        let start = Instant::now();
        bell.sleep(&mut Vec::new(), most);
        start.elapsed()
    }

    #[test]
    fn it_ends_a_sleep_or_the_one_that_begins() {
        let bell = Bell::new().unwrap();
        bell.ring(); // nobody lies down: nothing is left of it
        bell.lie_down();
        let short = Duration::from_millis(2);
        assert!(sleeps(&bell, short) >= short);
        bell.get_up();
        bell.lie_down();
        assert!(bell.is_asleep());
        bell.ring();
        assert!(!bell.is_asleep());
        assert!(sleeps(&bell, LONG) < LONG);
        bell.get_up();
        for _ in 0..3 {
            bell.lie_down();
            std::thread::scope(|s| {
                s.spawn(|| {
                    std::thread::sleep(Duration::from_millis(5));
                    bell.ring();
                    bell.ring();
                });
                assert!(sleeps(&bell, LONG) < LONG);
            });
            bell.get_up();
        }
        bell.lie_down();
        assert!(sleeps(&bell, short) >= short, "what was rung twice is heard once");
    }

    #[cfg(not(miri))]
    #[test]
    fn a_file_ends_a_sleep_and_one_with_an_error_says_so() {
        let (bell, other) = (Bell::new().unwrap(), Bell::new().unwrap());
        bell.lie_down();
        other.lie_down();
        other.ring();
        let start = Instant::now();
        assert!(bell.sleep(&mut vec![wanted(other.file())], LONG));
        // No file has this number: an error at once.
        let nothing = libc::pollfd { fd: i32::MAX, events: libc::POLLIN, revents: 0 };
        assert!(!bell.sleep(&mut vec![nothing], LONG));
        assert!(start.elapsed() < LONG);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::sync::AtomicUsize;

    /// What is given is seen, or the sleeper is woken. Two givers; not explored: the
    /// file, which is the kernel's.
    #[test]
    fn loom_nothing_given_is_slept_over() {
        loom::model(|| {
            let shared = Arc::new((Bed::default(), AtomicUsize::new(0), AtomicUsize::new(0)));
            let givers: Vec<_> = (0..2)
                .map(|_| {
                    let shared = shared.clone();
                    loom::thread::spawn(move || {
                        let (bed, given, rung) = &*shared;
                        given.fetch_add(1, Ordering::Relaxed);
                        if bed.must_ring() {
                            rung.fetch_add(1, Ordering::Relaxed);
                        }
                    })
                })
                .collect();
            let (bed, given, rung) = &*shared;
            bed.lie_down();
            let seen = given.load(Ordering::Relaxed);
            givers.into_iter().for_each(|giver| giver.join().unwrap());
            let rung = rung.load(Ordering::Relaxed);
            assert!(seen == 2 || rung == 1, "{seen} seen, rung {rung} times");
            assert!(rung <= 1);
        });
    }
}
