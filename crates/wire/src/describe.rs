//! A packet in one line, for traces and tests:
//! `10.0.0.1 > 10.0.1.2 ICMP echo request id 5 seq 1, ttl 64, length 84`.
//!
//! Bytes that cannot be read as what they claim to be are said to be so; nothing
//! fails. A packet whose end was not captured is described by what is there.

use core::fmt::{self, Display, Formatter};
use core::net::{Ipv4Addr, Ipv6Addr};

use crate::bytes::be16;
use crate::ipv4::View as View4;
use crate::ipv6::{Chain, View as View6};
use crate::protocol::{ICMP, ICMPV6, TCP, UDP, has_ports};
use crate::{Error, arp, ethernet, icmp, icmpv6, ipv4, protocol, tcp, vlan};

/// Describes a frame: MAC addresses, tags, then the packet.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a>(pub &'a [u8]);

/// Describes an IP packet, that starts at its header; the version is its first four bits.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a>(pub &'a [u8]);

impl Display for Frame<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let frame = self.0;
        let (header, stack) = match (ethernet::Header::parse(frame), vlan::Stack::parse(frame)) {
            (Ok(header), Ok(stack)) => (header, stack),
            (Err(error), _) | (_, Err(error)) => return write!(f, "[{error}]"),
        };
        write!(f, "{} > {} ", header.src, header.dst)?;
        for tag in stack.tags() {
            write!(f, "vlan {} ", tag.id())?;
        }
        let payload = &frame[stack.payload_at()..];
        match stack.ethertype() {
            ethernet::IPV4 | ethernet::IPV6 => Packet(payload).fmt(f),
            ethernet::ARP => describe_arp(payload, f),
            len if len < ethernet::FIRST_ETHERTYPE => write!(f, "802.3, length {len}"),
            ethertype => write!(f, "ethertype {ethertype:#06x}, length {}", frame.len()),
        }
    }
}

impl Display for Packet<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let described = match self.0.first().map_or(0, |first| first >> 4) {
            4 => View4::quoted(self.0).map(|view| describe_ipv4(&view, f)),
            6 => View6::quoted(self.0).map(|view| describe_ipv6(&view, f)),
            version => return write!(f, "[ip version {version}, length {}]", self.0.len()),
        };
        described.unwrap_or_else(|error| write!(f, "[{error}]"))
    }
}

fn describe_ipv4(view: &View4<'_>, f: &mut Formatter<'_>) -> fmt::Result {
    let first = view.offset() == 0;
    let ports = Ports::of(view.protocol(), view.payload(), first);
    let (src, dst) = (Place4(view.src(), ports.src()), Place4(view.dst(), ports.dst()));
    write!(f, "{src} > {dst} ")?;
    describe_upper(view.protocol(), view.payload(), first, f)?;
    if view.is_fragment() {
        let more = view.fragment() & ipv4::MORE_FRAGMENTS != 0;
        describe_fragment(view.ident().into(), view.offset(), more, f)?;
    }
    if !view.options().is_empty() {
        write!(f, ", options {}", view.options().len())?;
    }
    if !view.checksum_ok() {
        write!(f, ", wrong header checksum")?;
    }
    write!(f, ", ttl {}, length {}", view.ttl(), view.total_len())
}

fn describe_ipv6(view: &View6<'_>, f: &mut Formatter<'_>) -> fmt::Result {
    let upper = view.upper();
    let length = crate::ipv6::LEN + usize::from(view.payload_len());
    match upper {
        Ok((chain, payload)) => {
            let first = chain.fragment.is_none_or(|fragment| fragment.offset == 0);
            let ports = Ports::of(chain.protocol, payload, first);
            let (src, dst) = (Place6(view.src(), ports.src()), Place6(view.dst(), ports.dst()));
            write!(f, "{src} > {dst} ")?;
            describe_upper(chain.protocol, payload, first, f)?;
            describe_chain(&chain, f)?;
        }
        Err(error) => describe_cut_off(view, error, f)?,
    }
    write!(f, ", hop limit {}, length {length}", view.hop_limit())
}

fn describe_cut_off(view: &View6<'_>, error: Error, f: &mut Formatter<'_>) -> fmt::Result {
    write!(f, "{} > {} [{error}]", view.src(), view.dst())
}

fn describe_chain(chain: &Chain, f: &mut Formatter<'_>) -> fmt::Result {
    if chain.hop_by_hop {
        write!(f, ", hop-by-hop options")?;
    }
    if chain.routing {
        write!(f, ", routing header")?;
    }
    chain.fragment.map_or(Ok(()), |fragment| {
        describe_fragment(fragment.ident, fragment.offset, fragment.more, f)
    })
}

