use std::collections::HashMap;

use super::*;
use crate::exact::oracle::Rng;

fn key(number: u64) -> FlowKey {
    if number.is_multiple_of(3) {
        return FlowKey::v4(0x0a00_0000 + number as u32, 0xc000_0201);
    }
    FlowKey::v6(0x2001_0db8 << 96 | u128::from(number), 0x2001_0db8_ffff << 80)
}

fn built(entry: &Entry, max_entries: usize, options: &[(&str, &str)]) -> Box<dyn FlowTable> {
    let named = |&(name, value): &(&str, &str)| (name.to_string(), value.to_string());
    let mut options = Options(options.iter().map(named).collect());
    options.0.entry("seed".to_string()).or_insert("5".to_string());
    (entry.build)(max_entries, &options).expect("there is memory")
}

/// Every flow is there with its state, and none that should not be.
fn agrees(table: &dyn FlowTable, want: &HashMap<u64, (u32, u32)>, numbers: u64) {
    let keys: Vec<_> = (0..numbers).map(key).collect();
    let mut ids = vec![FlowId(0); keys.len()];
    table.lookup_batch(&keys, &mut ids);
    for (number, (key, id)) in keys.iter().zip(ids).enumerate() {
        assert_eq!(table.lookup(key), id);
        let found = (id != FlowId::NONE).then(|| table.flow(id));
        let found = found.map(|flow| (flow.key(), (flow.expires, flow.state[0])));
        assert_eq!(found, want.get(&(number as u64)).map(|&state| (key, state)), "{key:?}");
    }
    assert_eq!(table.capacity().entries, want.len());
}

#[test]
#[cfg_attr(miri, ignore = "miri has no pages")]
fn its_memory_is_there_before_it_serves() {
    use crate::pages::{LARGE_ARRAY, PRETENDED, RESERVE, admit};
    let checked = |entry: &Entry| {
        PRETENDED.set(Some(RESERVE + 8 * LARGE_ARRAY as u64));
        let table = built(entry, LARGE_ARRAY / 32 - 1, &[]); // of 64 bytes, as is a place
        let bytes = table.capacity().bytes;
        assert!((2 * LARGE_ARRAY..5 * LARGE_ARRAY).contains(&bytes), "{bytes}");
        // Small arrays may be promised for a moment, no large one is.
        assert!(admit(7 * LARGE_ARRAY).is_ok(), "{}", entry.card.name);
    };
    for entry in engines() {
        // Each thread has an account of its own.
        std::thread::scope(|scope| scope.spawn(|| checked(entry)).join().expect("it has room"));
    }
}

#[test]
fn every_table_agrees_with_a_hash_map() {
    for entry in engines() {
        let sizes = [(1, if cfg!(miri) { 40 } else { 100 }), (2, 3000), (3, 900)];
        for &(seed, size) in &sizes[..if cfg!(miri) { 1 } else { 3 }] {
            let (mut rng, mut want) = (Rng(seed), HashMap::new());
            let mut table = built(entry, size, &[]);
            let numbers = size as u64;
            for now in 0..if cfg!(miri) { 1 } else { 12 } {
                for _ in 0..numbers * 2 {
                    let number = rng.next() % numbers;
                    if rng.below(3) == 0 {
                        assert_eq!(table.delete(&key(number)), want.remove(&number).is_some());
                    } else if let Ok(id) = table.insert(&key(number)) {
                        let flow = table.flow_mut(id);
                        let old = (flow.expires, flow.state[0]);
                        assert_eq!(want.get(&number).copied().unwrap_or((0, 0)), old);
                        (flow.expires, flow.state[0]) = (now + rng.below(5), rng.below(1000));
                        want.insert(number, (flow.expires, flow.state[0]));
                    } else {
                        assert!(!want.contains_key(&number), "{}", entry.card.name);
                    }
                }
                let before = want.len();
                want.retain(|_, (expires, _)| *expires > now);
                let places = table.capacity().slots;
                let expired = table.expire(now, places) + table.expire(now, places);
                assert_eq!(expired, before - want.len(), "{}", entry.card.name);
                agrees(&*table, &want, numbers + 100);
            }
        }
    }
}

#[test]
fn full_refuses_counts_and_loses_nothing() {
    for entry in engines() {
        let (size, more) = if cfg!(miri) { (30, 10) } else { (16_000, 50) };
        let mut table = built(entry, size, &[]);
        let (mut want, mut refused) = (HashMap::new(), 0);
        for number in 0..size as u64 + more {
            match table.insert(&key(number)) {
                Ok(id) => {
                    table.flow_mut(id).state[0] = number as u32;
                    want.insert(number, (0, number as u32));
                }
                Err(Refused::Full { .. }) => refused += 1,
                Err(other) => panic!("{other}"),
            }
        }
        let capacity = table.capacity();
        assert_eq!(capacity.refused, refused, "{}", entry.card.name);
        let least = if entry.card.name == "hopscotch" { 85 } else { 97 };
        assert!(cfg!(miri) || want.len() * 100 >= size * least, "{} {capacity:?}", entry.card.name);
        agrees(&*table, &want, size as u64 + more);
        // What is there is still found by insertion, and freed places are used.
        let (&number, _) = want.iter().next().expect("some");
        assert!(table.insert(&key(number)).is_ok());
        assert!(table.delete(&key(number)));
        assert!(table.insert(&key(number)).is_ok());
        want.insert(number, (0, 0));
        agrees(&*table, &want, size as u64 + more);
    }
}

