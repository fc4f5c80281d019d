//! The one thread that changes the table.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub(super) use super::roots::Rutter6;
use super::roots::Shared;
use super::sizes::Sizes;
use super::table::{DEEP, ROOTS, Table, Value};
use super::tree::{Answer, Kind, Patch, Spliced, Trees, push};
use super::{CARD, LEVELS, ROOT_BITS, bits_to, x_of};
use crate::lpm::export::Exported;
use crate::lpm::flatten::Flatten;
use crate::lpm::instruments::Instrumented;
use crate::lpm::isa::Isa;
use crate::lpm::{Applied, Lpm, Refusal, Writer};
use crate::pages;
use crate::rib::Change;
use crate::sync::Domain;
use crate::{Hop, Prefix, Rib};

impl<V: Value> Rutter6<V> {
    /// Builds from all routes.
    pub(super) fn build(rib: &Rib<u128>, isa: Isa, domain: &Arc<Domain>) -> Result<Self, Refusal> {
        let mut sizes = Sizes::of(rib.len());
        loop {
            let (table, spaces) = Table::new(isa, sizes, domain)?;
            let mut writer = Rutter6 {
                trees: Trees::new(table, spaces),
                uniform: HashMap::new(),
                own: HashMap::new(),
                flatten: Flatten::new(),
            };
            let done = writer.fill(rib);
            let table = &writer.trees.table;
            let tight = done.is_none() && !table.is_out_of_numbers() || table.is_tight();
            if let Some(larger) = sizes.next().filter(|_| tight && !writer.trees.lacks_memory()) {
                sizes = larger;
                continue;
            }
            let full = || "no room in 2^26 lines or cells, or 2^24 deeper trees".to_string();
            done.ok_or_else(|| CARD.refuse(writer.trees.spaces.units.limit(full)))?;
            return Ok(writer);
        }
    }

    /// The writer, and where its table reads.
    pub(super) fn instrumented(self) -> Instrumented<u128> {
        Instrumented { reads: self.trees.table.clone(), writer: Box::new(self) }
    }

    /// The writer, and what copies its table.
    pub(super) fn exported(self) -> Exported<u128> {
        Exported { export: self.trees.table.clone(), writer: Box::new(self) }
    }

    fn fill(&mut self, rib: &Rib<u128>) -> Option<()> {
        let nothing = self.shared_word(0)?;
        self.uniform.get_mut(&0)?.users = ROOTS as u32;
        pages::fill(self.trees.table.view().root, nothing);
        let mut flatten = Flatten::new(); // an update's is small
        let (mut next, mut outside) = (0, Hop::NONE);
        for part in flatten.sweep(rib, Prefix::all()).chunk_by(|a, b| root_of(a.0) == root_of(b.0))
        {
            let at = root_of(part[0].0);
            self.fill_uniform(next..at, outside)?;
            let answers = self.answers(0, first_of(at), part, outside, u32::MAX)?;
            self.replace(at, &answers, false)?;
            (next, outside) = (at + 1, part[part.len() - 1].1);
        }
        self.fill_uniform(next..ROOTS as u32, outside)?;
        self.store_default(rib);
        Some(())
    }

    /// /16s of a new table, in which nothing has a route.
    fn fill_uniform(&mut self, mut roots: std::ops::Range<u32>, hop: Hop) -> Option<()> {
        if hop.is_none() { Some(()) } else { roots.try_for_each(|i| self.set_uniform(i, hop.0)) }
    }

    fn store_default(&self, rib: &Rib<u128>) {
        self.trees.table.default.follow(rib);
    }

    /// Brings what `prefix` owns, or owned, in line with `rib`.
    fn change(&mut self, rib: &Rib<u128>, prefix: Prefix<u128>) -> Option<()> {
        if prefix.len() == 0 {
            self.store_default(rib);
        } else if u32::from(prefix.len()) <= ROOT_BITS {
            self.cover(rib, prefix)?;
        } else {
            let at = root_of(prefix.first());
            let x = x_of(prefix.first(), 0);
            let entry = self.entry(at, x);
            if let Some((last, answers)) = self.patch(rib, 0, entry, prefix)? {
                let mut dropped = Vec::new();
                let patch = Patch { first: x, last, answers: &answers };
                self.splice(at, patch, &mut dropped)?;
                self.drop_deep(&dropped);
            }
        }
        self.trees.retire();
        Some(())
    }

