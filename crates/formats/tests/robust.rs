//! Damaged files: never a panic, and never damage unreported.

use std::fs;
use std::io::Cursor;
use std::path::Path;

use formats::mrt::{Event, Updates};
use formats::{Load, Place, Table};
use proptest::prelude::*;

/// The seeds of a fuzz target.
fn seeds(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let files = fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let file = |entry: fs::DirEntry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        (name, fs::read(entry.path()).expect("a file of the repository"))
    };
    let mut seeds: Vec<_> = files.map(|entry| file(entry.expect("a readable folder"))).collect();
    seeds.sort();
    seeds
}

fn table(bytes: &[u8]) -> Table {
    Table::read(Cursor::new(bytes.to_vec()), 0, &Load::default()).expect("text or MRT")
}

#[test]
fn what_each_seed_holds() {
    let counts = |target| {
        let count = |(name, bytes): (String, Vec<u8>)| {
            let Table { v4, v6, report, .. } = table(&bytes);
            let counts = (v4.len(), v6.len(), report.duplicates, report.other, report.damaged);
            (name, counts)
        };
        seeds(target).into_iter().map(count).collect::<std::collections::BTreeMap<_, _>>()
    };
    let text = counts("formats_text");
    assert_eq!(text["plain"], (1, 1, 0, 0, 0));
    assert_eq!(text["no_hops"], (4, 1, 0, 0, 0));
    assert_eq!(text["mixed"], (2, 0, 1, 0, 0));
    assert_eq!(text["pyasn"], (1, 1, 0, 0, 0));
    assert_eq!(text["damaged"], (0, 0, 0, 0, 6));
    let mrt = counts("formats_mrt");
    assert_eq!(mrt["table_dump"], (1, 1, 0, 0, 0));
    assert_eq!(mrt["table_dump_v2"], (1, 1, 0, 0, 0));
    assert_eq!(mrt["add_path"], (1, 1, 0, 0, 0));
    assert_eq!(mrt["updates"], (0, 0, 0, 0, 0)); // the session was lost at the end
    assert_eq!(mrt["updates_add_path"], (2, 1, 0, 0, 0));
    assert_eq!(mrt["damage_between"], (2, 1, 0, 0, 1));
    assert_eq!(mrt["other"], (0, 0, 0, 3, 0));
}

#[test]
fn updates_come_in_order() {
    let seeds = seeds("formats_mrt");
    let (_, bytes) = seeds.iter().find(|(name, _)| name == "updates").expect("a seed");
    let events: Vec<_> = Updates::new(Cursor::new(bytes.clone())).expect("MRT").collect();
    let kinds: String = events
        .iter()
        .map(|(_, event)| match event {
            Event::Announce { .. } => '+',
            Event::Withdraw { .. } => '-',
            Event::Down { .. } => '!',
        })
        .collect();
    assert_eq!(kinds, "-+++-+++!");
    assert_eq!((events[0].0.seconds, events[0].0.micros), (1_700_000_000, 0));
    assert_eq!(events[4].0.micros, 256); // an extended timestamp
}

/// Cut anywhere but between two records, an MRT file is damaged, and where.
#[test]
fn every_cut_of_a_dump_is_reported() {
    for (name, bytes) in
        seeds("formats_mrt").into_iter().filter(|(name, _)| name != "damage_between")
    {
        let mut starts = vec![0];
        while let Some(length) = bytes.get(starts[starts.len() - 1] + 8..) {
            let Some(length) = length.first_chunk() else { break };
            starts.push(starts[starts.len() - 1] + 12 + u32::from_be_bytes(*length) as usize);
        }
        for len in 13..bytes.len() {
            let report = table(&bytes[..len]).report;
            if starts.contains(&len) {
                assert!(report.is_sound(), "{name} cut at {len}: {report:?}");
                continue;
            }
            let start = *starts.iter().rfind(|&&start| start < len).expect("0 is a start");
            let number = starts.iter().filter(|&&start| start < len).count() as u64;
            let place = Place::Record { number, offset: start as u64 };
            assert!(report.damaged >= 1, "{name} cut at {len}");
            assert_eq!(report.damage[0].place, place, "{name} cut at {len}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Whatever bits flip: no panic, no hang, and hops that exist.
    #[test]
    fn flipped_bits(
        target in prop_oneof![Just("formats_text"), Just("formats_mrt")],
        seed in any::<prop::sample::Index>(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0..8_u8), 1..20),
        cut in any::<prop::sample::Index>(),
    ) {
        let seeds = seeds(target);
        let (_, mut bytes) = seed.get(&seeds).clone();
        for (at, bit) in flips {
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
        }
        bytes.truncate(cut.index(bytes.len() * 4).min(bytes.len()));
        if let Ok(table) = Table::read(Cursor::new(bytes), 0, &Load::default()) {
            prop_assert!(table.v4.iter().all(|(_, hop)| !hop.is_none() && hop.index() <= table.hops.len()));
            prop_assert!(table.v6.iter().all(|(_, hop)| !hop.is_none() && hop.index() <= table.hops.len()));
        }
    }

    /// A written table reads as it was.
    #[test]
    fn text_reads_as_written(
        routes in prop::collection::btree_map((any::<u32>(), 0..=32_u8), "[a-z0-9.:_-]{1,20}", 0..50),
    ) {
        let route = |(&(addr, len), hop): (&(u32, u8), &String)| {
            (lookup::Prefix::covering(addr, len), hop.clone())
        };
        let routes: std::collections::BTreeMap<_, _> = routes.iter().map(route).collect();
        let text: String = routes.iter().map(|(prefix, hop)| format!("{prefix}\t{hop}\n")).collect();
        let table = table(text.as_bytes());
        prop_assert!(table.report.is_sound());
        prop_assert_eq!(table.v4.len(), routes.len());
        for (prefix, hop) in table.v4.iter() {
            prop_assert_eq!(table.hops.name(hop), routes.get(&prefix).map(String::as_str));
        }
    }
}
