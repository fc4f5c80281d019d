//! The one thread that changes the table.

mod growth;

use std::sync::Arc;

use self::growth::{Growth, LARGE_BITS};
use super::frame::{Frame, USED};
use super::mix::Mix;
use super::{BITS_AT_LEAST, BITS_AT_MOST, MacTable};
use crate::exact::lines::{Line, SLOTS, bits_for, room_of};
use crate::exact::search::{Search, Slot};
use crate::exact::{ABSENT, Capacity, Exact, Key, Refused, Writer};
use crate::lpm::isa::Isa;
use crate::pages::{Kind, Touch};
use crate::sync::Domain;

pub(super) use self::growth::LINES_A_CHANGE;

/// What a table may become.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Entries that it may hold.
    pub max_entries: usize,
    /// Entries for which there shall be room from the start.
    pub start_entries: usize,
    /// Draws the hash; at random where there is none.
    pub seed: Option<u64>,
    /// The instructions that compare a line: `portable`, `avx2` or `avx512`; the
    /// best that there are, where there is no name.
    pub isa: Option<&'static str>,
    /// What its lines lie on. Reserved pages are taken only where this says so.
    pub pages: Kind,
}

impl Settings {
    /// A table that grows from nothing to `max_entries`, of a random hash.
    pub fn new(max_entries: usize) -> Settings {
        Settings { max_entries, start_entries: 0, seed: None, isa: None, pages: Kind::default() }
    }
}

/// What [`MacWriter::sweep`] does with an entry.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fate {
    /// It stays.
    Keep,
    /// It gets another value.
    Set(u16),
    /// It goes.
    Remove,
}

/// The writer of a [`MacTable`].
///
/// - I1: `frame` is the one published, and `entries` counts its entries.
/// - I2: while `growth` is there and its memory has been touched, what is in lines
///   of `frame` below its `done` is in its `next`, with the same value, and nothing
///   is there that is not in `frame`. Before, `done` is 0 and `next` is empty.
pub struct MacWriter {
    table: Arc<MacTable>,
    pub(super) mix: Mix,
    pub(super) frame: Arc<Frame>,
    growth: Option<Growth>,
    search: Search,
    settings: Settings,
    most_bits: u32,
    entries: usize,
    swept: usize,
    patience: u32,
    growths: u64,
    growths_refused: u64,
    pub(super) refused: u64,
    pub(super) replaced: u64,
    moves: u64,
}

impl MacWriter {
    /// An empty table, whose old sizes wait for the readers of `domain`.
    ///
    /// # Errors
    /// When `max_entries` are more than a table can hold, or there is no memory.
    pub fn new(settings: Settings, domain: &Arc<Domain>) -> Result<MacWriter, Refused> {
        let Settings { max_entries, start_entries, seed, isa, pages } = settings;
        let name = isa.unwrap_or("auto");
        let isa = Isa::named(name).ok_or(Refused::Isa { name })?;
        let most_bits = size(max_entries).ok_or(Refused::TooMany { max: MAX_ENTRIES })?;
        let bits = size(start_entries.min(max_entries)).unwrap_or(most_bits);
        let (mix, frame) = (Mix::new(seed), Arc::new(new_frame(bits, pages)?));
        if bits >= LARGE_BITS {
            frame.touch_all(); // or the first lookups would
        }
        let table = Arc::new(MacTable::new(mix, isa, frame.clone(), domain));
        Ok(MacWriter {
            table,
            mix,
            frame,
            growth: None,
            search: Search::default(),
            settings,
            most_bits,
            entries: 0,
            swept: 0,
            patience: 0,
            growths: 0,
            growths_refused: 0,
            refused: 0,
            replaced: 0,
            moves: 0,
        })
    }

    /// The table, to be read by any number of threads.
    pub fn shared(&self) -> &Arc<MacTable> {
        &self.table
    }

