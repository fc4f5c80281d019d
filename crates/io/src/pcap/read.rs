//! Captures: classic pcap (both byte orders, micro- and nanoseconds) and
//! pcapng. Reads what can be read of a damaged file and says where it broke.
//!
//! Formats: draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng.

use std::io::{self, Read};

/// A frame of a capture.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Frame<'a> {
    /// The bytes that were captured.
    pub data: &'a [u8],
    /// Bytes that were on the wire.
    pub wire_len: u32,
    /// Nanoseconds since 1970, 0 where the capture does not say.
    pub time_ns: u64,
    /// What the first header is ([`ETHERNET`], …).
    pub link_type: u16,
}

/// Where a capture is damaged.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Damage {
    /// Byte offset of the record.
    pub offset: u64,
    /// What is wrong with it.
    pub what: &'static str,
}

/// `LINKTYPE_ETHERNET`.
pub const ETHERNET: u16 = 1;

/// Reads frame after frame. Invariant C1: `buffer` holds the current record's
/// body, at most [`MAX_BLOCK`] bytes.
pub struct Reader<R> {
    source: R,
    format: Format,
    big_endian: bool,
    offset: u64,
    buffer: Vec<u8>,
    /// Of the current pcapng section; a classic capture has one.
    interfaces: Vec<Interface>,
    damaged: u64,
    first_damage: Option<Damage>,
    ended: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Format {
    Pcap,
    PcapNg,
}

#[derive(Clone, Copy)]
struct Interface {
    link_type: u16,
    snap_len: u32,
    /// Nanoseconds of one tick, as a fraction.
    tick_ns: (u64, u64),
}

/// What a block turned out to hold: where its frame lies in `buffer`.
struct Place {
    start: usize,
    len: usize,
    wire_len: u32,
    time_ns: u64,
    link_type: u16,
}

impl<R: Read> Reader<R> {
    /// Reads the capture's header.
    ///
    /// # Errors
    /// When `source` cannot be read, or is no capture (`InvalidData`).
    pub fn new(mut source: R) -> io::Result<Self> {
        let mut magic = [0; 4];
        source.read_exact(&mut magic).map_err(no_capture)?;
        let big_endian = matches!(magic, [0xa1, 0xb2, 0xc3, 0xd4] | [0xa1, 0xb2, 0x3c, 0x4d]);
        let nano = match magic {
            [0xa1, 0xb2, 0xc3, 0xd4] | [0xd4, 0xc3, 0xb2, 0xa1] => false,
            [0xa1, 0xb2, 0x3c, 0x4d] | [0x4d, 0x3c, 0xb2, 0xa1] => true,
            [0x0a, 0x0d, 0x0d, 0x0a] => return Reader::new_ng(source),
            _ => return Err(no_capture(io::ErrorKind::InvalidData.into())),
        };
        let mut rest = [0; 20];
        source.read_exact(&mut rest).map_err(no_capture)?;
        let mut reader = Reader::empty(source, Format::Pcap, big_endian, 24);
        reader.interfaces.push(Interface {
            // The upper half holds flags (length of the frame check sequence).
            link_type: reader.u32(&rest, 16) as u16,
            snap_len: u32::MAX,
            tick_ns: (if nano { 1 } else { 1000 }, 1),
        });
        Ok(reader)
    }

    /// The block type has been read; the section header's body follows.
    fn new_ng(source: R) -> io::Result<Self> {
        let mut reader = Reader::empty(source, Format::PcapNg, false, 4);
        match reader.section() {
            Ok(()) => Ok(reader),
            Err(Stop::Io(error)) => Err(error),
            Err(Stop::End | Stop::Damage(_)) => Err(no_capture(io::ErrorKind::InvalidData.into())),
        }
    }

    fn empty(source: R, format: Format, big_endian: bool, offset: u64) -> Self {
        Reader {
            source,
            format,
            big_endian,
            offset,
            buffer: Vec::new(),
            interfaces: Vec::new(),
            damaged: 0,
            first_damage: None,
            ended: false,
        }
    }

    /// The next frame; `None` at the end, and at damage behind which nothing
    /// can be found. Records that are damaged in themselves are passed over.
    ///
    /// # Errors
    /// When the source fails.
    pub fn next_frame(&mut self) -> io::Result<Option<Frame<'_>>> {
        while !self.ended {
            let start = self.offset;
            let result = match self.format {
                Format::Pcap => self.record().map(Some),
                Format::PcapNg => self.block(),
            };
            match result {
                Ok(None) => {}
                Ok(Some(place)) => {
                    return Ok(Some(Frame {
                        data: &self.buffer[place.start..place.start + place.len],
                        wire_len: place.wire_len,
                        time_ns: place.time_ns,
                        link_type: place.link_type,
                    }));
                }
                Err(Stop::End) => self.ended = true,
                Err(Stop::Damage(what)) => self.note(start, what),
                Err(Stop::Io(error)) => {
                    self.ended = true;
                    return Err(error);
                }
            }
        }
        Ok(None)
    }

