//! A hash table of bounded index and extensible buckets: what the engines that
//! search by hash keep their prefixes in.
//!
//! ```text
//!    hash of 32 bits ──· n / 2^32──► index [ count 5 | place 27 ]     4 B a bucket, n for ever
//!                                                │
//!    cells   [ … | record record record | … ]  ◄─┘   the records of one bucket, together
//!    record  W words: the key, but for the low half of the last, which is the value
//!            W = 1:  key 32 │ value 32          W = 2:  64 bits │ 32 │ value 32
//!    count   31: the first record's first word says how many follow
//! ```
//!
//! | operation | cost                                                         |
//! |-----------|--------------------------------------------------------------|
//! | find      | 2 dependent reads (a line of the index, a line or two of records) |
//! | insert    | the bucket's block is written anew beside it, one store shows it |
//! | change    | one store                                                    |
//! | memory    | 8 W bytes a record, 4 a bucket, up to a quarter more after updates; |
//! |           | where it is half, [`HashedWriter::is_loose`] says so         |
//!
//! Source: Barach and Batacharia, *Bounded index extensible hash-based IPv6
//! address lookup method*, US 7325059, as VPP's `bihash`. We differ: a bucket's
//! block has as many records as it needs, not pages of a power of two; readers
//! take no lock and see a block before or after a change, never in between.

mod run;
mod tally;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

pub(super) use run::{BURST, Found, Run, prepares};
pub(super) use tally::{Sums, Tally};

use super::export::Words;
use super::space::Space;
use crate::hash::below;
use crate::hint::prefetch;
use crate::pages::Pages;
use crate::sync::{Congested, Domain};

/// What readers share.
///
/// - I1: a header names a block that lies in `cells`, and was written before; of
///   the block only values are changed until every thread that was online when
///   the header went has quiesced.
/// - I2: no key is twice in a block; a value of 0 stands for an absent key.
pub(super) struct Hashed<const W: usize> {
    index: Pages<AtomicU32>,
    cells: Pages<[AtomicU64; W]>,
    touched: Arc<AtomicU32>,
}

impl<const W: usize> Hashed<W> {
    /// Asks for the bucket's header.
    #[inline(always)]
    pub(super) fn prefetch(&self, hash: u32) {
        prefetch(self.place(hash));
    }

    /// The bucket's header; 0 for an empty one.
    #[inline(always)]
    pub(super) fn header(&self, hash: u32) -> u32 {
        self.place(hash).load(Ordering::Acquire)
    }

    /// Asks for the records of a bucket that is not empty.
    #[inline(always)]
    pub(super) fn prefetch_records(&self, header: u32) {
        let (place, count) = parts(header);
        prefetch(&self.cells[place]);
        prefetch(&self.cells[place + count.max(1) - 1]);
    }

    /// The value of `key` in the bucket of `header`; 0 if it is not there.
    #[inline(always)]
    pub(super) fn find(&self, header: u32, key: &[u64; W]) -> u32 {
        for record in self.records(header) {
            let last = record[W - 1].load(Ordering::Acquire);
            let same = |i: usize| record[i].load(Ordering::Relaxed) == key[i];
            if (last ^ key[W - 1]) >> 32 == 0 && (0..W - 1).all(same) {
                return last as u32;
            }
        }
        0
    }

    /// Appends index and records.
    pub(super) fn copy(&self, to: &mut Words) {
        to.arrays.push(self.index.iter().map(|header| header.load(Ordering::Relaxed)).collect());
        let touched = self.touched.load(Ordering::Relaxed) as usize;
        to.array_64(self.cells[..touched].as_flattened().iter());
    }

    /// Buckets.
    pub(super) fn buckets(&self) -> u32 {
        self.index.len() as u32 // less than the places of a header
    }

    /// Bytes that a search can read, and free blocks between them.
    pub(super) fn bytes(&self) -> usize {
        let touched = self.touched.load(Ordering::Relaxed) as usize;
        size_of_val(&*self.index) + touched * size_of::<[AtomicU64; W]>()
    }

    #[inline(always)]
    fn records(&self, header: u32) -> &[[AtomicU64; W]] {
        let (place, count) = parts(header);
        if count < MANY {
            return &self.cells[place..place + count]; // cannot panic: I1
        }
        self.many(place)
    }

    #[cold]
    fn many(&self, place: usize) -> &[[AtomicU64; W]] {
        let count = self.cells[place][0].load(Ordering::Relaxed) as usize;
        &self.cells[place + 1..place + 1 + count] // cannot panic: I1
    }

    #[inline(always)]
    fn place(&self, hash: u32) -> &AtomicU32 {
        let place = below(hash, self.index.len() as u64) as usize;
        // SAFETY: `below` gives less than the length, which is not 0.
        unsafe { self.index.get_unchecked(place) }
    }
}

