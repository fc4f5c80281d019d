//! Cuckoo filter: a short fingerprint an element, in one of two buckets of four.
//!
//! ```text
//!    hash      [ bucket × 32 | unused | fingerprint f × 4..16 ]    f is never 0
//!                    │ · m / 2^32                                       m buckets
//!                    ▼
//!    i                                      j = (H(f) - i) mod m   and back:
//!    ▼                                      ▼                      i = (H(f) - j) mod m
//!    [ f f 0 f ] [ 0 0 0 0 ] [ f 0 0 0 ] … [ f f f f ]             0 = free
//!    4 × 16 bits, one word (4 × 8, half a word, for f of 8 bits and less)
//!
//!    stash     8 places for fingerprints that found none; looked at while not empty
//!    version   odd while a fingerprint is on its way from one bucket to another
//! ```
//!
//! | operation | cost                                                            |
//! |-----------|-----------------------------------------------------------------|
//! | test      | 2 words, that do not wait for each other                        |
//! | insert    | 2 reads, 1 write; above a load of 0.8 moves, found by breadth   |
//! | remove    | 2 reads, 1 write                                                |
//! | memory    | 2 bytes a place (1 for f of 8 bits and less)                    |
//! | errors    | false positives: 8 / 2^f for each full pair of buckets          |
//!
//! Source: Fan et al., *Cuckoo Filter: Practically Better Than Bloom*, CoNEXT
//! 2014, as CuVPP uses it; readers beside the writer after Fan et al., *MemC3*,
//! NSDI 2013. We differ: the other bucket is H(f) - i, not i xor H(f), so that any
//! number of buckets will do (3 M entries are 6 MB, not 8); a path of moves is
//! searched first and walked from its free end, so that a fingerprint is in two
//! places for a moment and never in none; what finds no place waits in a stash,
//! and only when that is full the insertion fails, changing nothing.
//!
//! **A removal takes nobody else's fingerprint.** Elements with one fingerprint f
//! and one of two buckets in common have both in common: the other bucket is a
//! function of the first and of f, and its own inverse. So the filter holds, for
//! each f and pair of buckets, as many copies as there are such elements (I1), no
//! copy belongs to one element more than to another, and taking any one out for
//! one element leaves one for each of the others. This asks of the caller that he
//! removes only what he has inserted; a table behind the filter knows.

mod writer;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use crate::hash::below;
use crate::hint::prefetch;
use crate::pages::Pages;
pub use writer::CuckooWriter;

/// What readers share.
///
/// - I1: where the writer rests, the copies of f in buckets i and j and of (f, i,
///   j) in the stash are as many as the elements with that fingerprint and pair.
/// - I2: at any moment each of them is in at least one place; a reader may miss it
///   only if `version` was odd or changed between its reads.
/// - I3: `stashed` is not less than the number of places of the stash in use.
/// - I4: a bucket's number, from a `Spot` or `other`, is below m, and `words` has a
///   word for each bucket (two, where `layout` says so, in one).
pub struct Cuckoo {
    words: Pages<AtomicU64>,
    /// m, the number of buckets.
    buckets: u64,
    layout: Layout,
    version: AtomicU64,
    stashed: AtomicU32,
    stash: [AtomicU64; STASH],
}

/// How a bucket lies in a word.
#[derive(Clone, Copy)]
struct Layout {
    /// Bits of a fingerprint.
    bits: u32,
    /// Bits of a lane: 8 or 16.
    lane: u32,
    /// Two buckets a word: 1; one: 0.
    halves: u32,
    /// One in each lane, and the top bit of each.
    ones: u64,
    tops: u64,
}

/// Where an element can be: two buckets, and its fingerprint. Worth keeping from
/// [`Cuckoo::prefetch`] to [`Cuckoo::holds`]; of use to the filter that gave it only.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Spot {
    at: u32,
    other: u32,
    fingerprint: u32,
}

/// The state of a filter that a reader saw before it tested: see
/// [`Cuckoo::is_still`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Still(u64);

