//! What every table of [`Key`]s owes: `conformance!(make)` at the bottom of an
//! engine's tests instantiates the suite; `make(max_entries, domain)` builds one.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use testing::Stops;

use super::{ABSENT, Key, Refused, Writer};
pub(crate) use crate::rng::Rng;
use crate::sync::{Domain, Thread};

/// Builds an engine that may hold so many entries.
pub(crate) type Make = fn(usize, &Arc<Domain>) -> Box<dyn Writer>;

macro_rules! conformance {
    ($name:ident, $make:expr) => {
        mod $name {
            use super::*;

            $crate::exact::oracle::conformance!(@tests $make;
                agrees_with_a_hash_map,
                batch_agrees_with_scalar_at_every_length,
                a_value_that_means_absent_is_refused,
                full_refuses_and_loses_nothing,
                what_stays_is_found_while_the_rest_changes
            );
        }
    };
    (@tests $make:expr; $($test:ident),*) => {
        $(
            #[test]
            fn $test() {
                $crate::exact::oracle::$test($make);
            }
        )*
    };
}
pub(crate) use conformance;

/// A table, its writer, and what it should hold.
struct Built {
    writer: Box<dyn Writer>,
    holds: HashMap<Key, u16>,
    thread: Thread,
}

impl Built {
    fn new(make: Make, max_entries: usize) -> Built {
        let domain = Domain::new();
        let writer = make(max_entries, &domain);
        Built { writer, holds: HashMap::new(), thread: domain.register("test") }
    }

    fn insert(&mut self, key: Key, value: u16) {
        let before = self.writer.insert(key, value).expect("there is room");
        assert_eq!(before, self.holds.insert(key, value), "{key:?}");
    }

    fn delete(&mut self, key: Key) {
        assert_eq!(self.writer.delete(key), self.holds.remove(&key), "{key:?}");
    }

    fn agrees(&self, keys: &[Key]) {
        let (table, mut values) = (self.writer.table(), vec![0; keys.len()]);
        table.lookup_batch(self.thread.guard(), keys, &mut values);
        for (&key, value) in keys.iter().zip(values) {
            let want = self.holds.get(&key).copied();
            assert_eq!(value, want.unwrap_or(ABSENT), "{key:?}");
            assert_eq!(table.lookup(self.thread.guard(), key), value, "{key:?}");
            assert_eq!(self.writer.get(key), want, "{key:?}");
        }
        assert_eq!(self.writer.capacity().entries, self.holds.len());
    }
}

pub(crate) fn agrees_with_a_hash_map(make: Make) {
    for seed in 0..scaled(6) {
        let mut rng = Rng::new(seed);
        let mut built = Built::new(make, 1 << 18);
        let range = [40, 1000, 100_000][seed as usize % 3];
        for round in 0..scaled(8) {
            for _ in 0..10 * scaled(2_000) {
                let key = rng.key(range);
                match rng.below(3) {
                    0 => built.delete(key),
                    _ => built.insert(key, rng.below(u32::from(ABSENT)) as u16),
                }
            }
            let mut keys: Vec<_> = (0..10 * scaled(200)).map(|_| rng.key(2 * range)).collect();
            if round == 7 {
                keys.extend(built.holds.keys());
            }
            built.agrees(&keys);
            built.thread.quiesce();
        }
    }
}

pub(crate) fn batch_agrees_with_scalar_at_every_length(make: Make) {
    let (mut rng, mut built) = (Rng::new(7), Built::new(make, 1 << 16));
    for _ in 0..scaled(3000) {
        let key = rng.key(5000);
        built.insert(key, rng.below(1000) as u16);
    }
    let (most, step) = if cfg!(miri) { (66, 13) } else { (200, 1) };
    let keys: Vec<_> = (0..most).map(|_| rng.key(7000)).collect();
    for len in (0..=most).step_by(step) {
        built.agrees(&keys[..len]);
        built.agrees(&keys[keys.len() - len..]);
    }
}

