//! A policy's table of prefixes: a [`Rib`], and an engine of `lookup` that answers.
//!
//! The engine is updated at the first lookup after a change, so a million prefixes that are added
//! one by one cost one build. One thread owns all of it.
//!
//! An engine that is updated in place reserves address space for more than its table has
//! (`rutter4` some times as much, `dxr` 192 MiB), which counts as memory of a process that has a
//! limit. Where there is not so much, a small engine serves, which is as large as its table and is built anew for
//! each change: once the prefixes themselves have been asked as often as there are of them.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use lookup::lpm::{Applied, Engines, Entry, Lpm, Options, Writer};
use lookup::rib::{Change, Rib};
use lookup::sync::Domain;
use lookup::{Hop, Prefix};

/// Why a table operation failed; as negative numbers these are C's (`ENOENT` …).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(i32)]
pub(super) enum Refused {
    /// No such prefix, or none that covers the address.
    Absent = -2,
    /// The tables have no memory left.
    Memory = -12,
    /// The length is invalid, or the engine cannot store the label.
    Invalid = -22,
    /// The table is full.
    Full = -28,
}

/// The memory limit of all tables of a policy, in bytes.
pub(super) struct Budget {
    most: usize,
    taken: Cell<usize>,
    /// The last engine for which memory was too short, its substitute, and whether that was reported.
    instead: Cell<Option<Instead>>,
    is_said: Cell<bool>,
}

/// An engine's name, and its substitute's: `None` where there is none.
type Instead = (&'static str, Option<&'static str>);

impl Budget {
    /// `most` 0: no limit.
    pub fn new(most: usize) -> Rc<Self> {
        let most = if most == 0 { usize::MAX } else { most };
        let taken = Cell::new(0);
        Rc::new(Budget { most, taken, instead: Cell::new(None), is_said: Cell::new(true) })
    }

    /// An engine does not fit into memory.
    fn note(&self, instead: Instead) {
        if self.instead.replace(Some(instead)) != Some(instead) {
            self.is_said.set(false);
        }
    }

    /// The substitute, if it was not reported yet.
    #[inline]
    pub fn remark(&self) -> Option<Instead> {
        if self.is_said.replace(true) { None } else { self.instead.get() }
    }

    /// Changes one table's share from `was` to `is`; returns whether the limit allows it.
    fn change(&self, was: usize, is: usize) -> bool {
        let taken = self.taken.get().saturating_sub(was).saturating_add(is);
        self.taken.set(taken);
        taken <= self.most
    }
}

/// A table. Its engine has the prefixes from before the changes in `pending`.
pub(super) struct Table<A: Engines> {
    entry: &'static Entry<A>,
    options: Options,
    rib: Rib<A>,
    pending: Vec<Change<A>>,
    engine: Option<Engine<A>>,
    /// An engine did not fit into memory; it is tried again after the next change.
    without: bool,
    /// The last engine was a small one.
    is_small: bool,
    /// Lookups without an engine since the last change.
    slow: usize,
    domain: Arc<Domain>,
    budget: Rc<Budget>,
    /// The table's share of the budget.
    taken: usize,
    /// As created: the most prefixes, and a number of `tbl8`s that is kept and not used.
    pub paras: (u32, u32),
}

struct Engine<A: Engines> {
    writer: Box<dyn Writer<A>>,
    table: Arc<dyn Lpm<A>>,
}

impl<A: Engines> Table<A> {
    /// An empty table of at most `paras.0` prefixes.
    pub fn new(
        entry: &'static Entry<A>,
        options: &Options,
        budget: &Rc<Budget>,
        paras: (u32, u32),
    ) -> Self {
        Table {
            entry,
            options: options.clone(),
            rib: Rib::new(),
            pending: Vec::new(),
            engine: None,
            without: false,
            is_small: false,
            slow: 0,
            domain: Domain::new(),
            budget: Rc::clone(budget),
            taken: 0,
            paras,
        }
    }

    /// Holds the prefixes of `rib`, whose hops are labels + 1.
    pub fn fill(&mut self, rib: Rib<A>) -> Result<(), Refused> {
        self.rib = rib;
        self.engine = None;
        self.count()?;
        self.follow()
    }

