//! Exact match: our tables and the rivals brought to one shape, as [`crate::contest`]
//! does for prefixes.
//!
//! Keys are an Ethernet address and a domain, values 16 bits. What is timed is each
//! table's own call on its own form of the keys.

mod fill;

pub use fill::{fill_all, filled, room_for};

use std::sync::Arc;

use lookup::exact::mac_table::{MacWriter, Settings};
use lookup::exact::{ABSENT, Exact, Key, Writer};
use lookup::lpm::Options;
use lookup::sync::{Domain, Thread};

use crate::data::Rng;
use crate::slices::{Work, rounds};

/// An entry: a key and its value.
pub type Entry = (Key, u16);

/// A table that does not exist yet.
pub struct Contestant {
    /// Its name in records.
    pub name: String,
    /// Ours, or a rival.
    pub ours: bool,
    /// The instruction set of its bursts: of ours by the option's name, of rivals what their
    /// libraries are compiled for.
    pub isa: String,
    /// What makes it: an engine's name, or the rival's.
    maker: String,
    options: Options,
    build: Box<Build>,
}

/// Why a table refuses is a text for the record.
type Build = dyn Fn(usize) -> Result<Box<dyn Table>, String>;

impl Contestant {
    /// A contestant that `build` makes, with room for so many entries.
    pub fn new<T: Table + 'static>(
        name: &str,
        build: impl Fn(usize) -> Result<T, String> + 'static,
    ) -> Self {
        let build = move |room| build(room).map(|table| Box::new(table) as Box<dyn Table>);
        let options = Options::default();
        Contestant {
            name: name.into(),
            ours: false,
            isa: PORTABLE.into(),
            maker: name.into(),
            options,
            build: Box::new(build),
        }
    }

    /// One of our tables, with options, under the name that records use.
    pub fn engine(entry: &'static lookup::exact::Entry, name: &str, options: Options) -> Self {
        let narrow = entry.card.key_bits < 60;
        let grows = entry.card.options.iter().any(|(name, ..)| *name == "start");
        let asked = options.clone();
        let build = move |room: usize| {
            let (domain, mut options) = (Domain::new(), asked.clone());
            if grows {
                // As the others: growing on the way would be another measurement.
                options.0.entry("start".into()).or_insert_with(|| room.to_string());
            }
            let writer = (entry.build)(room, &options, &domain).map_err(|r| r.to_string())?;
            let readers = Readers { table: writer.table(), domain, narrow };
            Ok(Ours { writer, readers })
        };
        let maker = entry.card.name.into();
        let isa = match entry.card.options.iter().any(|(name, ..)| *name == "isa") {
            true => options.0.get("isa").filter(|isa| *isa != "auto").cloned().unwrap_or_else(best),
            false => PORTABLE.into(),
        };
        Contestant { ours: true, isa, maker, options, ..Contestant::new(name, build) }
    }

    /// The same, compiled for these instructions.
    pub fn compiled_for(self, isa: &str) -> Self {
        Contestant { isa: isa.into(), ..self }
    }

    /// How this one's lookups go to `table`, which `other` has made; `None` where it would have
    /// made another.
    pub fn shares<'t>(
        &self,
        other: &Contestant,
        table: &'t (dyn Table + 'static),
    ) -> Option<Seen<'t>> {
        if self.maker != other.maker {
            return None;
        }
        match self.options == other.options {
            true => Some(Seen::Whole(table)),
            false => table.by(&self.options).map(Seen::By),
        }
    }

    /// An empty table with room for `entries`.
    ///
    /// # Errors
    /// When there is no room for so many, or filling it would take minutes and
    /// most of a machine's memory.
    pub fn build(&self, entries: usize) -> Result<Box<dyn Table>, String> {
        if entries > MANY && !self.ours && !LARGE.contains(&self.name.as_str()) {
            return Err("left out: so many entries take it minutes and gigabytes".into());
        }
        self.build_however_long(entries)
    }

    /// The same for a caller who has looked whether there is time and memory.
    ///
    /// # Errors
    /// When there is no room for so many.
    pub fn build_however_long(&self, entries: usize) -> Result<Box<dyn Table>, String> {
        (self.build)(entries)
    }
}

/// The instructions that `mac-table` chooses here; no other table has a choice.
fn best() -> String {
    let made = MacWriter::new(Settings::new(1), &Domain::new());
    made.map_or_else(|_| PORTABLE.into(), |writer| writer.shared().isa().into())
}

/// What every processor of the target has.
pub const PORTABLE: &str = "portable";

/// Options that draw the hash the same way every time.
pub fn fixed_seed() -> Options {
    Options([("seed".to_string(), "1".to_string())].into())
}

/// Finds keys as they come, on any thread; [`ABSENT`] for those that are not there.
pub type Finder = Box<dyn FnMut(&[Key], &mut [u16]) + Send>;

