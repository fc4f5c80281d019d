//! A table's next size: made beside the one that serves, filled a few lines with each
//! change, published when it is whole.
//!
//! ```text
//!   7/8 full ─► begin_growth ─► next is touched (a thread) ─► grow_on: lines 0, 1, … of
//!                   │                                         frame are copied to next ─► published
//!                   └ no memory: give_up, tried again after PATIENCE insertions
//! ```
//!
//! What changes meanwhile in lines that are copied is changed in both (I2 of the writer).

use std::sync::Arc;

use super::{MacWriter, new_frame, size};
use crate::exact::Refused;
use crate::exact::lines::{Line, SLOTS};
use crate::exact::mac_table::frame::{Frame, USED};
use crate::exact::search::Slot;
use crate::pages::{LARGE_ARRAY, Touch, Touching};

/// A larger table, on the way.
pub(super) struct Growth {
    pub(super) next: Arc<Frame>,
    done: usize,
    /// While a thread touches the memory of `next`, nothing is written to it.
    touching: Option<Touching>,
}

impl Growth {
    /// Of `next`, which a thread touches if that takes long.
    fn to(next: Arc<Frame>) -> Growth {
        let touching = (next.bits >= LARGE_BITS).then(|| Touching::begin(next.clone()));
        Growth { next, done: 0, touching }
    }
}

impl MacWriter {
    /// Makes room for `entries` at once, as far as the table may grow: who knows what
    /// comes need not have it copied from size to size.
    ///
    /// # Errors
    /// When there is no memory; the table stays as it is.
    pub fn reserve(&mut self, entries: usize) -> Result<(), Refused> {
        let bits = size(entries.min(self.settings.max_entries)).unwrap_or(self.most_bits);
        self.grow_on(usize::MAX);
        if bits > self.frame.bits {
            let next = Arc::new(new_frame(bits, self.settings.pages)?);
            next.touch_all(); // most of it is empty when it begins to serve
            self.growth = Some(Growth { next, done: 0, touching: None });
            self.grow_on(usize::MAX);
        }
        Ok(())
    }

    /// Goes on growing, if it has begun, by `lines` lines; for idle moments.
    /// Insertions do it too.
    pub fn grow_on(&mut self, lines: usize) {
        // In time for LINES_A_CHANGE with each insertion that is left.
        let late = self.frame.len() / 4 * 29;
        let Some(growth) = &mut self.growth else { return };
        let touching = growth.touching.as_ref().is_some_and(|touching| !touching.is_done());
        if touching && lines < usize::MAX && self.entries < late {
            return;
        }
        growth.touching = None;
        let end = growth.done.saturating_add(lines).min(self.frame.len());
        let from = std::mem::replace(&mut growth.done, end);
        let next = growth.next.clone();
        for line in from..end {
            for slot in (0..SLOTS).map(|slot| Slot { bucket: line, slot }) {
                let word = self.frame.word(slot);
                let mixed = self.frame.mixed(line, word);
                if word & USED != 0 && !self.search.upsert(&next, mixed, word as u16) {
                    return self.give_up();
                }
            }
        }
        if end == self.frame.len() {
            self.swept <<= next.bits - self.frame.bits;
            self.table.publish(next.clone());
            (self.frame, self.growth) = (next, None);
            self.growths += 1;
        }
    }

    /// Begins to grow when the table is 7/8 full, and may grow.
    pub(super) fn consider_growth(&mut self) {
        let full = self.frame.len() * SLOTS / 8 * 7;
        if self.entries >= full && self.growth.is_none() {
            self.begin_growth();
        }
    }

    /// False when the table is as large as it may be, or there is no memory, or
    /// there was none a moment ago.
    pub(super) fn begin_growth(&mut self) -> bool {
        if self.frame.bits == self.most_bits {
            return false;
        }
        if self.patience > 0 {
            self.patience -= 1;
            return false;
        }
        let Ok(next) = new_frame(self.frame.bits + 1, self.settings.pages) else {
            self.give_up();
            return false;
        };
        self.growth = Some(Growth::to(Arc::new(next)));
        true
    }

    /// Stays at this size, and tries again later.
    fn give_up(&mut self) {
        self.growth = None;
        self.growths_refused += 1;
        self.patience = PATIENCE;
    }

