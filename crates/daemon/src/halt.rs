//! Ends a thread that sleeps until it has work.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

/// Called once, when a thread should end; cheap to clone.
#[derive(Clone, Debug)]
pub struct Halt(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    called: AtomicBool,
    /// An `eventfd`: readable from the call on.
    file: OwnedFd,
}

impl Halt {
    /// Not called yet.
    ///
    /// # Errors
    /// When the process has no free descriptor.
    pub fn new() -> io::Result<Halt> {
        let file = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Halt(Arc::new(Inner { called: AtomicBool::new(false), file })))
    }

    /// Ends the thread.
    pub fn call(&self) {
        self.0.called.store(true, SeqCst);
        // The write fails only if the counter is full, which never happens.
        let _ = rustix::io::write(&self.0.file, &1_u64.to_ne_bytes());
    }

    /// Whether the thread should end.
    pub fn is_called(&self) -> bool {
        self.0.called.load(SeqCst)
    }

    /// Waits until `file` is readable or this is called, at most `most` if there is a limit.
    /// Returns the state of `file`.
    ///
    /// # Errors
    /// The system's.
    pub fn wait_beside(
        &self,
        file: BorrowedFd<'_>,
        most: Option<Duration>,
    ) -> io::Result<PollFlags> {
        let of = |file| PollFd::from_borrowed_fd(file, PollFlags::IN);
        let mut wanted = [of(file), of(self.0.file.as_fd())];
        let most = most.map(Timespec::try_from).transpose().map_err(io::Error::other)?;
        match poll(&mut wanted, most.as_ref()) {
            Ok(_) => Ok(wanted[0].revents()),
            Err(rustix::io::Errno::INTR) => Ok(PollFlags::empty()),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits; false if it was called meanwhile.
    pub fn pass(&self, time: Duration) -> bool {
        let end = std::time::Instant::now() + time;
        loop {
            let left = end.saturating_duration_since(std::time::Instant::now());
            if self.is_called() || left.is_zero() {
                return !self.is_called();
            }
            // Its own descriptor twice: there is no other. If even that fails, the sleep prevents a
            // busy loop.
            if self.wait_beside(self.0.file.as_fd(), Some(left)).is_err() {
                std::thread::sleep(left.min(STEP));
            }
        }
    }
}

/// Time between two checks where the system cannot wake the thread.
const STEP: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn it_ends_what_waits_now_and_later() {
        let (halt, other) = (Halt::new().unwrap(), Halt::new().unwrap());
        let file = || other.0.file.as_fd();
        let short = Duration::from_millis(2);
        assert_eq!(halt.wait_beside(file(), Some(short)).unwrap(), PollFlags::empty());
        assert!(halt.pass(short) && !halt.is_called());
        let begun = Instant::now();
        std::thread::scope(|s| {
            let waits = s.spawn(|| halt.wait_beside(file(), None).unwrap());
            let passes = s.spawn(|| halt.pass(Duration::from_secs(600)));
            std::thread::sleep(short);
            halt.clone().call();
            assert_eq!(
                (waits.join().unwrap(), passes.join().unwrap()),
                (PollFlags::empty(), false)
            );
        });
        assert!(halt.is_called() && !halt.pass(Duration::from_secs(600)));
        other.call();
        assert_eq!(halt.wait_beside(file(), None).unwrap(), PollFlags::IN);
        assert!(begun.elapsed() < Duration::from_secs(60));
    }
}