pub(crate) fn a_value_that_means_absent_is_refused(make: Make) {
    let mut built = Built::new(make, 100);
    let key = Key::new(1, 0);
    assert_eq!(built.writer.insert(key, ABSENT), Err(Refused::Value));
    built.agrees(&[key]);
    built.insert(key, ABSENT - 1);
    assert_eq!(built.writer.insert(key, ABSENT), Err(Refused::Value));
    built.agrees(&[key, Key::default()]);
}

pub(crate) fn full_refuses_and_loses_nothing(make: Make) {
    let (mut rng, mut built) = (Rng::new(9), Built::new(make, scaled(60_000) as usize));
    let (mut refused, enough) = (0, if cfg!(miri) { 5 } else { 500 });
    while refused < enough {
        let (key, value) = (rng.key(1 << 40), rng.below(1000) as u16);
        match built.writer.insert(key, value) {
            Ok(before) => assert_eq!(before, built.holds.insert(key, value)),
            Err(Refused::Full { entries, .. }) => {
                assert_eq!((entries, built.holds.get(&key)), (built.holds.len(), None));
                refused += 1;
            }
            Err(other) => panic!("{other}"),
        }
    }
    let capacity = built.writer.capacity();
    assert_eq!((capacity.refused, capacity.entries), (enough, built.holds.len()));
    assert!(capacity.entries >= capacity.max_entries / 100 * 95, "{capacity:?}");
    let keys: Vec<_> = built.holds.keys().copied().collect();
    built.agrees(&keys);
    // A key that is there is still taken, and a place that is freed is used again.
    built.insert(keys[0], 1001);
    built.delete(keys[1]);
    built.insert(keys[1], 1002);
    built.agrees(&keys);
}

/// Some keys stay, with values that change; others come and go around them, so
/// that those which stay are moved, and the table grows under them. A reader
/// finds every key that stays, with a value of its own; of the others nothing
/// or a value of their own.
pub(crate) fn what_stays_is_found_while_the_rest_changes(make: Make) {
    // Keys of one residue of 1,009 have the same values: another's shows.
    let own = |key: Key, value: u16| u64::from(value) % 1009 == key.mac() % 1009;
    let domain = Domain::new();
    let mut writer = make(scaled(490_000) as usize, &domain);
    let stays: Vec<_> = (0..scaled(50_000)).map(|i| Key::new(i * 0x1_0001, 0)).collect();
    let value = |key: Key, version: u32| (key.mac() % 1009) as u16 + 1009 * (version % 60) as u16;
    stays.iter().for_each(|&key| assert_eq!(writer.insert(key, value(key, 0)), Ok(None)));
    let (table, stop, bursts) = (writer.table(), AtomicBool::new(false), AtomicU64::new(0));
    let (mut thread, mut changes) = (domain.register("reader"), 0);
    std::thread::scope(|scope| {
        let _stops = Stops(&stop);
        scope.spawn(|| {
            let mut rng = Rng::new(1);
            let (mut keys, mut values) = ([Key::default(); 256], [0; 256]);
            while !stop.load(Ordering::Relaxed) {
                for (i, key) in keys.iter_mut().enumerate() {
                    let stays = stays[rng.below(stays.len() as u32) as usize];
                    *key = if i % 4 == 3 { comes(&mut rng) } else { stays };
                }
                table.lookup_batch(thread.guard(), &keys, &mut values);
                let fault = keys.iter().zip(&values).find(|&(&key, &value)| {
                    if value == ABSENT { key.mac() < COMING } else { !own(key, value) }
                });
                if let Some((key, value)) = fault {
                    stop.store(true, Ordering::Relaxed);
                    panic!("{key:?}: {value}");
                }
                bursts.fetch_add(1, Ordering::Relaxed);
                thread.quiesce();
            }
            thread.offline();
        });
        let (mut rng, end) = (Rng::new(2), Instant::now() + stress_time());
        let (mut next, mut round) = (0, 0_u64);
        while !stop.load(Ordering::Relaxed) {
            // Twelve rounds fill the table, as far as it goes; four thin it out.
            let fill = round % ROUNDS < ROUNDS / 4 * 3;
            for _ in 0..scaled(40_000) {
                let version = rng.next() as u32;
                let stays = stays[rng.below(stays.len() as u32) as usize];
                writer.insert(stays, value(stays, version)).expect("it is there");
                if fill {
                    next = (next + 1) % COMES;
                    let key = coming(next);
                    let _ = writer.insert(key, value(key, version));
                } else {
                    writer.delete(comes(&mut rng));
                }
            }
            domain.reclaim();
            round += 1;
            if round >= ROUNDS && Instant::now() > end && bursts.load(Ordering::Relaxed) > BURSTS {
                stop.store(true, Ordering::Relaxed);
            }
        }
        changes = round * 2 * scaled(40_000);
    });
    let (moves, bursts) = (writer.capacity().moves, bursts.into_inner());
    println!("{} lookups beside {changes} changes and {moves} moves", bursts * 256);
    assert!(cfg!(miri) || moves > 0, "nothing was moved");
}