    /// Adds a prefix, or changes its label. Host bits of `addr` are ignored.
    pub fn add(&mut self, addr: A, depth: u32, label: u32) -> Result<(), Refused> {
        let prefix = self.prefix(addr, depth)?;
        let hop = label.checked_add(1).filter(|&hop| hop <= self.entry.card.max_hop);
        let hop = Hop(hop.ok_or(Refused::Invalid)?);
        let most = self.entry.card.max_prefixes.unwrap_or(u64::MAX);
        let most = most.min(u64::from(self.paras.0));
        if self.rib.len() as u64 >= most && self.rib.get(&prefix).is_none() {
            return Err(Refused::Full);
        }
        let before = self.rib.insert(prefix, hop);
        let changed = self.changed(Change { prefix, hop: Some(hop) });
        if changed.is_err() {
            // Refused means that nothing has changed.
            match before {
                Some(hop) => self.rib.insert(prefix, hop),
                None => self.rib.remove(&prefix),
            };
        }
        changed
    }

    /// Removes a prefix.
    pub fn del(&mut self, addr: A, depth: u32) -> Result<(), Refused> {
        let prefix = self.prefix(addr, depth)?;
        self.rib.remove(&prefix).ok_or(Refused::Absent)?;
        // It is removed, even where what is left has no room.
        let _ = self.changed(Change { prefix, hop: None });
        Ok(())
    }

    /// The label of the longest prefix that covers `addr`.
    ///
    /// If there is no memory for an engine, the prefixes themselves are searched, which is slow:
    /// policies take an error of this function for "no prefix", and would grant flows that the
    /// table should decline.
    #[inline]
    pub fn find(&mut self, addr: A) -> Result<u32, Refused> {
        if !self.pending.is_empty() || self.engine.is_none() && !self.without {
            if self.is_small && self.slow < self.rib.len() {
                self.slow += 1;
                return self.find_slowly(addr);
            }
            self.without = self.follow().is_err();
        }
        match &self.engine {
            Some(engine) => label(engine.table.lookup(addr)),
            None => self.find_slowly(addr),
        }
    }

    /// The same, from the [`Rib`].
    pub fn find_slowly(&self, addr: A) -> Result<u32, Refused> {
        label(self.rib.lookup(addr).map_or(Hop::NONE, |(_, hop)| hop))
    }

    /// How many groups of 256 a DIR-24-8 table would need beside those that it has, for
    /// one prefix more: one for each step of 8 bits behind the first 24 that it is the
    /// first to take.
    pub fn groups_for(&self, addr: A, depth: u32) -> Result<u32, Refused> {
        let prefix = self.prefix(addr, depth)?;
        let mut groups = 0;
        for step in (24..prefix.len()).step_by(8) {
            let block = Prefix::covering(prefix.first(), step);
            let mut inside = self.rib.inside(block.first()..=block.last());
            groups += u32::from(!inside.any(|(other, _)| other.len() > step));
        }
        Ok(groups)
    }

    fn prefix(&self, addr: A, depth: u32) -> Result<Prefix<A>, Refused> {
        let most = A::WIDTH.min(self.entry.card.max_len);
        let len = u8::try_from(depth).ok().filter(|&len| len <= most);
        Ok(Prefix::covering(addr, len.ok_or(Refused::Invalid)?))
    }

    fn changed(&mut self, change: Change<A>) -> Result<(), Refused> {
        self.slow = 0;
        // More changes at once are a build.
        if self.pending.len() < MOST_PENDING && self.engine.is_some() {
            self.pending.push(change);
        } else {
            self.pending.clear();
            self.engine = None;
            self.without = false;
        }
        if self.rib.len().is_multiple_of(COUNTED_EVERY) { self.count() } else { Ok(()) }
    }

    /// Updates the engine to the prefixes.
    #[cold]
    fn follow(&mut self) -> Result<(), Refused> {
        let changes = std::mem::take(&mut self.pending);
        let applied = match &mut self.engine {
            Some(engine) => engine.writer.apply(&self.rib, &changes),
            None => Ok(Applied::Rebuild),
        };
        if applied != Ok(Applied::InPlace) {
            self.engine = None;
            let writer = self.build()?;
            self.engine = Some(Engine { table: writer.table(), writer });
        }
        self.count()
    }

