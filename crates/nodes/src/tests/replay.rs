//! Every frame of the captures, those in archives too, as it is and damaged,
//! through a router or a switch: nothing panics, and every packet is accounted for.

use std::io::Read;
use std::path::Path;

use flate2::read::MultiGzDecoder;
use graph::Balance;
use io::pcap::Reader;
use liblzma::read::XzDecoder;
use lookup::rng::SplitMix64;

use super::router::Rig;
use crate::Rates;
use crate::testbed::P0;

/// What survives any frame.
pub(crate) trait Survivor {
    /// Takes `frame` at one of its ports, and in one of its ways: whose `turn` it is.
    fn push(&mut self, frame: &[u8], turn: usize);

    /// Works until nothing comes any more; the law, which holds.
    fn run(&mut self) -> Balance;

    /// An address that it answers to.
    fn mac(&self) -> [u8; 6];
}

impl Survivor for Rig {
    fn push(&mut self, frame: &[u8], _: usize) {
        self.peers[0].push(frame);
    }

    fn run(&mut self) -> Balance {
        let law = Rig::run(self).law;
        self.punted();
        self.peers.iter().for_each(|peer| drop(peer.take()));
        law
    }

    fn mac(&self) -> [u8; 6] {
        P0
    }
}

/// A survivor, and what it was given.
struct Replay<S> {
    survivor: S,
    captures: usize,
    pushed: u64,
    unread: Vec<String>,
}

/// How many frames have come to its address and elsewhere, by turns.
#[derive(Default)]
struct Turns([[usize; 4]; 2], Balance);

impl Survivor for Turns {
    fn push(&mut self, frame: &[u8], turn: usize) {
        self.0[usize::from(frame.starts_with(&P0))][turn % 4] += 1;
        self.1.received += 1;
        self.1.transmitted += 1;
    }

    fn run(&mut self) -> Balance {
        self.1
    }

    fn mac(&self) -> [u8; 6] {
        P0
    }
}

/// Those too that are not damaged, of which there are two a frame.
#[test]
fn each_kind_of_frame_takes_every_turn() {
    let mut replay = Replay::new(Turns::default());
    replay.frames(&vec![vec![0; 60]; MOST_DAMAGED]);
    let before = std::mem::take(&mut replay.survivor.0);
    replay.frames(&vec![vec![0; 60]; MOST_DAMAGED + 400]);
    let more =
        |kind: usize| [0, 1, 2, 3].map(|turn| replay.survivor.0[kind][turn] - before[kind][turn]);
    assert_eq!([0, 1].map(more), [[100; 4]; 2]);
}

#[test]
fn a_router_survives_frames_of_each_kind_whole_and_damaged() {
    of_each_kind(Rig::new(&Rates::default()));
}

#[test]
fn a_router_survives_captures_whole_and_damaged() {
    captures(Rig::new(&Rates::default()));
}

/// Replays the frames and captures that fuzzing begins with, which the repository has.
pub(crate) fn of_each_kind(survivor: impl Survivor) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let mut replay = Replay::new(survivor);
    let frames: Vec<_> = files(&corpus.join("wire_packet")).map(|(_, frame)| frame).collect();
    assert!(frames.len() >= 20, "{} frames", frames.len());
    // Again and again: each time with other damage.
    replay.frames(&frames.iter().cycle().take(MOST_DAMAGED).cloned().collect::<Vec<_>>());
    files(&corpus.join("io_capture")).for_each(|(name, bytes)| replay.file(&name, &bytes));
    replay.finish();
}

/// Replays the captures of the data, where there are such.
pub(crate) fn captures(survivor: impl Survivor) {
    let Some(folder) = testing::data("pcap") else { return };
    let mut replay = Replay::new(survivor);
    files(&folder).for_each(|(name, bytes)| replay.file(&name, &bytes));
    replay.finish();
}

/// The files of a folder, by their names.
fn files(folder: &Path) -> impl Iterator<Item = (String, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths.into_iter().filter(|path| path.is_file()).map(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        (name, std::fs::read(path).unwrap())
    })
}

impl<S: Survivor> Replay<S> {
    fn new(survivor: S) -> Self {
        Replay { survivor, captures: 0, pushed: 0, unread: Vec::new() }
    }

    fn finish(self) {
        let Replay { captures, pushed, unread, .. } = self;
        eprintln!("{captures} captures, {pushed} frames; no captures: {unread:?}");
        assert!(captures > 0, "files are there, and none was read");
    }

