//! The one thread that changes the table.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use super::CARD;
use super::table::{BATCH, By, Cuckoo, Prefetch, Steps, number};
use crate::exact::lines::{HALF, Half, Lines, bits_for, room_of};
use crate::exact::search::{Search, Slot};
use crate::exact::{ABSENT, Capacity, Exact, Key, Refused, Writer};
use crate::hint::prefetch;
use crate::lpm::{Options, Refusal};
use crate::pages::{Kind, Touch};

/// The writer of a [`Cuckoo`]. The table is as large as it may become at once,
/// as the paper's.
pub struct CuckooWriter {
    table: Arc<Cuckoo>,
    pages: Kind,
    search: Search,
    max_entries: usize,
    entries: usize,
    refused: u64,
    moves: u64,
}

impl CuckooWriter {
    /// An empty table for `max_entries`.
    ///
    /// # Errors
    /// When they are too many, there is no memory, or an option is wrong.
    pub fn new(max_entries: usize, options: &Options) -> Result<CuckooWriter, Refusal> {
        let Parsed { steps, pages, seed } = parse(options)?;
        let too_many = || CARD.refuse(Refused::TooMany { max: MAX_ENTRIES });
        let bits = bits_for(max_entries, HALF, 1..=MOST_BITS).ok_or_else(too_many)?;
        let bytes = size_of::<Half>() << bits;
        let no_memory = || CARD.refuse(Refused::Memory { bytes });
        let buckets = Lines::zeroed(bits, pages).map_err(|_| no_memory())?;
        buckets.touch_all(); // or the first lookups would
        let table = Arc::new(Cuckoo::new(buckets, bits, seed, steps));
        let search = Search::default();
        Ok(CuckooWriter { table, pages, search, max_entries, entries: 0, refused: 0, moves: 0 })
    }

    fn locate(&self, key: u64) -> Option<Slot> {
        let slots = self.table.buckets_of(key).into_iter().flat_map(|bucket| {
            let slot = move |slot| Slot { bucket, slot };
            (0..HALF).map(slot)
        });
        slots.into_iter().find(|&slot| {
            let word = self.table.word(slot);
            word != 0 && word >> 16 == key
        })
    }

    fn write(&self, slot: Slot, word: u64) {
        let Slot { bucket, slot } = slot;
        self.table.change([bucket; 2], || self.table.buckets[bucket].store(slot, word));
    }

    fn full(&mut self) -> Refused {
        self.refused += 1;
        Refused::Full { entries: self.entries, max_entries: self.max_entries }
    }
}

impl Writer for CuckooWriter {
    fn table(&self) -> Arc<dyn Exact> {
        self.table.clone()
    }

    fn table_by(&self, options: &Options) -> Result<Option<Arc<dyn Exact>>, Refusal> {
        let Parsed { steps, pages, seed } = parse(options)?;
        if (pages, seed) != (self.pages, self.table.seed) {
            return Ok(None);
        }
        Ok(Some(Arc::new(By { table: self.table.clone(), steps })))
    }

    fn insert(&mut self, key: Key, value: u16) -> Result<Option<u16>, Refused> {
        if value == ABSENT {
            return Err(Refused::Value);
        }
        let number = number(key);
        if number >> 48 != 0 {
            return Err(Refused::Key { bits: 48 });
        }
        let word = number << 16 | (u64::from(value) + 1);
        if let Some(slot) = self.locate(number) {
            let before = self.table.word(slot) as u16 - 1;
            self.write(slot, word);
            return Ok(Some(before));
        }
        if self.entries >= self.max_entries {
            return Err(self.full());
        }
        let roots = self.table.buckets_of(number);
        let Some(slot) = self.search.make_room(&mut &*self.table, roots) else {
            return Err(self.full());
        };
        self.moves += self.search.moved.len() as u64;
        self.write(slot, word);
        self.entries += 1;
        Ok(None)
    }

    fn insert_batch(&mut self, entries: &[(Key, u16)]) -> usize {
        let mut refused = 0;
        for entries in entries.chunks(32) {
            for &(key, _) in entries {
                for bucket in self.table.buckets_of(number(key)) {
                    prefetch(&self.table.buckets[bucket]);
                }
            }
            refused += entries.iter().filter(|&&(key, v)| self.insert(key, v).is_err()).count();
        }
        refused
    }

    fn delete(&mut self, key: Key) -> Option<u16> {
        let slot = self.locate(number(key))?;
        let before = self.table.word(slot) as u16 - 1;
        self.write(slot, 0);
        self.entries -= 1;
        Some(before)
    }

    fn get(&self, key: Key) -> Option<u16> {
        Some(self.table.word(self.locate(number(key))?) as u16 - 1)
    }

    fn capacity(&self) -> Capacity {
        let buckets = self.table.buckets.len();
        Capacity {
            entries: self.entries,
            max_entries: self.max_entries,
            slots: buckets * HALF,
            bytes: buckets * size_of::<Half>(),
            refused: self.refused,
            moves: self.moves,
            ..Capacity::default()
        }
    }
}

struct Parsed {
    steps: Steps,
    pages: Kind,
    seed: u64,
}

fn parse(options: &Options) -> Result<Parsed, Refusal> {
    options.check_of(CARD.name, CARD.options)?;
    let one_of = |name, names: &[&str]| {
        let known = |value: &String| names.contains(&value.as_str());
        options.get_of::<String>(CARD.name, CARD.options, name, known)
    };
    let pages = one_of("pages", &["large", "reserved", "small"])?;
    let pages = Kind::named(&pages).unwrap_or_default();
    let atomic = one_of("order", &["x86", "atomic"])? == "atomic";
    let prefetch = match one_of("prefetch", &["two-round", "both", "none"])?.as_str() {
        "none" => Prefetch::None,
        "both" => Prefetch::Both,
        _ => Prefetch::TwoRound,
    };
    let batch = options.get_of(CARD.name, CARD.options, "batch", |&batch| batch <= BATCH)?;
    let batch = if batch == 0 { BATCH } else { batch };
    let number = |seed: &String| seed == "random" || seed.parse::<u64>().is_ok();
    let seed = options.get_of::<String>(CARD.name, CARD.options, "seed", number)?;
    let seed = seed.parse().unwrap_or_else(|_| RandomState::new().hash_one(0));
    Ok(Parsed { steps: Steps { atomic, batch, prefetch }, pages, seed })
}

/// 2^31 slots, 16 GiB.
const MOST_BITS: u32 = 29;

/// The most that a table can be asked to hold.
pub(super) const MAX_ENTRIES: usize = room_of(HALF << MOST_BITS);
