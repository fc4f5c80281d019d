use super::frame::{HINT, OTHER, USED, hint_slot};
use super::*;
use crate::exact::lines::SLOTS;
use crate::exact::oracle::{Rng, conformance};
use crate::exact::search::Slot;
use crate::exact::{ABSENT, Capacity, Refused, Writer};
use crate::pages::PRETENDED;

fn make(max_entries: usize, domain: &Arc<Domain>) -> Box<dyn Writer> {
    let settings = Settings { seed: Some(1), ..Settings::new(max_entries) };
    Box::new(MacWriter::new(settings, domain).expect("there is memory"))
}

conformance!(grows, make);

fn large_at_once(max_entries: usize, domain: &Arc<Domain>) -> Box<dyn Writer> {
    let settings = Settings { start_entries: max_entries, ..Settings::new(max_entries) };
    Box::new(MacWriter::new(settings, domain).expect("there is memory"))
}

conformance!(starts_large, large_at_once);

fn portable(max_entries: usize, domain: &Arc<Domain>) -> Box<dyn Writer> {
    let settings = Settings { isa: Some("portable"), ..Settings::new(max_entries) };
    Box::new(MacWriter::new(settings, domain).expect("there is memory"))
}

conformance!(portable_isa, portable);

#[cfg(all(target_arch = "x86_64", not(miri)))]
fn avx2(max_entries: usize, domain: &Arc<Domain>) -> Box<dyn Writer> {
    let isa = is_x86_feature_detected!("avx2").then_some("avx2");
    let settings = Settings { isa, ..Settings::new(max_entries) };
    Box::new(MacWriter::new(settings, domain).expect("there is memory"))
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
conformance!(avx2_isa, avx2);

#[test]
fn instructions_are_chosen_by_name_and_unknown_ones_refused() {
    let domain = Domain::new();
    let with = |isa| MacWriter::new(Settings { isa: Some(isa), ..Settings::new(10) }, &domain);
    assert_eq!(with("portable").unwrap().shared().isa(), "portable");
    assert!(matches!(with("mmx").err(), Some(Refused::Isa { name: "mmx" })));
    let best = MacWriter::new(Settings::new(10), &domain).unwrap();
    assert!(with(best.shared().isa()).is_ok());
}

#[test]
fn a_table_for_which_no_pages_are_reserved_lies_on_others() {
    let domain = Domain::new();
    for name in ["reserved", "small"] {
        let options = Options([("pages".to_string(), name.to_string())].into());
        let mut table = build(1 << 18, &options, &domain).unwrap();
        (0..200_000).for_each(|i| assert_eq!(table.insert(key(i), 1), Ok(None)));
        assert!((0..200_000).all(|i| table.get(key(i)) == Some(1)), "{name}");
    }
}

#[test]
fn a_pipeline_gives_the_values_of_the_burst_before() {
    let (mut table, domain) = writer(1 << 18);
    (0..200_000).for_each(|i| assert_eq!(table.insert(key(i), (i % 5000) as u16), Ok(None)));
    let (thread, mut rng) = (domain.register("test"), Rng::new(4));
    let (mut pipeline, mut before) = (Pipeline::default(), Vec::new());
    for len in (0..=PIPELINE).chain((0..PIPELINE).rev()).chain([64, 64, 1, 64]) {
        let keys: Vec<_> = (0..len).map(|_| key(rng.next() % 300_000)).collect();
        let mut values = vec![7; before.len()];
        table.shared().exchange(thread.guard(), &mut pipeline, &keys, &mut values);
        let want: Vec<_> = before.iter().map(|&key| table.get(key).unwrap_or(ABSENT)).collect();
        assert_eq!(values, want);
        before = keys;
    }
}

#[test]
fn a_pipeline_outlives_a_growth() {
    let (mut table, domain) = writer(1 << 20);
    let (thread, mut pipeline) = (domain.register("test"), Pipeline::default());
    let (mut last, mut i) = (Vec::new(), 0);
    while table.capacity().growths < 2 {
        for _ in 0..5000 {
            table.insert(key(i), (i % 5000) as u16).unwrap();
            i += 1;
        }
        let keys: Vec<_> = (i - 40..i + 20).map(key).collect();
        let mut values = vec![7; last.len()];
        table.shared().exchange(thread.guard(), &mut pipeline, &keys, &mut values);
        assert_eq!(values, last);
        let value = |&key| table.get(key).unwrap_or(ABSENT);
        // Those that are absent will be there when they are read.
        last =
            keys.iter().zip(i - 40..).map(|(key, i)| value(key).min((i % 5000) as u16)).collect();
    }
}

fn writer(max_entries: usize) -> (MacWriter, Arc<Domain>) {
    let domain = Domain::new();
    let settings = Settings { seed: Some(3), ..Settings::new(max_entries) };
    (MacWriter::new(settings, &domain).expect("there is memory"), domain)
}

fn key(number: u64) -> Key {
    Key::new(0x0200_0000_0000 + number, (number % 7) as u16)
}

#[test]
fn it_grows_when_it_is_seven_eighths_full_and_refuses_beyond_the_limit() {
    let (mut table, _domain) = writer(700_000);
    let slots = table.capacity().slots;
    assert_eq!(slots, 1 << 18);
    for i in 0..700_000 {
        table.insert(key(i), (i % 1000) as u16).unwrap();
    }
    let Capacity { entries, slots, growths, bytes, .. } = table.capacity();
    assert_eq!((entries, slots, growths, bytes), (700_000, 1 << 20, 2, 1 << 23));
    assert!(matches!(table.insert(key(1_000_000), 1), Err(Refused::Full { .. })));
    assert_eq!(table.insert(key(5), 77), Ok(Some(5)));
    for i in 0..700_000 {
        assert_eq!(table.get(key(i)), Some(if i == 5 { 77 } else { (i % 1000) as u16 }));
    }
    assert_eq!(table.capacity().refused, 1);
}

#[test]
fn without_memory_it_stays_and_serves_what_it_has() {
    let domain = Domain::new();
    let start_entries = 1_900_000; // 16 MB: more than that is not left of what was granted
    let settings = Settings { start_entries, ..Settings::new(1 << 24) };
    let mut table = MacWriter::new(settings, &domain).unwrap();
    PRETENDED.set(Some(0));
    let refused = (0..2_100_000).filter(|&i| table.insert(key(i), 1).is_err()).count();
    let none = MacWriter::new(Settings { start_entries: 1 << 22, ..settings }, &domain).err();
    PRETENDED.set(None);
    let Capacity { entries, slots, growths, growths_refused, .. } = table.capacity();
    assert_eq!((slots, growths, entries + refused), (1 << 21, 0, 2_100_000));
    assert!(entries > slots / 100 * 97, "{entries} of {slots}");
    assert!((1..100).contains(&growths_refused), "{growths_refused}");
    assert_eq!((0..2_100_000).filter(|&i| table.get(key(i)).is_some()).count(), entries);
    assert!(matches!(none, Some(Refused::Memory { bytes: 0x440_0000 })), "{none:?}");
    let huge = MacWriter::new(Settings::new(1 << 40), &domain).err();
    assert!(matches!(huge, Some(Refused::TooMany { .. })));
}

#[test]
fn while_it_grows_every_change_is_kept() {
    let (mut table, domain) = writer(1 << 20);
    let thread = domain.register("test");
    let mut rng = Rng::new(1);
    let mut want = std::collections::HashMap::new();
    while table.capacity().growths == 0 {
        for _ in 0..1000 {
            let (key, value) = (key(rng.next() % (1 << 19)), rng.below(60_000) as u16);
            match rng.below(8) {
                0 => assert_eq!(table.delete(key), want.remove(&key)),
                1 => assert_eq!(table.change(key, value), want.get(&key).copied()),
                _ => assert_eq!(table.insert(key, value).unwrap(), want.insert(key, value)),
            }
            if let Some(changed) = want.get_mut(&key) {
                *changed = table.get(key).unwrap();
            }
        }
        let even = |_, value: u16| if value.is_multiple_of(64) { Fate::Remove } else { Fate::Keep };
        table.sweep(100, even);
        want.retain(|&key, _| table.get(key).is_some());
    }
    assert_eq!(table.capacity().entries, want.len());
    for (&key, &value) in &want {
        assert_eq!(table.shared().lookup(thread.guard(), key), value);
    }
    let mut found = 0;
    table.for_each(|key, value| {
        assert_eq!(want.get(&key), Some(&value));
        found += 1;
    });
    assert_eq!(found, want.len());
}

#[test]
fn room_is_made_at_once_for_what_is_expected() {
    let (mut table, domain) = writer(1 << 21);
    let thread = domain.register("test");
    (0..230_000).for_each(|i| assert_eq!(table.insert(key(i), (i % 999) as u16), Ok(None)));
    table.reserve(1 << 20).unwrap();
    let Capacity { slots, entries, growths_refused, .. } = table.capacity();
    assert_eq!((slots, entries, growths_refused), (1 << 21, 230_000, 0));
    for i in 0..230_000 {
        assert_eq!(table.shared().lookup(thread.guard(), key(i)), (i % 999) as u16);
    }
    table.reserve(10).unwrap();
    table.reserve(usize::MAX).unwrap();
    assert_eq!(table.capacity().slots, 1 << 22, "as many as it may hold");
    let (mut small, _domain) = writer(1 << 24);
    PRETENDED.set(Some(0));
    let refused = small.reserve(1 << 24);
    PRETENDED.set(None);
    assert!(matches!(refused, Err(Refused::Memory { .. })), "{refused:?}");
    assert_eq!(small.insert(key(1), 1), Ok(None));
    table.check_hints();
}

#[test]
fn a_sweep_visits_all_and_does_what_it_is_told() {
    let (mut table, _domain) = writer(100_000);
    (0..50_000).for_each(|i| assert_eq!(table.insert(key(i), (i % 3) as u16), Ok(None)));
    let mut seen = 0;
    loop {
        let round = table.sweep(1000, |_, value| {
            seen += 1;
            [Fate::Keep, Fate::Set(9), Fate::Remove][usize::from(value)]
        });
        if round {
            break;
        }
    }
    assert_eq!(seen, 50_000);
    for i in 0..50_000 {
        assert_eq!(table.get(key(i)), [Some(0), Some(9), None][i as usize % 3]);
    }
    assert_eq!(table.capacity().entries, 33_334);
}

#[test]
fn the_oldest_of_its_lines_is_replaced_when_full() {
    let (mut table, _domain) = writer(100_000);
    // The value is the age; above 999 an entry may not go.
    for i in 0..100_000 {
        table.insert(key(i), (i % 1002) as u16).unwrap();
    }
    let age = |value: u16| (value < 1000).then_some(u32::from(value));
    let mut sum = 0;
    for i in 100_000..110_000 {
        let Ok(Inserted::Replaced(old, value)) = table.insert_or_replace(key(i), 0, age) else {
            panic!("{i} was not taken")
        };
        assert_eq!((table.get(old), table.get(key(i))), (None, Some(0)));
        sum += u64::from(value);
    }
    assert!(sum > 10_000 * 700, "old ones go, {} on average", sum / 10_000);
    let fixed = (0..100_000).filter(|i| i % 1002 >= 1000);
    assert!(fixed.into_iter().all(|i| table.get(key(i)).is_some()));
    assert_eq!(table.insert_or_replace(key(109_999), 5, age), Ok(Inserted::Changed(0)));
    let Capacity { entries, replaced, refused, .. } = table.capacity();
    assert_eq!((entries, replaced, refused), (100_000, 10_000, 0));
    let nothing_may_go = table.insert_or_replace(key(200_000), 5, |_| None);
    assert!(matches!(nothing_may_go, Err(Refused::Full { .. })));
}

#[test]
fn where_no_place_can_be_made_only_what_is_replaced_goes() {
    let (domain, start_entries) = (Domain::new(), 1_900_000); // as above
    let settings = Settings { start_entries, seed: Some(3), ..Settings::new(1 << 24) };
    let mut table = MacWriter::new(settings, &domain).unwrap();
    PRETENDED.set(Some(0));
    let tried = 1 << 21;
    let here: Vec<_> =
        (0..tried).filter(|&i| table.insert(key(i), (i % 50) as u16).is_ok()).collect();
    let Capacity { refused, .. } = table.capacity();
    let age = |value: u16| (value > 9).then_some(u32::from(value));
    let (mut new, mut sum) = (0, 0);
    for i in tried..tried + 2000 {
        match table.insert_or_replace(key(i), 0, age) {
            Ok(Inserted::Replaced(old, value)) => {
                assert_eq!((table.get(old), table.get(key(i))), (None, Some(0)));
                sum += u64::from(value);
            }
            Ok(Inserted::New) => new += 1,
            other => panic!("{other:?}"),
        }
    }
    PRETENDED.set(None);
    let capacity = table.capacity();
    assert_eq!((capacity.entries, capacity.refused), (here.len() + new, refused));
    assert!(capacity.replaced > 500 && sum > capacity.replaced * 40, "{capacity:?} {sum}");
    let gone = here.iter().filter(|&&i| table.get(key(i)).is_none());
    assert_eq!(gone.count() as u64, capacity.replaced);
    table.check_hints();
}

#[test]
fn a_hint_is_set_where_an_entry_is_away_and_nowhere_else() {
    let (mut table, _domain) = writer(249_036);
    let mut rng = Rng::new(8);
    for i in 0..249_036 {
        table.insert(key(i), 1).unwrap();
    }
    assert!(table.check_hints() > 20_000);
    for (old, new) in (0..).zip(249_036..600_000) {
        table.delete(key(old)).unwrap();
        table.insert(key(new), 2).unwrap();
        if rng.below(4) == 0 {
            table.change(key(new), 3);
        }
    }
    let churned = table.check_hints();
    assert!(churned > 60_000, "{churned}: more than at first stand in their second line");
    for _ in 0..4 {
        while !table.sweep(1000, |_, _| Fate::Keep) {}
    }
    let swept = table.check_hints();
    assert!(swept < 55_000, "{swept}: many went back");
    for i in 600_000 - 249_036..600_000 {
        assert!(table.get(key(i)).is_some(), "{i} is gone");
    }
    while !table.sweep(1000, |_, _| Fate::Remove) {}
    assert_eq!(table.check_hints(), 0);
}

impl MacWriter {
    /// Checks I2 and I4 of the frame; returns how many hints are set.
    fn check_hints(&self) -> usize {
        let mut needed = vec![[false; SLOTS]; self.frame.len()];
        let slots = |line| (0..SLOTS).map(move |slot| Slot { bucket: line, slot });
        for slot in (0..self.frame.len()).flat_map(slots) {
            let word = self.frame.word(slot);
            if word & (USED | OTHER) == USED | OTHER {
                needed[self.frame.other_line(slot.bucket, word)][hint_slot(word)] = true;
            }
        }
        for slot in (0..self.frame.len()).flat_map(slots) {
            let set = self.frame.word(slot) & HINT != 0;
            assert_eq!(set, needed[slot.bucket][slot.slot], "{slot:?}");
        }
        needed.iter().flatten().filter(|needed| **needed).count()
    }
}

#[test]
fn one_page_fills_to_95_percent_with_few_moves() {
    let (mut table, _domain) = writer((1 << 18) / 100 * 95);
    let most = table.capacity().slots;
    assert_eq!(most, 1 << 18);
    let taken = (0..).take_while(|&i| table.insert(key(i), ABSENT - 1).is_ok()).count();
    assert_eq!(taken, most / 100 * 95);
    let Capacity { moves, .. } = table.capacity();
    assert!(moves < taken as u64 / 8, "{moves}");
}