    /// Replays a capture; unpacks what is compressed, and archives.
    fn file(&mut self, name: &str, bytes: &[u8]) {
        let mut unpacked = Vec::new();
        let packed = match bytes {
            [0xfd, b'7', b'z', b'X', b'Z', ..] => {
                XzDecoder::new_multi_decoder(bytes).read_to_end(&mut unpacked).map(|_| true)
            }
            [0x1f, 0x8b, ..] => MultiGzDecoder::new(bytes).read_to_end(&mut unpacked).map(|_| true),
            _ => Ok(false),
        };
        if packed.unwrap_or_else(|error| panic!("{name}: {error}")) {
            return self.file(name, &unpacked);
        }
        if bytes.get(257..262) == Some(b"ustar") {
            return members(bytes).for_each(|(member, bytes)| self.file(&member, bytes));
        }
        let Some(frames) = frames_of(bytes) else {
            return self.unread.push(name.to_owned());
        };
        self.frames(&frames);
        self.captures += 1;
        // The file itself damaged: what is read of it is replayed, too.
        let mut rng = SplitMix64(bytes.len() as u64);
        for _ in 0..DAMAGED_COPIES {
            let mut bytes = bytes[..bytes.len().min(LONGEST_COPY)].to_vec();
            (0..8).for_each(|_| flip(&mut bytes, &mut rng));
            bytes.truncate(rng.below(2 * bytes.len() as u64) as usize);
            self.frames(&frames_of(&bytes).unwrap_or_default());
        }
    }

    fn frames(&mut self, frames: &[Vec<u8>]) {
        let mac = self.survivor.mac();
        for (i, frame) in frames.iter().enumerate() {
            // Whole, addressed and damaged, each in every turn.
            self.push(frame, i);
            self.push(&addressed(frame, mac), i + 1);
            if i < MOST_DAMAGED {
                let mut rng = SplitMix64(i as u64 + 1);
                let cut = rng.below(frame.len() as u64 + 1) as usize;
                self.push(&addressed(&frame[..cut], mac), i + 2);
                self.push(&addressed(&flipped(frame, &mut rng), mac), i + 3);
                self.push(&relengthened(addressed(frame, mac), &mut rng), i + 4);
            }
            if i % 32 == 31 {
                self.run();
            }
        }
        self.run();
    }

    fn push(&mut self, frame: &[u8], turn: usize) {
        self.survivor.push(frame, turn);
        self.pushed += 1;
    }

    fn run(&mut self) {
        let law = self.survivor.run();
        assert_eq!((law.received, law.given()), (self.pushed, self.pushed + law.copies));
    }
}

/// Name and content of the files of a tar archive (POSIX.1-1988 "ustar").
fn members(archive: &[u8]) -> impl Iterator<Item = (String, &[u8])> {
    let mut rest = archive;
    std::iter::from_fn(move || {
        loop {
            let (header, behind) = rest.split_at_checked(512)?;
            let digits = std::str::from_utf8(&header[124..135]).ok()?.trim();
            let size = usize::from_str_radix(digits, 8).ok()?;
            let content = behind.get(..size)?;
            rest = behind.get(size.next_multiple_of(512)..)?;
            if matches!(header[156], 0 | b'0') {
                let name = header[..100].split(|&byte| byte == 0).next()?;
                return Some((String::from_utf8_lossy(name).into_owned(), content));
            }
        }
    })
}

/// To `mac`, so that it is not stopped at the first check.
fn addressed(frame: &[u8], mac: [u8; 6]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    let n = frame.len().min(6);
    frame[..n].copy_from_slice(&mac[..n]);
    frame
}

fn flipped(frame: &[u8], rng: &mut SplitMix64) -> Vec<u8> {
    let mut frame = frame.to_vec();
    (0..rng.below(4)).for_each(|_| flip(&mut frame, rng));
    frame
}

fn flip(bytes: &mut [u8], rng: &mut SplitMix64) {
    if !bytes.is_empty() {
        bytes[rng.below(bytes.len() as u64) as usize] ^= 1 << rng.below(8);
    }
}

/// Another length field, with a right checksum where it is IPv4.
fn relengthened(mut frame: Vec<u8>, rng: &mut SplitMix64) -> Vec<u8> {
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

/// The frames of a pcap or pcapng file up to its first damage, whatever their
/// link type: it has to survive any bytes. `None` for another file.
pub(crate) fn frames_of(file: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut reader = Reader::new(file).ok()?;
    let mut frames = Vec::new();
    while let Ok(Some(frame)) = reader.next_frame() {
        frames.push(frame.data[..frame.data.len().min(LONGEST)].to_vec());
    }
    Some(frames)
}

/// Frames of a file that are damaged, too: the long ones repeat themselves.
const MOST_DAMAGED: usize = 2_000;
const LONGEST: usize = 9_000;

/// Damaged copies of each file, and how much of it they are of.
const DAMAGED_COPIES: usize = 4;
const LONGEST_COPY: usize = 1 << 16;
