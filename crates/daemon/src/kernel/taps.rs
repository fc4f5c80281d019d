//! The kernel thread: owns every tap, and carries frames between the taps and
//! the workers' rings.
//!
//! ```text
//!  worker 0 ── punt ring ──►┐                ┌► tap p0
//!  worker 1 ── punt ring ──►┤ kernel thread  ├► tap p0.100
//!  worker 0 ◄── ring ───────┤                ├◄ tap p1
//!  worker 1 ◄── ring ───────┘                └◄ …
//! ```
//!
//! A full ring drops and counts, it never blocks. The thread sleeps in `poll` on the taps
//! and on its bell, which a worker rings that has punted something. Under traffic it looks
//! into the rings ten times a millisecond instead, so that no worker has to ring.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ::io::tap::Tap;
use graph::Bell;
use graph::ring::frames::{Consumer, Meta, Producer};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::threads::{Pulse, Threads};

/// One tap, and the destination of its frames.
pub struct TapEnd {
    /// The interface's number in the data plane.
    pub iface: u16,
    /// The tap, which does not block.
    pub tap: Tap,
    /// Index of the worker that has the interface's port.
    pub worker: usize,
}

impl TapEnd {
    fn fd(&self) -> BorrowedFd<'_> {
        self.tap.as_fd()
    }
}

/// The two rings of one worker.
pub struct Rings {
    /// Punted frames.
    pub from_worker: Consumer,
    /// Frames of the kernel.
    pub to_worker: Producer,
    /// The worker's.
    pub bell: Bell,
}

/// The packets through one tap.
#[derive(Debug, Default)]
pub struct TapCounters {
    /// Written to the kernel.
    pub punted: AtomicU64,
    /// Read from the kernel, and handed to the worker.
    pub from_kernel: AtomicU64,
    /// Not taken by the kernel: the tap is down, or its queue full.
    pub refused: AtomicU64,
    /// From the kernel, and lost because the worker's ring was full.
    pub ring_full: AtomicU64,
}

/// The running thread.
pub struct Taps {
    stop: Arc<AtomicBool>,
    bell: Bell,
    counters: Arc<Vec<TapCounters>>,
    thread: Option<JoinHandle<Vec<Tap>>>,
}

impl Taps {
    /// Starts the thread, which `bell` wakes. Counters are by [`TapEnd::iface`].
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub fn start(
        taps: Vec<TapEnd>,
        rings: Vec<Rings>,
        bell: Bell,
        threads: &Threads,
    ) -> io::Result<Taps> {
        let stop = Arc::new(AtomicBool::new(false));
        let most = taps.iter().map(|end| usize::from(end.iface)).max().unwrap_or(0);
        let counters: Vec<TapCounters> = (0..=most).map(|_| TapCounters::default()).collect();
        let counters = Arc::new(counters);
        let mut by_iface = vec![None; most + 1];
        taps.iter().enumerate().for_each(|(i, end)| by_iface[usize::from(end.iface)] = Some(i));
        let carrier = Carrier {
            taps,
            rings,
            by_iface,
            counters: counters.clone(),
            frame: vec![0; LONGEST].into_boxed_slice(),
            bell: bell.clone(),
        };
        let flag = stop.clone();
        let pulse = threads.pulse("kernel");
        let thread = threads.fatal("kernel", move || carrier.run(&flag, &pulse))?;
        Ok(Taps { stop, bell, counters, thread: Some(thread) })
    }

    /// The packets through each tap, by [`TapEnd::iface`].
    pub fn counters(&self) -> Arc<Vec<TapCounters>> {
        self.counters.clone()
    }

    /// Ends the thread, after what waits in the rings is worked off, and returns
    /// the taps; none where it has panicked, which closed them: the kernel keeps them.
    pub fn stop(mut self) -> Vec<Tap> {
        self.stop.store(true, Relaxed);
        self.bell.ring();
        let thread = self.thread.take().map(JoinHandle::join);
        thread.and_then(Result::ok).unwrap_or_default()
    }
}

impl Drop for Taps {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        self.bell.ring();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // a panic was logged when it happened
        }
    }
}

