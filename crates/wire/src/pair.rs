//! The hash of a packet's pair, its two addresses, as network cards compute it:
//! Toeplitz. So software and cards agree which worker has a pair.
//!
//! ```text
//!  key    ├──────── 320 bits ────────────────────────────┤
//!  bit i of the addresses is 1: the 32 bits of the key from i on are in the sum (xor)
//!
//!  IPv4   source · destination     64 bits
//!  IPv6   source · destination    256 bits
//! ```
//!
//! Ports, protocol, fragments, options and extension headers do not count: all packets
//! between two hosts, one way, have one hash.
//!
//! | cost  | reads of 4 bytes, from tables that the key makes |
//! |-------|---------------------------------------------------|
//! | IPv4  | 16, of 1 KiB                                      |
//! | IPv6  | 64, of 4 KiB                                      |
//!
//! Tables by whole bytes halve the reads, and take 32 KiB: two thirds of a core's
//! first-level cache, for a hash beside which a lookup has to fit.
//!
//! Source: Krawczyk, CRYPTO 1994; the order of fields, and what the tests compare with,
//! is "Verifying the RSS Hash Calculation" of Microsoft's driver documentation.

use core::net::{Ipv4Addr, Ipv6Addr};

use crate::flow::split_mix;
use crate::{ipv4, ipv6};

/// A key, as cards take it.
pub type Key = [u8; KEY];

/// Bytes of a key: those of two IPv6 addresses, and 32 bits, and room for two ports.
pub const KEY: usize = 40;

/// Hashes pairs under one key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Toeplitz {
    /// What each value of each half of a byte adds, the upper half first.
    tables: [[u32; 16]; HALVES],
}

/// Halves of the bytes of two IPv6 addresses.
const HALVES: usize = 64;

impl Toeplitz {
    /// The hash under `key`.
    pub const fn new(key: &Key) -> Self {
        let mut tables = [[0; 16]; HALVES];
        let mut bit = 0;
        while bit < 4 * HALVES {
            let (table, value) = (bit / 4, 8 >> (bit % 4));
            let mut entry = 0;
            while entry < 16 {
                if entry & value != 0 {
                    tables[table][entry] ^= window(key, bit);
                }
                entry += 1;
            }
            bit += 1;
        }
        Toeplitz { tables }
    }

    /// Of two addresses.
    #[inline]
    pub fn ipv4(&self, source: Ipv4Addr, destination: Ipv4Addr) -> u32 {
        self.at(0, &source.octets()) ^ self.at(8, &destination.octets())
    }

    /// Of two addresses.
    #[inline]
    pub fn ipv6(&self, source: Ipv6Addr, destination: Ipv6Addr) -> u32 {
        self.at(0, &source.octets()) ^ self.at(32, &destination.octets())
    }

    /// Of the IPv4 packet that starts at its header; `None` of fewer than 20 bytes.
    #[inline]
    pub fn of_ipv4(&self, packet: &[u8]) -> Option<u32> {
        let header = packet.first_chunk::<{ ipv4::MIN_LEN }>()?;
        Some(self.at(0, &header[ipv4::SRC..ipv4::DST + 4]))
    }

    /// Of the IPv6 packet that starts at its header; `None` of fewer than 40 bytes.
    #[inline]
    pub fn of_ipv6(&self, packet: &[u8]) -> Option<u32> {
        let header = packet.first_chunk::<{ ipv6::LEN }>()?;
        Some(self.at(0, &header[ipv6::SRC..ipv6::DST + 16]))
    }

    /// What `bytes` add, the first of which is half `first` of the addresses.
    #[inline(always)]
    fn at(&self, first: usize, bytes: &[u8]) -> u32 {
        let tables = self.tables[first..].chunks_exact(2);
        bytes.iter().zip(tables).fold(0, |sum, (byte, halves)| {
            sum ^ halves[0][usize::from(byte >> 4)] ^ halves[1][usize::from(byte & 15)]
        })
    }

