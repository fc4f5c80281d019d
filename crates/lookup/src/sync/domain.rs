//! Who reads, and what waits for them.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{AtomicU64, AtomicUsize, Mutex, Ordering, fence, lock};

/// Threads that read, and garbage that waits for them.
///
/// Any number of threads may publish, retire, reclaim and wait at once, beside any
/// number of readers; a thread may be both. What is retired is dropped by whoever
/// reclaims next, on that thread, under no lock of the domain's: it is `Send`, its
/// destructor may retire more, and who reclaims must hold no lock that it takes.
///
/// - I1: what is tagged `t` was unreachable for new loads before the epoch
///   became `t + 1`.
/// - I2: an online thread's `seen` is an epoch that it loaded when it held no
///   reference; so a thread with `seen > t` holds nothing tagged `t`.
/// - I3: tags in `garbage` ascend.
/// - I6: a tag is compared only with a look at the readers that was begun after the
///   tag was taken, and after what it stands for was seen to be unreachable: in
///   `reclaim` by the lock of `garbage`, in [`Limbo`](super::Limbo) because its owner
///   does both, of a [`Mark`] because it comes by ways that order the two.
/// - I7: the lock of `garbage` is taken before that of `threads`, never behind it.
pub struct Domain {
    epoch: AtomicU64,
    threads: Mutex<Vec<Registered>>,
    pub(super) garbage: Mutex<Garbage>,
    /// Pieces in `garbage`, to be read without its lock.
    waiting: AtomicUsize,
    limit: usize,
    refused: AtomicU64,
}

/// A moment: all that its maker had made unreachable before. It is no number, so that
/// it comes to another thread only as values do, with what happened before it (I6).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Mark(u64);

/// What waits, with its tags.
pub(super) type Garbage = VecDeque<Piece>;

/// A tag, and what bears it.
pub(super) type Piece = (u64, Box<dyn Send>);

/// One registered thread as the domain sees it, and what was seen of it before.
struct Registered {
    slot: Arc<Slot>,
    watched: u64,
    since: Instant,
}

/// What a registered thread writes; a pair of lines of its own.
#[repr(align(128))]
struct Slot {
    name: String,
    /// The epoch seen at the last quiescent point; [`OFFLINE`] while it reads nothing.
    seen: AtomicU64,
}

/// A reading thread as [`Domain::threads`] reports it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ThreadState {
    /// As given to [`Domain::register`].
    pub name: String,
    /// False between [`Thread::offline`] and [`Thread::online`].
    pub online: bool,
    /// Epochs that have begun since its last quiescent point; 0 while offline.
    pub behind: u64,
    /// For how long it has been online without a quiescent point, as far as
    /// calls of [`Domain::threads`] and [`Domain::stalled`] could see.
    pub silent_for: Duration,
}

/// Too much garbage waits for readers that do not quiesce: try again later.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "{waiting} retired objects wait for readers (limit {limit}); threads without a quiescent state: \
     {silent:?}"
)]
pub struct Congested {
    /// Pieces that wait.
    pub waiting: usize,
    /// Pieces that may wait.
    pub limit: usize,
    /// Threads that have not passed a quiescent point for [`SILENT_AFTER`].
    pub silent: Vec<String>,
}

/// A thread online for so long without a quiescent point is reported by name.
pub const SILENT_AFTER: Duration = Duration::from_millis(100);

impl Domain {
    /// A domain without threads, and with the usual limit of garbage.
    pub fn new() -> Arc<Domain> {
        Domain::with_limit(GARBAGE_LIMIT)
    }

    /// A domain in which [`Domain::admit`] refuses while more than `limit`
    /// pieces of garbage wait.
    pub fn with_limit(limit: usize) -> Arc<Domain> {
        Arc::new(Domain {
            epoch: AtomicU64::new(1),
            threads: Mutex::new(Vec::new()),
            garbage: Mutex::new(VecDeque::new()),
            waiting: AtomicUsize::new(0),
            limit,
            refused: AtomicU64::new(0),
        })
    }

