//! The one thread that changes the table.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::record::Painted;
use super::table::{self, CELLS, OWN, ROOTS, SMALL, Table, Value, large_at};
use super::table::{place, root_of_hop, root_of_record};
use super::{CARD, RECORD_BITS, REST_BITS, SLOTS};
use crate::lpm::export::Exported;
use crate::lpm::flatten::{self, Flatten};
use crate::lpm::instruments::Instrumented;
use crate::lpm::isa::Isa;
use crate::lpm::scale::Scale;
use crate::lpm::space::Space;
use crate::lpm::{Applied, Lpm, Refusal, Writer};
use crate::pages;
use crate::rib::Change;
use crate::sync::Domain;
use crate::{Hop, Prefix, Rib};

/// A table and what is needed to change it.
///
/// I4: each record of at most [`SMALL`] cells lies in a block of `small`, each
/// other one in lines of `large`, as many as its cells take; or `deep[i]` where
/// the record of root i has deep ones behind it.
pub(super) struct Rutter4<V: Value> {
    pub(super) table: Arc<Table<V>>,
    small: Space,
    large: Space,
    deep: HashMap<u32, u32>,
    flatten: Flatten<u32>,
    painted: Painted,
    edit: Option<Edit>,
}

/// A record that is painted from its cells: which root, what it was, and between
/// which slots something has changed; whether what is deep has.
struct Edit {
    number: u32,
    root: u32,
    slots: Range<usize>,
    deep: bool,
}

impl<V: Value> Rutter4<V> {
    /// Builds from all routes.
    pub(super) fn build(rib: &Rib<u32>, isa: Isa, domain: &Arc<Domain>) -> Result<Self, Refusal> {
        Scale::of(rib.len(), CELLS_A_ROUTE, CELLS).build(|scale| {
            let mut writer = match Self::empty(isa, scale.len(CELLS), domain) {
                Ok(writer) => writer,
                Err(refusal) => return (Err(refusal), false),
            };
            let done = writer.fill_all(rib);
            let spaces = [&writer.small, &writer.large];
            let is_tight = spaces.iter().any(|space| space.is_tight());
            let lacks_memory = spaces.iter().any(|space| space.lacks_memory());
            let full = || format!("more than {CELLS} cells");
            let refusal = || CARD.refuse(writer.large.limit(|| writer.small.limit(full)));
            (done.ok_or_else(refusal).map(|()| writer), is_tight && !lacks_memory)
        })
    }

    /// With room for so many cells.
    fn empty(isa: Isa, cells: usize, domain: &Arc<Domain>) -> Result<Self, Refusal> {
        let large_at = large_at(cells);
        let small = Space::new(domain, (large_at - OWN) / SMALL as u32, WAITING);
        let large = Space::new(domain, (cells as u32 - large_at) / V::LINE as u32, WAITING);
        let table = Table::new(isa, cells, [small.touched(), large.touched()])?;
        Ok(Rutter4 {
            table: Arc::new(table),
            small,
            large,
            deep: HashMap::new(),
            flatten: Flatten::new(),
            painted: Painted::new(),
            edit: None,
        })
    }

    /// The writer, and where its table reads.
    pub(super) fn instrumented(self) -> Instrumented<u32> {
        Instrumented { reads: self.table.clone(), writer: Box::new(self) }
    }

    /// The writer, and what copies its table.
    pub(super) fn exported(self) -> Exported<u32> {
        Exported { export: self.table.clone(), writer: Box::new(self) }
    }

    fn fill_all(&mut self, rib: &Rib<u32>) -> Option<()> {
        let mut flatten = Flatten::new(); // an update's is small
        let (mut next, mut outside) = (0, 0);
        let intervals = flatten.sweep(rib, Prefix::all());
        for part in intervals.chunk_by(|a, b| number_of(a.0) == number_of(b.0)) {
            let number = number_of(part[0].0);
            self.fill_gap(next..number, outside)?;
            outside = self.painted.paint(part, outside);
            self.publish(number)?;
            next = number + 1;
        }
        self.fill_gap(next..ROOTS as u32, outside)?;
        self.store_default(rib);
        Some(())
    }

    /// While building: /18s of one hop.
    fn fill_gap(&mut self, mut numbers: Range<u32>, hop: u32) -> Option<()> {
        if hop >= OWN {
            return numbers.try_for_each(|number| self.set_hop(number, hop));
        }
        let roots = &self.table.view().roots[numbers.start as usize..numbers.end as usize];
        pages::fill(roots, root_of_hop(hop));
        Some(())
    }

    fn store_default(&self, rib: &Rib<u32>) {
        self.table.default.follow(rib);
    }

