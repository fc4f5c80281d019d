use std::collections::BTreeSet;

use super::*;

#[test]
fn no_key_comes_twice() {
    let all: BTreeSet<Key> = entries(100_000).into_iter().map(|(key, _)| key).collect();
    assert_eq!(all.len(), 100_000);
}

#[test]
fn tables_are_shared_by_those_who_read_them_otherwise() {
    let entries = entries(5_000);
    let (keys, want) = keys(&entries, 2_000, 30, 1);
    let cuckoo = |named: &[(&str, &str)]| {
        let mut options = fixed_seed();
        options.0.extend(named.iter().map(|(name, value)| (name.to_string(), value.to_string())));
        Contestant::engine(lookup::exact::engine("cuckoo").unwrap(), "any", options)
    };
    let maker = cuckoo(&[]);
    let mut table = maker.build(entries.len()).unwrap();
    assert_eq!(table.insert(&entries), 0);
    for same in [cuckoo(&[]), cuckoo(&[("batch", "14"), ("order", "atomic")])] {
        let seen = same.shares(&maker, &*table).expect("the same table");
        assert_eq!(seen.stream(&keys).answers(), want);
    }
    assert!(cuckoo(&[("pages", "small")]).shares(&maker, &*table).is_none());
    let other = Contestant::engine(lookup::exact::engine("mac-table").unwrap(), "", fixed_seed());
    assert!(other.shares(&maker, &*table).is_none());
}

#[test]
fn a_table_names_its_instructions() {
    let isa = |engine: &str, isa: Option<&str>| {
        let isa = isa.map(|isa| ("isa".to_string(), isa.to_string()));
        let options = Options(isa.into_iter().collect());
        Contestant::engine(lookup::exact::engine(engine).unwrap(), "any", options).isa
    };
    assert_eq!(isa("mac-table", Some("portable")), "portable");
    assert_eq!(isa("mac-table", Some("auto")), isa("mac-table", None));
    assert_eq!(isa("cuckoo", None), "portable");
    let choose = |entry: &&lookup::exact::Entry| entry.card.options.iter().any(|o| o.0 == "isa");
    let choose = lookup::exact::engines().iter().filter(choose).map(|entry| entry.card.name);
    assert!(choose.eq(["mac-table"]), "see `best`");
}

#[test]
fn every_table_answers_rightly() {
    let entries = entries(20_000);
    let (keys, want) = keys(&entries, 5000, 30, 1);
    for contestant in crate::contestants::exact() {
        let name = &contestant.name;
        let mut table = contestant.build(entries.len()).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(table.insert(&entries), 0, "{name}");
        assert_eq!(table.stream(&keys).answers(), want, "{name}");
        let some: Vec<Entry> = entries.iter().step_by(3).copied().collect();
        table.delete(&some.iter().map(|(key, _)| *key).collect::<Vec<_>>());
        assert_eq!(table.stream(&[some[0].0]).answers(), [ABSENT], "{name}");
        let (first, rest) = some.split_at(some.len() / 2);
        assert_eq!(table.insert(first), 0, "{name}");
        let singly = table.insert_singly(rest).unwrap_or_else(|| table.insert(rest));
        assert_eq!(singly, 0, "{name}");
        if let Some(mut read) = table.reader(&keys) {
            read(0, keys.len());
        }
        let mut found = vec![0; keys.len()];
        table.finder()(&keys, &mut found);
        assert_eq!(found, want, "{name}");
        table.stream(&keys).run(100, 1000, 64);
        assert_eq!(table.stream(&keys).answers(), want, "{name}");
    }
}
