//! Building and updating: expansion, filters and tables of all levels.

use std::collections::TryReserveError;
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::deep::{DeepWriter, holds_deep, id};
use super::expand::{owned, owner};
use super::hashing::Scheme;
use super::plan::{Choice, Plan};
use super::{DEEP, Direct, Key, Level, MAX_PREFIXES, Table};
use crate::filter::{Bloom, CountingBloom};
use crate::lpm::default_hop::DefaultHop;
use crate::lpm::hashed::{HashedWriter, NoRoom, Tally};
use crate::lpm::{Applied, Card, Exported, Lpm, Options, Refusal, Writer};
use crate::pages::Pages;
use crate::rib::Change;
use crate::sync::Domain;
use crate::{Addr, Prefix, Rib};

/// - I3: `levels[i]` of the writer belongs to `table.levels[i]`.
/// - I4: a level holds exactly the keys that a prefix of its lengths covers (and the
///   /64s that hold deep ones), each with the hop of the longest of them.
struct BloomWriter<A: Addr, const W: usize, S> {
    card: &'static Card,
    table: Arc<Table<A, W, S>>,
    levels: Vec<LevelWriter<W>>,
    deep: Option<DeepWriter>,
    most_keys: u64,
    choice: Option<Choice>,
    /// Changes until the levels are looked at again.
    left: usize,
    done: Vec<Done<A>>,
}

struct LevelWriter<const W: usize> {
    len: u8,
    /// Prefixes longer than this, and up to `len`, are this level's.
    from: u8,
    filter: CountingBloom,
    table: HashedWriter<W>,
    keys: usize,
    most: usize,
}

/// A step of an update, and what takes it back.
enum Done<A> {
    Key { level: usize, key: A, old: u32 },
    Deep { prefix: Prefix<A>, old: u32 },
}

/// Keys and values of each level, before there are tables.
type Keys<A> = Vec<Vec<(A, u32)>>;

pub(super) fn build<A: Key<W>, const W: usize, S: Scheme<A>>(
    card: &'static Card,
    rib: &Rib<A>,
    options: &Options,
    domain: &Arc<Domain>,
    plan: &Plan,
) -> Result<Box<dyn Writer<A>>, Refusal> {
    Ok(exported::<A, W, S>(card, rib, options, domain, plan)?.writer)
}

/// The table, and what copies it.
pub(super) fn exported<A: Key<W>, const W: usize, S: Scheme<A>>(
    card: &'static Card,
    rib: &Rib<A>,
    options: &Options,
    domain: &Arc<Domain>,
    plan: &Plan,
) -> Result<Exported<A>, Refusal> {
    options.check(card)?;
    if rib.len() as u64 > MAX_PREFIXES {
        return Err(card.refuse(format!("{} prefixes exceed {MAX_PREFIXES}", rib.len())));
    }
    rib.iter().try_for_each(|(_, hop)| card.admit_hop(hop))?;
    let writer = BloomWriter::<A, W, S>::new(card, rib, domain, plan);
    let writer = writer.map_err(|error| card.refuse(format!("no memory: {error}")))?;
    Ok(Exported { export: writer.table.clone(), writer: Box::new(writer) })
}

impl<A: Key<W>, const W: usize, S: Scheme<A>> BloomWriter<A, W, S> {
    fn new(
        card: &'static Card,
        rib: &Rib<A>,
        domain: &Arc<Domain>,
        plan: &Plan,
    ) -> std::io::Result<Self> {
        let keys = keys_of(rib, plan)?;
        let largest = keys.iter().map(Vec::len).max().unwrap_or(0);
        let (mut levels, mut seen) = (Vec::new(), Vec::new());
        for (i, (&len, keys)) in plan.levels.iter().zip(&keys).enumerate().rev() {
            let from = i.checked_sub(1).map_or(plan.direct.unwrap_or(0), |i| plan.levels[i]);
            let designed = if plan.equal { largest } else { keys.len() };
            let level = LevelWriter::new::<A, S>(len, from, keys, designed, plan.rate, domain)?;
            let (filter, table) = (level.filter.filter().clone(), level.table.table().clone());
            seen.push(Level { len, filter, table });
            levels.push(level);
        }
        let (deep, seen_deep) = match A::WIDTH {
            128 => Some(DeepWriter::build(rib, domain)?).unzip(),
            _ => (None, None),
        };
        let table = Table {
            levels: seen,
            live: AtomicU64::new(live(&levels)),
            direct: plan.direct.map(|bits| Direct::new(bits, rib)).transpose()?,
            deep: seen_deep,
            default: DefaultHop::of(rib),
            tally: Tally::new(),
            isa: plan.isa,
            scheme: PhantomData,
        };
        let Plan { most_keys, choice, .. } = *plan;
        let (table, left, done) = (Arc::new(table), until_look(rib.len()), Vec::new());
        Ok(BloomWriter { card, table, levels, deep, most_keys, choice, left, done })
    }

