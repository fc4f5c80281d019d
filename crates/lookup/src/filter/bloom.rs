//! Bloom filters: k bits an element in one array of bits.
//!
//! ```text
//!    hash     [ h2 × 32 | h1 × 32 ]        g(i) = h1 + i · h2,  i = 0 .. k
//!                                                  │ · bits / 2^32
//!                                                  ▼
//!    words    [ 0110…  0001…  1000…  … ]   k places of one bit each, 8 B words
//!    counts   [ 1 2 0 … ]                  the writer's: one byte a bit, how many
//!                                          elements have set it; 255 stays for ever
//! ```
//!
//! | operation | cost                                                          |
//! |-----------|---------------------------------------------------------------|
//! | test      | 1 read for most absent elements, k for one that is there      |
//! | insert    | k writes; a counting one 2 k                                  |
//! | memory    | n · lg(1/f) / ln 2 bits for n elements and false positives f  |
//!
//! Source: Bloom, *Space/time trade-offs in hash coding*, 1970; counters: Fan et
//! al., *Summary Cache*, 2000; g(i): Kirsch and Mitzenmacher, *Less Hashing, Same
//! Performance*, 2008. We differ: counters have 8 bits, not 4, and one that is full
//! is never taken back (its bit stays set: a false positive at worst).

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::hash::below;
use crate::hint::prefetch;
use crate::pages::Pages;

/// What readers share, and the writer of a filter that only grows.
///
/// I1: every bit of an element that was inserted, and not removed since, is set.
pub struct Bloom {
    words: Pages<AtomicU64>,
    bits: u64,
    k: u32,
}

impl Bloom {
    /// `bits` zeros (1 to 2^32) of which an element sets `k` (1 to 32); figures
    /// outside are taken as the nearest inside.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn new(bits: u64, k: u32) -> io::Result<Self> {
        let (bits, k) = (bits.clamp(1, 1 << 32), k.clamp(1, 32));
        Ok(Bloom { words: Pages::zeroed(bits.div_ceil(64) as usize)?, bits, k })
    }

    /// A filter for `elements` with false positives at the rate of `rate`.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn for_rate(elements: usize, rate: f64) -> io::Result<Self> {
        let (bits, k) = Bloom::size(elements, rate);
        Bloom::new(bits, k)
    }

    /// The bits for `elements`, and how many each sets, that give the rate of
    /// false positives with the fewest bits: m = n lg(1/f) / ln 2, k = m/n ln 2,
    /// rounded, and at least 1.
    pub fn size(elements: usize, rate: f64) -> (u64, u32) {
        let (n, ln_2) = (elements.max(1) as f64, std::f64::consts::LN_2);
        let bits = (n * (1.0 / rate.clamp(1e-9, 0.99)).log2() / ln_2).ceil().max(1.0);
        (bits as u64, ((bits / n * ln_2).round() as u32).max(1))
    }

    /// False if the element is certainly not there.
    #[inline(always)]
    pub fn contains(&self, hash: u64) -> bool {
        self.contains_all(hashes(hash, self.k))
    }

    /// As [`Bloom::contains`] for an element given by `k` hashes of its own.
    #[inline(always)]
    pub fn contains_all(&self, mut hashes: impl Iterator<Item = u32>) -> bool {
        hashes.all(|hash| self.bit(below(hash, self.bits)))
    }

    /// As [`Bloom::contains`] for `N` elements at a time, given by the lower and the
    /// upper halves of their hashes: the places are computed in vectors, and no
    /// branch depends on a bit.
    #[inline(always)]
    pub fn contains_each<const N: usize>(&self, lower: &[u32; N], upper: &[u32; N]) -> [bool; N] {
        let (mut inside, mut hashes) = ([true; N], *lower);
        // Loops apart: those without reads of the filter become vectors.
        for _ in 0..self.k {
            let places = hashes.map(|hash| below(hash, self.bits) as u32);
            for (hash, &step) in hashes.iter_mut().zip(upper) {
                *hash = hash.wrapping_add(step | 1);
            }
            for (inside, place) in inside.iter_mut().zip(places) {
                *inside &= self.bit(place.into());
            }
        }
        inside
    }

    /// Asks for the line that a test reads first.
    #[inline(always)]
    pub fn prefetch(&self, hash: u64) {
        prefetch(self.cell(below(hash as u32, self.bits)));
    }

    /// Adds an element. One thread at a time may write.
    pub fn insert(&self, hash: u64) {
        hashes(hash, self.k).for_each(|hash| self.set(below(hash, self.bits)));
    }

    /// Bits that each element sets.
    pub fn k(&self) -> u32 {
        self.k
    }

    /// Number of bits.
    pub fn bits(&self) -> u64 {
        self.bits
    }

    /// The bits, the lowest of a word first.
    pub fn words(&self) -> &[AtomicU64] {
        &self.words
    }

    /// Bytes that a test can read.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.words)
    }

    #[inline(always)]
    fn bit(&self, bit: u64) -> bool {
        self.word(bit) >> (bit % 64) & 1 == 1
    }

    #[inline(always)]
    fn word(&self, bit: u64) -> u64 {
        self.cell(bit).load(Ordering::Relaxed)
    }

    /// The word of a bit that `below` gave.
    #[inline(always)]
    fn cell(&self, bit: u64) -> &AtomicU64 {
        debug_assert!(bit < self.bits);
        // SAFETY: `bit` is below `bits`, and `words` has a word for every 64 of them.
        unsafe { self.words.get_unchecked((bit / 64) as usize) }
    }

    fn set(&self, bit: u64) {
        // One writer: no read-modify-write is needed.
        let word = self.word(bit) | 1 << (bit % 64);
        self.cell(bit).store(word, Ordering::Relaxed);
    }

    fn clear(&self, bit: u64) {
        let word = self.word(bit) & !(1 << (bit % 64));
        self.cell(bit).store(word, Ordering::Relaxed);
    }
}

