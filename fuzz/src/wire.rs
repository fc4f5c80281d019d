//! Headers: nothing panics, and what was parsed is emitted as it was.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};

use wire::build::Frame;
use wire::bytes::{be16, put16};
use wire::ethernet::Mac;
use wire::flow::Hasher;
use wire::icmpv6::Neighbour;
use wire::protocol::{DESTINATION_OPTIONS, HOP_BY_HOP, OSPF, ROUTING};
use wire::vlan::{Stack, Tag};
use wire::{arp, describe, ethernet, icmp, icmpv6, ipv4, ipv6, tcp, udp};

/// A frame, from the outside in.
pub fn packet(frame: &[u8]) {
    let line = describe::Frame(frame).to_string();
    assert!(!line.is_empty() && !line.contains('\n'));
    let Ok(stack) = Stack::parse(frame) else { return };
    let packet = &frame[stack.payload_at()..];
    let hasher = Hasher::new(1);
    let _ = describe::Packet(packet).to_string();
    if let Ok(view) = ipv4::View::new(packet) {
        let _ = ipv4::Options::new(view.options()).count();
        let _ = udp::View::new(view.payload()).map(|udp| udp.checksum_ok4(view.src(), view.dst()));
        let _ = tcp::View::new(view.payload()).map(|tcp| tcp.checksum_ok4(view.src(), view.dst()));
    }
    if let Ok(view) = ipv6::View::new(packet) {
        let whole = ipv6::LEN + usize::from(view.payload_len());
        if let Ok((chain, upper)) = view.upper() {
            assert!(chain.at + upper.len() + ipv6::LEN == whole);
            let (src, dst) = (view.src(), view.dst());
            let _ = udp::View::new(upper).map(|udp| udp.checksum_ok6(src, dst));
            let _ = tcp::View::new(upper).map(|tcp| tcp.checksum_ok6(src, dst));
            let _ = icmpv6::checksum_ok(src, dst, upper);
            let _ = Neighbour::parse(upper);
        }
        hasher.ipv6(&packet[..whole]);
        if let Ok(options) = ipv6::Options::new(view.payload()) {
            let _ = options.count();
        }
    }
    hasher.ipv4(packet);
    hasher.ipv6(packet);
}

/// Bytes as each header: emit after parse gives the bytes back.
pub fn headers(bytes: &[u8]) {
    let mut out = [0; 64];
    if let Ok(header) = ethernet::Header::parse(bytes) {
        let n = header.emit(&mut out).unwrap();
        assert_eq!(out[..n], bytes[..n]);
    }
    if let Ok(header) = arp::Header::parse(bytes) {
        let n = header.emit(&mut out).unwrap();
        assert_eq!(out[..n], bytes[..n]);
    }
    if let Ok(view) = ipv4::View::quoted(bytes) {
        let n = ipv4::Header::of(&view).emit(&mut out).unwrap();
        assert_eq!(view.checksum_ok(), same_sum(&out, bytes, ipv4::CHECKSUM));
        put16(&mut out, ipv4::CHECKSUM, be16(bytes, ipv4::CHECKSUM));
        assert_eq!(out[..n], bytes[..n]);
    }
    if let Ok(view) = ipv6::View::quoted(bytes) {
        let n = ipv6::Header::of(&view).emit(&mut out).unwrap();
        assert_eq!(out[..n], bytes[..n]);
    }
    if let Ok(header) = icmp::Header::parse(bytes) {
        let n = header.emit(&mut out).unwrap();
        put16(&mut out, icmp::CHECKSUM, be16(bytes, icmp::CHECKSUM));
        assert_eq!(out[..n], bytes[..n]);
    }
    if let Ok(header) = udp::Header::parse(bytes) {
        let n = header.emit(&mut out).unwrap();
        put16(&mut out, udp::CHECKSUM, be16(bytes, udp::CHECKSUM));
        assert_eq!(out[..n], bytes[..n]);
    }
    if let Ok(header) = tcp::Header::parse(bytes) {
        let n = header.emit(&mut out).unwrap();
        put16(&mut out, tcp::CHECKSUM, be16(bytes, tcp::CHECKSUM));
        assert_eq!(out[..n], bytes[..n]);
    }
    if let Ok(message) = Neighbour::parse(bytes) {
        let n = message.emit(&mut out).unwrap();
        assert_eq!(Neighbour::parse(&out[..n]), Ok(message));
    }
}

/// 0x0000 and 0xffff are the same sum.
fn same_sum(emitted: &[u8], bytes: &[u8], at: usize) -> bool {
    be16(emitted, at) % 0xffff == be16(bytes, at) % 0xffff
}