    /// The level of prefixes of `len` bits.
    fn level_of(&self, len: u8) -> Option<usize> {
        self.levels.iter().position(|level| level.from < len && len <= level.len)
    }

    /// Whether the routes have become others than the levels were chosen for: seldom looked at.
    fn is_outgrown(&mut self, rib: &Rib<A>, changes: usize) -> bool {
        let Some(choice) = self.choice else { return false };
        self.left = self.left.saturating_sub(changes);
        if self.left > 0 {
            return false;
        }
        self.left = until_look(rib.len());
        let levels: Vec<u8> = self.levels.iter().rev().map(|level| level.len).collect();
        choice.is_outgrown(rib, &levels)
    }

    fn is_loose(&self) -> bool {
        self.levels.iter().any(|level| level.table.is_loose())
            || self.deep.as_ref().is_some_and(DeepWriter::is_loose)
    }

    fn is_direct(&self, len: u8) -> bool {
        self.table.direct.as_ref().is_some_and(|direct| len <= direct.bits)
    }

    /// What needs room: keys that get a hop, and deep prefixes.
    fn insert(&mut self, rib: &Rib<A>, prefix: Prefix<A>) -> Result<(), NoRoom> {
        if prefix.len() > 64 {
            let Some(hop) = rib.get(&prefix) else { return Ok(()) };
            let old = self.put_deep(prefix, hop.0)?;
            self.done.push(Done::Deep { prefix, old });
            return self.mark(rib, prefix);
        }
        let Some(at) = self.level_of(prefix.len()) else { return Err(NoRoom) };
        let (len, from) = (self.levels[at].len, self.levels[at].from);
        if 1_u64.checked_shl((len - prefix.len()).into()).is_none_or(|n| n > self.most_keys) {
            return Err(NoRoom);
        }
        let Some(hop) = owner(rib, prefix, from) else { return Ok(()) };
        self.put_owned(rib, prefix, at, hop.0)
    }

    /// What needs none.
    fn remove(&mut self, rib: &Rib<A>, prefix: Prefix<A>) -> Result<(), NoRoom> {
        if prefix.len() > 64 {
            if rib.get(&prefix).is_none() {
                self.put_deep(prefix, 0)?;
            }
            return self.mark(rib, prefix);
        }
        let Some(at) = self.level_of(prefix.len()) else { return Ok(()) };
        match owner(rib, prefix, self.levels[at].from) {
            Some(_) => Ok(()), // done by `insert`
            None => self.put_owned(rib, prefix, at, 0),
        }
    }

    /// Gives all keys that `prefix` owns at its level the hop, 0 for none.
    fn put_owned(
        &mut self,
        rib: &Rib<A>,
        prefix: Prefix<A>,
        at: usize,
        hop: u32,
    ) -> Result<(), NoRoom> {
        let (len, mut done) = (self.levels[at].len, Ok(()));
        owned(rib, prefix, len, |run| {
            for number in run {
                let key = key_of::<A>(number, len);
                if done.is_ok() {
                    let marked = self.levels[at].get::<A, S>(key) & DEEP;
                    done = self.put(at, key, hop | marked);
                }
            }
        });
        done
    }

    /// Brings the mark of the /64 around `prefix` in line with `rib`.
    fn mark(&mut self, rib: &Rib<A>, prefix: Prefix<A>) -> Result<(), NoRoom> {
        let Some(at) = self.level_of(64) else { return Err(NoRoom) };
        let key = prefix.first().and(A::mask(64));
        let hop = self.levels[at].get::<A, S>(key) & !DEEP;
        self.put(at, key, if holds_deep(rib, prefix) { hop | DEEP } else { hop })
    }