/// The thread's own.
struct Carrier {
    taps: Vec<TapEnd>,
    rings: Vec<Rings>,
    by_iface: Vec<Option<usize>>,
    counters: Arc<Vec<TapCounters>>,
    frame: Box<[u8]>,
    bell: Bell,
}

impl Carrier {
    fn run(mut self, stop: &AtomicBool, pulse: &Pulse) -> Vec<Tap> {
        let mut last = Instant::now();
        while !stop.load(Relaxed) {
            pulse.beat();
            let moved = self.write_punted() + self.read_taps();
            if moved > 0 {
                last = Instant::now();
                self.bell.get_up();
            } else if last.elapsed() < LIVELY {
                self.wait(SHORT);
            } else if self.bell.is_asleep() {
                self.wait(LONG);
            } else {
                self.bell.lie_down(); // and all is looked at once more
            }
        }
        self.bell.get_up();
        while self.write_punted() > 0 {}
        self.taps.into_iter().map(|end| end.tap).collect()
    }

    /// Writes some frames of each worker to the taps.
    fn write_punted(&mut self) -> usize {
        let (taps, by_iface, counters) = (&self.taps, &self.by_iface, &self.counters);
        let mut moved = 0;
        for ring in &mut self.rings {
            let mut next = || {
                ring.from_worker.pop(|meta, frame| {
                    let iface = usize::from(meta.iface);
                    let Some(Some(tap)) = by_iface.get(iface) else { return };
                    let counter = match taps[*tap].tap.write(frame) {
                        Ok(()) => &counters[iface].punted,
                        Err(_) => &counters[iface].refused,
                    };
                    counter.fetch_add(1, Relaxed);
                })
            };
            moved += (0..BURST).map_while(|_| next()).count();
        }
        moved
    }

    /// Reads some frames of each tap, and hands them to the port's worker.
    fn read_taps(&mut self) -> usize {
        let mut moved = 0;
        for end in &self.taps {
            let (counters, before) = (&self.counters[usize::from(end.iface)], moved);
            for _ in 0..BURST {
                let bytes = match end.tap.read(&mut self.frame) {
                    Ok(bytes) => bytes,
                    Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                    Err(_) => break, // nothing there, or the tap is down or gone
                };
                let meta = Meta { iface: end.iface, ..Meta::default() };
                let ring = self.rings.get_mut(end.worker);
                let pushed = ring.is_some_and(|r| r.to_worker.push(meta, &[&self.frame[..bytes]]));
                let counter = if pushed { &counters.from_kernel } else { &counters.ring_full };
                counter.fetch_add(1, Relaxed);
                moved += 1;
            }
            if moved > before {
                self.rings.get(end.worker).iter().for_each(|ring| ring.bell.ring());
            }
        }
        moved
    }

    /// Sleeps until a tap has something or the bell was rung, `most` at the longest.
    fn wait(&self, most: Duration) {
        let fd = |end| PollFd::from_borrowed_fd(TapEnd::fd(end), PollFlags::IN);
        let mut fds: Vec<_> = self.taps.iter().map(fd).collect();
        let bell = self.bell.file();
        fds.push(PollFd::from_borrowed_fd(bell, PollFlags::IN));
        let timeout = Timespec::try_from(most).ok(); // there is one: no wait is so long
        let ready = poll(&mut fds, timeout.as_ref());
        let has_some = |fd: &PollFd<'_>| fd.revents().contains(PollFlags::IN);
        if fds.last().is_some_and(has_some) {
            self.bell.answer();
        }
        // A tap whose link is gone reports an error at once, for ever. (Interrupted: look again.)
        if ready.is_ok_and(|n| n > 0) && !fds.iter().any(has_some) {
            std::thread::sleep(most.min(GONE));
        }
    }
}

/// Frames taken from one side before the other is looked at.
const BURST: usize = 64;
/// The longest frame: an MTU of 65,000 with its header.
const LONGEST: usize = 65_000 + 64;
/// How long after a frame the thread looks often.
const LIVELY: Duration = Duration::from_millis(1);
const SHORT: Duration = Duration::from_micros(100);
/// While nobody needs it: it still has a pulse.
const LONG: Duration = Duration::from_secs(1);
/// Between two looks where a tap's link is gone.
const GONE: Duration = Duration::from_millis(1);