/// A key that comes and goes.
fn comes(rng: &mut Rng) -> Key {
    coming(rng.below(COMES))
}

fn coming(number: u32) -> Key {
    Key::new(COMING + u64::from(number) * 0x1_0203, 0)
}

/// Addresses from here on come and go.
const COMING: u64 = 1 << 40;

/// So many come that, with those which stay, they fill the table.
const COMES: u32 = 440_000;

/// A reader's at least.
const BURSTS: u64 = if cfg!(miri) { 3 } else { 20 };

/// Rounds after which all starts anew.
const ROUNDS: u64 = if cfg!(miri) { 4 } else { 16 };

/// `LOOKUP_STRESS_SECONDS`, for hours of doubt; a moment without.
pub(crate) fn stress_time() -> Duration {
    let seconds = std::env::var("LOOKUP_STRESS_SECONDS").ok().and_then(|text| text.parse().ok());
    seconds.map_or(Duration::from_millis(300), Duration::from_secs)
}

/// Under miri, which is thousands of times slower, a thousandth.
pub(crate) fn scaled(count: u64) -> u64 {
    if cfg!(miri) { count.div_ceil(1000) } else { count }
}

impl Rng {
    /// One of `range` keys that look like those of a network.
    fn key(&mut self, range: u64) -> Key {
        Key::new(0x0200_0000_0000 + self.next() % range, 0)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::panic::catch_unwind;

    use super::*;
    use crate::exact::cuckoo::CuckooWriter;
    use crate::exact::{Capacity, Exact};
    use crate::lpm::Options;

    /// A writer that fails in mid-run.
    struct Failing {
        of: CuckooWriter,
        left: u64,
    }

    impl Writer for Failing {
        fn table(&self) -> Arc<dyn Exact> {
            self.of.table()
        }

        fn insert(&mut self, key: Key, value: u16) -> Result<Option<u16>, Refused> {
            self.left = self.left.checked_sub(1).expect("it fails");
            self.of.insert(key, value)
        }

        fn delete(&mut self, key: Key) -> Option<u16> {
            self.of.delete(key)
        }

        fn get(&self, key: Key) -> Option<u16> {
            self.of.get(key)
        }

        fn capacity(&self) -> Capacity {
            self.of.capacity()
        }
    }

    /// The readers would wait for it for ever.
    #[test]
    fn a_panic_of_the_writer_ends_the_suite() {
        let make: Make = |most, _| {
            let of = CuckooWriter::new(most, &Options::default()).expect("there is memory");
            Box::new(Failing { of, left: scaled(60_000) })
        };
        catch_unwind(|| what_stays_is_found_while_the_rest_changes(make)).expect_err("it fails");
    }
}