    /// Damaged records so far.
    pub fn damaged(&self) -> u64 {
        self.damaged
    }

    /// The first of them.
    pub fn first_damage(&self) -> Option<Damage> {
        self.first_damage
    }

    /// The link type of the first interface named so far.
    pub fn link_type(&self) -> Option<u16> {
        self.interfaces.first().map(|interface| interface.link_type)
    }

    fn note(&mut self, offset: u64, what: &'static str) {
        self.damaged += 1;
        self.first_damage.get_or_insert(Damage { offset, what });
    }

    /// A classic record: seconds, fraction, captured length, wire length, bytes.
    fn record(&mut self) -> Result<Place, Stop> {
        let header: [u8; 16] = self.header()?;
        let [seconds, fraction, len, wire_len] = [0, 4, 8, 12].map(|at| self.u32(&header, at));
        if len as usize > MAX_FRAME {
            return self.lost("record longer than any frame");
        }
        self.body(len as usize)?;
        let interface = self.interfaces[0];
        let time_ns = u64::from(seconds)
            .wrapping_mul(1_000_000_000)
            .wrapping_add(u64::from(fraction).wrapping_mul(interface.tick_ns.0));
        let link_type = interface.link_type;
        Ok(Place { start: 0, len: len as usize, wire_len, time_ns, link_type })
    }

    /// A pcapng block; `None` where it holds no frame.
    fn block(&mut self) -> Result<Option<Place>, Stop> {
        let kind: [u8; 4] = self.header()?;
        if kind == [0x0a, 0x0d, 0x0d, 0x0a] {
            return self.section().map(|()| None);
        }
        let kind = self.u32(&kind, 0);
        self.block_body()?;
        match kind {
            INTERFACE => self.interface().map(|()| None),
            ENHANCED => self.packet(self.get32(0)? as usize, 4).map(Some),
            // The obsolete packet block: interface and drops in 16 bits each.
            OBSOLETE => self.packet(usize::from(self.get16(0)?), 4).map(Some),
            SIMPLE => self.simple().map(Some),
            _ => Ok(None),
        }
    }

    /// Reads length, body and the length again; the body stays in `buffer`.
    fn block_body(&mut self) -> Result<(), Stop> {
        let len: [u8; 4] = self.inner()?;
        let len = self.u32(&len, 0) as usize;
        if len < 12 || !len.is_multiple_of(4) || len > MAX_BLOCK {
            return self.lost("block length");
        }
        self.body(len - 12)?;
        let again: [u8; 4] = self.inner()?;
        if self.u32(&again, 0) as usize != len {
            return self.lost("block's two lengths differ");
        }
        Ok(())
    }

    /// A section header: its byte order counts from here on.
    fn section(&mut self) -> Result<(), Stop> {
        let start: [u8; 8] = self.inner()?;
        self.big_endian = match start[4..] {
            [0x1a, 0x2b, 0x3c, 0x4d] => true,
            [0x4d, 0x3c, 0x2b, 0x1a] => false,
            _ => return self.lost("byte-order magic"),
        };
        let len = self.u32(&start, 0) as usize;
        if len < 28 || !len.is_multiple_of(4) || len > MAX_BLOCK {
            return self.lost("block length");
        }
        self.body(len - 12)?;
        self.interfaces.clear();
        Ok(())
    }

    fn interface(&mut self) -> Result<(), Stop> {
        let link_type = self.get16(0)?;
        let snap_len = self.get32(4)?;
        // A section with this many interfaces is not a capture but an attack.
        if self.interfaces.len() == MAX_INTERFACES {
            return self.lost("too many interfaces");
        }
        let tick_ns = self.tick_ns();
        self.interfaces.push(Interface { link_type, snap_len, tick_ns });
        Ok(())
    }

    /// The interface's `if_tsresol` option; microseconds where it has none.
    fn tick_ns(&self) -> (u64, u64) {
        let mut at = 8;
        while let (Ok(code @ 1..), Ok(len)) = (self.get16(at), self.get16(at + 2)) {
            if let (9, 1.., Some(&resolution)) = (code, len, self.buffer.get(at + 4)) {
                let exponent = u32::from(resolution & 0x7f);
                let (base, most) = if resolution & 0x80 == 0 { (10u64, 19) } else { (2, 63) };
                return (1_000_000_000, base.pow(exponent.min(most)));
            }
            at += 4 + usize::from(len).next_multiple_of(4);
        }
        (1000, 1)
    }

