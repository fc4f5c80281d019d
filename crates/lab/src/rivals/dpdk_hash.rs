//! DPDK's `rte_hash`: cuckoo hashing, read without locks, in bulk.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use lookup::exact::Key;

use super::dpdk::start;
use super::maps::number;
use crate::matching::{Contestant, Entry, Finder, Reader, Stream, Table, View};

/// `rte_hash` with 8-byte keys and CRC-32C.
pub(super) fn rte_hash() -> Contestant {
    Contestant::new("rte_hash", |room| {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let name = format!("labhash{}", MADE.fetch_add(1, Ordering::Relaxed));
        let name = CString::new(name).expect("no zero byte");
        // Without room to spare some of the keys would find no place.
        let room = (room + room / 8).next_power_of_two().max(1024);
        let room = c_uint::try_from(room).map_err(|_| "rte_hash refuses: too many entries")?;
        // SAFETY: DPDK runs (`start`); the name is copied.
        let hash = unsafe { lab_hash_new(name.as_ptr(), start()?, room) };
        if hash.is_null() {
            return Err("rte_hash refuses: no memory".to_string());
        }
        Ok(RteHash(Arc::new(Handle(hash))))
    })
    .compiled_for("sse4.2")
}

/// The pointer is valid until it is dropped.
struct Handle(*mut c_void);

// SAFETY: made for lock-free readers on other threads beside one writer.
unsafe impl Send for Handle {}
// SAFETY: as for `Send`; the only writer holds `&mut RteHash`.
unsafe impl Sync for Handle {}

impl Handle {
    /// Both slices have one length.
    fn bulk(&self, keys: &[u64], values: &mut [u16]) {
        let n = keys.len().min(values.len()) as c_uint;
        // SAFETY: the table lives; both arrays hold `n` entries.
        unsafe { lab_hash_bulk(self.0, keys.as_ptr(), values.as_mut_ptr(), n) };
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: made by `lab_hash_new`, used no more.
        unsafe { rte_hash_free(self.0) }
    }
}

struct RteHash(Arc<Handle>);

impl Table for RteHash {
    fn insert(&mut self, entries: &[Entry]) -> usize {
        let refused = entries.iter().filter(|(key, value)| {
            // SAFETY: the table lives.
            unsafe { lab_hash_add(self.0.0, number(*key), *value) != 0 }
        });
        refused.count()
    }

    fn delete(&mut self, keys: &[Key]) {
        for key in keys {
            // SAFETY: the table lives.
            unsafe { lab_hash_delete(self.0.0, number(*key)) };
        }
    }

    fn bytes(&self) -> Option<usize> {
        None
    }
}

impl View for RteHash {
    fn stream<'s>(&'s self, keys: &[Key]) -> Box<dyn Stream + 's> {
        let keys = keys.iter().map(|key| number(*key)).collect();
        Box::new(Finds { table: &self.0, keys, values: vec![0; MOST] })
    }

    fn reader(&self, keys: &[Key]) -> Option<Reader> {
        let keys: Vec<u64> = keys.iter().map(|key| number(*key)).collect();
        let (table, mut values) = (self.0.clone(), [0; MOST]);
        Some(Box::new(move |from, n| {
            for keys in keys[from..from + n].chunks(MOST) {
                table.bulk(keys, &mut values[..keys.len()]);
                std::hint::black_box(&mut values);
            }
        }))
    }

    fn finder(&self) -> Finder {
        let (table, mut numbers) = (self.0.clone(), [0; MOST]);
        Box::new(move |keys, values| {
            for (keys, values) in keys.chunks(MOST).zip(values.chunks_mut(MOST)) {
                keys.iter().zip(&mut numbers).for_each(|(key, n)| *n = number(*key));
                table.bulk(&numbers[..keys.len()], values);
            }
        })
    }
}

struct Finds<'s> {
    table: &'s Handle,
    keys: Vec<u64>,
    values: Vec<u16>,
}

impl Stream for Finds<'_> {
    fn run(&mut self, from: usize, n: usize, burst: usize) {
        for keys in self.keys[from..from + n].chunks(burst.min(MOST)) {
            self.table.bulk(keys, &mut self.values[..keys.len()]);
            std::hint::black_box(&mut self.values);
        }
    }

    fn answers(&mut self) -> Vec<u16> {
        let mut all = vec![0; self.keys.len()];
        for (keys, values) in self.keys.chunks(MOST).zip(all.chunks_mut(MOST)) {
            self.table.bulk(keys, values);
        }
        all
    }
}

unsafe extern "C" {
    fn lab_hash_new(name: *const c_char, socket: c_int, entries: c_uint) -> *mut c_void;
    fn lab_hash_add(hash: *mut c_void, key: u64, value: u16) -> c_int;
    fn lab_hash_delete(hash: *mut c_void, key: u64);
    fn lab_hash_bulk(hash: *mut c_void, keys: *const u64, values: *mut u16, n: c_uint);
    fn rte_hash_free(hash: *mut c_void);
}

/// `RTE_HASH_LOOKUP_BULK_MAX`.
const MOST: usize = 64;
