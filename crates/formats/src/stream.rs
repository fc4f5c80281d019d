//! Bytes of a file, decompressed as its first bytes say, whatever its name.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::rc::Rc;

use bzip2::bufread::BzDecoder;
use flate2::bufread::GzDecoder;
use liblzma::read::XzDecoder;

use crate::error::Error;

/// The decompressed bytes, with their beginning already looked at.
pub(crate) struct Stream {
    inner: BufReader<Replay>,
    /// Bytes of the file as stored that were read so far.
    stored: Rc<Cell<u64>>,
}

/// What a stream's first bytes say.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Content {
    /// Lines of `prefix next-hop`.
    Text,
    /// MRT records.
    Mrt,
    /// A tar archive.
    Tar,
    /// A compression or format that is not read; its name.
    Foreign(&'static str),
}

impl Stream {
    /// Decompresses `file`, and says what its content looks like.
    pub fn new(file: impl Read + 'static) -> (Self, Content) {
        let stored = Rc::new(Cell::new(0));
        let file = Counted { inner: file, read: Rc::clone(&stored) };
        let outer = Replay::new(Box::new(file));
        let foreign = foreign(&outer.head);
        let plain = match compression(&outer.head) {
            Compression::None => outer,
            Compression::Gzip => {
                decoded(Members::<GzDecoder<_>>::of(BufReader::with_capacity(CHUNK, outer)))
            }
            Compression::Bzip2 => {
                decoded(Members::<BzDecoder<_>>::of(BufReader::with_capacity(CHUNK, outer)))
            }
            Compression::Xz => {
                decoded(XzDecoder::new_multi_decoder(BufReader::with_capacity(CHUNK, outer)))
            }
        };
        let content = foreign.map_or_else(|| sniff(&plain.head), Content::Foreign);
        (Stream { inner: BufReader::with_capacity(CHUNK, plain), stored }, content)
    }

    /// Bytes of the stored, possibly compressed file that were read so far.
    pub fn stored(&self) -> u64 {
        self.stored.get()
    }
}

/// Opens a file for reading, and says how long it is (0 for a pipe).
pub(crate) fn open(path: &Path) -> Result<(File, u64), Error> {
    let failed = |error| Error::Open { path: path.into(), error };
    let file = File::open(path).map_err(failed)?;
    let data = file.metadata().map_err(failed)?;
    if data.is_dir() {
        return Err(failed(io::ErrorKind::IsADirectory.into()));
    }
    Ok((file, data.len()))
}

impl Read for Stream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.inner.read(buf)
    }
}

impl BufRead for Stream {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.inner.fill_buf()
    }
    fn consume(&mut self, n: usize) {
        self.inner.consume(n);
    }
}

fn decoded(decoder: impl Read + 'static) -> Replay {
    Replay::new(Box::new(decoder))
}

enum Compression {
    None,
    Gzip,
    Bzip2,
    Xz,
}

fn compression(head: &[u8]) -> Compression {
    match head {
        [0x1f, 0x8b, ..] => Compression::Gzip,
        [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, ..] => Compression::Bzip2,
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Compression::Xz,
        _ => Compression::None,
    }
}

fn foreign(head: &[u8]) -> Option<&'static str> {
    match head {
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Some("zstd"),
        [0x04, 0x22, 0x4d, 0x18, ..] => Some("lz4"),
        [0x1f, 0x9d, ..] => Some("compress"),
        [b'P', b'K', 3, 4, ..] => Some("zip"),
        [0xd4, 0xc3, 0xb2, 0xa1, ..] | [0xa1, 0xb2, 0xc3, 0xd4, ..] => Some("pcap"),
        [0x0a, 0x0d, 0x0d, 0x0a, ..] => Some("pcapng"),
        _ => None,
    }
}

/// Text has no zero byte; an MRT header always has one, since every type is
/// below 256 (RFC 6396 §4), and so has a damaged one nearly always. A zero byte
/// behind twelve of text is a damaged line.
fn sniff(head: &[u8]) -> Content {
    let text = |byte: &u8| !byte.is_ascii_control() || byte.is_ascii_whitespace();
    if head.get(257..262) == Some(b"ustar") {
        Content::Tar
    } else if head.contains(&0) && !head.iter().take(HEADER).all(text) {
        foreign(head).map_or(Content::Mrt, Content::Foreign)
    } else {
        Content::Text
    }
}

/// Gives its first bytes out again, and an error met among them in its turn.
struct Replay {
    head: Vec<u8>,
    given: usize,
    error: Option<io::Error>,
    rest: Box<dyn Read>,
}

impl Replay {
    fn new(mut rest: Box<dyn Read>) -> Self {
        let mut head = Vec::with_capacity(HEAD);
        let error = rest.by_ref().take(HEAD as u64).read_to_end(&mut head).err();
        Replay { head, given: 0, error, rest }
    }
}

impl Read for Replay {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let mut head = &self.head[self.given..];
        if !head.is_empty() {
            let n = head.read(buf)?;
            self.given += n;
            return Ok(n);
        }
        match self.error.take() {
            Some(error) => Err(error),
            None => self.rest.read(buf),
        }
    }
}

/// One member of a compressed file.
trait Member<R>: Read {
    fn begin(input: R) -> Self;
    fn end(self) -> R;
}

impl<R: BufRead> Member<R> for GzDecoder<R> {
    fn begin(input: R) -> Self {
        GzDecoder::new(input)
    }
    fn end(self) -> R {
        self.into_inner()
    }
}