fn describe_fragment(ident: u32, offset: u16, more: bool, f: &mut Formatter<'_>) -> fmt::Result {
    write!(f, ", fragment {ident:#x}@{offset}{}", if more { "+" } else { "" })
}

fn describe_upper(protocol: u8, payload: &[u8], first: bool, f: &mut Formatter<'_>) -> fmt::Result {
    match protocol::name(protocol) {
        Some(name) => f.write_str(name)?,
        None => write!(f, "protocol {protocol}")?,
    }
    match protocol {
        ICMP | ICMPV6 if first => match icmp::Header::parse(payload) {
            Ok(header) => describe_icmp(protocol == ICMPV6, &header, f),
            Err(error) => write!(f, " [{error}]"),
        },
        TCP if first => match tcp::Header::parse(payload) {
            Ok(header) => describe_tcp(&header, f),
            Err(error) => write!(f, " [{error}]"),
        },
        UDP if first && payload.len() < crate::udp::LEN => f.write_str(" [cut off]"),
        _ => Ok(()),
    }
}

fn describe_icmp(v6: bool, header: &icmp::Header, f: &mut Formatter<'_>) -> fmt::Result {
    let name = if v6 { icmp6_name(header.kind) } else { icmp4_name(header.kind) };
    match name {
        Some(name) => write!(f, " {name}")?,
        None => write!(f, " type {}", header.kind)?,
    }
    match (v6, header.kind) {
        (false, icmp::ECHO_REQUEST | icmp::ECHO_REPLY)
        | (true, icmpv6::ECHO_REQUEST | icmpv6::ECHO_REPLY) => {
            write!(f, " id {} seq {}", header.ident(), header.sequence())
        }
        (false, icmp::UNREACHABLE) if header.code == icmp::FRAGMENTATION_NEEDED => {
            write!(f, " fragmentation needed, mtu {}", header.mtu())
        }
        (true, icmpv6::PACKET_TOO_BIG) => write!(f, ", mtu {}", icmpv6::mtu(header)),
        _ if header.code != 0 => write!(f, " code {}", header.code),
        _ => Ok(()),
    }
}

fn icmp4_name(kind: u8) -> Option<&'static str> {
    Some(match kind {
        icmp::ECHO_REPLY => "echo reply",
        icmp::UNREACHABLE => "unreachable",
        icmp::REDIRECT => "redirect",
        icmp::ECHO_REQUEST => "echo request",
        icmp::TIME_EXCEEDED => "time exceeded",
        icmp::PARAMETER_PROBLEM => "parameter problem",
        _ => return None,
    })
}

fn icmp6_name(kind: u8) -> Option<&'static str> {
    Some(match kind {
        icmpv6::UNREACHABLE => "unreachable",
        icmpv6::PACKET_TOO_BIG => "packet too big",
        icmpv6::TIME_EXCEEDED => "time exceeded",
        icmpv6::PARAMETER_PROBLEM => "parameter problem",
        icmpv6::ECHO_REQUEST => "echo request",
        icmpv6::ECHO_REPLY => "echo reply",
        icmpv6::LISTENER_QUERY => "listener query",
        131 | 132 | 143 => "listener report",
        icmpv6::ROUTER_SOLICITATION => "router solicitation",
        icmpv6::ROUTER_ADVERTISEMENT => "router advertisement",
        icmpv6::NEIGHBOUR_SOLICITATION => "neighbour solicitation",
        icmpv6::NEIGHBOUR_ADVERTISEMENT => "neighbour advertisement",
        icmpv6::REDIRECT => "redirect",
        _ => return None,
    })
}

fn describe_tcp(header: &tcp::Header<'_>, f: &mut Formatter<'_>) -> fmt::Result {
    f.write_str(" [")?;
    for (flag, letter) in FLAGS {
        if header.flags & flag != 0 {
            f.write_str(letter)?;
        }
    }
    write!(f, "] seq {}", header.sequence)?;
    if header.flags & tcp::ACK != 0 {
        write!(f, " ack {}", header.ack_number)?;
    }
    Ok(())
}

/// Letters as tcpdump prints them.
const FLAGS: [(u16, &str); 8] = [
    (tcp::SYN, "S"),
    (tcp::FIN, "F"),
    (tcp::RST, "R"),
    (tcp::PSH, "P"),
    (tcp::URG, "U"),
    (tcp::ECE, "E"),
    (tcp::CWR, "W"),
    (tcp::ACK, "."),
];

fn describe_arp(payload: &[u8], f: &mut Formatter<'_>) -> fmt::Result {
    match arp::Header::parse(payload) {
        Err(error) => write!(f, "ARP [{error}]"),
        Ok(arp) => match arp.operation {
            arp::REQUEST => write!(f, "ARP who has {}? tell {}", arp.target_ip, arp.sender_ip),
            arp::REPLY => write!(f, "ARP {} is at {}", arp.sender_ip, arp.sender_mac),
            operation => write!(f, "ARP operation {operation}"),
        },
    }
}