/// The writer of a filter from which elements are removed too.
///
/// I2: `counts[b]` is the number of times that elements now inserted have set
/// bit b, or 255; bit b is set exactly when it is not 0.
pub struct CountingBloom {
    filter: Arc<Bloom>,
    counts: Vec<u8>,
}

impl CountingBloom {
    /// As [`Bloom::new`].
    ///
    /// # Errors
    /// When there is no memory.
    pub fn new(bits: u64, k: u32) -> io::Result<Self> {
        CountingBloom::over(Bloom::new(bits, k)?)
    }

    /// As [`Bloom::for_rate`].
    ///
    /// # Errors
    /// When there is no memory.
    pub fn for_rate(elements: usize, rate: f64) -> io::Result<Self> {
        CountingBloom::over(Bloom::for_rate(elements, rate)?)
    }

    fn over(filter: Bloom) -> io::Result<Self> {
        let mut counts = Vec::new();
        let bits = filter.bits as usize;
        counts.try_reserve_exact(bits).map_err(|_| io::ErrorKind::OutOfMemory)?;
        counts.resize(bits, 0);
        Ok(CountingBloom { filter: Arc::new(filter), counts })
    }

    /// What the readers test.
    pub fn filter(&self) -> &Arc<Bloom> {
        &self.filter
    }

    /// Adds an element; twice counts twice.
    pub fn insert(&mut self, hash: u64) {
        self.insert_all(hashes(hash, self.filter.k));
    }

    /// Adds an element given by `k` hashes of its own.
    pub fn insert_all(&mut self, hashes: impl Iterator<Item = u32>) {
        for bit in hashes.map(|hash| below(hash, self.filter.bits)) {
            let count = &mut self.counts[bit as usize];
            *count = count.saturating_add(1);
            self.filter.set(bit);
        }
    }

    /// Takes an element out that was inserted before: only then is I1 kept for
    /// the others.
    pub fn remove(&mut self, hash: u64) {
        self.remove_all(hashes(hash, self.filter.k));
    }

    /// Takes an element out that was inserted with these hashes.
    pub fn remove_all(&mut self, hashes: impl Iterator<Item = u32>) {
        for bit in hashes.map(|hash| below(hash, self.filter.bits)) {
            let count = &mut self.counts[bit as usize];
            debug_assert!(*count > 0, "removed without having been inserted");
            if *count != u8::MAX {
                *count = count.saturating_sub(1);
            }
            if *count == 0 {
                self.filter.clear(bit);
            }
        }
    }

    /// Heap bytes of the writer's counters.
    pub fn bytes(&self) -> usize {
        self.counts.capacity()
    }
}

