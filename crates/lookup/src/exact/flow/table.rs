//! What the flow tables share: classes, expiry, batches; a [`Core`] is the rest.

mod claims;
mod sweep;

use std::ops::Range;

use super::age::Prefer;
use super::books::{Books, Terms};
use super::hint::{Hint, Sure};
use super::index::Index;
use super::size::{Batch, Size};
use super::words::Words;
use super::{Capacity, Card, Class, Counts, Flow, FlowId, FlowKey, FlowTable, OnGone, Page};
use super::{View, Why};
use crate::exact::flow::key::Seed;
use crate::interleave::{interleave, turn};
use crate::lpm::Refusal;
use crate::lpm::isa::Isa;

/// How a table finds and makes room. Of a key it sees the hash drawn by `seed`.
///
/// The methods with a body are those of a table that may replace flows.
pub(super) trait Core: Send {
    /// Rounds of [`Core::ask`] before a flow is looked for.
    const ROUNDS: usize;

    /// Asks for what the next round, or the search, will read.
    fn ask(&self, hash: u64, round: usize);

    /// A batch begins: it is `now`, and new flows expire at `expires`. With `pins` no flow
    /// that is found or made goes until it is settled, else none from [`Core::hold`] on.
    fn begin(&mut self, now: u64, expires: u64, pins: bool) {
        let _ = (now, expires, pins);
    }

    /// A group of a batch begins, of keys that get places in this order where none is free,
    /// which no place is in a full table; without an order, room is searched for. A group is
    /// peeked at after one such call, and claimed after another two.
    fn begin_group(&mut self, prefer: Option<Prefer>, is_full: bool) {
        let _ = (prefer, is_full);
    }

    /// As the first round of [`Core::ask`], of a key that gets a place if it has none; and
    /// where its flow may be.
    fn ask_first(&self, hash: u64) -> Hint {
        self.ask(hash, 0);
        Hint::NONE
    }

    /// As the last round, where `hint` is the first round's; and what was seen.
    fn peek(&self, words: impl Words, hash: u64, hint: &Hint) -> Hint {
        let _ = (words, hint);
        (1..Self::ROUNDS).for_each(|round| self.ask(hash, round));
        Hint::NONE
    }

    /// What `hint` still says about `key`.
    fn sure(&self, hash: u64, key: &FlowKey, hint: &Hint) -> Sure {
        let _ = (hash, key, hint);
        Sure::Nothing
    }

    /// The flow of `key`, which is not there, made where `hint`, which is still good, says: in a
    /// free place, or in that of a request, of which `gone` hears. None where more has to be
    /// looked at.
    fn make(
        &mut self,
        hash: u64,
        key: &FlowKey,
        hint: &Hint,
        terms: &mut Terms,
        gone: &mut OnGone<'_>,
    ) -> FlowId {
        let _ = (hash, key, hint, terms, gone);
        FlowId::NONE
    }

    /// Where the flow of `key` is.
    fn find(&self, hash: u64, key: &FlowKey) -> Option<FlowId>;

    /// A place for the flow of `key`, which is not there, with a new request in it.
    /// `None` where there is no room, as far as it is searched for. `hint` is one that is
    /// still good.
    fn add(&mut self, hash: u64, key: &FlowKey, searches: bool, hint: &Hint) -> Option<FlowId>;

    /// Takes out the flow at `id`.
    fn remove(&mut self, id: FlowId);

    /// How often flows were moved to other places: ids from before are invalid.
    fn moves(&self) -> u64 {
        0
    }

    /// The flow that goes to make room for a key of `hash`; `hint` is one that is still good,
    /// and `ids` are those of the batch so far.
    fn first_to_go(
        &mut self,
        hash: u64,
        prefer: Prefer,
        hint: &Hint,
        ids: &[FlowId],
    ) -> Option<FlowId> {
        let _ = (hash, prefer, hint, ids);
        None
    }

