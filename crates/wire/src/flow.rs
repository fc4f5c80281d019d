//! The flow of a packet as a 32-bit hash: packets of one flow have one hash, so
//! ECMP and the spreading over workers keep their order.
//!
//! A flow is addresses, protocol and ports; of a fragment, the first included,
//! addresses and protocol only, since later fragments have no ports and must not
//! take another path than the first.
//!
//! ```text
//!  IPv4   mix(fold(src dst ^ k0 × protocol ports ^ k1))     fold(a × b) = upper ^ lower 64 bits
//!  IPv6   mix(fold(fold(src ^ k2) ^ fold(dst ^ k3) … × protocol ports ^ k1))
//!                                                           mix(h) = upper half of h × constant
//! ```
//!
//! | cost               | multiplications of 64 × 64 bits |
//! |--------------------|---------------------------------|
//! | IPv4               | 2                               |
//! | IPv6               | 4; with extension headers a walk over them |
//!
//! Without the last multiplication, flows whose ports or hosts count up have hashes
//! that count up too, in steps that the key decides. Under one key in eighty one of
//! four paths had under two thirds or over four thirds of its share of 512 flows,
//! under one in 600 none at all: steps of half of the range leave out every other
//! quarter. To fold the halves instead is no better.
//!
//! One multiply-fold costs as much as CRC32 of 12 bytes, a third of Toeplitz by tables, needs
//! no instruction beyond the base set, and can be keyed. Numbers are in memory order, so that no
//! word of an IPv6 flow is swapped. The key keeps an outsider from choosing flows that share a
//! path.

use crate::bytes::{array, be16};
use crate::protocol::has_ports;
use crate::{ipv4, ipv6};

/// Hashes flows under one key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Hasher {
    keys: [u64; 6],
}

impl Hasher {
    /// A hasher whose keys are drawn from `seed`; the same seed gives the same hashes.
    pub const fn new(mut seed: u64) -> Self {
        let mut keys = [0; 6];
        let mut i = 0;
        while i < keys.len() {
            (seed, keys[i]) = split_mix(seed);
            i += 1;
        }
        Hasher { keys }
    }

    /// The flow of an IPv4 packet that starts at its header. Give 64 bytes, as an
    /// array, where they are readable; no length is trusted, and of fewer than 20
    /// bytes the flow is 0.
    #[inline(always)]
    pub fn ipv4(&self, packet: &[u8]) -> u32 {
        let Some(header) = packet.first_chunk::<{ ipv4::MIN_LEN }>() else { return 0 };
        let protocol = header[ipv4::PROTOCOL];
        let header_len = usize::from(header[ipv4::VERSION_IHL] & 15) * 4;
        let whole = !ipv4::is_fragment(be16(header, ipv4::FRAGMENT));
        let ports = if whole & has_ports(protocol) { ports(packet, header_len) } else { 0 };
        let addresses = u64::from_le_bytes(array(header, ipv4::SRC));
        mix(fold(addresses ^ self.keys[0], last(protocol, ports) ^ self.keys[1]))
    }

    /// The flow of an IPv6 packet that starts at its header; as [`Hasher::ipv4`].
    /// The upper layer's protocol and ports are found behind extension headers
    /// where `packet` reaches that far; else the last next header seen counts.
    #[inline(always)]
    pub fn ipv6(&self, packet: &[u8]) -> u32 {
        let Some(header) = packet.first_chunk::<{ ipv6::LEN }>() else { return 0 };
        let next = header[ipv6::NEXT_HEADER];
        let (protocol, ports) = if has_ports(next) {
            (next, ports(packet, ipv6::LEN))
        } else if ipv6::is_extension(next) {
            upper(next, &packet[ipv6::LEN..])
        } else {
            (next, 0)
        };
        let word = |at| u64::from_le_bytes(array(header, at));
        let src = fold(word(ipv6::SRC) ^ self.keys[2], word(ipv6::SRC + 8) ^ self.keys[3]);
        let dst = fold(word(ipv6::DST) ^ self.keys[4], word(ipv6::DST + 8) ^ self.keys[5]);
        // Rotated, so that swapping source and destination swaps nothing away.
        let addresses = src ^ dst.rotate_left(32);
        mix(fold(addresses ^ self.keys[0], last(protocol, ports) ^ self.keys[1]))
    }
}