#[test]
fn our_table_replaces_what_expires_first_where_it_may() {
    let entry = engine("flow-table").expect("it is listed");
    let (size, count) = if cfg!(miri) { (100, 300) } else { (2000, 10_000) };
    let mut table = built(entry, size, &[("full", "replace")]);
    for number in 0..count {
        let id = table.insert(&key(number)).expect("something goes");
        table.flow_mut(id).expires = number as u32;
    }
    let capacity = table.capacity();
    assert!(capacity.entries <= size && capacity.entries > size / 20 * 19, "{capacity:?}");
    assert_eq!(capacity.replaced as usize + capacity.entries, count as usize);
    let young = count - size as u64 / 4 * 3..count;
    let found = young.clone().filter(|&n| table.lookup(&key(n)) != FlowId::NONE).count();
    assert!(found * 10 > size * 6, "{found} of {young:?}");
    let options = Options([("full".to_string(), "grow".to_string())].into());
    assert!((entry.build)(10, &options).is_err());
}

#[test]
fn flows_that_come_and_go_leave_no_trace() {
    let (size, count) = if cfg!(miri) { (40, 100) } else { (1000, 50_000_u64) };
    for entry in engines() {
        let mut table = built(entry, size, &[]);
        for number in 0..count {
            let id = table.insert(&key(number)).expect("there is room");
            table.flow_mut(id).expires = number as u32 + size as u32 / 10 * 7;
            table.expire(number as u32, 8);
        }
        let Capacity { entries, refused, .. } = table.capacity();
        assert!(
            (size / 10 * 6..size).contains(&entries) && refused == 0,
            "{}: {entries}",
            entry.card.name
        );
    }
}

#[test]
fn batches_of_every_length() {
    let ways = ["groups", "turns", "singly"];
    for (entry, way) in engines().iter().flat_map(|entry| ways.map(|way| (entry, way))) {
        let (size, most, step) = if cfg!(miri) { (20, 30, 13) } else { (1000, 100, 1) };
        let mut table = built(entry, size, &[("batch", way)]);
        (0..size as u64 / 10 * 7).for_each(|number| assert!(table.insert(&key(number)).is_ok()));
        let keys: Vec<_> = (0..most).map(|i| key(i * 11 % (size as u64 * 11 / 10))).collect();
        for len in (0..=keys.len()).step_by(step) {
            let mut ids = vec![FlowId(7); len];
            table.lookup_batch(&keys[..len], &mut ids);
            let want: Vec<_> = keys[..len].iter().map(|key| table.lookup(key)).collect();
            assert_eq!(ids, want, "{}", entry.card.name);
        }
    }
}

#[test]
fn keys_print_as_addresses() {
    assert_eq!(format!("{:?}", FlowKey::v4(0x0a00_0001, 0xc000_0201)), "10.0.0.1 -> 192.0.2.1");
    assert_eq!(format!("{:?}", FlowKey::v6(1, 0x2001 << 112)), "::1 -> 2001::");
}

#[test]
fn sizes_and_options_are_checked() {
    for entry in engines() {
        let none = Options::default();
        assert!((entry.build)(1 << 40, &none).is_err(), "{}", entry.card.name);
        let unknown = Options([("no-such".to_string(), String::new())].into());
        assert!((entry.build)(10, &unknown).is_err(), "{}", entry.card.name);
        let mut empty = (entry.build)(0, &none).expect("it is small");
        assert!(empty.insert(&key(1)).is_err() && empty.lookup(&key(1)) == FlowId::NONE);
    }
}

/// The load at which a table begins to refuse is the one that the module's table says.
#[test]
#[cfg_attr(miri, ignore = "a table that is not small")]
fn tables_are_full_where_it_is_said() {
    for (name, least, most) in [("cuckoo-flow", 99.2, 99.5), ("flow-table", 90.0, 92.5)] {
        let entry = engines().iter().find(|entry| entry.card.name == name).expect("it is one");
        for seed in ["1", "2", "3"] {
            let mut table = built(entry, (1 << 20) - 1, &[("seed", seed)]);
            let full = (0..1 << 20).find(|&number| table.insert(&key(number)).is_err());
            let percent = full.unwrap_or(1 << 20) as f64 / f64::from(1 << 20) * 100.0;
            assert!((least..most).contains(&percent), "{name}, seed {seed}: {percent} %");
        }
    }
}
