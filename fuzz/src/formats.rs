//! Table files: nothing panics, and a table written as text reads as the same.

use std::fmt::Write;
use std::io::Cursor;

use formats::mrt::{BestPath, Updates};
use formats::{Hops, Load, Table};
use lookup::{Addr, Rib};

/// Bytes as a text table, or as whatever they look like.
pub fn text(bytes: &[u8]) {
    let Some(table) = table(bytes) else { return };
    let mut text = String::new();
    emit(&mut text, &table.v4, &table.hops);
    emit(&mut text, &table.v6, &table.hops);
    let again = self::table(text.as_bytes()).expect("a text table");
    assert!(again.report.is_sound(), "{:?}\n{text}", again.report);
    assert_eq!(lines(&table), lines(&again));
}

/// Bytes as MRT records: the table has the best of the updates' routes.
pub fn mrt(bytes: &[u8]) {
    let Some(table) = table(bytes) else { return };
    let Ok(mut updates) = Updates::new(Cursor::new(bytes.to_vec())) else { return };
    let mut best = BestPath::default();
    for (_, event) in updates.by_ref() {
        best.apply(&event, |_| ());
    }
    assert_eq!(updates.report().damaged, table.report.damaged);
    assert_eq!(best.iter().count(), table.len());
}

fn table(bytes: &[u8]) -> Option<Table> {
    Table::read(Cursor::new(bytes.to_vec()), 0, &Load::default()).ok()
}

fn emit<A: Addr>(text: &mut String, rib: &Rib<A>, hops: &Hops) {
    for (prefix, hop) in rib.iter() {
        assert!(hop.index() <= hops.len() && !hop.is_none());
        writeln!(text, "{prefix} {}", hops.name(hop).unwrap_or("")).expect("a string takes all");
    }
}

fn lines(table: &Table) -> Vec<String> {
    let mut text = String::new();
    emit(&mut text, &table.v4, &table.hops);
    emit(&mut text, &table.v6, &table.hops);
    text.lines().map(str::to_owned).collect()
}

/// A file of each kind.
pub fn seeds() -> Vec<(&'static str, String, Vec<u8>)> {
    let text = |name: &str, text: &str| ("formats_text", name.to_owned(), text.as_bytes().to_vec());
    let mrt = |name: &str, bytes: Vec<u8>| ("formats_mrt", name.to_owned(), bytes);
    vec![
        text("plain", "# head\n192.0.2.0/24 198.51.100.1\r\n2001:db8::/32\t2001:db8::1 ; end\n\n"),
        text("no_hops", "192.0.2.0/24\n192.0.2.7\n::/0\n198.51.100.0/24\n0.0.0.0/0"),
        text("mixed", "192.0.2.0/24 a\n192.0.2.0/25\n192.0.2.0/24 b\n"),
        text("pyasn", "; IP-ASN32-DAT file\n; Prefixes-v4: 2\n192.0.2.0/24\t64496\n::/1\t64511\n"),
        text("damaged", "10/8 a\n10.0.0.1/8 a\n10.0.0.0/33 a\n10.0.0.0/8 a b\ndefault a\n1.2.3\n"),
        mrt("table_dump", [table_dump(1, &V4, 24), table_dump(2, &V6, 32)].concat()),
        mrt("table_dump_v2", [peers(), rib(2, &V4[..3], 24), rib(4, &V6[..4], 32)].concat()),
        mrt("add_path", [peers(), rib(8, &V4[..3], 24), rib(10, &V6[..4], 32)].concat()),
        mrt("updates", [update(16, 4, false), update(17, 4, false), state(16, 5)].concat()),
        mrt("updates_add_path", [update(16, 9, true), update(16, 4, true)].concat()),
        mrt(
            "damage_between",
            [update(16, 4, false), vec![0xff; 40], update(16, 4, false)].concat(),
        ),
        mrt("other", [raw(13, 6, &[0; 20]), raw(11, 0, &[0; 8]), update(16, 6, false)].concat()),
    ]
}

