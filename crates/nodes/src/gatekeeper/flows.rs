//! The flows of one worker: their table, and what packets, time and decisions do to it.
//!
//! ```text
//!  packets ── keys ─► find or insert ─► machine ─► verdicts
//!  time ────────────► sweep: some places a step, all of them in four seconds
//!  decisions ───────► find or insert, a page ─► written over
//! ```
//!
//! An entry names its protection by index and generation. An entry of another generation is
//! stale, and counts as absent.

use graph::{Due, clock};
use io::VECTOR;
use lookup::exact::flow::{Class, FlowId, FlowKey, FlowTable, View};
use tables::SetId;
use wire::bytes::array;
use wire::{ipv4, ipv6};

use super::granted;
use super::machine::{Decided, Flow, Machine, Step};
use super::programs::Programs;
use super::rule::Arrival;
use super::settings::Counters;
use super::state::{self, Bytes, Kind};
use super::times::Times;

/// A decision on its way to the table of the flow's owner: two cache lines, each field at a
/// multiple of its alignment or of 8, so that copies are whole words.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Heard {
    /// What was decided.
    pub decided: Decided,
    /// The flow.
    pub key: FlowKey,
    /// The protection of its destination.
    pub set: SetId,
}

const _: () = assert!(size_of::<Heard>() == 128);

impl Heard {
    /// Of no flow.
    pub(super) const NOTHING: Heard = Heard {
        decided: Decided::NONE,
        key: FlowKey::v4(0, 0),
        set: SetId { index: 0, generation: 0 },
    };
}

/// A protection as an entry names it: a number of 48 bits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Named(u64);

impl Named {
    /// No protection's.
    pub const NONE: Named = Named(u64::MAX);

    #[inline(always)]
    pub const fn of(set: SetId) -> Named {
        Named(set.index as u64 | (set.generation as u64) << 32)
    }

    #[inline(always)]
    pub const fn set(self) -> SetId {
        SetId { index: self.0 as u32, generation: (self.0 >> 32) as u16 }
    }
}

/// The flows of one worker.
pub struct Flows {
    table: Box<dyn FlowTable>,
    /// A flow without a place asks with the lowest priority, and is not dropped.
    pub(super) unbacked: bool,
    times: Times,
    sweep_at: u64,
    ids: Box<[FlowId; VECTOR]>,
}

impl Flows {
    /// Around an empty table; `unbacked` where its rule is `thesis`.
    pub fn new(table: Box<dyn FlowTable>, unbacked: bool) -> Flows {
        let (times, ids) = (Times::new(clock::rate()), Box::new([FlowId::NONE; VECTOR]));
        Flows { table, unbacked, times, sweep_at: 0, ids }
    }

    /// The table: to list flows, to flush them.
    pub fn table(&self) -> &dyn FlowTable {
        &*self.table
    }

    /// The same, to be changed.
    pub fn table_mut(&mut self) -> &mut dyn FlowTable {
        &mut *self.table
    }

    /// The protection whose flow an entry is.
    pub fn set_of(state: &Bytes) -> SetId {
        Named(state::callers(state)).set()
    }

