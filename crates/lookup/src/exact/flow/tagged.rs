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
//! | sweep     | a line for 8 places, an entry of a flow that may have expired  |
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
//! that); of requests within one unit, another goes for each hash. The first of 16 is earlier
//! than 94 of 100 flows on average: of requests that all live as long, 93 of 100 stay while 80 %
//! of the table are replaced once.

use std::ops::Range;

use super::age::{Clock, FREE, Near, Order, Prefer, is_free};
use super::books::Terms;
use super::hint::{Groups, Hint, Sure};
use super::index::{Around, Index, SLOTS, number, slot_at};
use super::memory::zeroed;
use super::size::{OUR_OPTIONS, Size, TAGGED_OPTIONS, card};
use super::table::{Core, GROUP, Table};
use super::words::{Base, Words};
use super::{Entry, Flow, FlowId, FlowKey, FlowTable, Full, OnGone, Wanted, Why};
use crate::exact::Card;
use crate::exact::search::{Search, Slot};
use crate::hint::{prefetch, prefetch_at};
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

const CUCKOO_CARD: Card = Card {
    options: TAGGED_OPTIONS,
    ..card(
        "cuckoo-flow",
        "Pagh, Rodler: Cuckoo Hashing (2001); Li's thesis (2020), 4.5.6",
        "cuckoo hashing as in DPDK's rte_hash: a long search for room",
    )
};
const FLOW_CARD: Card = Card {
    options: OUR_OPTIONS,
    ..card(
        "flow-table",
        "ours; after Pagh, Rodler: Cuckoo Hashing (2001)",
        "one line of tags and ages, then one entry; a short search for room, else one flow is replaced",
    )
};

struct Tagged<const MOST: usize> {
    index: Index,
    flows: Pages<Flow>,
    search: Search,
    groups: Groups,
    order: Option<(Prefer, Order)>,
    /// What [`Tagged::order`] is of.
    ordered: (Option<Prefer>, bool),
    /// Of the batch under way: when a new flow expires, its word, and that of a flow in use, which
    /// does not go.
    expires: u64,
    fresh: u16,
    used: u16,
    /// Flows that it finds get the word of one in use.
    pins: bool,
    /// Flows that it makes get it, too; else they are known by their ids, and by when they expire.
    pins_new: bool,
    /// Flows that it has made, and that got it later: each would have been the first to go.
    pinned: Vec<FlowId>,
    near: Near,
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
    let (search, groups) = (Search::default(), Groups::default());
    let core = Tagged::<MOST> {
        index,
        flows,
        search,
        groups,
        order: None,
        ordered: (None, false),
        expires: 0,
        fresh: FREE,
        used: FREE,
        pins: false,
        pins_new: false,
        pinned: Vec::new(),
        near: Near::default(),
    };
    Ok(Box::new(Table::new(core, &size, entry.card)?))
}

impl<const MOST: usize> Tagged<MOST> {
    #[inline(always)]
    fn id(&self, slot: Slot) -> FlowId {
        FlowId::at(self.index.place(slot), number(slot))
    }

    /// The id of the flow in `slot`, if its word does not say that it goes earlier than it
    /// does.
    #[inline(always)]
    fn if_right(&self, slot: Slot) -> Option<FlowId> {
        let id = self.id(slot);
        let flow = &self.flows[id.place as usize];
        (!self.index.clock.is_early(self.index.age(slot), flow)).then_some(id)
    }

    /// True of a flow that this batch has made: it is at one of `ids`, those so far.
    #[inline(always)]
    fn is_new(&self, id: FlowId, ids: &[FlowId]) -> bool {
        let flow = &self.flows[id.place as usize];
        flow.expires() == self.expires
            && !self.pins_new
            && ids.iter().any(|it| it.place == id.place && it.is_new())
    }

    /// The slot whose flow goes first.
    #[inline(never)]
    fn look_for_one_to_go(&mut self, hash: u64, prefer: Prefer, ids: &[FlowId]) -> Option<FlowId> {
        let (order, lines) = (self.index.clock.order(prefer), self.index.lines_of(hash));
        // Each slot is written anew at most once: its word is right then, or it does not go.
        for _ in 0..=2 * SLOTS {
            let slot = self.index.first_to_go(Base, (lines, hash), &order)?;
            let id = self.id(slot);
            if self.is_new(id, ids) {
                self.index.set_age(slot, self.used);
                self.pinned.push(id);
                continue;
            }
            if let Some(id) = self.if_right(slot) {
                return Some(id);
            }
            let flow = &self.flows[self.index.place(slot) as usize];
            let word = self.index.clock.word_of(flow);
            self.index.set_age(slot, word);
        }
        None
    }