    /// An enhanced (or obsolete) packet block of `interface`: time, captured
    /// length and wire length from `at` on, then the frame.
    fn packet(&self, interface: usize, at: usize) -> Result<Place, Stop> {
        let interface = self.interface_at(interface)?;
        let ticks = u64::from(self.get32(at)?) << 32 | u64::from(self.get32(at + 4)?);
        let len = self.get32(at + 8)? as usize;
        let wire_len = self.get32(at + 12)?;
        let start = at + 16;
        if len > MAX_FRAME || len > self.buffer.len().saturating_sub(start) {
            return Err(Stop::Damage("captured length"));
        }
        let (numerator, denominator) = interface.tick_ns;
        let ns = u128::from(ticks) * u128::from(numerator) / u128::from(denominator);
        Ok(Place { start, len, wire_len, time_ns: ns as u64, link_type: interface.link_type })
    }

    /// A simple packet block: interface 0, no time.
    fn simple(&self) -> Result<Place, Stop> {
        let interface = self.interface_at(0)?;
        let wire_len = self.get32(0)?;
        let limit = if interface.snap_len == 0 { u32::MAX } else { interface.snap_len };
        let len = wire_len.min(limit) as usize;
        if len > MAX_FRAME || len > self.buffer.len() - 4 {
            return Err(Stop::Damage("captured length"));
        }
        Ok(Place { start: 4, len, wire_len, time_ns: 0, link_type: interface.link_type })
    }

    fn interface_at(&self, index: usize) -> Result<Interface, Stop> {
        self.interfaces.get(index).copied().ok_or(Stop::Damage("no such interface"))
    }

