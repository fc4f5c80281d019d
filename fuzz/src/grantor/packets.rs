//! What a Gatekeeper sends, or cannot have sent.

use wire::build::Frame;
use wire::{checksum, ipv4};

use super::site::GATEKEEPER;
use crate::site::MACS;

/// Bits of `kind`: 0 to 2 what is with the inner packet; 3 more fragments; 4 a byte more; 5 what is with the
/// outer header, by `place`; 6 IPv6. Of `service`: the destination; 6 and 7 the outer ECN bits.
pub(super) fn packet([client, service, dscp, kind, len, place]: [u8; 6]) -> Vec<u8> {
    let is_v4 = kind & 64 == 0;
    let net = [20, 20, 20, 21][usize::from(service & 3)];
    let frame = if is_v4 {
        let from = std::net::SocketAddrV4::new([198, 51, 100, client].into(), 4_000);
        let to = std::net::SocketAddrV4::new([10, net, 0, 1].into(), 53);
        Frame::udp4(from, to)
    } else {
        let at = |ip, port| std::net::SocketAddrV6::new(ip, port, 0, 0);
        let net = 0x20 + u16::from(net) - 20;
        let from = std::net::Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, client.into());
        let to = std::net::Ipv6Addr::new(0x2001, 0xdb8, net, 0, 0, 0, 0, 1);
        Frame::udp6(at(from, 4_000), at(to, 53))
    };
    let frame = match kind & 7 {
        1 => frame.fragment(client.into(), u16::from(place) * 8, kind & 8 != 0),
        2 if is_v4 => frame.options(&[7, 4, 4, 0]),
        2 => frame.extension(60, [1, 4, 0, 0, 0, 0]),
        3 if !is_v4 => frame.claim_len(u16::from(len) * 16),
        4 => frame.claim_len(u16::from(len) * 7),
        _ => frame,
    };
    let len = usize::from(len.min(150)) * 8 + usize::from(kind & 16 != 0);
    let mut inner = frame.payload(&vec![kind; len]).build()[14..].to_vec();
    match (kind & 7, is_v4) {
        (3, true) => inner[10] ^= 0x55,
        (5, true) => inner[9] = 4,
        (5, false) => inner[6] = 41,
        (6, true) => inner[12] = 127,
        (6, false) => inner[8] = 0xff,
        (7, _) if place & 1 == 1 => inner[0] ^= 0x20,
        (7, false) => (inner[6], inner[40], inner[41]) = (60, 60, 255),
        _ => {}
    }
    if is_v4 && matches!(kind & 7, 5 | 6) {
        inner[10..12].fill(0);
        let sum = checksum::checksum(&inner[..20]).to_be_bytes();
        inner[10..12].copy_from_slice(&sum);
    }
    let wrong = if kind & 32 == 0 { 0 } else { 1 + place % 6 };
    if is_v4 {
        in_v4(dscp << 2 | service >> 6, &inner, wrong)
    } else {
        in_v6(dscp << 2 | service >> 6, &inner, wrong)
    }
}

fn in_v4(tos: u8, inner: &[u8], wrong: u8) -> Vec<u8> {
    let options: &[u8] = if wrong == 4 { &[7, 4, 4, 0] } else { &[] };
    let headers = ipv4::MIN_LEN + options.len();
    let mut outer = vec![0x40 | (headers / 4) as u8, tos, 0, 0, 0, 0, 0x40, 0, 64, 4, 0, 0];
    outer.extend([10, 0, if wrong == 1 { 9 } else { 2 }, 1, 10, 0, 2, 9]);
    outer.extend(options);
    let len = (headers + inner.len()) as u16;
    outer[2..4].copy_from_slice(&if wrong == 5 { len / 2 } else { len }.to_be_bytes());
    match wrong {
        2 => outer[6] = 0x20,
        3 => outer[9] = 41,
        6 => outer[14..16].copy_from_slice(&[1, tos]),
        _ => {}
    }
    let sum = checksum::checksum(&outer).to_be_bytes();
    outer[10..12].copy_from_slice(&sum);
    [&MACS[0][..], &GATEKEEPER, &[8, 0], &outer, inner].concat()
}

fn in_v6(class: u8, inner: &[u8], wrong: u8) -> Vec<u8> {
    let extension: &[u8] = match wrong {
        2 => &[41, 0, 0, 1, 0, 0, 0, 7],
        4 => &[41, 0, 1, 4, 0, 0, 0, 0],
        _ => &[],
    };
    let len = (inner.len() + extension.len()) as u16;
    let len = if wrong == 5 { len / 2 } else { len }.to_be_bytes();
    let next = match wrong {
        2 => 44,
        3 => 4,
        4 => 60,
        _ => 41,
    };
    let from = if wrong == 1 { "2001:db8:2::7" } else { "2001:db8:2::1" };
    let [from, to] = [from, "2001:db8:2::9"].map(|ip| {
        let ip: std::net::Ipv6Addr = ip.parse().expect("an address");
        ip.octets()
    });
    let head = [0x60 | class >> 4, class << 4, 0, 0, len[0], len[1], next, 255];
    [&MACS[0][..], &GATEKEEPER, &[0x86, 0xdd], &head, &from, &to, extension, inner].concat()
}
