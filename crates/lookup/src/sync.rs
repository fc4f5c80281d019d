//! Publication and reclamation: readers never wait, memory is freed after a
//! grace period (quiescent-state-based reclamation).
//!
//! ```text
//!    writer   swap pointer ─► tag := epoch++ ─► garbage (tag)   dropped when tag < min(seen)
//!                                  │                                        ▲
//!    reader   …load, use… ─► quiesce: seen := epoch ────────────────────────┘ ─► …load, use…
//! ```
//!
//! A thread that reads registers once with a [`Domain`] and calls
//! [`Thread::quiesce`] between bursts. A [`Guard`] borrows the thread, so no
//! reference obtained through it survives a quiescent point: the compiler sees
//! to it. The writer tags what it replaced with the domain's epoch, advances the
//! epoch, and drops what every online thread has left behind. Engines that
//! update in place reuse memory by the same rule, through [`Limbo`].
//!
//! | operation  | cost                                                    |
//! |------------|---------------------------------------------------------|
//! | `quiesce`  | one load, one store, no fence                           |
//! | `load`     | one load                                                |
//! | `offline`  | one store; `online` adds one full fence                 |
//! | `retire`   | a lock of the writers' and one atomic addition          |
//!
//! The argument, by named interleavings, is `docs/adr/0001-publication.md`; the
//! tests under `cfg(loom)` explore it. Everything that differs between the
//! standard library and loom is in this file.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[cfg(not(loom))]
use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence},
};

#[cfg(loom)]
use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence},
};

/// Threads that read, and garbage that waits for them.
///
/// - I1: what is tagged `t` was unreachable for new loads before the epoch
///   became `t + 1`.
/// - I2: an online thread's `seen` is an epoch that it loaded when it held no
///   reference; so a thread with `seen > t` holds nothing tagged `t`.
/// - I3: tags in `garbage` ascend.
pub struct Domain {
    epoch: AtomicU64,
    threads: Mutex<Vec<Registered>>,
    garbage: Mutex<VecDeque<(u64, Box<dyn Send>)>>,
    /// Pieces in `garbage`, to be read without its lock.
    waiting: AtomicUsize,
    limit: usize,
    refused: AtomicU64,
}

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
#[error("{waiting} pieces of garbage wait for readers, {limit} are the limit; silent: {silent:?}")]
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
        let tag = self.mark(); // under the lock: I3
        pieces.push_back((tag, garbage));
        self.waiting.store(pieces.len(), Ordering::Relaxed);
    }

    /// The present epoch, to be handed to [`Domain::passed`] later; advances it.
    pub fn mark(&self) -> u64 {
        self.epoch.fetch_add(1, Ordering::AcqRel)
    }

    /// True when every thread online has passed a quiescent point since `mark`.
    pub fn passed(&self, mark: u64) -> bool {
        mark < self.oldest()
    }

    /// Drops what may be dropped; returns how many pieces still wait.
    pub fn reclaim(&self) -> usize {
        let oldest = self.oldest();
        let (ready, left) = {
            let mut pieces = lock(&self.garbage);
            let ready = pieces.partition_point(|(tag, _)| *tag < oldest); // by I3
            let ready: Vec<_> = pieces.drain(..ready).collect();
            self.waiting.store(pieces.len(), Ordering::Relaxed);
            (ready, pieces.len())
        };
        drop(ready); // outside the lock: a destructor may retire more
        left
    }

    /// Pieces of garbage that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Says whether a writer may go on making garbage; asked before a change.
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

    fn refuse(&self, waiting: usize, limit: usize) -> Congested {
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
    pub fn silent(&self, mark: u64) -> Vec<String> {
        let threads = lock(&self.threads);
        let late = |entry: &&Registered| entry.slot.seen.load(Ordering::Acquire) <= mark;
        threads.iter().filter(late).map(|entry| entry.slot.name.clone()).collect()
    }

    /// Every registered thread. Advances the epoch, so that the next call can
    /// tell a thread that went on from one that did not.
    pub fn threads(&self) -> Vec<ThreadState> {
        let (epoch, now) = (self.mark() + 1, Instant::now());
        let mut threads = lock(&self.threads);
        threads.iter_mut().map(|entry| entry.observe(epoch, now)).collect()
    }

    /// Names of the threads that have been silent for [`SILENT_AFTER`]. Call it
    /// every few tens of milliseconds: it sees no more than its calls do.
    pub fn stalled(&self) -> Vec<String> {
        let silent = |state: &ThreadState| state.silent_for >= SILENT_AFTER;
        self.threads().into_iter().filter(silent).map(|state| state.name).collect()
    }

    fn oldest(&self) -> u64 {
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
    domain: Arc<Domain>,
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
    thread: &'t Thread,
}

/// A value that one thread replaces and many read: a new version becomes
/// visible with one store, the old one is dropped after a grace period.
pub struct Published<T: Send + Sync + 'static> {
    now: AtomicPtr<T>,
    domain: Arc<Domain>,
}