/// Looks up the keys from a number on, so many of them, on any thread.
pub type Reader = Box<dyn FnMut(usize, usize) + Send>;

/// A table as its readers see it.
pub trait View: Send {
    /// Takes these keys, in its own form, to look them up again and again.
    fn stream<'s>(&'s self, keys: &[Key]) -> Box<dyn Stream + 's>;

    /// What looks these keys up in another thread, while others do or this one
    /// updates; `None` where that is not allowed.
    fn reader(&self, keys: &[Key]) -> Option<Reader>;

    /// What finds keys one burst after the other, each as it comes. Only where
    /// [`View::reader`] allows it may the table change meanwhile.
    fn finder(&self) -> Finder;
}

/// A table that answers.
pub trait Table: View {
    /// Inserts; returns how many were refused.
    fn insert(&mut self, entries: &[Entry]) -> usize;

    /// Inserts one by one, where [`Table::insert`] does not; returns how many were
    /// refused.
    fn insert_singly(&mut self, entries: &[Entry]) -> Option<usize> {
        let _ = entries;
        None
    }

    /// Deletes.
    fn delete(&mut self, keys: &[Key]);

    /// The same table, read by other options of its maker; `None` where these would make
    /// another table.
    fn by(&self, options: &Options) -> Option<Box<dyn View>> {
        let _ = options;
        None
    }

    /// Bytes; `None` where it does not say.
    fn bytes(&self) -> Option<usize>;

    /// Entries that inserts have moved to another place; `None` where it does not say.
    fn moves(&self) -> Option<u64> {
        None
    }
}

/// A table, or the same table read by other options.
pub enum Seen<'t> {
    /// As it was made.
    Whole(&'t (dyn Table + 'static)),
    /// By other options.
    By(Box<dyn View>),
}

impl std::ops::Deref for Seen<'_> {
    type Target = dyn View;

    fn deref(&self) -> &(dyn View + 'static) {
        match self {
            Seen::Whole(table) => *table,
            Seen::By(view) => &**view,
        }
    }
}

/// Keys that are looked up again and again.
pub trait Stream {
    /// The `n` from the one numbered `from`, `burst` at a time: what is timed.
    fn run(&mut self, from: usize, n: usize, burst: usize);

    /// All of them once; [`ABSENT`] for those that are not there.
    fn answers(&mut self) -> Vec<u16>;
}

/// The first `n` entries.
pub fn entries(n: usize) -> Vec<Entry> {
    (0..n).map(entry).collect()
}

/// The entry numbered `i`: addresses of many vendors in 64 domains.
pub fn entry(i: usize) -> Entry {
    // Multiplying by an odd number is one-to-one modulo 2^42: no key comes twice.
    let mixed = (i as u64).wrapping_mul(0x9e37_79b9_7f4b) & ((1 << 42) - 1);
    // A unicast address: the two lowest bits of the first byte are 0.
    let mac = (mixed >> 36) << 42 | (mixed & ((1 << 36) - 1));
    (Key::new(mac, 1 + (i % 64) as u16), (i % 60_000) as u16)
}

/// `n` keys for a table of `entries`, `miss_percent` of them not in it, and what
/// each is to find.
pub fn keys(entries: &[Entry], n: usize, miss_percent: usize, seed: u64) -> (Vec<Key>, Vec<u16>) {
    keys_of(entries.len(), |i| entries[i], n, miss_percent, seed)
}

/// The same for a table of so many entries, each the `entry` of its number.
pub fn keys_of(
    entries: usize,
    entry: impl Fn(usize) -> Entry,
    n: usize,
    miss_percent: usize,
    seed: u64,
) -> (Vec<Key>, Vec<u16>) {
    let mut rng = Rng::new(seed);
    let key = |_| {
        let (key, value) = entry(rng.below(entries));
        // Bit 37 of every entry's address is 0. A table that holds addresses alone
        // would not notice another domain.
        let other = Key::new(key.mac() | 1 << 37, key.domain());
        if rng.below(100) < miss_percent { (other, ABSENT) } else { (key, value) }
    };
    (0..n).map(key).unzip()
}

/// Lookups by a reader of `n` keys, round and round.
pub fn reading(read: Reader, n: usize) -> impl Work + Send {
    rounds(n, STEP, read)
}

/// Lookups of a stream of `n` keys in bursts, round and round.
pub fn rate<'s>(mut stream: Box<dyn Stream + 's>, n: usize, burst: usize) -> impl Work + 's {
    rounds(n, STEP, move |from, n| stream.run(from, n, burst))
}

/// One of ours.
struct Ours {
    writer: Box<dyn Writer>,
    readers: Readers,
}

