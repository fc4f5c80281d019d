//! The one thread that changes the overlay: places are painted in one lane, chunks
//! are opened and closed for all.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::super::accesses::{Accesses, words};
use super::super::owned::{gaps, holds_longer, owner};
use super::{CARD, CHUNK, DEEP_CHUNKS, MAX_FIBS, MOST_CHUNKS, Overlay, place_of};
use crate::lpm::default_hop::DefaultHop;
use crate::lpm::scale::Scale;
use crate::lpm::space::Space;
use crate::lpm::{Applied, Lpm, Refusal, Writer};
use crate::pages::Pages;
use crate::rib::Change;
use crate::sync::Domain;
use crate::{Hop, Prefix, Rib};

/// The one thread that changes an [`Overlay`].
pub struct OverlayWriter {
    table: Arc<Overlay>,
    /// Chunks of level 24 and of level 32.
    spaces: [Space; 2],
    scale: Scale,
}

impl OverlayWriter {
    /// Overlays `ribs`, of which FIB number i is the i-th.
    ///
    /// # Errors
    /// When there are none or too many, or one exceeds a limit of `sail-m`.
    pub fn build(ribs: &[&Rib<u32>], domain: &Arc<Domain>) -> Result<Self, Refusal> {
        let fibs = ribs.len();
        if !(1..=MAX_FIBS).contains(&fibs) {
            return Err(CARD.refuse(format!("{fibs} FIBs, of 1 to {MAX_FIBS}")));
        }
        CARD.admit_bytes((1 << 16) * fibs * size_of::<u32>())?;
        let no_memory = |error: std::io::Error| CARD.refuse(format!("no memory: {error}"));
        let scale = Scale::of(ribs.iter().map(|rib| rib.len()).sum(), 4, DEEP_CHUNKS);
        let [mid, deep] = MOST_CHUNKS.map(|most| scale.len(most));
        let spaces = [mid, deep].map(|len| Space::new(domain, len as u32, CHUNKS_IN_LIMBO));
        let table = Overlay {
            fibs,
            bc16: Pages::zeroed(1).map_err(no_memory)?,
            b24: Pages::zeroed(1).map_err(no_memory)?,
            near: Pages::zeroed(((1 << 16) + mid * 256) * fibs).map_err(no_memory)?,
            c24: Pages::zeroed(mid).map_err(no_memory)?,
            far: Pages::zeroed(deep * 256 * fibs).map_err(no_memory)?,
            defaults: (0..fibs).map(|_| DefaultHop::default()).collect(),
            touched: [spaces[0].touched(), spaces[1].touched()],
            accesses: Accesses::default(),
        };
        let mut writer = OverlayWriter { table: Arc::new(table), spaces, scale };
        for (fib, rib) in ribs.iter().enumerate() {
            // By address, then length: a longer prefix paints over a shorter one.
            for (prefix, hop) in rib.iter() {
                CARD.admit_hop(hop)?;
                writer.paint(fib, prefix, hop)?;
            }
        }
        writer.table.accesses.reset();
        Ok(writer)
    }

    /// The table, to be read by any number of threads.
    pub fn table(&self) -> Arc<Overlay> {
        self.table.clone()
    }

    /// Brings FIB number `fib` in line with `ribs[fib]`, which already holds `changes`;
    /// `ribs` are those of all FIBs, in the order of [`OverlayWriter::build`].
    ///
    /// # Errors
    /// As [`Writer::apply`].
    ///
    /// # Panics
    /// When there are other FIBs than were built from.
    pub fn apply(
        &mut self,
        ribs: &[&Rib<u32>],
        fib: u16,
        changes: &[Change<u32>],
    ) -> Result<Applied, Refusal> {
        assert!(ribs.len() == self.table.fibs && usize::from(fib) < ribs.len());
        for hop in changes.iter().filter_map(|change| change.hop) {
            CARD.admit_hop(hop)?;
        }
        if !self.admit(changes)? {
            return Ok(Applied::Rebuild); // with more chunks
        }
        for change in changes {
            self.table.accesses.begin();
            self.repaint(ribs, fib.into(), change.prefix)?;
            self.table.accesses.end();
        }
        Ok(Applied::InPlace)
    }

    /// While building: writes `hop` over all that `prefix` covers.
    fn paint(&mut self, fib: usize, prefix: Prefix<u32>, hop: Hop) -> Result<(), Refusal> {
        if prefix.len() == 0 {
            self.table.defaults[fib].set(hop);
            return Ok(());
        }
        if prefix.len() > 16 {
            self.open_16(prefix.first())?;
        }
        if prefix.len() > 24 {
            self.open_24(prefix.first())?;
        }
        self.fill(fib, prefix.first(), prefix.last(), hop.0);
        Ok(())
    }