/// Protocol and ports behind extension headers.
#[cold]
fn upper(next: u8, payload: &[u8]) -> (u8, u32) {
    match ipv6::walk(next, payload) {
        Ok(chain) if chain.fragment.is_none() && has_ports(chain.protocol) => {
            (chain.protocol, ports(payload, chain.at))
        }
        Ok(chain) => (chain.protocol, 0),
        Err(_) => (next, 0),
    }
}

/// Source and destination port at `at`, in memory order, or 0 where the bytes end before.
#[inline(always)]
fn ports(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |ports| u32::from_le_bytes(array(ports, 0)))
}

#[inline(always)]
fn last(protocol: u8, ports: u32) -> u64 {
    u64::from(protocol) << 32 | u64::from(ports)
}

#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product >> 64) as u64 ^ product as u64
}

/// 32 bits each of which depends on every bit of `hash` at or below its place, and
/// so on both halves.
#[inline(always)]
fn mix(hash: u64) -> u32 {
    (hash.wrapping_mul(GOLDEN) >> 32) as u32
}

/// 2^64 over the golden ratio, odd: its multiples lie far apart.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// SplitMix64: the next state, and a number (Steele, Lea, Flood, OOPSLA 2014).
pub(crate) const fn split_mix(state: u64) -> (u64, u64) {
    let state = state.wrapping_add(GOLDEN);
    let z = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (state, z ^ z >> 31)
}

