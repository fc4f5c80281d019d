//! Building and updating: routes, then the pivots above and below them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::b::Nests;
use super::super::owned::{holds_longer, owner};
use super::super::split::Lengths;
use super::filters::FiltersWriter;
use super::pivots::{self, Pivots};
use super::{CARD, Hybrid, INTERNAL, hash_of, narrow, wide};
use crate::lpm::default_hop::DefaultHop;
use crate::lpm::hashed::{HashedWriter, NoRoom};
use crate::lpm::{Applied, Lpm, Options, Refusal, Writer};
use crate::rib::Change;
use crate::sync::Domain;
use crate::{Addr, Prefix, Rib};

/// The one thread that changes a table.
pub(super) struct Merged {
    table: Arc<Hybrid>,
    filters: FiltersWriter,
    narrow: HashedWriter<2>,
    wide: HashedWriter<3>,
    /// Values by pivot level.
    nodes: [usize; pivots::MOST],
}

pub(super) fn build(
    rib: &Rib<u128>,
    options: &Options,
    domain: &Arc<Domain>,
) -> Result<Box<dyn Writer<u128>>, Refusal> {
    Ok(Box::new(Merged::new(rib, options, domain)?))
}

/// What the hash tables are built from.
#[derive(Default)]
struct Records {
    narrow: Vec<(u32, [u64; 2])>,
    wide: Vec<(u32, [u64; 3])>,
    nodes: [usize; pivots::MOST],
}

impl Records {
    /// Every route, and every pivot node.
    fn of(rib: &Rib<u128>, pivots: &Pivots) -> Self {
        let mut records = Records::default();
        let mut last = [None; pivots::MOST];
        let mut routes = rib.iter().filter(|(prefix, _)| prefix.len() > 0).peekable();
        while let Some((prefix, hop)) = routes.next() {
            for (at, &pivot) in shorter(pivots, prefix.len()) {
                let node = Prefix::covering(prefix.first(), pivot);
                if last[at] != Some(node) {
                    last[at] = Some(node);
                    records.push(pivots, node, INTERNAL | owner(rib, node, 1));
                }
            }
            let internal = routes.peek().is_some_and(|(next, _)| prefix.covers(next));
            match pivots.number(prefix.len()) {
                Some(at) if internal => {
                    last[at] = Some(prefix); // the node that those inside would make
                    records.push(pivots, prefix, INTERNAL | hop.0);
                }
                _ => records.push(pivots, prefix, hop.0),
            }
        }
        records
    }

    fn push(&mut self, pivots: &Pivots, prefix: Prefix<u128>, value: u32) {
        let (dst, len) = (prefix.first(), prefix.len());
        if let Some(at) = pivots.number(len) {
            self.nodes[at] += 1;
        }
        let hash = hash_of(dst, len) as u32;
        if len <= 64 {
            let [high, last] = narrow(dst, len);
            self.narrow.push((hash, [high, last | u64::from(value)]));
        } else {
            let [high, low, last] = wide(dst, len);
            self.wide.push((hash, [high, low, last | u64::from(value)]));
        }
    }
}