impl<R: BufRead> Member<R> for BzDecoder<R> {
    fn begin(input: R) -> Self {
        BzDecoder::new(input)
    }
    fn end(self) -> R {
        self.into_inner()
    }
}

/// Members one after the other. Zeros behind one are none: tapes, and copies by blocks,
/// fill up with them.
struct Members<M>(Option<M>);

impl<M> Members<M> {
    fn of<R: BufRead>(input: R) -> Self
    where
        M: Member<R>,
    {
        Members(Some(M::begin(input)))
    }
}

impl<R: BufRead> Read for Members<GzDecoder<R>> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        read_member(&mut self.0, buf)
    }
}

impl<R: BufRead> Read for Members<BzDecoder<R>> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        read_member(&mut self.0, buf)
    }
}

fn read_member<R: BufRead, M: Member<R>>(
    member: &mut Option<M>,
    buf: &mut [u8],
) -> io::Result<usize> {
    while let Some(decoder) = member {
        let read = decoder.read(buf)?;
        if read > 0 || buf.is_empty() {
            return Ok(read);
        }
        let mut input = member.take().map(M::end).expect("it was there");
        loop {
            let rest = input.fill_buf()?;
            let zeros = rest.iter().take_while(|&&byte| byte == 0).count();
            if zeros == 0 || rest.is_empty() {
                break;
            }
            input.consume(zeros);
        }
        *member = (!input.fill_buf()?.is_empty()).then(|| M::begin(input));
    }
    Ok(0)
}

struct Counted<R> {
    inner: R,
    read: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buf)?;
        self.read.set(self.read.get() + n as u64);
        Ok(n)
    }
}

/// Enough to see a tar's mark, and a zero byte in any MRT header.
const HEAD: usize = 1024;

/// Bytes of an MRT record's header.
const HEADER: usize = 12;

const CHUNK: usize = 128 << 10;

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn read(bytes: Vec<u8>) -> (Vec<u8>, bool, Content) {
        let (mut stream, content) = Stream::new(io::Cursor::new(bytes));
        let mut plain = Vec::new();
        let failed = stream.read_to_end(&mut plain).is_err();
        (plain, failed, content)
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), Default::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn bzip2(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), Default::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn xz(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn every_compression_and_several_members() {
        let text = b"192.0.2.0/24 a\n".repeat(1000);
        for pack in [gzip, bzip2, xz] {
            let two = [pack(&text), pack(&text)].concat();
            let (plain, failed, content) = read(two);
            assert_eq!((plain.len(), failed, content), (30_000, false, Content::Text));
        }
        assert_eq!(read(text.clone()), (text, false, Content::Text));
        assert_eq!(read(Vec::new()), (Vec::new(), false, Content::Text));
    }

    #[test]
    fn zeros_behind_the_end_are_none() {
        let text = b"192.0.2.0/24 a\n".repeat(1000);
        for pack in [gzip, bzip2] {
            for zeros in [1, 511, 300_000] {
                let (plain, failed, _) = read([pack(&text), vec![0; zeros]].concat());
                assert_eq!((plain.len(), failed), (15_000, false), "{zeros}");
                let two = [pack(&text), vec![0; zeros], pack(&text)].concat();
                assert_eq!(read(two).0.len(), 30_000);
            }
            let (plain, failed, _) = read([&pack(&text)[..], b"\0\0rubbish"].concat());
            assert_eq!((plain.len(), failed), (15_000, true));
        }
        let (plain, failed, _) = read([xz(&text), vec![0; 512]].concat());
        assert_eq!((plain.len(), failed), (15_000, false));
    }

    #[test]
    fn a_cut_stream_gives_what_is_there_and_then_an_error() {
        let mut rng = lookup::rng::SplitMix64(1);
        let noise: Vec<u8> = (0..2_500_000).map(|_| b'a' + (rng.next() % 16) as u8).collect();
        for pack in [gzip, bzip2, xz] {
            let mut packed = pack(&noise);
            packed.truncate(packed.len() - 10_000);
            let (plain, failed, _) = read(packed);
            assert!(failed && noise.starts_with(&plain));
            assert!(plain.len() > 100_000, "{}", plain.len());
        }
        let (plain, failed, content) = read(gzip(b"10.0.0.0/8")[..15].to_vec());
        assert!(failed && plain.len() < 10 && content == Content::Text);
    }

    #[test]
    fn a_zero_byte_in_a_line_makes_no_mrt_of_text() {
        assert_eq!(read(b"192.0.2.0/24 a\n10.0.0.0/8 \0\n".to_vec()).2, Content::Text);
        assert_eq!(read(b"\x3d\x5e\x7c\x80\0\x0c\0\x01\0\0\0\x26".to_vec()).2, Content::Mrt);
    }

    #[test]
    fn archives_and_foreign_files_are_known() {
        let mut tar = vec![b'x'; 512];
        tar[257..262].copy_from_slice(b"ustar");
        assert_eq!(read(gzip(&tar)).2, Content::Tar);
        assert_eq!(read(b"\x28\xb5\x2f\xfd....".to_vec()).2, Content::Foreign("zstd"));
        assert_eq!(read(gzip(b"\xd4\xc3\xb2\xa1\0\0\0\0")).2, Content::Foreign("pcap"));
        assert_eq!(read(b"\x0a\x0d\x0d\x0a\0\0\0\0".to_vec()).2, Content::Foreign("pcapng"));
    }
}