    /// The first bytes of a record: here, and only here, a capture may end.
    fn header<const N: usize>(&mut self) -> Result<[u8; N], Stop> {
        let mut bytes = [0; N];
        let mut have = 0;
        while have < N {
            match self.source.read(&mut bytes[have..]) {
                Ok(0) if have == 0 => return Err(Stop::End),
                Ok(0) => return self.lost("cut off"),
                Ok(n) => have += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Stop::Io(error)),
            }
        }
        self.offset += N as u64;
        Ok(bytes)
    }

    /// Bytes that a record must have.
    fn inner<const N: usize>(&mut self) -> Result<[u8; N], Stop> {
        match self.header() {
            Err(Stop::End) => self.lost("cut off"),
            result => result,
        }
    }

    /// Fills `buffer` with the next `len` bytes; memory grows with what is
    /// there, not with what the record claims.
    fn body(&mut self, len: usize) -> Result<(), Stop> {
        self.buffer.clear();
        let limited = self.source.by_ref().take(len as u64);
        match { limited }.read_to_end(&mut self.buffer) {
            Ok(n) => self.offset += n as u64,
            Err(error) => return Err(Stop::Io(error)),
        }
        if self.buffer.len() < len { self.lost("cut off") } else { Ok(()) }
    }

    /// Damage behind which the next record cannot be found.
    fn lost<T>(&mut self, what: &'static str) -> Result<T, Stop> {
        self.ended = true;
        Err(Stop::Damage(what))
    }

    fn get16(&self, at: usize) -> Result<u16, Stop> {
        let bytes = self.buffer.get(at..).and_then(|rest| rest.first_chunk());
        let bytes = bytes.ok_or(Stop::Damage("block too short"))?;
        Ok(if self.big_endian { u16::from_be_bytes(*bytes) } else { u16::from_le_bytes(*bytes) })
    }

    fn get32(&self, at: usize) -> Result<u32, Stop> {
        let bytes = self.buffer.get(at..).and_then(|rest| rest.first_chunk());
        Ok(self.order32(*bytes.ok_or(Stop::Damage("block too short"))?))
    }

    /// Cannot panic: callers pass constants within arrays.
    fn u32(&self, bytes: &[u8], at: usize) -> u32 {
        self.order32([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
    }

    fn order32(&self, bytes: [u8; 4]) -> u32 {
        if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }
}

/// Why there is no frame.
enum Stop {
    End,
    Damage(&'static str),
    Io(io::Error),
}

fn no_capture(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => {
            io::Error::new(io::ErrorKind::InvalidData, "neither pcap nor pcapng")
        }
        _ => error,
    }
}

const INTERFACE: u32 = 1;
const OBSOLETE: u32 = 2;
const SIMPLE: u32 = 3;
const ENHANCED: u32 = 6;
/// libpcap's largest capture length.
const MAX_FRAME: usize = 262_144;
/// Room for a frame and generous options.
const MAX_BLOCK: usize = 16 << 20;
const MAX_INTERFACES: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::super::write::{Style, Writer};
    use super::*;
    use proptest::prelude::*;

    /// All frames, and the number of damaged records.
    fn read(bytes: &[u8]) -> (Vec<(Vec<u8>, u64)>, u64) {
        let Ok(mut reader) = Reader::new(bytes) else { return (vec![], 1) };
        let mut frames = vec![];
        while let Some(frame) = reader.next_frame().unwrap() {
            frames.push((frame.data.to_vec(), frame.time_ns));
        }
        (frames, reader.damaged())
    }

    fn written(style: Style, frames: &[&[u8]]) -> Vec<u8> {
        let mut writer = Writer::new(Vec::new(), style, ETHERNET).unwrap();
        for (i, frame) in frames.iter().enumerate() {
            writer.write(frame, 1_700_000_000_000_000_000 + i as u64 * 1000).unwrap();
        }
        writer.into_inner()
    }

    const FRAMES: &[&[u8]] = &[b"", b"1", b"four", b"nineteen characters"];

    #[test]
    fn both_formats_read_back() {
        for style in [Style::Pcap, Style::PcapNg] {
            let (frames, damaged) = read(&written(style, FRAMES));
            assert_eq!((frames.len(), damaged), (4, 0));
            for (i, (data, time)) in frames.iter().enumerate() {
                assert_eq!(data, FRAMES[i]);
                assert_eq!(*time, 1_700_000_000_000_000_000 + i as u64 * 1000);
            }
        }
    }

    #[test]
    fn every_cut_gives_what_was_there() {
        for style in [Style::Pcap, Style::PcapNg] {
            let all = written(style, FRAMES);
            let mut counts = vec![];
            for cut in 0..=all.len() {
                let (frames, damaged) = read(&all[..cut]);
                assert!(frames.iter().zip(FRAMES).all(|(got, want)| got.0 == *want));
                assert!(damaged <= 1);
                counts.push(frames.len());
            }
            assert!(counts.is_sorted() && counts.last() == Some(&4));
        }
    }

    #[test]
    fn big_endian_and_microseconds() {
        let mut bytes = vec![0xa1, 0xb2, 0xc3, 0xd4, 0, 2, 0, 4];
        bytes.extend([0; 8]);
        bytes.extend([0, 0, 0xff, 0xff, 0, 0, 0, 1]);
        bytes.extend([0, 0, 0, 2, 0, 0, 0, 5, 0, 0, 0, 3, 0, 0, 0, 60]);
        bytes.extend(b"abc");
        assert_eq!(read(&bytes), (vec![(b"abc".to_vec(), 2_000_005_000)], 0));
        let mut reader = Reader::new(&bytes[..]).unwrap();
        assert_eq!(reader.link_type(), Some(ETHERNET));
        assert_eq!(reader.next_frame().unwrap().unwrap().wire_len, 60);
    }

    #[test]
    fn a_record_that_is_bad_in_itself_is_passed_over() {
        let mut bytes = written(Style::PcapNg, FRAMES);
        // The captured length of the first packet: behind section and interface.
        let section = u32::from_le_bytes(bytes[4..8].try_into().unwrap()) as usize;
        let at = section + 4;
        let interface = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        bytes[section + interface + 20..][..4].copy_from_slice(&9999u32.to_le_bytes());
        let (frames, damaged) = read(&bytes);
        assert_eq!((frames.len(), damaged), (3, 1));
    }

    #[test]
    fn damage_has_a_place() {
        let bytes = written(Style::Pcap, FRAMES);
        let mut reader = Reader::new(&bytes[..bytes.len() - 1]).unwrap();
        while reader.next_frame().unwrap().is_some() {}
        let offset = bytes.len() as u64 - 16 - 19;
        assert_eq!(reader.first_damage(), Some(Damage { offset, what: "cut off" }));
    }

    #[test]
    fn no_capture_is_an_error() {
        for bytes in [&b""[..], b"ab", b"hello world, this is no capture at all"] {
            let error = Reader::new(bytes).err().unwrap();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 1000 }))]
        #[test]
        fn any_bytes_are_read_without_panic(
            ng: bool, at in 0usize..200, flip: u8, junk in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            let style = if ng { Style::PcapNg } else { Style::Pcap };
            let mut bytes = written(style, FRAMES);
            let at = at % bytes.len();
            bytes[at] ^= flip;
            read(&bytes);
            bytes.truncate(at);
            bytes.extend(junk);
            read(&bytes);
        }
    }
}