/// The one thread that changes a table.
pub(super) struct HashedWriter<const W: usize> {
    table: Arc<Hashed<W>>,
    space: Space,
    len: usize,
    block: Vec<[u64; W]>,
}

/// The table has no room for another record: build a larger one.
#[derive(Debug)]
pub(super) struct NoRoom;

impl<const W: usize> HashedWriter<W> {
    /// A table of records (key, with value 0 to be left out) and their hashes,
    /// each key once; one bucket a record.
    pub(super) fn build(
        domain: &Arc<Domain>,
        records: &[(u32, [u64; W])],
    ) -> io::Result<HashedWriter<W>> {
        let len = records.len();
        let units = (len * 4 + SPARE).min(PLACES);
        let space = Space::new(domain, units as u32, BLOCKS_IN_LIMBO);
        let table = Hashed {
            index: Pages::zeroed(len.max(LEAST_BUCKETS))?,
            cells: Pages::zeroed(units)?,
            touched: space.touched(),
        };
        let mut writer = HashedWriter { table: Arc::new(table), space, len, block: Vec::new() };
        writer.fill(records).map_err(|NoRoom| io::ErrorKind::OutOfMemory)?;
        Ok(writer)
    }

    /// What the readers search.
    pub(super) fn table(&self) -> &Arc<Hashed<W>> {
        &self.table
    }

    /// Says whether the writer may go on; to be asked before an update.
    ///
    /// # Errors
    /// When too many blocks wait for readers.
    pub(super) fn admit(&mut self) -> Result<(), Congested> {
        self.space.admit()
    }

    /// The value of `key`, 0 if it is not there.
    pub(super) fn get(&self, hash: u32, key: &[u64; W]) -> u32 {
        self.table.find(self.table.header(hash), key)
    }

    /// Inserts or changes; returns the value before, 0 for none.
    pub(super) fn set(&mut self, hash: u32, key: &[u64; W], value: u32) -> Result<u32, NoRoom> {
        debug_assert!(value != 0);
        let header = self.table.header(hash);
        if let Some((record, old)) = self.record(header, key) {
            record.store(key[W - 1] | u64::from(value), Ordering::Release);
            self.len += usize::from(old == 0);
            return Ok(old);
        }
        if self.len >= CROWDED * self.table.index.len() {
            return Err(NoRoom);
        }
        self.copy(header);
        let mut record = *key;
        record[W - 1] |= u64::from(value);
        self.block.push(record);
        self.show(hash, header)?;
        self.len += 1;
        Ok(0)
    }

    /// Removes; returns the value before, 0 for none. Never fails: without room
    /// for a smaller block, the record stays, with no value.
    pub(super) fn remove(&mut self, hash: u32, key: &[u64; W]) -> u32 {
        let header = self.table.header(hash);
        let Some((record, old)) = self.record(header, key) else { return 0 };
        record.store(key[W - 1], Ordering::Release);
        self.len -= usize::from(old != 0);
        self.copy(header);
        let _ = self.show(hash, header);
        old
    }

    /// Whether holes take more than half of what the records do: of blocks of other sizes, and
    /// of records that are gone. A table built anew has none.
    pub(super) fn is_loose(&self) -> bool {
        let touched = self.table.touched.load(Ordering::Relaxed) as usize;
        touched > self.len + self.len / 2 + FEW_BYTES / size_of::<[u64; W]>()
    }

    /// Heap bytes.
    pub(super) fn bytes(&self) -> usize {
        self.space.bytes() + self.block.capacity() * size_of::<[u64; W]>()
    }

    /// Counts, takes blocks in the order of the buckets, and deals the records.
    fn fill(&mut self, records: &[(u32, [u64; W])]) -> Result<(), NoRoom> {
        let table = self.table.clone();
        let bucket = |hash: u32| below(hash, table.index.len() as u64) as usize;
        let mut left: Vec<u32> = Vec::new();
        left.try_reserve_exact(table.index.len()).map_err(|_| NoRoom)?;
        left.resize(table.index.len(), 0);
        records.iter().for_each(|(hash, _)| left[bucket(*hash)] += 1);
        for (header, &count) in table.index.iter().zip(&left).filter(|(_, count)| **count > 0) {
            let (place, header_of) = self.take(count as usize)?;
            if count as usize >= MANY {
                table.cells[place as usize][0].store(count.into(), Ordering::Relaxed);
            }
            header.store(header_of, Ordering::Release);
        }
        for (hash, record) in records {
            let left = &mut left[bucket(*hash)];
            *left -= 1;
            let cell = &table.records(table.header(*hash))[*left as usize];
            store(cell, record);
        }
        Ok(())
    }

