//! What readers share: buckets, versions, and the lookups of Algorithms 1 to 3.

use std::mem::MaybeUninit;
use std::sync::Arc;

use crate::exact::lines::{HALF, Half, Lines};
use crate::exact::search::{Buckets, Slot};
use crate::exact::{ABSENT, Exact, Key};
use crate::hash::murmur3_64;
use crate::hint::prefetch;
use crate::sync::{AtomicU64, Guard, Ordering, fence};

/// The table of a [`super::CuckooWriter`].
///
/// - I1: there are 2^`bits` buckets, `bits` at most 29, and [`VERSIONS`] versions.
/// - I2: a key is there at most once, in one of its two buckets, or in both while
///   their versions are odd.
/// - I3: a word changes only while the version of its bucket is odd.
pub struct Cuckoo {
    pub(super) buckets: Lines<Half>,
    pub(super) bits: u32,
    versions: Box<[AtomicU64]>,
    pub(super) seed: u64,
    pub(super) steps: Steps,
}

/// The steps of the paper's factor analysis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steps {
    pub(super) atomic: bool,
    pub(super) batch: usize,
    pub(super) prefetch: Prefetch,
}

/// Which buckets are asked for before they are read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Prefetch {
    None,
    TwoRound,
    Both,
}

/// A key on its way: its buckets, and their versions as they were before.
#[derive(Clone, Copy)]
struct Probe {
    key: u64,
    first: u32,
    second: u32,
    versions: [u64; 2],
}

impl Cuckoo {
    pub(super) fn new(buckets: Lines<Half>, bits: u32, seed: u64, steps: Steps) -> Cuckoo {
        let versions = (0..VERSIONS).map(|_| AtomicU64::new(0)).collect();
        Cuckoo { buckets, bits, versions, seed, steps }
    }

    /// The two buckets of `key`, which differ.
    #[inline(always)]
    pub(super) fn buckets_of(&self, key: u64) -> [usize; 2] {
        let hash = murmur3_64(key, self.seed);
        let first = (hash >> (64 - self.bits)) as usize;
        let distance = hash as usize & ((1 << self.bits) - 1) | 1;
        [first, first ^ distance]
    }

    #[inline(always)]
    fn version(&self, bucket: usize) -> &AtomicU64 {
        &self.versions[bucket % VERSIONS]
    }

    /// Algorithm 3: all that a batch needs is asked for, then read.
    fn batch<const ATOMIC: bool>(&self, ask: Prefetch, keys: &[Key], values: &mut [u16]) {
        // Not zeroed: that would be 8 KB of stores for one key.
        let mut places = [const { MaybeUninit::uninit() }; BATCH];
        let places = &mut places[..keys.len()];
        for (place, key) in places.iter_mut().zip(keys) {
            let key = number(*key);
            let [first, second] = self.buckets_of(key);
            place.write(Probe {
                key,
                first: first as u32,
                second: second as u32,
                versions: [0; 2],
            });
            if ask != Prefetch::None {
                prefetch(&self.buckets[first]);
            }
            if ask == Prefetch::Both {
                prefetch(&self.buckets[second]);
            }
        }
        // SAFETY: the loop has written each of them, one for a key.
        let probes = unsafe { &mut *(std::ptr::from_mut(places) as *mut [Probe]) };
        for probe in probes.iter_mut() {
            probe.versions = self.snapshot::<ATOMIC>(probe);
        }
        for (probe, value) in probes.iter().zip(values.iter_mut()) {
            *value = find(&self.buckets[probe.first as usize], probe.key);
            if *value == ABSENT && ask == Prefetch::TwoRound {
                prefetch(&self.buckets[probe.second as usize]);
            }
        }
        for (probe, value) in probes.iter().zip(values.iter_mut()) {
            if *value == ABSENT {
                *value = find(&self.buckets[probe.second as usize], probe.key);
            }
        }
        fence(Ordering::Acquire);
        for (probe, value) in probes.iter().zip(values) {
            if !self.unchanged::<ATOMIC>(probe) {
                *value = self.lookup_one::<ATOMIC>(probe.key);
            }
        }
    }

    /// The value of a key as a number.
    pub(super) fn lookup_number(&self, key: u64) -> u16 {
        self.one_by(self.steps, key)
    }

    fn one_by(&self, steps: Steps, key: u64) -> u16 {
        match steps.atomic {
            true => self.lookup_one::<true>(key),
            false => self.lookup_one::<false>(key),
        }
    }

    fn all_by(&self, steps: Steps, keys: &[Key], values: &mut [u16]) {
        assert_eq!(keys.len(), values.len());
        for (keys, values) in keys.chunks(steps.batch).zip(values.chunks_mut(steps.batch)) {
            match steps.atomic {
                true => self.batch::<true>(steps.prefetch, keys, values),
                false => self.batch::<false>(steps.prefetch, keys, values),
            }
        }
    }

