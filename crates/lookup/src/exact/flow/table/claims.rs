//! Flows that are found or made, a batch at a time.

use std::cell::RefCell;
use std::ops::Range;

use super::{Core, TURNS, Table};
use crate::exact::flow::age::Prefer;
use crate::exact::flow::hint::{HINTS_LAST, Hint, Sure};
use crate::exact::flow::size::Batch;
#[cfg(all(target_arch = "x86_64", not(miri)))]
use crate::exact::flow::words::Avx2;
use crate::exact::flow::words::{Base, Words};
use crate::exact::flow::{FlowId, FlowKey, OnGone, Why};
use crate::hint::prefetch_at;
use crate::interleave::{interleave, turn};
use crate::lpm::isa::Isa;

impl<C: Core> Table<C> {
    /// Claims by the instructions that the table was built for.
    pub(super) fn claim_groups_by(
        &mut self,
        expires: u64,
        keys: &[FlowKey],
        ids: &mut [FlowId],
        gone: &mut OnGone<'_>,
    ) {
        match self.claims_by() {
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            // SAFETY: the value exists only where the processor has AVX2, BMI2 and POPCNT.
            Isa::Avx2 => unsafe { self.claim_groups_avx2(expires, keys, ids, gone) },
            _ => self.claim_groups(Base, expires, keys, ids, gone),
        }
    }

    /// The instructions of a claim: there is nothing for AVX-512, which has AVX2 within it, and
    /// nothing for single keys and turns.
    pub(super) fn claims_by(&self) -> Isa {
        match (self.batch, self.isa) {
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            (Batch::Groups, isa) if isa != Isa::Portable => Isa::Avx2,
            _ => Isa::Portable,
        }
    }

    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
    fn claim_groups_avx2(
        &mut self,
        expires: u64,
        keys: &[FlowKey],
        ids: &mut [FlowId],
        gone: &mut OnGone<'_>,
    ) {
        // SAFETY: it is enabled here.
        self.claim_groups(unsafe { Avx2::new() }, expires, keys, ids, gone);
    }

    /// Four groups are under way: of one the lines come, of the two before it the entries,
    /// and that before all is claimed. So reads of some keys go on beside the work for others.
    #[inline(always)]
    fn claim_groups(
        &mut self,
        words: impl Words,
        expires: u64,
        keys: &[FlowKey],
        ids: &mut [FlowId],
        gone: &mut OnGone<'_>,
    ) {
        let mut asked = [[(0, Hint::NONE); CLAIMED]; UNDER_WAY];
        let groups = keys.len().div_ceil(CLAIMED);
        let part = |group: usize| group * CLAIMED..keys.len().min((group + 1) * CLAIMED);
        for step in 0..groups + 1 + PEEKED {
            if step < groups {
                for (asked, key) in asked[step % UNDER_WAY].iter_mut().zip(&keys[part(step)]) {
                    let hash = key.hash(&self.seed);
                    *asked = (hash, self.core.ask_first(hash));
                }
            }
            self.core.begin_group(self.books.prefers_at_once(), self.books.is_full());
            if (1..=groups).contains(&step) {
                let n = part(step - 1).len();
                for (hash, hint) in asked[(step - 1) % UNDER_WAY][..n].iter_mut() {
                    *hint = self.core.peek(words, *hash, hint);
                }
            }
            let Some(group) = step.checked_sub(1 + PEEKED) else { continue };
            let (part, asked) = (part(group), &asked[group % UNDER_WAY]);
            for (i, (hash, hint)) in part.clone().zip(asked) {
                let Sure::Found(id) = self.core.sure(*hash, &keys[i], hint) else {
                    self.claim_group(
                        i..part.end,
                        &asked[i - part.start..],
                        expires,
                        keys,
                        ids,
                        gone,
                    );
                    break;
                };
                self.meet(id);
                ids[i] = id;
            }
        }
    }

    /// Claims the keys of `part`, of which `asked` is known: the rest of a group from the first on
    /// that is not found at once. In a function of its own, so that it has all registers.
    #[inline(never)]
    fn claim_group(
        &mut self,
        part: Range<usize>,
        asked: &[(u64, Hint)],
        expires: u64,
        keys: &[FlowKey],
        ids: &mut [FlowId],
        gone: &mut OnGone<'_>,
    ) {
        let mut terms = self.books.terms(CLAIMED);
        for (i, (hash, hint)) in part.zip(asked) {
            let key = &keys[i];
            let id = match self.core.sure(*hash, key, hint) {
                Sure::Found(id) => {
                    self.meet(id);
                    id
                }
                Sure::Absent => self.core.make(*hash, key, hint, &mut terms, gone),
                Sure::Nothing => FlowId::NONE,
            };
            ids[i] = id;
            if id.is_none() {
                self.books.keep(&mut terms);
                self.claim_unsure(*hash, key, hint, expires, (i, ids), gone);
            }
        }
        self.books.keep(&mut terms);
    }

