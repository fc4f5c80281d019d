//! Cuckoo hashing of tags: a line says for each of eight flows 16 bits of its
//! hash and its place in a pool; the key stands in the pool's entry alone.
//!
//! ```text
//!    hash ─┬─► first line                          2^b lines × 64 B
//!          └─► tag (16 bits) ─► second = first xor odd(tag)
//!    line     8 tags × 2 B │ 8 places × 4 B, + 1, 0 for none │ 16 B unused
//!    pool     entries × 64 B
//! ```
//!
//! | operation | cost at load 0.9                                               |
//! |-----------|----------------------------------------------------------------|
//! | lookup    | 2 lines, asked for together, and 1 entry                       |
//! | absent    | 2 lines; an entry for 16 in 65,536                             |
//! | insert    | 2 lines, a place; beyond, a search of the lines around         |
//! | delete    | as lookup                                                      |
//! | memory    | 64 B an entry, 8 B a place in a line                           |
//!
//! Source: Pagh, Rodler, *Cuckoo Hashing*, 2001; DPDK's `rte_hash`, which the
//! thesis calls cuckoo hashing (4.5.6). `cuckoo-flow` searches 1,000 lines for
//! room as that does, which is 32 µs an insertion once the table is full: the
//! collapse that the thesis describes. `flow-table` is ours: it looks at 18 (the
//! two, and the 16 behind them), begins to refuse at 91 % instead of 99.3 and holds
//! 97.6 % after 2,000 refusals, at a fifth of the cost of a failing search; and it
//! may replace the flow of its two lines that expires first instead (`full`). Both
//! differ from `rte_hash` in that there is no second store of keys, and put a flow
//! in the emptier of its lines: always in the first, `flow-table` refuses below 90 %.

use super::key::Seed;
use super::pool::Pool;
use super::table::{Core, Size, Table, zeroed};
use super::{BATCH, Entry, Flow, FlowKey, FlowTable, SEED, card};
use crate::exact::Card;
use crate::exact::search::{Buckets, Search, Slot};
use crate::hash::GOLDEN;
use crate::hint::prefetch;
use crate::lpm::{Options, Refusal};
use crate::pages::{Pages, Zeroed};

/// The registry's lines.
pub const CUCKOO_FLOW: Entry = Entry { card: &CUCKOO_CARD, build: build_cuckoo };
/// Its second.
pub const FLOW_TABLE: Entry = Entry { card: &FLOW_CARD, build: build_flow };

const CUCKOO_CARD: Card = card(
    "cuckoo-flow",
    "Pagh, Rodler: Cuckoo Hashing (2001); Li's thesis (2020), 4.5.6",
    "cuckoo hashing as in DPDK's rte_hash: a long search for room",
);
const FLOW_CARD: Card = Card {
    options: &[SEED, BATCH, ("full", "refuse", "a new flow in a full table: refuse or replace")],
    ..card(
        "flow-table",
        "ours; after Pagh, Rodler: Cuckoo Hashing (2001)",
        "a line of tags and places, one entry; a short search for room, or the oldest replaced",
    )
};

/// Eight flows: of each its tag, and its place + 1 or 0.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line {
    tags: [u16; SLOTS],
    places: [u32; SLOTS],
}

// SAFETY: integers, of which zero is a value, without a destructor.
unsafe impl Zeroed for Line {}

impl Line {
    /// The tags, four to a word, the first the lowest.
    #[inline(always)]
    fn words(&self) -> [u64; 2] {
        let tag = |at: usize| u64::from(self.tags[at]);
        [0, 4].map(|at| (at..at + 4).rev().fold(0, |word, at| word << 16 | tag(at)))
    }
}

/// The highest bit of each 16 that are zero.
#[inline(always)]
fn zeros(word: u64) -> u64 {
    !((word & !HIGHEST).wrapping_add(!HIGHEST) | word | !HIGHEST)
}

/// The lowest bit of each 16, and the highest.
const LOWEST: u64 = 0x0001_0001_0001_0001;
const HIGHEST: u64 = LOWEST << 15;

/// `MOST`: lines looked at for room.
///
/// - I1: a slot with a place other than 0 names a flow of the pool, and the slot's
///   line is one of the two of the flow's hash, its tag the flow's.
/// - I2: each flow of the pool is named once.
struct Tagged<const MOST: usize> {
    lines: Pages<Line>,
    pool: Pool,
    bits: u32,
    seed: Seed,
    replaces: bool,
    search: Search,
}

