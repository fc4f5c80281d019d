//! A switch with a cable between two of its own ports.

use std::time::{Duration, Instant};

use tables::switch::{BridgeConfig, LoopDetection, Mode};
use wire::bytes::be16;
use wire::ethernet::Mac;

use super::testbed::{OWN, bridges, frame, mac, member};
use super::tests::Rig;

/// Its EtherType.
const PROBE: u16 = 0x88b6;

/// Ports 0 to 3 in a plain bridge, with routed side; hosts at 0 and 3.
fn lan(loops: LoopDetection) -> Vec<BridgeConfig> {
    let mut bridges = bridges();
    bridges.truncate(1);
    bridges[0].members = (0..4).map(|port| member(port, Mode::Plain)).collect();
    bridges[0].members[1].mtu = u16::MAX;
    bridges[0].loops = loops;
    bridges
}

fn broadcast(from: u8) -> Vec<u8> {
    frame(9, from).macs(Mac(mac(from)), Mac::BROADCAST).build().to_vec()
}

/// What left by each port and is no probe, and how many probes.
#[derive(Default)]
struct Seen {
    frames: Vec<(usize, Vec<u8>)>,
    probes: [u32; 7],
}

/// Goes on for `ms`; what leaves by one port of `cable` comes in by the other.
fn go_on(rig: &mut Rig, ms: u64, cable: Option<(usize, usize)>) -> Seen {
    let (mut seen, end) = (Seen::default(), Instant::now() + Duration::from_millis(ms));
    let mut laps = 0;
    while Instant::now() < end && laps < 100_000 {
        rig.run();
        for (port, frame) in rig.sent() {
            let to = match cable {
                Some((a, b)) if port == a => Some(b),
                Some((a, b)) if port == b => Some(a),
                _ => None,
            };
            to.into_iter().for_each(|to| rig.peers[to].push(&frame));
            laps += u32::from(to.is_some());
            match be16(&frame, 12) == PROBE {
                true => seen.probes[port] += 1,
                false => seen.frames.push((port, frame)),
            }
        }
    }
    seen
}

fn copies(seen: &Seen, port: usize) -> usize {
    seen.frames.iter().filter(|(at, _)| *at == port).count()
}

fn out(rig: &Rig) -> Vec<u16> {
    rig.lan.switch.looped().iter().map(|looped| looped.sighting.port).collect()
}

#[test]
fn a_broadcast_reaches_a_host_once_where_the_loop_was_there_before() {
    let mut rig = Rig::of(lan(LoopDetection::Block));
    go_on(&mut rig, 50, Some((1, 2)));
    assert_eq!(out(&rig), [2]);
    rig.peers[0].push(&broadcast(1));
    let seen = go_on(&mut rig, 50, Some((1, 2)));
    assert_eq!([0, 1, 2, 3].map(|port| copies(&seen, port)), [0, 1, 0, 1]);
    let counts = rig.run();
    assert!(counts.dropped("bridge_input", "loop") > 0, "what came by the cable");
    assert!(counts.dropped("bridge_flood", "loop_probe") > 0);
}

/// The budget alone: the loop is not broken, and yet a storm does not last.
#[test]
fn a_storm_ends_after_few_copies() {
    let mut rig = Rig::of(lan(LoopDetection::Report));
    rig.peers[0].push(&broadcast(1));
    let seen = go_on(&mut rig, 100, Some((1, 2)));
    assert!((1..=100).contains(&copies(&seen, 3)), "{} copies", copies(&seen, 3));
    let later = go_on(&mut rig, 100, Some((1, 2)));
    assert_eq!(copies(&later, 3), 0);
    // A frame that comes again by the first port passes.
    rig.peers[0].push(&broadcast(1));
    assert!(copies(&go_on(&mut rig, 50, Some((1, 2))), 3) >= 1);
}

#[test]
fn a_port_that_hears_itself_goes_out() {
    let mut rig = Rig::of(lan(LoopDetection::Block));
    go_on(&mut rig, 50, Some((1, 1)));
    assert_eq!(out(&rig), [1]);
}

/// Who sends a probe on that he saw takes out his own port; who forges one, none.
#[test]
fn probes_of_others_take_no_port_out_but_their_own() {
    let mut rig = Rig::of(lan(LoopDetection::Block));
    rig.peers.iter().for_each(|peer| drop(peer.take()));
    let until = Instant::now() + Duration::from_millis(50);
    let mut probes: [Option<Vec<u8>>; 4] = Default::default();
    while Instant::now() < until {
        rig.run();
        for (port, frame) in rig.sent() {
            probes[port].get_or_insert(frame);
        }
    }
    let [at0, _, _, at3] = probes.map(|probe| probe.expect("each port sends some"));
    let mut forged = at0.clone();
    forged[27] ^= 3; // as if it had left by port 3
    rig.peers[2].push(&forged);
    let seen = go_on(&mut rig, 5, None);
    assert!(out(&rig).is_empty() && seen.probes[3] > 0, "it is a frame like others");
    rig.peers[2].push(&at3);
    go_on(&mut rig, 5, None);
    assert!(out(&rig).is_empty(), "of a higher port one is not enough");
    rig.peers[2].push(&at0);
    go_on(&mut rig, 5, None);
    assert_eq!(out(&rig), [2], "neither 0 nor 3");
}

#[test]
fn our_own_frames_that_come_back_have_probes_sent() {
    let mut rig = Rig::of(lan(LoopDetection::Block));
    go_on(&mut rig, 20, None);
    let before = rig.loops.asked();
    rig.peers[2].push(&frame(9, 1).macs(Mac(OWN), Mac::BROADCAST).build());
    let seen = go_on(&mut rig, 150, None);
    assert!(rig.loops.asked() > before);
    assert!((0..4).all(|port| seen.probes[port] == 1), "{:?}", seen.probes);
    assert!(out(&rig).is_empty(), "anybody can send such a frame");
}

#[test]
fn probes_go_where_frames_of_a_vlan_go() {
    let mut bridges = bridges();
    bridges[1].loops = LoopDetection::Block;
    let mut rig = Rig::of(bridges);
    let mut kinds: Vec<(usize, u16, u16)> = Vec::new();
    let end = Instant::now() + Duration::from_millis(30);
    while Instant::now() < end {
        rig.run();
        let sent = rig.sent().into_iter();
        kinds.extend(sent.map(|(port, frame)| (port, be16(&frame, 12), be16(&frame, 14))));
    }
    kinds.sort_unstable();
    let plain = 0x524c; // the first word behind the type
    assert_eq!(
        kinds,
        [(3, PROBE, plain), (4, 0x8100, 20), (4, PROBE, plain), (5, PROBE, plain)],
        "access, trunk with its native VLAN and another, tunnel; none of the other bridge"
    );
}
