//! Each twin beside its program, in every engine that there is: answers and pages, over packets by
//! chance and on purpose. Every branch of a twin has to be taken.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use graph::clock as ticks;
use lookup::rng::SplitMix64;
use policy::bpf::stock::STOCK;
use policy::bpf::{Checked, Clock, Engine};

use super::*;

thread_local! {
    static TAKEN: RefCell<BTreeMap<&'static str, u64>> = RefCell::default();
}

/// A branch was taken.
pub(super) fn taken(branch: &'static str) {
    TAKEN.with_borrow_mut(|taken| *taken.entry(branch).or_default() += 1);
}

/// Branches of all three.
const ALL: &[&str] = &[
    "a second that begins",
    "a second that begins full",
    "direct",
    "in debt",
    "renewal",
    "the same second",
    "the second bucket is empty",
    "unreadable",
    "very many seconds",
];
/// Of `web` and `tcp-services`.
const FILTERS: &[&str] = &[
    "ICMP",
    "ICMPv6",
    "a fragment of ICMP",
    "a fragment of TCP",
    "a listener is answered",
    "a service",
    "a short ICMP header",
    "a short TCP header",
    "another protocol",
    "from elsewhere",
    "it opens",
    "opens at a listener",
    "other ICMP",
    "other ICMPv6",
    "to a listener",
];

#[test]
fn grantedv2_is_its_program() {
    let own = ["granted", "a fragment", "TCP or UDP", "another protocol"];
    compare("grantedv2", &GrantedV2, &[ALL, &own]);
}

#[test]
fn web_is_its_program() {
    let own = ["granted", "passive FTP", "active FTP", "active FTP opens", "from a web server"];
    compare("web", &Web, &[ALL, FILTERS, &own]);
}

#[test]
fn tcp_services_is_its_program() {
    compare(
        "tcp-services",
        &TcpServices,
        &[ALL, FILTERS, &["too many ports", "from a remote service"]],
    );
}