    fn build(&mut self) -> Result<Box<dyn Writer<A>>, Refused> {
        let wanted = (self.entry.build)(&self.rib, &self.options, &self.domain);
        self.is_small = wanted.is_err();
        wanted.or_else(|_| {
            let small = SMALL.iter().find_map(|name| A::engine(name));
            let built = small.and_then(|small| {
                Some((small, (small.build)(&self.rib, &Options::default(), &self.domain).ok()?))
            });
            let name = built.as_ref().map(|(small, _)| small.card.name);
            self.budget.note((self.entry.card.name, name));
            built.map(|(_, writer)| writer).ok_or(Refused::Memory)
        })
    }

    /// Reports its size to the budget; a table beyond the budget has no engine.
    fn count(&mut self) -> Result<(), Refused> {
        let engine = self.engine.as_ref();
        let engine = engine.map_or(0, |engine| engine.table.bytes() + engine.writer.bytes());
        let is = engine + self.rib.bytes();
        let fits = self.budget.change(std::mem::replace(&mut self.taken, is), is);
        if fits {
            return Ok(());
        }
        self.engine = None;
        let is = self.rib.bytes();
        self.budget.change(std::mem::replace(&mut self.taken, is), is);
        Err(Refused::Memory)
    }
}

impl<A: Engines> Drop for Table<A> {
    fn drop(&mut self) {
        self.budget.change(self.taken, 0);
    }
}

fn label(hop: Hop) -> Result<u32, Refused> {
    hop.0.checked_sub(1).ok_or(Refused::Absent)
}

/// Engines that are as large as their tables: the first that a family has.
const SMALL: [&str; 2] = ["lulea", "lc-trie"];
/// Changes that wait for a lookup.
const MOST_PENDING: usize = 1024;
/// A store of prefixes takes up to some hundred bytes each: they are counted in hundreds of KiB.
const COUNTED_EVERY: usize = 1024;

#[cfg(test)]
mod tests {
    use lookup::lpm::Refusal;
    use lookup::rng::SplitMix64;

    use super::*;

    /// As where there is no address space for it.
    fn refusing<A: Engines>() -> &'static Entry<A> {
        let card = A::engine(A::DEFAULT).expect("it is in the registry").card;
        Box::leak(Box::new(Entry {
            card,
            build: |_, _, _| Err(Refusal { engine: "none", limit: "no memory".into() }),
        }))
    }

    fn without_room_a_small_engine_answers<A: Engines>() {
        let budget = Budget::new(0);
        let mut table = Table::<A>::new(refusing(), &Options::default(), &budget, (1 << 20, 0));
        let mut rng = SplitMix64(7);
        let mut next = || rng.next() as u32;
        let at = |n: u32| A::from_u128(u128::from(n) << (u32::from(A::WIDTH) - 32));
        let mut small = 0;
        for _ in 0..40 {
            for _ in 0..1 + next() % 60 {
                let (addr, depth) = (at(next() & 0xff0f_f0ff), 8 + next() % 25);
                match next() % 4 {
                    0 => _ = table.del(addr, depth),
                    _ => table.add(addr, depth, next() % 100).expect("there is room"),
                }
            }
            for _ in 0..next() % 3_000 {
                let addr = at(next() & 0xff0f_f0ff);
                assert_eq!(table.find(addr), table.find_slowly(addr));
            }
            small += usize::from(table.engine.is_some() && table.pending.is_empty());
        }
        assert!(small > 10, "{small}");
    }

    /// Where the budget ends, a prefix is refused or added, and never both.
    #[test]
    fn a_refused_prefix_is_not_there() {
        let budget = Budget::new(64 << 10);
        let entry = u32::engine(u32::DEFAULT).expect("it is in the registry");
        let mut table = Table::<u32>::new(entry, &Options::default(), &budget, (1 << 20, 0));
        let mut added = 0;
        for addr in (0..10_000_u32).map(|n| n << 8) {
            let answer = match table.add(addr, 24, 7) {
                Ok(()) => {
                    added += 1;
                    Ok(7)
                }
                Err(refused) => {
                    assert_eq!(refused, Refused::Memory);
                    Err(Refused::Absent)
                }
            };
            assert_eq!(table.find_slowly(addr), answer, "{added}");
        }
        assert!((COUNTED_EVERY - 1..10_000).contains(&added), "{added}");
        assert_eq!(table.rib.len(), added);
        assert_eq!((table.del(0, 24), table.rib.len()), (Ok(()), added - 1));
    }

    #[test]
    fn without_room_for_the_engine_a_small_one_answers() {
        without_room_a_small_engine_answers::<u32>();
        without_room_a_small_engine_answers::<u128>();
    }
}