    /// Algorithms 1 and 2: again until nothing has changed meanwhile.
    fn lookup_one<const ATOMIC: bool>(&self, key: u64) -> u16 {
        let [first, second] = self.buckets_of(key);
        let mut probe = Probe { key, first: first as u32, second: second as u32, versions: [0; 2] };
        for tries in 1_u32.. {
            probe.versions = self.snapshot::<ATOMIC>(&probe);
            let mut value = find(&self.buckets[first], key);
            if value == ABSENT {
                value = find(&self.buckets[second], key);
            }
            fence(Ordering::Acquire);
            if self.unchanged::<ATOMIC>(&probe) {
                return value;
            }
            wait(tries);
        }
        unreachable!("the loop has no end")
    }

    #[inline(always)]
    fn snapshot<const ATOMIC: bool>(&self, probe: &Probe) -> [u64; 2] {
        [probe.first, probe.second].map(|bucket| {
            let version = self.version(bucket as usize);
            // The baseline's read-modify-write costs the line in every reader.
            if ATOMIC {
                version.fetch_add(0, Ordering::SeqCst)
            } else {
                version.load(Ordering::Acquire)
            }
        })
    }

    /// True when both versions are as they were, and even.
    #[inline(always)]
    fn unchanged<const ATOMIC: bool>(&self, probe: &Probe) -> bool {
        let now = [probe.first, probe.second].map(|bucket| {
            let version = self.version(bucket as usize);
            if ATOMIC {
                version.fetch_add(0, Ordering::SeqCst)
            } else {
                version.load(Ordering::Relaxed)
            }
        });
        now == probe.versions && (now[0] | now[1]) & 1 == 0
    }

    /// Writes words of `buckets` while their versions are odd (I3); the writer's.
    pub(super) fn change(&self, buckets: [usize; 2], write: impl FnOnce()) {
        let one = buckets[0] % VERSIONS == buckets[1] % VERSIONS;
        let versions = &buckets[usize::from(one)..];
        versions.iter().for_each(|&bucket| self.advance(bucket, Ordering::Relaxed));
        fence(Ordering::Release);
        write();
        versions.iter().for_each(|&bucket| self.advance(bucket, Ordering::Release));
    }

    fn advance(&self, bucket: usize, order: Ordering) {
        let version = self.version(bucket);
        if self.steps.atomic {
            version.fetch_add(1, Ordering::SeqCst);
        } else {
            version.store(version.load(Ordering::Relaxed) + 1, order);
        }
    }

    pub(super) fn word(&self, slot: Slot) -> u64 {
        self.buckets[slot.bucket].own(slot.slot)
    }
}

impl Exact for Cuckoo {
    fn lookup(&self, _: Guard<'_>, key: Key) -> u16 {
        self.lookup_number(number(key))
    }

    fn lookup_batch(&self, _: Guard<'_>, keys: &[Key], values: &mut [u16]) {
        self.all_by(self.steps, keys, values);
    }
}

/// A table read by other steps than its own.
pub(super) struct By {
    pub(super) table: Arc<Cuckoo>,
    pub(super) steps: Steps,
}

impl Exact for By {
    fn lookup(&self, _: Guard<'_>, key: Key) -> u16 {
        self.table.one_by(self.steps, number(key))
    }

    fn lookup_batch(&self, _: Guard<'_>, keys: &[Key], values: &mut [u16]) {
        self.table.all_by(self.steps, keys, values);
    }
}

impl Buckets for &Cuckoo {
    const SLOTS: usize = HALF;
    const MOST: usize = 512;

    fn empty(&self, bucket: usize) -> Option<Slot> {
        let free = |&slot: &usize| self.buckets[bucket].own(slot) == 0;
        (0..HALF).find(free).map(|slot| Slot { bucket, slot })
    }

    fn other(&self, slot: Slot) -> usize {
        let [first, second] = self.buckets_of(self.word(slot) >> 16);
        if slot.bucket == first { second } else { first }
    }

    fn ask(&self, bucket: usize) {
        prefetch(&self.buckets[bucket]);
    }

    fn move_entry(&mut self, from: Slot, to: Slot) {
        self.change([from.bucket, to.bucket], || {
            self.buckets[to.bucket].store(to.slot, self.word(from));
            self.buckets[from.bucket].store(from.slot, 0);
        });
    }
}

/// The value of `key` in `bucket`, or [`ABSENT`]. A `key` of more than 48 bits is
/// in none.
#[inline(always)]
fn find(bucket: &Half, key: u64) -> u16 {
    let mut found = 0;
    for slot in 0..HALF {
        let word = bucket.own(slot);
        found = if word >> 16 == key && word != 0 { word as u16 } else { found };
    }
    found.wrapping_sub(1) // 0, of an empty slot too, is no value
}

/// The key as a number: the domain above the 48 bits of the address.
#[inline(always)]
pub(super) fn number(key: Key) -> u64 {
    key.bits() >> 4
}

/// The writer is within a change: at most a few stores, unless it was stopped.
fn wait(tries: u32) {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(not(loom))]
    if tries.is_multiple_of(64) {
        std::thread::yield_now();
    } else {
        std::hint::spin_loop();
    }
    let _ = tries;
}

/// "A few thousand counters in total" (2.2).
const VERSIONS: usize = if cfg!(loom) { 2 } else { 8192 };

/// The most keys of a batch.
pub(super) const BATCH: usize = 256;