    /// Brings everything that `prefix` owns, or owned, in line.
    fn repaint(
        &mut self,
        ribs: &[&Rib<u32>],
        fib: usize,
        prefix: Prefix<u32>,
    ) -> Result<(), Refusal> {
        if prefix.len() == 0 {
            let hop = ribs[fib].get(&prefix).unwrap_or(Hop::NONE);
            self.table.defaults[fib].set(hop);
            return Ok(());
        }
        let split = |around| ribs.iter().any(|rib| holds_longer(rib, around));
        if prefix.len() > 16 {
            let around = Prefix::covering(prefix.first(), 16);
            if !split(around) {
                self.close_16(ribs, around);
                return Ok(());
            }
            self.open_16(around.first())?;
        }
        if prefix.len() > 24 {
            let around = Prefix::covering(prefix.first(), 24);
            if !split(around) {
                self.close_24(ribs, around);
                return Ok(());
            }
            self.open_24(around.first())?;
        }
        let hop = owner(ribs[fib], prefix, 1);
        for (first, last) in gaps(ribs[fib], prefix) {
            self.fill(fib, first, last, hop);
        }
        Ok(())
    }

    /// Writes `hop` to a lane over `first..=last`; where that cuts a place that has no
    /// chunk, over the whole place: a change that follows opens the chunk.
    fn fill(&self, fib: usize, first: u32, last: u32, hop: u32) {
        let mut at = first;
        loop {
            let (entry, to) =
                (self.table.bc16[0][(at >> 16) as usize].load(Ordering::Relaxed), at | 0xffff);
            if entry == 0 {
                self.table.near(at >> 16, fib).store(hop, Ordering::Release);
                self.table.accesses.off_chip(1);
            } else {
                self.fill_chunk(fib, at, to.min(last), hop);
            }
            if to >= last {
                return;
            }
            at = to + 1;
        }
    }

    /// The same inside one /16 that has a chunk.
    fn fill_chunk(&self, fib: usize, first: u32, last: u32, hop: u32) {
        for top in first >> 8..=last >> 8 {
            let place = self.place(top << 8);
            let entry = self.table.c24(place).load(Ordering::Relaxed);
            if entry == 0 {
                self.table.near(place, fib).store(hop, Ordering::Release);
                self.table.accesses.off_chip(1);
                continue;
            }
            let (low, high) = (first.max(top << 8) & 0xff, last.min(top << 8 | 0xff) & 0xff);
            let chunk = (entry & !CHUNK) << 8;
            (low..=high)
                .for_each(|low| self.table.far(chunk | low, fib).store(hop, Ordering::Release));
            self.table.accesses.off_chip((high - low + 1) as usize);
        }
    }

    /// Gives the /16 of `dst` a chunk if it has none.
    fn open_16(&mut self, dst: u32) -> Result<(), Refusal> {
        let table = self.table.clone();
        let entry = &table.bc16[0][(dst >> 16) as usize];
        if entry.load(Ordering::Relaxed) != 0 {
            return Ok(());
        }
        let chunk = self.take(0)?;
        for cell in 0..256 {
            table.c24[chunk as usize][cell as usize].store(0, Ordering::Relaxed);
            for fib in 0..table.fibs {
                let hop = table.near(dst >> 16, fib).load(Ordering::Relaxed);
                table.near((1 << 16) + (chunk << 8 | cell), fib).store(hop, Ordering::Relaxed);
            }
        }
        entry.store(CHUNK | chunk, Ordering::Release); // I1
        table.accesses.on_chip(1);
        table.accesses.off_chip(128 + words(0, 256 * table.fibs - 1, size_of::<u32>()));
        Ok(())
    }

    /// Gives the /24 of `dst`, whose /16 has a chunk, one if it has none.
    fn open_24(&mut self, dst: u32) -> Result<(), Refusal> {
        let (table, place) = (self.table.clone(), self.place(dst));
        if table.c24(place).load(Ordering::Relaxed) != 0 {
            return Ok(());
        }
        let chunk = self.take(1)?;
        for (cell, fib) in (0..256).flat_map(|cell| (0..table.fibs).map(move |fib| (cell, fib))) {
            let hop = table.near(place, fib).load(Ordering::Relaxed);
            table.far(chunk << 8 | cell, fib).store(hop, Ordering::Relaxed);
        }
        table.c24(place).store(CHUNK | chunk, Ordering::Release); // I1
        self.mark(dst, true); // I3
        table.accesses.off_chip(1 + words(0, 256 * table.fibs - 1, size_of::<u32>()));
        Ok(())
    }

