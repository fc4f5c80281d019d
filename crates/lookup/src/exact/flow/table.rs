//! What the flow tables share: counting, expiry, batches; a [`Core`] is the rest.

use std::hash::{BuildHasher, RandomState};

use super::key::Seed;
use super::{Flow, FlowId, FlowKey, FlowTable, MAX_ENTRIES};
use crate::exact::{Capacity, Card, Refused};
use crate::interleave::{interleave, turn};
use crate::lpm::{Options, Refusal};
use crate::pages::{Kind, Pages, Zeroed};

/// How a table finds and makes room. Of a key it sees the hash drawn by `seed`.
pub(super) trait Core: Send {
    /// Rounds of [`Core::ask`] before a flow is looked for.
    const ROUNDS: usize;

    /// Asks for what the next round, or the search, will read.
    fn ask(&self, hash: u64, round: usize);

    /// Where the flow of `key` is.
    fn find(&self, hash: u64, key: &FlowKey) -> Option<u32>;

    /// A place for the flow of `key`, which is not there, with the key written.
    /// `None` where there is no room.
    fn add(&mut self, hash: u64, key: &FlowKey) -> Option<u32>;

    /// Takes out the flow at `at`.
    fn remove(&mut self, at: u32);

    /// The flow that goes to make room for a key of `hash`, where any may.
    fn victim(&self, hash: u64) -> Option<u32> {
        let _ = hash;
        None
    }

    /// All places.
    fn flows(&self) -> &[Flow];

    /// All places, to be changed.
    fn flows_mut(&mut self) -> &mut [Flow];

    /// Bytes that a lookup can read.
    fn bytes(&self) -> usize;
}

/// A flow table around a core.
pub(super) struct Table<C> {
    core: C,
    seed: Seed,
    batch: Batch,
    max_entries: usize,
    entries: usize,
    swept: usize,
    refused: u64,
    replaced: u64,
}

/// The size of a table that was asked for.
pub(super) struct Size {
    /// Entries that it may hold.
    pub(super) max_entries: usize,
    /// The logarithm of its places: more than entries.
    pub(super) bits: u32,
    /// Draws the hash.
    pub(super) seed: u64,
    batch: Batch,
}

/// How many keys are looked up together.
#[derive(Clone, Copy)]
enum Batch {
    /// All of a group a step at a time.
    Groups,
    /// Coroutines that take turns: one that ends makes room for the next.
    Turns,
    /// One after the other.
    Singly,
}

impl Size {
    /// # Errors
    /// When it is too much, or the options are wrong.
    pub(super) fn new(
        card: &'static Card,
        max_entries: usize,
        options: &Options,
    ) -> Result<Size, Refusal> {
        options.check_of(card.name, card.options)?;
        let number = |seed: &String| seed == "random" || seed.parse::<u64>().is_ok();
        let seed = options.get_of::<String>(card.name, card.options, "seed", number)?;
        if max_entries > MAX_ENTRIES {
            return Err(card.refuse(Refused::TooMany { max: MAX_ENTRIES }));
        }
        let known = |batch: &String| ["groups", "turns", "singly"].contains(&batch.as_str());
        let batch = options.get_of::<String>(card.name, card.options, "batch", known)?;
        let batch = match batch.as_str() {
            "turns" => Batch::Turns,
            "singly" => Batch::Singly,
            _ => Batch::Groups,
        };
        let bits = (max_entries + 1).next_power_of_two().ilog2().max(4);
        let seed = seed.parse().unwrap_or_else(|_| RandomState::new().hash_one(0));
        Ok(Size { max_entries, bits, seed, batch })
    }
}

/// `len` zeros, if memory allows them; touched, for their one thread serves packets with them.
pub(super) fn zeroed<T: Zeroed>(card: &'static Card, len: usize) -> Result<Pages<T>, Refusal> {
    let bytes = len * size_of::<T>();
    let no_memory = || card.refuse(Refused::Memory { bytes });
    let mut pages = Pages::admitted(Kind::default(), len).map_err(|_| no_memory())?;
    pages.touch_now();
    Ok(pages)
}

impl<C: Core> Table<C> {
    pub(super) fn new(core: C, size: &Size) -> Table<C> {
        let seed = Seed::new(size.seed);
        let (max_entries, batch) = (size.max_entries, size.batch);
        Table { core, seed, batch, max_entries, entries: 0, swept: 0, refused: 0, replaced: 0 }
    }

