//! From bytes to operations. The meaning of a byte never changes, or corpora would lose
//! theirs: new operations take numbers that were free, and every one has its
//! arguments in a fixed number of bytes, as [`super::OPERATIONS`] says.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes, from the front.
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    /// The next `n`; `None` at the end.
    pub fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(head)
    }

    /// The next `N`; 0 for those that are not there.
    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let n = N.min(self.0.len());
        array[..n].copy_from_slice(&self.0[..n]);
        self.0 = &self.0[n..];
        array
    }
}

/// An address by two bytes: of a network, of those far away, or one that is special.
pub fn address(six: bool, [kind, b]: [u8; 2]) -> IpAddr {
    let low = kind & 15;
    if six { v6(kind >> 4, low, b).into() } else { v4(kind >> 4, low, b).into() }
}

fn v4(kind: u8, low: u8, b: u8) -> Ipv4Addr {
    match kind % 8 {
        0..=3 => [10, low % 12, 0, b & 7].into(),
        4 => [20, low, b, 9].into(),
        5 => [30, low, b, 9].into(),
        6 => [20, low & 3, b & 3, b >> 6].into(),
        _ => SPECIAL4[usize::from(low)].into(),
    }
}

fn v6(kind: u8, low: u8, b: u8) -> Ipv6Addr {
    let (low, b) = (u16::from(low), u16::from(b));
    match kind % 8 {
        0..=3 => [0x2001, 0xdb8, low % 12, 0, 0, 0, 0, b & 7].into(),
        4 => [0x2001, 0xdb8, 0x20, low, b, 0, 0, 9].into(),
        5 => [0x2001, 0xdb8, 0x30, low, b, 0, 0, 9].into(),
        6 => [0x2001, 0xdb8, 0x20, low & 3, b & 3, 0, 0, 1].into(),
        _ => SPECIAL6[usize::from(low)].parse().expect("it is an address"),
    }
}

const SPECIAL4: [[u8; 4]; 16] = [
    [0, 1, 2, 3],
    [127, 0, 0, 1],
    [169, 254, 0, 9],
    [224, 0, 0, 5],
    [239, 1, 1, 1],
    [240, 1, 0, 1],
    [255, 255, 255, 255],
    [0, 0, 0, 0],
    [192, 0, 2, 1],
    [198, 51, 100, 7],
    [172, 16, 3, 4],
    [10, 0, 0, 255],
    [223, 255, 255, 255],
    [1, 0, 0, 1],
    [128, 0, 0, 1],
    [247, 9, 9, 9],
];

const SPECIAL6: [&str; 16] = [
    "::",
    "::1",
    "::ffff:10.0.0.2",
    "fe80::2",
    "febf::9",
    "ff02::1",
    "ff02::5",
    "ff0e::1",
    "2002::1",
    "64:ff9b::1",
    "fec0::1",
    "::2",
    "::1:0:0:1",
    "7fff::1",
    "8000::1",
    "2001:db8:ffff::1",
];

/// A prefix by two bytes.
pub fn prefix(six: bool, [kind, b]: [u8; 2]) -> (IpAddr, u8) {
    let low = kind & 15;
    let at = |kind: u8| address(six, [kind << 4 | low, b]);
    let (v4, v6, ip): (u8, u8, IpAddr) = match kind >> 4 {
        0 => (24, 64, at(0)),
        1 => (32, 128, at(0)),
        2 => (8, 32, at(0)),
        3 => (30, 126, at(0)),
        4 => (16, 64, at(4)),
        5 => (24, 80, at(4)),
        6 => (8, 48, at(4)),
        7 => (32, 128, at(4)),
        8 => (16, 64, at(5)),
        9 => (8, 48, at(5)),
        10 => (24, 80, at(6)),
        11 => (4, 8, at(7)),
        12 => (16, 64, at(7)),
        13 => (1, 1, at(7)),
        14 => (32, 128, at(7)),
        _ => (0, 0, at(4)),
    };
    (ip, if six { v6 } else { v4 })
}