impl<T: Send + Sync + 'static> Published<T> {
    /// Publishes the first version.
    pub fn new(domain: &Arc<Domain>, value: T) -> Self {
        let now = AtomicPtr::new(Box::into_raw(Box::new(value)));
        Published { now, domain: domain.clone() }
    }

    /// The present version; one load.
    ///
    /// # Panics
    /// When `guard` belongs to another domain.
    #[inline]
    pub fn load<'g>(&self, guard: Guard<'g>) -> &'g T
    where
        Self: 'g,
    {
        // Two pointers already in registers or cache; without it, safe code
        // could read what nobody keeps.
        assert!(Arc::ptr_eq(&self.domain, &guard.thread.domain), "a guard of another domain");
        let now = self.now.load(Ordering::Acquire);
        // SAFETY:
        // - `now` came from `Box::into_raw` and is dropped only by the domain,
        //   after every online thread has quiesced since it was replaced;
        // - the guard's thread is online (I4) and cannot quiesce while 'g lives.
        unsafe { &*now }
    }

    /// Replaces the version; the old one is retired.
    pub fn publish(&self, value: T) {
        let old = self.now.swap(Box::into_raw(Box::new(value)), Ordering::AcqRel);
        // SAFETY: `old` came from `Box::into_raw` and is no longer reachable
        // through `now`; the domain keeps it until no reader can hold it.
        let old = unsafe { Box::from_raw(old) };
        self.domain.retire(old);
    }

    /// As [`Published::publish`], where the garbage limit allows it.
    ///
    /// # Errors
    /// As [`Domain::admit`]; the present version stays.
    pub fn try_publish(&self, value: T) -> Result<(), Congested> {
        self.domain.admit()?;
        self.publish(value);
        Ok(())
    }
}

impl<T: Send + Sync + 'static> Drop for Published<T> {
    fn drop(&mut self) {
        let now = self.now.load(Ordering::Relaxed); // `&mut self`: no other access
        // SAFETY: as in `publish`; readers may still hold it through a guard.
        let old = unsafe { Box::from_raw(now) };
        self.domain.retire(old);
        self.domain.reclaim();
    }
}

/// What a writer has taken out of use and will use again: handed back after a
/// grace period. For cells of an arena, hop ids, anything that is not dropped.
///
/// I5: the tags of `closed` ascend; `open` is younger than all of them.
pub struct Limbo<T> {
    domain: Arc<Domain>,
    limit: usize,
    open: Vec<T>,
    closed: VecDeque<(u64, Vec<T>)>,
    len: usize,
}

impl<T> Limbo<T> {
    /// An empty one, in which [`Limbo::admit`] lets `limit` things wait.
    pub fn new(domain: &Arc<Domain>, limit: usize) -> Self {
        let domain = domain.clone();
        Limbo { domain, limit, open: Vec::new(), closed: VecDeque::new(), len: 0 }
    }

    /// Adds what no new load can reach any more.
    #[inline]
    pub fn push(&mut self, thing: T) {
        self.open.push(thing);
        self.len += 1;
        if self.open.len() >= BATCH {
            self.close();
        }
    }

    /// Hands back everything that no reader can hold any more.
    pub fn drain(&mut self, mut free: impl FnMut(T)) {
        self.close();
        if self.closed.is_empty() {
            return;
        }
        let oldest = self.domain.oldest();
        while self.closed.front().is_some_and(|(tag, _)| *tag < oldest) {
            let (_, things) = self.closed.pop_front().expect("there is a front");
            self.len -= things.len();
            things.into_iter().for_each(&mut free);
        }
    }

    /// Says whether a writer may go on; to be asked after [`Limbo::drain`].
    ///
    /// # Errors
    /// When more than the limit waits; counted in the domain.
    pub fn admit(&self) -> Result<(), Congested> {
        if self.len <= self.limit {
            return Ok(());
        }
        Err(self.domain.refuse(self.len, self.limit))
    }

    /// How many things wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Tags what has been pushed since; one epoch for many saves the readers
    /// the line that holds it.
    fn close(&mut self) {
        if !self.open.is_empty() {
            let things = std::mem::take(&mut self.open);
            self.closed.push_back((self.domain.mark(), things));
        }
    }
}