    /// Finds the flows of `keys`, at most a vector's, or makes them, and gives `each` its
    /// [`Entries`] once.
    pub(super) fn meet<R>(
        &mut self,
        (programs, now): (&Programs, u64),
        keys: &[FlowKey],
        each: impl FnOnce(&mut Entries<'_>) -> R,
    ) -> R {
        self.renew();
        let Flows { table, times, ids, .. } = self;
        let machine = Machine { times, programs };
        let fresh = machine.fresh(now);
        let n = keys.len();
        table.find_or_insert_batch(now, fresh.0, keys, &mut ids[..n], &mut |_, _, _| {});
        let born = machine.born(now);
        let view = table.view();
        let mut entries = Entries { view, ids, machine, fresh, born, fallen: false };
        let result = each(&mut entries);
        if entries.fallen {
            give_back(&mut **table, &ids[..n]);
        }
        result
    }

    /// Writes decisions into the table, at most a vector's, each for the flow of its key.
    pub(super) fn decide<'h>(
        &mut self,
        (programs, now): (&Programs, u64),
        heard: impl Iterator<Item = &'h Heard>,
        keys: &[FlowKey],
        counters: &Counters,
    ) {
        self.renew();
        let Flows { table, times, ids, .. } = self;
        let (expires, fresh) = Machine { times, programs }.fresh(now);
        let ids = &mut ids[..keys.len()];
        table.find_or_insert_batch(now, expires, keys, ids, &mut |_, _, _| {});
        for (heard, id) in heard.zip(ids) {
            if id.is_none() {
                counters.count_decision(heard.set, |of| &of.no_place);
                continue;
            }
            // A decision before it in this batch may have taken its place.
            let mut view = table.view();
            let is_there = view.flow(*id).is_of(&heard.key);
            if !is_there || view.flow(*id).class() == Class::Request {
                if id.is_new() && is_there {
                    let state = view.state(*id).0;
                    *state = fresh;
                    put_set(state, heard.set);
                }
                if !is_there || !table.decide(*id, &mut |_, _, _| {}) {
                    counters.count_decision(heard.set, |of| &of.no_page);
                    continue;
                }
                view = table.view();
            }
            write(&mut view, *id, heard);
            counters.count_decision(heard.set, |of| match heard.decided.kind {
                Kind::Declined => &of.declined,
                Kind::Program(_) => &of.by_program,
                Kind::Granted | Kind::Request => &of.granted,
            });
        }
    }

    /// Takes out some flows whose time has come, if it is time to look; says when it is
    /// next. An empty table is not swept.
    pub(super) fn sweep(&mut self, now: u64) -> Due {
        if now < self.sweep_at && self.sweep_at - now <= self.times.second() {
            return Due::at(self.sweep_at);
        }
        let places = self.table.capacity();
        if places.entries == 0 {
            return Due::NEVER; // what comes is a packet or a decision, and a tick with it
        }
        self.renew();
        let steps = (places.slots / SWEPT).max(1) as u64;
        // A small table is swept once a second.
        let period = (ROUND_S * self.times.second() / steps).min(self.times.second());
        self.table.sweep(now, SWEPT, &mut |_, _, _| {});
        // A step that is late, by up to half a second, is made up for.
        let late = now.saturating_sub(self.sweep_at).min(self.times.second() / 2);
        self.sweep_at = (now - late.min(now)).saturating_add(period);
        Due::at(self.sweep_at)
    }

    /// Ticks after which decisions that come with no packet are looked for at the latest.
    pub(super) fn pause(&self) -> u64 {
        self.times.second() / 1_000
    }

    /// The clock's rate is measured anew once, a second after the start.
    #[inline]
    fn renew(&mut self) {
        let rate = clock::rate();
        if rate != self.times.rate() {
            self.times = Times::new(rate);
        }
    }
}

/// The flow of the packet that begins with `head`.
#[inline(always)]
pub(super) fn key_of(head: &[u8; 64]) -> FlowKey {
    if head[0] >> 4 == 4 {
        let v4 = |at| u32::from_be_bytes(array(head, at));
        return FlowKey::v4(v4(ipv4::SRC), v4(ipv4::DST));
    }
    let v6 = |at| u128::from_be_bytes(array(head, at));
    FlowKey::v6(v6(ipv6::SRC), v6(ipv6::DST))
}

/// What becomes of a packet as most are.
pub(super) enum Usual {
    /// Its flow's budget lets it through, with this DSCP.
    Send(u8),
    /// It is more than there is left.
    Over,
    /// Its flow is declined.
    Declined,
    /// Its flow is new, and asks with this DSCP.
    Request(u8),
    /// It is none, and nothing has happened: [`Entries::packet`] says.
    No,
}

/// The entries of a batch.
pub(super) struct Entries<'a> {
    view: View<'a>,
    ids: &'a [FlowId; VECTOR],
    machine: Machine<'a>,
    fresh: (u64, Bytes),
    /// What becomes of each flow that is new, and its request's DSCP.
    born: (u64, Bytes, u8),
    /// Some flow is a request again: its page goes back.
    fallen: bool,
}

