//! Frames and addresses as they are seen: generated ones, and real ones where the data are.

use std::collections::HashMap;
use std::io::Read;

use graph::Balance;
use liblzma::read::XzDecoder;
use lookup::exact::mac_table::{MacWriter, Settings};
use lookup::exact::{Capacity, Key, Writer};
use lookup::rng::SplitMix64;
use lookup::sync::Domain;
use tables::switch::Which;
use wire::build::Frame;
use wire::ethernet::Mac;

use super::testbed::{OWN, bridges};
use super::tests::{Rig, punted};
use crate::tests::replay::{Survivor, captures, of_each_kind};

/// A switch that takes frames at each of its ports by turns.
struct Switch(Rig);

impl Survivor for Switch {
    fn push(&mut self, frame: &[u8], turn: usize) {
        let peers = &self.0.peers;
        peers[turn % peers.len()].push(frame);
    }

    fn run(&mut self) -> Balance {
        let law = self.0.run().law;
        punted(&mut self.0);
        self.0.peers.iter().for_each(|peer| drop(peer.take()));
        law
    }

    fn mac(&self) -> [u8; 6] {
        OWN
    }
}

#[test]
fn a_switch_survives_frames_of_each_kind_whole_and_damaged() {
    of_each_kind(Switch(Rig::of(bridges())));
}

#[test]
fn a_switch_survives_captures_whole_and_damaged() {
    captures(Switch(Rig::of(bridges())));
}

fn text(name: &str) -> Option<String> {
    let packed = std::fs::read(testing::data(name)?).expect("it is there");
    let mut text = String::new();
    XzDecoder::new(&packed[..]).read_to_string(&mut text).expect("it is whole");
    Some(text)
}

/// `e0a1d718c273` as bytes.
fn mac(hex: &str) -> Option<[u8; 6]> {
    let number = u64::from_str_radix(hex, 16).ok().filter(|_| hex.len() == 12)?;
    let [_, _, mac @ ..] = number.to_be_bytes();
    Some(mac)
}

/// Frames among 400 stations, every eighth to a group; now and then one that comes from
/// nobody, goes to where it comes from, or may not be forwarded.
fn generated_trace() -> String {
    let mut rng = SplitMix64(1);
    let mut station = || format!("02{:010x}", rng.below(400) * 0x9e37_79b9 % (1 << 40));
    let line = |i: usize| {
        let (src, dst) = (station(), station());
        let (src, dst) = match i % 64 {
            1 => ("000000000000".to_owned(), dst),
            2 => (src.clone(), src),
            3 => (src, "0180c2000000".to_owned()),
            n if n % 8 == 0 => (src, format!("33{}", &dst[2..])),
            _ => (src, dst),
        };
        format!("{src} {dst} - {}\n", 40 + i * 37 % 1500)
    };
    (0..20_000).map(line).collect()
}

#[test]
fn stations_are_learnt_where_they_are() {
    learnt_where_they_are(&generated_trace());
}

#[test]
fn stations_of_real_frames_are_learnt_where_they_are() {
    let Some(trace) = text("mac/mac-trace.txt.xz") else { return };
    learnt_where_they_are(&trace);
}

/// Each station speaks at a port of its own: once it has spoken frames to it go
/// there and nowhere else, and at the end the table has it there.
fn learnt_where_they_are(trace: &str) {
    let mut bridges = bridges();
    bridges[0].max_macs = 100_000;
    let mut rig = Rig::of(bridges);
    let mut seen: HashMap<[u8; 6], u16> = HashMap::new();
    let port = |mac: [u8; 6]| mac.iter().map(|&byte| u16::from(byte)).sum::<u16>() % 3;
    let mut frames = 0;
    for line in trace.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<_> = line.split(' ').collect();
        let &[src, dst, _, len] = &fields[..] else { panic!("{line}") };
        let (src, dst) = (mac(src).unwrap(), mac(dst).unwrap());
        let mut frame = [&dst[..], &src, &[0x88, 0xb5]].concat();
        frame.resize(len.parse::<usize>().unwrap().clamp(60, 9000), 0xab);
        rig.peers[usize::from(port(src))].push(&frame);
        frames += 1;
        if src[0] & 1 == 0 && src != [0; 6] && src != dst && !Mac(dst).is_link_local() {
            seen.insert(src, port(src));
        }
        if frames % 32 == 0 {
            rig.run();
            rig.peers.iter().for_each(|peer| drop(peer.take()));
        }
    }
    let law = rig.run().law;
    rig.peers.iter().for_each(|peer| drop(peer.take()));
    assert_eq!((law.received, law.given()), (frames, frames + law.copies));
    let counters = rig.lan.switch.counters(0);
    assert_eq!((counters.moved, counters.refused), (0, 0));
    let here = Which { domains: Some([tables::bridge::DomainId(1)].into()), ..Which::default() };
    let (stations, _) = rig.lan.switch.stations(&here, usize::MAX);
    let own = |mac: &[u8; 6]| *mac == OWN;
    let found: HashMap<_, _> =
        stations.iter().map(|s| (s.key.octets(), s.port)).filter(|(mac, _)| !own(mac)).collect();
    assert_eq!(found, seen);
    for (&dst, &at) in seen.iter().take(500) {
        let from = usize::from(at + 1) % 3;
        rig.peers[from].push(&Frame::other(0x88b5).macs(Mac([2; 6]), Mac(dst)).build());
        rig.run();
        let sent = rig.peers.iter().enumerate().filter(|(_, peer)| !peer.take().is_empty());
        assert_eq!(sent.map(|(port, _)| port as u16).collect::<Vec<_>>(), [at]);
    }
}

#[test]
fn a_table_of_addresses_in_series_fills_to_95_percent() {
    let mut rng = SplitMix64(1);
    fills_to_95_percent((0..40_000).map(|_| rng.below(1 << 24)).collect());
}

#[test]
fn a_table_of_assigned_addresses_fills_to_95_percent() {
    let Some(list) = text("mac/oui-ieee-data-20260625.csv.xz") else { return };
    let assigned = list.lines().filter_map(|line| {
        let (_, rest) = line.split_once(',')?;
        let (prefix, _) = rest.split_once(',')?;
        u64::from_str_radix(prefix, 16).ok().filter(|_| prefix.len() == 6)
    });
    fills_to_95_percent(assigned.collect());
}

/// Addresses as they are bought: in series under each assigned prefix.
fn fills_to_95_percent(mut prefixes: Vec<u64>) {
    prefixes.sort_unstable();
    prefixes.dedup(); // some have two owners
    assert!(prefixes.len() > 10_000, "{} prefixes", prefixes.len());
    let domain = Domain::new();
    let max_entries = (1 << 20) * 95 / 100;
    let mut table = MacWriter::new(Settings::new(max_entries), &domain).unwrap();
    let key = |i: usize| {
        let (at, number) = (i % prefixes.len(), (i / prefixes.len()) as u64);
        Key::new(prefixes[at] << 24 | number, 10)
    };
    for i in 0..max_entries {
        table.insert(key(i), (i % 4000) as u16).unwrap();
    }
    assert!((0..max_entries).all(|i| table.get(key(i)) == Some((i % 4000) as u16)));
    let Capacity { bytes, moves, .. } = table.capacity();
    assert!(bytes * 100 <= max_entries * 843, "{bytes} B");
    assert!(moves < max_entries as u64 / 8, "{moves} moves");
}