    /// The word of `key` that has the value, and the value.
    fn record(&self, header: u32, key: &[u64; W]) -> Option<(&AtomicU64, u32)> {
        let record = self.table.records(header).iter().find(|record| {
            let word = |i: usize| record[i].load(Ordering::Relaxed);
            (word(W - 1) ^ key[W - 1]) >> 32 == 0 && (0..W - 1).all(|i| word(i) == key[i])
        })?;
        Some((&record[W - 1], record[W - 1].load(Ordering::Relaxed) as u32))
    }

    /// Puts the records of `header` that have a value into `block`.
    fn copy(&mut self, header: u32) {
        let records = self.table.records(header).iter();
        let words =
            |record: &[AtomicU64; W]| std::array::from_fn(|i| record[i].load(Ordering::Relaxed));
        self.block.clear();
        self.block.extend(records.map(words).filter(|words: &[u64; W]| words[W - 1] as u32 != 0));
    }

    /// Writes `block` beside the bucket's present one, and shows it.
    fn show(&mut self, hash: u32, old: u32) -> Result<(), NoRoom> {
        let mut header = 0;
        if !self.block.is_empty() {
            let (place, header_of) = self.take(self.block.len())?;
            let many = self.block.len() >= MANY;
            let cells = &self.table.cells[place as usize..];
            if many {
                cells[0][0].store(self.block.len() as u64, Ordering::Relaxed);
            }
            for (cell, record) in cells[usize::from(many)..].iter().zip(&self.block) {
                store(cell, record);
            }
            header = header_of;
        }
        self.table.place(hash).store(header, Ordering::Release); // I1
        if old != 0 {
            let (place, count) = parts(old);
            let count = if count < MANY { count } else { self.table.many(place).len() + 1 };
            self.space.retire(place as u32, count as u32);
        }
        Ok(())
    }

    /// Takes a block for `count` records; its place and its header.
    fn take(&mut self, count: usize) -> Result<(u32, u32), NoRoom> {
        let many = count >= MANY;
        let place = self.space.take((count + usize::from(many)) as u32).ok_or(NoRoom)?;
        Ok((place, (count.min(MANY) as u32) << PLACE_BITS | place))
    }
}

/// Place and count of a header.
#[inline(always)]
fn parts(header: u32) -> (usize, usize) {
    ((header & (PLACES as u32 - 1)) as usize, (header >> PLACE_BITS) as usize)
}

fn store<const W: usize>(cell: &[AtomicU64; W], record: &[u64; W]) {
    cell.iter().zip(record).for_each(|(word, &value)| word.store(value, Ordering::Relaxed));
}

const PLACE_BITS: u32 = 27;

/// Records for which a header has bits.
const PLACES: usize = 1 << PLACE_BITS;

/// A count that stands for so many or more.
const MANY: usize = 31;

const LEAST_BUCKETS: usize = 64;

/// Records a bucket on average at which the table wants to be built anew.
const CROWDED: usize = 4;

/// Holes that are not worth a build.
const FEW_BYTES: usize = 8 << 10;

/// Places beyond four for each record: what a small table may grow to.
const SPARE: usize = 1 << 14;