/// Asks both about many flows; `branches` are those that the twin has.
fn compare(name: &str, twin: &dyn Rule, branches: &[&[&'static str]]) {
    let times = Times::new(ticks::rate());
    let clock = Clock { cycles_per_sec: times.second(), cycles_per_ms: times.millis(1) };
    let stock = STOCK.iter().find(|stock| stock.name == name).expect("it comes with us");
    let checked = Checked::new(stock.object, clock).expect("it passes");
    let engines = [Engine::Interpreter, Engine::Compiled];
    let programs: Vec<_> = engines.into_iter().filter_map(|engine| checked.by(engine)).collect();
    assert!(!programs.is_empty());
    let mut rng = SplitMix64(7);
    let crafted = crafted();
    let mut crafted = crafted.iter().cycle();
    for flow in 0..FLOWS {
        let mut page = parameters(name, &mut rng);
        let mut now = start(&mut rng, times.second());
        let mut others = vec![page; programs.len()];
        let begun = twin.init(&times, now, &mut page);
        for (program, other) in programs.iter().zip(&mut others) {
            assert_eq!(program.init(&times, now, other), begun, "{name}: {page:?}");
            assert_eq!(*other, page, "{name}: the state");
        }
        if begun.is_err() {
            continue;
        }
        for _ in 0..PACKETS {
            now = later(&mut rng, now, &page, times.second());
            let by_chance;
            let packet = match rng.below(3) {
                0 => {
                    by_chance = any(&mut rng);
                    &by_chance
                }
                _ => crafted.next().expect("they go round"),
            };
            let link = [0x22; 130];
            let len = match rng.below(8) {
                0 => rng.below(1 << 16) as u32,
                _ => 60 + rng.below(200) as u32,
            };
            let link = &link[..[14, 18, 22, 127, 128][(rng.below(40) as usize).saturating_sub(35)]];
            let arrival = Arrival { now, len, link, packet };
            let found = twin.packet(&times, &arrival, u64::MAX, &mut page);
            for (program, other) in programs.iter().zip(&mut others) {
                let wanted = program.packet(&times, &arrival, u64::MAX, other);
                assert_eq!(found, wanted, "{name}, flow {flow}: {arrival:?}");
                assert_eq!(page, *other, "{name}, flow {flow}: {arrival:?}");
            }
        }
    }
    let wanted: BTreeSet<_> = branches.iter().flat_map(|of| of.iter().copied()).collect();
    let taken = TAKEN.take();
    let found: BTreeSet<_> = taken.keys().copied().collect();
    assert_eq!(found, wanted, "{name}: {taken:?}");
    assert!(taken.values().all(|times| *times >= FEWEST), "{name}: {taken:?}");
}

/// Parameters of a decision, with small budgets; what the program does not read is not empty.
fn parameters(name: &str, rng: &mut SplitMix64) -> Page {
    let mut page = [0; 64];
    page.iter_mut().for_each(|byte| *byte = rng.next() as u8);
    let rate = |rng: &mut SplitMix64| match rng.below(6) {
        0 => rng.next() as u32,
        _ => rng.below(40) as u32,
    };
    let ms = |rng: &mut SplitMix64| match rng.below(6) {
        0 => rng.next() as u32,
        _ => rng.below(5_000) as u32,
    };
    let words = if name == "tcp-services" {
        let counts = (rng.below(11) as u32) << 28 | (rng.below(11) as u32) << 24;
        for place in page[12..36].chunks_exact_mut(2) {
            place.copy_from_slice(&PORTS_ASKED[rng.below(16) as usize].to_le_bytes());
        }
        vec![rate(rng).wrapping_mul(8), ms(rng), counts | ms(rng) & 0xff_ffff]
    } else {
        page[16] = rng.below(3) as u8;
        vec![rate(rng), rate(rng), ms(rng), ms(rng)]
    };
    for (place, word) in page.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    page
}

fn start(rng: &mut SplitMix64, second: u64) -> u64 {
    match rng.below(10) {
        // Times do not wrap.
        0 => u64::MAX - rng.below(3 * second),
        _ => rng.below(1 << 40),
    }
}

/// When the next packet comes: soon, at the end of a second, much later; sometimes a little earlier.
fn later(rng: &mut SplitMix64, now: u64, page: &Page, second: u64) -> u64 {
    let end = word(page, WINDOW_END);
    match rng.below(16) {
        0 => end.saturating_sub(1),
        1 => end,
        2 => end.saturating_add(second * rng.below(4)),
        3 => end.saturating_add(second * rng.below(4)).saturating_sub(1),
        4 => now.saturating_sub(rng.below(1_000)),
        5 if rng.below(8) == 0 => now.saturating_add(second * (MOST - 2 + rng.below(5))),
        6 => word(page, RENEWAL_AT).min(now.saturating_add(second * 100)),
        _ => now.saturating_add(rng.below(second / 8)),
    }
}

/// All flags to and from all ports; all types of messages; headers of every length.
fn crafted() -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    for (n, from) in PORTS_ASKED.into_iter().enumerate() {
        for to in PORTS_ASKED {
            for flags in [0x00, 0x02, 0x10, 0x12, 0x04, 0xed, 0xff] {
                packets.push(ip(n % 2 == 0, protocol::TCP, false, 0, &segment(from, to, flags)));
            }
        }
    }
    for kind in 0..=255 {
        for (is_v4, protocol) in
            [(true, protocol::ICMP), (false, protocol::ICMPV6), (true, 58), (false, 1)]
        {
            packets.push(ip(is_v4, protocol, kind % 16 == 15, 0, &[kind; 8]));
        }
        packets.push(ip(kind % 2 == 0, kind, false, 0, &segment(80, 80, 0x10)));
    }
    for is_v4 in [true, false] {
        for (options, is_fragment) in [(0, false), (1, false), (3, true), (10, false)] {
            for protocol in [protocol::TCP, protocol::ICMP, protocol::ICMPV6] {
                let whole = ip(is_v4, protocol, is_fragment, options, &segment(2_056, 22, 0x10));
                packets.extend((0..=whole.len()).map(|len| whole[..len].to_vec()));
            }
        }
    }
    // Headers that are longer than a descriptor says, of no version, and of no length.
    packets.push(ip(false, protocol::TCP, false, 58, &segment(80, 80, 0x10)));
    packets.push(ip(false, protocol::TCP, false, 60, &segment(80, 80, 0x10)));
    packets.extend([0x05, 0x55, 0x44, 0x40, 0x75].map(|first| [vec![first], vec![6; 59]].concat()));
    packets
}

/// A packet by chance.
fn any(rng: &mut SplitMix64) -> Vec<u8> {
    let kinds = [protocol::TCP, protocol::UDP, protocol::ICMP, protocol::ICMPV6, rng.next() as u8];
    let port = |rng: &mut SplitMix64| match rng.below(4) {
        0 => rng.next() as u16,
        _ => PORTS_ASKED[rng.below(16) as usize],
    };
    let mut upper = segment(port(rng), port(rng), rng.next() as u8).to_vec();
    upper.resize(rng.below(60) as usize, rng.next() as u8);
    let kind = kinds[rng.below(5) as usize];
    ip(rng.below(2) == 0, kind, rng.below(6) == 0, rng.below(11) as usize, &upper)
}

fn segment(from: u16, to: u16, flags: u8) -> [u8; 20] {
    let mut bytes = [0; 20];
    bytes[..2].copy_from_slice(&from.to_be_bytes());
    bytes[2..4].copy_from_slice(&to.to_be_bytes());
    (bytes[12], bytes[13]) = (0x50, flags);
    bytes
}

/// A packet with `options` words of options, of 8 bytes each in IPv6.
fn ip(is_v4: bool, protocol: u8, is_fragment: bool, options: usize, upper: &[u8]) -> Vec<u8> {
    let mut packet;
    if is_v4 {
        let options = options.min(10);
        packet = vec![0; ipv4::MIN_LEN + 4 * options];
        packet[ipv4::VERSION_IHL] = 0x45 + options as u8;
        // The first fragment by its flag, the last by its place.
        let word: u16 = match is_fragment {
            true if upper.len().is_multiple_of(2) => ipv4::MORE_FRAGMENTS,
            true => 9,
            false => 0x4000,
        };
        packet[ipv4::FRAGMENT..][..2].copy_from_slice(&word.to_be_bytes());
        packet[ipv4::PROTOCOL] = protocol;
    } else {
        packet = vec![0; ipv6::LEN];
        packet[0] = 0x60;
        let mut next = ipv6::NEXT_HEADER;
        if options > 0 {
            packet[next] = protocol::DESTINATION_OPTIONS;
            next = packet.len();
            packet.resize(next + 8 * options, 0);
            packet[next + 1] = options as u8 - 1;
        }
        if is_fragment {
            packet[next] = protocol::FRAGMENT;
            next = packet.len();
            packet.extend([0, 0, 0, 1, 0, 0, 0, 9]);
        }
        packet[next] = protocol;
    }
    packet.extend(upper);
    packet
}

const PORTS_ASKED: [u16; 16] =
    [19, 20, 21, 22, 23, 79, 80, 81, 442, 443, 444, 50_999, 51_000, 51_999, 52_000, 5_432];
const FLOWS: usize = 400;
const PACKETS: usize = 100;
/// How often each branch is taken at least.
const FEWEST: u64 = 20;
