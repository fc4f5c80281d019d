//! Full tables that replace nothing.

use super::*;

/// Fills a table, one key a batch, until all of `numbers` were tried.
fn filled(entry: &Entry, size: usize, options: &[(&str, &str)], numbers: u64) -> (Twin, u64) {
    let (mut twin, mut refused) = (Twin::new(built(entry, size, options)), 0);
    for number in 0..numbers {
        refused += u64::from(twin.claim(0, 9, &[key(number)])[0].is_none());
    }
    (twin, refused)
}

#[test]
fn full_refuses_counts_and_loses_nothing() {
    for entry in engines() {
        let (size, more) = if cfg!(miri) { (30, 10) } else { (16_000, 50) };
        let (mut twin, refused) = filled(entry, size, &[("full", "thesis")], size as u64 + more);
        let (capacity, counts) = (twin.table.capacity(), twin.table.counts());
        assert_eq!((capacity.refused, counts.untried), (refused, 0), "{}", entry.card.name);
        assert_eq!((capacity.replaced, counts.refused), (0, refused), "{}", entry.card.name);
        let least = if entry.card.name == "hopscotch" { 85 } else { 97 };
        assert!(
            cfg!(miri) || twin.map.len() * 100 >= size * least,
            "{} {capacity:?}",
            entry.card.name
        );
        twin.agrees(&keys(0..size as u64 + more));
        // What is there is still found by insertion, and freed places are used.
        let &there = twin.map.keys().next().expect("some");
        assert!(!twin.claim(0, 1, &[there])[0].is_new());
        twin.call(|table, gone| assert!(table.delete(&there, gone)));
        assert!(twin.claim(0, 1, &[there])[0].is_new());
        twin.agrees(&[]);
    }
}

/// The thesis, 4.5.2: one failure a batch is bearable.
#[test]
fn after_a_failure_no_insertion_is_tried_in_that_batch() {
    for entry in engines() {
        for (way, stop) in [("groups", "on"), ("turns", "on"), ("singly", "on"), ("groups", "off")]
        {
            let options = [("full", "thesis"), ("batch", way), ("stop", stop)];
            let mut twin = Twin::new(built(entry, 64, &options));
            let all = keys(0..100);
            let ids = twin.claim(0, 9, &all);
            let failed = ids.iter().position(|id| id.is_none()).expect("it is full");
            let counts = twin.table.counts();
            let none = ids.iter().filter(|id| id.is_none()).count() as u64;
            assert_eq!(counts.refused + counts.untried, none);
            if stop == "on" {
                assert!(ids[failed..].iter().all(|id| id.is_none()));
                assert_eq!(counts.refused, 1, "{} {way}", entry.card.name);
            } else {
                assert_eq!(counts.untried, 0);
            }
            // Those which are there are found behind a failure; and the next batch tries again.
            let mut batch = keys(90..100);
            batch.extend(keys(0..failed as u64));
            let ids = twin.claim(0, 9, &batch);
            assert!(ids[10..].iter().all(|id| !id.is_none() && !id.is_new()));
            assert!(twin.table.counts().refused > counts.refused);
        }
    }
}

/// Specification 2.3: ENOSPC arms a back-off of 10 % of the table; ENOENT does not.
#[test]
fn the_deployed_rule_waits_for_a_tenth_of_the_table() {
    let size = if cfg!(miri) { 200 } else { 4000 };
    let mut twin = Twin::new(built(ours(), size, &[("full", "deployed")]));
    let mut next = 0..;
    let mut claim = |twin: &mut Twin| {
        let key = key(next.next().expect("numbers do not end"));
        (!twin.claim(0, SECOND, &[key])[0].is_none()).then_some(key)
    };
    let mut there = Vec::new();
    while let Some(key) = claim(&mut twin) {
        there.push(key);
    }
    assert!(there.len() < size, "two lines are full before all are");
    assert_eq!((twin.table.counts().refused, twin.table.counts().untried), (1, 0));
    let delete = |twin: &mut Twin, key| twin.call(|table, gone| assert!(table.delete(&key, gone)));
    for gone in 1..=size as u64 / 10 {
        assert!(claim(&mut twin).is_none());
        assert_eq!(twin.table.counts().untried, gone);
        // Those which are there are found all the time.
        assert!(!twin.claim(0, 1, &there[..1])[0].is_none());
        delete(&mut twin, there.pop().expect("many"));
    }
    assert!(claim(&mut twin).is_some(), "the last that had to go went");
    // Expiry and flush count, too.
    while claim(&mut twin).is_some() {}
    twin.call(|table, gone| assert!(table.sweep(SECOND, 10 * size, gone) > size / 10));
    assert!(claim(&mut twin).is_some());
}

#[test]
fn a_table_without_any_room_is_tried_again() {
    let mut twin = Twin::new(built(ours(), 8, &[("full", "deployed")]));
    assert!(twin.claim(0, 9, &keys(0..8)).iter().all(|id| id.is_new()));
    assert!(twin.claim(0, 9, &keys(8..12)).iter().all(|id| id.is_none()));
    assert_eq!((twin.table.counts().refused, twin.table.counts().untried), (4, 0));
    twin.call(|table, gone| assert!(table.delete(&key(3), gone)));
    assert!(twin.claim(0, 9, &[key(9)])[0].is_new(), "as observed with the deployed one");
}

/// The load at which a table begins to refuse is the one that the module's table says.
#[test]
#[cfg_attr(miri, ignore = "a table that is not small")]
fn tables_are_full_where_it_is_said() {
    for (name, least, most) in [("cuckoo-flow", 99.2, 99.6), ("flow-table", 90.0, 92.5)] {
        let entry = engine(name).expect("it is one");
        for seed in ["1", "2", "3"] {
            let mut table = built(entry, 1 << 20, &[("seed", seed), ("full", "thesis")]);
            let mut made = |number| {
                let mut id = [FlowId::NONE];
                table.find_or_insert_batch(0, 1, &[key(number)], &mut id, &mut |_, _, _| ());
                id[0].is_new()
            };
            let full = (0..1 << 20).find(|&number| !made(number));
            let percent = full.unwrap_or(1 << 20) as f64 / f64::from(1 << 20) * 100.0;
            assert!((least..most).contains(&percent), "{name}, seed {seed}: {percent} %");
        }
    }
}
