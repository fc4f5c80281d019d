//! What a flow table keeps beside its flows: counts, pages, and the rule for a full table.

use super::age::Prefer;
use super::pool::Pool;
use super::{Class, Counts, Flow, Full, Page};
use crate::exact::Card;
use crate::lpm::Refusal;

/// - I1: a page of `pages` is taken if and only if one flow has its number; this flow is
///   decided, and each decided flow has one.
pub(super) struct Books {
    pub(super) counts: Counts,
    pub(super) pages: Pool<Page>,
    pub(super) max_entries: usize,
    full: Full,
    stop: bool,
    /// An insertion has failed in this batch.
    has_failed: bool,
    /// Flows that have to go before another insertion is tried.
    to_go: usize,
    /// A request that expires until then has less than half of the time of a new one.
    soon: u64,
}

/// On what terms flows are made without more than a look at a place, and what was made.
pub(super) struct Terms {
    /// A request that makes room expires by then.
    pub(super) soon: u64,
    /// There may be more flows than now.
    pub(super) adds: bool,
    /// One more each.
    pub(super) added: usize,
    /// Each in the place of a request.
    pub(super) replaced: usize,
}

impl Books {
    pub(super) fn new(
        card: &'static Card,
        max_entries: usize,
        decided_max: usize,
        full: Full,
        stop: bool,
    ) -> Result<Books, Refusal> {
        let (pages, counts) = (Pool::new(card, decided_max)?, Counts::default());
        Ok(Books { counts, pages, max_entries, full, stop, has_failed: false, to_go: 0, soon: 0 })
    }

    /// Flows in the table.
    #[inline(always)]
    pub(super) fn entries(&self) -> usize {
        self.counts.flows.iter().sum()
    }

    /// May it hold no more?
    #[inline(always)]
    pub(super) fn is_full(&self) -> bool {
        self.entries() >= self.max_entries
    }

    /// A batch begins: it is `now`, and new flows expire at `expires`.
    pub(super) fn begin_batch(&mut self, now: u64, expires: u64) {
        self.has_failed = false;
        self.soon = now.saturating_add(expires.saturating_sub(now) / 2);
    }

    /// May an insertion be tried?
    #[inline(always)]
    pub(super) fn may_try(&mut self) -> bool {
        let may = match self.full {
            Full::Replace => true,
            Full::Thesis => !(self.stop && self.has_failed),
            Full::Deployed => self.to_go == 0,
        };
        self.counts.untried += u64::from(!may);
        may
    }

    /// No place was found for a new flow.
    pub(super) fn refused(&mut self) {
        self.counts.refused += 1;
        self.has_failed = true;
        // ENOSPC: the table has room, but not where the flow may be. That it has none at all,
        // ENOENT, costs the next flow another attempt.
        if self.full == Full::Deployed && !self.is_full() {
            self.to_go = (self.max_entries / 10).max(1);
        }
    }

    /// What makes room for a new flow; `None` where nothing does.
    #[inline(always)]
    pub(super) fn prefers(&self) -> Option<Prefer> {
        let [_, spare, kept] = self.counts.flows;
        let is_crowded = spare + kept >= self.pages.all().len();
        let prefer = if is_crowded { Prefer::Decided } else { Prefer::Requests };
        (self.full == Full::Replace).then_some(prefer)
    }

    /// What makes room before room is searched for; `None`: nothing does. A search takes many
    /// times as long as an insertion, and where flows come and go in a table that fills up, every
    /// third key needs one in the end. So a request goes first that expires [soon](Books::is_soon);
    /// what is decided goes only where the table is nearly full.
    #[inline(always)]
    pub(super) fn prefers_at_once(&self) -> Option<Prefer> {
        let (entries, most) = (self.entries(), self.max_entries);
        if self.full != Full::Replace || entries * 8 < most * 7 {
            return None;
        }
        if entries * 16 < most * 15 { Some(Prefer::RequestsOnly) } else { self.prefers() }
    }

    /// On what terms the next `n` flows are made.
    #[inline(always)]
    pub(super) fn terms(&self, n: usize) -> Terms {
        let soon = match self.prefers_at_once() {
            None => 0,
            Some(Prefer::RequestsOnly) => self.soon,
            Some(_) => u64::MAX,
        };
        let adds = self.full == Full::Replace && self.entries() + n <= self.max_entries;
        Terms { soon, adds, added: 0, replaced: 0 }
    }

    /// Takes over what was made on `terms`.
    #[inline(always)]
    pub(super) fn keep(&mut self, terms: &mut Terms) {
        let request = Class::Request.index();
        self.counts.flows[request] += std::mem::take(&mut terms.added);
        self.counts.replaced[request] += std::mem::take(&mut terms.replaced) as u64;
    }

    /// Whether `flow` expires soon, beside a new one.
    #[inline(always)]
    pub(super) fn is_soon(&self, flow: &Flow) -> bool {
        flow.expires() <= self.soon
    }

    /// True where a flow may make room for a page.
    pub(super) fn replaces(&self) -> bool {
        self.full == Full::Replace
    }

    /// A new request.
    #[inline(always)]
    pub(super) fn came(&mut self) {
        self.counts.flows[Class::Request.index()] += 1;
    }

    /// A flow of `class` goes; its page is free again.
    #[inline(always)]
    pub(super) fn went(&mut self, class: Class, page: Option<u32>) {
        self.counts.flows[class.index()] -= 1;
        if let Some(page) = page {
            self.pages.give(page);
        }
    }

    /// An entry was reset: one less that has to go.
    pub(super) fn was_reset(&mut self) {
        self.to_go = self.to_go.saturating_sub(1);
    }

    /// `flow` is of another class.
    #[inline(always)]
    pub(super) fn changes(&mut self, flow: &mut Flow, class: Class) {
        self.counts.flows[flow.class().index()] -= 1;
        self.counts.flows[class.index()] += 1;
        flow.set_class(class);
    }
}