    /// Each /16 of which `prefix` (not longer) owns a part.
    fn cover(&mut self, rib: &Rib<u128>, prefix: Prefix<u128>) -> Option<()> {
        let hop = hop_of(rib, prefix);
        let (mut next, last) = (root_of(prefix.first()), root_of(prefix.last()));
        for (child, _) in rib.children(prefix) {
            let at = root_of(child.first());
            if at < next {
                continue; // longer than /16, in one that has been rebuilt
            }
            (next..at).try_for_each(|i| self.set_uniform(i, hop))?;
            if u32::from(child.len()) > ROOT_BITS {
                self.rebuild(rib, at)?;
            }
            next = root_of(child.last()) + 1;
        }
        (next..=last).try_for_each(|i| self.set_uniform(i, hop))
    }

    fn rebuild(&mut self, rib: &Rib<u128>, at: u32) -> Option<()> {
        let within = Prefix::covering(first_of(at), ROOT_BITS as u8);
        let answers = self.sweep(rib, 0, within)?;
        self.replace(at, &answers, true)
    }

    /// What a change of `prefix` means for the tree of `entry` at `level`: from
    /// the first `x` of the prefix to the last, new answers. `None` where all
    /// stays, or a deeper tree alone was changed.
    #[allow(clippy::type_complexity)]
    fn patch(
        &mut self,
        rib: &Rib<u128>,
        level: u32,
        entry: u32,
        prefix: Prefix<u128>,
    ) -> Option<Option<(u32, Vec<Answer>)>> {
        if prefix.len() <= bits_to(level) {
            let answers = self.sweep(rib, level, prefix)?;
            return Some(Some((x_of(prefix.last(), level), answers)));
        }
        let x = x_of(prefix.first(), level);
        let value = self.trees.table.view().value(entry, x);
        let answer = self.inside(rib, level, value, prefix)?;
        Some(answer.map(|value| (x, vec![(x, value)])))
    }

    /// What becomes of the one answer that `prefix` lies inside of; `None` where
    /// it stays.
    fn inside(
        &mut self,
        rib: &Rib<u128>,
        level: u32,
        value: u32,
        prefix: Prefix<u128>,
    ) -> Option<Option<u32>> {
        let around = Prefix::covering(prefix.first(), bits_to(level));
        if value & DEEP == 0 {
            if hop_of(rib, prefix) == value {
                return Some(None); // as everything around it
            }
            return Some(self.sweep(rib, level, around)?.first().map(|&(_, value)| value));
        }
        let mut inside = rib.inside(around.first()..=around.last());
        if !inside.any(|(prefix, _)| prefix.len() > around.len()) {
            return Some(Some(hop_of(rib, around)));
        }
        let entry = self.trees.table.view().deep(value).load(Ordering::Relaxed);
        let Some((last, answers)) = self.patch(rib, level + 1, entry, prefix)? else {
            return Some(None);
        };
        let mut dropped = Vec::new();
        let first = x_of(prefix.first(), level + 1);
        let patch = Patch { first, last, answers: &answers };
        let tree = match self.trees.splice(entry, (0, u32::MAX), patch, Kind::Deep, &mut dropped)? {
            Spliced::Same => None,
            Spliced::Tree(tree) => Some(tree),
            Spliced::Overflow(answers) => Some(self.trees.plant(&answers, Kind::Deep)?),
        };
        if let Some(tree) = tree {
            self.trees.table.view().deep(value).store(tree, Ordering::Release);
        }
        self.drop_deep(&dropped);
        Some(None)
    }

    pub(super) fn drop_deep(&mut self, values: &[u32]) {
        values.iter().for_each(|&value| self.trees.uproot_deep(value));
    }