/// There is no place left: build a larger filter, or one with another seed.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the cuckoo filter found no place at {load} % load")]
pub struct Full {
    /// Places in use, in percent.
    pub load: u8,
}

impl Cuckoo {
    /// Bytes that a filter of so many entries takes.
    pub fn size(entries: usize, fingerprint_bits: u32) -> usize {
        entries.div_ceil(SLOTS) * SLOTS * if fingerprint_bits <= 8 { 1 } else { 2 }
    }

    /// False if the element is certainly not there, and the writer has moved
    /// nothing meanwhile ([`Cuckoo::is_still`]).
    #[inline(always)]
    pub fn contains(&self, hash: u64) -> bool {
        self.holds(self.spot(hash))
    }

    /// As [`Cuckoo::contains`], of an element given by its spot in this filter.
    #[inline(always)]
    pub(crate) fn holds(&self, spot: Spot) -> bool {
        let wanted = self.layout.ones * u64::from(spot.fingerprint);
        let here = self.layout.has_zero(self.bucket(spot.at) ^ wanted);
        let there = self.layout.has_zero(self.bucket(spot.other) ^ wanted);
        here | there || (self.stashed.load(Ordering::Acquire) > 0 && self.in_stash(spot))
    }

    /// Asks for the two lines that a test reads.
    #[inline(always)]
    pub(crate) fn prefetch(&self, spot: Spot) {
        prefetch(self.word(spot.at));
        prefetch(self.word(spot.other));
    }

    /// To be taken before a series of tests, and handed to [`Cuckoo::is_still`].
    #[inline(always)]
    pub fn version(&self) -> Still {
        Still(self.version.load(Ordering::Acquire))
    }

    /// True if nothing was on its way from bucket to bucket since `before`: what
    /// the tests denied was not there. Else they are to be repeated.
    #[inline(always)]
    pub fn is_still(&self, before: Still) -> bool {
        fence(Ordering::Acquire);
        before.0.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == before.0
    }

    /// Entries that there is room for at most.
    pub fn entries(&self) -> usize {
        self.buckets as usize * SLOTS
    }

    /// Bytes that a test can read.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.words) + size_of_val(&self.stash)
    }

    /// Where the element of `hash` can be.
    #[inline(always)]
    pub(crate) fn spot(&self, hash: u64) -> Spot {
        let part = hash as u32 & ((1 << self.layout.bits) - 1);
        let fingerprint = part + u32::from(part == 0); // 0 is a free lane
        let at = below((hash >> 32) as u32, self.buckets) as u32;
        Spot { at, other: self.other(at, fingerprint), fingerprint }
    }

    /// The other bucket of a fingerprint in `at`; its own inverse.
    #[inline(always)]
    fn other(&self, at: u32, fingerprint: u32) -> u32 {
        let (sum, at) = (below(fingerprint.wrapping_mul(0x9e37_79b1), self.buckets), at.into());
        let other = if sum >= at { sum - at } else { sum + self.buckets - at };
        other as u32 // less than m
    }

    /// The lanes of a bucket; above them, zeros or another bucket.
    #[inline(always)]
    fn bucket(&self, at: u32) -> u64 {
        self.word(at).load(Ordering::Acquire) >> (32 * (at & self.layout.halves))
    }

    #[inline(always)]
    fn word(&self, at: u32) -> &AtomicU64 {
        let place = (at >> self.layout.halves) as usize;
        debug_assert!(place < self.words.len());
        // Without checks, here, in the Bloom filter and in `Hashed`: 11 % fewer
        // instructions a lookup of `cuvpp`, 9 % of `vpp-hash`, 8 % of `vpp-bloom`.
        // SAFETY: I4.
        unsafe { self.words.get_unchecked(place) }
    }

    #[cold]
    fn in_stash(&self, spot: Spot) -> bool {
        let wanted = spot.stashed();
        self.stash.iter().any(|place| place.load(Ordering::Acquire) == wanted)
    }
}