/// Ports, where the packet has them.
struct Ports(Option<(u16, u16)>);

impl Ports {
    fn of(protocol: u8, payload: &[u8], first: bool) -> Self {
        let there = first && has_ports(protocol) && payload.len() >= 4;
        Ports(there.then(|| (be16(payload, tcp::SRC), be16(payload, tcp::DST))))
    }

    fn src(&self) -> Option<u16> {
        self.0.map(|(src, _)| src)
    }

    fn dst(&self) -> Option<u16> {
        self.0.map(|(_, dst)| dst)
    }
}

/// Address and port.
struct Place4(Ipv4Addr, Option<u16>);

impl Display for Place4 {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.1 {
            Some(port) => write!(f, "{}:{port}", self.0),
            None => self.0.fmt(f),
        }
    }
}

/// Address and port, the address then in brackets (RFC 5952 §6).
struct Place6(Ipv6Addr, Option<u16>);

impl Display for Place6 {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.1 {
            Some(port) => write!(f, "[{}]:{port}", self.0),
            None => self.0.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use proptest::prelude::*;

    use super::*;
    use crate::build::Frame as Build;
    use crate::protocol::HOP_BY_HOP;
    use crate::vlan::Tag;

    const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const B: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 2);

    /// Without the Ethernet header.
    fn packet(frame: Build<'_>) -> std::string::String {
        Packet(&frame.build()[ethernet::LEN..]).to_string()
    }

    #[test]
    fn ipv4() {
        let echo = Build::icmp4_echo(A, B, 5, 1).payload(&[0; 56]);
        let line = "10.0.0.1 > 10.0.1.2 ICMP echo request id 5 seq 1, ttl 64, length 84";
        assert_eq!(packet(echo), line);
        let too_big = icmp::Header { kind: 3, code: 4, rest: [0, 0, 5, 0] };
        let line = "10.0.0.1 > 10.0.1.2 ICMP unreachable fragmentation needed, mtu 1280, ttl 64, length 28";
        assert_eq!(packet(Build::icmp4(A, B, too_big)), line);
        let syn =
            Build::tcp4("10.0.0.1:9".parse().unwrap(), "10.0.1.2:80".parse().unwrap(), tcp::SYN);
        let line = "10.0.0.1:9 > 10.0.1.2:80 TCP [S] seq 0, ttl 64, length 40";
        assert_eq!(packet(syn), line);
        let line = "10.0.0.1 > 10.0.1.2 TCP, fragment 0x7@1480+, ttl 64, length 20";
        assert_eq!(packet(syn.fragment(7, 1480, true)), line);
        let line =
            "10.0.0.1:9 > 10.0.1.2:80 TCP [S] seq 0, wrong header checksum, ttl 1, length 40";
        assert_eq!(packet(syn.wrong_ip_checksum().ttl(1)), line);
    }

    #[test]
    fn ipv6() {
        let (a, b) = ("[2001:db8::1]:9".parse().unwrap(), "[2001:db8::2]:53".parse().unwrap());
        let datagram = Build::udp6(a, b).extension(HOP_BY_HOP, [5, 2, 0, 0, 1, 0]);
        let line =
            "[2001:db8::1]:9 > [2001:db8::2]:53 UDP, hop-by-hop options, hop limit 64, length 56";
        assert_eq!(packet(datagram), line);
        let echo = Build::icmp6_echo(*a.ip(), *b.ip(), 1, 2);
        let line =
            "2001:db8::1 > 2001:db8::2 ICMPv6 echo request id 1 seq 2, hop limit 64, length 48";
        assert_eq!(packet(echo), line);
    }

    #[test]
    fn frames() {
        let echo = Build::icmp4_echo(A, B, 5, 1).tag(Tag::outer(7)).tag(Tag::new(100)).build();
        let line = "02:00:00:00:00:01 > 02:00:00:00:00:02 vlan 7 vlan 100 10.0.0.1 > 10.0.1.2 ICMP \
                    echo request id 5 seq 1, ttl 64, length 28";
        assert_eq!(Frame(&echo).to_string(), line);
        assert_eq!(Frame(&echo[..9]).to_string(), "[ethernet: 9 bytes where 14 are needed]");
    }

    proptest! {
        #[test]
        fn any_bytes(mut bytes in proptest::collection::vec(any::<u8>(), 0..120), version: u8) {
            let _ = Frame(&bytes).to_string();
            if let Some(first) = bytes.first_mut() {
                *first = if version & 1 == 0 { 0x45 } else { 0x60 };
            }
            let _ = Packet(&bytes).to_string();
        }
    }
}
