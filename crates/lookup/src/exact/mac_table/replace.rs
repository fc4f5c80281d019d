//! A new entry in the place of an old one, where there may be no more.

use super::frame::USED;
use super::writer::{LINES_A_CHANGE, MacWriter};
use crate::exact::lines::SLOTS;
use crate::exact::search::Slot;
use crate::exact::{ABSENT, Key, Refused, Writer};

/// What [`MacWriter::insert_or_replace`] did.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Inserted {
    /// The key is new.
    New,
    /// The key was there, with this value.
    Changed(u16),
    /// The key is new, and has the place of this entry, which is gone.
    Replaced(Key, u16),
}

impl MacWriter {
    /// As [`Writer::insert`]; where that would find the table full, as
    /// [`MacWriter::replace`].
    ///
    /// # Errors
    /// As either.
    pub fn insert_or_replace(
        &mut self,
        key: Key,
        value: u16,
        age: impl Fn(u16) -> Option<u32>,
    ) -> Result<Inserted, Refused> {
        match self.insert(key, value) {
            Ok(before) => Ok(before.map_or(Inserted::New, Inserted::Changed)),
            Err(Refused::Full { .. }) => {
                self.refused -= 1; // it may be taken yet
                self.replace(key, value, age).map(|(old, value)| Inserted::Replaced(old, value))
            }
            Err(other) => Err(other),
        }
    }

    /// Gives the place of an old entry, which it returns, to `key`, which is
    /// absent: of the entries met for which `age` says anything, the one for which
    /// it says most. Met are those of the lines of `key`; and where that are few,
    /// as in a table that is half full, or if many may not go, those of the lines
    /// behind, 32,768 at most.
    ///
    /// # Errors
    /// When none that was met may go. Nothing has changed then.
    pub fn replace(
        &mut self,
        key: Key,
        value: u16,
        age: impl Fn(u16) -> Option<u32>,
    ) -> Result<(Key, u16), Refused> {
        if value == ABSENT {
            return Err(Refused::Value);
        }
        let mixed = self.mix.mix(key);
        self.grow_on(LINES_A_CHANGE);
        let room = self.room(mixed).inspect(|&slot| self.frame.vacate(slot));
        // With no room around, it has to be one of its own lines.
        let reach = if room.is_some() { PAIRS } else { 1 };
        let Some(oldest) = self.oldest(mixed, reach, age) else { return Err(self.full()) };
        let word = self.frame.word(oldest);
        let old = self.frame.mixed(oldest.bucket, word);
        self.remove(oldest, old);
        self.write(room.unwrap_or(oldest), mixed, value);
        self.replaced += 1;
        Ok((self.mix.unmix(old), word as u16))
    }

    /// The oldest of [`SAMPLE`] entries, or of as many as there are in `pairs`
    /// pairs of lines from those of `mixed` on.
    fn oldest(&self, mixed: u64, pairs: usize, age: impl Fn(u16) -> Option<u32>) -> Option<Slot> {
        let [first, second] = self.frame.lines_of(mixed);
        let last = self.frame.len() - 1;
        let (mut oldest, mut met) = (None, 0);
        for i in 0..pairs {
            for line in [first, second].map(|line| (line + i) & last) {
                for slot in (0..SLOTS).map(|slot| Slot { bucket: line, slot }) {
                    let word = self.frame.word(slot);
                    let aged = if word & USED == 0 { None } else { age(word as u16) };
                    let Some(age) = aged else { continue };
                    met += 1;
                    if oldest.is_none_or(|(most, _)| age > most) {
                        oldest = Some((age, slot));
                    }
                }
            }
            if met >= SAMPLE {
                break;
            }
        }
        oldest.map(|(_, slot)| slot)
    }
}

/// Entries of which the oldest goes.
const SAMPLE: usize = 12;

/// Pairs of lines in which they are looked for: 256 KiB, read in order.
const PAIRS: usize = 2048;
