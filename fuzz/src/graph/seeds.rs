//! Inputs to begin with: random ones whose operations come as often as they are of use,
//! from a generator that is the same for ever.

use lookup::rng::SplitMix64;

use super::frames;

/// Inputs that together reach what `tests/replay.rs` names.
pub fn seeds() -> Vec<(&'static str, String, Vec<u8>)> {
    let some = |target: &'static str| {
        (0..24).map(move |n: u64| {
            let bytes = random(target, n, 60 + 20 * n as usize);
            (target, format!("random_{n:02}"), bytes)
        })
    };
    some("graph")
        .chain(some("switch"))
        .chain([("graph", "short".into(), short()), ("switch", "flap".into(), flap())])
        .chain([("graph", "sources".into(), sources()), ("graph", "peers".into(), peers())])
        .chain([("switch", "loops".into(), loops(8)), ("switch", "reports".into(), loops(8 | 32))])
        .collect()
}

/// Routed and bridged frames while a device is full, and while the pool is empty.
fn short() -> Vec<u8> {
    let frames = |port: u8, host: u8| {
        let (station, udp, network) = (1, 0, 4);
        [0, port, 0x40, station, udp, 0, network, host, 0, 20, 64, 4, 90, 0]
    };
    let plan = [28, 0, 0, 0, 0, 1, 0, 0];
    let few = [&[21, 2, 5][..], &frames(0, 2), &frames(3, 2), &[1, 21, 2, 255]].concat();
    let none = [&[22, 3][..], &frames(1, 2), &frames(6, 9), &[1, 22, 255]].concat();
    [&plan[..], &frames(0, 2), &few, &frames(1, 2), &none, &frames(3, 2)].concat()
}

/// Packets that claim to come from a link alone, and from the router's own addresses, in
/// two VRFs.
fn sources() -> Vec<u8> {
    let (link_local, own) = (18, 240);
    let plan = [1, 0x11, 0, 0, 0, 0, 0, 0];
    let frame = |port: u8, network: u8, host: u8, from: u8| {
        let (mine, station, udp) = (0, 1, 0);
        [0, port, mine, station, udp, 0, network, host, from, 20, 64]
    };
    let all = (0..3).flat_map(|port| (0..7).map(move |network| (port, network)));
    let frames = all.flat_map(|(port, network)| {
        [frame(port, network, 1, link_local), frame(port, 0, 2, own + network)].concat()
    });
    plan.into_iter().chain(frames).chain([1]).collect()
}

/// Routing protocols of sessions, of their other ends and of strangers, and ARP.
fn peers() -> Vec<u8> {
    let plan = [0, 0, 0, 0, 0, 0, 0, 0x20 | 16 | 1];
    let frame = |port: u8, kind: u8, network: u8, from: u8, length: u8| {
        [0, port, 0, 1, kind, 0, network, 1, from, length, 64]
    };
    let (tcp, arp) = (1, 4);
    let all = [(0, 0), (2, 4)].into_iter().flat_map(|(port, network)| {
        [
            frame(port, tcp, network, network, 20),
            frame(port, tcp, network, network, 60),
            frame(port, tcp, network, 0x70, 20),
            frame(port, arp, network, network, 20),
            frame(port, arp, network, 0x70, 20),
        ]
    });
    plan.into_iter().chain(all.flatten()).chain([1]).collect()
}

