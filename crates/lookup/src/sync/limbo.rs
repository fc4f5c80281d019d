//! What is used again, not dropped.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{Congested, Domain};

/// What a writer has taken out of use and will use again: handed back after a
/// grace period. For cells of an arena, hop ids, names of anything: they are `Copy`,
/// because what owns something would be dropped with this while readers hold it.
///
/// One thread has it at a time, which tags and then looks at the readers (I6 of the
/// domain), whatever others do with the domain meanwhile.
///
/// I5: the tags of `closed` ascend; `open` is younger than all of them.
pub struct Limbo<T: Copy> {
    domain: Arc<Domain>,
    limit: usize,
    open: Vec<T>,
    closed: VecDeque<(u64, Vec<T>)>,
    len: usize,
}

impl<T: Copy> Limbo<T> {
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
        #[cfg(test)]
        patience::check(self.len);
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
        #[cfg(not(test))]
        let limit = self.limit;
        #[cfg(test)]
        let limit = patience::LIMIT.get().map_or(self.limit, |limit| limit.min(self.limit));
        #[cfg(test)]
        let limit = if patience::DEAF.get() { usize::MAX } else { limit };
        if self.len <= limit {
            return Ok(());
        }
        Err(self.domain.refuse(self.len, limit))
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
            self.closed.push_back((self.domain.advance(), things));
        }
    }
}

/// Things in a [`Limbo`] that share a tag.
const BATCH: usize = 32;

/// A smaller limit for tests: that of an engine is reached in minutes only.
#[cfg(test)]
pub(crate) mod patience {
    use std::cell::Cell;

    thread_local! {
        /// What may wait in a limbo of this test's thread.
        pub(crate) static LIMIT: Cell<Option<usize>> = const { Cell::new(None) };
        /// This thread's writers go on as if they had not asked.
        pub(crate) static DEAF: Cell<bool> = const { Cell::new(false) };
    }

    /// One update may take many out of use, but not so many.
    const MORE: usize = 2000;

    pub(super) fn check(waiting: usize) {
        let most = LIMIT.get().map_or(usize::MAX, |limit| limit + MORE);
        assert!(waiting <= most, "{waiting} wait for a silent reader: `admit` was never asked");
    }
}
