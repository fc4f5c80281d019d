//! Flow tables: a pair of addresses to an entry of one cache line, owned by one
//! thread. The six of the thesis (section 4.5.6) and ours, behind one trait.
//!
//! | engine         | a lookup reads                      | full at | delete          |
//! |----------------|-------------------------------------|---------|-----------------|
//! | `linear`       | entries in a row                    | never   | moves entries   |
//! | `quadratic`    | entries, ever further               | never   | buries, rehashes |
//! | `double-hash`  | entries, a step of the key's own    | never   | buries, rehashes |
//! | `hopscotch`    | a map of 64, then its entries       | 91 %    | one store       |
//! | `chaining`     | a head, then a list                 | never   | unlinks         |
//! | `cuckoo-flow`  | two lines of tags, one entry        | 99.3 %  | one slot        |
//! | `flow-table`   | the same                            | 91 %    | one slot        |
//!
//! Full: where it first refuses, of 2^20 places. "Never": until the limit of
//! entries. All but `cuckoo-flow` and `chaining` are given one place more than
//! entries at least, so that a search has an end.

mod chaining;
mod hopscotch;
mod key;
mod open;
mod pool;
mod table;
mod tagged;
#[cfg(all(test, not(loom)))]
mod tests;

pub use key::{Flow, FlowKey};

use super::{Capacity, Card, Refused};
use crate::lpm::{Options, Refusal};

/// A table of flows.
///
/// A [`FlowId`] is good until the next `insert`, `delete` or `expire`: tables move
/// entries.
pub trait FlowTable: Send {
    /// Where the flow of `key` is, or [`FlowId::NONE`].
    fn lookup(&self, key: &FlowKey) -> FlowId;

    /// `ids[i] = lookup(keys[i])` for every `i`, what a group of keys needs being
    /// asked for before it is read.
    ///
    /// # Panics
    /// When the slices differ in length.
    fn lookup_batch(&self, keys: &[FlowKey], ids: &mut [FlowId]);

    /// The flow of `key`, made (with all zero but the key) if it is not there.
    ///
    /// # Errors
    /// [`Refused::Full`] when there is no room; nothing has changed then.
    fn insert(&mut self, key: &FlowKey) -> Result<FlowId, Refused>;

    /// Takes the flow of `key` out; false if it was not there.
    fn delete(&mut self, key: &FlowKey) -> bool;

    /// Takes out those of the next `places` whose time has come: `expires` is
    /// `now` or before it; returns how many. Begins again behind the last.
    fn expire(&mut self, now: u32, places: usize) -> usize;

    /// The flow at `id`.
    ///
    /// # Panics
    /// When there is no such place.
    fn flow(&self, id: FlowId) -> &Flow;

    /// The flow at `id`, to be changed.
    ///
    /// # Panics
    /// When there is no such place.
    fn flow_mut(&mut self, id: FlowId) -> &mut Flow;

    /// What the table holds and could hold.
    fn capacity(&self) -> Capacity;
}

/// Where a flow is in its table.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(transparent)]
pub struct FlowId(pub(super) u32);

impl FlowId {
    /// No flow.
    pub const NONE: FlowId = FlowId(u32::MAX);
}

/// Builds an empty engine that may hold so many entries, and touches its memory, which takes
/// a second for some gigabytes: to be called by a thread that serves nobody, and handed on.
pub type Build = fn(usize, &Options) -> Result<Box<dyn FlowTable>, Refusal>;

/// One engine in the registry.
#[derive(Clone, Copy)]
pub struct Entry {
    /// What it is.
    pub card: &'static Card,
    /// How it is built.
    pub build: Build,
}

/// The flow tables, in the order in which they are listed.
pub fn engines() -> &'static [Entry] {
    &[
        open::LINEAR,
        hopscotch::ENTRY,
        chaining::ENTRY,
        open::DOUBLE_HASH,
        open::QUADRATIC,
        tagged::CUCKOO_FLOW,
        tagged::FLOW_TABLE,
    ]
}

/// The one called `name`.
pub fn engine(name: &str) -> Option<&'static Entry> {
    engines().iter().find(|entry| entry.card.name == name)
}

/// A card, but for what differs.
const fn card(name: &'static str, paper: &'static str, help: &'static str) -> Card {
    Card {
        name,
        family: "flow",
        paper,
        help,
        key_bits: 288,
        max_value: u32::MAX,
        max_entries: Some(MAX_ENTRIES as u64),
        options: &[SEED, BATCH],
    }
}

/// The option that every flow table has.
const SEED: (&str, &str, &str) = ("seed", "random", "draws the hash: a number, or random");

/// And how it looks many up.
const BATCH: (&str, &str, &str) =
    ("batch", "groups", "groups (prefetched), turns (coroutines) or singly");

/// The most that a table can be asked to hold.
const MAX_ENTRIES: usize = (1 << 31) - 1;