    /// A slot that is free after others were moved.
    #[inline(never)]
    fn make_room(&mut self, hash: u64) -> Option<Slot> {
        self.groups.move_some();
        let lines = self.index.emptier(self.index.lines_of(hash));
        self.search.make_room(&mut Around::<MOST>(&mut self.index), lines)
    }

    #[inline(never)]
    fn order_by(&mut self, prefer: Option<Prefer>, is_full: bool) {
        self.ordered = (prefer, is_full);
        self.order = prefer.map(|prefer| {
            let order = self.index.clock.order(prefer);
            (prefer, if is_full { order } else { order.free_first() })
        });
    }

    /// Flows begin to go in this batch: those at `ids` that were found stay.
    #[inline(never)]
    fn hold_first(&mut self, ids: &[FlowId]) {
        self.pins = true;
        for &id in ids.iter().filter(|id| !id.is_none() && !id.is_new()) {
            if let Some(slot) = self.index.locate(id, &self.flows[id.place as usize]) {
                self.index.set_age(slot, self.used);
            }
        }
    }

    /// A new request at `id`.
    #[inline(always)]
    fn put(&mut self, id: FlowId, hash: u64, key: &FlowKey) -> FlowId {
        let slot = slot_at(id.slot());
        self.index.set(slot, hash as u16, if self.pins_new { self.used } else { self.fresh });
        self.flows.as_mut_slice()[id.place as usize] = Flow::new(key);
        id
    }
}

impl<const MOST: usize> Core for Tagged<MOST> {
    const ROUNDS: usize = 2;

    #[inline(always)]
    fn ask(&self, hash: u64, round: usize) {
        if round == 0 {
            return self.index.ask(self.index.lines_of(hash));
        }
        if let Some(slot) = self.index.slots(hash).next() {
            prefetch(&self.flows[self.index.place(slot) as usize]);
        }
    }

    fn begin(&mut self, now: u64, expires: u64, pins: bool) {
        self.index.clock.set(now);
        let clock = &self.index.clock;
        self.expires = expires;
        (self.fresh, self.used) = (clock.word_of_request(expires), clock.pin());
        (self.near, self.pins, self.pins_new) = (clock.near(), pins, pins);
        (self.order, self.ordered) = (None, (None, false));
    }

    #[inline(always)]
    fn begin_group(&mut self, prefer: Option<Prefer>, is_full: bool) {
        let is_another = self.ordered != (prefer, is_full);
        self.groups.begin(is_another);
        if is_another {
            self.order_by(prefer, is_full);
        }
    }

    #[inline(always)]
    fn ask_first(&self, hash: u64) -> Hint {
        let lines = self.index.lines_of(hash);
        self.index.ask(lines);
        Hint::of(lines)
    }

    #[inline(always)]
    fn peek(&self, words: impl Words, hash: u64, hint: &Hint) -> Hint {
        let lines = hint.lines();
        let ask = |slot: Slot| {
            let id = self.id(slot);
            prefetch_at(&self.flows, id.place as usize);
            id
        };
        if let Some(slot) = self.index.first_match(lines, hash) {
            return hint.found(ask(slot));
        }
        let goes = match &self.order {
            Some((_, order)) => self.index.first_to_go(words, (lines, hash), order),
            None => self.index.empty_of(lines),
        };
        goes.map_or(hint.absent(), |slot| hint.goes(ask(slot)))
    }

    #[inline(always)]
    fn sure(&self, hash: u64, key: &FlowKey, hint: &Hint) -> Sure {
        let Some(id) = hint.found_id() else {
            let is_so = hint.is_known() && self.groups.are_alike();
            let is_absent = is_so && self.index.first_match(hint.lines(), hash).is_none();
            return if is_absent { Sure::Absent } else { Sure::Nothing };
        };
        // Whatever was written since: a flow keeps its place, and its slot unless some were moved.
        let is_it = self.flows[id.place as usize].is_of(key) && !self.groups.moved();
        if is_it { Sure::Found(id) } else { Sure::Nothing }
    }

    #[inline(always)]
    fn find(&self, hash: u64, key: &FlowKey) -> Option<FlowId> {
        let ids = self.index.slots(hash).map(|slot| self.id(slot));
        { ids }.find(|id| self.flows[id.place as usize].is_of(key))
    }

