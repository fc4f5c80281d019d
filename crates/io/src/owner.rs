//! A value that one thread at a time may touch: every use checks this, and none waits. It
//! holds what a worker's ports share (a pool's cache, a ring).

use std::cell::{Cell, UnsafeCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Invariants: O1: `inside` is touched only by the thread whose number is in
/// `state`, through a [`Claim`]. O2: that number changes only while no claim
/// exists (the count in `state` is 0), so never under a running [`Claim::with`].
pub(crate) struct Owner<T> {
    /// The owning thread's number (upper half) and its claims (lower half).
    state: AtomicU64,
    inside: UnsafeCell<T>,
    /// Set while `with` runs, so that its closure cannot enter again.
    entered: Cell<bool>,
}

// SAFETY: by O1 one thread at a time touches the inside, and O2 hands it over
// with acquire and release: that asks for `Send` of it, and no more.
unsafe impl<T: Send> Sync for Owner<T> {}

impl<T> Owner<T> {
    /// A value that nobody owns yet.
    pub(crate) fn new(value: T) -> Arc<Self> {
        Arc::new(Owner {
            state: AtomicU64::new(0),
            inside: UnsafeCell::new(value),
            entered: Cell::new(false),
        })
    }

    /// Makes the calling thread the owner; `None` while another thread is.
    pub(crate) fn claim(self: &Arc<Self>) -> Option<Claim<T>> {
        let me = u64::from(this_thread());
        let claimed = |state: u64| {
            let claims = state & CLAIMS;
            // One more than can be counted (claims can be forgotten) is refused, too.
            (claims == 0 || state >> 32 == me && claims < CLAIMS).then_some(me << 32 | (claims + 1))
        };
        self.state.fetch_update(Ordering::AcqRel, Ordering::Relaxed, claimed).ok()?;
        Some(Claim(self.clone()))
    }
}

/// The right to touch the value, on the owner's thread. The last one dropped
/// lets another thread claim it.
pub(crate) struct Claim<T>(Arc<Owner<T>>);

impl<T> Claim<T> {
    /// Runs `act` on the value; `None` on a thread that does not own it, and
    /// inside another `with` of it.
    #[inline]
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> Option<R> {
        if self.0.state.load(Ordering::Relaxed) >> 32 != u64::from(this_thread())
            || self.0.entered.replace(true)
        {
            return None;
        }
        // SAFETY: this thread owns it (O1) until this claim is gone (O2), which
        // is borrowed; and `entered` was false: nobody else has a reference.
        let result = act(unsafe { &mut *self.0.inside.get() });
        self.0.entered.set(false);
        Some(result)
    }
}

impl<T> Drop for Claim<T> {
    fn drop(&mut self) {
        self.0.state.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A number of the calling thread that no other thread has or will have; not 0.
#[inline]
fn this_thread() -> u32 {
    thread_local!(static NUMBER: Cell<u32> = const { Cell::new(0) });
    static LAST: AtomicU32 = AtomicU32::new(0);
    NUMBER.with(|number| {
        if number.get() == 0 {
            let next = |last: u32| last.checked_add(1);
            let last = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
            number.set(last.expect("a process starts fewer than 2^32 threads") + 1);
        }
        number.get()
    })
}

const CLAIMS: u64 = u32::MAX as u64;

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::scope;

    #[test]
    fn only_the_owner_gets_in_until_its_last_claim_is_gone() {
        let owner = Owner::new(7);
        let first = owner.claim().unwrap();
        let second = owner.claim().unwrap();
        assert_eq!(first.with(|value| *value), Some(7));
        scope(|s| {
            s.spawn(|| {
                assert!(owner.claim().is_none());
                assert_eq!(first.with(|value| *value), None);
            });
        });
        drop(first);
        scope(|s| {
            s.spawn(|| assert!(owner.claim().is_none()));
        });
        drop(second);
        scope(|s| {
            s.spawn(|| assert_eq!(owner.claim().unwrap().with(|value| *value), Some(7)));
        });
    }

    /// A count that ran over would name another thread as the owner.
    #[test]
    fn forgotten_claims_do_not_run_over() {
        let owner = Owner::new(1);
        let claim = owner.claim().unwrap();
        owner.state.fetch_add(CLAIMS - 1, Ordering::Relaxed); // so many were forgotten
        let state = owner.state.load(Ordering::Relaxed);
        assert!(owner.claim().is_none());
        assert_eq!(owner.state.load(Ordering::Relaxed), state);
        assert_eq!(claim.with(|value| *value), Some(1));
    }

    #[test]
    fn nobody_enters_twice() {
        let owner = Owner::new(1);
        let claim = owner.claim().unwrap();
        assert_eq!(claim.with(|_| claim.with(|_| ())), Some(None));
    }
}
