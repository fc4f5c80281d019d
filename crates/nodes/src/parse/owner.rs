//! The worker that owns a pair of addresses. Every packet of the pair, whatever its ports, comes to
//! that worker, by any port that deals by pair.
//!
//! ```text
//!  pair ─ Toeplitz ─► its lowest 7 bits: the bucket ─► bucket % workers
//! ```
//!
//! Network cards compute the same ([`io::Spread::ByPair`]): the hash under the same key, and a
//! table of buckets. All ports share one key and one table, so a pair that comes in by two ports
//! has one owner. Most cards' tables have 128 buckets or a multiple; three workers get 43, 43 and
//! 42 of them.

use core::net::{Ipv4Addr, Ipv6Addr};

use io::ByPair;
use wire::ethernet;
use wire::pair::{self, Key, Toeplitz};

use super::flow;

/// The owner of each pair.
#[derive(Clone, Debug)]
pub struct Owners {
    key: Key,
    hash: Toeplitz,
    /// The worker of each bucket.
    workers: [u16; 1 << BITS],
}

/// Bits of a bucket.
const BITS: u32 = 7;

impl Owners {
    /// The owners among `workers` workers, with the key that `seed` gives.
    pub fn new(seed: u64, workers: u16) -> Owners {
        let key = pair::key(seed, BITS);
        let worker = |bucket| ByPair::queue(bucket as u32, workers);
        Owners { key, hash: Toeplitz::new(&key), workers: std::array::from_fn(worker) }
    }

    /// The worker that has every packet from one host to the other.
    #[inline]
    pub fn ipv4(&self, source: Ipv4Addr, destination: Ipv4Addr) -> usize {
        self.worker(self.hash.ipv4(source, destination))
    }

    /// The worker that has every packet from one host to the other.
    #[inline]
    pub fn ipv6(&self, source: Ipv6Addr, destination: Ipv6Addr) -> usize {
        self.worker(self.hash.ipv6(source, destination))
    }

    /// The worker of a whole frame, behind up to two tags; `None` for a frame that is not IP.
    #[inline]
    pub fn of_frame(&self, frame: &[u8]) -> Option<usize> {
        let (protocol, packet) = flow::packet(frame)?;
        let hash = match protocol {
            ethernet::IPV4 => self.hash.of_ipv4(packet),
            _ => self.hash.of_ipv6(packet),
        };
        hash.map(|hash| self.worker(hash))
    }

    /// The key and the table, for devices that deal by pair in hardware.
    pub fn by_pair(&self) -> ByPair {
        ByPair { key: self.key, bits: BITS }
    }

    #[inline]
    fn worker(&self, hash: u32) -> usize {
        self.workers[hash as usize % self.workers.len()].into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::{to_p0, udp4, udp6};
    use core::net::{SocketAddrV4, SocketAddrV6};
    use wire::build::Frame;
    use wire::vlan::Tag;

    #[test]
    fn frames_belong_to_whom_their_addresses_do() {
        let owners = Owners::new(3, 5);
        let mut seen = [[0; 5]; 2];
        for host in 0..200_u8 {
            let (from, to) = ([198, 51, 100, host].into(), [10, 0, host, 1].into());
            let four =
                |port| Frame::udp4(SocketAddrV4::new(from, port), SocketAddrV4::new(to, 3 * port));
            let owner = owners.ipv4(from, to);
            seen[0][owner] += 1;
            let tagged = four(3).tag(Tag::outer(5)).tag(Tag::new(6));
            let parts = [four(4).fragment(7, 0, true), four(5).fragment(7, 1480, false)];
            for frame in [four(1), four(2).tag(Tag::new(6)), tagged].into_iter().chain(parts) {
                assert_eq!(owners.of_frame(&to_p0(frame)), Some(owner));
            }
            let from = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 1, host.into());
            let to = Ipv6Addr::new(0x2001, 0xdb8, host.into(), 0, 0, 0, 0, 1);
            let six = |port| {
                let at = |host, port| SocketAddrV6::new(host, port, 0, 0);
                Frame::udp6(at(from, port), at(to, 3 * port))
            };
            let owner = owners.ipv6(from, to);
            seen[1][owner] += 1;
            let more = six(3).tag(Tag::new(6)).extension(60, [1, 4, 0, 0, 0, 0]);
            for frame in [six(1), six(2).tag(Tag::outer(5)).tag(Tag::new(6)), more] {
                assert_eq!(owners.of_frame(&to_p0(frame)), Some(owner));
            }
        }
        assert!(seen.as_flattened().iter().all(|n| (15..=70).contains(n)), "{seen:?}");
    }

    #[test]
    fn a_device_that_deals_by_pair_finds_the_same() {
        for workers in [1, 2, 3, 64, 200] {
            let owners = Owners::new(9, workers);
            let by = owners.by_pair();
            let hash = Toeplitz::new(&by.key);
            for host in 0..100 {
                let (from, to) = ([10, 0, 0, host].into(), [192, 0, 2, 1].into());
                let queue = ByPair::queue(by.bucket(hash.ipv4(from, to)), workers);
                assert_eq!(owners.ipv4(from, to), usize::from(queue));
            }
        }
    }

    #[test]
    fn any_bytes_have_an_owner_or_none() {
        let owners = Owners::new(1, 2);
        for frame in [to_p0(udp4("10.0.0.1")), to_p0(udp6("2001:db8::1").tag(Tag::new(6)))] {
            for len in 0..frame.len() {
                owners.of_frame(&frame[..len]);
            }
        }
        assert_eq!(owners.of_frame(&[0x81; 60]), None);
        assert_eq!(owners.of_frame(&[8, 6].repeat(30)), None);
    }
}
