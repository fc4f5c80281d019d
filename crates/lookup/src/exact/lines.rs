//! Cache lines of eight words: the buckets of the tables of 8-byte entries.

#[cfg(not(loom))]
use crate::pages::{Pages, Zeroed};
use crate::sync::{AtomicU64, Ordering};

/// One bucket: a cache line of eight entries.
#[repr(align(64))]
pub(super) struct Line([AtomicU64; SLOTS]);

/// Entries in a line.
pub(super) const SLOTS: usize = 8;

// SAFETY: atomics, of which zero is a value, without a destructor.
#[cfg(not(loom))]
unsafe impl Zeroed for Line {}

impl Line {
    /// The word in `slot`, and all that was written before it was.
    #[inline(always)]
    pub(super) fn load(&self, slot: usize) -> u64 {
        self.0[slot].load(Ordering::Acquire)
    }

    /// The writer's own last word in `slot`.
    #[inline(always)]
    pub(super) fn own(&self, slot: usize) -> u64 {
        self.0[slot].load(Ordering::Relaxed)
    }

    /// Writes `slot`; who loads it sees all that was written before.
    #[inline(always)]
    pub(super) fn store(&self, slot: usize, word: u64) {
        self.0[slot].store(word, Ordering::Release);
    }
}

/// 2^bits lines.
#[cfg(not(loom))]
pub(super) struct Lines(Pages<Line>);

#[cfg(not(loom))]
impl Lines {
    /// All zero.
    ///
    /// # Errors
    /// When the system has no room for them.
    pub(super) fn zeroed(bits: u32) -> std::io::Result<Lines> {
        Ok(Lines(Pages::zeroed(1 << bits)?))
    }
}

#[cfg(not(loom))]
impl std::ops::Deref for Lines {
    type Target = [Line];

    #[inline(always)]
    fn deref(&self) -> &[Line] {
        &self.0
    }
}

/// Loom's atomics are made one by one.
#[cfg(loom)]
pub(super) struct Lines(Box<[Line]>);

#[cfg(loom)]
impl Lines {
    pub(super) fn zeroed(bits: u32) -> std::io::Result<Lines> {
        let line = || Line(std::array::from_fn(|_| AtomicU64::new(0)));
        Ok(Lines((0..1 << bits).map(|_| line()).collect()))
    }
}

#[cfg(loom)]
impl std::ops::Deref for Lines {
    type Target = [Line];

    fn deref(&self) -> &[Line] {
        &self.0
    }
}
