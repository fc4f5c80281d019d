//! One forwarding table: the store of what is to be looked up, and an engine that
//! answers from it.
//!
//! ```text
//!  changes ─► rib ─┬─► writer.apply ── in place ──► the table that serves
//!                  └─► Rebuild: a copy of the rib ─► build thread ─► a new table ─► swap
//!                      (the old one serves; what changes meanwhile queues, one
//!                       change a prefix, and is applied before the swap or goes
//!                       into the next build)
//! ```
//!
//! Invariant I1: the table that serves, and one that is being built, name only
//! hops that the rib named at commit [`Fib::synced`] or later.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use lookup::lpm::{Applied, Engines, Entry, Lpm, Options, Refusal, Writer};
use lookup::rib::Change;
use lookup::sync::Domain;
use lookup::{Hop, Prefix, Rib};

use crate::build::{Builder, Built, Job};
use crate::error::Error;
use crate::limits::{Memory, Refusals};
use crate::net::Net;

/// A table and what it is built from.
pub(crate) struct Fib<A: Engines> {
    choice: Choice<A>,
    rib: Rib<A>,
    writer: Box<dyn Writer<A>>,
    table: Arc<dyn Lpm<A>>,
    domain: Arc<Domain>,
    /// The last commit that `table` holds.
    in_table: u64,
    /// The last commit that `rib` holds.
    in_rib: u64,
    building: Option<Building<A>>,
    /// The rib holds what neither the table nor the build has.
    stale: bool,
    /// No build starts before: building may take half of the time, not all of it.
    not_before: Instant,
    /// What a prefix has whose new hop the engine refuses.
    fallback: Hop,
    pub(crate) stats: Stats,
    pub(crate) refusals: Refusals,
}

/// An engine and its options.
#[derive(Clone)]
struct Choice<A: Engines> {
    entry: Entry<A>,
    options: Options,
}

/// Figures for `show`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stats {
    pub(crate) updates: u64,
    pub(crate) rebuilds: u64,
    pub(crate) build_time: Duration,
    /// The engine last asked for, and what became of that.
    pub(crate) switch: Option<(String, Result<(), String>)>,
}

struct Building<A: Engines> {
    result: Receiver<Result<Built<A>, Refusal>>,
    /// Another engine than the one that serves.
    switch: Option<Choice<A>>,
    /// The commit that the build's copy of the rib holds.
    seq: u64,
    /// What changed since.
    queued: BTreeMap<Prefix<A>, Option<Hop>>,
    attempt: u32,
}

impl<A: Engines> Fib<A> {
    /// An empty table.
    pub(crate) fn new(
        entry: Entry<A>,
        options: Options,
        fallback: Hop,
        domain: &Arc<Domain>,
    ) -> Result<Self, Error> {
        let rib = Rib::new();
        let writer = (entry.build)(&rib, &options, domain)?;
        Ok(Fib {
            choice: Choice { entry, options },
            rib,
            table: writer.table(),
            writer,
            domain: domain.clone(),
            in_table: 0,
            in_rib: 0,
            building: None,
            stale: false,
            not_before: Instant::now(),
            fallback,
            stats: Stats::default(),
            refusals: Refusals::default(),
        })
    }

    /// Carries out the changes of a commit, one a prefix. Those that the engine
    /// refuses are counted and left out.
    pub(crate) fn apply(&mut self, changes: &[Change<A>], seq: u64) {
        self.stats.updates += changes.len() as u64;
        let mut fitting = changes.to_vec();
        let there = |change: &&Change<A>| self.rib.get(&change.prefix).is_some();
        let going = changes.iter().filter(|change| change.hop.is_none()).filter(there).count();
        let mut count = self.rib.len() - going;
        fitting.retain(|change| self.fits(change, &mut count));
        self.apply_some(&fitting);
        self.idle(seq);
    }

    /// States that the rib is that of commit `seq`.
    pub(crate) fn idle(&mut self, seq: u64) {
        self.in_rib = seq;
        if !self.is_behind() {
            self.in_table = seq;
        }
    }

    /// Takes a finished build in, and starts the next where one is due. True when
    /// another table serves now.
    pub(crate) fn poll(&mut self, builder: &mut Builder, memory: &Memory) -> bool {
        let swapped = match self.building.as_ref().map(|building| building.result.try_recv()) {
            Some(Ok(result)) => self.finish(result, builder),
            Some(Err(TryRecvError::Disconnected)) => {
                let engine = self.choice.entry.card.name;
                self.finish(Err(Refusal { engine, limit: "the build failed".into() }), builder)
            }
            Some(Err(TryRecvError::Empty)) | None => false,
        };
        if self.building.is_none() && self.stale && Instant::now() >= self.not_before {
            self.start(None, builder, memory);
        }
        swapped
    }

