//! The finer class of a packet to this machine, by its protocol and by whether its sender is known
//! ([`Peers`]).
//!
//! ```text
//!  ARP, ND ─────────────► sender known? ──────────────► arp_nd  │ new_neighbours
//!  BGP, LDP ► session? ─► sender known? ► sessions │ control    │ strangers
//!  OSPF, BFD, VRRP … ───► sender known? ──────────────► control │ strangers
//! ```
//!
//! A sender's address may be forged. Protocols that are spoken over one link alone use the largest
//! TTL (GTSM, RFC 5082): a packet with a lower TTL comes from beyond the link, and its sender is a
//! stranger whatever its address.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tables::IfaceId;
use tables::peers::{Peers, Session};
use wire::bytes::{array, be16};
use wire::{arp, icmpv6, ipv4, ipv6, protocol};

use crate::class::Class;

/// The finer class of `packet`, which came in by `iface`.
pub(super) fn refine(class: Class, iface: IfaceId, packet: &[u8], peers: &Peers) -> Class {
    match class {
        Class::ArpNd => arp(iface, packet, peers),
        Class::ForUs | Class::Multicast => match Ip::parse(packet) {
            Some(ip) => by_protocol(class, iface, &ip, peers),
            None => class,
        },
        _ => class,
    }
}

fn arp(iface: IfaceId, packet: &[u8], peers: &Peers) -> Class {
    if packet.len() < arp::LEN {
        return Class::NewNeighbours;
    }
    let sender = Ipv4Addr::from(array::<4>(packet, arp::SENDER_IP));
    if peers.knows(iface, sender.into()) { Class::ArpNd } else { Class::NewNeighbours }
}

/// The fields of an IP packet that decide its class.
struct Ip<'p> {
    src: IpAddr,
    dst: IpAddr,
    ttl: u8,
    protocol: u8,
    /// The payload; empty in every fragment but the first.
    upper: &'p [u8],
}

impl Ip<'_> {
    fn parse(packet: &[u8]) -> Option<Ip<'_>> {
        match packet.first()? >> 4 {
            4 if packet.len() >= ipv4::MIN_LEN => {
                let header_len = usize::from(packet[0] & 15) * 4;
                let offset = be16(packet, ipv4::FRAGMENT) & ipv4::OFFSET_MASK;
                let upper = packet.get(header_len..).filter(|_| offset == 0).unwrap_or_default();
                let address = |at| Ipv4Addr::from(array::<4>(packet, at)).into();
                let (src, dst) = (address(ipv4::SRC), address(ipv4::DST));
                Some(Ip {
                    src,
                    dst,
                    ttl: packet[ipv4::TTL],
                    protocol: packet[ipv4::PROTOCOL],
                    upper,
                })
            }
            6 if packet.len() >= ipv6::LEN => {
                let payload = &packet[ipv6::LEN..];
                let chain = ipv6::walk(packet[ipv6::NEXT_HEADER], payload).ok()?;
                let upper = &payload[chain.at.min(payload.len())..];
                let address = |at| Ipv6Addr::from(array::<16>(packet, at)).into();
                let (src, dst) = (address(ipv6::SRC), address(ipv6::DST));
                let ttl = packet[ipv6::HOP_LIMIT];
                Some(Ip { src, dst, ttl, protocol: chain.protocol, upper })
            }
            _ => None,
        }
    }

    fn port(&self, at: usize) -> u16 {
        self.upper.get(at..at + 2).map_or(0, |port| be16(port, 0))
    }
}

fn by_protocol(class: Class, iface: IfaceId, ip: &Ip<'_>, peers: &Peers) -> Class {
    let knows = || peers.knows(iface, ip.src);
    let control = |is_known: bool| if is_known { Class::Control } else { Class::Strangers };
    let from_this_link = ip.ttl == u8::MAX;
    match ip.protocol {
        protocol::ICMPV6 => match ip.upper.first() {
            Some(&kind) if !icmpv6::is_neighbour_discovery(kind) => class,
            None => class,
            // RFC 4861 §7.1. Router advertisements and redirects are not for a router.
            Some(&(icmpv6::NEIGHBOUR_SOLICITATION | icmpv6::NEIGHBOUR_ADVERTISEMENT))
                if from_this_link && knows() =>
            {
                Class::ArpNd
            }
            Some(_) => Class::NewNeighbours,
        },
        protocol::OSPF | protocol::PIM | protocol::IGMP => control(knows()),
        protocol::VRRP => control(from_this_link && knows()), // RFC 9568 §5.1.1.3
        protocol::TCP => {
            let (remote, local) = (ip.port(0), ip.port(2));
            if !TCP.contains(&remote) && !TCP.contains(&local) {
                return class;
            }
            match peers.has(&Session { remote: (ip.src, remote), local: (ip.dst, local) }) {
                true => Class::Sessions,
                false => control(knows()),
            }
        }
        protocol::UDP => match ip.port(2) {
            // RFC 5881 §5.
            protocol::PORT_BFD | protocol::PORT_BFD_ECHO => control(from_this_link && knows()),
            port if UDP.contains(&port) => control(knows()),
            _ => class,
        },
        _ => class,
    }
}

/// TCP ports of routing protocols; either side may have opened the session.
pub const TCP: [u16; 2] = [protocol::PORT_BGP, protocol::PORT_LDP];
/// UDP ports of routing protocols over more than one hop, or without a rule for the TTL.
const UDP: [u16; 4] =
    [protocol::PORT_BFD_MULTIHOP, protocol::PORT_RIP, protocol::PORT_RIPNG, protocol::PORT_LDP];
