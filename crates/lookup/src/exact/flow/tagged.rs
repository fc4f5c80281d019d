//! Cuckoo hashing of tags: a line says for each of eight flows 16 bits of its hash, when it
//! goes, and its place; the key is in the entry alone.
//!
//! ```text
//!    hash ─┬─► first line                          n lines × 64 B
//!          └─► tag (16 bits) ─► second = sum(tag) − first, modulo n
//!    line     8 tags × 2 B │ 8 ages × 2 B │ 8 places × 4 B
//!    flows    8 n × 64 B                    pages   decided flows × 64 B
//! ```
//!
//! | operation | cost at load 0.9                                               |
//! |-----------|----------------------------------------------------------------|
//! | find      | 2 lines, asked for together, and 1 entry                       |
//! | absent    | 2 lines; an entry for 16 in 65,536                             |
//! | insert    | 2 lines, an entry; beyond, a search of the lines around        |
//! | replace   | 2 lines, an entry: the one that goes is the one that comes     |
//! | delete    | as find                                                        |
//! | memory    | 72 B a request, 136 B a decided flow                           |
//!
//! Source: Pagh, Rodler, *Cuckoo Hashing*, 2001; DPDK's `rte_hash`, which the
//! thesis calls cuckoo hashing (4.5.6). `cuckoo-flow` searches 1,000 lines for
//! room as that does, which is 32 µs an insertion once the table is full: the
//! collapse that the thesis describes. `flow-table` is ours: it looks at 18 (the
//! two, and the 16 behind them), at a fifth of the cost of a failing search; and it
//! may replace a flow of its two lines instead. Both differ from `rte_hash` in that
//! there is no second store of keys, and put a flow in the emptier of its lines:
//! always in the first, `flow-table` refuses below 90 %.
//!
//! Which flow makes room (`full=replace`): of the 16 in the two lines of the new key, less
//! those that this batch found or made, the request with the earliest expiry; where decided
//! flows are at `decided_max`, the spare one with the earliest expiry, then the kept one that
//! was idle for longest, and for `keep` seconds at least; and the other kind where there is
//! none of the one. Expiries are compared in units of 4 to 8 ms (of decided flows 32 times
//! that), and those within one are alike. The first of 16 is earlier than 94 of 100 flows on
//! average: of requests that all live as long, 93 of 100 stay while 80 % of the table are
//! replaced once.

use super::age::{Clock, Order, Prefer};
use super::hint::{Hint, Sure, Touched};
use super::index::{Around, Index, SLOTS, number};
use super::memory::zeroed;
use super::size::{OUR_OPTIONS, Size, card};
use super::table::{Core, Table};
use super::{Entry, Flow, FlowId, FlowKey, FlowTable, Full, Wanted};
use crate::exact::Card;
use crate::exact::search::{Search, Slot};
use crate::hint::prefetch;
use crate::lpm::{Options, Refusal};
use crate::pages::Pages;

/// The registry's lines.
pub const CUCKOO_FLOW: Entry =
    Entry { card: &CUCKOO_CARD, rules: &[Full::Thesis], build: build_cuckoo };
/// Its second.
pub const FLOW_TABLE: Entry = Entry {
    card: &FLOW_CARD,
    rules: &[Full::Replace, Full::Thesis, Full::Deployed],
    build: build_flow,
};

const CUCKOO_CARD: Card = card(
    "cuckoo-flow",
    "Pagh, Rodler: Cuckoo Hashing (2001); Li's thesis (2020), 4.5.6",
    "cuckoo hashing as in DPDK's rte_hash: a long search for room",
);
const FLOW_CARD: Card = Card {
    options: OUR_OPTIONS,
    ..card(
        "flow-table",
        "ours; after Pagh, Rodler: Cuckoo Hashing (2001)",
        "a line of tags and ages, one entry; a short search for room, or what goes first replaced",
    )
};

struct Tagged<const MOST: usize> {
    index: Index,
    flows: Pages<Flow>,
    search: Search,
    /// Of the group under way.
    touched: Touched,
    order: Option<(Prefer, Order)>,
}

fn build_cuckoo(wanted: Wanted, options: &Options) -> Result<Box<dyn FlowTable>, Refusal> {
    build::<LONG>(&CUCKOO_FLOW, wanted, options)
}

fn build_flow(wanted: Wanted, options: &Options) -> Result<Box<dyn FlowTable>, Refusal> {
    build::<SHORT>(&FLOW_TABLE, wanted, options)
}

fn build<const MOST: usize>(
    entry: &'static Entry,
    wanted: Wanted,
    options: &Options,
) -> Result<Box<dyn FlowTable>, Refusal> {
    let size = Size::new(entry, wanted, options)?;
    let lines = size.max_entries.div_ceil(SLOTS).max(1);
    let flows = zeroed(entry.card, lines * SLOTS)?;
    let clock = Clock::new(size.second, size.keep_s);
    let index = Index::new(zeroed(entry.card, lines)?, size.seed, clock);
    let (search, touched) = (Search::default(), Touched::default());
    let core = Tagged::<MOST> { index, flows, search, touched, order: None };
    Ok(Box::new(Table::new(core, &size, entry.card)?))
}

impl<const MOST: usize> Tagged<MOST> {
    #[inline(always)]
    fn id(&self, slot: Slot) -> FlowId {
        FlowId::at(self.index.place(slot), number(slot))
    }