    /// The answers of `within` at `level`, from the routes; borders between them
    /// become deeper trees.
    fn sweep(&mut self, rib: &Rib<u128>, level: u32, within: Prefix<u128>) -> Option<Vec<Answer>> {
        let mut flatten = std::mem::take(&mut self.flatten);
        let intervals = flatten.sweep(rib, within);
        let last = x_of(within.last(), level);
        let answers = self.answers(level, within.first(), intervals, Hop::NONE, last);
        self.flatten = flatten;
        answers
    }

    /// Intervals as answers, from the one at `first` (where none starts there:
    /// `outside`) to `last`.
    fn answers(
        &mut self,
        level: u32,
        first: u128,
        intervals: &[(u128, Hop)],
        mut outside: Hop,
        last: u32,
    ) -> Option<Vec<Answer>> {
        let host_bits = Prefix::covering(0, bits_to(level)).last();
        let mut answers = Vec::with_capacity(intervals.len() + 1);
        answers.push((x_of(first, level), outside.0));
        for part in intervals.chunk_by(|a, b| (a.0 | host_bits) == (b.0 | host_bits)) {
            let (start, hop) = part[part.len() - 1];
            let x = x_of(start, level);
            if start & host_bits == 0 {
                push(&mut answers, (x, hop.0)); // the only one: starts ascend
            } else {
                push(&mut answers, (x, self.deeper(level + 1, part, outside)?));
                if x < last {
                    push(&mut answers, (x + 1, hop.0)); // put right where one starts there
                }
            }
            outside = hop;
        }
        Some(answers)
    }

    /// The value for one `x` of the level above with these intervals inside.
    fn deeper(&mut self, level: u32, part: &[(u128, Hop)], outside: Hop) -> Option<u32> {
        debug_assert!(level < LEVELS);
        let first = Prefix::covering(part[0].0, bits_to(level - 1)).first();
        let answers = self.answers(level, first, part, outside, u32::MAX)?;
        let tree = self.trees.plant(&answers, Kind::Deep)?;
        let number = self.trees.spaces.deep.take(1)?;
        self.trees.table.view().deep(number).store(tree, Ordering::Release);
        Some(number | DEEP)
    }
}

impl<V: Value> Writer<u128> for Rutter6<V> {
    fn table(&self) -> Arc<dyn Lpm<u128>> {
        self.trees.table.clone()
    }

    fn apply(&mut self, rib: &Rib<u128>, changes: &[Change<u128>]) -> Result<Applied, Refusal> {
        let largest = changes.iter().filter_map(|change| change.hop).max().unwrap_or(Hop::NONE);
        CARD.admit_hop(largest)?;
        if largest.0 > V::MOST {
            return Ok(Applied::Rebuild);
        }
        let spaces = &mut self.trees.spaces;
        for space in [&mut spaces.cells, &mut spaces.units, &mut spaces.deep] {
            space.admit().map_err(|congested| CARD.refuse(congested.to_string()))?;
        }
        // Full half-way: a rebuilt table has no garbage, or names the limit.
        let done = changes.iter().try_for_each(|change| self.change(rib, change.prefix));
        Ok(if done.is_some() { Applied::InPlace } else { Applied::Rebuild })
    }

    fn bytes(&self) -> usize {
        let entry = size_of::<(u32, Shared)>() + 1;
        let roots = (self.uniform.capacity() + self.own.capacity()) * entry;
        self.trees.bytes() + self.flatten.bytes() + roots
    }
}

fn root_of(dst: u128) -> u32 {
    (dst >> (u128::BITS - ROOT_BITS)) as u32
}

/// The first address of a /16.
fn first_of(at: u32) -> u128 {
    u128::from(at) << (u128::BITS - ROOT_BITS)
}

/// The hop of the longest prefix that covers `prefix`, /0 left out.
fn hop_of(rib: &Rib<u128>, prefix: Prefix<u128>) -> u32 {
    let longest = rib.covering(prefix).next();
    longest.filter(|(owner, _)| owner.len() > 0).map_or(0, |(_, hop)| hop.0)
}