    /// Begins to change the engine; [`Stats::switch`] reports how it went.
    pub(crate) fn set_engine(
        &mut self,
        entry: Entry<A>,
        options: Options,
        builder: &mut Builder,
        memory: &Memory,
    ) -> Result<(), Error> {
        if self.building.as_ref().is_some_and(|building| building.switch.is_some()) {
            return Err(Error::Busy);
        }
        // A rebuild that is under way is dropped: the new engine has all of it.
        self.stale |= self.building.take().is_some();
        self.stats.switch = None;
        if !self.start(Some(Choice { entry, options }), builder, memory) {
            let engine = entry.card.name;
            return Err(Refusal { engine, limit: "too little memory is free".into() }.into());
        }
        Ok(())
    }

    /// The commit from which on no reader meets older hops in this table.
    pub(crate) fn synced(&self) -> u64 {
        let building = self.building.as_ref().map_or(u64::MAX, |building| building.seq);
        self.in_table.min(building)
    }

    /// True when the table that serves holds commit `seq`.
    pub(crate) fn has(&self, seq: u64) -> bool {
        self.in_table >= seq
    }

    pub(crate) fn table(&self) -> Arc<dyn Lpm<A>> {
        self.table.clone()
    }

    pub(crate) fn rib(&self) -> &Rib<A> {
        &self.rib
    }

