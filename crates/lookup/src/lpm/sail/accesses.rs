//! What an update writes: the measure by which the thesis compares its engines
//! (figure 3.11, table 3.2).

use std::sync::atomic::{AtomicU64, Ordering};

/// Memory accesses of updates, counted by the writer in words of 64 bits as the
/// thesis does: a run of cells is so many words.
///
/// On-chip is what finds the length (bitmaps, a root that is always read), off-chip
/// what holds the hops. On lines of its own: readers read what lies beside.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Accesses {
    updates: AtomicU64,
    on_chip: AtomicU64,
    off_chip: AtomicU64,
    /// The most of one update.
    on_chip_most: AtomicU64,
    off_chip_most: AtomicU64,
    /// Sums when the present update began.
    begun: [AtomicU64; 2],
}

impl Accesses {
    /// Counts the writes from here on as those of another update.
    pub(crate) fn begin(&self) {
        for (sum, begun) in [&self.on_chip, &self.off_chip].into_iter().zip(&self.begun) {
            begun.store(sum.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Ends what `begin` began.
    pub(crate) fn end(&self) {
        add(&self.updates, 1);
        let sums = [&self.on_chip, &self.off_chip].into_iter().zip(&self.begun);
        for ((sum, begun), most) in sums.zip([&self.on_chip_most, &self.off_chip_most]) {
            let one = sum.load(Ordering::Relaxed) - begun.load(Ordering::Relaxed);
            most.fetch_max(one, Ordering::Relaxed);
        }
    }

    /// Forgets what building wrote.
    pub(crate) fn reset(&self) {
        for sum in [&self.on_chip, &self.off_chip] {
            sum.store(0, Ordering::Relaxed);
        }
    }

    pub(crate) fn on_chip(&self, words: usize) {
        add(&self.on_chip, words);
    }

    pub(crate) fn off_chip(&self, words: usize) {
        add(&self.off_chip, words);
    }

    /// For `Lpm::counters`.
    pub(crate) fn counters(&self) -> Vec<(&'static str, u64)> {
        let of = |sum: &AtomicU64| sum.load(Ordering::Relaxed);
        vec![
            ("updates", of(&self.updates)),
            ("update_on_chip_words", of(&self.on_chip)),
            ("update_off_chip_words", of(&self.off_chip)),
            ("update_on_chip_most", of(&self.on_chip_most)),
            ("update_off_chip_most", of(&self.off_chip_most)),
        ]
    }
}

/// Words of 64 bits that the cells `first..=last` of `size` bytes lie in.
pub(crate) fn words(first: usize, last: usize, size: usize) -> usize {
    (last * size + size - 1) / 8 - first * size / 8 + 1
}

/// Only the writer writes: no read-modify-write.
fn add(sum: &AtomicU64, n: usize) {
    sum.store(sum.load(Ordering::Relaxed) + n as u64, Ordering::Relaxed);
}
