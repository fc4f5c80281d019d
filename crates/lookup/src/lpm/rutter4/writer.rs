//! The one thread that changes the table.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::block::Draft;
use super::table::{PLACE, Table, Value};
use super::{CARD, RECORD_BITS, REST_BITS};
use crate::lpm::flatten::Flatten;
use crate::lpm::isa::Isa;
use crate::lpm::space::Space;
use crate::lpm::{Applied, Lpm, Refusal, Writer};
use crate::rib::Change;
use crate::sync::Domain;
use crate::{Hop, Prefix, Rib};

/// A table and what is needed to change it.
///
/// I4: the block of top i has `lines[i]` lines; 0 where it is one of `shared`,
/// which counts the tops that share it, or the zeros at the start.
pub(super) struct Rutter4<V: Value> {
    table: Arc<Table<V>>,
    space: Space,
    lines: Vec<u32>,
    /// As many as the block had when it was last laid out.
    tight: Vec<u32>,
    shared: HashMap<u32, Shared>,
    flatten: Flatten<u32>,
    draft: Draft,
}

/// The block of all tops with one answer.
struct Shared {
    block: u32,
    users: u32,
}

impl<V: Value> Rutter4<V> {
    /// Builds from all routes.
    pub(super) fn build(rib: &Rib<u32>, isa: Isa, domain: &Arc<Domain>) -> Result<Self, Refusal> {
        let (table, space) = Table::new(isa, domain)?;
        let mut writer = Rutter4 {
            table: Arc::new(table),
            space,
            lines: vec![0; 1 << V::TOP_BITS],
            tight: vec![0; 1 << V::TOP_BITS],
            shared: HashMap::new(),
            flatten: Flatten::new(),
            draft: Draft::new(),
        };
        let done = writer.fill(rib);
        let full = || format!("more than {} cells", super::table::CELLS);
        done.ok_or_else(|| CARD.refuse(writer.space.limit(full)))?;
        Ok(writer)
    }

    fn fill(&mut self, rib: &Rib<u32>) -> Option<()> {
        let mut flatten = std::mem::take(&mut self.flatten);
        let (mut next, mut outside) = (0, 0);
        let of_top = |start: u32| top_of::<V>(start);
        for part in flatten.sweep(rib, Prefix::all()).chunk_by(|a, b| of_top(a.0) == of_top(b.0)) {
            let top = of_top(part[0].0);
            (next..top).try_for_each(|top| self.set_uniform(top, outside))?;
            let within = prefix_of::<V>(top);
            self.draft.clear();
            outside = self.draft.paint::<V>(within.first(), within.last(), part, outside);
            self.publish(top)?;
            next = top + 1;
        }
        (next..1 << V::TOP_BITS).try_for_each(|top| self.set_uniform(top, outside))?;
        self.flatten = flatten;
        self.store_default(rib);
        Some(())
    }

    fn store_default(&self, rib: &Rib<u32>) {
        let default = rib.get(&Prefix::all()).unwrap_or_default();
        self.table.default.store(default.0, Ordering::Relaxed);
    }

    /// Brings what `prefix` owns, or owned, in line with `rib`.
    fn change(&mut self, rib: &Rib<u32>, prefix: Prefix<u32>) -> Option<()> {
        let len = u32::from(prefix.len());
        if len == 0 {
            self.store_default(rib);
            Some(())
        } else if len <= V::TOP_BITS {
            self.cover(rib, prefix)
        } else {
            // A record is made anew from all that is inside its /18.
            self.repaint(rib, Prefix::covering(prefix.first(), len.min(RECORD_BITS) as u8))
        }
    }

    /// The same for many: a record is made once however many routes in it change,
    /// and a block at once where several records do.
    fn change_all(&mut self, rib: &Rib<u32>, changes: &[Change<u32>]) -> Option<()> {
        let within = |prefix: Prefix<u32>| {
            Prefix::covering(prefix.first(), prefix.len().min(RECORD_BITS as u8))
        };
        let mut dirty: Vec<_> = changes.iter().map(|change| within(change.prefix)).collect();
        dirty.sort_unstable();
        dirty.dedup();
        let in_block = |prefix: &Prefix<u32>| u32::from(prefix.len()) > V::TOP_BITS;
        let together = |a: &Prefix<u32>, b: &Prefix<u32>| {
            in_block(a) && in_block(b) && top_of::<V>(a.first()) == top_of::<V>(b.first())
        };
        for of_block in dirty.chunk_by(together) {
            if of_block.len() > FEW {
                self.repaint(rib, prefix_of::<V>(top_of::<V>(of_block[0].first())))?;
            } else {
                of_block.iter().try_for_each(|&prefix| self.change(rib, prefix))?;
            }
        }
        Some(())
    }

    /// Each block of which `prefix` (not longer than a block) owns a part.
    fn cover(&mut self, rib: &Rib<u32>, prefix: Prefix<u32>) -> Option<()> {
        let longest = rib.covering(prefix).next().filter(|(owner, _)| owner.len() > 0);
        let hop = longest.map_or(0, |(_, hop)| hop.0);
        let (mut next, last) = (top_of::<V>(prefix.first()), top_of::<V>(prefix.last()));
        for (child, _) in rib.children(prefix) {
            let top = top_of::<V>(child.first());
            if top < next {
                continue; // longer than a block, in one that has been made
            }
            (next..top).try_for_each(|top| self.set_uniform(top, hop))?;
            if u32::from(child.len()) > V::TOP_BITS {
                self.repaint(rib, prefix_of::<V>(top))?;
            }
            next = top_of::<V>(child.last()) + 1;
        }
        (next..=last).try_for_each(|top| self.set_uniform(top, hop))
    }