/// Probes that come back, by the port that they left by and by others, until ports go out;
/// they are still there at the first look, and not later. And a frame that comes round.
fn loops(options: u8) -> Vec<u8> {
    let frame = |port| [0, port, 0x04, 1, 5, 0, 0, 0, 0, 20, 64, 1];
    let plan = [0, options, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let back = |which, port| [24, which, port, 0, 1];
    let wait = |quarters| [18, quarters];
    let own = [&frame(0)[..], &back(0, 0), &frame(0), &wait(0), &back(0, 0), &wait(69)].concat();
    let other =
        [&wait(5)[..], &back(4, 3), &wait(64), &back(4, 3), &frame(3), &back(2, 6)].concat();
    let over = [&wait(63)[..], &frame(3), &frame(5), &[4, 60, 128, 1, 17, 3, 17, 131]].concat();
    [&plan[..], &own, &other, &over].concat()
}

/// A station whose port goes down and comes back, and the bridge's own address from inside.
fn flap() -> Vec<u8> {
    let frame = |code, port, dst, src| [code, port, dst, src, 5, 0, 0, 0, 0, 20, 64, 1];
    let plan = [0x50, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let down = [&frame(0, 0, 0x5a, 1)[..], &[17, 0, 17, 128], &frame(0, 1, 0x1a, 2)].concat();
    let later = [&[18, 63][..], &frame(0, 1, 0x1a, 2), &frame(5, 1, 0x08, 1)].concat();
    [&plan[..], &down, &later].concat()
}

/// A random input of so many operations.
pub fn random(target: &str, seed: u64, operations: usize) -> Vec<u8> {
    let mut random = Random(SplitMix64(seed ^ 0x9e37_79b9_7f4a_7c15));
    let mut bytes: Vec<u8> = (0..12).map(|_| random.byte()).collect();
    let (often, plan) = match target {
        "switch" => (SWITCH, 12),
        _ => (GRAPH, 8),
    };
    bytes.truncate(plan);
    let all: u32 = often.iter().map(|(_, weight)| weight).sum();
    for _ in 0..operations {
        let mut at = random.next() as u32 % all;
        let code = often.iter().find(|(_, weight)| {
            let here = at < *weight;
            at = at.wrapping_sub(*weight);
            here
        });
        let Some(&(code, _)) = code else { continue };
        operation(&mut bytes, &mut random, code);
    }
    bytes
}

/// Number and arguments, of which some are more likely than others.
fn operation(bytes: &mut Vec<u8>, random: &mut Random, code: u8) {
    let found = super::OPERATIONS.iter().find(|(number, ..)| *number == code);
    let Some((_, length, _)) = found else { return };
    let mut arguments: Vec<u8> = (0..*length).map(|_| random.byte()).collect();
    match code {
        0 | 5 => describe(&mut arguments, random),
        2 => {
            arguments[1] = 1 + random.byte() % 64;
            let raw: Vec<u8> = (0..arguments[1]).map(|_| random.byte()).collect();
            arguments.extend(raw);
        }
        3 => arguments[0] = 0,
        6 if !random.one_in(3) => arguments[1] = 1,
        9 if !random.one_in(3) => arguments[3] |= 4,
        8 | 9 if random.one_in(2) => arguments[1] = 0,
        11 if random.one_in(2) => arguments[3] &= 0x7f,
        21 if random.one_in(2) => arguments[1] = 255,
        22 if random.one_in(2) => arguments[0] = 255,
        _ => {}
    }
    bytes.push(code);
    bytes.extend(arguments);
}

/// A frame that is right, mostly: for the router, from where it has an interface; or to a
/// station.
fn describe(frame: &mut [u8], random: &mut Random) {
    assert_eq!(frame.len(), frames::BYTES);
    let [port, dst, src, kind, tags, to, host, from, length, ttl] = frame else { return };
    if !random.one_in(8) {
        *src %= 8;
        *kind &= 7; // nothing wrong with it
    }
    if random.one_in(2) {
        *tags = 0;
    }
    if !random.one_in(4) {
        *from %= 8;
        *length %= 80;
    }
    if random.one_in(3) {
        return;
    }
    *port = [0, 1, 1, 2, 3, 6, 7, 8][usize::from(*port & 7)];
    *dst &= 0xf0;
    *to &= 0x77;
    *host = if random.one_in(2) { 2 } else { *host };
    *ttl = if random.one_in(6) { *ttl & 1 } else { 64 };
    *tags = match *port {
        1 => [0, 7, 8][usize::from(*tags % 3)],
        7 => [0, 4, 5][usize::from(*tags % 3)],
        _ => 0,
    };
}

struct Random(SplitMix64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0.next()
    }

    fn byte(&mut self) -> u8 {
        self.next() as u8
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.next().is_multiple_of(n)
    }
}

/// Operations and how often they come.
const GRAPH: &[(u8, u32)] = &[
    (0, 100),
    (1, 6),
    (2, 4),
    (3, 10),
    (4, 4),
    (5, 12),
    (6, 8),
    (7, 2),
    (8, 6),
    (9, 14),
    (10, 8),
    (11, 24),
    (12, 8),
    (13, 2),
    (14, 4),
    (15, 2),
    (16, 2),
    (17, 6),
    (18, 4),
    (19, 4),
    (20, 2),
    (23, 3),
    (24, 3),
];
const SWITCH: &[(u8, u32)] = &[
    (0, 120),
    (1, 10),
    (2, 2),
    (3, 8),
    (4, 4),
    (5, 10),
    (6, 2),
    (9, 2),
    (17, 10),
    (18, 16),
    (19, 8),
    (20, 3),
    (21, 1),
    (22, 1),
    (23, 3),
    (24, 12),
];