    /// A new request in the place at `id`, which [`Core::first_to_go`] named.
    fn replace(&mut self, id: FlowId, hash: u64, key: &FlowKey) -> FlowId {
        let _ = (id, hash, key);
        FlowId::NONE
    }

    /// True where flows that are found stay until the batch is settled, of whatever class.
    fn pins(&self) -> bool {
        false
    }

    /// The flow at `id` was found just now, and is kept, or stays: it is in use.
    fn found(&mut self, id: FlowId) {
        let _ = id;
    }

    /// From now on no flow goes that this batch finds or makes, or has found or made: those
    /// are at `ids`. True where that is new, and hints are invalid.
    fn hold(&mut self, ids: &[FlowId]) -> bool {
        let _ = ids;
        false
    }

    /// The batch ends: the flows at `ids` go when they say themselves.
    fn settle(&mut self, ids: &[FlowId]) {
        let _ = ids;
    }

    /// It is `now`.
    fn set_now(&mut self, now: u64) {
        let _ = now;
    }

    /// True where [`Core::due`] names every flow that has expired, if all that had by `since` were
    /// taken out then.
    fn says_since(&self, since: u64) -> bool {
        let _ = since;
        false
    }

    /// Flows in `slots`, as many of its own numbers as there are places, that may have expired
    /// now, and kept ones; how many, and which slot is next.
    fn due(&self, slots: Range<usize>, ids: &mut [FlowId; GROUP]) -> (usize, usize) {
        let _ = ids;
        (0, slots.end)
    }

    /// True where [`Core::age`] of all kept flows is due, which was done at `since`.
    fn must_age(&self, since: u64) -> bool {
        let _ = since;
        false
    }

    /// The flow at `id` is kept: its last use stays in the past.
    fn age(&mut self, id: FlowId) {
        let _ = id;
    }

    /// All places.
    fn flows(&self) -> &[Flow];

    /// All places, to be changed, and what says when flows go.
    fn parts(&mut self) -> (&mut [Flow], Option<&mut Index>);

    /// Bytes that a lookup can read.
    fn bytes(&self) -> usize;
}

/// A flow table around a core.
pub(super) struct Table<C> {
    core: C,
    books: Books,
    seed: Seed,
    batch: Batch,
    isa: Isa,
    swept: usize,
    /// When this round of the sweep began, after the two before it; and that words say in it what
    /// has expired.
    rounds: [u64; 3],
    says: bool,
    /// The sweep that is under way ages kept flows, and when it or the last such one began.
    ages: bool,
    aged: u64,
}

impl<C: Core> Table<C> {
    /// # Errors
    /// When there is no memory for the pages.
    pub(super) fn new(core: C, size: &Size, card: &'static Card) -> Result<Table<C>, Refusal> {
        let (books, &Size { seed, batch, isa, .. }) = (size.books(card)?, size);
        Ok(Table {
            core,
            books,
            seed,
            batch,
            isa,
            swept: 0,
            rounds: [0; 3],
            says: false,
            ages: false,
            aged: 0,
        })
    }

    /// A lookup that gives others a turn while what it asked for comes.
    async fn find_in_turns(&self, key: &FlowKey) -> Option<FlowId> {
        let hash = key.hash(&self.seed);
        for round in 0..C::ROUNDS {
            self.core.ask(hash, round);
            turn().await;
        }
        self.core.find(hash, key)
    }

    fn find_groups(&self, keys: &[FlowKey], ids: &mut [FlowId]) {
        let mut hashes = [0; GROUP];
        for (keys, ids) in keys.chunks(GROUP).zip(ids.chunks_mut(GROUP)) {
            self.ask_for(keys, &mut hashes);
            for round in 1..C::ROUNDS {
                hashes[..keys.len()].iter().for_each(|&hash| self.core.ask(hash, round));
            }
            for ((&hash, key), id) in hashes.iter().zip(keys).zip(ids) {
                *id = self.core.find(hash, key).unwrap_or(FlowId::NONE);
            }
        }
    }