    /// Does to the table on the way what was done to the present one: gives
    /// `mixed` a value, or takes it out.
    pub(super) fn mirror(&mut self, mixed: u64, value: Option<u16>) {
        let Some(Growth { next, touching: None, .. }) = &self.growth else { return };
        match value {
            Some(value) => {
                if !self.search.upsert(next, mixed, value) {
                    self.give_up();
                }
            }
            None => {
                if let Some(slot) = next.locate(mixed) {
                    next.clear(slot);
                }
            }
        }
    }

    /// Entries that insertion has moved may have gone below `done` (I2).
    pub(super) fn mirror_moved(&mut self) {
        if self.growth.is_some() {
            for slot in std::mem::take(&mut self.search.moved) {
                let word = self.frame.word(slot);
                self.mirror(self.frame.mixed(slot.bucket, word), Some(word as u16));
            }
        }
    }
}

/// Lines copied with each insertion while the table grows: it is 7/8 full then,
/// and copied before the 1/8 is taken.
pub(in crate::exact::mac_table) const LINES_A_CHANGE: usize = 4;

/// Sizes of so many lines, 2^18, and more are touched before they are written: a page
/// that is not there costs the bridge thread 0.1 ms and more, and at first nearly every
/// line copied meets another.
pub(super) const LARGE_BITS: u32 = (LARGE_ARRAY / size_of::<Line>()).ilog2();

/// Insertions that would have the table grow until it is tried again.
const PATIENCE: u32 = 1 << 14;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::exact::mac_table::BITS_AT_LEAST;
    use crate::exact::mac_table::writer::Settings;
    use crate::exact::{ABSENT, Exact, Key, Writer};
    use crate::sync::Domain;

    /// A table that has begun to grow to [`LARGE_BITS`], and how many entries it has.
    fn growing() -> (MacWriter, Arc<Domain>, u64) {
        let domain = Domain::new();
        let settings =
            Settings { seed: Some(3), start_entries: 900_000, ..Settings::new(1_500_000) };
        let mut table = MacWriter::new(settings, &domain).expect("there is memory");
        assert_eq!(table.frame.bits, LARGE_BITS - 1);
        let mut entries = 0;
        while table.growth.is_none() {
            table.insert(Key::new(entries, 1), (entries % 999) as u16).expect("there is room");
            entries += 1;
        }
        (table, domain, entries)
    }

    fn check(table: &MacWriter, domain: &Arc<Domain>, entries: u64) {
        let thread = domain.register("test");
        for i in 0..entries {
            let value = (i != 7).then_some((i % 999) as u16);
            assert_eq!(table.get(Key::new(i, 1)), value);
            let found = table.table.lookup(thread.guard(), Key::new(i, 1));
            assert_eq!(found, value.unwrap_or(ABSENT));
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "a million insertions")]
    fn a_large_size_is_written_when_it_is_touched_and_not_before() {
        const { assert!(LARGE_BITS > BITS_AT_LEAST) };
        let (mut table, domain, mut entries) = growing();
        table.delete(Key::new(7, 1)).expect("it is there");
        for _ in 0..1000 {
            table.insert(Key::new(entries, 1), (entries % 999) as u16).expect("there is room");
            entries += 1;
            let Some(growth) = &table.growth else { panic!("it cannot be done yet") };
            let empty = || growth.next.line(0).position(|word| word & USED != 0).is_none();
            assert!(growth.touching.is_none() || growth.done == 0 && empty());
        }
        while table.growth.is_some() {
            table.insert(Key::new(entries, 1), (entries % 999) as u16).expect("there is room");
            entries += 1;
        }
        assert_eq!((table.frame.bits, table.growths), (LARGE_BITS, 1));
        assert!(entries < 990_000, "before it is full: {entries}");
        check(&table, &domain, entries);
    }

    #[test]
    #[cfg_attr(miri, ignore = "a million insertions")]
    fn it_does_not_wait_when_room_is_needed_and_can_be_dropped_meanwhile() {
        let (mut table, domain, entries) = growing();
        table.delete(Key::new(7, 1)).expect("it is there");
        table.grow_on(usize::MAX);
        assert_eq!((table.frame.bits, table.growths), (LARGE_BITS, 1));
        check(&table, &domain, entries);
        drop(growing());
    }
}
