//! A generated table as text and as the updates that transfer it, plain, compressed and cut
//! off: what data.rs does with real files.

use std::collections::BTreeMap;
use std::io::{Cursor, Write};

use formats::mrt::{Event, Updates};
use formats::{Load, Place, Table};

/// Prefixes of IPv4, each with the name of its next hop.
type Routes = BTreeMap<(u32, u8), String>;

fn generated() -> Routes {
    let table = Table::open("internet:20000", &Load::default()).expect("a specification");
    let hop = |id: usize| format!("198.51.{}.{}", id >> 8, id & 255);
    table.v4.iter().map(|(p, id)| ((p.first(), p.len()), hop(id.index()))).collect()
}

fn routes(table: &Table) -> Routes {
    let name = |hop| table.hops.name(hop).expect("each has one").to_owned();
    table.v4.iter().map(|(prefix, hop)| ((prefix.first(), prefix.len()), name(hop))).collect()
}

fn read(bytes: Vec<u8>) -> Table {
    Table::read(Cursor::new(bytes), 0, &Load::default()).expect("text or MRT")
}

fn text(routes: &Routes) -> Vec<u8> {
    let line = |(&(addr, len), hop): (&(u32, u8), &String)| {
        format!("{}\t{hop}\n", lookup::Prefix::covering(addr, len))
    };
    routes.iter().map(line).collect::<String>().into_bytes()
}

/// A prefix as BGP writes it (RFC 4271 §4.3).
fn nlri((addr, len): (u32, u8)) -> Vec<u8> {
    [&[len], &addr.to_be_bytes()[..usize::from(len.div_ceil(8))]].concat()
}

/// An update in a BGP4MP_MESSAGE_AS4 record (RFC 6396 §4.4.3): withdraws and announces.
fn update(withdrawn: &[u8], hop: &str, announced: &[u8]) -> Vec<u8> {
    let with_len = |bytes: &[u8]| [&(bytes.len() as u16).to_be_bytes(), bytes].concat();
    let hop: std::net::Ipv4Addr = hop.parse().expect("an address");
    let path = [&[0x40, 1, 1, 0][..], &[0x40, 2, 6, 2, 1, 0, 0, 0xfd, 0xe8], &[0x40, 3, 4]];
    let attributes = [&path.concat()[..], &hop.octets()].concat();
    let message = [&with_len(withdrawn)[..], &with_len(&attributes), announced].concat();
    let length = (19 + message.len() as u16).to_be_bytes();
    let peer = [0, 0, 0xfd, 0xe8, 0, 0, 0xfd, 0xe9, 0, 0, 0, 1, 192, 0, 2, 1, 192, 0, 2, 2];
    let body = [&peer[..], &[0xff; 16], &length, &[2], &message].concat();
    let header = [&[0, 0, 0, 1, 0, 16, 0, 4][..], &(body.len() as u32).to_be_bytes()].concat();
    [header, body].concat()
}

/// An update for each run of routes with one next hop, the first route of it twice: withdrawn
/// where the last update has announced it.
fn updates(routes: &Routes) -> Vec<Vec<u8>> {
    let list: Vec<_> = routes.iter().collect();
    let runs = list.chunk_by(|(_, hop), (_, other)| hop == other);
    let record = |run: &[(&(u32, u8), &String)]| {
        let first = nlri(*run[0].0);
        let all: Vec<u8> = run.iter().flat_map(|(prefix, _)| nlri(**prefix)).collect();
        [update(&[], run[0].1, &first), update(&first, run[0].1, &all)]
    };
    runs.flat_map(record).collect()
}

fn packed(bytes: &[u8]) -> [Vec<u8>; 4] {
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), Default::default());
    let mut bz2 = bzip2::write::BzEncoder::new(Vec::new(), Default::default());
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
    for file in [&mut gz as &mut dyn Write, &mut bz2, &mut xz] {
        file.write_all(bytes).unwrap();
    }
    [bytes.to_vec(), gz.finish().unwrap(), bz2.finish().unwrap(), xz.finish().unwrap()]
}

#[test]
fn two_forms_of_one_table_agree() {
    let want = generated();
    for plain in [text(&want), updates(&want).concat()] {
        for file in packed(&plain) {
            let table = read(file);
            assert!(table.report.is_sound(), "{:?}", table.report);
            assert!(routes(&table) == want);
        }
    }
}

#[test]
fn updates_are_counted() {
    let want = generated();
    let records = updates(&want);
    let mut updates = Updates::new(Cursor::new(records.concat())).expect("MRT");
    let (mut plus, mut minus) = (0, 0);
    for (_, event) in updates.by_ref() {
        match event {
            Event::Announce { .. } => plus += 1,
            Event::Withdraw { .. } => minus += 1,
            Event::Down { .. } => unreachable!("no session ends"),
        }
    }
    assert_eq!((plus, minus), (want.len() + records.len() / 2, records.len() / 2));
    assert!(updates.report().is_sound());
}

/// As a download that broke off: whole as a file of its compression, not as records.
#[test]
fn a_cut_dump_says_where() {
    let records = updates(&generated());
    let number = records.len() as u64 * 2 / 3;
    let offset: usize = records[..number as usize - 1].iter().map(Vec::len).sum();
    let cut = records.concat()[..offset + 30].to_vec();
    for file in packed(&cut) {
        let table = read(file);
        assert!(!table.v4.is_empty());
        let places: Vec<_> = table.report.damage.iter().map(|damage| damage.place).collect();
        assert_eq!(places, [Place::Record { number, offset: offset as u64 }]);
    }
}
