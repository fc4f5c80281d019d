//! Hash maps of C++, from Debian's packages: the paper's rivals, and two newer ones. One
//! lookup at a time, a burst of them in one call, as their users would write it.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::Arc;

use lookup::exact::Key;

use super::maps::number;
use crate::matching::{Contestant, Entry, Finder, Reader, Stream, Table, View};

/// All of them; one whose headers the build did not find refuses, and says what it needs.
pub(super) fn all() -> Vec<Contestant> {
    // As the build script has them compiled.
    let map = |kind: &'static Kind| Contestant::new(kind.name, move |room| Map::new(kind, room));
    MAPS.iter().map(|kind| map(kind).compiled_for("sse4.2")).collect()
}

/// A kind of map.
struct Kind {
    name: &'static str,
    /// Debian's.
    package: &'static str,
    /// Whether others may look up while one changes it.
    concurrent: bool,
}

const MAPS: &[Kind] = &[
    kind("tbb-hash", "libtbb-dev", true),
    // Its deletion is for a map that nobody else has.
    kind("tbb-unordered", "libtbb-dev", false),
    kind("std-unordered", "g++", false),
    kind("google-dense", "libsparsehash-dev", false),
    kind("google-sparse", "libsparsehash-dev", false),
    kind("absl-flat", "libabsl-dev", false),
    kind("boost-flat", "libboost1.81-dev", false),
];

const fn kind(name: &'static str, package: &'static str, concurrent: bool) -> Kind {
    Kind { name, package, concurrent }
}

/// A map of some kind; the pointer is valid until it is dropped.
struct Handle {
    map: *mut c_void,
    ops: &'static Ops,
    concurrent: bool,
}

// SAFETY: the maps have no ties to a thread.
unsafe impl Send for Handle {}
// SAFETY: `&self` only looks up, which all of them allow on several threads; who changes a map
// has `&mut Map`, and readers beside it get handles of concurrent ones alone.
unsafe impl Sync for Handle {}

impl Handle {
    /// Both slices have one length.
    fn bulk(&self, keys: &[u64], values: &mut [u16]) {
        let n = keys.len().min(values.len());
        // SAFETY: the map lives; both arrays hold `n` entries.
        unsafe { (self.ops.bulk)(self.map, keys.as_ptr(), values.as_mut_ptr(), n) };
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: made by `make` of the same kind, used no more.
        unsafe { (self.ops.free)(self.map) }
    }
}

struct Map(Arc<Handle>);

impl Map {
    fn new(kind: &Kind, room: usize) -> Result<Map, String> {
        let Kind { name, package, concurrent } = *kind;
        let text = CString::new(name).expect("no zero byte");
        // SAFETY: the name ends with a zero byte.
        let ops = unsafe { lab_map(text.as_ptr()) };
        // SAFETY: what it names is constant; or it is null.
        let ops = unsafe { ops.as_ref() };
        let ops = ops.ok_or_else(|| {
            format!("this build has no {name}: it needs {package} when it is made")
        })?;
        // SAFETY: any room may be asked for.
        let map = unsafe { (ops.make)(room) };
        match map.is_null() {
            true => Err(format!("{name} refuses: no memory")),
            false => Ok(Map(Arc::new(Handle { map, ops, concurrent }))),
        }
    }

    /// True where this thread alone has the map, or others may have it.
    fn may_change(&self) -> bool {
        self.0.concurrent || Arc::strong_count(&self.0) == 1
    }
}

impl Table for Map {
    fn insert(&mut self, entries: &[Entry]) -> usize {
        if !self.may_change() {
            return entries.len();
        }
        let Handle { map, ops, .. } = *self.0;
        // SAFETY: the map lives, and may change (above).
        let put = |(key, value): &&Entry| unsafe { (ops.put)(map, number(*key), *value) != 0 };
        entries.iter().filter(put).count()
    }

    fn delete(&mut self, keys: &[Key]) {
        if !self.may_change() {
            return;
        }
        for key in keys {
            // SAFETY: the map lives, and may change (above).
            unsafe { (self.0.ops.take)(self.0.map, number(*key)) };
        }
    }

