//! Cuts a stream into MRT records (RFC 6396 §2), and finds the next one where
//! the stream is damaged.

use std::io::BufRead;

use crate::report::{Damage, Fault, Place};

/// When a record was written.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Stamp {
    /// Seconds since 1970.
    pub seconds: u32,
    /// Microseconds of the second; 0 where the record has none.
    pub micros: u32,
}

/// One record as it lies in the file.
pub(super) struct Record<'a> {
    pub place: Place,
    pub stamp: Stamp,
    pub kind: u16,
    pub subtype: u16,
    /// Without the microseconds of an extended timestamp.
    pub body: &'a [u8],
}

/// The records of a stream.
pub(super) struct Records<R> {
    input: R,
    /// Bytes read ahead, from `start` on; the record handed out last is the
    /// first `used` of them.
    buf: Vec<u8>,
    start: usize,
    used: usize,
    /// Of `buf[start]` in the decompressed stream.
    offset: u64,
    /// Of the record handed out last, from 1.
    number: u64,
    /// Of the last sound header, to tell a header from noise.
    last: Option<Header>,
    /// Why nothing more can be read; `Some(None)` is the plain end.
    end: Option<Option<String>>,
}

impl<R: BufRead> Records<R> {
    pub fn new(input: R) -> Self {
        let (buf, start, used, offset, number) = (Vec::new(), 0, 0, 0, 0);
        Records { input, buf, start, used, offset, number, last: None, end: None }
    }

    pub fn input(&self) -> &R {
        &self.input
    }

    /// The next record, or damage in its place; `None` at the end.
    pub fn next(&mut self) -> Option<Result<Record<'_>, Damage>> {
        self.drop_front(self.used);
        self.used = 0;
        self.fill(HEADER);
        if self.ahead().is_empty() && !matches!(self.end, Some(Some(_))) {
            return None;
        }
        self.number += 1;
        let place = Place::Record { number: self.number, offset: self.offset };
        let Some(header) = Header::parse(self.ahead()) else {
            return Some(Err(Damage { place, fault: self.cut(HEADER) }));
        };
        if !header.is_possible() {
            let skipped = self.skip_to_header();
            let Header { kind, subtype, length, .. } = header;
            let fault = Fault::Header { kind, subtype, length, skipped };
            return Some(Err(Damage { place, fault }));
        }
        let size = HEADER + header.length as usize;
        self.fill(size);
        if self.ahead().len() < size {
            let fault = self.cut(size);
            self.skip_to_header();
            return Some(Err(Damage { place, fault }));
        }
        self.used = size;
        self.last = Some(header);
        Some(record(place, &header, &self.ahead()[HEADER..size]))
    }

    fn ahead(&self) -> &[u8] {
        &self.buf[self.start..]
    }

    /// Reads until `n` bytes are there, or the stream ends.
    fn fill(&mut self, n: usize) {
        if self.start > self.buf.len() / 2 {
            self.buf.drain(..self.start);
            self.start = 0;
        }
        while self.ahead().len() < n && self.end.is_none() {
            match self.input.fill_buf() {
                Ok([]) => self.end = Some(None),
                Ok(chunk) => {
                    let taken = chunk.len().min(n - (self.buf.len() - self.start));
                    self.buf.extend_from_slice(&chunk[..taken]);
                    self.input.consume(taken);
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => (),
                Err(error) => self.end = Some(Some(error.to_string())),
            }
        }
    }

    fn drop_front(&mut self, n: usize) {
        self.start += n;
        self.offset += n as u64;
    }

    /// Why a record of `want` bytes is not there. The error of a stream is reported
    /// once.
    fn cut(&mut self, want: usize) -> Fault {
        let have = self.ahead().len();
        if have < HEADER {
            self.drop_front(have); // no header fits into the rest
        }
        match self.end.as_mut().and_then(Option::take) {
            Some(error) => Fault::Stream(error),
            None => Fault::Truncated { have: have as u64, want: want as u64 },
        }
    }

    /// Drops bytes until a header is likely at the front, or nothing is left.
    fn skip_to_header(&mut self) -> u64 {
        let from = self.offset;
        self.drop_front(1.min(self.ahead().len()));
        loop {
            self.fill(SEARCH);
            let have = self.ahead().len();
            let found = (0..have).find(|&at| self.is_likely(at));
            let keep = if self.end.is_some() { 0 } else { 2 * HEADER + MAX_LIKELY };
            self.drop_front(found.unwrap_or(have.saturating_sub(keep)));
            if found.is_some() || self.ahead().is_empty() {
                return self.offset - from;
            }
        }
    }

    /// True when a record like the last one begins at `at`, and is followed by
    /// another or by the end.
    fn is_likely(&self, at: usize) -> bool {
        let header = Header::parse(&self.ahead()[at..]);
        let Some(header) = header.filter(|h| h.is_usual() && self.resembles_last(h)) else {
            return false;
        };
        let next = at + HEADER + header.length as usize;
        match self.ahead().get(next..) {
            Some([]) => self.end.is_some(),
            // Its length may be damaged as well.
            Some(rest) => Header::parse(rest).is_some_and(|next| self.resembles_last(&next)),
            None => false,
        }
    }

    fn resembles_last(&self, header: &Header) -> bool {
        self.last.is_none_or(|last| {
            last.kind == header.kind && last.seconds.abs_diff(header.seconds) <= MAX_DRIFT_S
        }) && header.carries_routes()
    }
}