    /// In turns: the searches ask, and whose lines are there claims.
    pub(super) fn claim_turns(
        &mut self,
        expires: u64,
        keys: &[FlowKey],
        ids: &mut [FlowId],
        gone: &mut OnGone<'_>,
    ) {
        self.core.begin_group(self.books.prefers_at_once(), self.books.is_full());
        let table = RefCell::new(self);
        let ask = async |key: &FlowKey| {
            let hash = key.hash(&table.borrow().seed);
            let hint = table.borrow().core.ask_first(hash);
            turn().await;
            table.borrow().core.peek(Base, hash, &hint);
            turn().await;
            hash
        };
        interleave::<TURNS, _>(
            keys.len(),
            |i| ask(&keys[i]),
            |i, hash| {
                ids[i] = table.borrow_mut().claim(hash, &keys[i], &Hint::NONE, expires, &[], gone);
            },
        );
    }

    /// The flow at `id` was found. Nobody reads the page of a flow that was declined, nor often
    /// that of a grant before it is used: they are not asked for.
    #[inline(always)]
    fn meet(&mut self, id: FlowId) {
        let flow = &self.core.flows()[id.place as usize];
        if !flow.is_kept() && !self.core.pins() {
            return;
        }
        if let Some(page) = flow.page() {
            prefetch_at(self.books.pages.all(), page as usize);
        }
        self.core.found(id);
    }

    /// As [`Table::claim`], of key `i`; out of the way of flows that are found or made at once.
    #[inline(never)]
    fn claim_unsure(
        &mut self,
        hash: u64,
        key: &FlowKey,
        hint: &Hint,
        expires: u64,
        (i, ids): (usize, &mut [FlowId]),
        gone: &mut OnGone<'_>,
    ) {
        let (before, rest) = ids.split_at_mut(i);
        rest[0] = self.claim(hash, key, hint, expires, before, gone);
    }

    /// The flow of `key`, found or made; those `before` it in the batch stay.
    #[inline(always)]
    pub(super) fn claim(
        &mut self,
        hash: u64,
        key: &FlowKey,
        mut hint: &Hint,
        expires: u64,
        before: &[FlowId],
        gone: &mut OnGone<'_>,
    ) -> FlowId {
        let found = match self.core.sure(hash, key, hint) {
            Sure::Found(id) => Some(id),
            Sure::Absent => None,
            Sure::Nothing => {
                hint = &Hint::NONE;
                self.core.find(hash, key)
            }
        };
        if let Some(id) = found {
            self.meet(id);
            return id;
        }
        if !self.books.may_try() {
            return FlowId::NONE;
        }
        let (mut id, at_once) = (None, self.books.prefers_at_once());
        if !self.books.is_full() {
            id = self.core.add(hash, key, at_once.is_none(), hint);
            if at_once.is_none() {
                hint = &Hint::NONE; // flows may have been moved
            }
        }
        if id.is_none()
            && let Some(prefer) = at_once.or_else(|| self.books.prefers())
        {
            id = self.replace((hash, key, hint), prefer, before, gone);
            if id.is_none() && prefer == Prefer::RequestsOnly {
                id = self.search(hash, key, before, gone);
            }
        }
        let Some(id) = id else {
            self.books.refused();
            return FlowId::NONE;
        };
        self.books.came();
        let (flows, _) = self.core.parts();
        flows[id.place as usize].set_expires(expires);
        id.as_new()
    }

    /// Room for `key` where no request goes soon.
    #[inline(never)]
    fn search(
        &mut self,
        hash: u64,
        key: &FlowKey,
        before: &[FlowId],
        gone: &mut OnGone<'_>,
    ) -> Option<FlowId> {
        let found = self.core.add(hash, key, true, &Hint::NONE);
        found.or_else(|| {
            let prefer = self.books.prefers()?;
            self.replace((hash, key, &Hint::NONE), prefer, before, gone)
        })
    }

    /// Room for a key where another flow was.
    #[inline(always)]
    fn replace(
        &mut self,
        (hash, key, mut hint): (u64, &FlowKey, &Hint),
        prefer: Prefer,
        before: &[FlowId],
        gone: &mut OnGone<'_>,
    ) -> Option<FlowId> {
        if self.core.hold(before) {
            hint = &Hint::NONE;
        }
        let id = self.core.first_to_go(hash, prefer, hint, before)?;
        let stays = || !self.books.is_soon(&self.core.flows()[id.place as usize]);
        if prefer == Prefer::RequestsOnly && stays() {
            return None;
        }
        self.goes(id, Why::Replaced, gone);
        Some(self.core.replace(id, hash, key))
    }
}

/// Keys of a group that is claimed.
const CLAIMED: usize = 8;
/// Groups between the look at a key's lines and its claim.
const PEEKED: usize = HINTS_LAST as usize;
/// Groups of which something is known: a power of two.
const UNDER_WAY: usize = 4;

const _: () = assert!(2 + PEEKED <= UNDER_WAY);
