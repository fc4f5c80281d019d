//! Building and updating: chunks are encoded beside the old ones, then stored.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::search::{DIRECT, LONG, SHORT, WIDE, cells_of, entry, format_of, place_of};
use super::{CARD, CHUNKS_IN_LIMBO, Dxr, UNITS};
use crate::lpm::default_hop::DefaultHop;
use crate::lpm::flatten::Flatten;
use crate::lpm::isa::Isa;
use crate::lpm::space::Space;
use crate::lpm::{Applied, Lpm, Options, Refusal, Writer};
use crate::pages::{self, Pages};
use crate::rib::Change;
use crate::sync::Domain;
use crate::{Hop, Prefix, Rib};

struct DxrWriter {
    table: Arc<Dxr>,
    space: Space,
    flatten: Flatten<u32>,
}

/// What an update will store into `root[first..=last]`: all is prepared before
/// anything is stored, so a refusal leaves the table as it is.
struct Store {
    first: usize,
    last: usize,
    entry: u32,
}

pub(super) fn build(
    rib: &Rib<u32>,
    options: &Options,
    domain: &Arc<Domain>,
) -> Result<Box<dyn Writer<u32>>, Refusal> {
    options.check(&CARD)?;
    let k = options.get(&CARD, "k", |k| (16..=24).contains(k))?;
    rib.iter().try_for_each(|(_, hop)| CARD.admit_hop(hop))?;
    let mut writer = DxrWriter::empty(k, Isa::choose(&CARD, options)?, domain)?;
    writer.fill(Flatten::new().sweep(rib, Prefix::all()))?; // an update's is small
    writer.table.default.follow(rib);
    Ok(Box::new(writer))
}

impl Writer<u32> for DxrWriter {
    fn table(&self) -> Arc<dyn Lpm<u32>> {
        self.table.clone()
    }

    fn apply(&mut self, rib: &Rib<u32>, changes: &[Change<u32>]) -> Result<Applied, Refusal> {
        for hop in changes.iter().filter_map(|change| change.hop) {
            CARD.admit_hop(hop)?;
        }
        self.space.admit().map_err(|congested| CARD.refuse(congested.to_string()))?;
        let (mut stores, mut dirty) = (Vec::new(), Vec::new());
        for change in changes {
            self.plan(rib, change.prefix, &mut stores, &mut dirty);
        }
        dirty.sort_unstable(); // changes to one chunk rebuild it once
        dirty.dedup();
        self.rebuild(rib, &dirty, &mut stores)?;
        stores.iter().for_each(|store| self.store(store));
        if changes.iter().any(|change| change.prefix.len() == 0) {
            self.table.default.follow(rib);
        }
        Ok(Applied::InPlace)
    }

    fn bytes(&self) -> usize {
        self.space.bytes() + self.flatten.bytes()
    }
}

impl DxrWriter {
    fn empty(k: u32, isa: Isa, domain: &Arc<Domain>) -> Result<Self, Refusal> {
        CARD.admit_bytes(size_of::<u32>() << k)?;
        let no_memory = |error: std::io::Error| CARD.refuse(format!("no memory: {error}"));
        let space = Space::new(domain, UNITS as u32, CHUNKS_IN_LIMBO);
        let table = Dxr {
            root: Pages::zeroed(1).map_err(no_memory)?,
            ranges: Pages::zeroed(1).map_err(no_memory)?,
            k,
            isa,
            default: DefaultHop::default(),
            touched: space.touched(),
        };
        Ok(DxrWriter { table: Arc::new(table), space, flatten: Flatten::new() })
    }

    /// Builds every chunk from the intervals of the whole table.
    fn fill(&mut self, intervals: &[(u32, Hop)]) -> Result<(), Refusal> {
        let mut inside = 0; // the interval that the present chunk starts in
        let chunks = 1_usize << self.table.k;
        let mut slot = 0;
        while slot < chunks {
            let last_dst = ((slot + 1) << (32 - self.table.k)).wrapping_sub(1) as u32;
            let beyond = inside + 1;
            let here = intervals[beyond..].iter().take_while(|(start, _)| *start <= last_dst);
            let end = beyond + here.count();
            if end == beyond {
                // Uniform, and so are the chunks up to the next border.
                let next = intervals
                    .get(beyond)
                    .map_or(chunks, |&(start, _)| self.table.view().slot(start));
                pages::fill(&self.table.view().root[slot..next], intervals[inside].1.0);
                slot = next;
            } else {
                let entry = self.encode(&intervals[inside..end])?;
                self.table.view().root[slot].store(entry, Ordering::Relaxed);
                // A border at the very end of a chunk belongs to the next one.
                inside = end - 1;
                slot += 1;
            }
            let next_dst = (slot as u64) << (32 - self.table.k);
            while intervals.get(inside + 1).is_some_and(|&(s, _)| u64::from(s) <= next_dst) {
                inside += 1;
            }
        }
        Ok(())
    }