/// The k hashes of an element; two may fall on one bit.
#[inline(always)]
fn hashes(hash: u64, k: u32) -> impl Iterator<Item = u32> {
    let (first, step) = (hash as u32, (hash >> 32) as u32 | 1);
    (0..k).map(move |i| first.wrapping_add(i.wrapping_mul(step)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::murmur3_64;
    use proptest::prelude::*;

    fn hash(key: u64) -> u64 {
        murmur3_64(key, 42)
    }

    #[test]
    #[cfg_attr(miri, ignore = "many elements")]
    fn the_rate_of_false_positives_is_the_one_asked_for() {
        for rate in [0.5, 0.3, 0.1, 0.01, 0.001] {
            let filter = Bloom::for_rate(20_000, rate).unwrap();
            (0..20_000).for_each(|key| filter.insert(hash(key)));
            assert!((0..20_000).all(|key| filter.contains(hash(key))));
            let wrong = (1 << 20..(1 << 20) + 100_000).filter(|&key| filter.contains(hash(key)));
            let measured = wrong.count() as f64 / 100_000.0;
            assert!((rate * 0.6..rate * 1.5).contains(&measured), "{rate}: {measured}");
        }
    }

    #[test]
    fn many_at_a_time_are_as_many_one_by_one() {
        // In a large filter hashes that differ by 1 have places of their own.
        for (bits, inside) in [(300, 50), (if cfg!(miri) { 1 << 16 } else { 1 << 28 }, 80)] {
            let filter = Bloom::new(bits, 3).unwrap();
            assert_eq!((filter.bits(), filter.k()), (bits, 3));
            (0..inside).for_each(|key| filter.insert(hash(key)));
            let keys: [u64; 64] = std::array::from_fn(|i| 25 + i as u64);
            let [lower, upper] = [0, 32].map(|shift| keys.map(|key| (hash(key) >> shift) as u32));
            let each = filter.contains_each(&lower, &upper);
            assert_eq!(each, keys.map(|key| filter.contains(hash(key))));
        }
    }

    #[test]
    fn the_papers_sizes() {
        // Bloomfwd, table 5: AS65000, G1 and G2.
        assert_eq!(Bloom::size(971_555, 0.01), (9_312_412, 7));
        let (bits, k) = Bloom::size(113_397, 0.3);
        assert!((bits.abs_diff(284_163) < 10, k) == (true, 2), "{bits}");
        assert_eq!(Bloom::size(971_555, 0.9).1, 1);
    }

    #[test]
    fn odd_figures_are_taken_as_the_nearest() {
        let filter = Bloom::new(0, 0).unwrap();
        assert_eq!((filter.bits(), filter.k(), filter.bytes()), (1, 1, 8));
        filter.insert(7);
        assert!(filter.contains(8), "one bit says yes to all");
    }

    #[test]
    fn a_full_counter_stays() {
        let mut filter = CountingBloom::new(64, 2).unwrap();
        (0..300).for_each(|_| filter.insert(hash(1)));
        (0..300).for_each(|_| filter.remove(hash(1)));
        assert!(filter.filter().contains(hash(1)));
        // Elements add eight each to the only counter, which holds 254 and then is full.
        for (elements, left) in [(31, 0), (32, u8::MAX)] {
            let mut filter = CountingBloom::new(1, 8).unwrap();
            (0..elements).for_each(|key| filter.insert(hash(key)));
            (0..elements).for_each(|key| filter.remove(hash(key)));
            assert_eq!((&filter.counts[..], filter.filter().bit(0)), (&[left][..], left != 0));
        }
    }

    const MOST_STEPS: usize = if cfg!(miri) { 40 } else { 200 };

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 64 }))]
        #[test]
        fn nothing_that_is_there_is_denied(
            steps in proptest::collection::vec((0..40_u64, any::<bool>()), 0..MOST_STEPS),
            bits in 1..400_u64, k in 1..9_u32,
        ) {
            let mut filter = CountingBloom::new(bits, k).unwrap();
            let mut held = Vec::new();
            for (key, insert) in steps {
                if insert {
                    filter.insert(hash(key));
                    held.push(key);
                } else if let Some(at) = held.iter().position(|&other| other == key) {
                    filter.remove(hash(key));
                    held.swap_remove(at);
                }
                prop_assert!(held.iter().all(|&key| filter.filter().contains(hash(key))));
            }
            held.drain(..).for_each(|key| filter.remove(hash(key)));
            // Nothing is left but what a full counter keeps.
            for (bit, &count) in (0..).zip(&filter.counts) {
                prop_assert!(matches!(count, 0 | u8::MAX), "bit {bit}: {count}");
                prop_assert_eq!(filter.filter().bit(bit), count != 0, "bit {}", bit);
            }
        }
    }
}
