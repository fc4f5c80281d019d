//! Writes captures: pcapng (draft-ietf-opsawg-pcapng), little-endian, time in
//! nanoseconds, one interface block for each port when it first appears.

use std::collections::HashMap;
use std::io::{self, Write};

/// A capture file under construction.
pub struct Writer<W: Write> {
    out: W,
    interfaces: HashMap<String, u32>,
    snap_length: u32,
}

/// One packet to be written.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'p> {
    /// The port that it came in or left by.
    pub port: &'p str,
    /// Nanoseconds since 1970.
    pub time_ns: u64,
    /// True when it left.
    pub out: bool,
    /// Bytes on the wire.
    pub length: u32,
    /// Its first bytes.
    pub bytes: &'p [u8],
    /// Where it was seen, for people.
    pub comment: &'p str,
}

impl<W: Write> Writer<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// When the file refuses.
    pub fn new(mut out: W, snap_length: u16) -> io::Result<Writer<W>> {
        let mut body = Vec::new();
        body.extend(0x1a2b_3c4d_u32.to_le_bytes()); // which byte order
        body.extend([1, 0, 0, 0]); // version 1.0
        body.extend(u64::MAX.to_le_bytes()); // the section's length is not known
        option(&mut body, 4, b"rutter");
        block(&mut out, SECTION, body)?;
        Ok(Writer { out, interfaces: HashMap::new(), snap_length: snap_length.into() })
    }

    /// Appends a packet.
    ///
    /// # Errors
    /// When the file refuses.
    pub fn packet(&mut self, packet: Packet<'_>) -> io::Result<()> {
        let interface = self.interface(packet.port)?;
        let mut body = Vec::with_capacity(packet.bytes.len() + 40);
        body.extend(interface.to_le_bytes());
        body.extend(((packet.time_ns >> 32) as u32).to_le_bytes());
        body.extend((packet.time_ns as u32).to_le_bytes());
        body.extend((packet.bytes.len() as u32).to_le_bytes());
        body.extend(packet.length.to_le_bytes());
        body.extend(packet.bytes);
        pad(&mut body);
        if !packet.comment.is_empty() {
            option(&mut body, 1, packet.comment.as_bytes());
        }
        let direction = if packet.out { 2_u32 } else { 1 };
        option(&mut body, 2, &direction.to_le_bytes());
        block(&mut self.out, PACKET, body)
    }

    /// Hands everything written so far to the file.
    ///
    /// # Errors
    /// When the file refuses.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn interface(&mut self, name: &str) -> io::Result<u32> {
        if let Some(number) = self.interfaces.get(name) {
            return Ok(*number);
        }
        let mut body = Vec::new();
        body.extend(ETHERNET.to_le_bytes());
        body.extend([0, 0]);
        body.extend(self.snap_length.to_le_bytes());
        option(&mut body, 2, name.as_bytes());
        option(&mut body, 9, &[9]); // time in 10^-9 s
        block(&mut self.out, INTERFACE, body)?;
        let number = self.interfaces.len() as u32;
        self.interfaces.insert(name.into(), number);
        Ok(number)
    }
}

/// Writes one block. Its options, if any, are closed.
fn block(out: &mut impl Write, kind: u32, mut body: Vec<u8>) -> io::Result<()> {
    body.extend([0; 4]); // opt_endofopt
    let length = (body.len() + 12) as u32;
    out.write_all(&kind.to_le_bytes())?;
    out.write_all(&length.to_le_bytes())?;
    out.write_all(&body)?;
    out.write_all(&length.to_le_bytes())
}

fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    body.extend(code.to_le_bytes());
    body.extend((value.len() as u16).to_le_bytes());
    body.extend(value);
    pad(body);
}

fn pad(body: &mut Vec<u8>) {
    body.resize(body.len().next_multiple_of(4), 0);
}

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;
const ETHERNET: u16 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_follow_each_other() {
        let mut file = Vec::new();
        let mut writer = Writer::new(&mut file, 96).unwrap();
        for (port, bytes) in [("p0", &[1_u8, 2, 3][..]), ("p1", &[]), ("p0", &[4; 64])] {
            let packet =
                Packet { port, time_ns: 5 << 32 | 7, out: false, length: 64, bytes, comment: "" };
            writer.packet(packet).unwrap();
        }
        let mut kinds = Vec::new();
        let mut rest = &file[..];
        while !rest.is_empty() {
            let word = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().unwrap());
            let length = word(4) as usize;
            assert_eq!(length % 4, 0);
            assert_eq!(word(length - 4) as usize, length);
            kinds.push(word(0));
            rest = &rest[length..];
        }
        assert_eq!(kinds, [SECTION, INTERFACE, PACKET, INTERFACE, PACKET, PACKET]);
    }
}