const V4: [u8; 4] = [192, 0, 2, 0];
const V6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// A record as RFC 6396 §2 lays it out.
fn raw(kind: u16, subtype: u16, body: &[u8]) -> Vec<u8> {
    let micros: &[u8] = if kind == 17 { &[0, 0, 1, 0] } else { &[] };
    let mut record = 1_700_000_000_u32.to_be_bytes().to_vec();
    record.extend(kind.to_be_bytes());
    record.extend(subtype.to_be_bytes());
    record.extend(((body.len() + micros.len()) as u32).to_be_bytes());
    record.extend(micros);
    record.extend(body);
    record
}

/// ORIGIN, AS_PATH of two, NEXT_HOP, MED, LOCAL_PREF; of IPv6 MP_REACH_NLRI.
fn attributes(wide: bool, v6: bool, hop: u8) -> Vec<u8> {
    let mut bytes = vec![0x40, 1, 1, 0];
    match wide {
        true => bytes.extend([0x40, 2, 10, 2, 2, 0, 0, 0xfb, 0xf0, 0, 1, 0, 7]),
        false => bytes.extend([0x40, 2, 6, 2, 2, 0xfb, 0xf0, 0xfb, 0xf1]),
    }
    if v6 {
        bytes.extend([0x80, 14, 17, 16]);
        bytes.extend(&V6[..15]);
        bytes.push(hop);
    } else {
        bytes.extend([0x40, 3, 4, 198, 51, 100, hop]);
    }
    bytes.extend([0x80, 4, 4, 0, 0, 0, hop, 0x40, 5, 4, 0, 0, 0, 100]);
    bytes
}

fn with_len(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u16).to_be_bytes()[..], bytes].concat()
}

fn table_dump(subtype: u16, addr: &[u8], len: u8) -> Vec<u8> {
    let mut body = vec![0, 0, 0, 1];
    body.extend(addr);
    body.extend([len, 1, 0, 0, 0, 0]);
    body.extend(&addr[..addr.len() - 1]);
    body.extend([9, 0xfb, 0xf0]);
    body.extend(with_len(&attributes(false, subtype == 2, 1)));
    raw(12, subtype, &body)
}

fn peers() -> Vec<u8> {
    let mut body = vec![192, 0, 2, 254, 0, 0, 0, 2];
    body.extend([2, 192, 0, 2, 1, 192, 0, 2, 1, 0, 0, 0xfb, 0xf0]);
    body.extend([3, 192, 0, 2, 2]);
    body.extend(V6);
    body.extend([0, 1, 0, 7]);
    raw(13, 1, &body)
}

fn rib(subtype: u16, prefix: &[u8], len: u8) -> Vec<u8> {
    let mut body = vec![0, 0, 0, 0, len];
    body.extend(prefix);
    body.extend([0, 2]);
    for peer in 0..2 {
        body.extend([0, peer, 0, 0, 0, 0]);
        if subtype >= 8 {
            body.extend([0, 0, 0, 5]);
        }
        body.extend(with_len(&attributes(true, len == 32, 1 + peer)));
    }
    raw(13, subtype, &body)
}

fn session() -> Vec<u8> {
    let mut body = vec![0, 0, 0xfb, 0xf0, 0, 0, 0xfb, 0xf1, 0, 0, 0, 1];
    body.extend([192, 0, 2, 1, 192, 0, 2, 2]);
    body
}

/// Withdraws a prefix and announces two, of which one is IPv6.
fn update(kind: u16, subtype: u16, add_path: bool) -> Vec<u8> {
    let id: &[u8] = if add_path { &[0, 0, 0, 3] } else { &[] };
    let withdrawn = [id, &[24, 198, 51, 100]].concat();
    let mut reach = vec![0, 2, 1, 16];
    reach.extend(V6);
    reach.push(0);
    reach.extend([id, &[32, 0x20, 1, 0xd, 0xb8]].concat());
    let mut all = attributes(true, false, 1);
    all.extend([&[0x80, 14, reach.len() as u8][..], &reach].concat());
    let nlri = [id, &[24, 192, 0, 2], id, &[25, 192, 0, 2, 255]].concat();
    let message = [with_len(&withdrawn), with_len(&all), nlri].concat();
    let mut body = session();
    body.extend([0xff; 16]);
    body.extend((message.len() as u16 + 19).to_be_bytes());
    body.push(2);
    body.extend(message);
    raw(kind, subtype, &body)
}

fn state(kind: u16, subtype: u16) -> Vec<u8> {
    raw(kind, subtype, &[session(), vec![0, 6, 0, 1]].concat())
}
