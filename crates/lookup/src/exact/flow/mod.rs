//! Flow tables map a pair of addresses to an entry of one cache line; one thread owns a
//! table. The six tables of the thesis (section 4.5.6) and ours have one trait.
//!
//! | engine         | a lookup reads                      | full at | delete           | rules |
//! |----------------|-------------------------------------|---------|------------------|-------|
//! | `linear`       | entries in a row                    | never   | moves entries    | thesis |
//! | `quadratic`    | entries, ever further               | never   | buries, rehashes | thesis |
//! | `double-hash`  | entries, a step of the key's own    | never   | buries, rehashes | thesis |
//! | `hopscotch`    | a map of 64, then its entries       | 91 %    | one store        | thesis |
//! | `chaining`     | a head, then a list                 | never   | unlinks          | thesis |
//! | `cuckoo-flow`  | two lines of tags, one entry        | 99.3 %  | one slot         | thesis |
//! | `flow-table`   | the same                            | 91 %    | one slot         | all   |
//!
//! "Full at" is the load of 2^20 places at the first refusal; "never" means not before the
//! limit of entries. The open-addressed tables and `hopscotch` have at least one place more
//! than entries, so that a search ends.
//!
//! ```text
//!    batch of packets ─► find_or_insert_batch ─► ids ─► view: state, page, expiry ─► verdicts
//!                              │ replaced
//!    sweep ── expired ─► gone ◄┘         decision ─► … decide ─► page
//! ```

mod age;
mod books;
mod chaining;
mod entry;
mod hint;
mod hopscotch;
mod index;
mod key;
mod memory;
mod open;
mod pool;
mod size;
mod table;
mod tagged;
#[cfg(all(test, not(loom)))]
mod tests;
mod view;
mod words;

pub use entry::{Class, Flow, Page};
pub use key::FlowKey;
pub use view::{Met, View};

use super::{Capacity, Card};
use crate::lpm::{Options, Refusal};

/// A table of flows.
///
/// Times are the caller's, in ticks of any length ([`Wanted::second`]); one that runs
/// backwards only makes for other choices of what goes.
///
/// A [`FlowId`] is good until the next call that inserts or takes out. [`FlowTable::decide`]
/// takes one flow out at most, another than that at its id.
///
/// Whatever leaves a table, but by its end, is shown to a call-back first.
pub trait FlowTable: Send {
    /// Where the flow of `key` is, or [`FlowId::NONE`].
    fn find(&self, key: &FlowKey) -> FlowId;

    /// `ids[i] = find(keys[i])` for every `i`, what a group of keys needs being
    /// asked for before it is read.
    ///
    /// # Panics
    /// When the slices differ in length.
    fn find_batch(&self, keys: &[FlowKey], ids: &mut [FlowId]);

    /// The flows of `keys`, those that are not there being made: requests that expire at
    /// `expires`, with all state 0, and ids that are [`FlowId::is_new`]. Two equal keys get
    /// one flow, the first its new id. All ids are good afterwards: a flow that this call
    /// found or made is not replaced by it.
    ///
    /// Where there is no room, the table's rule ([`Full`]) says who gets [`FlowId::NONE`].
    ///
    /// Finding a kept flow so is using it: it is not replaced for the next seconds
    /// (`keep`, 10).
    ///
    /// # Panics
    /// When the slices differ in length.
    fn find_or_insert_batch(
        &mut self,
        now: u64,
        expires: u64,
        keys: &[FlowKey],
        ids: &mut [FlowId],
        gone: &mut OnGone<'_>,
    );

    /// The flows, to be read and changed: for all ids of a batch at once.
    fn view(&mut self) -> View<'_>;

    /// The flow at `id`, and its page.
    ///
    /// # Panics
    /// When there is no such place.
    fn flow(&self, id: FlowId) -> (&Flow, Option<&Page>);