impl Spot {
    /// The same from either bucket; never 0, for a fingerprint is not.
    fn stashed(self) -> u64 {
        u64::from(self.at.min(self.other)) << 16 | u64::from(self.fingerprint)
    }
}

impl Layout {
    fn new(bits: u32) -> Self {
        let bits = bits.clamp(4, 16);
        if bits <= 8 {
            Layout { bits, lane: 8, halves: 1, ones: 0x0101_0101, tops: 0x8080_8080 }
        } else {
            let (ones, tops) = (0x0001_0001_0001_0001, 0x8000_8000_8000_8000);
            Layout { bits, lane: 16, halves: 0, ones, tops }
        }
    }

    /// True when a lane is 0 (Mycroft's test: exact as to whether there is one).
    #[inline(always)]
    fn has_zero(self, bucket: u64) -> bool {
        bucket.wrapping_sub(self.ones) & !bucket & self.tops != 0
    }

    fn lane(self, bucket: u64, slot: usize) -> u32 {
        (bucket >> (self.lane * slot as u32)) as u32 & ((1 << self.lane) - 1)
    }

    /// The first lane of `bucket` that is `fingerprint` (0: that is free).
    fn find(self, bucket: u64, fingerprint: u32) -> Option<usize> {
        (0..SLOTS).find(|&slot| self.lane(bucket, slot) == fingerprint)
    }
}

/// Lanes of a bucket.
const SLOTS: usize = 4;