fn build_cuckoo(max_entries: usize, options: &Options) -> Result<Box<dyn FlowTable>, Refusal> {
    build::<LONG>(&CUCKOO_CARD, max_entries, options, false)
}

fn build_flow(max_entries: usize, options: &Options) -> Result<Box<dyn FlowTable>, Refusal> {
    let known = |full: &String| full == "refuse" || full == "replace";
    let full: String = options.get_of(FLOW_CARD.name, FLOW_CARD.options, "full", known)?;
    build::<SHORT>(&FLOW_CARD, max_entries, options, full == "replace")
}

fn build<const MOST: usize>(
    card: &'static Card,
    max_entries: usize,
    options: &Options,
    replaces: bool,
) -> Result<Box<dyn FlowTable>, Refusal> {
    let size = Size::new(card, max_entries, options)?;
    let bits = size.bits - SLOTS.ilog2();
    let (lines, pool) = (zeroed(card, 1 << bits)?, Pool::new(card, max_entries)?);
    let (seed, search) = (Seed::new(size.seed), Search::default());
    let core = Tagged::<MOST> { lines, pool, bits, seed, replaces, search };
    Ok(Box::new(Table::new(core, &size)))
}

impl<const MOST: usize> Tagged<MOST> {
    #[inline(always)]
    fn lines_of(&self, hash: u64) -> [usize; 2] {
        let first = (hash >> (64 - self.bits)) as usize;
        [first, self.other_line(first, hash as u16)]
    }

    /// The tag alone says how far the lines are apart, so a move reads no entry.
    #[inline(always)]
    fn other_line(&self, line: usize, tag: u16) -> usize {
        line ^ ((u64::from(tag) + 1).wrapping_mul(GOLDEN) >> (64 - self.bits) | 1) as usize
    }

    /// Slots of `lines` whose tag is that of `hash`: bit 16 `i` + `w` for the `i`th tag
    /// of word `w`. A free slot, whose tag is 0, may be among them.
    ///
    /// No branch depends on which line or slot it is: with one, `gatekeeper/fig4.7` had
    /// 19.5 million flows found a second at a load of 0.9, in groups, where it has 34.
    #[inline(always)]
    fn matches(&self, lines: [usize; 2], hash: u64) -> u64 {
        let tag = u64::from(hash as u16) * LOWEST;
        let words = lines.map(|line| self.lines[line].words());
        let equal = words.as_flattened().iter().map(|word| zeros(word ^ tag));
        equal.zip(0..).fold(0, |bits, (equal, w)| bits | equal >> (15 - w))
    }

    /// The slot of the lowest of `bits`.
    #[inline(always)]
    fn slot_of(lines: [usize; 2], bits: u64) -> Slot {
        let (i, w) = (bits.trailing_zeros() as usize / 16, bits.trailing_zeros() as usize % 16);
        Slot { bucket: lines[w / 2], slot: w % 2 * 4 + i }
    }

    /// Those slots, one by one.
    #[inline(always)]
    fn slots(&self, hash: u64) -> impl Iterator<Item = Slot> {
        let lines = self.lines_of(hash);
        let next = |bits: &u64| Some(bits & bits.wrapping_sub(1));
        let left = std::iter::successors(Some(self.matches(lines, hash)), next);
        left.take_while(|&bits| bits != 0).map(move |bits| Self::slot_of(lines, bits))
    }

    fn free_slots(&self, line: usize) -> usize {
        self.lines[line].places.iter().filter(|&&place| place == 0).count()
    }

    /// Beyond the pool for a free slot.
    #[inline(always)]
    fn place(&self, slot: Slot) -> u32 {
        self.lines[slot.bucket].places[slot.slot].wrapping_sub(1)
    }

    fn set(&mut self, slot: Slot, tag: u16, place: u32) {
        let line = &mut self.lines.as_mut_slice()[slot.bucket];
        (line.tags[slot.slot], line.places[slot.slot]) = (tag, place);
    }
}

impl<const MOST: usize> Core for Tagged<MOST> {
    const ROUNDS: usize = 2;