    /// Takes the chunk of a /16 back, and those below it.
    fn close_16(&mut self, ribs: &[&Rib<u32>], around: Prefix<u32>) {
        let slot = around.first() >> 16;
        let entry = self.table.bc16[0][slot as usize].load(Ordering::Relaxed);
        if entry == 0 {
            return;
        }
        for byte in 0..256 {
            self.close_24(ribs, Prefix::covering(around.first() | byte << 8, 24));
        }
        self.label(ribs, slot, around);
        self.table.bc16[0][slot as usize].store(0, Ordering::Release);
        self.table.accesses.on_chip(1);
        self.spaces[0].retire(entry & !CHUNK, 1);
    }

    /// Takes the chunk of a /24 back, if it has one.
    fn close_24(&mut self, ribs: &[&Rib<u32>], around: Prefix<u32>) {
        if self.table.bc16[0][(around.first() >> 16) as usize].load(Ordering::Relaxed) == 0 {
            return;
        }
        let place = self.place(around.first());
        let entry = self.table.c24(place).load(Ordering::Relaxed);
        if entry != 0 {
            self.label(ribs, place, around);
            self.mark(around.first(), false); // I3
            self.table.c24(place).store(0, Ordering::Release);
            self.spaces[1].retire(entry & !CHUNK, 1);
        }
    }

    /// Writes to every lane of a place what its FIB says of all of it.
    fn label(&self, ribs: &[&Rib<u32>], place: u32, around: Prefix<u32>) {
        for (fib, rib) in ribs.iter().enumerate() {
            self.table.near(place, fib).store(owner(rib, around, 1), Ordering::Release);
        }
        self.table.accesses.off_chip(words(0, ribs.len() - 1, size_of::<u32>()));
    }

    /// Sets or clears the bit of a /24.
    fn mark(&self, dst: u32, deep: bool) {
        let word = &self.table.b24[0][(dst >> 14) as usize];
        let bit = 1 << (dst >> 8 & 63);
        let old = word.load(Ordering::Relaxed); // we alone write
        word.store(if deep { old | bit } else { old & !bit }, Ordering::Release);
        self.table.accesses.on_chip(1);
    }

    /// The place in N16 or N24 of `dst`.
    fn place(&self, dst: u32) -> u32 {
        place_of(self.table.bc16[0][(dst >> 16) as usize].load(Ordering::Relaxed), dst)
    }

    fn take(&mut self, level: usize) -> Result<u32, Refusal> {
        if self.spaces[level].spare(1) == 0 {
            CARD.admit_bytes(256 * (self.table.fibs + 1) * size_of::<u32>())?;
        }
        let full = || format!("more than {DEEP_CHUNKS} /24s hold longer routes");
        let chunk = self.spaces[level].take(1);
        chunk.ok_or_else(|| CARD.refuse(self.spaces[level].limit(full)))
    }

    /// Asks whether garbage, chunks and memory allow `changes`, before the first; false where
    /// more chunks would.
    fn admit(&mut self, changes: &[Change<u32>]) -> Result<bool, Refusal> {
        for (i, most) in MOST_CHUNKS.map(|most| self.scale.len(most)).into_iter().enumerate() {
            let space = &mut self.spaces[i];
            space.admit().map_err(|congested| CARD.refuse(congested.to_string()))?;
            let beyond = 16 + 8 * i as u8;
            let grows = |c: &&Change<u32>| c.hop.is_some() && c.prefix.len() > beyond;
            let more = changes.iter().filter(grows).count().saturating_sub(space.spare(1));
            let used = self.table.touched[i].load(Ordering::Relaxed) as usize;
            if used + more > most && !self.scale.is_largest() {
                return Ok(false);
            }
            if used + more > most {
                let what = format!("{} chunks below /{beyond}, of {most}", used + more);
                return Err(CARD.refuse(what));
            }
            if more > 0 {
                CARD.admit_bytes(more * 256 * (self.table.fibs + 1) * size_of::<u32>())?;
            }
        }
        Ok(true)
    }

    /// Heap bytes of the writer's own state.
    pub fn bytes(&self) -> usize {
        self.spaces.iter().map(Space::bytes).sum()
    }
}

impl Writer<u32> for OverlayWriter {
    fn table(&self) -> Arc<dyn Lpm<u32>> {
        Arc::new(self.table.fib(0))
    }

    fn apply(&mut self, rib: &Rib<u32>, changes: &[Change<u32>]) -> Result<Applied, Refusal> {
        self.apply(&[rib], 0, changes)
    }

    fn bytes(&self) -> usize {
        self.bytes()
    }
}

/// Chunks that may wait for readers.
const CHUNKS_IN_LIMBO: usize = 1 << 16;