    /// Brings what `prefix` owns, or owned, in line with `rib`; `hop` is its hop there,
    /// or `None`.
    fn change(&mut self, rib: &Rib<u32>, prefix: Prefix<u32>, hop: Option<Hop>) -> Option<()> {
        match prefix.len() {
            0 => self.store_default(rib),
            1..=24 => {
                let hop = hop.unwrap_or_else(|| flatten::owner(rib, prefix));
                self.cover(rib, prefix, hop.0)?;
            }
            _ => {
                self.edit = None; // of a change that did not fit
                self.paint_24(rib, prefix.first() >> 8)?;
                self.commit()?;
            }
        }
        Some(())
    }

    /// The same for many. The `Rib` holds them all, so their order does not matter:
    /// what a prefix owns now is its own change's, or that of one that left it.
    fn change_all(&mut self, rib: &Rib<u32>, changes: &[Change<u32>]) -> Option<()> {
        let mut dirty: Vec<_> = changes.iter().map(|change| change.prefix).collect();
        dirty.sort_unstable();
        dirty.dedup();
        let in_record = |prefix: &Prefix<u32>| u32::from(prefix.len()) >= RECORD_BITS;
        let together = |a: &Prefix<u32>, b: &Prefix<u32>| {
            in_record(a) && in_record(b) && number_of(a.first()) == number_of(b.first())
        };
        for of_record in dirty.chunk_by(together) {
            if of_record.len() > FEW {
                self.repaint(rib, number_of(of_record[0].first()))?;
            } else {
                of_record.iter().try_for_each(|&prefix| self.change(rib, prefix, None))?;
            }
        }
        Some(())
    }

    /// Gives `hop` to each /24 that `prefix`, not longer than that, owns, and makes
    /// those anew of which it owns a part.
    fn cover(&mut self, rib: &Rib<u32>, prefix: Prefix<u32>, hop: u32) -> Option<()> {
        self.edit = None; // of a change that did not fit
        let (mut next, end) = (prefix.first() >> 8, (prefix.last() >> 8) + 1);
        for (child, _) in rib.children(prefix) {
            let first = child.first() >> 8;
            if first < next {
                continue; // longer than a /24, in one that has been seen
            }
            self.fill(next..first, hop)?;
            next = (child.last() >> 8) + 1;
            if child.len() > 24 {
                self.paint_24(rib, first)?;
            }
        }
        self.fill(next..end, hop)?;
        self.commit()
    }

    /// Gives /24s a hop. A record of which they are a part is written later:
    /// [`Rutter4::commit`].
    fn fill(&mut self, of_24s: Range<u32>, hop: u32) -> Option<()> {
        let Range { mut start, end } = of_24s;
        while start < end {
            let (number, from) = (start / SLOTS as u32, start as usize % SLOTS);
            let to = SLOTS.min(from + (end - start) as usize);
            if to - from == SLOTS {
                self.set_hop(number, hop)?;
            } else {
                self.fill_part(number, from..to, hop)?;
            }
            start += (to - from) as u32;
        }
        Some(())
    }

    fn fill_part(&mut self, number: u32, slots: Range<usize>, hop: u32) -> Option<()> {
        self.edit(number, &slots)?;
        self.painted.fill(slots, hop);
        Some(())
    }

    /// Makes a /24 anew that has longer prefixes, or had.
    fn paint_24(&mut self, rib: &Rib<u32>, of_24: u32) -> Option<()> {
        let slot = of_24 as usize % SLOTS;
        let edit = self.edit(of_24 / SLOTS as u32, &(slot..slot + 1))?;
        if !std::mem::replace(&mut edit.deep, true) {
            self.painted.keep::<V>();
        }
        let within = Prefix::covering(of_24 << 8, 24);
        self.painted.paint_slot(slot, self.flatten.sweep(rib, within));
        Some(())
    }

    /// Begins to paint `slots` of a record, or goes on with it.
    fn edit(&mut self, number: u32, slots: &Range<usize>) -> Option<&mut Edit> {
        if self.edit.as_ref().is_none_or(|edit| edit.number != number) {
            self.commit()?;
            let view = self.table.view();
            let root = view.roots[number as usize].load(Ordering::Relaxed);
            self.painted.load(view, root);
            self.edit = Some(Edit { number, root, slots: slots.clone(), deep: false });
        }
        self.edit.iter_mut().for_each(|edit| edit.slots.end = slots.end);
        self.edit.as_mut()
    }