/// Places beside the buckets.
const STASH: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::murmur3_64;
    use proptest::prelude::*;
    use std::sync::atomic::AtomicBool;
    use testing::Stops;

    fn hash(key: u64) -> u64 {
        murmur3_64(key, 42)
    }

    fn held(writer: &CuckooWriter) -> usize {
        let layout = writer.filter().layout;
        let of = |at: u64| {
            (0..SLOTS).filter(|&s| layout.lane(writer.filter().bucket(at as u32), s) != 0).count()
        };
        let stash = writer.filter().stashed.load(Ordering::Relaxed) as usize;
        (0..writer.filter().buckets).map(of).sum::<usize>() + stash
    }

    #[test]
    #[cfg_attr(miri, ignore = "many elements")]
    fn it_fills_to_95_percent_and_errs_as_rarely_as_it_should() {
        for (bits, most) in [(16, 0.0002), (12, 0.003), (8, 0.04)] {
            let mut writer = CuckooWriter::new(100_000, bits, 95).unwrap();
            (0..95_000).for_each(|key| writer.insert(hash(key)).unwrap());
            assert_eq!(writer.insert(hash(1 << 30)), Err(Full { load: 95 }));
            assert!((0..95_000).all(|key| writer.filter().contains(hash(key))));
            assert!(writer.moves() > 0);
            let beyond = (1 << 20)..(1 << 20) + 200_000;
            let wrong = beyond.filter(|&key| writer.filter().contains(hash(key))).count();
            assert!((wrong as f64) < most * 200_000.0, "{bits} bits: {wrong}");
            assert_eq!(held(&writer), 95_000);
            (0..95_000).for_each(|key| assert!(writer.remove(hash(key))));
            assert_eq!((writer.len(), held(&writer)), (0, 0));
        }
        assert_eq!(Cuckoo::size(3_000_000, 16), 6_000_000); // the paper's 6 MB
        assert_eq!(Cuckoo::size(3_000_000, 8), 3_000_000);
    }

    #[test]
    fn one_fingerprint_sixteen_times_and_then_no_more() {
        let mut writer = CuckooWriter::new(400, 16, 100).unwrap();
        // Two buckets and the stash.
        (0..16).for_each(|_| writer.insert(hash(5)).unwrap());
        assert!(writer.insert(hash(5)).is_err());
        for left in (0..16).rev() {
            assert!(writer.filter().contains(hash(5)));
            assert!(writer.remove(hash(5)));
            assert_eq!((writer.len(), held(&writer)), (left, left));
        }
        assert!(!writer.filter().contains(hash(5)) && !writer.remove(hash(5)));
    }

    #[test]
    fn the_stash_empties_as_lanes_become_free() {
        let mut writer = CuckooWriter::new(400, 16, 100).unwrap();
        (0..10).for_each(|_| writer.insert(hash(5)).unwrap());
        for left in (0..10).rev() {
            assert!(writer.remove(hash(5)));
            let stashed = writer.filter().stashed.load(Ordering::Relaxed);
            assert_eq!(stashed, u32::saturating_sub(left, 8));
            assert_eq!(writer.filter().contains(hash(5)), left > 0);
            assert!(!writer.filter().contains(hash(6)));
        }
    }

    #[test]
    fn nothing_is_believed_while_something_moves() {
        let mut writer = CuckooWriter::new(400, 16, 100).unwrap();
        let filter = writer.filter().clone();
        let before = filter.version();
        assert!(filter.is_still(before));
        writer.moving(|_| {
            assert!(!filter.is_still(before) && !filter.is_still(filter.version()));
        });
        assert!(!filter.is_still(before) && filter.is_still(filter.version()));
    }

    #[test]
    fn the_other_bucket_of_the_other_bucket_is_the_first() {
        for entries in [1, 4, 5, 12, 400, 3_000_001] {
            let filter = CuckooWriter::new(entries, 16, 95).unwrap().filter().clone();
            for key in 0..if cfg!(miri) { 20 } else { 2000 } {
                let spot = filter.spot(hash(key));
                assert!(u64::from(spot.at.max(spot.other)) < filter.buckets);
                assert_eq!(filter.other(spot.other, spot.fingerprint), spot.at);
                assert_ne!(spot.fingerprint, 0);
            }
        }
    }

    #[test]
    fn what_stays_is_never_denied_while_others_come_and_go() {
        let mut writer = CuckooWriter::new(400, 12, 97).unwrap();
        let staying = if cfg!(miri) { 30 } else { 300 };
        assert_eq!(writer.moves(), 0);
        (0..staying).for_each(|key| writer.insert(hash(key)).unwrap());
        let (filter, stop) = (writer.filter().clone(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let stops = Stops(&stop);
            let reader = scope.spawn(|| {
                let (mut rounds, mut repeated) = (0, 0);
                while !stop.load(Ordering::Relaxed) {
                    let before = filter.version();
                    let denied = (0..staying).find(|&key| !filter.contains(hash(key)));
                    if filter.is_still(before) {
                        assert_eq!(denied, None);
                        rounds += 1;
                    } else {
                        repeated += 1;
                    }
                }
                (rounds, repeated)
            });
            let mut others = Vec::new();
            for key in 1000..if cfg!(miri) { 1100 } else { 60_000 } {
                match writer.insert(hash(key)) {
                    Ok(()) => others.push(key),
                    Err(_) => others.drain(..).for_each(|key| assert!(writer.remove(hash(key)))),
                }
            }
            drop(stops);
            assert!(writer.moves() > 0 || cfg!(miri));
            let (rounds, repeated) = reader.join().unwrap();
            assert!(rounds + repeated > 0);
        });
    }

    const MOST_STEPS: usize = if cfg!(miri) { 40 } else { 300 };

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 128 }))]
        #[test]
        fn copies_are_as_many_as_elements(
            steps in proptest::collection::vec((0..60_u64, any::<bool>()), 0..MOST_STEPS),
            entries in 1..100_usize, bits in 4..17_u32,
        ) {
            let mut writer = CuckooWriter::new(entries, bits, 100).unwrap();
            let mut inside = Vec::new();
            for (key, insert) in steps {
                if insert {
                    if writer.insert(hash(key)).is_ok() {
                        inside.push(key);
                    }
                } else if let Some(at) = inside.iter().position(|&other| other == key) {
                    prop_assert!(writer.remove(hash(key)));
                    inside.swap_remove(at);
                }
                prop_assert_eq!(held(&writer), inside.len());
                prop_assert!(inside.iter().all(|&key| writer.filter().contains(hash(key))));
            }
        }
    }
}
