//! The one thread that changes the table.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::arena::{Arena, Run};
use super::record::{Encoded, Painted};
use super::table::{Table, Value};
use super::{CARD, PLACES, REST_BITS, ROOT_BITS, SHIFT_BITS, SLOTS};
use crate::lpm::{Applied, Lpm, Refusal, Writer};
use crate::rib::Change;
use crate::sync::Domain;
use crate::{Hop, Prefix, Rib};

/// A table and what is needed to change it.
pub(super) struct Rutter4<V: Value> {
    table: Arc<Table<V>>,
    arena: Arena,
    /// The record under construction.
    values: Vec<u32>,
    /// Places of each root slot's record beyond its strided values, 0 for most:
    /// only records with longer prefixes than /24 have more than 64.
    long: std::collections::HashMap<u32, u32>,
}

impl<V: Value> Rutter4<V> {
    /// Builds from all routes.
    pub(super) fn build(rib: &Rib<u32>, domain: &Arc<Domain>) -> Result<Self, Refusal> {
        let table = Table::new().map_err(|error| CARD.refuse(format!("no memory: {error}")))?;
        let mut writer = Rutter4 {
            table: Arc::new(table),
            arena: Arena::new(domain, V::IDENTITY as u32, PLACES as u32),
            values: Vec::new(),
            long: Default::default(),
        };
        writer.cover(rib, Prefix::all(), true)?;
        let default = rib.get(&Prefix::all()).unwrap_or_default();
        writer.table.default.store(default.0, Ordering::Relaxed);
        Ok(writer)
    }

    /// Brings every /18 that `prefix` (at most /18) owns part of in line with
    /// `rib`. Children of `prefix` keep what they cover, unless `all` is new.
    fn cover(&mut self, rib: &Rib<u32>, prefix: Prefix<u32>, all: bool) -> Result<(), Refusal> {
        let outer = rib.covering(prefix).next().filter(|(outer, _)| outer.len() > 0);
        let hop = outer.map_or(0, |(_, hop)| hop.0);
        let mut next = (prefix.first() >> REST_BITS) as usize;
        let end = (prefix.last() >> REST_BITS) as usize + 1;
        for (child, _) in rib.children(prefix) {
            let first = (child.first() >> REST_BITS) as usize;
            if first < next {
                continue; // this /18 was rebuilt for an earlier child
            }
            self.fill(next..first, hop)?;
            next = (child.last() >> REST_BITS) as usize + 1;
            if child.len() >= ROOT_BITS as u8 && (all || child.len() > ROOT_BITS as u8) {
                self.rebuild(rib, first)?;
            } else if all {
                self.cover(rib, child, all)?;
            }
        }
        self.fill(next..end, hop)
    }

    /// Uniform /18s.
    fn fill(&mut self, slots: std::ops::Range<usize>, hop: u32) -> Result<(), Refusal> {
        slots.into_iter().try_for_each(|i| self.set_uniform(i, hop))
    }

    fn set_uniform(&mut self, i: usize, hop: u32) -> Result<(), Refusal> {
        if (hop as usize) < V::IDENTITY {
            self.replace(i, hop << SHIFT_BITS | REST_BITS, None);
            return Ok(());
        }
        self.values.clear();
        self.values.push(hop);
        self.place(i, REST_BITS)
    }

    /// Paints one /18 anew.
    fn rebuild(&mut self, rib: &Rib<u32>, i: usize) -> Result<(), Refusal> {
        match Painted::new(rib, i).encode::<V>(&mut self.values) {
            Encoded::Uniform(hop) => self.set_uniform(i, hop),
            Encoded::Array { shift } => self.place(i, shift),
        }
    }

    /// Writes the record under construction and publishes it as slot `i`.
    fn place(&mut self, i: usize, shift: u32) -> Result<(), Refusal> {
        let Some(run) = self.arena.allocate(self.values.len()) else {
            return Err(CARD.refuse(self.arena.limit(|| format!("more than {PLACES} values"))));
        };
        self.table.write(run.at, &self.values);
        self.replace(i, run.at << SHIFT_BITS | shift, Some(run));
        Ok(())
    }

    fn replace(&mut self, i: usize, entry: u32, run: Option<Run>) {
        let old = self.table.entry(i);
        self.table.publish(i, entry);
        self.table.reached.store(self.arena.reached, Ordering::Relaxed);
        let long = match run {
            Some(run) if run.places > SLOTS as u32 => self.long.insert(i as u32, run.places),
            _ => self.long.remove(&(i as u32)),
        };
        let at = old >> SHIFT_BITS;
        if at as usize >= V::IDENTITY {
            let places = long.unwrap_or(1 << (REST_BITS - old % (1 << SHIFT_BITS)));
            self.arena.retire(Run { at, places });
        }
    }

    fn change(&mut self, rib: &Rib<u32>, prefix: Prefix<u32>) -> Result<(), Refusal> {
        if prefix.len() == 0 {
            let default = rib.get(&prefix).unwrap_or_default();
            self.table.default.store(default.0, Ordering::Relaxed);
            Ok(())
        } else if prefix.len() < ROOT_BITS as u8 {
            self.cover(rib, prefix, false)
        } else {
            self.rebuild(rib, (prefix.first() >> REST_BITS) as usize)
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
        // A hop that 16 bits do not hold: the rebuilt table has 32.
        if largest.0 > V::MAX_HOP || self.arena.sprawls() {
            return Ok(Applied::Rebuild);
        }
        self.arena.reclaim().map_err(|error| CARD.refuse(error.to_string()))?;
        // Full half-way: a rebuilt table has no garbage, or names the limit.
        let done = changes.iter().try_for_each(|change| self.change(rib, change.prefix));
        Ok(if done.is_ok() { Applied::InPlace } else { Applied::Rebuild })
    }

    fn bytes(&self) -> usize {
        self.arena.bytes() + self.values.capacity() * 4 + self.long.capacity() * 9
    }
}