impl Merged {
    pub(super) fn new(
        rib: &Rib<u128>,
        options: &Options,
        domain: &Arc<Domain>,
    ) -> Result<Self, Refusal> {
        options.check(&CARD)?;
        let rate = options.get(&CARD, "false_positives", |rate| (1e-6..=0.99).contains(rate))?;
        let pivots: Pivots = options.get(&CARD, "pivots", |_| true)?;
        let most = CARD.max_prefixes.unwrap_or(u64::MAX);
        if rib.len() as u64 > most {
            return Err(CARD.refuse(format!("{} prefixes exceed {most}", rib.len())));
        }
        rib.iter().try_for_each(|(_, hop)| CARD.admit_hop(hop))?;
        let no_memory = |error: std::io::Error| CARD.refuse(format!("no memory: {error}"));
        let in_filter = |len: u8| if pivots.has_filter(len) { rib.count_of_len(len) } else { 0 };
        let counts: Vec<_> = (1..=128).map(in_filter).collect();
        let mut filters = FiltersWriter::new(&counts, rate).map_err(no_memory)?;
        let records = Records::of(rib, &pivots);
        let narrow = HashedWriter::build(domain, &records.narrow).map_err(no_memory)?;
        let wide = HashedWriter::build(domain, &records.wide).map_err(no_memory)?;
        let nests = Nests::new().map_err(no_memory)?;
        for (prefix, _) in rib.iter().filter(|(prefix, _)| prefix.len() > 0) {
            let len = prefix.len();
            show(&nests, prefix, true);
            if pivots.has_filter(len) {
                filters.insert(len, hash_of(prefix.first(), len));
            }
        }
        let table = Hybrid {
            pivots,
            nests,
            filters: filters.table().clone(),
            narrow: narrow.table().clone(),
            wide: wide.table().clone(),
            default: DefaultHop::of(rib),
            reach: AtomicUsize::new(pivots.reach(longest(rib))),
            inherited: Default::default(),
        };
        let (table, nodes) = (Arc::new(table), records.nodes);
        let merged = Merged { table, filters, narrow, wide, nodes };
        merged.count(rib);
        Ok(merged)
    }

    #[cfg(test)]
    pub(super) fn reader(&self) -> &Hybrid {
        &self.table
    }

    /// Brings `prefix` in line, and what depends on it.
    fn change(&mut self, rib: &Rib<u128>, prefix: Prefix<u128>) -> Result<(), NoRoom> {
        let (len, hop, pivots) = (prefix.len(), rib.get(&prefix), self.table.pivots);
        if len == 0 {
            self.table.default.set(hop.unwrap_or_default());
            return Ok(());
        }
        if len < 24 && hop.is_none() {
            show(&self.table.nests, prefix, false); // before the hop goes
        }
        if pivots.number(len).is_none() {
            let old = self.set_value(prefix, hop.map_or(0, |hop| hop.0))?;
            if pivots.has_filter(len) && (old != 0) != hop.is_some() {
                self.filter(prefix, hop.is_some());
            }
        }
        if len < 24 && hop.is_some() {
            show(&self.table.nests, prefix, true);
        }
        for (at, _) in shorter(&pivots, len + 1) {
            self.fix_pivot(rib, at, prefix.first())?;
        }
        self.relabel(rib, prefix)
    }

    /// Brings the node of pivot level number `at` that covers `dst` in line.
    fn fix_pivot(&mut self, rib: &Rib<u128>, at: usize, dst: u128) -> Result<(), NoRoom> {
        let node = Prefix::covering(dst, self.table.pivots.all()[at]);
        let value = if holds_longer(rib, node) {
            INTERNAL | owner(rib, node, 1)
        } else {
            rib.get(&node).map_or(0, |hop| hop.0)
        };
        if at == 0 && value == 0 {
            show(&self.table.nests, node, false); // before the value goes
        }
        let old = self.set_value(node, value)?;
        self.nodes[at] = self.nodes[at] + usize::from(value != 0) - usize::from(old != 0);
        if at == 0 && value != 0 {
            show(&self.table.nests, node, true);
        }
        Ok(())
    }

