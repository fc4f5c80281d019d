mod full;
mod random;
mod replace;
mod sweep;
mod twin;

use twin::Twin;

use super::*;
use crate::exact::Capacity;
use crate::rng::Rng;

fn key(number: u64) -> FlowKey {
    if number.is_multiple_of(3) {
        return FlowKey::v4(0x0a00_0000 + number as u32, 0xc000_0201);
    }
    FlowKey::v6(0x2001_0db8 << 96 | u128::from(number), 0x2001_0db8_ffff << 80)
}

fn keys(numbers: std::ops::Range<u64>) -> Vec<FlowKey> {
    numbers.map(key).collect()
}

/// Ticks in a second.
const SECOND: u64 = 1_000_000;

fn built(entry: &Entry, entries: usize, options: &[(&str, &str)]) -> Box<dyn FlowTable> {
    let named = |&(name, value): &(&str, &str)| (name.to_string(), value.to_string());
    let mut options = Options(options.iter().map(named).collect());
    options.0.entry("seed".to_string()).or_insert("5".to_string());
    (entry.build)(Wanted { entries, second: SECOND }, &options).expect("there is memory")
}

fn ours() -> &'static Entry {
    engine("flow-table").expect("it is listed")
}

/// Each engine with each of its rules.
fn all() -> impl Iterator<Item = (&'static Entry, &'static str)> {
    engines().iter().flat_map(|entry| entry.rules.iter().map(move |rule| (entry, rule.name())))
}

#[test]
#[cfg_attr(miri, ignore = "miri has no pages")]
fn its_memory_is_there_before_it_serves() {
    use crate::pages::{LARGE_ARRAY, PRETENDED, RESERVE, admit};
    let checked = |entry: &Entry| {
        PRETENDED.set(Some(RESERVE + 12 * LARGE_ARRAY as u64));
        let table = built(entry, LARGE_ARRAY / 32 - 1, &[]); // of 64 bytes, as is a place
        let bytes = table.capacity().bytes;
        assert!((3 * LARGE_ARRAY..7 * LARGE_ARRAY).contains(&bytes), "{bytes}");
        // Small arrays may be promised for a moment, no large one is.
        assert!(admit(11 * LARGE_ARRAY).is_ok(), "{}", entry.card.name);
    };
    for entry in engines() {
        // Each thread has an account of its own.
        std::thread::scope(|scope| scope.spawn(|| checked(entry)).join().expect("it has room"));
    }
}

/// What the page about them promises, from what they say themselves.
#[test]
fn a_request_takes_72_bytes_and_a_decided_flow_136() {
    for entries in [800, if cfg!(miri) { 80 } else { 1 << 20 }] {
        let bytes = |percent| built(ours(), entries, &[("decided_max", percent)]).capacity().bytes;
        assert_eq!((bytes("0"), bytes("100")), (72 * entries, 136 * entries));
        assert_eq!(bytes("75"), (72 + 48) * entries);
    }
}

#[test]
fn flows_that_come_and_go_leave_no_trace() {
    let (size, count) = if cfg!(miri) { (40, 100) } else { (1000, 50_000_u64) };
    for (entry, rule) in all() {
        let mut table = built(entry, size, &[("full", rule)]);
        for number in 0..count {
            let mut id = [FlowId::NONE];
            let expires = number + size as u64 / 10 * 7;
            let none: &mut OnGone<'_> = &mut |_, _, _| panic!("nothing makes room");
            table.find_or_insert_batch(number, expires, &[key(number)], &mut id, none);
            assert!(id[0].is_new(), "there is room");
            table.sweep(number, 8, &mut |_, _, why| assert_eq!(why, Why::Expired));
        }
        let Capacity { entries, refused, replaced, .. } = table.capacity();
        let stay = (size / 10 * 6..size).contains(&entries);
        assert!(stay && (refused, replaced) == (0, 0), "{}: {entries}", entry.card.name);
        let expired: u64 = table.counts().expired.iter().sum();
        assert_eq!(expired + entries as u64, count);
    }
}

/// Easy version 11: nobody waits for traffic.
#[test]
fn a_table_without_traffic_is_empty_when_all_has_expired() {
    let (size, step) = if cfg!(miri) { (60, 16) } else { (20_000, 64) };
    for (entry, rule) in all() {
        let mut twin = Twin::new(built(entry, size as usize, &[("full", rule)]));
        for group in keys(0..size / 2).chunks(50) {
            twin.claim(1, 4 * SECOND, group);
        }
        let keys: Vec<_> = twin.map.keys().copied().collect();
        keys.iter().step_by(3).for_each(|key| assert!(twin.decide(key)));
        let slots = twin.table.capacity().slots;
        for now in [3 * SECOND, 4 * SECOND - 1, 4 * SECOND, 10 * SECOND] {
            let mut left = 2 * slots;
            while left > 0 {
                twin.call(|table, gone| table.sweep(now, step, gone));
                left = left.saturating_sub(step);
            }
            let there = if now < 4 * SECOND { keys.len() } else { 0 };
            assert_eq!(twin.table.capacity().entries, there, "{} at {now}", entry.card.name);
        }
        twin.agrees(&keys);
    }
}

