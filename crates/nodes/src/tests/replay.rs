//! Every frame of the captures, as it is and damaged, through a router: nothing
//! panics, and every packet is accounted for.

use std::path::{Path, PathBuf};

use super::router::Rig;
use crate::Rates;
use crate::testbed::P0;

/// Where the captures are; none of them is part of the repository.
fn folder() -> PathBuf {
    let data = std::env::var_os("RUTTER_DATA").map(PathBuf::from);
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    data.unwrap_or(beside).join("pcap")
}

#[test]
fn captures_are_survived_whole_and_damaged() {
    let Ok(entries) = std::fs::read_dir(folder()) else {
        eprintln!("skipped: no captures in {} (set RUTTER_DATA)", folder().display());
        return;
    };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let (mut replayed, mut frames) = (0, 0);
    for path in paths.iter().filter(|path| path.is_file()) {
        let Ok(bytes) = std::fs::read(path) else { continue };
        let file = frames_of(&bytes);
        if file.is_empty() {
            eprintln!("not a capture that this test reads: {}", path.display());
            continue;
        }
        replay(&file);
        replayed += 1;
        frames += file.len();
    }
    eprintln!("{replayed} captures, {frames} frames");
    assert!(replayed > 0, "captures are there, and none was read");
}

fn replay(file: &[&[u8]]) {
    let mut rig = Rig::new(&Rates::default());
    for (i, frame) in file.iter().take(MOST_FRAMES).enumerate() {
        let mut rng = Rng(i as u64 + 1);
        rig.peers[0].push(frame);
        rig.peers[0].push(&addressed(frame));
        rig.peers[0].push(&addressed(&frame[..rng.below(frame.len() + 1)]));
        rig.peers[0].push(&addressed(&flipped(frame, &mut rng)));
        rig.peers[0].push(&relengthened(frame, &mut rng));
        if i % 32 == 31 {
            rig.run();
            drain(&mut rig);
        }
    }
    let counts = rig.run();
    drain(&mut rig);
    assert_eq!(counts.law.received, counts.law.given());
}

fn drain(rig: &mut Rig) {
    rig.punted();
    rig.peers.iter().for_each(|peer| drop(peer.take()));
}

/// To the router, so that it is not stopped at the first check.
fn addressed(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    let n = frame.len().min(6);
    frame[..n].copy_from_slice(&P0[..n]);
    frame
}

fn flipped(frame: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut frame = frame.to_vec();
    for _ in 0..rng.below(4) {
        if !frame.is_empty() {
            let at = rng.below(frame.len());
            frame[at] ^= 1 << rng.below(8);
        }
    }
    frame
}

/// Another length field, with a right checksum where it is IPv4.
fn relengthened(frame: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut frame = addressed(frame);
    if frame.len() < 54 {
        return frame;
    }
    let length = (rng.below(1 << 16) as u16).to_be_bytes();
    if frame[14] == 0x45 {
        frame[16..18].copy_from_slice(&length);
        frame[24..26].fill(0);
        let check = wire::checksum::checksum(&frame[14..34]);
        frame[24..26].copy_from_slice(&check.to_be_bytes());
    } else {
        frame[18..20].copy_from_slice(&length);
    }
    frame
}

/// The frames of a pcap or pcapng file, whatever their link type: the router
/// has to survive any bytes. Stops at the first damage.
fn frames_of(file: &[u8]) -> Vec<&[u8]> {
    let word = |at: usize, swap: bool| {
        let bytes: [u8; 4] = file.get(at..at + 4)?.try_into().ok()?;
        Some(if swap { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) } as usize)
    };
    let mut frames = Vec::new();
    match word(0, false) {
        Some(0xa1b2_c3d4 | 0xa1b2_3c4d) => classic(file, |at| word(at, false), &mut frames),
        Some(0xd4c3_b2a1 | 0x4d3c_b2a1) => classic(file, |at| word(at, true), &mut frames),
        Some(0x0a0d_0d0a) => {
            let swap = word(8, false) != Some(0x1a2b_3c4d);
            blocks(file, |at| word(at, swap), &mut frames);
        }
        _ => {}
    }
    frames
}

fn classic<'f>(file: &'f [u8], word: impl Fn(usize) -> Option<usize>, frames: &mut Vec<&'f [u8]>) {
    let mut at = 24;
    while let Some(len) = word(at + 8) {
        let Some(frame) = file.get(at + 16..).and_then(|rest| rest.get(..len)) else { return };
        frames.push(&frame[..len.min(LONGEST)]);
        at += 16 + len;
    }
}

fn blocks<'f>(file: &'f [u8], word: impl Fn(usize) -> Option<usize>, frames: &mut Vec<&'f [u8]>) {
    let mut at = 0;
    while let (Some(kind), Some(len)) = (word(at), word(at + 4)) {
        let (from, captured) = match kind {
            6 => (28, word(at + 20)),
            3 => (12, len.checked_sub(16)),
            _ => (0, None),
        };
        if let Some(captured) = captured {
            let Some(frame) = file.get(at + from..).and_then(|rest| rest.get(..captured)) else {
                return;
            };
            frames.push(&frame[..captured.min(LONGEST)]);
        }
        if len < 12 {
            return;
        }
        at += len;
    }
}

/// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
struct Rng(u64);

impl Rng {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n.max(1) as u64) as usize
    }
}

/// Frames of a file that are replayed: the long ones repeat themselves.
const MOST_FRAMES: usize = 2_000;
const LONGEST: usize = 9_000;