    /// Makes the request at `id` a decided flow ([`Class::Spare`]) with a page of zeros. Of a
    /// flow that is decided, class and page stay as they are. Where no page is free, a decided
    /// flow may go for it, as for a new flow.
    ///
    /// False when there is no page, or no flow at `id`; it is what it was then.
    ///
    /// # Panics
    /// When there is no such place.
    fn decide(&mut self, id: FlowId, gone: &mut OnGone<'_>) -> bool;

    /// Makes the decided flow at `id` a request again, without a page.
    ///
    /// # Panics
    /// When there is no such place.
    fn undecide(&mut self, id: FlowId);

    /// Takes the flow of `key` out; false if it was not there.
    fn delete(&mut self, key: &FlowKey, gone: &mut OnGone<'_>) -> bool;

    /// Takes out those of the next `places` whose time has come: they expire at
    /// `now` or before it; returns how many. Begins again behind the last.
    fn sweep(&mut self, now: u64, places: usize, gone: &mut OnGone<'_>) -> usize;

    /// Takes out `which` flows of the `places` from place `from` on; returns where to go on.
    ///
    /// Flows of `flow-table`, `cuckoo-flow` and `chaining` stay in their places, so that all
    /// steps together see each that is there all the time. Those of the others may be moved
    /// by insertions between two steps, and be seen twice or not.
    fn flush(
        &mut self,
        from: usize,
        places: usize,
        which: &mut dyn FnMut(&Flow, Option<&Page>) -> bool,
        gone: &mut OnGone<'_>,
    ) -> Option<usize>;

    /// Shows the flows of the `places` from place `from` on; returns where to go on, as
    /// [`FlowTable::flush`].
    fn walk(
        &self,
        from: usize,
        places: usize,
        each: &mut dyn FnMut(&Flow, Option<&Page>),
    ) -> Option<usize>;

    /// What the table holds and could hold.
    fn capacity(&self) -> Capacity;

    /// The same by class.
    fn counts(&self) -> Counts;

    /// The instruction set by which [`FlowTable::find_or_insert_batch`] finds and makes flows:
    /// `avx2` or `portable`. All else is portable in every table.
    fn isa(&self) -> &'static str;
}

/// Who hears of a flow that goes: with its page, and why.
pub type OnGone<'a> = dyn FnMut(&Flow, Option<&Page>, Why) + 'a;

/// Why a flow goes.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Why {
    /// Another came in its place, or got its page.
    Replaced,
    /// Its time had come.
    Expired,
    /// It was deleted or flushed.
    Removed,
}

/// Where a flow is in its table: 8 bytes.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct FlowId {
    place: u32,
    /// Where its tag was, and [`NEW`].
    slot: u32,
}

impl FlowId {
    /// No flow.
    pub const NONE: FlowId = FlowId { place: u32::MAX, slot: 0 };

    /// Is there none?
    #[inline(always)]
    pub const fn is_none(self) -> bool {
        self.place == u32::MAX
    }

    /// Was the flow made by the call that gave this?
    #[inline(always)]
    pub const fn is_new(self) -> bool {
        self.slot & NEW != 0
    }

    #[inline(always)]
    const fn at(place: u32, slot: u32) -> FlowId {
        FlowId { place, slot }
    }

    #[inline(always)]
    const fn slot(self) -> u32 {
        self.slot & !NEW
    }

    #[inline(always)]
    const fn as_new(self) -> FlowId {
        FlowId { place: self.place, slot: self.slot | NEW }
    }
}

const NEW: u32 = 1 << 31;

/// What happens to a new flow where there is no room.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Full {
    /// Another flow makes room for it, if one may go (the header of `flow-table` says which).
    Replace,
    /// It gets none; and after one that got none no insertion is tried in that batch (thesis,
    /// 4.5.2; `stop=off`: each is tried).
    Thesis,
    /// It gets none; and no insertion is tried until flows of 10 % of the table have been
    /// taken out, as the deployed Gatekeeper does. Where the table has no room at all, the
    /// next is tried again, as there.
    Deployed,
}

impl Full {
    /// As options have it.
    pub const fn name(self) -> &'static str {
        match self {
            Full::Replace => "replace",
            Full::Thesis => "thesis",
            Full::Deployed => "deployed",
        }
    }
}

/// What a table holds, and what has happened to it; arrays by [`Class::index`].
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counts {
    /// Flows in the table.
    pub flows: [usize; 3],
    /// Flows that made room.
    pub replaced: [u64; 3],
    /// Flows whose time had come.
    pub expired: [u64; 3],
    /// Flows that were deleted or flushed.
    pub removed: [u64; 3],
    /// Insertions that found no room.
    pub refused: u64,
    /// Insertions that were not tried, after one that found none.
    pub untried: u64,
    /// Decisions for which there was no page.
    pub no_page: u64,
    /// Pages in use: one a decided flow.
    pub pages: usize,
    /// Pages: so many flows may be decided.
    pub decided_max: usize,
}

/// What a table is to be.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Flows that it may hold.
    pub entries: usize,
    /// Ticks in a second of its times.
    pub second: u64,
}

/// Builds an empty engine, and touches its memory, which takes a second for some gigabytes:
/// to be called by a thread that serves nobody, and handed on.
pub type Build = fn(Wanted, &Options) -> Result<Box<dyn FlowTable>, Refusal>;

/// One engine in the registry.
#[derive(Clone, Copy)]
pub struct Entry {
    /// What it is.
    pub card: &'static Card,
    /// What its option `full` may be.
    pub rules: &'static [Full],
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