    #[inline(always)]
    fn ask(&self, hash: u64, round: usize) {
        if round == 0 {
            return self.lines_of(hash).into_iter().for_each(|line| prefetch(&self.lines[line]));
        }
        if let Some(slot) = self.slots(hash).next()
            && let Some(flow) = self.pool.flows().get(self.place(slot) as usize)
        {
            prefetch(flow);
        }
    }

    #[inline(always)]
    fn find(&self, hash: u64, key: &FlowKey) -> Option<u32> {
        let has = |at: u32| self.pool.flows().get(at as usize).is_some_and(|flow| flow.key == *key);
        self.slots(hash).map(|slot| self.place(slot)).find(|&at| has(at))
    }

    fn add(&mut self, hash: u64, key: &FlowKey) -> Option<u32> {
        let at = self.pool.take(key)?;
        let [first, second] = self.lines_of(hash);
        // The emptier line: both are asked for in any case, and fewer lines fill up.
        let swap = self.free_slots(second) > self.free_slots(first);
        let roots = if swap { [second, first] } else { [first, second] };
        let mut search = std::mem::take(&mut self.search);
        let slot = search.make_room(self, roots);
        self.search = search;
        match slot {
            Some(slot) => self.set(slot, hash as u16, at + 1),
            None => self.pool.give(at),
        }
        slot.map(|_| at)
    }

    fn remove(&mut self, at: u32) {
        let hash = self.pool.flows()[at as usize].key.hash(&self.seed);
        let slot = self.slots(hash).find(|&slot| self.place(slot) == at);
        self.set(slot.expect("I2: a flow of the pool is named"), 0, 0);
        self.pool.give(at);
    }

    /// The flow of the two lines that expires first.
    fn victim(&self, hash: u64) -> Option<u32> {
        let slots = self.lines_of(hash).map(|line| self.lines[line].places).into_iter().flatten();
        let flows = slots.filter_map(|place| place.checked_sub(1));
        let first = flows.min_by_key(|&at| self.pool.flows()[at as usize].expires);
        first.filter(|_| self.replaces)
    }

    fn flows(&self) -> &[Flow] {
        self.pool.flows()
    }

    fn flows_mut(&mut self) -> &mut [Flow] {
        self.pool.flows_mut()
    }

    fn bytes(&self) -> usize {
        size_of_val(self.pool.flows()) + size_of_val(&*self.lines)
    }
}

impl<const MOST: usize> Buckets for Tagged<MOST> {
    const SLOTS: usize = SLOTS;
    const MOST: usize = MOST;

    fn empty(&self, line: usize) -> Option<Slot> {
        let free = self.lines[line].places.iter().position(|&place| place == 0);
        free.map(|slot| Slot { bucket: line, slot })
    }

    fn other(&self, slot: Slot) -> usize {
        self.other_line(slot.bucket, self.lines[slot.bucket].tags[slot.slot])
    }

    fn ask(&self, line: usize) {
        prefetch(&self.lines[line]);
    }

    fn move_entry(&mut self, from: Slot, to: Slot) {
        let Line { tags, places } = self.lines[from.bucket];
        self.set(to, tags[from.slot], places[from.slot]);
        self.set(from, 0, 0);
    }
}

/// Flows named by a line.
const SLOTS: usize = 8;

/// Lines that `rte_hash` looks at (`RTE_HASH_BFS_QUEUE_MAX_LEN`).
const LONG: usize = 1000;

/// The two, and the 16 behind them.
const SHORT: usize = 2 + 2 * SLOTS;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_found_beside_ones() {
        // Two bytes are set that a borrow or a carry would reach.
        assert_eq!(zeros(0x0001_0000_8000_0000), 0x0000_8000_0000_8000);
        assert_eq!((zeros(u64::MAX), zeros(LOWEST), zeros(HIGHEST)), (0, 0, 0));
        assert_eq!(zeros(0), HIGHEST);
    }

    #[test]
    fn a_tag_of_zero_is_no_free_slot() {
        let mut table = build_flow(64, &Options::default()).unwrap();
        let count = if cfg!(miri) { 100 } else { 200_000 };
        let keys = || (0..count).map(|i| FlowKey::v4(i, 1));
        table.insert(&FlowKey::v4(0, 2)).unwrap();
        // About three of 200,000 have it.
        assert!(keys().all(|key| table.lookup(&key) == crate::exact::flow::FlowId::NONE));
    }
}