fn record<'a>(place: Place, header: &Header, body: &'a [u8]) -> Result<Record<'a>, Damage> {
    let Header { seconds, kind, subtype, .. } = *header;
    let (micros, body) = match (header.is_extended(), body.split_first_chunk()) {
        (false, _) => (0, body),
        (true, Some((micros, rest))) => (u32::from_be_bytes(*micros), rest),
        (true, None) => return Err(Damage { place, fault: Fault::Short("extended timestamp") }),
    };
    Ok(Record { place, stamp: Stamp { seconds, micros }, kind, subtype, body })
}

#[derive(Clone, Copy)]
struct Header {
    seconds: u32,
    kind: u16,
    subtype: u16,
    length: u32,
}

impl Header {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let [t0, t1, t2, t3, k0, k1, s0, s1, l0, l1, l2, l3] = *bytes.first_chunk()?;
        Some(Header {
            seconds: u32::from_be_bytes([t0, t1, t2, t3]),
            kind: u16::from_be_bytes([k0, k1]),
            subtype: u16::from_be_bytes([s0, s1]),
            length: u32::from_be_bytes([l0, l1, l2, l3]),
        })
    }

    /// True for the types of RFC 6396 §4 and its appendix B, with a length that
    /// a record can have. Zeros would be one of type NULL, of the year 1970: they are
    /// what a damaged disk or a download with holes leaves.
    fn is_possible(&self) -> bool {
        let zeros = self.seconds == 0 && self.kind == 0;
        !zeros
            && matches!(self.kind, 0..=13 | 16 | 17 | 32 | 33 | 48 | 49)
            && self.length <= MAX_LENGTH
    }

    /// Narrower, for a search among noise.
    fn is_usual(&self) -> bool {
        self.subtype <= 12 && (1..=MAX_LIKELY as u32).contains(&self.length)
    }

    /// TABLE_DUMP, TABLE_DUMP_V2, BGP4MP, BGP4MP_ET.
    fn carries_routes(&self) -> bool {
        matches!(self.kind, 12 | 13 | 16 | 17)
    }

    /// True for the `_ET` types (RFC 6396 §3).
    fn is_extended(&self) -> bool {
        matches!(self.kind, 17 | 33 | 49)
    }
}

const HEADER: usize = 12;

