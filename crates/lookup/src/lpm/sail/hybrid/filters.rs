//! A Bloom filter for each prefix length: which lengths are worth a hash probe.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::filter::{Bloom, CountingBloom};

/// What readers share.
///
/// I1: a length of which a prefix was inserted, and not removed since, has its bit.
pub(super) struct Filters {
    by_len: Vec<Arc<Bloom>>,
    /// Bit n - 1 stands for length n; the upper half first.
    lengths: [AtomicU64; 2],
}

impl Filters {
    /// The lengths present; bit n - 1 stands for length n.
    #[inline(always)]
    pub(super) fn lengths(&self) -> u128 {
        let [high, low] = [0, 1].map(|i| self.lengths[i].load(Ordering::Acquire));
        u128::from(high) << 64 | u128::from(low)
    }

    /// The filter of a length.
    #[inline(always)]
    pub(super) fn of(&self, len: u8) -> &Bloom {
        &self.by_len[usize::from(len) - 1]
    }

    /// Bytes that a test can read.
    pub(super) fn bytes(&self) -> usize {
        self.by_len.iter().map(|filter| filter.bytes()).sum()
    }
}

/// The one thread that changes them.
///
/// I2: `counts[n - 1]` prefixes of length n are in its filter.
pub(super) struct FiltersWriter {
    table: Arc<Filters>,
    counting: Vec<CountingBloom>,
    counts: Vec<usize>,
    rooms: Vec<usize>,
}

impl FiltersWriter {
    /// Empty filters for `counts[n - 1]` prefixes of length n, with false positives
    /// at the rate of `rate` where there are so many.
    ///
    /// # Errors
    /// When there is no memory.
    pub(super) fn new(counts: &[usize], rate: f64) -> io::Result<Self> {
        let rooms: Vec<_> = counts.iter().map(|&count| count.max(LEAST)).collect();
        let filters = rooms.iter().map(|&room| CountingBloom::for_rate(room, rate));
        let counting: Vec<_> = filters.collect::<io::Result<_>>()?;
        let by_len = counting.iter().map(|filter| filter.filter().clone()).collect();
        let table = Arc::new(Filters { by_len, lengths: Default::default() });
        Ok(FiltersWriter { table, counting, counts: vec![0; counts.len()], rooms })
    }

    /// What the readers test.
    pub(super) fn table(&self) -> &Arc<Filters> {
        &self.table
    }

    /// Adds a prefix of `len` bits that is not there.
    pub(super) fn insert(&mut self, len: u8, hash: u64) {
        let at = usize::from(len) - 1;
        self.counting[at].insert(hash);
        self.counts[at] += 1;
        if self.counts[at] == 1 {
            self.show();
        }
    }

    /// Takes out a prefix of `len` bits that is there.
    pub(super) fn remove(&mut self, len: u8, hash: u64) {
        let at = usize::from(len) - 1;
        self.counting[at].remove(hash);
        self.counts[at] -= 1;
        if self.counts[at] == 0 {
            self.show();
        }
    }

    /// True when a filter holds twice what it was made for: time to build anew.
    pub(super) fn is_crowded(&self) -> bool {
        self.counts.iter().zip(&self.rooms).any(|(&count, &room)| count > 2 * room)
    }

    /// Heap bytes of the counters.
    pub(super) fn bytes(&self) -> usize {
        self.counting.iter().map(CountingBloom::bytes).sum()
    }

    fn show(&self) {
        let there = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        let lengths = there.fold(0, |lengths, (at, _)| lengths | 1_u128 << at);
        self.table.lengths[0].store((lengths >> 64) as u64, Ordering::Release);
        self.table.lengths[1].store(lengths as u64, Ordering::Release);
    }
}

/// Prefixes that the filter of a rare length has room for.
const LEAST: usize = 256;