    pub(crate) fn engine(&self) -> &'static str {
        self.choice.entry.card.name
    }

    /// Engine and options.
    pub(crate) fn choice(&self) -> (Entry<A>, Options) {
        (self.choice.entry, self.choice.options.clone())
    }

    /// The most prefixes that the engine takes.
    pub(crate) fn max_prefixes(&self) -> Option<u64> {
        self.choice.entry.card.max_prefixes
    }

    /// True when the engine has room for this hop's number.
    pub(crate) fn takes(&self, hop: Hop) -> bool {
        hop.0 <= self.choice.entry.card.max_hop
    }

    /// True when the engine takes prefixes of this length.
    pub(crate) fn takes_length(&self, len: u8) -> bool {
        len <= self.choice.entry.card.max_len
    }

    /// The engine that is being built beside.
    pub(crate) fn switching_to(&self) -> Option<&'static str> {
        Some(self.building.as_ref()?.switch.as_ref()?.entry.card.name)
    }

    /// Bytes of the writer's own state.
    pub(crate) fn writer_bytes(&self) -> usize {
        self.writer.bytes()
    }

    /// True while the table that serves lacks changes. One whose engine changes lacks
    /// none where it takes them in place.
    pub(crate) fn is_behind(&self) -> bool {
        self.stale || self.is_rebuilt()
    }

    /// True while a build runs or is due.
    pub(crate) fn is_busy(&self) -> bool {
        self.stale || self.building.is_some()
    }

    /// True while the engine that serves is built anew.
    fn is_rebuilt(&self) -> bool {
        self.building.as_ref().is_some_and(|building| building.switch.is_none())
    }

    /// The engine's limits, as its card states them.
    /// `count` is the number of prefixes with the changes before this one.
    fn fits(&mut self, change: &Change<A>, count: &mut usize) -> bool {
        let (card, Some(hop)) = (self.choice.entry.card, change.hop) else { return true };
        let is_new = self.rib.get(&change.prefix).is_none();
        let full = card.max_prefixes.is_some_and(|most| *count as u64 >= most);
        let limit = if hop.0 > card.max_hop {
            format!("hop {} exceeds {}", hop.0, card.max_hop)
        } else if change.prefix.len() > card.max_len {
            format!("length {} exceeds {}", change.prefix.len(), card.max_len)
        } else if full && is_new {
            format!("{count} prefixes are in")
        } else {
            *count += usize::from(is_new);
            return true;
        };
        self.refuse(change, &limit);
        false
    }

    /// Applies all, or, where the engine refuses, each half on its own.
    fn apply_some(&mut self, changes: &[Change<A>]) {
        if changes.is_empty() {
            return;
        }
        let old: Vec<_> = changes.iter().map(|change| self.rib.apply(change)).collect();
        match self.writer.apply(&self.rib, changes) {
            Ok(applied) => {
                self.stale |= applied == Applied::Rebuild;
                if let Some(building) = &mut self.building {
                    building.queued.extend(changes.iter().map(|c| (c.prefix, c.hop)));
                }
            }
            Err(refusal) => {
                for (change, old) in changes.iter().zip(&old).rev() {
                    self.rib.apply(&Change { prefix: change.prefix, hop: *old });
                }
                match changes {
                    [change] => self.refuse(change, &refusal.limit),
                    _ => {
                        let (a, b) = changes.split_at(changes.len() / 2);
                        self.apply_some(a);
                        self.apply_some(b);
                    }
                }
            }
        }
    }

    /// Counts a refusal. A prefix that is there must not keep a hop that may be
    /// taken back (I1): it has the fallback, or it goes.
    fn refuse(&mut self, change: &Change<A>, limit: &str) {
        let engine = self.choice.entry.card.name;
        let reason = || format!("{engine} refuses: {limit}");
        self.refusals.note(|| Net::from(change.prefix).to_string(), reason);
        let prefix = change.prefix;
        let Some(old) = self.rib.get(&prefix) else { return };
        if old == self.fallback {
            return;
        }
        for hop in [Some(self.fallback), None] {
            let changes = [Change { prefix, hop }];
            self.rib.apply(&changes[0]);
            if let Ok(applied) = self.writer.apply(&self.rib, &changes) {
                self.stale |= applied == Applied::Rebuild;
                if let Some(building) = &mut self.building {
                    building.queued.insert(prefix, hop);
                }
                return;
            }
        }
        // Not even a deletion: the table is built anew from the rib, which holds it.
        self.stale = true;
    }

    /// Starts a build unless memory is short.
    fn start(&mut self, switch: Option<Choice<A>>, builder: &mut Builder, memory: &Memory) -> bool {
        // The copy, the table as large as the present one, and as much again to work in.
        let need = self.rib.bytes() + 2 * self.table.bytes();
        if !memory.allows(need as u64) {
            let reason = || format!("{need} bytes for a build are not free");
            self.refusals.note(|| "a rebuild".into(), reason);
            self.not_before = Instant::now() + MEMORY_PAUSE;
            return false;
        }
        self.launch(switch, 0, builder);
        true
    }

    fn launch(&mut self, switch: Option<Choice<A>>, attempt: u32, builder: &mut Builder) {
        let choice = switch.as_ref().unwrap_or(&self.choice).clone();
        let job = Job {
            entry: choice.entry,
            options: choice.options,
            rib: self.rib.clone(),
            domain: self.domain.clone(),
            check: switch.is_some().then(|| builder.forwarding()),
        };
        let result = builder.start(job);
        // While the engine changes, the one that serves is not rebuilt.
        self.stale &= switch.is_some();
        let (seq, queued) = (self.in_rib, BTreeMap::new());
        self.building = Some(Building { result, switch, seq, queued, attempt });
    }

    /// Swaps to what was built; true when it serves now.
    fn finish(&mut self, result: Result<Built<A>, Refusal>, builder: &mut Builder) -> bool {
        let Some(building) = self.building.take() else { return false };
        let taken = result.and_then(|mut built| {
            let queued = building.queued.iter();
            let changes: Vec<_> =
                queued.map(|(prefix, hop)| Change { prefix: *prefix, hop: *hop }).collect();
            let applied = match changes.is_empty() {
                true => Applied::InPlace,
                false => built.writer.apply(&self.rib, &changes)?,
            };
            Ok((built, applied))
        });
        let (built, applied) = match taken {
            Ok(taken) => taken,
            Err(refusal) => {
                self.fail(building.switch, &refusal);
                return false;
            }
        };
        self.stats.build_time = built.took;
        self.stats.rebuilds += 1;
        self.not_before = Instant::now() + built.took.max(LEAST_PAUSE);
        let behind = applied == Applied::Rebuild;
        if behind && building.switch.is_some() && building.attempt < ATTEMPTS {
            // The table that serves is newer: build again rather than go back.
            self.launch(building.switch, building.attempt + 1, builder);
            return false;
        }
        if let Some(choice) = building.switch {
            self.stats.switch = Some((choice.entry.card.name.into(), Ok(())));
            self.choice = choice;
        }
        self.table = built.writer.table();
        self.writer = built.writer;
        self.stale = behind;
        self.in_table = if behind { building.seq } else { self.in_rib };
        true
    }

    fn fail(&mut self, switch: Option<Choice<A>>, refusal: &Refusal) {
        match switch {
            Some(choice) => {
                let name = choice.entry.card.name.to_owned();
                self.stats.switch = Some((name, Err(refusal.to_string())));
            }
            None => {
                self.refusals.note(|| "a rebuild".into(), || refusal.to_string());
                self.stale = true;
                self.not_before = Instant::now() + MEMORY_PAUSE;
            }
        }
    }
}

const LEAST_PAUSE: Duration = Duration::from_millis(10);
const MEMORY_PAUSE: Duration = Duration::from_secs(1);
const ATTEMPTS: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    /// I1: nothing leads to a hop that may be taken back.
    #[test]
    fn a_prefix_whose_new_hop_is_refused_has_the_fallback() {
        let dxr = u32::engine("dxr").unwrap();
        let (fallback, domain) = (Hop(1), Domain::new());
        let mut fib = Fib::<u32>::new(*dxr, Options::default(), fallback, &domain).unwrap();
        let prefix = Prefix::covering(0x0a00_0000, 8);
        let mut seen = Vec::new();
        for (seq, hop) in [5, dxr.card.max_hop + 1, dxr.card.max_hop + 1, 6].into_iter().enumerate()
        {
            fib.apply(&[Change { prefix, hop: Some(Hop(hop)) }], seq as u64);
            let found = fib.table().lookup(0x0a01_0203);
            assert_eq!(fib.rib().get(&prefix), Some(found));
            seen.push((found, fib.refusals.count));
        }
        assert_eq!(seen, [(Hop(5), 0), (fallback, 1), (fallback, 2), (Hop(6), 2)]);
    }
}