    /// What a change of `prefix` asks for: chunks to rebuild, or stores.
    fn plan(
        &self,
        rib: &Rib<u32>,
        prefix: Prefix<u32>,
        stores: &mut Vec<Store>,
        dirty: &mut Vec<usize>,
    ) {
        if prefix.len() == 0 {
            return; // one store at the end of `apply`
        }
        let (mut next, last) =
            (self.table.view().slot(prefix.first()), self.table.view().slot(prefix.last()));
        if u32::from(prefix.len()) > self.table.k {
            return dirty.push(next);
        }
        let owner = rib.covering(prefix).next().filter(|(owner, _)| owner.len() > 0);
        let entry = owner.map_or(0, |(_, hop)| hop.0);
        let mut fill = |first: usize, end: usize| {
            if first < end {
                stores.push(Store { first, last: end - 1, entry });
            }
        };
        for (child, _) in rib.children(prefix) {
            let first = self.table.view().slot(child.first());
            if first < next {
                continue; // longer than /k, in a chunk that has been seen
            }
            fill(next, first);
            if u32::from(child.len()) > self.table.k {
                dirty.push(first);
            }
            next = self.table.view().slot(child.last()) + 1;
        }
        fill(next, last + 1);
    }

    /// Writes the chunks of `dirty` anew, beside the old ones.
    fn rebuild(
        &mut self,
        rib: &Rib<u32>,
        dirty: &[usize],
        stores: &mut Vec<Store>,
    ) -> Result<(), Refusal> {
        let (mut flatten, begun) = (std::mem::take(&mut self.flatten), stores.len());
        let mut done = Ok(());
        for &slot in dirty {
            let first_dst = (slot << (32 - self.table.k)) as u32;
            let chunk = Prefix::covering(first_dst, self.table.k as u8);
            match self.encode(flatten.sweep(rib, chunk)) {
                Ok(entry) => stores.push(Store { first: slot, last: slot, entry }),
                Err(refusal) => {
                    done = Err(refusal);
                    break;
                }
            }
        }
        self.flatten = flatten;
        if done.is_err() {
            for store in stores.drain(begun..) {
                if format_of(store.entry) != DIRECT {
                    self.space.untake(place_of(store.entry), units_of(store.entry));
                }
            }
        }
        done
    }

    /// The root entry of a chunk with these intervals; writes its ranges.
    fn encode(&mut self, chunk: &[(u32, Hop)]) -> Result<u32, Refusal> {
        if let [(_, hop)] = chunk {
            return Ok(hop.0);
        }
        let most = chunk.iter().map(|(_, hop)| hop.0).max().unwrap_or(0);
        let at_24 = chunk[1..].iter().all(|(start, _)| start & 0xff == 0);
        let format = match most {
            ..=0xff if at_24 => SHORT,
            ..=0xffff => LONG,
            _ => WIDE,
        };
        let units = units_of(entry(format, chunk.len() as u32, 0));
        let Some(place) = self.space.take(units) else {
            let full = || format!("more than {} MiB of ranges", UNITS >> 17);
            return Err(CARD.refuse(self.space.limit(full)));
        };
        let entry = entry(format, chunk.len() as u32, place);
        self.write(entry, chunk);
        Ok(entry)
    }

    /// Writes the ranges of a chunk where no reader is.
    fn write(&self, entry: u32, chunk: &[(u32, Hop)]) {
        let (format, low_mask) = (format_of(entry), self.table.view().low_mask());
        let bits = 8 << format;
        let range = |i: usize| {
            let (start, hop) = chunk[i.min(chunk.len() - 1)];
            let low = if i == 0 { 0 } else { start & low_mask }; // the first may start before
            let base = if format == SHORT { low >> 8 } else { low };
            u64::from(base) << (bits / 2) | u64::from(hop.0)
        };
        let units = &self.table.view().ranges[place_of(entry) as usize..];
        for (unit, first) in units.iter().zip((0..cells_of(entry) as usize).step_by(64 / bits)) {
            let whole = (0..64 / bits).fold(0, |unit, i| unit | range(first + i) << (i * bits));
            unit.store(whole.to_le(), Ordering::Relaxed);
        }
    }

    fn store(&mut self, store: &Store) {
        let table = self.table.clone();
        for slot in &table.view().root[store.first..=store.last] {
            let old = slot.load(Ordering::Relaxed); // we alone write
            slot.store(store.entry, Ordering::Release); // I1
            if format_of(old) != DIRECT {
                self.space.retire(place_of(old), units_of(old));
            }
        }
    }
}

/// Units of the chunk that `entry` names.
fn units_of(entry: u32) -> u32 {
    (cells_of(entry) << format_of(entry)).div_ceil(8)
}
