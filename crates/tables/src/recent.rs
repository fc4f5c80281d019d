//! Destinations that packets had lately: what a new table is tried on before it
//! takes over.
//!
//! One destination of each vector goes into a ring, by plain stores: a worker has
//! its own place to begin, so that two seldom write to the same line. A cell that
//! is read while it is written gives an address that nobody asked for, which is
//! as good a question as any.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use lookup::Addr;

/// The ring of one family, for all workers.
pub struct Recent {
    cells: Box<[[AtomicU64; 2]]>,
    starts: AtomicUsize,
}

impl Recent {
    pub(crate) fn new() -> Recent {
        Recent { cells: (0..CELLS).map(|_| Default::default()).collect(), starts: 0.into() }
    }

    /// Where the next worker begins to count its turns.
    pub fn start(&self) -> usize {
        self.starts.fetch_add(1, Ordering::Relaxed) * (CELLS / 7)
    }

    /// Keeps a destination for some thousand turns.
    #[inline]
    pub fn note<A: Addr>(&self, turn: usize, dst: A) {
        let dst = dst.to_u128();
        let [high, low] = &self.cells[turn % CELLS];
        low.store(dst as u64, Ordering::Relaxed);
        if A::WIDTH > 64 {
            high.store((dst >> 64) as u64, Ordering::Relaxed);
        }
    }

    /// What is there; zeros at first.
    pub fn all<A: Addr>(&self) -> Vec<A> {
        let read = |[high, low]: &[AtomicU64; 2]| {
            let high = u128::from(high.load(Ordering::Relaxed));
            A::from_u128(high << 64 | u128::from(low.load(Ordering::Relaxed)))
        };
        self.cells.iter().map(read).collect()
    }
}

/// A power of two; 32 kB.
const CELLS: usize = 2048;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_last_is_there() {
        let recent = Recent::new();
        let (one, other) = (recent.start(), recent.start());
        assert_ne!(one % CELLS, other % CELLS);
        for turn in 0..3 * CELLS {
            recent.note(one + turn, turn as u128 | 1 << 100);
        }
        let mut all = recent.all::<u128>();
        all.sort_unstable();
        let last = (2 * CELLS..3 * CELLS).map(|turn| turn as u128 | 1 << 100);
        assert!(all.into_iter().eq(last));
    }
}