#[cfg(test)]
mod tests {
    use core::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};
    use std::vec;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::build::Frame;
    use crate::ethernet;
    use crate::protocol::{DESTINATION_OPTIONS, HOP_BY_HOP};

    const HASHER: Hasher = Hasher::new(1);

    fn a4(host: u32, port: u16) -> SocketAddrV4 {
        SocketAddrV4::new(Ipv4Addr::from(0x0a00_0000 + host), port)
    }

    fn a6(host: u128, port: u16) -> SocketAddrV6 {
        SocketAddrV6::new(Ipv6Addr::from((0x2001_0db8 << 96) + host), port, 0, 0)
    }

    fn flow(frame: Frame<'_>) -> u32 {
        let built = frame.build();
        let packet = &built[ethernet::LEN..];
        if packet[0] >> 4 == 4 { HASHER.ipv4(packet) } else { HASHER.ipv6(packet) }
    }

    #[test]
    fn every_field_of_the_five_counts() {
        let flows = [
            flow(Frame::udp4(a4(1, 1), a4(2, 2))),
            flow(Frame::udp4(a4(3, 1), a4(2, 2))),
            flow(Frame::udp4(a4(1, 1), a4(3, 2))),
            flow(Frame::udp4(a4(1, 3), a4(2, 2))),
            flow(Frame::udp4(a4(1, 1), a4(2, 3))),
            flow(Frame::tcp4(a4(1, 1), a4(2, 2), 0)),
            flow(Frame::udp6(a6(1, 1), a6(2, 2))),
            flow(Frame::udp6(a6(3, 1), a6(2, 2))),
            flow(Frame::udp6(a6(1, 1), a6(3, 2))),
            flow(Frame::udp6(a6(1, 3), a6(2, 2))),
            flow(Frame::udp6(a6(1, 1), a6(2, 3))),
            flow(Frame::tcp6(a6(1, 1), a6(2, 2), 0)),
        ];
        for (i, flow) in flows.iter().enumerate() {
            assert!(!flows[..i].contains(flow), "{i}");
        }
        assert_eq!(flows[0], flow(Frame::udp4(a4(1, 1), a4(2, 2)).ttl(9).payload(b"more")));
    }

    #[test]
    fn fragments_share_a_flow_whatever_they_carry() {
        let v4 = |at, more, port| flow(Frame::udp4(a4(1, port), a4(2, 2)).fragment(7, at, more));
        assert_eq!(v4(0, true, 1), v4(1480, false, 9));
        assert_eq!(v4(0, true, 1), v4(0, true, 9));
        assert_ne!(v4(0, true, 1), flow(Frame::udp4(a4(1, 1), a4(2, 2))));
        let v6 = |at, more, port| flow(Frame::udp6(a6(1, port), a6(2, 2)).fragment(7, at, more));
        assert_eq!(v6(0, true, 1), v6(1480, false, 9));
    }

    #[test]
    fn options_and_extensions_do_not_change_the_flow() {
        let options = [1; 40];
        let (plain, with) = (Frame::udp4(a4(1, 1), a4(2, 2)), Frame::udp4(a4(1, 1), a4(2, 2)));
        assert_eq!(flow(plain), flow(with.options(&options)));
        let frame = || Frame::udp6(a6(1, 1), a6(2, 2));
        let extended = frame().extension(HOP_BY_HOP, [1, 4, 0, 0, 0, 0]);
        let extended = extended.extension(DESTINATION_OPTIONS, [1, 4, 0, 0, 0, 0]);
        assert_eq!(flow(frame()), flow(extended));
    }

    /// Chi-square of `n` hashes over `ways`, reduced as by ECMP: multiply, shift.
    fn chi_square(flows: &[u32], ways: usize) -> f64 {
        let mut count = vec![0_u32; ways];
        for &flow in flows {
            count[(flow as usize * ways) >> 32] += 1;
        }
        let mean = flows.len() as f64 / ways as f64;
        count.iter().map(|&n| (f64::from(n) - mean).powi(2) / mean).sum()
    }

    #[test]
    fn neighbouring_flows_spread_evenly() {
        let by_port: Vec<u32> =
            (0..8192).map(|i| flow(Frame::udp4(a4(1, 1024 + i), a4(2, 53)))).collect();
        let by_host: Vec<u32> =
            (0..8192).map(|i| flow(Frame::udp4(a4(i, 1024), a4(2, 53)))).collect();
        let by_dst6: Vec<u32> =
            (0..8192).map(|i| flow(Frame::udp6(a6(1, 1024), a6(i, 53)))).collect();
        for (name, flows) in [("port", by_port), ("host", by_host), ("dst6", by_dst6)] {
            for ways in [2, 3, 8, 64] {
                let (chi, most) =
                    (chi_square(&flows, ways), ways as f64 + 6.0 * (2.0 * ways as f64).sqrt());
                assert!(chi < most, "{name} over {ways}: {chi} > {most}");
            }
        }
    }

    /// Of the flows of one pair of hosts, whatever the key.
    #[test]
    fn no_key_spreads_badly() {
        let mut packets: Vec<_> = (0..512)
            .map(|i| Frame::udp4(a4(1, 1024 + i), a4(2, 9)).build()[ethernet::LEN..].to_vec())
            .collect();
        packets.iter_mut().for_each(|packet| packet.truncate(28));
        for seed in 0..1000 {
            let hasher = Hasher::new(seed);
            let mut count = [0; 4];
            for packet in &packets {
                count[(hasher.ipv4(packet) >> 30) as usize] += 1;
            }
            // Five standard deviations.
            assert!(count.iter().all(|n| (79..=177).contains(n)), "seed {seed}: {count:?}");
        }
    }

    #[test]
    fn seeds_give_different_flows() {
        let frame = Frame::udp4(a4(1, 1), a4(2, 2)).build();
        let packet = &frame[ethernet::LEN..];
        assert_ne!(Hasher::new(1).ipv4(packet), Hasher::new(2).ipv4(packet));
    }

    proptest! {
        #[test]
        fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..120), next in 0_u8..64) {
            HASHER.ipv4(&bytes);
            let mut bytes = bytes;
            if let Some(byte) = bytes.get_mut(ipv6::NEXT_HEADER) {
                *byte = next;
            }
            HASHER.ipv6(&bytes);
        }
    }
}