    /// Writes what has been painted: over the record where its stride and what is deep
    /// stay, else in another.
    fn commit(&mut self) -> Option<()> {
        let Some(Edit { number, root, slots, deep }) = self.edit.take() else { return Some(()) };
        self.painted.measure();
        let len = self.painted.len();
        if deep || len == 1 || len != table::len(root) {
            // Where nothing deep is painted there is nothing deep: with it there are 64
            // cells, before and after.
            return self.publish(number);
        }
        self.painted.patch::<V>(self.table.view().cells_of(root), slots);
        Some(())
    }

    /// Makes a record anew from the routes in its /18.
    fn repaint(&mut self, rib: &Rib<u32>, number: u32) -> Option<()> {
        let within = Prefix::covering(number << REST_BITS, RECORD_BITS as u8);
        self.painted.paint(self.flatten.sweep(rib, within), 0);
        self.publish(number)
    }

    /// Makes what is painted the record of root `number`.
    fn publish(&mut self, number: u32) -> Option<()> {
        if let Some(hop) = self.painted.uniform() {
            return self.set_hop(number, hop);
        }
        let len = self.painted.len();
        let view = self.table.view();
        let root = view.roots[number as usize].load(Ordering::Relaxed);
        let cells = self.painted.cells::<V>(&view.cells[place(root) as usize..]);
        let (place, lines) = if len <= SMALL {
            (OWN + self.small.take(1)? * SMALL as u32, 0)
        } else {
            let lines = cells.len().div_ceil(V::LINE) as u32;
            (view.large_at() + self.large.take(lines)? * V::LINE as u32, lines)
        };
        self.table.view().write(place, cells);
        let deep = if cells.len() > len { lines } else { 0 };
        self.replace(number, root_of_record(place, len), deep);
        Some(())
    }

    /// Makes a /18 uniform. A hop without a cell of its own gets a record.
    fn set_hop(&mut self, number: u32, hop: u32) -> Option<()> {
        let root = if hop < OWN {
            root_of_hop(hop)
        } else {
            let place = OWN + self.small.take(1)? * SMALL as u32;
            self.table.view().write(place, &[hop, hop]);
            root_of_record(place, 2)
        };
        self.replace(number, root, 0);
        Some(())
    }

    /// Stores a root; `deep` as in I4, else 0.
    fn replace(&mut self, number: u32, root: u32, deep: u32) {
        let slot = &self.table.view().roots[number as usize];
        let old = slot.load(Ordering::Relaxed);
        slot.store(root, Ordering::Release); // I1
        let had = if self.deep.is_empty() { None } else { self.deep.remove(&number) };
        match table::len(old) {
            _ if old == 0 => {} // while building
            1 => {}             // a hop's own cell
            ..=SMALL => self.small.retire((place(old) - OWN) / SMALL as u32, 1),
            cells => {
                let lines = had.unwrap_or(cells.div_ceil(V::LINE) as u32);
                let at = place(old) - self.table.view().large_at();
                self.large.retire(at / V::LINE as u32, lines);
            }
        }
        if deep > 0 {
            self.deep.insert(number, deep);
        }
    }
}

impl<V: Value> Writer<u32> for Rutter4<V> {
    fn table(&self) -> Arc<dyn Lpm<u32>> {
        self.table.clone()
    }

    fn apply(&mut self, rib: &Rib<u32>, changes: &[Change<u32>]) -> Result<Applied, Refusal> {
        let largest = changes.iter().filter_map(|change| change.hop).max().unwrap_or(Hop::NONE);
        CARD.admit_hop(largest)?;
        // A hop that 15 bits do not hold: the rebuilt table has 32.
        if largest.0 > V::MOST {
            return Ok(Applied::Rebuild);
        }
        for space in [&mut self.small, &mut self.large] {
            space.admit().map_err(|congested| CARD.refuse(congested.to_string()))?;
        }
        // Full half-way: a rebuilt table has no garbage, or names the limit.
        let done = match changes {
            &[Change { prefix, hop }] => self.change(rib, prefix, hop),
            _ => self.change_all(rib, changes),
        };
        Ok(if done.is_some() { Applied::InPlace } else { Applied::Rebuild })
    }

    fn bytes(&self) -> usize {
        let deep = self.deep.capacity() * (size_of::<(u32, u32)>() + 1);
        let scratch = self.flatten.bytes() + self.painted.bytes();
        self.small.bytes() + self.large.bytes() + deep + scratch
    }
}

/// The number of the /18 that holds `dst`.
fn number_of(dst: u32) -> u32 {
    dst >> REST_BITS
}

/// Cells that a route takes, as a rule fewer.
const CELLS_A_ROUTE: usize = 16;

/// Records that may wait for readers.
const WAITING: usize = 1 << 18;

/// Changes in a /18 up to which they are made one by one: a patch costs about a
/// quarter of what a record made anew does.
const FEW: usize = 4;