    /// A lookup that gives others a turn while what it asked for comes.
    async fn find_in_turns(&self, key: &FlowKey) -> Option<u32> {
        let hash = key.hash(&self.seed);
        for round in 0..C::ROUNDS {
            self.core.ask(hash, round);
            turn().await;
        }
        self.core.find(hash, key)
    }

    fn lookup_groups(&self, keys: &[FlowKey], ids: &mut [FlowId]) {
        let mut hashes = [0; GROUP];
        for (keys, ids) in keys.chunks(GROUP).zip(ids.chunks_mut(GROUP)) {
            for (hash, key) in hashes.iter_mut().zip(keys) {
                *hash = key.hash(&self.seed);
                self.core.ask(*hash, 0);
            }
            for round in 1..C::ROUNDS {
                hashes[..keys.len()].iter().for_each(|&hash| self.core.ask(hash, round));
            }
            for ((&hash, key), id) in hashes.iter().zip(keys).zip(ids) {
                *id = self.core.find(hash, key).map_or(FlowId::NONE, FlowId);
            }
        }
    }

    fn add(&mut self, hash: u64, key: &FlowKey) -> Option<u32> {
        let room = self.entries < self.max_entries;
        let at = if room { self.core.add(hash, key) } else { None };
        self.entries += usize::from(at.is_some());
        at
    }

    fn remove(&mut self, at: u32) {
        self.core.remove(at);
        self.entries -= 1;
    }
}

impl<C: Core> FlowTable for Table<C> {
    fn lookup(&self, key: &FlowKey) -> FlowId {
        self.core.find(key.hash(&self.seed), key).map_or(FlowId::NONE, FlowId)
    }

    fn lookup_batch(&self, keys: &[FlowKey], ids: &mut [FlowId]) {
        assert_eq!(keys.len(), ids.len());
        match self.batch {
            Batch::Groups => self.lookup_groups(keys, ids),
            Batch::Turns => interleave::<GROUP, _>(
                keys.len(),
                |i| self.find_in_turns(&keys[i]),
                |i, found| ids[i] = found.map_or(FlowId::NONE, FlowId),
            ),
            Batch::Singly => {
                ids.iter_mut().zip(keys).for_each(|(id, key)| *id = self.lookup(key));
            }
        }
    }

    fn insert(&mut self, key: &FlowKey) -> Result<FlowId, Refused> {
        let hash = key.hash(&self.seed);
        if let Some(at) = self.core.find(hash, key) {
            return Ok(FlowId(at));
        }
        if let Some(at) = self.add(hash, key) {
            return Ok(FlowId(at));
        }
        if let Some(victim) = self.core.victim(hash) {
            self.remove(victim);
            if let Some(at) = self.add(hash, key) {
                self.replaced += 1;
                return Ok(FlowId(at));
            }
        }
        self.refused += 1;
        Err(Refused::Full { entries: self.entries, max_entries: self.max_entries })
    }

    fn delete(&mut self, key: &FlowKey) -> bool {
        let at = self.core.find(key.hash(&self.seed), key);
        at.map(|at| self.remove(at)).is_some()
    }

    fn expire(&mut self, now: u32, places: usize) -> usize {
        let before = self.entries;
        for _ in 0..places.min(self.core.flows().len()) {
            // Taking one out may move another to its place.
            while self.core.flows()[self.swept].expired(now) {
                self.remove(self.swept as u32);
            }
            self.swept = (self.swept + 1) % self.core.flows().len();
        }
        before - self.entries
    }

    fn flow(&self, id: FlowId) -> &Flow {
        &self.core.flows()[id.0 as usize]
    }

    fn flow_mut(&mut self, id: FlowId) -> &mut Flow {
        &mut self.core.flows_mut()[id.0 as usize]
    }

    fn capacity(&self) -> Capacity {
        Capacity {
            entries: self.entries,
            max_entries: self.max_entries,
            slots: self.core.flows().len(),
            bytes: self.core.bytes(),
            refused: self.refused,
            replaced: self.replaced,
            ..Capacity::default()
        }
    }
}

impl Flow {
    fn expired(&self, now: u32) -> bool {
        self.is_there() && self.expires <= now
    }
}

/// Keys whose lines are asked for together.
const GROUP: usize = 32;
