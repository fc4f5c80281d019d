//! Publication and reclamation: readers never wait, memory is freed after a
//! grace period (quiescent-state-based reclamation).
//!
//! ```text
//!    writers  swap pointer ─► tag := epoch++ ─► garbage (tag)   dropped when tag < min(seen),
//!                                  │                                        ▲   looked up after the tag
//!    reader   …load, use… ─► quiesce: seen := epoch ────────────────────────┘ ─► …load, use…
//! ```
//!
//! A thread that reads registers once with a [`Domain`] and calls
//! [`Thread::quiesce`] between bursts. A [`Guard`] borrows the thread, so no
//! reference obtained through it survives a quiescent point: the compiler sees
//! to it. A writer, of which there may be any number, tags what it replaced with
//! the domain's epoch, advances the epoch, and drops what every online thread has
//! left behind, its own or another's. Engines that update in place reuse memory by
//! the same rule, through [`Limbo`].
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

mod domain;
mod limbo;
#[cfg(all(test, loom))]
mod loom_tests;
mod published;
#[cfg(all(test, not(loom)))]
mod tests;

pub use domain::{Congested, Domain, Guard, Mark, SILENT_AFTER, Thread, ThreadState};
pub use limbo::Limbo;
#[cfg(test)]
pub(crate) use limbo::patience;
pub use published::Published;

#[cfg(not(loom))]
use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicPtr, AtomicUsize},
};
// For engines whose words are explored too.
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(loom)]
use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicPtr, AtomicUsize},
};

#[inline]
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no holder panics")
}
