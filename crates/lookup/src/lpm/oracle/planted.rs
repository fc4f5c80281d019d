//! Errors that engines have had, planted one by one in one that has none: the suite finds each.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

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
const KEPT: u8 = 8;

/// Hops are taken as wide as the table was built for; a node counts its prefixes in a byte; a
/// live node is rewritten word by word; results stay at each change, out of everybody's reach;
/// `admit` is never asked; empty nodes stay; an eighth of the bytes is reported; what was
/// replaced stays in a list that nobody counts.
const ERRORS: [Error; 8] = [
    error::<NARROW>("hops are cut to 16 bits by an update", Suite::wider_hops_come_by_updates),
    error::<CROWDED>("a node of more than 255 prefixes", Suite::dense_nodes_answer),
    error::<TORN>("a live node is rewritten word by word", Suite::no_reader_sees_a_torn_node),
    error::<LEAKED>("results leak at each change", Suite::nothing_is_left_behind),
    error::<UNASKED>("`admit` is never asked", Suite::a_silent_reader_stops_the_writer),
    error::<UNPRUNED>("empty nodes stay", Suite::memory_stays_near_a_fresh_build),
    error::<UNDERSTATED>("bytes / 8", Suite::bytes_are_what_the_allocator_gave),
    error::<KEPT>("what was replaced is not counted", Suite::bytes_are_what_the_allocator_gave),
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
    let table = Arc::new(Wrong::<E>::of(writer.table(), rib));
    let there = rib.iter().map(|(prefix, _)| prefix).collect();
    let mut writer = Wrongly { writer, table, there };
    writer.count(rib);
    writer.write_node(rib);
    Ok(Box::new(writer))
}

/// A table with an error.
struct Wrong<const E: u8> {
    table: Arc<dyn Lpm<u32>>,
    updated: AtomicBool,
    node: Node,
    /// What is nobody's any more.
    stays: Mutex<Vec<[u64; 8]>>,
    /// The node that has more prefixes than it can count.
    crowded: RwLock<Option<Prefix<u32>>>,
}

/// The /30s of one /24, and the hops of those that there are, one behind the other: of a
/// change all move. It is rewritten as it lies.
struct Node {
    place: Prefix<u32>,
    map: AtomicU64,
    hops: [AtomicU32; 64],
}

impl Node {
    /// For the /24 with the most.
    fn of(rib: &Rib<u32>) -> Node {
        let inside = |prefix: Prefix<u32>| Prefix::covering(prefix.first(), 24);
        let all = || rib.iter().filter(|(prefix, _)| prefix.len() == 30).map(|(prefix, _)| prefix);
        let count = |place: &Prefix<u32>| all().filter(|prefix| place.covers(prefix)).count();
        let mut places: Vec<_> = all().map(inside).collect();
        places.dedup();
        let place = places.into_iter().max_by_key(count).unwrap_or(Prefix::all());
        let hops = std::array::from_fn(|_| AtomicU32::new(0));
        Node { place, map: AtomicU64::new(0), hops }
    }

    fn write(&self, rib: &Rib<u32>) {
        let child = |i: u32| Prefix::covering(self.place.first() | i << 2, 30);
        let (mut map, mut next) = (0_u64, 0);
        for (i, hop) in (0..64).filter_map(|i| Some((i, rib.get(&child(i))?))) {
            map |= 1 << i;
            self.hops[next].store(hop.0, Ordering::Relaxed);
            next += 1;
        }
        self.map.store(map, Ordering::Relaxed);
    }

    fn lookup(&self, dst: u32) -> Option<Hop> {
        if self.place.len() == 0 || !self.place.contains(dst) {
            return None;
        }
        let (map, child) = (self.map.load(Ordering::Relaxed), dst >> 2 & 63);
        let before = (map & ((1 << child) - 1)).count_ones() as usize;
        let hop = || Hop(self.hops[before].load(Ordering::Relaxed));
        (map >> child & 1 != 0).then(hop)
    }
}

impl<const E: u8> Wrong<E> {
    fn of(table: Arc<dyn Lpm<u32>>, rib: &Rib<u32>) -> Self {
        Wrong {
            table,
            updated: AtomicBool::new(false),
            node: Node::of(rib),
            stays: Mutex::new(Vec::new()),
            crowded: RwLock::new(None),
        }
    }

    fn wrong(&self, dst: u32, hop: Hop) -> Hop {
        let is_there = |place: &Option<Prefix<u32>>| place.is_some_and(|place| place.contains(dst));
        match E {
            NARROW if self.updated.load(Ordering::Relaxed) => Hop(hop.0 & 0xffff),
            TORN => self.node.lookup(dst).unwrap_or(hop),
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
        let bytes = self.table.bytes();
        match E {
            UNDERSTATED => bytes / 8,
            UNPRUNED => bytes + self.stays.lock().unwrap().len() * size_of::<[u64; 8]>(),
            _ => bytes,
        }
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

impl<const E: u8> Wrongly<E> {
    fn write_node(&self, rib: &Rib<u32>) {
        if E == TORN {
            self.table.node.write(rib);
        }
    }

    /// What `changes` leave, of which `new` bring prefixes that never were.
    fn leave(&self, changes: usize, new: usize) {
        let (mut stays, node) = (self.table.stays.lock().unwrap(), || [0_u64; 8]);
        match E {
            LEAKED => (0..changes).for_each(|_| {
                black_box(Box::leak(Box::new(node()))); // seen by nobody it would not be allocated
            }),
            UNPRUNED => stays.extend((0..new).map(|_| node())),
            KEPT => stays.extend((0..64 * changes).map(|_| node())),
            _ => {}
        }
    }
}

impl<const E: u8> Writer<u32> for Wrongly<E> {
    fn table(&self) -> Arc<dyn Lpm<u32>> {
        self.table.clone()
    }

    fn apply(&mut self, rib: &Rib<u32>, changes: &[Change<u32>]) -> Result<Applied, Refusal> {
        self.count(rib);
        self.write_node(rib);
        patience::DEAF.set(E == UNASKED);
        let applied = self.writer.apply(rib, changes);
        patience::DEAF.set(false);
        self.table.updated.store(true, Ordering::Relaxed);
        let new = changes.iter().filter(|change| self.there.insert(change.prefix)).count();
        self.leave(changes.len(), new);
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
        // A reader looks into a node while it is written, or it does not: soon one does. The
        // others are found at once.
        let found = (0..ATTEMPTS).any(|_| {
            let found = run(wrong, found_by).is_err();
            patience::DEAF.set(false);
            patience::LIMIT.set(None);
            found
        });
        assert!(found, "{name}");
    }
}

/// Of 600 ms at most; on two processors the first finds it.
const ATTEMPTS: usize = 20;