#[inline]
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no holder panics")
}

/// No epoch: it would take centuries to count so far.
const OFFLINE: u64 = u64::MAX;

/// Pieces that may wait in a domain of [`Domain::new`].
const GARBAGE_LIMIT: usize = 65_536;

/// Things in a [`Limbo`] that share a tag.
const BATCH: usize = 32;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_old_version_is_dropped_after_the_reader_quiesced() {
        let domain = Domain::new();
        let value = Arc::new(1);
        let published = Published::new(&domain, value.clone());
        let mut reader = domain.register("reader");
        assert_eq!(**published.load(reader.guard()), 1);
        published.publish(Arc::new(2));
        assert_eq!((domain.reclaim(), domain.waiting()), (1, 1));
        assert_eq!(Arc::strong_count(&value), 2);
        reader.quiesce();
        assert_eq!(domain.reclaim(), 0);
        assert_eq!(Arc::strong_count(&value), 1);
        assert_eq!(**published.load(reader.guard()), 2);
    }

    #[test]
    fn an_offline_thread_holds_nothing_up() {
        let domain = Domain::new();
        let mut reader = domain.register("reader");
        reader.offline();
        domain.retire(Box::new(1));
        assert_eq!(domain.reclaim(), 0);
        reader.online();
        domain.retire(Box::new(2));
        assert_eq!(domain.reclaim(), 1);
        assert!(!domain.synchronize(Duration::from_millis(1)));
        drop(reader);
        assert_eq!(domain.waiting(), 0);
    }

    #[test]
    #[should_panic(expected = "while the thread is offline")]
    fn offline_there_is_no_guard() {
        let mut reader = Domain::new().register("reader");
        reader.offline();
        reader.guard();
    }

    #[test]
    #[should_panic(expected = "another domain")]
    fn a_guard_is_good_for_its_own_domain_only() {
        let published = Published::new(&Domain::new(), 1);
        published.load(Domain::new().register("stranger").guard());
    }

    #[test]
    fn the_writer_is_refused_at_the_garbage_limit_and_the_silent_reader_named() {
        let domain = Domain::with_limit(2);
        let published = Published::new(&domain, 0);
        let mut slow = domain.register("slow");
        let mut quick = domain.register("quick");
        assert_eq!(domain.stalled(), Vec::<String>::new());
        for version in 1..=3 {
            published.try_publish(version).expect("the limit is not reached");
        }
        std::thread::sleep(SILENT_AFTER + Duration::from_millis(5));
        quick.quiesce();
        let refusal = published.try_publish(4).expect_err("three wait");
        assert_eq!((refusal.waiting, refusal.silent), (3, vec!["slow".to_string()]));
        assert_eq!((domain.refused(), *published.load(quick.guard())), (1, 3));
        let states = domain.threads();
        assert!(states[0].online && states[0].behind > states[1].behind);
        slow.quiesce();
        quick.quiesce();
        published.try_publish(5).expect("all is reclaimed");
        assert_eq!(domain.stalled(), Vec::<String>::new());
    }

    #[test]
    fn limbo_hands_back_after_the_grace_period_and_not_before() {
        let domain = Domain::new();
        let mut reader = domain.register("reader");
        let mut limbo = Limbo::new(&domain, 99);
        let mut back = Vec::new();
        (0..100).for_each(|i| limbo.push(i));
        limbo.drain(|i| back.push(i));
        assert_eq!((back.len(), limbo.len()), (0, 100));
        assert!(limbo.admit().is_err() && domain.refused() == 1);
        reader.quiesce();
        limbo.push(100);
        limbo.drain(|i| back.push(i));
        assert_eq!((back.len(), limbo.len()), (100, 1));
        reader.offline();
        limbo.drain(|i| back.push(i));
        assert_eq!(back, (0..=100).collect::<Vec<_>>());
        assert!(limbo.is_empty() && limbo.admit().is_ok());
    }

    #[test]
    fn garbage_that_holds_the_domain_goes_with_the_last_thread() {
        let domain = Domain::new();
        let reader = domain.register("reader");
        let published = Published::new(&domain, domain.clone());
        published.publish(domain.clone());
        drop(published);
        assert!(Arc::strong_count(&domain) > 2);
        drop(reader);
        assert_eq!(Arc::strong_count(&domain), 1);
    }
}