impl Table for Ours {
    fn insert(&mut self, entries: &[Entry]) -> usize {
        if !self.readers.narrow {
            return self.writer.insert_batch(entries);
        }
        let mut refused = 0;
        for entries in entries.chunks(LARGEST_BURST) {
            let entries = entries.iter().map(|(key, value)| (self.readers.key(key), *value));
            refused += self.writer.insert_batch(&entries.collect::<Vec<_>>());
        }
        refused
    }

    fn insert_singly(&mut self, entries: &[Entry]) -> Option<usize> {
        let mut refused = 0;
        for (key, value) in entries {
            let key = self.readers.key(key);
            refused += usize::from(self.writer.insert(key, *value).is_err());
        }
        Some(refused)
    }

    fn delete(&mut self, keys: &[Key]) {
        for key in self.readers.keys(keys) {
            self.writer.delete(key);
        }
    }

    fn by(&self, options: &Options) -> Option<Box<dyn View>> {
        let table = self.writer.table_by(options).ok()??;
        Some(Box::new(Readers { table, ..self.readers.clone() }))
    }

    fn bytes(&self) -> Option<usize> {
        Some(self.writer.capacity().bytes)
    }

    fn moves(&self) -> Option<u64> {
        Some(self.writer.capacity().moves)
    }
}

impl View for Ours {
    fn stream<'s>(&'s self, keys: &[Key]) -> Box<dyn Stream + 's> {
        self.readers.stream(keys)
    }

    fn reader(&self, keys: &[Key]) -> Option<Reader> {
        self.readers.reader(keys)
    }

    fn finder(&self) -> Finder {
        self.readers.finder()
    }
}

/// What readers of one of ours share.
#[derive(Clone)]
struct Readers {
    table: Arc<dyn Exact>,
    domain: Arc<Domain>,
    /// It holds addresses without domains.
    narrow: bool,
}

impl Readers {
    fn key(&self, key: &Key) -> Key {
        if self.narrow { Key::new(key.mac(), 0) } else { *key }
    }

    fn keys(&self, keys: &[Key]) -> Vec<Key> {
        keys.iter().map(|key| self.key(key)).collect()
    }
}

impl View for Readers {
    fn stream<'s>(&'s self, keys: &[Key]) -> Box<dyn Stream + 's> {
        let thread = self.domain.register("lab");
        let values = vec![ABSENT; LARGEST_BURST];
        Box::new(OurStream { table: &*self.table, thread, keys: self.keys(keys), values })
    }

    fn reader(&self, keys: &[Key]) -> Option<Reader> {
        let mut thread = self.domain.register("lab reader");
        let (table, keys) = (self.table.clone(), self.keys(keys));
        let mut values = vec![ABSENT; BURST];
        Some(Box::new(move |from, n| {
            for keys in keys[from..from + n].chunks(BURST) {
                table.lookup_batch(thread.guard(), keys, &mut values[..keys.len()]);
                std::hint::black_box(&mut values);
                thread.quiesce();
            }
        }))
    }

    fn finder(&self) -> Finder {
        let mut thread = self.domain.register("lab finder");
        let (table, narrow, mut plain) = (self.table.clone(), self.narrow, Vec::new());
        Box::new(move |keys, values| {
            let keys = if narrow {
                plain.clear();
                plain.extend(keys.iter().map(|key| Key::new(key.mac(), 0)));
                &plain[..]
            } else {
                keys
            };
            table.lookup_batch(thread.guard(), keys, values);
            thread.quiesce();
        })
    }
}

struct OurStream<'s> {
    table: &'s dyn Exact,
    thread: Thread,
    keys: Vec<Key>,
    values: Vec<u16>,
}

impl Stream for OurStream<'_> {
    fn run(&mut self, from: usize, n: usize, burst: usize) {
        for keys in self.keys[from..from + n].chunks(burst) {
            self.table.lookup_batch(self.thread.guard(), keys, &mut self.values[..keys.len()]);
            std::hint::black_box(&mut self.values);
            self.thread.quiesce();
        }
    }

    fn answers(&mut self) -> Vec<u16> {
        let mut all = vec![ABSENT; self.keys.len()];
        for (keys, values) in self.keys.chunks(BURST).zip(all.chunks_mut(BURST)) {
            self.table.lookup_batch(self.thread.guard(), keys, values);
        }
        all
    }
}

/// A checksum of values in their order.
pub fn checksum(values: &[u16]) -> u64 {
    values.iter().fold(0xcbf2_9ce4_8422_2325, |sum: u64, value| {
        (sum ^ u64::from(*value)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Beyond so many entries only our own tables and these rivals take part.
const MANY: usize = 16_000_000;
const LARGE: [&str; 2] = ["rte_hash", "hashbrown-fx"];

/// No experiment looks up more at once.
pub const LARGEST_BURST: usize = 4096;

const BURST: usize = 256;
/// Lookups between two looks at the clock.
const STEP: usize = 1 << 13;

#[cfg(test)]
mod tests;