/// One frame of each kind; the headers without what is before them too.
pub fn seeds() -> Vec<(&'static str, String, Vec<u8>)> {
    let (a, b) = (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(198, 51, 100, 2));
    let (a6, b6): (Ipv6Addr, Ipv6Addr) =
        ("2001:db8::1".parse().unwrap(), "2001:db8:1::2".parse().unwrap());
    let (s4, d4) = (SocketAddrV4::new(a, 1000), SocketAddrV4::new(b, 53));
    let (s6, d6) = (SocketAddrV6::new(a6, 1000, 0, 0), SocketAddrV6::new(b6, 53, 0, 0));
    let mac = Mac([2, 0, 0, 0, 0, 1]);
    let solicitation =
        Neighbour { kind: icmpv6::NEIGHBOUR_SOLICITATION, flags: 0, target: b6, mac: Some(mac) };
    let advertisement = Neighbour {
        kind: icmpv6::NEIGHBOUR_ADVERTISEMENT,
        flags: 0xe0,
        target: a6,
        mac: Some(mac),
    };
    let request = arp::Header {
        operation: arp::REQUEST,
        sender_mac: mac,
        sender_ip: a,
        target_mac: Mac::default(),
        target_ip: b,
    };
    let error = icmp::Header { kind: icmp::UNREACHABLE, code: 4, rest: [0, 0, 5, 0] };
    let quoted = Frame::udp4(s4, d4).payload(b"quoted").build();
    let frames = [
        ("udp4", Frame::udp4(s4, d4).payload(b"hello")),
        ("udp4_options", Frame::udp4(s4, d4).options(&[148, 4, 0, 0, 7, 3, 0, 0])),
        ("udp4_first_fragment", Frame::udp4(s4, d4).fragment(7, 0, true).payload(&[1; 16])),
        ("udp4_last_fragment", Frame::udp4(s4, d4).fragment(7, 24, false).payload(&[1; 16])),
        ("udp4_too_long", Frame::udp4(s4, d4).claim_len(999)),
        ("tcp4_syn", Frame::tcp4(s4, d4, tcp::SYN).pad_to(ethernet::MIN_FRAME)),
        ("icmp4_echo", Frame::icmp4_echo(a, b, 1, 2).payload(&[5; 20])),
        ("icmp4_too_big", Frame::icmp4(a, b, error).payload(&quoted[ethernet::LEN..])),
        ("ospf4", Frame::ipv4(a, b, OSPF).ttl(1).payload(&[2, 1, 0, 44])),
        ("udp6", Frame::udp6(s6, d6).payload(b"hello")),
        ("udp6_alert", Frame::udp6(s6, d6).extension(HOP_BY_HOP, [5, 2, 0, 0, 1, 0])),
        (
            "udp6_chain",
            Frame::udp6(s6, d6)
                .extension(HOP_BY_HOP, [1, 4, 0, 0, 0, 0])
                .extension(ROUTING, [0; 6])
                .extension(DESTINATION_OPTIONS, [1, 4, 0, 0, 0, 0])
                .fragment(9, 0, true),
        ),
        ("udp6_last_fragment", Frame::udp6(s6, d6).fragment(9, 1232, false).payload(&[3; 9])),
        ("tcp6_ack", Frame::tcp6(s6, d6, tcp::ACK | tcp::PSH).payload(b"GET")),
        ("icmp6_echo", Frame::icmp6_echo(a6, b6, 1, 2).payload(&[5; 20])),
        ("solicitation", Frame::neighbour(a6, b6, solicitation)),
        ("advertisement", Frame::neighbour(b6, a6, advertisement)),
        ("arp", Frame::arp(request).pad_to(ethernet::MIN_FRAME)),
        ("vlan", Frame::udp4(s4, d4).tag(Tag::new(100))),
        ("qinq", Frame::udp6(s6, d6).tag(Tag::outer(7)).tag(Tag::new(8))),
        ("three_tags", Frame::udp4(s4, d4).tag(Tag::outer(7)).tag(Tag::new(8)).tag(Tag::new(9))),
        ("llc", Frame::other(38).payload(&[0x42, 0x42, 3, 0])),
    ];
    let mut seeds = Vec::new();
    for (name, frame) in frames {
        let frame = frame.build();
        let network = Stack::parse(&frame).unwrap().payload_at();
        seeds.push(("wire_packet", name.to_owned(), frame.to_vec()));
        seeds.push(("wire_headers", name.to_owned(), frame[network..].to_vec()));
        if let Ok(view) = ipv4::View::new(&frame[network..]) {
            seeds.push(("wire_headers", format!("{name}_upper"), view.payload().to_vec()));
        } else if let Ok((_, upper)) =
            ipv6::View::new(&frame[network..]).and_then(|view| view.upper())
        {
            seeds.push(("wire_headers", format!("{name}_upper"), upper.to_vec()));
        }
    }
    seeds
}
