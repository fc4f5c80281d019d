//! The sweep: takes out what has expired.
//!
//! ```text
//!  lines of words │ 8 ages │ … ── may have expired ─► 64 flows asked for ─► looked at one by one
//! ```
//!
//! Where the words beside the tags say when flows go, the lines are read, an eighth of the places,
//! and of the flows only those that may have expired, and kept ones, whose words do not say. A word
//! is right, or too early. It may look as one to come where the last sweeps were too long ago or the
//! clock has jumped: then, as in tables without words, all flows are looked at. One that an
//! insertion moves meanwhile may be left to the next round.

use std::ops::Range;

use super::super::{Class, Flow, FlowId, OnGone, Why};
use super::{Core, GROUP, Table};
use crate::hint::prefetch_at;

impl<C: Core> Table<C> {
    /// [`FlowTable::sweep`](super::super::FlowTable::sweep).
    pub(super) fn sweep_some(&mut self, now: u64, places: usize, gone: &mut OnGone<'_>) -> usize {
        self.core.set_now(now);
        let (len, before) = (self.core.flows().len(), self.books.entries());
        let mut left = places.min(len);
        let mut ids = [FlowId::NONE; GROUP];
        while left > 0 {
            if self.swept == 0 {
                self.begin_round(now);
            }
            let places = self.swept..len.min(self.swept + left);
            self.says &= self.core.says_since(self.rounds[0]);
            let (n, next) = match self.says {
                true => self.core.due(places, &mut ids),
                false => self.all(places, now, &mut ids),
            };
            left -= next - self.swept;
            self.swept = if next == len { 0 } else { next };
            for &id in &ids[..n] {
                self.look_at(id, now, gone);
            }
        }
        before - self.books.entries()
    }

    /// A sweep begins with the first place.
    fn begin_round(&mut self, now: u64) {
        let [_, before, last] = self.rounds;
        self.rounds = [before, last, now];
        self.says = self.core.says_since(before);
        self.ages = self.core.must_age(self.aged);
        self.aged = if self.ages { now } else { self.aged };
    }

    /// As [`Core::due`] of each table: all `places`. What it takes to take those out that have
    /// expired is asked for.
    fn all(&self, places: Range<usize>, now: u64, ids: &mut [FlowId; GROUP]) -> (usize, usize) {
        let end = places.end.min(places.start + GROUP);
        for (id, at) in ids.iter_mut().zip(places.start..end) {
            *id = Self::id_of(at);
            // Pages of 4 KB end what the processor asks for by itself.
            prefetch_at(self.core.flows(), at + SWEPT_AHEAD);
            let flow = &self.core.flows()[at];
            if has_expired(flow, now) {
                self.core.ask(flow.key().hash(&self.seed), 0);
            }
        }
        (end - places.start, end)
    }

    /// Takes out the flow at `id` if it has expired. Of another, whose word says that it has, the
    /// word is written anew: it was too far ahead for one, and would be looked at each time.
    fn look_at(&mut self, id: FlowId, now: u64, gone: &mut OnGone<'_>) {
        // Taking one out may move another to its place.
        while has_expired(&self.core.flows()[id.place as usize], now) {
            self.take_out(id, Why::Expired, gone);
        }
        let (flows, index) = self.core.parts();
        let flow = &flows[id.place as usize];
        match index.filter(|_| flow.is_there()) {
            Some(index) if flow.class() != Class::Kept && self.says => index.settle(id, flow),
            Some(_) if flow.class() == Class::Kept && self.ages => self.core.age(id),
            _ => {}
        }
    }
}

#[inline(always)]
fn has_expired(flow: &Flow, now: u64) -> bool {
    flow.is_there() && flow.expires() <= now
}

/// Places between the one that is swept and the one whose flow is asked for.
const SWEPT_AHEAD: usize = 2 * GROUP;