    /// Gives `key`, if it is present, another value with one store; returns the
    /// one before. [`ABSENT`] is no value, and changes nothing.
    pub fn change(&mut self, key: Key, value: u16) -> Option<u16> {
        let mixed = self.mix.mix(key);
        let slot = self.frame.locate(mixed)?;
        let before = self.frame.word(slot) as u16;
        if value != ABSENT {
            self.frame.set_value(slot, value);
            self.mirror(mixed, Some(value));
        }
        Some(before)
    }

    /// Asks for the first line of `key`, which is looked at a little later.
    pub fn ask(&self, key: Key) {
        let mixed = self.mix.mix(key);
        self.frame.ask_first(mixed);
        if let Some(Growth { next, .. }) = &self.growth {
            next.ask_first(mixed);
        }
    }

    /// Visits the entries of the next `lines` lines, beginning again behind the
    /// last; returns true when the end was among them. An entry that is moved
    /// between two calls may be visited twice or not at all in one round. All
    /// lines at once: [`MacWriter::lines`].
    ///
    /// Entries that stay go back to their first line where that has room again:
    /// with keys that come and go at 95 % load ever more stand in their second,
    /// a third instead of a sixth, and each lookup of them costs two lines.
    pub fn sweep(&mut self, lines: usize, mut visit: impl FnMut(Key, u16) -> Fate) -> bool {
        let end = self.swept.saturating_add(lines).min(self.frame.len());
        for line in self.swept..end {
            let slots = (0..SLOTS).map(|slot| Slot { bucket: line, slot });
            slots.clone().for_each(|slot| self.frame.ask_home(slot));
            for slot in slots {
                let word = self.frame.word(slot);
                if word & USED == 0 {
                    continue;
                }
                let mixed = self.frame.mixed(line, word);
                match visit(self.mix.unmix(mixed), word as u16) {
                    Fate::Remove => self.remove(slot, mixed),
                    fate => {
                        if let Fate::Set(value) = fate
                            && value != ABSENT
                        {
                            self.frame.set_value(slot, value);
                            self.mirror(mixed, Some(value));
                        }
                        if self.growth.is_none() {
                            self.frame.bring_home(slot);
                        }
                    }
                }
            }
        }
        let round = end == self.frame.len();
        self.swept = if round { 0 } else { end };
        round
    }

    /// Lines at present: a sweep of so many visits all entries, from anywhere,
    /// if it is repeated until it returns true, and once more.
    pub fn lines(&self) -> usize {
        self.frame.len()
    }

    /// Calls `visit` for every entry.
    pub fn for_each(&self, mut visit: impl FnMut(Key, u16)) {
        for line in 0..self.frame.len() {
            for slot in (0..SLOTS).map(|slot| Slot { bucket: line, slot }) {
                let word = self.frame.word(slot);
                if word & USED != 0 {
                    visit(self.mix.unmix(self.frame.mixed(line, word)), word as u16);
                }
            }
        }
    }

    /// A slot of the present table for `mixed`, made free.
    pub(super) fn room(&mut self, mixed: u64) -> Option<Slot> {
        if let Some(slot) = self.search.room(&self.frame, mixed) {
            self.moves += self.search.moved.len() as u64;
            self.mirror_moved();
            return Some(slot);
        }
        if self.growth.is_none() && !self.begin_growth() {
            return None;
        }
        self.grow_on(usize::MAX);
        self.search.room(&self.frame, mixed)
    }

    /// Puts a new entry into `slot`, which is free.
    pub(super) fn write(&mut self, slot: Slot, mixed: u64, value: u16) {
        self.frame.write(slot, mixed, value);
        self.entries += 1;
        self.mirror(mixed, Some(value));
    }

    /// Takes the entry in `slot` out.
    pub(super) fn remove(&mut self, slot: Slot, mixed: u64) {
        self.frame.clear(slot);
        self.entries -= 1;
        self.mirror(mixed, None);
    }

    pub(super) fn full(&mut self) -> Refused {
        self.refused += 1;
        Refused::Full { entries: self.entries, max_entries: self.settings.max_entries }
    }
}