    /// The first round for a group.
    #[inline(always)]
    fn ask_for(&self, keys: &[FlowKey], hashes: &mut [u64; GROUP]) {
        for (hash, key) in hashes.iter_mut().zip(keys) {
            *hash = key.hash(&self.seed);
            self.core.ask(*hash, 0);
        }
    }

    /// The flow at `id` goes: whoever asks hears of it.
    #[inline(always)]
    fn goes(&mut self, id: FlowId, why: Why, gone: &mut OnGone<'_>) {
        let flow = &self.core.flows()[id.place as usize];
        let (class, page) = (flow.class(), flow.page());
        gone(flow, page.map(|page| &self.books.pages.all()[page as usize]), why);
        let count = match why {
            Why::Replaced => &mut self.books.counts.replaced,
            Why::Expired => &mut self.books.counts.expired,
            Why::Removed => &mut self.books.counts.removed,
        };
        count[class.index()] += 1;
        self.books.went(class, page);
    }

    fn take_out(&mut self, id: FlowId, why: Why, gone: &mut OnGone<'_>) {
        self.goes(id, why, gone);
        self.books.was_reset();
        self.core.remove(id);
    }

    /// Ends a batch: flows that were moved meanwhile are looked for again, and all go when
    /// they say themselves.
    fn settle(&mut self, moves: u64, keys: &[FlowKey], ids: &mut [FlowId]) {
        if self.core.moves() != moves {
            for (id, key) in ids.iter_mut().zip(keys).filter(|(id, _)| !id.is_none()) {
                let found = self.core.find(key.hash(&self.seed), key).unwrap_or(FlowId::NONE);
                *id = if id.is_new() { found.as_new() } else { found };
            }
        }
        self.core.settle(ids);
    }

    /// The id of the flow in `place`.
    fn id_of(place: usize) -> FlowId {
        FlowId::at(place as u32, 0)
    }
}

impl<C: Core> FlowTable for Table<C> {
    fn find(&self, key: &FlowKey) -> FlowId {
        self.core.find(key.hash(&self.seed), key).unwrap_or(FlowId::NONE)
    }

    fn find_batch(&self, keys: &[FlowKey], ids: &mut [FlowId]) {
        assert_eq!(keys.len(), ids.len());
        match self.batch {
            Batch::Groups => self.find_groups(keys, ids),
            Batch::Turns => interleave::<TURNS, _>(
                keys.len(),
                |i| self.find_in_turns(&keys[i]),
                |i, found| ids[i] = found.unwrap_or(FlowId::NONE),
            ),
            Batch::Singly => ids.iter_mut().zip(keys).for_each(|(id, key)| *id = self.find(key)),
        }
    }

    fn find_or_insert_batch(
        &mut self,
        now: u64,
        expires: u64,
        keys: &[FlowKey],
        ids: &mut [FlowId],
        gone: &mut OnGone<'_>,
    ) {
        assert_eq!(keys.len(), ids.len());
        // In turns flows are not found in their order.
        self.core.begin(now, expires, self.batch == Batch::Turns);
        self.books.begin_batch(now, expires);
        let moves = self.core.moves();
        match self.batch {
            Batch::Groups => self.claim_groups_by(expires, keys, ids, gone),
            Batch::Turns => self.claim_turns(expires, keys, ids, gone),
            Batch::Singly => {
                for (i, key) in keys.iter().enumerate() {
                    let (hash, (before, rest)) = (key.hash(&self.seed), ids.split_at_mut(i));
                    rest[0] = self.claim(hash, key, &Hint::NONE, expires, before, gone);
                }
            }
        }
        self.settle(moves, keys, ids);
    }

