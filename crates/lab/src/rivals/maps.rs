//! Hash maps of crates and of the standard library, one lookup at a time.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};
use std::sync::Arc;

use lookup::exact::{ABSENT, Key};

use crate::matching::{Contestant, Entry, Finder, Reader, Stream, Table, View};

/// All of them. Those without a keyed hash of their own get the multiplication by
/// which Firefox hashes: the quickest that spreads addresses.
pub(super) fn all() -> Vec<Contestant> {
    vec![
        plain::<HashMap<u64, u16>>("std-hashmap"),
        plain::<hashbrown::HashMap<u64, u16, Fx>>("hashbrown-fx"),
        shared::<dashmap::DashMap<u64, u16, Fx>>("dashmap-fx"),
        shared::<papaya::HashMap<u64, u16, Fx>>("papaya-fx"),
    ]
}

/// What such a map can do.
trait Map: Send + Sync + 'static {
    fn with_room(entries: usize) -> Self;
    fn put(&mut self, key: u64, value: u16);
    fn take(&mut self, key: u64);
    fn find(&self, key: u64) -> Option<u16>;
}

fn plain<M: Map>(name: &str) -> Contestant {
    Contestant::new(name, |room| {
        Ok(Held::<M> { map: Arc::new(M::with_room(room)), read: |_, _| None })
    })
}

fn shared<M: Map>(name: &str) -> Contestant {
    Contestant::new(name, |room| Ok(Held::<M> { map: Arc::new(M::with_room(room)), read: reader }))
}

struct Held<M> {
    map: Arc<M>,
    read: fn(&Arc<M>, Vec<u64>) -> Option<Reader>,
}

fn reader<M: Map>(map: &Arc<M>, keys: Vec<u64>) -> Option<Reader> {
    let map = map.clone();
    Some(Box::new(move |from, n| {
        for key in &keys[from..from + n] {
            std::hint::black_box(map.find(*key));
        }
    }))
}

/// Address and domain in one number.
pub(super) fn number(key: Key) -> u64 {
    key.mac() | u64::from(key.domain()) << 48
}

impl<M: Map> Table for Held<M> {
    fn insert(&mut self, entries: &[Entry]) -> usize {
        // Without readers the map is this table's alone.
        let Some(map) = Arc::get_mut(&mut self.map) else { return entries.len() };
        entries.iter().for_each(|(key, value)| map.put(number(*key), *value));
        0
    }

    fn delete(&mut self, keys: &[Key]) {
        if let Some(map) = Arc::get_mut(&mut self.map) {
            keys.iter().for_each(|key| map.take(number(*key)));
        }
    }

    fn bytes(&self) -> Option<usize> {
        None
    }
}

impl<M: Map> View for Held<M> {
    fn stream<'s>(&'s self, keys: &[Key]) -> Box<dyn Stream + 's> {
        Box::new(Finds { map: &*self.map, keys: keys.iter().map(|key| number(*key)).collect() })
    }

    fn reader(&self, keys: &[Key]) -> Option<Reader> {
        (self.read)(&self.map, keys.iter().map(|key| number(*key)).collect())
    }

    fn finder(&self) -> Finder {
        let map = self.map.clone();
        Box::new(move |keys, values| {
            for (key, value) in keys.iter().zip(values) {
                *value = map.find(number(*key)).unwrap_or(ABSENT);
            }
        })
    }
}

struct Finds<'s, M> {
    map: &'s M,
    keys: Vec<u64>,
}

impl<M: Map> Stream for Finds<'_, M> {
    fn run(&mut self, from: usize, n: usize, _burst: usize) {
        for key in &self.keys[from..from + n] {
            std::hint::black_box(self.map.find(*key));
        }
    }

    fn answers(&mut self) -> Vec<u16> {
        self.keys.iter().map(|key| self.map.find(*key).unwrap_or(ABSENT)).collect()
    }
}

impl Map for HashMap<u64, u16> {
    fn with_room(entries: usize) -> Self {
        HashMap::with_capacity(entries)
    }
    fn put(&mut self, key: u64, value: u16) {
        self.insert(key, value);
    }
    fn take(&mut self, key: u64) {
        self.remove(&key);
    }
    fn find(&self, key: u64) -> Option<u16> {
        self.get(&key).copied()
    }
}

impl<S: BuildHasher + Default + Send + Sync + 'static> Map for hashbrown::HashMap<u64, u16, S> {
    fn with_room(entries: usize) -> Self {
        hashbrown::HashMap::with_capacity_and_hasher(entries, S::default())
    }
    fn put(&mut self, key: u64, value: u16) {
        self.insert(key, value);
    }
    fn take(&mut self, key: u64) {
        self.remove(&key);
    }
    fn find(&self, key: u64) -> Option<u16> {
        self.get(&key).copied()
    }
}

impl<S: BuildHasher + Default + Clone + Send + Sync + 'static> Map
    for dashmap::DashMap<u64, u16, S>
{
    fn with_room(entries: usize) -> Self {
        dashmap::DashMap::with_capacity_and_hasher(entries, S::default())
    }
    fn put(&mut self, key: u64, value: u16) {
        self.insert(key, value);
    }
    fn take(&mut self, key: u64) {
        self.remove(&key);
    }
    fn find(&self, key: u64) -> Option<u16> {
        self.get(&key).map(|value| *value)
    }
}

impl<S: BuildHasher + Default + Send + Sync + 'static> Map for papaya::HashMap<u64, u16, S> {
    fn with_room(entries: usize) -> Self {
        papaya::HashMap::builder().capacity(entries).hasher(S::default()).build()
    }
    fn put(&mut self, key: u64, value: u16) {
        self.pin().insert(key, value);
    }
    fn take(&mut self, key: u64) {
        self.pin().remove(&key);
    }
    fn find(&self, key: u64) -> Option<u16> {
        self.pin().get(&key).copied()
    }
}

type Fx = BuildHasherDefault<FxHasher>;

/// A multiplication, and its upper half folded onto the lower: the maps take the
/// index from one end and the tag from the other.
#[derive(Clone, Copy, Default)]
struct FxHasher(u64);

impl Hasher for FxHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        let wide = u128::from(self.0.rotate_left(5) ^ word) * 0x517c_c1b7_2722_0a95;
        self.0 = wide as u64 ^ (wide >> 64) as u64;
    }
}