    fn put(&mut self, level: usize, key: A, value: u32) -> Result<(), NoRoom> {
        let old = self.levels[level].put::<A, S>(key, value)?;
        if (old == 0) != (value == 0) {
            self.table.live.store(live(&self.levels), Ordering::Release);
        }
        self.done.push(Done::Key { level, key, old });
        Ok(())
    }

    fn put_deep(&mut self, prefix: Prefix<A>, hop: u32) -> Result<u32, NoRoom> {
        match (&mut self.deep, &self.table.deep) {
            (Some(writer), Some(deep)) => writer.put(deep, prefix, hop),
            _ => Err(NoRoom),
        }
    }

    /// Takes back an update of which an insertion has failed. None of its steps has
    /// removed anything, so none of these needs room.
    fn undo(&mut self) {
        for done in std::mem::take(&mut self.done).into_iter().rev() {
            let undone = match done {
                Done::Key { level, key, old } => self.put(level, key, old),
                Done::Deep { prefix, old } => self.put_deep(prefix, old).map(drop),
            };
            undone.expect("what was there has its room");
        }
        self.done.clear();
    }
}

impl<A: Key<W>, const W: usize, S: Scheme<A>> Writer<A> for BloomWriter<A, W, S> {
    fn table(&self) -> Arc<dyn Lpm<A>> {
        self.table.clone()
    }

    fn apply(&mut self, rib: &Rib<A>, changes: &[Change<A>]) -> Result<Applied, Refusal> {
        for hop in changes.iter().filter_map(|change| change.hop) {
            self.card.admit_hop(hop)?;
        }
        let tables = self.levels.iter_mut().map(|level| level.table.admit());
        let admitted = tables.chain(self.deep.iter_mut().map(DeepWriter::admit)).collect();
        let admitted: Result<(), _> = admitted;
        admitted.map_err(|congested| self.card.refuse(congested.to_string()))?;
        let prefixes = changes.iter().map(|change| change.prefix);
        let mut hashed = Vec::from_iter(prefixes.clone().filter(|prefix| prefix.len() > 0));
        hashed.retain(|prefix| !self.is_direct(prefix.len()));
        // What needs room comes first, and is taken back if there is none.
        self.done.clear();
        if hashed.iter().try_for_each(|&prefix| self.insert(rib, prefix)).is_err() {
            self.undo();
            return Ok(Applied::Rebuild);
        }
        for prefix in hashed {
            self.remove(rib, prefix).expect("a removal needs no room");
        }
        for prefix in prefixes.filter(|prefix| self.is_direct(prefix.len()) || prefix.len() == 0) {
            if prefix.len() == 0 {
                self.table.default.follow(rib);
            } else if let Some(direct) = &self.table.direct {
                direct.paint(rib, prefix);
            }
        }
        // In line with its routes, and so it stays until another is built.
        let anew = self.is_outgrown(rib, changes.len()) || self.is_loose();
        Ok(if anew { Applied::Rebuild } else { Applied::InPlace })
    }

    fn bytes(&self) -> usize {
        let levels = self.levels.iter().map(|level| level.filter.bytes() + level.table.bytes());
        levels.sum::<usize>() + self.deep.as_ref().map_or(0, DeepWriter::bytes)
    }
}

impl<const W: usize> LevelWriter<W> {
    fn new<A: Key<W>, S: Scheme<A>>(
        len: u8,
        from: u8,
        keys: &[(A, u32)],
        designed: usize,
        rate: f64,
        domain: &Arc<Domain>,
    ) -> std::io::Result<Self> {
        let (bits, k) = Bloom::size(designed.max(LEAST_KEYS), rate);
        let mut filter = CountingBloom::new(bits, k)?;
        let mut records = Vec::new();
        records.try_reserve_exact(keys.len())?;
        for &(key, value) in keys {
            filter.insert_all((0..k).map(|i| S::filter(key, i)));
            let mut record = key.record();
            record[W - 1] |= u64::from(value);
            records.push((S::table(key), record));
        }
        let table = HashedWriter::build(domain, &records)?;
        let most = 2 * designed.max(LEAST_KEYS);
        Ok(LevelWriter { len, from, filter, table, keys: keys.len(), most })
    }

    fn get<A: Key<W>, S: Scheme<A>>(&self, key: A) -> u32 {
        self.table.get(S::table(key), &key.record())
    }

