//! A value replaced as a whole.

use std::sync::Arc;

use super::{AtomicPtr, Congested, Domain, Guard, Ordering};

/// A value that many read and any thread may replace: a new version becomes
/// visible with one store, the old one is dropped after a grace period. Of two that
/// replace it at once, the one whose store is last stays.
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
