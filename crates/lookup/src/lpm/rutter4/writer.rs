//! The one thread that changes the table.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::record::Painted;
use super::table::{CELLS, OWN, ROOTS, SMALL, Table, Value};
use super::table::{place, root_of_hop, root_of_record, shift};
use super::{CARD, RECORD_BITS, REST_BITS};
use crate::lpm::flatten::{self, Flatten};
use crate::lpm::isa::Isa;
use crate::lpm::space::Space;
use crate::lpm::{Applied, Lpm, Refusal, Writer};
use crate::rib::Change;
use crate::sync::Domain;
use crate::{Hop, Prefix, Rib};

/// A table and what is needed to change it.
///
/// I4: each record of at most [`SMALL`] cells lies in a block of `small`, each
/// other one in lines of `large`, as many as its cells take; or `deep[i]` where
/// the record of root i has deep ones behind it.
pub(super) struct Rutter4<V: Value> {
    table: Arc<Table<V>>,
    small: Space,
    large: Space,
    deep: HashMap<u32, u32>,
    flatten: Flatten<u32>,
    painted: Painted,
}

impl<V: Value> Rutter4<V> {
    /// Builds from all routes.
    pub(super) fn build(rib: &Rib<u32>, isa: Isa, domain: &Arc<Domain>) -> Result<Self, Refusal> {
        let small = Space::new(domain, (LARGE_AT - OWN) / SMALL as u32, WAITING);
        let large = Space::new(domain, (CELLS as u32 - LARGE_AT) / V::LINE as u32, WAITING);
        let table = Table::new(isa, [small.touched(), large.touched()])?;
        let mut writer = Rutter4 {
            table: Arc::new(table),
            small,
            large,
            deep: HashMap::new(),
            flatten: Flatten::new(),
            painted: Painted::new(),
        };
        let done = writer.fill(rib);
        let full = || format!("more than {CELLS} cells");
        done.ok_or_else(|| CARD.refuse(writer.large.limit(|| writer.small.limit(full))))?;
        Ok(writer)
    }

    fn fill(&mut self, rib: &Rib<u32>) -> Option<()> {
        let mut flatten = std::mem::take(&mut self.flatten);
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
        self.flatten = flatten;
        self.store_default(rib);
        Some(())
    }

    /// While building: /18s of one hop.
    fn fill_gap(&mut self, mut numbers: Range<u32>, hop: u32) -> Option<()> {
        if hop >= OWN {
            return numbers.try_for_each(|number| self.set_hop(number, hop));
        }
        let roots = &self.table.view().roots[numbers.start as usize..numbers.end as usize];
        roots.iter().for_each(|root| root.store(root_of_hop(hop), Ordering::Relaxed));
        Some(())
    }

    fn store_default(&self, rib: &Rib<u32>) {
        let default = rib.get(&Prefix::all()).unwrap_or_default();
        self.table.default.store(default.0, Ordering::Relaxed);
    }

    /// Brings what `prefix` owns, or owned, in line with `rib`.
    fn change(&mut self, rib: &Rib<u32>, prefix: Prefix<u32>) -> Option<()> {
        match u32::from(prefix.len()) {
            0 => self.store_default(rib),
            1..RECORD_BITS => self.cover(rib, prefix)?,
            _ => self.repaint(rib, number_of(prefix.first()))?,
        }
        Some(())
    }

    /// The same for many: a record is made once however many routes in it change.
    fn change_all(&mut self, rib: &Rib<u32>, changes: &[Change<u32>]) -> Option<()> {
        let within = |prefix: Prefix<u32>| {
            Prefix::covering(prefix.first(), prefix.len().min(RECORD_BITS as u8))
        };
        let mut dirty: Vec<_> = changes.iter().map(|change| within(change.prefix)).collect();
        dirty.sort_unstable();
        dirty.dedup();
        dirty.iter().try_for_each(|&prefix| self.change(rib, prefix))
    }

    /// Each /18 of which `prefix`, which is shorter, owns a part.
    fn cover(&mut self, rib: &Rib<u32>, prefix: Prefix<u32>) -> Option<()> {
        let hop = flatten::owner(rib, prefix).0;
        let (mut next, last) = (number_of(prefix.first()), number_of(prefix.last()));
        for (child, _) in rib.children(prefix) {
            let number = number_of(child.first());
            if number < next {
                continue; // longer than a /18, in one that has been made
            }
            (next..number).try_for_each(|number| self.set_hop(number, hop))?;
            if u32::from(child.len()) > RECORD_BITS {
                self.repaint(rib, number)?;
            }
            next = number_of(child.last()) + 1;
        }
        (next..=last).try_for_each(|number| self.set_hop(number, hop))
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
        let cells = self.painted.cells::<V>();
        let (place, lines) = if len <= SMALL {
            (OWN + self.small.take(1)? * SMALL as u32, 0)
        } else {
            let lines = cells.len().div_ceil(V::LINE) as u32;
            (LARGE_AT + self.large.take(lines)? * V::LINE as u32, lines)
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
        match cells_of(old) {
            _ if old == 0 => {} // while building
            1 => {}             // a hop's own cell
            ..=SMALL => self.small.retire((place(old) - OWN) / SMALL as u32, 1),
            cells => {
                let lines = had.unwrap_or(cells.div_ceil(V::LINE) as u32);
                self.large.retire((place(old) - LARGE_AT) / V::LINE as u32, lines);
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
            [change] => self.change(rib, change.prefix),
            _ => self.change_all(rib, changes),
        };
        Ok(if done.is_some() { Applied::InPlace } else { Applied::Rebuild })
    }

    fn bytes(&self) -> usize {
        let deep = self.deep.capacity() * (size_of::<(u32, u32)>() + 1);
        self.small.bytes() + self.large.bytes() + deep
    }
}

/// The number of the /18 that holds `dst`.
fn number_of(dst: u32) -> u32 {
    dst >> REST_BITS
}

/// Cells of the record of `root`, without what is deep.
fn cells_of(root: u32) -> usize {
    1 << (REST_BITS - shift(root))
}

/// Where records of whole lines begin; the small ones lie before.
const LARGE_AT: u32 = CELLS as u32 / 4;

/// Records that may wait for readers.
const WAITING: usize = 1 << 18;