    #[inline(always)]
    fn make(
        &mut self,
        hash: u64,
        key: &FlowKey,
        hint: &Hint,
        terms: &mut Terms,
        gone: &mut OnGone<'_>,
    ) -> FlowId {
        let Some(id) = hint.goes_id() else { return FlowId::NONE };
        let Some((tag, word)) = self.index.slot_mut(id.slot()) else { return FlowId::NONE };
        let Some(flow) = self.flows.as_mut_slice().get_mut(id.place as usize) else {
            return FlowId::NONE;
        };
        if is_free(*word) {
            if !terms.adds {
                return FlowId::NONE;
            }
            terms.added += 1;
        } else {
            let expires = flow.expires();
            // One that expires with the new ones may be new.
            let goes = self.pins && expires != self.expires && expires <= terms.soon;
            if !goes || !self.near.is_right(*word, flow) {
                return FlowId::NONE;
            }
            gone(flow, None, Why::Replaced);
            terms.replaced += 1;
        }
        (*tag, *word) = (hash as u16, self.fresh);
        *flow = Flow::new(key);
        flow.set_expires(self.expires);
        id.as_new()
    }

    #[inline(always)]
    fn add(&mut self, hash: u64, key: &FlowKey, searches: bool, hint: &Hint) -> Option<FlowId> {
        let hinted = hint.goes_id().map(|id| slot_at(id.slot()));
        let slot = hinted.filter(|&slot| self.index.is_free(slot));
        let slot = slot.or_else(|| self.index.empty_of(self.index.lines_of(hash)));
        let slot = slot.or_else(|| if searches { self.make_room(hash) } else { None });
        slot.map(|slot| self.put(self.id(slot), hash, key))
    }

    #[inline(always)]
    fn first_to_go(
        &mut self,
        hash: u64,
        prefer: Prefer,
        hint: &Hint,
        ids: &[FlowId],
    ) -> Option<FlowId> {
        let is_so = |(known, _): &(Prefer, Order)| *known == prefer;
        let id = hint.goes_id().filter(|_| self.order.as_ref().is_some_and(is_so));
        let id = id.filter(|id| !self.is_new(*id, ids));
        let hinted = id.and_then(|id| self.if_right(slot_at(id.slot())));
        if hinted.is_some() { hinted } else { self.look_for_one_to_go(hash, prefer, ids) }
    }

    #[inline(always)]
    fn replace(&mut self, id: FlowId, hash: u64, key: &FlowKey) -> FlowId {
        self.put(id, hash, key)
    }

    fn remove(&mut self, id: FlowId) {
        let slot = self.index.locate(id, &self.flows[id.place as usize]);
        self.index.free(slot.expect("I1 and I2: a flow is named in a line of its hash"));
        self.flows.as_mut_slice()[id.place as usize].clear();
    }

    #[inline(always)]
    fn pins(&self) -> bool {
        self.pins
    }

    #[inline(always)]
    fn found(&mut self, id: FlowId) {
        let slot = slot_at(id.slot());
        // Written where it says something new: a line of which nothing changes stays clean.
        if self.index.age(slot) != self.used {
            self.index.set_age(slot, self.used);
        }
    }

    #[inline(always)]
    fn hold(&mut self, ids: &[FlowId]) -> bool {
        if self.pins {
            return false;
        }
        self.hold_first(ids);
        true
    }

    fn settle(&mut self, ids: &[FlowId]) {
        if !self.pins {
            return;
        }
        let is_pinned = |id: &&FlowId| !id.is_none() && (!id.is_new() || self.pins_new);
        for &id in ids.iter().filter(is_pinned).chain(&self.pinned) {
            self.index.settle(id, &self.flows[id.place as usize]);
        }
        self.pinned.clear();
    }

    fn set_now(&mut self, now: u64) {
        self.index.clock.set(now);
    }

    fn says_since(&self, since: u64) -> bool {
        self.index.clock.says_since(since)
    }

    fn due(&self, slots: Range<usize>, ids: &mut [FlowId; GROUP]) -> (usize, usize) {
        let due = self.index.clock.due();
        let (mut n, mut at) = (0, slots.start);
        while at < slots.end && n + SLOTS <= GROUP {
            let (line, first) = (at / SLOTS, at % SLOTS);
            let end = (at + SLOTS - first).min(slots.end);
            let wanted = (1_u32 << (end - line * SLOTS)) - (1 << first);
            let mut bits = u32::from(self.index.due(line, &due)) & wanted;
            while bits != 0 {
                let slot = Slot { bucket: line, slot: bits.trailing_zeros() as usize };
                ids[n] = self.id(slot);
                prefetch_at(&self.flows, ids[n].place as usize);
                (n, bits) = (n + 1, bits & (bits - 1));
            }
            at = end;
        }
        (n, at)
    }

    fn must_age(&self, since: u64) -> bool {
        self.index.clock.is_due(since)
    }

    fn age(&mut self, id: FlowId) {
        let flow = &self.flows[id.place as usize];
        if let Some(slot) = self.index.locate(id, flow) {
            let word = self.index.clock.aged(self.index.age(slot));
            self.index.set_age(slot, word);
        }
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