    /// Writes the hop of `prefix` to the pivot nodes inside that inherit from it, or
    /// now from what covers it: above each route next inside, as far as `prefix`.
    fn relabel(&mut self, rib: &Rib<u128>, prefix: Prefix<u128>) -> Result<(), NoRoom> {
        let value = INTERNAL | owner(rib, prefix, 1);
        let mut last = [None; pivots::MOST];
        let pivots = self.table.pivots;
        for (child, _) in rib.children(prefix) {
            let inside = shorter(&pivots, child.len()).filter(|(_, p)| **p > prefix.len());
            for (at, &pivot) in inside {
                let node = Prefix::covering(child.first(), pivot);
                if last[at] != Some(node) {
                    last[at] = Some(node);
                    // Where it is not there yet, the child's own change brings it.
                    if self.table.find(node.first(), pivot, hash_of(node.first(), pivot)) != 0 {
                        self.set_value(node, value)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Inserts, changes or (0) removes a value; returns the one before.
    fn set_value(&mut self, prefix: Prefix<u128>, value: u32) -> Result<u32, NoRoom> {
        let (dst, len) = (prefix.first(), prefix.len());
        let hash = hash_of(dst, len) as u32;
        match (len <= 64, value) {
            (true, 0) => Ok(self.narrow.remove(hash, &narrow(dst, len))),
            (true, _) => self.narrow.set(hash, &narrow(dst, len), value),
            (false, 0) => Ok(self.wide.remove(hash, &wide(dst, len))),
            (false, _) => self.wide.set(hash, &wide(dst, len), value),
        }
    }

    fn filter(&mut self, prefix: Prefix<u128>, there: bool) {
        let (len, hash) = (prefix.len(), hash_of(prefix.first(), prefix.len()));
        if there {
            self.filters.insert(len, hash);
        } else {
            self.filters.remove(len, hash);
        }
    }

    /// Reports to the readers' counters how many pivot nodes inherit.
    fn count(&self, rib: &Rib<u128>) {
        for (at, &pivot) in shorter(&self.table.pivots, 128) {
            let inherited = self.nodes[at].saturating_sub(rib.count_of_len(pivot));
            self.table.inherited[at].store(inherited as u64, Ordering::Relaxed);
        }
    }
}

impl Writer<u128> for Merged {
    fn table(&self) -> Arc<dyn Lpm<u128>> {
        self.table.clone()
    }

    fn apply(&mut self, rib: &Rib<u128>, changes: &[Change<u128>]) -> Result<Applied, Refusal> {
        for hop in changes.iter().filter_map(|change| change.hop) {
            CARD.admit_hop(hop)?;
        }
        let admitted = self.narrow.admit().and_then(|()| self.wide.admit());
        admitted.map_err(|congested| CARD.refuse(congested.to_string()))?;
        // A pivot too many costs a probe, one too few would hide what is behind it.
        let reach = self.table.pivots.reach(longest(rib));
        self.table.reach.fetch_max(reach, Ordering::Release);
        for change in changes {
            if let Err(NoRoom) = self.change(rib, change.prefix) {
                return Ok(Applied::Rebuild); // half-way: a rebuilt table has room
            }
        }
        self.table.reach.store(reach, Ordering::Release);
        self.count(rib);
        let loose = self.narrow.is_loose() || self.wide.is_loose();
        let anew = loose || self.filters.is_crowded();
        Ok(if anew { Applied::Rebuild } else { Applied::InPlace })
    }

    fn bytes(&self) -> usize {
        self.filters.bytes() + self.narrow.bytes() + self.wide.bytes()
    }
}

/// Sets or clears the bit of a prefix of up to /24; of a longer one, that of its /24.
fn show(nests: &Nests, prefix: Prefix<u128>, there: bool) {
    let top = prefix.first().bits(0, 24);
    if prefix.len() < 24 {
        let (word, bits) = nests.with(top, prefix.len(), there);
        word.store(bits, Ordering::Release);
    } else {
        let word = &nests.pivots()[top as usize / 64];
        let (old, bit) = (word.load(Ordering::Relaxed), 1 << (top % 64)); // we alone write
        word.store(if there { old | bit } else { old & !bit }, Ordering::Release);
    }
}

/// The pivots less than `len`, with their numbers.
fn shorter(pivots: &Pivots, len: u8) -> impl Iterator<Item = (usize, &u8)> {
    pivots.all().iter().enumerate().take_while(move |(_, pivot)| **pivot < len)
}

/// The length of the longest route.
fn longest(rib: &Rib<u128>) -> u8 {
    (0..=128).rev().find(|&len| rib.count_of_len(len) > 0).unwrap_or(0)
}