/// Blocks that may wait for readers.
const BLOCKS_IN_LIMBO: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::murmur3_32;
    use crate::lpm::oracle::Rng;
    use std::collections::BTreeMap;

    /// Keys of `W` words; hashes of few buckets, so that they grow long.
    fn random<const W: usize>(rng: &mut Rng) -> (u32, [u64; W]) {
        let key = rng.below(200);
        let mut words = [u64::from(key) << 32; W];
        words[0] = u64::from(key) << 32;
        (murmur3_32(key % 4, 0), words)
    }

    fn agrees_with_a_map<const W: usize>() {
        let domain = Domain::new();
        for seed in 0..if cfg!(miri) { 1 } else { 10 } {
            let (mut rng, mut map) = (Rng::new(seed), BTreeMap::new());
            for _ in 0..rng.below(300) {
                let (hash, key) = random::<W>(&mut rng);
                map.insert(key, (hash, 1 + rng.below(1000)));
            }
            let with_value = |(key, &(hash, value)): (&[u64; W], &(u32, u32))| {
                let mut record = *key;
                record[W - 1] |= u64::from(value);
                (hash, record)
            };
            let records: Vec<_> = map.iter().map(with_value).collect();
            let mut writer = HashedWriter::<W>::build(&domain, &records).unwrap();
            for _ in 0..if cfg!(miri) { 100 } else { 4000 } {
                let (hash, key) = random::<W>(&mut rng);
                let want = map.get(&key).map_or(0, |&(_, value)| value);
                assert_eq!(writer.get(hash, &key), want);
                if rng.below(2) == 0 {
                    let value = 1 + rng.below(1000);
                    assert_eq!(writer.set(hash, &key, value).unwrap(), want);
                    map.insert(key, (hash, value));
                } else {
                    assert_eq!(writer.remove(hash, &key), want);
                    map.remove(&key);
                }
                assert_eq!(writer.len, map.len());
            }
            for (key, &(hash, value)) in &map {
                assert_eq!(writer.get(hash, key), value);
            }
        }
    }

    #[test]
    fn records_of_every_width() {
        agrees_with_a_map::<1>();
        agrees_with_a_map::<2>();
        agrees_with_a_map::<3>();
    }

    /// Of buckets on both sides of the count that their header holds.
    #[test]
    fn blocks_that_go_are_used_again() {
        for long in MANY as u32 - 2..MANY as u32 + 3 {
            let mut writer = HashedWriter::<1>::build(&Domain::new(), &[]).unwrap();
            let words = |key: u32| [u64::from(key) << 32];
            for key in 0..long {
                writer.set(0, &words(key), 1).unwrap();
            }
            for round in 0..if cfg!(miri) { 20 } else { 3000 } {
                writer.admit().unwrap();
                assert_eq!(writer.set(0, &words(long), 1 + round).unwrap(), 0);
                assert_eq!(writer.remove(0, &words(long)), 1 + round);
            }
            // Some wait for the grace period.
            let touched = writer.table.touched.load(Ordering::Relaxed);
            assert!(touched < 4000, "{long}: {touched}");
        }
    }

    /// The record stays where it is, without its value, and takes another one.
    #[test]
    fn without_room_for_less_a_record_stays_and_is_used_again() {
        let mut writer = HashedWriter::<1>::build(&Domain::new(), &[]).unwrap();
        let words = |key: u64| [key << 32];
        (1..4).for_each(|key| assert_eq!(writer.set(0, &words(key), 7).unwrap(), 0));
        while writer.space.take(2).is_some() {}
        for old in [7, 0] {
            assert_eq!(writer.remove(0, &words(1)), old);
            assert_eq!((writer.get(0, &words(1)), writer.len), (0, 2));
        }
        for old in [0, 8] {
            assert_eq!(writer.set(0, &words(1), 8).unwrap(), old);
            assert_eq!((writer.get(0, &words(1)), writer.len), (8, 3));
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "many records")]
    fn a_large_table_takes_twice_as_many_more() {
        let record = |key: u32| (murmur3_32(key, 0), [u64::from(key) << 32 | 1]);
        let records: Vec<_> = (0..20_000).map(record).collect();
        let mut writer = HashedWriter::<1>::build(&Domain::new(), &records).unwrap();
        for (hash, [words]) in (20_000..60_000).map(record) {
            writer.admit().unwrap();
            assert_eq!(writer.set(hash, &[words - 1], 1).unwrap(), 0);
        }
    }

    #[test]
    fn without_room_an_insertion_fails_and_a_removal_does_not() {
        let mut writer = HashedWriter::<1>::build(&Domain::new(), &[]).unwrap();
        let mut inside = Vec::new();
        for key in 1.. {
            let hash = murmur3_32(key, 0);
            match writer.set(hash, &[u64::from(key) << 32], key) {
                Ok(old) => assert_eq!(old, 0),
                Err(NoRoom) => break,
            }
            inside.push((hash, key));
        }
        assert_eq!(inside.len(), CROWDED * LEAST_BUCKETS);
        for &(hash, key) in &inside {
            assert_eq!(writer.remove(hash, &[u64::from(key) << 32]), key);
        }
        assert!(inside.iter().all(|&(hash, key)| writer.get(hash, &[u64::from(key) << 32]) == 0));
    }

    #[test]
    fn holes_make_a_table_loose() {
        let domain = Domain::new();
        let record = |key: u32| (murmur3_32(key, 0), [u64::from(key) << 32 | 1]);
        let records: Vec<_> = (0..4000).map(record).collect();
        let mut writer = HashedWriter::<1>::build(&domain, &records).unwrap();
        assert!(!writer.is_loose());
        // Other keys take the places of those that go, but for what is lost between them.
        for (old, new) in (0..4000).zip(4000..) {
            let (hash, key) = record(old);
            assert_eq!(writer.remove(hash, &[key[0] & !1]), 1);
            let (hash, key) = record(new);
            writer.set(hash, &[key[0] & !1], 1).unwrap();
        }
        assert!(!writer.is_loose());
        for gone in 4000..7000 {
            let (hash, key) = record(gone);
            writer.remove(hash, &[key[0] & !1]);
        }
        assert!(writer.is_loose());
    }
}