    fn view(&mut self) -> View<'_> {
        let (flows, index) = self.core.parts();
        View { flows, index, books: &mut self.books }
    }

    fn flow(&self, id: FlowId) -> (&Flow, Option<&Page>) {
        let flow = &self.core.flows()[id.place as usize];
        (flow, flow.page().map(|page| &self.books.pages.all()[page as usize]))
    }

    fn decide(&mut self, id: FlowId, gone: &mut OnGone<'_>) -> bool {
        let flow = self.core.flows()[id.place as usize];
        if !flow.is_there() || flow.class() != Class::Request {
            return flow.is_there();
        }
        let mut page = self.books.pages.take();
        if page.is_none() && self.books.replaces() {
            let hash = flow.key().hash(&self.seed);
            if let Some(other) = self.core.first_to_go(hash, Prefer::DecidedOnly, &Hint::NONE, &[])
            {
                self.goes(other, Why::Replaced, gone);
                self.core.remove(other);
                page = self.books.pages.take();
            }
        }
        let Some(page) = page else {
            self.books.counts.no_page += 1;
            return false;
        };
        self.books.pages.all_mut()[page as usize] = Page([0; 64]);
        let (flows, index) = self.core.parts();
        let flow = &mut flows[id.place as usize];
        self.books.changes(flow, Class::Spare);
        flow.set_page(Some(page));
        if let Some(index) = index {
            index.settle(id, flow);
        }
        true
    }

    fn undecide(&mut self, id: FlowId) {
        let (flows, index) = self.core.parts();
        let flow = &mut flows[id.place as usize];
        if !flow.is_there() || flow.class() == Class::Request {
            return;
        }
        self.books.went(flow.class(), flow.page());
        self.books.came();
        flow.set_page(None);
        flow.set_class(Class::Request);
        if let Some(index) = index {
            index.settle(id, flow);
        }
    }

    fn delete(&mut self, key: &FlowKey, gone: &mut OnGone<'_>) -> bool {
        let id = self.core.find(key.hash(&self.seed), key);
        id.map(|id| self.take_out(id, Why::Removed, gone)).is_some()
    }

    fn sweep(&mut self, now: u64, places: usize, gone: &mut OnGone<'_>) -> usize {
        self.sweep_some(now, places, gone)
    }

    fn flush(
        &mut self,
        from: usize,
        places: usize,
        which: &mut dyn FnMut(&Flow, Option<&Page>) -> bool,
        gone: &mut OnGone<'_>,
    ) -> Option<usize> {
        let len = self.core.flows().len();
        let end = len.min(from.saturating_add(places));
        for at in from..end {
            loop {
                let (flow, page) = self.flow(Self::id_of(at));
                if !flow.is_there() || !which(flow, page) {
                    break;
                }
                self.take_out(Self::id_of(at), Why::Removed, gone);
            }
        }
        (end < len).then_some(end)
    }

    fn walk(
        &self,
        from: usize,
        places: usize,
        each: &mut dyn FnMut(&Flow, Option<&Page>),
    ) -> Option<usize> {
        let len = self.core.flows().len();
        let end = len.min(from.saturating_add(places));
        for at in from..end {
            let (flow, page) = self.flow(Self::id_of(at));
            if flow.is_there() {
                each(flow, page);
            }
        }
        (end < len).then_some(end)
    }

    fn capacity(&self) -> Capacity {
        Capacity {
            entries: self.books.entries(),
            max_entries: self.books.max_entries,
            slots: self.core.flows().len(),
            bytes: self.core.bytes() + self.books.pages.bytes(),
            refused: self.books.counts.refused,
            replaced: self.books.counts.replaced.iter().sum(),
            moves: self.core.moves(),
            ..Capacity::default()
        }
    }

    fn counts(&self) -> Counts {
        let (pages, decided_max) = (self.books.pages.taken(), self.books.pages.all().len());
        Counts { pages, decided_max, ..self.books.counts }
    }

    fn isa(&self) -> &'static str {
        self.claims_by().name()
    }
}

/// Keys whose lines are asked for together, and flows that a sweep looks at together.
pub(super) const GROUP: usize = 64;

/// Coroutines that take turns.
const TURNS: usize = 32;