/// `RUSTFLAGS="--cfg loom" cargo test -p lookup --release loom`
///
/// None of them explores more than two readers, more than one writer, or the
/// wrap of the epoch; each says what else it leaves out.
#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc as LoomArc;
    use loom::thread;

    use super::*;

    /// Says when it is dropped; reading `alive` after that is the fault.
    struct Canary {
        number: usize,
        alive: LoomArc<AtomicUsize>,
    }

    impl Canary {
        fn new(number: usize) -> (Self, LoomArc<AtomicUsize>) {
            let alive = LoomArc::new(AtomicUsize::new(1));
            (Canary { number, alive: alive.clone() }, alive)
        }
    }

    impl Drop for Canary {
        fn drop(&mut self) {
            self.alive.store(0, Ordering::Release);
        }
    }

    /// Reads the version twice under one guard; it must be alive throughout.
    fn read(published: &Published<Canary>, thread: &Thread) -> usize {
        let canary = published.load(thread.guard());
        assert_eq!(canary.alive.load(Ordering::Acquire), 1, "read after drop");
        canary.number
    }

    /// Interleavings A, B: a reader loads, quiesces, loads, against publish and
    /// reclaim. Leaves out: offline, threads that come and go.
    #[test]
    fn loom_publish_and_reclaim() {
        loom::model(|| {
            let domain = Domain::new();
            let published = Arc::new(Published::new(&domain, Canary::new(0).0));
            let mut reader = domain.register("reader");
            let shared = published.clone();
            let handle = thread::spawn(move || {
                let first = read(&shared, &reader);
                reader.quiesce();
                assert!(read(&shared, &reader) >= first, "versions go forward");
            });
            published.publish(Canary::new(1).0);
            domain.reclaim();
            domain.reclaim();
            handle.join().unwrap();
        });
    }

    /// Interleaving C: a reader comes online while the writer publishes and
    /// reclaims. Leaves out: quiescence while online.
    #[test]
    fn loom_online_against_reclaim() {
        loom::model(|| {
            let domain = Domain::new();
            let published = Arc::new(Published::new(&domain, Canary::new(0).0));
            let mut reader = domain.register("reader");
            reader.offline();
            let shared = published.clone();
            let handle = thread::spawn(move || {
                reader.online();
                read(&shared, &reader);
                reader.offline();
            });
            published.publish(Canary::new(1).0);
            domain.reclaim();
            handle.join().unwrap();
        });
    }

    /// Interleaving D: a thread registers, reads and goes while the writer
    /// publishes and reclaims. Leaves out: a second reader.
    #[test]
    fn loom_register_against_reclaim() {
        loom::model(|| {
            let domain = Domain::new();
            let published = Arc::new(Published::new(&domain, Canary::new(0).0));
            let (shared, theirs) = (published.clone(), domain.clone());
            let handle = thread::spawn(move || {
                let reader = theirs.register("reader");
                read(&shared, &reader);
            });
            published.publish(Canary::new(1).0);
            domain.reclaim();
            handle.join().unwrap();
        });
    }

    /// Interleaving E: an engine that updates in place. `root` names one of two
    /// cells; the writer fills the free one, turns the root, and uses the old
    /// cell again only after the grace period. Leaves out: more cells, batches.
    fn in_place(wait: bool) {
        loom::model(move || {
            const POISON: usize = 99;
            let domain = Domain::new();
            let root = LoomArc::new(AtomicUsize::new(0));
            let cells = LoomArc::new([AtomicUsize::new(10), AtomicUsize::new(POISON)]);
            let mut reader = domain.register("reader");
            let (r, c) = (root.clone(), cells.clone());
            let handle = thread::spawn(move || {
                for _ in 0..2 {
                    let cell = r.load(Ordering::Acquire);
                    let value = c[cell].load(Ordering::Relaxed);
                    assert_ne!(value, POISON, "a cell is read while it is rewritten");
                    reader.quiesce();
                }
            });
            let mut limbo = Limbo::new(&domain, 8);
            cells[1].store(11, Ordering::Relaxed);
            root.store(1, Ordering::Release);
            limbo.push(0);
            if wait {
                limbo.drain(|cell: usize| cells[cell].store(POISON, Ordering::Relaxed));
            } else {
                cells[0].store(POISON, Ordering::Relaxed);
            }
            handle.join().unwrap();
        });
    }

    #[test]
    fn loom_cells_are_reused_after_the_grace_period() {
        in_place(true);
    }

    /// The negative control: the model can see the fault.
    #[test]
    #[should_panic(expected = "while it is rewritten")]
    fn loom_sees_a_reuse_without_grace() {
        in_place(false);
    }
}