    /// Registers the calling thread; it starts online. `name` is what
    /// [`Domain::silent`] and [`Domain::stalled`] report.
    pub fn register(self: &Arc<Self>, name: impl Into<String>) -> Thread {
        let slot = Arc::new(Slot { name: name.into(), seen: AtomicU64::new(OFFLINE) });
        let entry = Registered { slot: slot.clone(), watched: OFFLINE, since: Instant::now() };
        lock(&self.threads).push(entry);
        let mut thread =
            Thread { domain: self.clone(), slot, online: false, not_sync: PhantomData };
        thread.online();
        thread
    }

    /// Drops `garbage` once every thread online now has passed a quiescent
    /// point: at a later [`Domain::reclaim`].
    pub fn retire(&self, garbage: Box<dyn Send>) {
        let mut pieces = lock(&self.garbage);
        let tag = self.advance(); // under the lock: I3
        pieces.push_back((tag, garbage));
        self.waiting.store(pieces.len(), Ordering::Relaxed);
    }

    /// The present epoch, to be handed to [`Domain::passed`] later; advances it.
    pub fn mark(&self) -> Mark {
        Mark(self.advance())
    }

    /// True when every thread online has passed a quiescent point since `mark`.
    pub fn passed(&self, mark: Mark) -> bool {
        mark.0 < self.oldest()
    }

    /// Drops what may be dropped; returns how many pieces still wait.
    pub fn reclaim(&self) -> usize {
        let (ready, left) = {
            let mut pieces = lock(&self.garbage);
            // Under the lock (I6): a look from before it may have found every reader
            // offline, and knows nothing of one that came online and then loaded what
            // another publisher has retired meanwhile.
            let oldest = self.oldest();
            (self.take_ready(&mut pieces, oldest), pieces.len())
        };
        drop(ready); // outside the lock: a destructor may retire more
        left
    }

    /// Takes out what is older than `oldest`, which was found under their lock.
    pub(super) fn take_ready(&self, pieces: &mut Garbage, oldest: u64) -> Vec<Piece> {
        let ready = pieces.partition_point(|(tag, _)| *tag < oldest); // by I3
        let ready = pieces.drain(..ready).collect();
        self.waiting.store(pieces.len(), Ordering::Relaxed);
        ready
    }

    /// Pieces of garbage that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Says whether a writer may go on making garbage; asked before a change. Writers
    /// that ask at once may all be let in: the limit holds but for one piece each.
    ///
    /// # Errors
    /// When more than the limit waits, even after an attempt to reclaim; counted.
    pub fn admit(&self) -> Result<(), Congested> {
        if self.waiting() <= self.limit {
            return Ok(());
        }
        let waiting = self.reclaim();
        if waiting <= self.limit { Ok(()) } else { Err(self.refuse(waiting, self.limit)) }
    }

    /// How often a writer was refused for garbage.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    pub(super) fn refuse(&self, waiting: usize, limit: usize) -> Congested {
        self.refused.fetch_add(1, Ordering::Relaxed);
        Congested { waiting, limit, silent: self.stalled() }
    }

    /// Waits until every thread online now has passed a quiescent point; false
    /// after `timeout`.
    pub fn synchronize(&self, timeout: Duration) -> bool {
        let (mark, start) = (self.mark(), Instant::now());
        while !self.passed(mark) {
            if start.elapsed() > timeout {
                return false;
            }
            std::thread::sleep(Duration::from_micros(20));
        }
        true
    }

    /// Names of the threads online that have not quiesced since `mark`.
    pub fn silent(&self, mark: Mark) -> Vec<String> {
        let threads = lock(&self.threads);
        let late = |entry: &&Registered| entry.slot.seen.load(Ordering::Acquire) <= mark.0;
        threads.iter().filter(late).map(|entry| entry.slot.name.clone()).collect()
    }

    /// Every registered thread. Advances the epoch, so that the next call can
    /// tell a thread that went on from one that did not.
    pub fn threads(&self) -> Vec<ThreadState> {
        let (epoch, now) = (self.advance() + 1, Instant::now());
        let mut threads = lock(&self.threads);
        threads.iter_mut().map(|entry| entry.observe(epoch, now)).collect()
    }

    /// Names of the threads that have been silent for [`SILENT_AFTER`]. Call it
    /// every few tens of milliseconds: it sees no more than its calls do.
    pub fn stalled(&self) -> Vec<String> {
        let silent = |state: &ThreadState| state.silent_for >= SILENT_AFTER;
        self.threads().into_iter().filter(silent).map(|state| state.name).collect()
    }

    /// The present epoch; advances it.
    pub(super) fn advance(&self) -> u64 {
        self.epoch.fetch_add(1, Ordering::AcqRel)
    }

    /// What no thread online holds has a tag below this; for tags as in I6.
    pub(super) fn oldest(&self) -> u64 {
        // Pairs with the fence in `Thread::online` (ADR 1, interleaving C).
        fence(Ordering::SeqCst);
        let threads = lock(&self.threads);
        let seen = threads.iter().map(|entry| entry.slot.seen.load(Ordering::Acquire));
        seen.min().unwrap_or(OFFLINE)
    }
}

