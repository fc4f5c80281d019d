//! Frames by a few bytes: most are right, for some port; the others are wrong in one
//! thing each.

use std::net::{IpAddr, SocketAddrV4, SocketAddrV6};

use wire::arp;
use wire::build::Frame;
use wire::ethernet::Mac;
use wire::vlan::Tag;

use super::input::address;

/// The address of station `n`; also of the neighbours in network `n`.
pub fn station(n: u8) -> [u8; 6] {
    [2, 0, 0, 0, 5, n & 15]
}

/// Bytes of a frame's description.
pub const BYTES: usize = 10;

/// A frame. `mine` answers at its port.
pub fn frame(bytes: [u8; BYTES], mine: [u8; 6]) -> Vec<u8> {
    let [_, dst, src, kind, tags, a, b, from, length, ttl] = bytes;
    let (low, high) = (dst & 15, dst >> 4);
    let from_mac = match src >> 4 {
        13 => mine,
        14 => [0; 6],
        15 => [1, 0, 0x5e, 0, 0, src & 15],
        _ => station(src),
    };
    let to = match low {
        0..=3 => mine,
        4 => [0xff; 6],
        5 => [1, 0, 0x5e, 0, 0, high],
        6 => [1, 0x80, 0xc2, 0, 0, high],
        7 => [0x33, 0x33, 0, 0, 0, high],
        8 => super::plan::own_mac(usize::from(high & 1)),
        9 => from_mac,
        _ => station(high),
    };
    let six = matches!(kind & 7, 2 | 3 | 6);
    let dst = address(six, [a, b]);
    let src = match from {
        0..=15 => address(six, [from & 15, 5]),
        16..=31 => address(six, [0x70 | from & 15, 1]),
        240.. => address(six, [from & 15, 1]),
        _ => address(six, [0x50 | from & 15, from >> 4]),
    };
    let payload = vec![0xa5; payload(length)];
    let mut frame = upper(kind, (src, dst), length).payload(&payload).ttl(ttl);
    if kind & 7 == 4 {
        let Some((mac, ip)) = Some(Mac(from_mac)).zip(v4(src)) else { return Vec::new() };
        let (target_mac, target_ip) = (Mac([0; 6]), v4(dst).unwrap_or(ip));
        let operation = arp::REQUEST;
        let header =
            arp::Header { operation, sender_mac: mac, sender_ip: ip, target_mac, target_ip };
        frame = Frame::arp(header);
    }
    frame = match kind >> 3 {
        1 => frame.options(&[7, 4, 4, 0]),
        2 => frame.fragment(7, 64, true),
        3 => frame.wrong_ip_checksum(),
        4 => frame.claim_len(u16::from(length)),
        5 => frame.pad_to(60),
        6 => frame.pad_to(200),
        7 if six => frame.extension(0, [1, 4, 0, 0, 0, 0]),
        _ => frame,
    };
    for (i, id) in tag_list(tags).iter().enumerate() {
        let tpid = if i == 0 && tags & 16 != 0 { 0x88a8 } else { 0x8100 };
        frame = frame.tag(Tag { tpid, tci: u16::from(tags & 0xe0) << 8 | id });
    }
    let frame = frame.macs(Mac(from_mac), Mac(to));
    let mut bytes = vec![0; 2048];
    let written = frame.emit(&mut bytes).unwrap_or(0);
    bytes.truncate(written);
    bytes
}

fn upper(kind: u8, (src, dst): (IpAddr, IpAddr), length: u8) -> Frame<'static> {
    let ports = (4000 + u16::from(length), if kind & 1 == 0 { 53 } else { 179 });
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let (from, to) = (SocketAddrV4::new(src, ports.0), SocketAddrV4::new(dst, ports.1));
            match kind & 7 {
                0 => Frame::udp4(from, to),
                1 => Frame::tcp4(from, to, 2),
                5 => Frame::other(0x88b5),
                _ => Frame::icmp4_echo(src, dst, 1, length.into()),
            }
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let from = SocketAddrV6::new(src, ports.0, 0, 0);
            let to = SocketAddrV6::new(dst, ports.1, 0, 0);
            match kind & 7 {
                2 => Frame::udp6(from, to),
                3 => Frame::tcp6(from, to, 2),
                _ => Frame::icmp6_echo(src, dst, 1, length.into()),
            }
        }
        _ => Frame::other(0x88b5),
    }
}

fn v4(ip: IpAddr) -> Option<std::net::Ipv4Addr> {
    if let IpAddr::V4(ip) = ip { Some(ip) } else { None }
}

/// Short ones, and those about the MTUs.
fn payload(length: u8) -> usize {
    match length {
        0..=199 => length.into(),
        200..=211 => 1346 + usize::from(length - 200) * 4,
        212..=223 => 1368 + usize::from(length - 212),
        224..=239 => 1450 + usize::from(length - 224),
        _ => 1464 + usize::from(length - 240) * 3,
    }
}

/// VLANs, outermost first.
fn tag_list(tags: u8) -> &'static [u16] {
    match tags & 15 {
        0..=3 => &[],
        4 => &[10],
        5 => &[20],
        6 => &[30],
        7 => &[100],
        8 => &[7, 8],
        9 => &[0],
        10 => &[10, 77],
        11 => &[20, 77, 78],
        12 => &[4095],
        13 => &[77],
        14 => &[77, 78],
        _ => &[0, 5],
    }
}
