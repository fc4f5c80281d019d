//! Tables of a full Internet's size in a policy's process that has the memory, the time to load and
//! the rights that it has by default: each from one file, in several formats.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::{Duration, Instant};

use formats::{Load, Table};
use lookup::rng::SplitMix64;
use policy::cell::{Settings, Source};
use wire::ggu;

use crate::Test;
use crate::rig::Rig;

pub const TESTS: &[Test] = &[
    ("a_million_prefixes_come_from_compressed_text", compressed),
    ("a_million_prefixes_come_from_an_mrt_dump", dumped),
    ("a_file_does_not_count_as_memory", padded),
    ("a_real_mrt_dump_serves_a_policy", real),
];

/// The address is the packet's first four bytes; the answer is the decision's time.
const POLICY: &str = r#"
local ffi = require "ffi"
local prefixes = lpmlib.lpm_from_file "prefixes"
function lookup_policy(packet, policy)
  local label = lpmlib.lpm_lookup(prefixes, ffi.cast("uint32_t *", packet.l2_hdr)[0])
  policy.state = 2
  policy.params.declined.expire_sec = label
  return label >= 0
end
"#;

fn compressed() {
    let table = million();
    serves(&gz(&table), &table, |hop| hop);
}

/// A table as text, compressed.
fn gz(table: &Table) -> Vec<u8> {
    let mut text = String::new();
    for (prefix, hop) in table.v4.iter() {
        _ = writeln!(text, "{prefix} {}", hop.0);
    }
    let mut file = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    file.write_all(text.as_bytes()).expect("to memory");
    file.finish().expect("to memory")
}

/// A file larger than the memory that a process has: a copy of it would find no room.
fn padded() {
    let table = Table::open("internet:200000", &Load::default()).expect("it is made");
    let mut file = gz(&table);
    file.resize(Settings::default().memory as usize + (1 << 20), 0);
    serves(&file, &table, |hop| hop);
}

fn dumped() {
    let table = million();
    // Labels are positions of next hops in the file.
    let mut positions = vec![0; table.hops.len() + 1];
    let mut seen = 0;
    for (_, hop) in table.v4.iter() {
        let position = &mut positions[hop.index()];
        if *position == 0 {
            seen += 1;
            *position = seen;
        }
    }
    serves(&mrt(&table), &table, |hop| positions[hop as usize]);
}

fn real() {
    let Some(path) = testing::data("mrt/bview.20020722.2337.gz") else { return };
    let file = std::fs::read(&path).expect("it is there");
    let table = Table::load(&path, &Load::default()).expect("it is a table");
    assert!(table.v4.len() > 100_000, "{}", table.v4.len());
    serves(&file, &table, |hop| hop);
}

/// Lengths and next hops as the Internet has them.
fn million() -> Table {
    let table = Table::open("internet:1000000", &Load::default()).expect("it is made");
    assert_eq!(table.v4.len(), 1_000_000);
    table
}

/// A policy with this file decides about addresses as the table does, whose hops have these labels.
fn serves(file: &[u8], table: &Table, label: impl Fn(u32) -> u32) {
    let mut rig = Rig::idle(Settings { limit: Duration::from_secs(1), ..Settings::default() });
    let files = [("lua_million", POLICY.as_bytes()), ("prefixes", file)];
    let source = Source::new("lua_million", &files).expect("memory");
    let begun = Instant::now();
    rig.handle.load(source).expect("it fits and is read in time");
    let took = begun.elapsed();
    assert!(took < Settings::default().load, "{took:?}");
    let mut rng = SplitMix64(7);
    let anywhere = (0..500).map(|_| rng.next() as u32).collect::<Vec<_>>();
    let step = table.v4.len() / 500;
    let ends =
        table.v4.iter().step_by(step).flat_map(|(prefix, _)| [prefix.first(), prefix.last()]);
    let (mut found, mut absent) = (0, 0);
    for addr in ends.chain(anywhere) {
        let id = rig.ask_about(&[&addr.to_be_bytes()[..], &[0; 96]].concat()).expect("room");
        let verdict = rig.settle(Duration::from_secs(5))[0].0;
        let wanted = table.v4.lookup(addr).map(|(_, hop)| label(hop.0));
        assert_eq!((verdict.id, verdict.forward), (id, wanted.is_some()), "{addr:#x}");
        match wanted {
            Some(expire_s) => {
                let decision = Some(ggu::Verdict::Declined { expire_s });
                assert_eq!(verdict.decision, decision, "{addr:#x}");
                found += 1;
            }
            None => absent += 1,
        }
    }
    assert!(found > 1_000 && absent > 50, "{found} {absent}");
    let status = rig.status();
    // With the engine that tables have: none was too large.
    assert_eq!((status.remarks.as_slice(), status.last_failure), (&[][..], None));
}

/// A dump of one peer (RFC 6396 §4.3) with a path and a next hop of its own for each hop.
fn mrt(table: &Table) -> Vec<u8> {
    let peer = [192, 0, 2, 9];
    let mut file = Vec::new();
    record(&mut file, 1, &[&[0; 6], &[0, 1, 2], &[9; 4], &peer, &[0, 0, 0xfb, 0xf4]]);
    for ((prefix, hop), number) in table.v4.iter().zip(0_u32..) {
        let len = prefix.len();
        let addr = prefix.first().to_be_bytes();
        let origin = (64_512 + hop.0).to_be_bytes();
        let path = [&[0x40, 1, 1, 0, 0x40, 2, 10, 2, 2, 0, 0, 0xfb, 0xf4][..], &origin].concat();
        let next = [&[0x40, 3, 4, 10][..], &hop.0.to_be_bytes()[1..]].concat();
        let attributes = [path, next].concat();
        let net = &addr[..usize::from(len).div_ceil(8)];
        let entry = [0, 1, 0, 0, 0, 0, 0, 0, 0, attributes.len() as u8];
        record(&mut file, 2, &[&number.to_be_bytes(), &[len], net, &entry, &attributes]);
    }
    file
}

fn record(file: &mut Vec<u8>, subtype: u8, parts: &[&[u8]]) {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    file.extend([0, 0, 0, 0, 0, 13, 0, subtype, 0, 0, 0, len as u8]);
    parts.iter().for_each(|part| file.extend(*part));
}