impl Entries<'_> {
    /// What [`Entries::packet`], which has the last word, makes of a packet of flow `k` of the
    /// batch, in a frame of `len` bytes, where the flow is declined by the protection `named`,
    /// is new, or has a budget of it; that is spent.
    #[inline(always)]
    pub fn usual(&mut self, k: usize, named: Named, now: u64, len: u32) -> Usual {
        let id = self.ids[k % VECTOR];
        let Some(met) = self.view.met(id) else { return Usual::No };
        if id.is_new() {
            let (expires, bytes, dscp) = self.born;
            if expires != self.fresh.0 {
                return Usual::No;
            }
            *met.state = bytes;
            state::set_callers(met.state, named.0);
            return Usual::Request(dscp);
        }
        let (word, is_over) = (state::word(met.state), now >= met.expires);
        // Met anew for its page alone: nobody else's is worked out.
        if word == state::word_of(Kind::Declined, named.0) && !is_over {
            return Usual::Declined;
        }
        if word == state::word_of(Kind::Granted, named.0) && !is_over {
            return self.spend(id, now, len);
        }
        Usual::No
    }

    #[inline(always)]
    fn spend(&mut self, id: FlowId, now: u64, len: u32) -> Usual {
        let Some(met) = self.view.met(id) else { return Usual::No };
        let Some(page) = met.page else { return Usual::No };
        let Some(dscp) = granted::spend(self.machine.times, now, len, &mut page.0) else {
            return Usual::Over;
        };
        state::mark_used(met.state, self.machine.times, now);
        if !met.is_kept {
            self.view.keep(id, true);
        }
        Usual::Send(dscp)
    }

    /// Whether flow `k` of the batch has asked at this time, or later.
    #[inline]
    pub fn asked_since(&mut self, k: usize, now: u64) -> bool {
        let id = self.ids[k];
        let met = if id.is_none() || id.is_new() { None } else { self.view.met(id) };
        met.is_some_and(|met| {
            Kind::of(met.state) == Kind::Request && state::request(met.state).seen >= now
        })
    }

    /// What becomes of a packet of flow `k` of the batch, of the protection `set`; `None`
    /// where the flow has no place.
    #[inline]
    pub fn packet(&mut self, k: usize, set: SetId, arrival: &Arrival<'_>) -> Option<Step> {
        let id = self.ids[k];
        if id.is_none() {
            return None;
        }
        let expired = self.view.flow(id).expires();
        let mut expires = expired;
        let (state, page) = self.view.state(id);
        let stale = Flows::set_of(state) != set;
        if id.is_new() || stale {
            // A decided flow of another protection has a page until the batch ends.
            self.fallen |= Kind::of(state) != Kind::Request;
            (expires, *state) = self.fresh;
            put_set(state, set);
        }
        let mut flow = Flow { expires: &mut expires, state, page: page.map(|page| &mut page.0) };
        let step = self.machine.packet(&mut flow, arrival);
        self.fallen |= step.fell_back;
        let used = Kind::of(state).uses_page() && state::last_used(state).is_some();
        if expires != expired {
            self.view.set_expires(id, expires);
        }
        if used {
            self.view.keep(id, true);
        }
        Some(step)
    }
}

/// Pages of flows that are requests go back.
#[cold]
fn give_back(table: &mut dyn FlowTable, ids: &[FlowId]) {
    for id in ids.iter().filter(|id| !id.is_none()) {
        if Kind::of(&table.flow(*id).0.state) == Kind::Request {
            table.undecide(*id);
        }
    }
}

/// Writes a decision over a flow that has a page.
fn write(view: &mut View<'_>, id: FlowId, heard: &Heard) {
    let mut expires = 0;
    let (state, page) = view.state(id);
    let mut flow = Flow { expires: &mut expires, state, page: page.map(|page| &mut page.0) };
    // It has a page: asked for just now.
    let _ = heard.decided.apply(&mut flow);
    put_set(state, heard.set);
    let used = state::last_used(state).is_some();
    view.renew(id, expires, used);
}

#[inline]
fn put_set(state: &mut Bytes, set: SetId) {
    state::set_callers(state, Named::of(set).0);
}

/// Seconds in which the whole table is looked at: less than a new request lives.
const ROUND_S: u64 = 4;
/// Places of one step.
const SWEPT: usize = 1_024;
