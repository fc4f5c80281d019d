//! Real tables and dumps, where the data are; generated.rs and robust.rs need none.

use formats::mrt::{Event, Updates};
use formats::{Load, Place, Table};
use testing::data;

fn load(name: &str) -> Option<Table> {
    data(name).map(|path| Table::load(&path, &Load::default()).expect("a table"))
}

#[test]
fn prefix_tables() {
    let tables = [
        ("fib/bart-prefixes-v4v6.txt.gz", 901_899, 160_147, 255),
        ("fib/libloc-20221029-v4.txt.xz", 968_428, 0, 73_718),
        ("fib/libloc-20221029-v6.txt.xz", 0, 177_846, 29_762),
        ("fib/fib-v4-20151023-nh.txt.xz", 577_703, 0, 3771),
        ("fib/ipasn-v4v6-20151101.dat.gz", 606_138, 27_693, 52_014),
        ("fib/v6fib-as19653-20210117.xz", 0, 105_957, 32),
        ("fib/v6fib-as852-20210117.xz", 0, 102_126, 31),
    ];
    for (name, v4, v6, hops) in tables {
        let Some(table) = load(name) else { continue };
        assert_eq!((table.v4.len(), table.v6.len(), table.hops.len()), (v4, v6, hops), "{name}");
        assert!(table.report.is_sound(), "{name}: {:?}", table.report);
    }
}

#[test]
fn dumps() {
    let dumps = [
        ("mrt/bview.20020722.2337.gz", 112_988, 0, None),
        ("mrt/rib.20140523.0600_firstMB.bz2", 9072, 0, Some((9074, 15_273_283))),
        ("mrt/rib6.20151101.0600_firstMB.bz2", 0, 6870, Some((6872, 12_131_168))),
        ("mrt/updates.et-header.2015.gz", 577_703, 0, None),
    ];
    for (name, v4, v6, damage) in dumps {
        let Some(table) = load(name) else { continue };
        assert_eq!((table.v4.len(), table.v6.len()), (v4, v6), "{name}");
        let places: Vec<_> = table.report.damage.iter().map(|damage| damage.place).collect();
        let place = damage.map(|(number, offset)| Place::Record { number, offset });
        assert_eq!(places, place.into_iter().collect::<Vec<_>>(), "{name}");
    }
}

/// The recorded transfer of the 2015 table, and the table made from it.
#[test]
fn two_forms_of_one_table_agree() {
    let (Some(text), Some(mrt)) =
        (load("fib/fib-v4-20151023-nh.txt.xz"), load("mrt/updates.et-header.2015.gz"))
    else {
        return;
    };
    let name = |table: &Table, hop| table.hops.name(hop).map(str::to_owned);
    for ((prefix, hop), (other, other_hop)) in text.v4.iter().zip(mrt.v4.iter()) {
        assert_eq!(prefix, other);
        assert_eq!(name(&text, hop), name(&mrt, other_hop), "{prefix}");
    }
}

#[test]
fn updates() {
    let files = [
        ("updates/updates.20190101.0000.gz", 159_948, 2626),
        ("updates/updates.20160811.1600.gz", 39_256, 1956),
    ];
    for (name, announced, withdrawn) in files {
        let Some(path) = data(name) else { continue };
        let mut updates = Updates::open(&path).expect("MRT");
        let (mut plus, mut minus) = (0, 0);
        for (_, event) in updates.by_ref() {
            match event {
                Event::Announce { .. } => plus += 1,
                Event::Withdraw { .. } => minus += 1,
                Event::Down { .. } => (),
            }
        }
        assert_eq!((plus, minus), (announced, withdrawn), "{name}");
        assert!(updates.report().is_sound(), "{name}");
    }
}

#[test]
fn an_archive_is_refused_with_a_hint() {
    let Some(path) = data("mrt/mrt-small.tar.xz") else { return };
    let error = Table::load(&path, &Load::default()).expect_err("a tar is no table");
    assert!(error.to_string().contains("tar xf"), "{error}");
}
