//! Errors that engines have had, planted one by one in one that has none: the suite finds each.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use super::Suite;
use crate::lpm::{Applied, Entry, Lpm, Options, Refusal, Writer, bsd_radix};
use crate::rib::Change;
use crate::sync::{Domain, patience};
use crate::{Hop, Prefix, Rib};

/// An error, and the test of the suite that finds it.
struct Error {
    name: &'static str,
    entry: Entry<u32>,
    found_by: fn(&Suite<u32>),
}

const NONE: u8 = 0;
const NARROW: u8 = 1;
const CROWDED: u8 = 2;
const TORN: u8 = 3;
const LEAKED: u8 = 4;
const UNASKED: u8 = 5;
const UNPRUNED: u8 = 6;
const UNDERSTATED: u8 = 7;

/// Hops are taken as wide as the table was built for; a node counts its prefixes in a byte; a
/// live node is rewritten word by word; results stay at each change; `admit` is never asked;
/// empty nodes stay; an eighth of the bytes is reported.
const ERRORS: [Error; 7] = [
    error::<NARROW>("hops are cut to 16 bits by an update", Suite::wider_hops_come_by_updates),
    error::<CROWDED>("a node of more than 255 prefixes", Suite::dense_nodes_answer),
    error::<TORN>("a live node is rewritten word by word", Suite::no_reader_sees_a_torn_node),
    error::<LEAKED>("results leak at each change", Suite::memory_stays_near_a_fresh_build),
    error::<UNASKED>("`admit` is never asked", Suite::a_silent_reader_stops_the_writer),
    error::<UNPRUNED>("empty nodes stay", Suite::memory_stays_near_a_fresh_build),
    error::<UNDERSTATED>("bytes / 8", Suite::bytes_are_what_the_allocator_gave),
];

const fn error<const E: u8>(name: &'static str, found_by: fn(&Suite<u32>)) -> Error {
    Error { name, entry: entry::<E>(), found_by }
}

const fn entry<const E: u8>() -> Entry<u32> {
    Entry { card: bsd_radix::ENTRY.card, build: build::<E> }
}

fn build<const E: u8>(
    rib: &Rib<u32>,
    options: &Options,
    domain: &Arc<Domain>,
) -> Result<Box<dyn Writer<u32>>, Refusal> {
    let writer = (bsd_radix::ENTRY.build)(rib, options, domain)?;
    let table = Arc::new(Wrong::<E>::of(writer.table()));
    let there = rib.iter().map(|(prefix, _)| prefix).collect();
    let mut writer = Wrongly { writer, table, there };
    writer.count(rib);
    Ok(Box::new(writer))
}

/// A table with an error.
struct Wrong<const E: u8> {
    table: Arc<dyn Lpm<u32>>,
    updated: AtomicBool,
    torn: AtomicBool,
    /// Bytes that are nobody's any more.
    lost: AtomicUsize,
    /// The node that has more prefixes than it can count.
    crowded: RwLock<Option<Prefix<u32>>>,
}

impl<const E: u8> Wrong<E> {
    fn of(table: Arc<dyn Lpm<u32>>) -> Self {
        Wrong {
            table,
            updated: AtomicBool::new(false),
            torn: AtomicBool::new(false),
            lost: AtomicUsize::new(0),
            crowded: RwLock::new(None),
        }
    }

    fn wrong(&self, dst: u32, hop: Hop) -> Hop {
        let is_there = |place: &Option<Prefix<u32>>| place.is_some_and(|place| place.contains(dst));
        match E {
            NARROW if self.updated.load(Ordering::Relaxed) => Hop(hop.0 & 0xffff),
            TORN if self.torn.load(Ordering::Relaxed) => Hop(hop.0 ^ 1),
            CROWDED if is_there(&self.crowded.read().unwrap()) => Hop::NONE,
            _ => hop,
        }
    }
}

impl<const E: u8> Lpm<u32> for Wrong<E> {
    fn lookup(&self, dst: u32) -> Hop {
        self.wrong(dst, self.table.lookup(dst))
    }

    fn lookup_batch(&self, dsts: &[u32], hops: &mut [Hop]) {
        self.table.lookup_batch(dsts, hops);
        dsts.iter().zip(hops).for_each(|(&dst, hop)| *hop = self.wrong(dst, *hop));
    }

    fn bytes(&self) -> usize {
        let bytes = self.table.bytes() + self.lost.load(Ordering::Relaxed);
        if E == UNDERSTATED { bytes / 8 } else { bytes }
    }
}

/// Its writer.
struct Wrongly<const E: u8> {
    writer: Box<dyn Writer<u32>>,
    table: Arc<Wrong<E>>,
    /// Every prefix that ever was.
    there: BTreeSet<Prefix<u32>>,
}

impl<const E: u8> Wrongly<E> {
    /// Looks for a node, of 8 bits, with too many prefixes.
    fn count(&mut self, rib: &Rib<u32>) {
        if E != CROWDED {
            return;
        }
        let node = |prefix: &Prefix<u32>| {
            Prefix::covering(prefix.first(), prefix.len().saturating_sub(1) / 8 * 8)
        };
        let (mut last, mut n) = (None, 0);
        for prefix in rib.iter().map(|(prefix, _)| prefix) {
            // Those of one node that lie between others do not count: it is enough.
            n = if last == Some(node(&prefix)) { n + 1 } else { 1 };
            last = Some(node(&prefix));
            if n > 255 {
                *self.table.crowded.write().unwrap() = last;
            }
        }
    }
}

impl<const E: u8> Writer<u32> for Wrongly<E> {
    fn table(&self) -> Arc<dyn Lpm<u32>> {
        self.table.clone()
    }

    fn apply(&mut self, rib: &Rib<u32>, changes: &[Change<u32>]) -> Result<Applied, Refusal> {
        self.count(rib);
        if E == TORN {
            self.table.torn.store(true, Ordering::Relaxed);
            std::thread::sleep(Duration::from_micros(100));
        }
        patience::DEAF.set(E == UNASKED);
        let applied = self.writer.apply(rib, changes);
        patience::DEAF.set(false);
        self.table.torn.store(false, Ordering::Relaxed);
        self.table.updated.store(true, Ordering::Relaxed);
        let new = changes.iter().filter(|change| self.there.insert(change.prefix)).count();
        let lost = match E {
            LEAKED => 64 * changes.len(),
            UNPRUNED => 64 * new,
            _ => 0,
        };
        self.table.lost.fetch_add(lost, Ordering::Relaxed);
        applied
    }

    fn bytes(&self) -> usize {
        self.writer.bytes()
    }
}

#[test]
#[cfg_attr(miri, ignore = "the suite is for each engine under miri, not for what is wrong")]
fn the_suite_finds_each_error() {
    let run = |entry, test: fn(&Suite<u32>)| {
        let suite = AssertUnwindSafe(Suite::new(entry, &[]));
        catch_unwind(move || test(&suite))
    };
    for Error { name, entry: wrong, found_by } in ERRORS {
        assert!(run(entry::<NONE>(), found_by).is_ok(), "it is found where it is not: {name}");
        let found = run(wrong, found_by);
        patience::DEAF.set(false);
        patience::LIMIT.set(None);
        assert!(found.is_err(), "{name}");
    }
}