#[test]
fn batches_of_every_length() {
    let ways = ["groups", "turns", "singly"];
    for (entry, way) in engines().iter().flat_map(|entry| ways.map(|way| (entry, way))) {
        let (size, most, step, of) =
            if cfg!(miri) { (40, 22, 7, 43) } else { (1000, 200, 1, 1103) };
        let mut twin = Twin::new(built(entry, size as usize, &[("batch", way)]));
        for number in 0..size / 10 * 5 {
            assert!(twin.claim(0, 1, &[key(number)])[0].is_new());
        }
        let keys: Vec<_> = (0..most).map(|i| key(i * 11 % of)).collect();
        for len in (0..=keys.len()).step_by(step) {
            let mut ids = vec![FlowId::NONE; len];
            twin.table.find_batch(&keys[..len], &mut ids);
            let want: Vec<_> = keys[..len].iter().map(|key| twin.table.find(key)).collect();
            assert_eq!(ids, want, "{}", entry.card.name);
            let made = twin.claim(0, 1, &keys[..len]);
            for (made, found) in made.iter().zip(ids) {
                assert!(!made.is_none() && made.is_new() == found.is_none());
            }
            for key in keys[..len].iter().step_by(2) {
                twin.call(|table, gone| assert!(table.delete(key, gone)));
            }
        }
    }
}

#[test]
fn equal_keys_of_a_batch_are_one_flow() {
    let ways = ["groups", "turns", "singly"];
    for (entry, rule) in all() {
        for way in ways {
            let mut twin = Twin::new(built(entry, 500, &[("full", rule), ("batch", way)]));
            let batch = [key(1), key(2), key(1), key(1), key(2)];
            let ids = twin.claim(0, 9, &batch);
            let new = ids.iter().filter(|id| id.is_new()).count();
            assert_eq!((new, twin.map.len()), (2, 2), "{} {way}", entry.card.name);
            let places: std::collections::HashSet<_> = ids.iter().map(|id| id.place).collect();
            assert_eq!(places.len(), 2);
            assert!(twin.claim(1, 10, &batch).iter().all(|id| !id.is_new() && !id.is_none()));
            assert_eq!(twin.table.flow(ids[0]).0.expires(), 9, "what is there stays as it is");
        }
    }
}

#[test]
fn keys_print_as_addresses() {
    assert_eq!(format!("{:?}", FlowKey::v4(0x0a00_0001, 0xc000_0201)), "10.0.0.1 -> 192.0.2.1");
    assert_eq!(format!("{:?}", FlowKey::v6(1, 0x2001 << 112)), "::1 -> 2001::");
    assert_eq!(FlowKey::v4(7, 8).addresses(), [7, 8]);
    assert_eq!(FlowKey::v6(1 << 100, 8).addresses(), [1 << 100, 8]);
}

#[test]
fn families_do_not_mix() {
    for entry in engines() {
        let mut twin = Twin::new(built(entry, 100, &[]));
        // The same eight words.
        let batch = [FlowKey::v4(1, 2), FlowKey::v6(1 << 96, 2 << 96)];
        assert!(twin.claim(0, 1, &batch).iter().all(|id| id.is_new()));
        twin.agrees(&[]);
    }
}

#[test]
fn sizes_and_options_are_checked() {
    for entry in engines() {
        let none = Options::default();
        let build =
            |entries, options: &Options| (entry.build)(Wanted { entries, second: 1 }, options);
        assert!(build(1 << 40, &none).is_err(), "{}", entry.card.name);
        let mut empty = build(0, &none).expect("it is small");
        let mut id = [FlowId::NONE];
        empty
            .find_or_insert_batch(0, 1, &[key(1)], &mut id, &mut |_, _, _| panic!("none is there"));
        assert!(id[0].is_none() && empty.find(&key(1)).is_none());
        assert_eq!((empty.sweep(9, 100, &mut |_, _, _| ()), empty.counts().refused), (0, 1));
        for (name, value) in [
            ("no-such", ""),
            ("full", "grow"),
            ("full", "refuse"),
            ("batch", "many"),
            ("stop", "1"),
            ("decided_max", "101"),
            ("keep", "0"),
        ] {
            let options = Options([(name.to_string(), value.to_string())].into());
            assert!(build(10, &options).is_err(), "{} {name} {value}", entry.card.name);
        }
        let rules = ["replace", "thesis", "deployed"].map(|rule| {
            let options = Options([("full".to_string(), rule.to_string())].into());
            build(10, &options).is_ok()
        });
        let is_ours = entry.card.name == "flow-table";
        assert_eq!(rules, [is_ours, true, is_ours], "{}", entry.card.name);
    }
}

#[test]
fn ids_of_flows_that_are_gone_change_nothing() {
    for entry in engines() {
        let mut twin = Twin::new(built(entry, 100, &[]));
        let ids = twin.claim(0, 9, &[key(1)]);
        twin.call(|table, gone| assert!(table.delete(&key(1), gone)));
        let mut view = twin.table.view();
        view.set_expires(ids[0], 100);
        view.keep(ids[0], true);
        assert!(!view.flow(ids[0]).is_there() && view.page(ids[0]).is_none());
        twin.table.undecide(ids[0]);
        assert!(!twin.call(|table, gone| table.decide(ids[0], gone)));
        twin.agrees(&[key(1)]);
    }
}