/// A TABLE_DUMP_V2 record holds at most 65,535 entries; the largest seen in
/// public archives are below 1 MB.
const MAX_LENGTH: u32 = 16 << 20;

/// Longest record believed in a search among damaged bytes.
const MAX_LIKELY: usize = 128 << 10;

/// Bytes searched at a time.
const SEARCH: usize = 4 * MAX_LIKELY;

/// A dump's timestamps differ little: files span minutes to hours.
const MAX_DRIFT_S: u32 = 7 * 24 * 3600;

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(kind: u16, length: u32, body: &[u8]) -> Vec<u8> {
        let mut bytes = 1_000_000_u32.to_be_bytes().to_vec();
        bytes.extend(kind.to_be_bytes());
        bytes.extend(1_u16.to_be_bytes());
        bytes.extend(length.to_be_bytes());
        bytes.extend(body);
        bytes
    }

    fn all(bytes: &[u8]) -> Vec<String> {
        let mut records = Records::new(bytes);
        let mut seen = Vec::new();
        while let Some(record) = records.next() {
            seen.push(match record {
                Ok(record) => format!("{} {}", record.place, record.body.len()),
                Err(damage) => damage.to_string(),
            });
        }
        seen
    }

    #[test]
    fn records_and_their_places() {
        let file = [raw(13, 3, b"abc"), raw(17, 6, b"mmmmxy"), raw(16, 0, b"")].concat();
        let want = ["record 1 at byte 0 3", "record 2 at byte 15 2", "record 3 at byte 33 0"];
        assert_eq!(all(&file), want);
    }

    #[test]
    fn zeros_are_damage_and_no_records() {
        let file = [raw(13, 3, b"abc"), vec![0; 4800], raw(13, 3, b"def")].concat();
        let seen = all(&file);
        assert!(seen.iter().any(|line| line.contains("byte 15")), "{seen:?}");
        assert_eq!(all(&[0; 480]).len(), 1);
    }

    #[test]
    fn a_cut_file_ends_with_one_damage() {
        let file = [raw(13, 3, b"abc"), raw(13, 9, b"abcd")].concat();
        assert_eq!(
            all(&file)[1..],
            ["record 2 at byte 15: the file ends inside this record: 16 of 21 bytes"]
        );
        assert_eq!(
            all(&file[..20])[1..],
            ["record 2 at byte 15: the file ends inside this record: 5 of 12 bytes"]
        );
    }

    #[test]
    fn the_next_record_is_found_behind_damage() {
        let file = [
            raw(13, 3, b"abc"),
            vec![0xaa; 100],
            raw(13, 3, b"def"),
            raw(13, 1 << 30, b""),
            raw(13, 4, b"ghij"),
            raw(13, 2, b"kl"),
        ];
        let seen = all(&file.concat());
        assert_eq!(seen[1].split(" at").next(), Some("record 2"));
        assert!(seen[1].ends_with("100 bytes skipped to the next"), "{}", seen[1]);
        assert_eq!(seen[2], "record 3 at byte 115 3");
        assert!(seen[3].ends_with("12 bytes skipped to the next"), "{}", seen[3]);
        assert_eq!(seen[4..], ["record 5 at byte 142 4", "record 6 at byte 158 2"]);
    }

    #[test]
    fn a_length_beyond_the_end_does_not_hide_the_rest() {
        let file = [raw(13, 5000, b"abc"), raw(13, 3, b"def"), raw(13, 3, b"def")].concat();
        assert_eq!(all(&file)[1..], ["record 2 at byte 15 3", "record 3 at byte 30 3"]);
    }

    #[test]
    fn some_types_carry_routes() {
        let header = |kind| Header { seconds: 1, kind, subtype: 1, length: 1 };
        let carriers: Vec<u16> = (0..64).filter(|&kind| header(kind).carries_routes()).collect();
        assert_eq!(carriers, [12, 13, 16, 17]);
    }
}