    /// Makes the entries of `within` (/18s, at most a block) anew from the routes.
    fn repaint(&mut self, rib: &Rib<u32>, within: Prefix<u32>) -> Option<()> {
        if u32::from(within.len()) == RECORD_BITS && self.repaint_one(rib, within)? {
            return Some(());
        }
        let (first, last) = (within.first(), within.last());
        let top = top_of::<V>(first);
        let number = |dst: u32| (dst >> REST_BITS) as usize % V::ENTRIES;
        let block = self.table.view().block(first);
        self.draft.clear();
        self.draft.copy(&self.table, block, 0..number(first));
        self.draft.paint::<V>(first, last, self.flatten.sweep(rib, within), 0);
        self.draft.copy(&self.table, block, number(last) + 1..V::ENTRIES);
        self.publish(top)
    }

    /// The same for one /18, in a copy of its block as it lies: the new record
    /// goes where the old one was, or behind the others. False where that will
    /// not do: deep records come or go, or too much of the block is waste.
    fn repaint_one(&mut self, rib: &Rib<u32>, within: Prefix<u32>) -> Option<bool> {
        let (first, last) = (within.first(), within.last());
        let (top, block) = (top_of::<V>(first) as usize, self.table.view().block(first));
        let (had, most) = (self.lines[top], self.tight[top] + self.tight[top] / 4 + 1);
        self.draft.clear();
        self.draft.paint::<V>(first, last, self.flatten.sweep(rib, within), 0);
        let number = (first >> REST_BITS) % V::ENTRIES as u32;
        let old = self.table.view().record(block, number);
        let (Some((mut entry, body)), Some((at, room))) = (self.draft.only(), old) else {
            return Some(false);
        };
        let (at, more) = match body.len() {
            0 => (0, 0),
            len if len <= room => (at, 0),
            len => (had * V::ENTRIES as u32, len.div_ceil(V::ENTRIES) as u32),
        };
        if had == 0 || had + more > most || at > V::MOST || body.is_empty() && room > 0 {
            return Some(false);
        }
        let new = self.space.take(had + more)? * V::ENTRIES as u32;
        self.table.view().copy(block, new, had);
        if !body.is_empty() {
            self.table.view().write(new + at, body);
            entry = PLACE | at;
        }
        self.table.view().write(new + number, &[entry]);
        self.replace(top as u32, new, had + more);
        Some(true)
    }

    /// Makes the draft the block of `top`.
    fn publish(&mut self, top: u32) -> Option<()> {
        if let Some(hop) = self.draft.uniform() {
            return self.set_uniform(top, hop);
        }
        let cells = self.draft.finish::<V>();
        let lines = (cells.len() / V::ENTRIES) as u32;
        let block = write(&self.table, &mut self.space, cells)?;
        self.tight[top as usize] = lines;
        self.replace(top, block, lines);
        Some(())
    }

    fn set_uniform(&mut self, top: u32, hop: u32) -> Option<()> {
        let block = self.shared_block(hop)?;
        if self.table.view().tops[top as usize].load(Ordering::Relaxed) == block {
            return Some(());
        }
        if let Some(shared) = self.shared.get_mut(&hop) {
            shared.users += 1;
        }
        self.replace(top, block, 0);
        Some(())
    }

    fn shared_block(&mut self, hop: u32) -> Option<u32> {
        if hop == 0 {
            return Some(0); // the zeros at the start
        }
        if let Some(shared) = self.shared.get(&hop) {
            return Some(shared.block);
        }
        let block = write(&self.table, &mut self.space, &vec![hop; V::ENTRIES])?;
        self.shared.insert(hop, Shared { block, users: 0 });
        Some(block)
    }

    fn replace(&mut self, top: u32, block: u32, lines: u32) {
        let place = &self.table.view().tops[top as usize];
        let old = place.load(Ordering::Relaxed);
        place.store(block, Ordering::Release); // I1
        let had = std::mem::replace(&mut self.lines[top as usize], lines);
        if had > 0 {
            self.space.retire(old / V::ENTRIES as u32, had);
        } else if old > 0 {
            self.leave_shared(old);
        }
    }

    fn leave_shared(&mut self, block: u32) {
        let hop = self.table.view().cell(block);
        let shared = self.shared.get_mut(&hop).expect("I4: it is shared");
        shared.users -= 1;
        if shared.users == 0 {
            self.shared.remove(&hop);
            self.space.retire(block / V::ENTRIES as u32, 1);
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
        self.space.admit().map_err(|congested| CARD.refuse(congested.to_string()))?;
        // Full half-way: a rebuilt table has no garbage, or names the limit.
        let done = match changes {
            [change] => self.change(rib, change.prefix),
            _ => self.change_all(rib, changes),
        };
        Ok(if done.is_some() { Applied::InPlace } else { Applied::Rebuild })
    }

    fn bytes(&self) -> usize {
        let shared = self.shared.capacity() * (size_of::<(u32, Shared)>() + 1);
        self.space.bytes() + self.lines.capacity() * 8 + self.draft.bytes() + shared
    }
}

/// Writes a block where no reader is; its first cell.
fn write<V: Value>(table: &Table<V>, space: &mut Space, cells: &[u32]) -> Option<u32> {
    let block = space.take((cells.len() / V::ENTRIES) as u32)? * V::ENTRIES as u32;
    table.view().write(block, cells);
    Some(block)
}

fn top_of<V: Value>(dst: u32) -> u32 {
    dst >> (32 - V::TOP_BITS)
}

/// The addresses of a block.
fn prefix_of<V: Value>(top: u32) -> Prefix<u32> {
    Prefix::covering(top << (32 - V::TOP_BITS), V::TOP_BITS as u8)
}

/// Records of a block that are changed one by one.
const FEW: usize = 2;