    /// Sets a key's value, or with 0 removes it; returns the one before. Only a new
    /// key can find no room.
    fn put<A: Key<W>, S: Scheme<A>>(&mut self, key: A, value: u32) -> Result<u32, NoRoom> {
        let (hash, record) = (S::table(key), key.record());
        let k = self.filter.filter().k();
        let bits = (0..k).map(|i| S::filter(key, i));
        if value == 0 {
            let old = self.table.remove(hash, &record);
            if old != 0 {
                self.filter.remove_all(bits);
                self.keys -= 1;
            }
            return Ok(old);
        }
        if self.keys >= self.most && self.table.get(hash, &record) == 0 {
            return Err(NoRoom); // the filter would pass too much
        }
        let old = self.table.set(hash, &record, value)?;
        if old == 0 {
            self.filter.insert_all(bits);
            self.keys += 1;
        }
        Ok(old)
    }
}

impl Direct {
    fn new<A: Addr>(bits: u8, rib: &Rib<A>) -> std::io::Result<Self> {
        let direct = Direct { bits, hops: Pages::zeroed(1 << bits)? };
        // By address, then length: a longer prefix paints over a shorter one.
        for (prefix, hop) in rib.iter().filter(|(prefix, _)| (1..=bits).contains(&prefix.len())) {
            let [first, last] = [prefix.first(), prefix.last()].map(|addr| addr.bits(0, bits));
            direct.fill(first.into()..=last.into(), hop.0);
        }
        Ok(direct)
    }

    /// Brings what `prefix` owns in line with `rib`.
    fn paint<A: Addr>(&self, rib: &Rib<A>, prefix: Prefix<A>) {
        let hop = id(owner(rib, prefix, 0));
        owned(rib, prefix, self.bits, |run| self.fill(run, hop));
    }

    fn fill(&self, run: RangeInclusive<u64>, hop: u32) {
        let cells = &self.hops[*run.start() as usize..=*run.end() as usize];
        cells.iter().for_each(|cell| cell.store(hop, Ordering::Release));
    }
}

/// The keys of all levels: each prefix's own, and the /64s that hold deep ones. A
/// table may become dozens of times as many keys: memory for them may be refused.
fn keys_of<A: Addr>(rib: &Rib<A>, plan: &Plan) -> Result<Keys<A>, TryReserveError> {
    let mut keys: Keys<A> = vec![Vec::new(); plan.levels.len()];
    let mut deep: Vec<A> = Vec::new();
    let mut room: Result<(), TryReserveError> = Ok(());
    for (prefix, hop) in rib.iter() {
        let level = plan.levels.partition_point(|&level| level < prefix.len());
        let Some(&len) = plan.levels.get(level) else {
            deep.push(prefix.first().and(A::mask(64)));
            continue;
        };
        if prefix.len() > plan.direct.unwrap_or(0) {
            let mut add = |run: RangeInclusive<u64>| {
                keys[level].try_reserve((run.end() - run.start()) as usize + 1)?;
                keys[level].extend(run.map(|number| (key_of::<A>(number, len), hop.0)));
                Ok(())
            };
            owned(rib, prefix, len, |run| {
                if room.is_ok() {
                    room = add(run);
                }
            });
        }
    }
    room?;
    if !deep.is_empty() {
        let keys = keys.last_mut().expect("there is a /64 level where there are deep ones");
        deep.dedup(); // in the order of the Rib
        keys.try_reserve(deep.len())?;
        keys.sort_unstable();
        let there = keys.len();
        for addr in deep {
            match keys[..there].binary_search_by_key(&addr, |&(key, _)| key) {
                Ok(at) => keys[at].1 |= DEEP,
                Err(_) => keys.push((addr, DEEP)),
            }
        }
    }
    Ok(keys)
}

/// The key of part `number` of `len` bits.
fn key_of<A: Addr>(number: u64, len: u8) -> A {
    A::from_u128(u128::from(number) << (A::WIDTH - len))
}

fn live<const W: usize>(levels: &[LevelWriter<W>]) -> u64 {
    let live = levels.iter().enumerate().filter(|(_, level)| level.keys > 0);
    live.fold(0, |live, (i, _)| live | 1 << i)
}

/// Changes between two looks at the levels, of a table of so many prefixes: a look takes as long as
/// some hundred of them.
fn until_look(prefixes: usize) -> usize {
    (prefixes / 8).max(512)
}

/// Keys for which each level has room at least.
const LEAST_KEYS: usize = 64;
