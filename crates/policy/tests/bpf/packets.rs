//! Frames, written out by hand.

use policy::program::Arrival;

/// A frame: its link header, and the packet.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The Ethernet header, with tags.
    pub link: Vec<u8>,
    /// The packet.
    pub packet: Vec<u8>,
}

impl Frame {
    /// What a program is asked about.
    pub fn arrival(&self, now: u64) -> Arrival<'_> {
        let len = (self.link.len() + self.packet.len()) as u32;
        Arrival { now, len, link: &self.link, packet: &self.packet }
    }
}

/// What is behind the IP header.
#[derive(Clone, Debug)]
pub struct Upper {
    /// The protocol.
    pub proto: u8,
    /// Its header, and what follows.
    pub bytes: Vec<u8>,
    /// The IP header says that this is a part.
    pub fragment: bool,
}

/// A TCP segment.
pub fn tcp(from: u16, to: u16, flags: u8) -> Upper {
    let mut bytes = vec![0; 20];
    bytes[..2].copy_from_slice(&from.to_be_bytes());
    bytes[2..4].copy_from_slice(&to.to_be_bytes());
    (bytes[12], bytes[13]) = (0x50, flags);
    Upper { proto: 6, bytes, fragment: false }
}

/// A message of ICMP.
pub fn icmp(proto: u8, kind: u8) -> Upper {
    Upper { proto, bytes: vec![kind, 0, 0, 0, 0, 0, 0, 0], fragment: false }
}

/// In IPv4, with `options` words of options.
pub fn v4(upper: &Upper, options: usize, tags: usize) -> Frame {
    let mut packet = vec![0; 20 + 4 * options];
    packet[0] = 0x45 + options as u8;
    packet[6] = if upper.fragment { 0x20 } else { 0x40 };
    packet[9] = upper.proto;
    let len = (packet.len() + upper.bytes.len()) as u16;
    packet[2..4].copy_from_slice(&len.to_be_bytes());
    packet[20..].fill(1);
    Frame { link: link(tags, 0x0800), packet: [packet, upper.bytes.clone()].concat() }
}

/// In IPv6, with destination options of so many times eight bytes.
pub fn v6(upper: &Upper, options: usize, tags: usize) -> Frame {
    let mut packet = vec![0; 40];
    packet[0] = 0x60;
    let mut kinds: Vec<u8> = Vec::new();
    let mut headers: Vec<Vec<u8>> = Vec::new();
    if options > 0 {
        kinds.push(60);
        let mut header = vec![0; 8 * options];
        header[1] = options as u8 - 1;
        headers.push(header);
    }
    if upper.fragment {
        kinds.push(44);
        headers.push(vec![0, 0, 0, 1, 0, 0, 0, 9]);
    }
    kinds.push(upper.proto);
    packet[6] = kinds[0];
    for (header, next) in headers.iter_mut().zip(&kinds[1..]) {
        header[0] = *next;
    }
    let packet = [packet, headers.concat(), upper.bytes.clone()].concat();
    Frame { link: link(tags, 0x86dd), packet }
}

fn link(tags: usize, ethertype: u16) -> Vec<u8> {
    let tag = [0x81, 0x00, 0x01, 0x23];
    [&[2; 12][..], &tag.repeat(tags), &ethertype.to_be_bytes()].concat()
}
