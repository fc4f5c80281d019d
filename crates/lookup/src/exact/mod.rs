//! Exact match: keys of a fixed size to small values, one writer, many readers.
//!
//! Two kinds of tables, by what they hold:
//!
//! - [`mac_table`] and [`cuckoo`] map a [`Key`] (an Ethernet address in a
//!   forwarding domain) to 16 bits, in 8 bytes an entry: [`Exact`];
//! - [`flow`]: a pair of addresses to an entry of 64 bytes, in the hands of one
//!   thread.

mod card;
pub mod cuckoo;
pub mod flow;
mod key;
mod lines;
pub mod mac_table;
#[cfg(all(test, not(loom)))]
pub(crate) mod oracle;
mod registry;
mod scan;
mod search;

pub use card::{Build, Card, Entry};
pub use key::Key;
pub use registry::{cards, engine, engines};

use std::sync::Arc;

use crate::lpm::{Options, Refusal};
use crate::sync::Guard;

/// A table that many threads read. A key that is present is found, with a value
/// that it had during the call, whatever the writer does meanwhile.
pub trait Exact: Send + Sync {
    /// The value of `key`, or [`ABSENT`].
    fn lookup(&self, guard: Guard<'_>, key: Key) -> u16;

    /// `values[i] = lookup(keys[i])` for every `i`, many reads in flight at once.
    ///
    /// # Panics
    /// When the slices differ in length.
    fn lookup_batch(&self, guard: Guard<'_>, keys: &[Key], values: &mut [u16]);
}

/// The one thread that changes a table.
pub trait Writer: Send {
    /// The table, to be read by any number of threads.
    fn table(&self) -> Arc<dyn Exact>;

    /// The same table, whose lookups go by `options`, as an engine built with them would;
    /// `None` where such a table would be laid out otherwise, or where the engine has no
    /// options of lookups.
    ///
    /// # Errors
    /// When an option is wrong.
    fn table_by(&self, options: &Options) -> Result<Option<Arc<dyn Exact>>, Refusal> {
        let _ = options;
        Ok(None)
    }

    /// Gives `key` the value `value`; returns the value that it had, if any. A
    /// key that is present changes in place, and is always taken.
    ///
    /// # Errors
    /// When the key is new and there is no room, or the table does not take such
    /// keys or values; nothing has changed then.
    fn insert(&mut self, key: Key, value: u16) -> Result<Option<u16>, Refused>;

    /// Inserts all of `entries`, many reads in flight at once; returns how many
    /// were refused.
    fn insert_batch(&mut self, entries: &[(Key, u16)]) -> usize {
        entries.iter().filter(|&&(key, value)| self.insert(key, value).is_err()).count()
    }

    /// Takes `key` out; returns the value that it had, if any.
    fn delete(&mut self, key: Key) -> Option<u16>;

    /// The value of `key`, if it is present.
    fn get(&self, key: Key) -> Option<u16>;

    /// What the table holds and could hold.
    fn capacity(&self) -> Capacity;
}

/// No entry: never the value of one.
pub const ABSENT: u16 = u16::MAX;

/// Why an entry was not taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Refused {
    /// The table may hold no more entries, or found no place for this one.
    #[error("the table is full: {entries} entries of {max_entries}")]
    Full {
        /// How many it holds.
        entries: usize,
        /// How many it may hold.
        max_entries: usize,
    },
    /// [`ABSENT`] stands for no value.
    #[error("the value {ABSENT} means no entry")]
    Value,
    /// The table holds shorter keys.
    #[error("the key has more than {bits} bits")]
    Key {
        /// Bits that it holds.
        bits: u32,
    },
    /// A table of this size was not made.
    #[error("there is no memory for {bytes} bytes")]
    Memory {
        /// Bytes asked for.
        bytes: usize,
    },
    /// The processor, or this build, has no such instructions.
    #[error("there is no {name} here")]
    Isa {
        /// As asked for.
        name: &'static str,
    },
    /// No table holds so many.
    #[error("a table holds at most {max} entries")]
    TooMany {
        /// The most.
        max: usize,
    },
}

/// What a table holds and could hold, for `show capacity`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Capacity {
    /// Entries in the table.
    pub entries: usize,
    /// Entries that it may hold.
    pub max_entries: usize,
    /// Places for entries at its present size.
    pub slots: usize,
    /// Bytes that a lookup can read, and of the table that it is growing into.
    pub bytes: usize,
    /// How often it has grown.
    pub growths: u64,
    /// How often there was no memory to grow.
    pub growths_refused: u64,
    /// Entries refused because the table was full.
    pub refused: u64,
    /// Entries that took the place of an older one.
    pub replaced: u64,
    /// Entries moved to their other bucket to make room.
    pub moves: u64,
}
