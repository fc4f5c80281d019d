//! CuckooSwitch's table: 2,4 bucketized optimistic concurrent cuckoo hashing.
//!
//! ```text
//!    key (48 bits) ─► hash ─┬─► bucket b1
//!                           └─► bucket b2            2^b buckets × 32 B
//!    bucket    4 entries × 8 B, half a cache line
//!    entry     63          16  15           0
//!              [   address   │  value + 1    ]       0: no entry
//!    versions  8,192 counters; that of bucket i is i mod 8,192
//! ```
//!
//! | operation | cost                                                           |
//! |-----------|----------------------------------------------------------------|
//! | lookup    | 1.3 lines, two versions before and after; again where one moved |
//! | absent    | 2 lines                                                        |
//! | insert    | 2 lines; beyond, a search of 512 buckets at most               |
//! | change    | one store between two of the version                           |
//! | memory    | 8 B a slot, 8.42 B an entry at 95 %, and 64 KiB of versions    |
//!
//! Source: Zhou, Fan, Lim, Kaminsky, Andersen, *Scalable, High Performance
//! Ethernet Forwarding with CuckooSwitch*, CoNEXT 2013, Algorithms 1 to 3; the
//! path search is that of Fan, Andersen, Kaminsky, *MemC3*, NSDI 2013. Each step
//! of the paper's factor analysis is an option: `pages` (3.5), `order` (3.2),
//! `batch` (3.3; 0 takes all keys of a call: dynamic batching), `prefetch` (3.4).
//!
//! We differ: both hashes are keyed; the search is breadth first, so that a
//! displacement moves as few entries as can be; of a batch in which a version has
//! changed the keys concerned are looked up again, not all. The paper relies on
//! x86's order of loads and stores; here the versions are a sequence lock with
//! acquire and release, which x86 gets for nothing.
//!
//! Concurrency. A writer makes the versions of the buckets odd (W1), fences, and
//! writes the words (W2), then makes the versions even (W3, release). A reader
//! loads both versions (R1, acquire), the words (R2), fences, and loads the
//! versions again (R3):
//!
//! - A. R2 sees a word of W2: then R3 sees W1 or later, by the fences, and R1 did
//!   not, unless it saw W3 of the same change (then the words are whole) or an odd
//!   number (then it asks again).
//! - B. R1 before W1 and R2 before W2: the state before, a present key is found.
//! - C. A displacement of a key between its buckets makes both odd before either
//!   is written, so no reader that took both versions misses it.
//! - D. Several buckets share a version: asked again without need, never wrongly.

#[cfg(all(test, loom))]
mod loom_tests;
mod table;
mod writer;

use std::sync::Arc;

pub use table::Cuckoo;
pub use writer::CuckooWriter;

use super::{ABSENT, Card, Entry, Writer};
use crate::lpm::{Options, Refusal};
use crate::pages;
use crate::sync::Domain;

/// The registry's line.
pub const ENTRY: Entry = Entry { card: &CARD, build };

const CARD: Card = Card {
    name: "cuckoo",
    family: "mac",
    paper: "Zhou, Fan, Lim, Kaminsky, Andersen: CuckooSwitch (2013)",
    help: "2,4 optimistic concurrent cuckoo hashing; 8 bytes per entry; striped version counters",
    key_bits: 48,
    max_value: ABSENT as u32 - 1,
    max_entries: Some(writer::MAX_ENTRIES as u64),
    options: &[
        ("pages", "large", pages::HELP),
        (
            "order",
            "x86",
            "how readers load versions: x86 (plain loads) or atomic (read-modify-write)",
        ),
        (
            "batch",
            "0",
            "keys that are looked up together, 1 to 256; 0: all keys of a call, up to 256",
        ),
        ("prefetch", "two-round", "how buckets are prefetched: two-round, both (at once) or none"),
        ("seed", "random", "seed of the hash functions: a number, or random"),
    ],
};

fn build(
    max_entries: usize,
    options: &Options,
    _: &Arc<Domain>,
) -> Result<Box<dyn Writer>, Refusal> {
    Ok(Box::new(CuckooWriter::new(max_entries, options)?))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::exact::oracle::conformance;
    use crate::exact::{Key, Refused};

    fn options(options: &[(&str, &str)]) -> Options {
        let named = |&(name, value): &(&str, &str)| (name.to_string(), value.to_string());
        Options(options.iter().map(named).collect())
    }

    fn with(max_entries: usize, named: &[(&str, &str)]) -> Box<dyn Writer> {
        build(max_entries, &options(named), &Domain::new()).expect("there is memory")
    }

    conformance!(paper, |most, _| with(most, &[("seed", "3")]));
    conformance!(batch_14, |most, _| with(most, &[("batch", "14"), ("order", "atomic")]));
    conformance!(one_by_one, |most, _| with(most, &[("batch", "1"), ("prefetch", "both")]));
    conformance!(plain, |most, _| with(most, &[("pages", "small"), ("prefetch", "none")]));

    #[test]
    fn it_fills_to_95_percent() {
        let mut table = with((1 << 17) / 100 * 95, &[("seed", "1")]);
        assert_eq!(table.capacity().slots, 1 << 17);
        for i in 0..(1 << 17) / 100 * 95 {
            assert_eq!(table.insert(Key::new(i * 3, 0), 1), Ok(None));
        }
    }

    #[test]
    fn one_table_is_read_by_several_options() {
        let mut writer = with(1000, &[("seed", "5"), ("order", "atomic")]);
        let keys: Vec<Key> = (0..900).map(|i| Key::new(i * 7, 0)).collect();
        for (key, value) in keys.iter().zip(0..) {
            assert_eq!(writer.insert(*key, value), Ok(None));
        }
        let by = |named: &[(&str, &str)]| writer.table_by(&options(named));
        let thread = Domain::new().register("test");
        for batch in ["1", "14", "0"] {
            for (order, prefetch) in [("x86", "none"), ("atomic", "both"), ("x86", "two-round")] {
                let named = [("batch", batch), ("order", order), ("prefetch", prefetch)];
                let table = by(&[&named[..], &[("seed", "5")]].concat()).unwrap().unwrap();
                let mut values = vec![ABSENT; keys.len()];
                table.lookup_batch(thread.guard(), &keys, &mut values);
                assert!(values.iter().copied().eq(0..900), "{named:?}");
                assert_eq!(table.lookup(thread.guard(), keys[3]), 3);
                assert_eq!(table.lookup(thread.guard(), Key::new(1, 0)), ABSENT);
            }
        }
        // Another layout is another table.
        for other in [&[("seed", "6")][..], &[("seed", "5"), ("pages", "small")], &[]] {
            assert!(by(other).unwrap().is_none(), "{other:?}");
        }
        assert!(by(&[("seed", "5"), ("batch", "257")]).is_err());
    }

    #[test]
    fn a_key_of_another_domain_is_refused_and_absent() {
        let mut table = with(100, &[]);
        table.insert(Key::new(7, 0), 1).unwrap();
        assert_eq!(table.insert(Key::new(7, 1), 2), Err(Refused::Key { bits: 48 }));
        assert_eq!((table.get(Key::new(7, 1)), table.delete(Key::new(7, 1))), (None, None));
        assert_eq!(table.get(Key::new(7, 0)), Some(1));
    }

    #[test]
    fn bad_options_are_refused() {
        for (name, value) in
            [("pages", "huge"), ("order", "arm"), ("batch", "257"), ("prefetch", ""), ("seed", "x")]
        {
            let options = Options([(name.to_string(), value.to_string())].into());
            assert!(build(10, &options, &Domain::new()).is_err(), "{name} = {value}");
        }
    }
}
