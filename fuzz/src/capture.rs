//! Captures: nothing panics, and what could be read reads the same when it is
//! written again.

use io::pcap::{ETHERNET, Reader, Style, Writer};

/// Bytes as a capture of either format.
pub fn capture(bytes: &[u8]) {
    let Some(frames) = frames(bytes) else { return };
    let again = self::frames(&written(Style::PcapNg, &frames)).expect("a capture");
    assert!(again == frames);
}

type Frames = Vec<(Vec<u8>, u64)>;

fn frames(bytes: &[u8]) -> Option<Frames> {
    let mut reader = Reader::new(bytes).ok()?;
    let mut frames = vec![];
    while let Some(frame) = reader.next_frame().expect("memory can be read") {
        frames.push((frame.data.to_vec(), frame.time_ns));
    }
    assert_eq!(reader.damaged() > 0, reader.first_damage().is_some());
    Some(frames)
}

fn written(style: Style, frames: &Frames) -> Vec<u8> {
    let mut writer = Writer::new(vec![], style, ETHERNET).expect("memory can be written");
    for (data, time_ns) in frames {
        writer.write(data, *time_ns).expect("memory can be written");
    }
    writer.into_inner()
}

/// A file of each kind.
pub fn seeds() -> Vec<(&'static str, String, Vec<u8>)> {
    let seed = |name: &str, bytes| ("io_capture", name.to_owned(), bytes);
    let frames: Frames =
        (0..3).map(|i| (vec![i; 14 + usize::from(i)], u64::from(i) << 40)).collect();
    let (pcap, ng) = (written(Style::Pcap, &frames), written(Style::PcapNg, &frames));
    let mut damaged = ng.clone();
    damaged[60 + 20] = 0xff; // the first packet's captured length
    vec![
        seed("pcap", pcap.clone()),
        seed("pcapng", ng.clone()),
        seed("big_endian", big_endian()),
        seed("simple_and_obsolete", [&ng[..60], &simple(), &obsolete(), &ng[..]].concat()),
        seed("damaged_packet", damaged),
        seed("cut_off", pcap[..pcap.len() - 3].to_vec()),
    ]
}

fn big_endian() -> Vec<u8> {
    let words = [0xa1b2_c3d4_u32, 0x0002_0004, 0, 0, 65_535, 1, 7, 9, 4, 60, 0xdead_beef];
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn simple() -> Vec<u8> {
    words(&[3, 20, 4, 0x0403_0201, 20])
}

fn obsolete() -> Vec<u8> {
    words(&[2, 36, 0, 1, 2, 4, 4, 0x0403_0201, 36])
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}