impl Writer for MacWriter {
    fn table(&self) -> Arc<dyn Exact> {
        self.table.clone()
    }

    fn insert(&mut self, key: Key, value: u16) -> Result<Option<u16>, Refused> {
        if value == ABSENT {
            return Err(Refused::Value);
        }
        let mixed = self.mix.mix(key);
        if let Some(slot) = self.frame.locate(mixed) {
            let before = self.frame.word(slot) as u16;
            self.frame.set_value(slot, value);
            self.mirror(mixed, Some(value));
            return Ok(Some(before));
        }
        if self.entries >= self.settings.max_entries {
            return Err(self.full());
        }
        self.consider_growth();
        self.grow_on(LINES_A_CHANGE);
        let Some(slot) = self.room(mixed) else { return Err(self.full()) };
        self.write(slot, mixed, value);
        Ok(None)
    }

    fn insert_batch(&mut self, entries: &[(Key, u16)]) -> usize {
        let chunk = |at: Option<usize>| {
            let chunk = at.and_then(|at| entries.get(at..entries.len().min(at + BURST)));
            chunk.unwrap_or_default()
        };
        let (mix, mut refused) = (self.mix, 0);
        for at in (0..entries.len() + 2 * BURST).step_by(BURST) {
            chunk(Some(at)).iter().for_each(|&(key, _)| self.ask(key));
            for &(key, _) in chunk(at.checked_sub(BURST)) {
                self.frame.ask_second(mix.mix(key));
            }
            let arrived = chunk(at.checked_sub(2 * BURST)).iter();
            refused += arrived.filter(|&&(key, value)| self.insert(key, value).is_err()).count();
        }
        refused
    }

    fn delete(&mut self, key: Key) -> Option<u16> {
        let mixed = self.mix.mix(key);
        let slot = self.frame.locate(mixed)?;
        let before = self.frame.word(slot) as u16;
        self.remove(slot, mixed);
        Some(before)
    }

    fn get(&self, key: Key) -> Option<u16> {
        let slot = self.frame.locate(self.mix.mix(key))?;
        Some(self.frame.word(slot) as u16)
    }

    fn capacity(&self) -> Capacity {
        let lines = self.frame.len() + self.growth.as_ref().map_or(0, |growth| growth.next.len());
        Capacity {
            entries: self.entries,
            max_entries: self.settings.max_entries,
            slots: self.frame.len() * SLOTS,
            bytes: lines * size_of::<Line>(),
            growths: self.growths,
            growths_refused: self.growths_refused,
            refused: self.refused,
            replaced: self.replaced,
            moves: self.moves,
        }
    }
}

impl Search {
    /// A slot of `frame` for `mixed`, made free.
    fn room(&mut self, mut frame: &Frame, mixed: u64) -> Option<Slot> {
        let lines = frame.lines_of(mixed);
        self.make_room(&mut frame, lines)
    }

    /// Gives `mixed` a value in `frame`; false when there is no room.
    fn upsert(&mut self, frame: &Frame, mixed: u64, value: u16) -> bool {
        if let Some(slot) = frame.locate(mixed) {
            frame.set_value(slot, value);
            return true;
        }
        let slot = self.room(frame, mixed);
        slot.map(|slot| frame.write(slot, mixed, value)).is_some()
    }
}

/// The lines that hold `entries`, as a power of two.
fn size(entries: usize) -> Option<u32> {
    bits_for(entries, SLOTS, BITS_AT_LEAST..=BITS_AT_MOST)
}

/// A table of 2^`bits` lines, where memory allows it.
fn new_frame(bits: u32, pages: Kind) -> Result<Frame, Refused> {
    Frame::new(bits, pages).map_err(|_| Refused::Memory { bytes: Frame::bytes(bits) })
}

/// The most that a table can be asked to hold.
pub(super) const MAX_ENTRIES: usize = room_of(SLOTS << BITS_AT_MOST);

/// Entries whose lines are asked for together; twice as many are under way.
const BURST: usize = 16;
