//! The thread of a process that receives the supervisor's messages, and stops a policy that takes too long.
//!
//! A batch is a number that the policy's thread sets while it decides. The watch reads it now and
//! then: if the number stays the same for too long, it calls the policy's stopper. It does so only
//! while that batch lasts: before the policy's thread continues, it waits for a watch that is about
//! to stop it, and reverts a stop that came too late.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{Stop, signals};
use crate::cell::control;

/// Shared by the two threads.
#[derive(Default)]
pub(super) struct Watch {
    /// Odd while something runs.
    runs: AtomicU32,
    /// The watch is about to stop it.
    acts: AtomicBool,
    stop: Mutex<Stopping>,
    /// Chunks are waiting.
    pub called: AtomicBool,
    chunks: Mutex<VecDeque<(u32, String)>>,
}

#[derive(Default)]
struct Stopping {
    stopper: Option<Stop>,
    /// The running call was stopped.
    stopped: bool,
    most: Duration,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("runs", &self.runs).finish_non_exhaustive()
    }
}

impl Watch {
    /// From now on, `stopper` stops calls that run longer than `most`.
    pub fn arm(&self, stopper: Option<Stop>, most: Duration) {
        let mut stop = self.lock();
        (stop.stopper, stop.most) = (stopper, most);
    }

    /// Sets the longest time of the next call; returns the former one.
    pub fn allow(&self, most: Duration) -> Duration {
        std::mem::replace(&mut self.lock().most, most)
    }

    /// The longest time of a call.
    pub fn most(&self) -> Duration {
        self.lock().most
    }

    /// A call begins.
    #[inline]
    pub fn begin(&self) {
        self.runs.store(self.runs.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// A call is over. True if it was stopped.
    #[inline]
    pub fn end(&self) -> bool {
        self.runs.store(self.runs.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        // Either the watch sees that the call is over, or the watch's action is seen here.
        fence(Ordering::SeqCst);
        if !self.acts.load(Ordering::Relaxed) {
            return false;
        }
        self.ended()
    }

    #[cold]
    fn ended(&self) -> bool {
        let mut stop = self.lock();
        self.acts.store(false, Ordering::Relaxed);
        signals::forget();
        std::mem::take(&mut stop.stopped)
    }

    /// The next chunk to run.
    pub fn chunk(&self) -> Option<(u32, String)> {
        self.called.store(false, Ordering::Relaxed);
        let mut chunks = self.chunks.lock().unwrap_or_else(PoisonError::into_inner);
        let chunk = chunks.pop_front();
        self.called.store(!chunks.is_empty(), Ordering::Relaxed);
        chunk
    }

    fn lock(&self) -> MutexGuard<'_, Stopping> {
        self.stop.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops the running call, if it is still `run`.
    fn stop(&self, run: u32) {
        let mut stop = self.lock();
        self.acts.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if self.runs.load(Ordering::Relaxed) == run && !stop.stopped {
            stop.stopped = true;
            stop.stopper.iter().for_each(|stopper| stopper());
        }
    }

    /// `run` goes on although it was stopped: it is inside a C function, and notes where.
    fn ask(&self, run: u32) {
        // The end of a call that was stopped waits for the lock.
        let stop = self.lock();
        if stop.stopped && self.runs.load(Ordering::Relaxed) == run {
            signals::ask();
        }
    }

    fn hear(&self, message: &[u8], kind: u8) {
        let Some((number, chunk)) = message.split_first_chunk().filter(|_| kind == control::EXEC)
        else {
            return;
        };
        let chunk = String::from_utf8_lossy(chunk).into_owned();
        let mut chunks = self.chunks.lock().unwrap_or_else(PoisonError::into_inner);
        chunks.push_back((u32::from_ne_bytes(*number), chunk));
        self.called.store(true, Ordering::Relaxed);
    }
}

/// The thread: it ends with the process, and the process with its supervisor.
pub(super) fn start(
    watch: Arc<Watch>,
    control: Arc<OwnedFd>,
    bell: Arc<OwnedFd>,
) -> std::io::Result<()> {
    let (begun, begins) = std::sync::mpsc::channel();
    let run = move || {
        let _ = begun.send(());
        let mut buffer = vec![0; control::MOST];
        // The running call, since when it runs, and when a call ran last.
        let (mut run, mut since) = (0, Instant::now());
        let mut asked = 0;
        loop {
            let most = watch.most();
            let busy = since.elapsed() < 4 * most || run % 2 == 1;
            let pause = if busy { IDLE.min(most / 4) } else { IDLE };
            match control::wait(&[control.as_fd()], Some(pause)) {
                Ok(ready) if ready[0] => match control::hear(&control, &mut buffer) {
                    Ok(Some((kind, message))) => {
                        watch.hear(message, kind);
                        let _ = rustix::io::write(&*bell, &1_u64.to_ne_bytes());
                    }
                    _ => super::exit(0), // its supervisor is gone
                },
                Ok(_) => {}
                Err(_) => super::exit(1),
            }
            let runs = watch.runs.load(Ordering::Relaxed);
            if runs != run {
                (run, since) = (runs, Instant::now());
            } else if runs % 2 == 1 && since.elapsed() >= most {
                watch.stop(run);
                if asked != run && since.elapsed() >= most + LATE.min(most / 4) {
                    asked = run;
                    watch.ask(run);
                }
            }
        }
    };
    std::thread::Builder::new().stack_size(256 << 10).spawn(run)?;
    // A new thread's first system calls are not allowed later.
    begins.recv().map_err(std::io::Error::other)
}

/// The time between two checks while no call runs.
const IDLE: Duration = Duration::from_millis(20);
/// The longest time after a stop in which a call ends that is not inside a C function. With the time
/// between two checks it is less than the supervisor waits before it ends the process.
const LATE: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn only_what_runs_is_stopped_and_once() {
        let watch = Watch::default();
        let calls = Arc::new(AtomicU32::new(0));
        let count = calls.clone();
        let stopper: Stop = Box::new(move || _ = count.fetch_add(1, Ordering::Relaxed));
        watch.arm(Some(stopper), Duration::from_millis(10));
        watch.begin();
        watch.stop(1);
        watch.stop(1);
        assert!(watch.end());
        watch.begin();
        watch.stop(1); // too late: that call is over
        assert!(!watch.end() && calls.load(Ordering::Relaxed) == 1);
        watch.begin();
        assert!(!watch.end());
    }

    /// Runs and stops as they come: a stop is seen by the run that it was for.
    #[test]
    fn no_run_ends_with_the_stop_of_another() {
        let watch = Arc::new(Watch::default());
        let flag = Arc::new(AtomicBool::new(false));
        let stopped = flag.clone();
        let stopper: Stop = Box::new(move || stopped.store(true, Ordering::Relaxed));
        watch.arm(Some(stopper), Duration::ZERO);
        let rounds = if cfg!(miri) { 100 } else { 100_000 };
        let over = &AtomicBool::new(false);
        std::thread::scope(|s| {
            let other = watch.clone();
            s.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let run = other.runs.load(Ordering::Relaxed);
                    if run % 2 == 1 {
                        other.stop(run);
                    }
                }
            });
            for _ in 0..rounds {
                watch.begin();
                let seen = watch.end();
                assert_eq!(flag.swap(false, Ordering::Relaxed), seen);
            }
            over.store(true, Ordering::Relaxed);
        });
    }
}
