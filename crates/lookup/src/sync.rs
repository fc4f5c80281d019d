//! Publication and reclamation: readers never wait, memory is freed after a
//! grace period (quiescent-state-based reclamation).
//!
//! A thread that reads registers once with a [`Domain`] and calls
//! [`Thread::quiesce`] between bursts. A [`Guard`] borrows the thread, so no
//! reference obtained through it survives a quiescent point: the compiler sees
//! to it. The writer tags what it replaced with the domain's epoch, advances the
//! epoch, and drops what every online thread has left behind.

use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Threads that read, and garbage that waits for them.
pub struct Domain {
    epoch: AtomicU64,
    slots: Mutex<Vec<Arc<Slot>>>,
    garbage: Mutex<Vec<(u64, Box<dyn Send>)>>,
}

/// One registered thread as the domain sees it.
#[repr(align(128))]
struct Slot {
    name: String,
    /// The epoch seen at the last quiescent point; [`OFFLINE`] while it reads nothing.
    seen: AtomicU64,
}

const OFFLINE: u64 = u64::MAX;

impl Domain {
    /// A domain without threads.
    pub fn new() -> Arc<Domain> {
        Arc::new(Domain {
            epoch: AtomicU64::new(1),
            slots: Mutex::new(Vec::new()),
            garbage: Mutex::new(Vec::new()),
        })
    }

    /// Registers the calling thread; it starts online. `name` is what
    /// [`Domain::silent`] reports.
    pub fn register(self: &Arc<Self>, name: impl Into<String>) -> Thread {
        let slot = Arc::new(Slot { name: name.into(), seen: AtomicU64::new(OFFLINE) });
        self.slots.lock().expect("no holder panics").push(slot.clone());
        let mut thread = Thread { domain: self.clone(), slot, not_sync: std::marker::PhantomData };
        thread.online();
        thread
    }

    /// Drops `garbage` once every thread online now has passed a quiescent point.
    pub fn retire(&self, garbage: Box<dyn Send>) {
        let tag = self.epoch.fetch_add(1, Ordering::AcqRel);
        self.garbage.lock().expect("no holder panics").push((tag, garbage));
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
            let mut garbage = self.garbage.lock().expect("no holder panics");
            let (ready, wait): (Vec<_>, Vec<_>) =
                garbage.drain(..).partition(|(tag, _)| *tag < oldest);
            *garbage = wait;
            (ready, garbage.len())
        };
        drop(ready); // outside the lock: a destructor may retire more
        left
    }

    /// Waits until every thread online now has passed a quiescent point; false
    /// after `timeout`.
    pub fn synchronize(&self, timeout: Duration) -> bool {
        let (mark, start) = (self.mark(), Instant::now());
        while !self.passed(mark) {
            if start.elapsed() > timeout {
                return false;
            }
            std::thread::yield_now();
        }
        true
    }

    /// Names of the threads online that have not quiesced since `mark`.
    pub fn silent(&self, mark: u64) -> Vec<String> {
        let slots = self.slots.lock().expect("no holder panics");
        slots
            .iter()
            .filter(|slot| slot.seen.load(Ordering::Acquire) <= mark)
            .map(|slot| slot.name.clone())
            .collect()
    }

    fn oldest(&self) -> u64 {
        fence(Ordering::SeqCst);
        let slots = self.slots.lock().expect("no holder panics");
        slots.iter().map(|slot| slot.seen.load(Ordering::Acquire)).min().unwrap_or(OFFLINE)
    }
}

/// A registered reading thread.
pub struct Thread {
    domain: Arc<Domain>,
    slot: Arc<Slot>,
    /// `Send`, not `Sync`.
    not_sync: std::marker::PhantomData<std::cell::Cell<()>>,
}

impl Thread {
    /// States that this thread holds no reference obtained before; one load and
    /// one store.
    #[inline]
    pub fn quiesce(&mut self) {
        let epoch = self.domain.epoch.load(Ordering::Acquire);
        self.slot.seen.store(epoch, Ordering::Release);
    }

    /// Reads nothing until [`Thread::online`]: no writer waits for this thread.
    pub fn offline(&mut self) {
        self.slot.seen.store(OFFLINE, Ordering::Release);
    }

    /// Reads again. Needs a full fence: the store must be visible before any
    /// pointer is loaded.
    pub fn online(&mut self) {
        let epoch = self.domain.epoch.load(Ordering::Acquire);
        self.slot.seen.store(epoch, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        self.quiesce();
    }

    /// The permission to read published values until the next quiescent point.
    #[inline]
    pub fn guard(&self) -> Guard<'_> {
        Guard { thread: self }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        let mut slots = self.domain.slots.lock().expect("no holder panics");
        slots.retain(|slot| !Arc::ptr_eq(slot, &self.slot));
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
    /// In debug builds, when `guard` belongs to another domain.
    #[inline]
    pub fn load<'g>(&self, guard: Guard<'g>) -> &'g T
    where
        Self: 'g,
    {
        debug_assert!(Arc::ptr_eq(&self.domain, &guard.thread.domain));
        let now = self.now.load(Ordering::Acquire);
        // SAFETY:
        // - `now` came from `Box::into_raw` and is dropped only by the domain,
        //   after every online thread has quiesced since it was replaced;
        // - the guard's thread is online and cannot quiesce while 'g lives.
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
}

impl<T: Send + Sync + 'static> Drop for Published<T> {
    fn drop(&mut self) {
        // SAFETY: as in `publish`; readers may still hold it through a guard.
        let old = unsafe { Box::from_raw(*self.now.get_mut()) };
        self.domain.retire(old);
    }
}

#[cfg(test)]
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
        assert_eq!(domain.reclaim(), 1);
        assert_eq!(Arc::strong_count(&value), 2);
        reader.quiesce();
        assert_eq!(domain.reclaim(), 0);
        assert_eq!(Arc::strong_count(&value), 1);
        assert_eq!(**published.load(reader.guard()), 2);
    }
}