    fn bytes(&self) -> Option<usize> {
        // SAFETY: the map lives, and nobody changes it while `self` is shared.
        Some(unsafe { (self.0.ops.bytes)(self.0.map) }).filter(|bytes| *bytes > 0)
    }
}

impl View for Map {
    fn stream<'s>(&'s self, keys: &[Key]) -> Box<dyn Stream + 's> {
        let keys = keys.iter().map(|key| number(*key)).collect();
        Box::new(Finds { map: &self.0, keys, values: vec![0; MOST] })
    }

    fn reader(&self, keys: &[Key]) -> Option<Reader> {
        let keys: Vec<u64> = keys.iter().map(|key| number(*key)).collect();
        let (map, mut values) = (self.0.clone(), [0; MOST]);
        map.concurrent.then(|| {
            Box::new(move |from: usize, n: usize| {
                for keys in keys[from..from + n].chunks(MOST) {
                    map.bulk(keys, &mut values[..keys.len()]);
                    std::hint::black_box(&mut values);
                }
            }) as Reader
        })
    }

    fn finder(&self) -> Finder {
        let (map, mut numbers) = (self.0.clone(), [0; MOST]);
        Box::new(move |keys, values| {
            for (keys, values) in keys.chunks(MOST).zip(values.chunks_mut(MOST)) {
                keys.iter().zip(&mut numbers).for_each(|(key, n)| *n = number(*key));
                map.bulk(&numbers[..keys.len()], values);
            }
        })
    }
}

struct Finds<'s> {
    map: &'s Handle,
    keys: Vec<u64>,
    values: Vec<u16>,
}

impl Stream for Finds<'_> {
    fn run(&mut self, from: usize, n: usize, burst: usize) {
        for keys in self.keys[from..from + n].chunks(burst.min(MOST)) {
            self.map.bulk(keys, &mut self.values[..keys.len()]);
            std::hint::black_box(&mut self.values);
        }
    }

    fn answers(&mut self) -> Vec<u16> {
        let mut all = vec![0; self.keys.len()];
        self.map.bulk(&self.keys, &mut all);
        all
    }
}

/// As `maps.cc` has it.
#[repr(C)]
struct Ops {
    make: unsafe extern "C" fn(usize) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
    put: unsafe extern "C" fn(*mut c_void, u64, u16) -> c_int,
    take: unsafe extern "C" fn(*mut c_void, u64),
    bulk: unsafe extern "C" fn(*const c_void, *const u64, *mut u16, usize),
    bytes: unsafe extern "C" fn(*const c_void) -> usize,
}

unsafe extern "C" {
    fn lab_map(name: *const c_char) -> *const Ops;
}

/// The largest burst of the lab's.
const MOST: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matching::{entry, keys_of};

    #[test]
    fn each_map_of_this_build_finds_what_it_was_given() {
        let entries: Vec<Entry> = (0..1000).map(entry).collect();
        let (keys, want) = keys_of(1000, entry, 500, 50, 1);
        for kind in MAPS {
            let mut map = match Map::new(kind, 1000) {
                Ok(map) => map,
                Err(refusal) => {
                    assert!(refusal.contains(kind.package), "{refusal}");
                    continue;
                }
            };
            assert_eq!(map.insert(&entries), 0, "{}", kind.name);
            assert_eq!(map.stream(&keys).answers(), want, "{}", kind.name);
            // At most half full, 16 bytes a place.
            let dense = (kind.name == "google-dense").then_some(2048 * 16);
            assert_eq!(map.bytes(), dense, "{}", kind.name);
            map.delete(&[entries[0].0]);
            let mut found = [0; 2];
            let mut find = map.finder();
            find(&[entries[0].0, entries[1].0], &mut found);
            assert_eq!(found, [lookup::exact::ABSENT, entries[1].1], "{}", kind.name);
            // While another could look up, only a concurrent one changes.
            let refused = map.insert(&entries[..1]);
            assert_eq!(refused, usize::from(!kind.concurrent), "{}", kind.name);
            assert_eq!(map.reader(&keys).is_some(), kind.concurrent, "{}", kind.name);
        }
    }
}