    /// Whether neighbours are dealt evenly by the lowest `bits` of the hash: the 256
    /// values of the last byte of each address meet all values of these bits equally
    /// often. Toeplitz is linear, so it takes as many independent sums of the byte's bits.
    fn is_even(&self, bits: u32) -> bool {
        LAST_BYTES.iter().all(|byte| {
            let of = |table: usize, bit: usize| self.tables[2 * byte + table][1 << bit];
            let mut sums = [0; 8];
            for (i, sum) in sums.iter_mut().enumerate() {
                *sum = of(1 - i / 4, i % 4) & ((1 << bits) - 1);
            }
            rank(sums) == bits
        })
    }
}

/// Of both addresses of IPv4 and of IPv6, within what is hashed.
const LAST_BYTES: [usize; 4] = [3, 7, 15, 31];

/// How many of `words` are independent under xor.
fn rank(mut words: [u32; 8]) -> u32 {
    let mut rank = 0;
    for i in 0..words.len() {
        let pivot = words[i];
        if pivot != 0 {
            rank += 1;
            let lowest = pivot & pivot.wrapping_neg();
            words.iter_mut().skip(i + 1).filter(|word| **word & lowest != 0).for_each(|word| {
                *word ^= pivot;
            });
        }
    }
    rank
}

/// A key that `seed` alone decides, and under which the lowest `bits` (7 at most) of the
/// hash deal neighbouring hosts evenly. Under one in nine keys they do: another leaves out
/// half of the values for the hosts of some /24, under a few all but one of two workers.
pub fn key(mut seed: u64, bits: u32) -> Key {
    loop {
        let mut key = [0; KEY];
        for word in key.chunks_exact_mut(8) {
            let drawn;
            (seed, drawn) = split_mix(seed);
            word.copy_from_slice(&drawn.to_be_bytes());
        }
        if Toeplitz::new(&key).is_even(bits.min(7)) {
            return key;
        }
    }
}

/// The 32 bits of `key` from bit `at` on, which is at most 288.
pub const fn window(key: &Key, at: usize) -> u32 {
    let (mut word, mut i) = (0_u64, 0);
    while i < 5 {
        let place = at / 8 + i;
        word = word << 8 | if place < KEY { key[place] as u64 } else { 0 };
        i += 1;
    }
    (word >> (8 - at % 8)) as u32
}

#[cfg(test)]
mod tests {
    use core::net::{SocketAddrV4, SocketAddrV6};
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::build::Frame;
    use crate::ethernet;
    use crate::protocol::HOP_BY_HOP;

    /// Microsoft's.
    const PUBLISHED: Key = [
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f,
        0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
        0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
    ];

    /// The rows of addresses alone.
    #[test]
    fn published_hashes() {
        let hash = Toeplitz::new(&PUBLISHED);
        for (destination, source, want) in [
            ("161.142.100.80", "66.9.149.187", 0x323e_8fc2),
            ("65.69.140.83", "199.92.111.2", 0xd718_262a),
            ("12.22.207.184", "24.19.198.95", 0xd2d0_a5de),
            ("209.142.163.6", "38.27.205.30", 0x8298_9176),
            ("202.188.127.2", "153.39.163.191", 0x5d18_09c5),
        ] {
            let got = hash.ipv4(source.parse().unwrap(), destination.parse().unwrap());
            assert_eq!(got, want, "{source} {destination}");
        }
        for (destination, source, want) in [
            ("3ffe:2501:200:3::1", "3ffe:2501:200:1fff::7", 0x2cc1_8cd5),
            ("ff02::1", "3ffe:501:8::260:97ff:fe40:efab", 0x0f0c_461c),
            ("fe80::200:f8ff:fe21:67cf", "3ffe:1900:4545:3:200:f8ff:fe21:67cf", 0x4b61_e985),
        ] {
            let got = hash.ipv6(source.parse().unwrap(), destination.parse().unwrap());
            assert_eq!(got, want, "{source} {destination}");
        }
    }