impl Registered {
    fn observe(&mut self, epoch: u64, now: Instant) -> ThreadState {
        let seen = self.slot.seen.load(Ordering::Acquire);
        if seen == OFFLINE || seen != self.watched {
            (self.watched, self.since) = (seen, now);
        }
        ThreadState {
            name: self.slot.name.clone(),
            online: seen != OFFLINE,
            behind: if seen == OFFLINE { 0 } else { epoch.saturating_sub(seen) },
            silent_for: now.duration_since(self.since),
        }
    }
}

/// A registered reading thread.
pub struct Thread {
    pub(super) domain: Arc<Domain>,
    slot: Arc<Slot>,
    /// I4: true only after `online`'s fence; then `slot.seen` is an epoch.
    online: bool,
    /// `Send`, not `Sync`.
    not_sync: PhantomData<std::cell::Cell<()>>,
}

impl Thread {
    /// States that this thread holds no reference obtained before; one load and
    /// one store. To be called online.
    #[inline]
    pub fn quiesce(&mut self) {
        debug_assert!(self.online, "quiesce() offline makes the writers wait");
        let epoch = self.domain.epoch.load(Ordering::Acquire);
        self.slot.seen.store(epoch, Ordering::Release);
    }

    /// Reads nothing until [`Thread::online`]: no writer waits for this thread.
    pub fn offline(&mut self) {
        self.online = false;
        self.slot.seen.store(OFFLINE, Ordering::Release);
    }

    /// Reads again. Needs a full fence: the store must be visible before any
    /// pointer is loaded.
    pub fn online(&mut self) {
        let epoch = self.domain.epoch.load(Ordering::Acquire);
        self.slot.seen.store(epoch, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.online = true;
        self.quiesce(); // the epoch may be old by now; not needed for safety
    }

    /// True unless [`Thread::offline`] was called last.
    pub fn is_online(&self) -> bool {
        self.online
    }

    /// The permission to read published values until the next quiescent point.
    ///
    /// # Panics
    /// While offline: nobody would wait for the reader.
    #[inline]
    pub fn guard(&self) -> Guard<'_> {
        assert!(self.online, "a guard is taken while the thread is offline");
        Guard { thread: self }
    }

    /// The domain it is registered with.
    pub fn domain(&self) -> &Arc<Domain> {
        &self.domain
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        let alone = {
            let mut threads = lock(&self.domain.threads);
            threads.retain(|entry| !Arc::ptr_eq(&entry.slot, &self.slot));
            threads.is_empty()
        };
        if alone {
            // Garbage may hold the domain (a table does): nobody else would
            // break that circle.
            self.domain.reclaim();
        }
    }
}

/// Permission to read: while it lives, its thread does not quiesce.
#[derive(Clone, Copy)]
pub struct Guard<'t> {
    pub(super) thread: &'t Thread,
}

/// No epoch: it would take centuries to count so far.
const OFFLINE: u64 = u64::MAX;

/// Pieces that may wait in a domain of [`Domain::new`].
const GARBAGE_LIMIT: usize = 65_536;