    /// Does its word say that the flow of `slot` goes earlier than it does?
    #[inline(always)]
    fn is_early(&self, slot: Slot) -> bool {
        let flow = &self.flows[self.index.place(slot) as usize];
        self.index.clock.is_early(self.index.age(slot), flow)
    }

    /// A new request in `slot`, pinned.
    #[inline(always)]
    fn put(&mut self, slot: Slot, hash: u64, key: &FlowKey) -> FlowId {
        let (id, pin) = (self.id(slot), self.index.clock.pin());
        self.index.set_tag(slot, hash as u16);
        self.index.set_age(slot, pin);
        self.touched.mark(slot.bucket);
        self.flows.as_mut_slice()[id.place as usize] = Flow::new(key);
        id
    }
}

impl<const MOST: usize> Core for Tagged<MOST> {
    const ROUNDS: usize = 2;

    #[inline(always)]
    fn ask(&self, hash: u64, round: usize) {
        if round == 0 {
            return self.index.ask(hash);
        }
        if let Some(slot) = self.index.slots(hash).next() {
            prefetch(&self.flows[self.index.place(slot) as usize]);
        }
    }

    fn begin_group(&mut self, prefer: Option<Prefer>) {
        self.touched = Touched::default();
        self.order = prefer.map(|prefer| (prefer, self.index.clock.order(prefer)));
    }

    #[inline(always)]
    fn peek(&self, hash: u64) -> Hint {
        let lines = self.index.lines_of(hash);
        let hint = match (self.index.first_match(lines, hash), &self.order) {
            (Some(slot), _) => Hint::found(lines, slot),
            (None, Some((prefer, order))) => {
                Hint::goes(lines, *prefer, self.index.first_to_go(lines, order))
            }
            (None, None) => Hint::absent(lines),
        };
        if let Some(slot) = hint.slot() {
            prefetch(&self.flows[self.index.place(slot) as usize]);
        }
        hint
    }

    #[inline(always)]
    fn sure(&self, key: &FlowKey, hint: Hint) -> Sure {
        if !self.touched.agrees(&hint) {
            return Sure::Nothing;
        }
        let Some(slot) = hint.found_slot() else { return Sure::Absent };
        let id = self.id(slot);
        if self.flows[id.place as usize].is_of(key) { Sure::Found(id) } else { Sure::Nothing }
    }

    #[inline(always)]
    fn find(&self, hash: u64, key: &FlowKey) -> Option<FlowId> {
        let ids = self.index.slots(hash).map(|slot| self.id(slot));
        { ids }.find(|id| self.flows[id.place as usize].is_of(key))
    }

    #[inline(always)]
    fn add(&mut self, hash: u64, key: &FlowKey, searches: bool) -> Option<FlowId> {
        let lines = self.index.emptier(hash);
        let near = lines.into_iter().find_map(|line| self.index.empty(line));
        let slot = match near {
            None if searches => {
                self.touched.mark_all();
                self.search.make_room(&mut Around::<MOST>(&mut self.index), lines)
            }
            near => near,
        };
        slot.map(|slot| self.put(slot, hash, key))
    }

    #[inline(always)]
    fn first_to_go(&mut self, hash: u64, prefer: Prefer, hint: Hint) -> Option<FlowId> {
        let hinted = hint.goes_slot(prefer).filter(|_| self.touched.agrees(&hint));
        if let Some(slot) = hinted
            && !self.is_early(slot)
        {
            return Some(self.id(slot));
        }
        let (order, lines) = (self.index.clock.order(prefer), self.index.lines_of(hash));
        // Each slot is written anew at most once: its word is right then.
        for _ in 0..=2 * SLOTS {
            let slot = self.index.first_to_go(lines, &order)?;
            if !self.is_early(slot) {
                return Some(self.id(slot));
            }
            let flow = &self.flows[self.index.place(slot) as usize];
            let word = self.index.clock.word_of(flow);
            self.index.set_age(slot, word);
            self.touched.mark(slot.bucket);
        }
        None
    }

    #[inline(always)]
    fn replace(&mut self, id: FlowId, hash: u64, key: &FlowKey) -> FlowId {
        match self.index.locate(id, &self.flows[id.place as usize]) {
            Some(slot) => self.put(slot, hash, key),
            None => FlowId::NONE,
        }
    }

    fn remove(&mut self, id: FlowId) {
        let slot = self.index.locate(id, &self.flows[id.place as usize]);
        self.index.free(slot.expect("I1 and I2: a flow is named in a line of its hash"));
        self.flows.as_mut_slice()[id.place as usize].clear();
    }

    #[inline(always)]
    fn pin(&mut self, id: FlowId) {
        if let Some(slot) = self.index.locate(id, &self.flows[id.place as usize]) {
            self.touched.mark(slot.bucket);
            self.index.set_age(slot, self.index.clock.pin());
        }
    }

    #[inline(always)]
    fn settle(&mut self, id: FlowId) {
        self.index.settle(id, &self.flows[id.place as usize]);
    }

    fn set_now(&mut self, now: u64) {
        self.index.clock.set(now);
    }

    #[inline(always)]
    fn flows(&self) -> &[Flow] {
        &self.flows
    }

    #[inline(always)]
    fn parts(&mut self) -> (&mut [Flow], Option<&mut Index>) {
        (self.flows.as_mut_slice(), Some(&mut self.index))
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.flows) + self.index.bytes()
    }
}

/// Lines that `rte_hash` looks at (`RTE_HASH_BFS_QUEUE_MAX_LEN`).
const LONG: usize = 1000;

/// The two, and the 16 behind them.
const SHORT: usize = 2 + 2 * SLOTS;