    #[test]
    fn packets_have_the_hash_of_their_addresses() {
        let hash = Toeplitz::new(&PUBLISHED);
        let of = |frame: Frame<'_>| {
            let built = frame.build();
            let packet = &built[ethernet::LEN..];
            if packet[0] >> 4 == 4 { hash.of_ipv4(packet) } else { hash.of_ipv6(packet) }
        };
        let at4 = |host: [u8; 4], port| SocketAddrV4::new(host.into(), port);
        let at6 = |host, port| SocketAddrV6::new(host, port, 0, 0);
        let four = |port| Frame::udp4(at4([192, 0, 2, 1], port), at4([10, 1, 2, 3], 9 + port));
        let want = Some(hash.ipv4([192, 0, 2, 1].into(), [10, 1, 2, 3].into()));
        let parts = [four(1).fragment(7, 0, true), four(2).fragment(7, 1480, false)];
        for frame in [four(1), four(2), four(1).options(&[1; 40])].into_iter().chain(parts) {
            assert_eq!(of(frame), want);
        }
        let hosts = ["2001:db8::1", "2001:db8:7::2"].map(|host| host.parse::<Ipv6Addr>().unwrap());
        let six = |port| Frame::udp6(at6(hosts[0], port), at6(hosts[1], 9 + port));
        let want = Some(hash.ipv6(hosts[0], hosts[1]));
        let more = six(3).extension(HOP_BY_HOP, [1, 4, 0, 0, 0, 0]);
        for frame in [six(1), six(2), more, six(1).fragment(7, 0, true)] {
            assert_eq!(of(frame), want);
        }
        assert_ne!(want, Some(hash.ipv6(hosts[1], hosts[0])), "the way back is another pair");
        assert_eq!((hash.of_ipv4(&[0x45; 19]), hash.of_ipv6(&[0x60; 39])), (None, None));
    }

    /// Whatever the seed: hosts that count up, over workers dealt by the lowest bits.
    #[test]
    fn no_drawn_key_deals_unevenly() {
        for seed in 0..200 {
            let hash = Toeplitz::new(&key(seed, 7));
            for fixed in [0_u32, 0xc000_0201, 0x0a00_0100] {
                let mut counts = [[0; 128]; 2];
                for host in 0..256 {
                    let (a, b) = (Ipv4Addr::from(fixed), Ipv4Addr::from(0xc633_6400 + host));
                    counts[0][(hash.ipv4(a, b) & 127) as usize] += 1;
                    counts[1][(hash.ipv4(b, a) & 127) as usize] += 1;
                }
                assert_eq!(counts, [[2; 128]; 2], "seed {seed}");
            }
            let mut counts = [0; 128];
            for host in 0..256 {
                let to = Ipv6Addr::from(0x2001_0db8_u128 << 96 | host);
                counts[(hash.ipv6(Ipv6Addr::LOCALHOST, to) & 127) as usize] += 1;
            }
            assert_eq!(counts, [2; 128], "seed {seed}");
        }
        assert_ne!(key(1, 7), key(2, 7));
        assert!(!Toeplitz::new(&[0; KEY]).is_even(1));
    }

    proptest! {
        /// The tables against the definition, a bit at a time.
        #[test]
        fn tables_are_the_definition(key in any::<[u8; 20]>(), bytes in any::<[[u8; 16]; 2]>()) {
            let mut whole = [0; KEY];
            whole[..20].copy_from_slice(&key);
            whole[20..].copy_from_slice(&key.map(|byte| byte.rotate_left(3) ^ 0x5a));
            let bit = |bytes: &[u8], i: usize| bytes[i / 8] >> (7 - i % 8) & 1;
            let input = bytes.as_flattened();
            let set: Vec<usize> = (0..256).filter(|i| bit(input, *i) == 1).collect();
            let from = |i: usize| (0..32).fold(0, |w, k| w << 1 | u32::from(bit(&whole, i + k)));
            let want = set.iter().fold(0, |sum, i| sum ^ from(*i));
            let got = Toeplitz::new(&whole).ipv6(bytes[0].into(), bytes[1].into());
            prop_assert_eq!(got, want);
        }
    }
}
