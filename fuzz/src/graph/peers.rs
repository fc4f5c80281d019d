//! Who is known to speak routing protocols with the router, and what that makes of a
//! packet to it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use nodes::Class;
use tables::IfaceId;
use tables::peers::{Peers, Session};

use super::input::address;
use super::outcome::bit;

/// Those who are known.
#[derive(Clone, Default)]
pub struct Known {
    sessions: Vec<Session>,
    /// On an interface, or on any.
    hosts: Vec<(Option<u16>, IpAddr)>,
}

impl Known {
    /// By a byte: a quarter of them says nobody. Interface i's network has .5, which frames
    /// come from.
    pub fn new(byte: u8, ifaces: usize) -> Known {
        let mut known = Known::default();
        if byte & 0x60 == 0 {
            return known;
        }
        for (i, six) in (0..ifaces as u8).flat_map(|i| [(i, false), (i, true)]) {
            let [host, own] = [5, 1].map(|last| address(six, [i, last]));
            if byte >> (i % 3) & 1 != 0 {
                known.hosts.push((Some(u16::from(i) + 1), host));
            }
            if byte & 8 != 0 && i == 1 {
                known.hosts.push((None, host));
            }
            if byte & 16 != 0 {
                let session = |port| Session { remote: (host, port), local: (own, BGP) };
                known.sessions.extend((4000..4040).map(session));
            }
        }
        known
    }

    /// For the nodes.
    pub fn peers(&self) -> Peers {
        let hosts = self.hosts.iter().map(|(iface, ip)| (IfaceId(iface.unwrap_or(0)), *ip));
        Peers::new(self.sessions.iter().copied(), hosts)
    }

    fn knows(&self, iface: u16, ip: IpAddr) -> bool {
        let host =
            |(on, host): &(Option<u16>, IpAddr)| *host == ip && on.is_none_or(|on| on == iface);
        self.hosts.iter().any(host) || self.sessions.iter().any(|session| session.remote.0 == ip)
    }

    /// The bits of the classes, one of which the packet, which came in by `iface`, has
    /// after a closer look.
    pub fn classes(&self, class: Class, iface: u16, packet: &[u8]) -> u16 {
        let control = |known| if known { Class::Control } else { Class::Strangers };
        match class {
            Class::ArpNd => {
                let sender = packet.get(14..18).filter(|_| packet.len() >= 28);
                let known = sender.is_some_and(|ip| self.knows(iface, v4(ip)));
                bit(if known { Class::ArpNd } else { Class::NewNeighbours })
            }
            Class::ForUs | Class::Multicast => {
                let Some(ip) = Ip::of(packet) else { return bit(class) };
                let known = self.knows(iface, ip.src);
                let near = ip.ttl == 255;
                bit(match (ip.protocol, ip.upper) {
                    _ if ip.is_long => {
                        let finer = [Class::Sessions, Class::Control, Class::Strangers];
                        let finer = finer.into_iter().chain([Class::ArpNd, Class::NewNeighbours]);
                        return finer.fold(bit(class), |all, class| all | bit(class));
                    }
                    (58, [135 | 136, ..]) if near && known => Class::ArpNd,
                    (58, [133..=137, ..]) => Class::NewNeighbours,
                    (89 | 103 | 2, _) => control(known),
                    (112, _) => control(known && near),
                    (6, _) => {
                        let (remote, local) = (ip.port(0), ip.port(2));
                        let session = Session { remote: (ip.src, remote), local: (ip.dst, local) };
                        match [remote, local].iter().any(|port| matches!(*port, BGP | LDP)) {
                            true if self.sessions.contains(&session) => Class::Sessions,
                            true => control(known),
                            false => class,
                        }
                    }
                    (17, _) => match ip.port(2) {
                        3784 | 3785 => control(known && near),
                        4784 | 520 | 521 | LDP => control(known),
                        _ => class,
                    },
                    _ => class,
                })
            }
            _ => bit(class),
        }
    }
}

/// What counts of a packet.
struct Ip<'p> {
    src: IpAddr,
    dst: IpAddr,
    ttl: u8,
    protocol: u8,
    upper: &'p [u8],
    /// It has extension headers.
    is_long: bool,
}

impl<'p> Ip<'p> {
    fn of(packet: &'p [u8]) -> Option<Ip<'p>> {
        match packet.first()? >> 4 {
            4 if packet.len() >= 20 => {
                let is_first = [packet[6] & 0x1f, packet[7]] == [0, 0];
                let upper = packet.get(usize::from(packet[0] & 15) * 4..).filter(|_| is_first);
                let [src, dst] = [&packet[12..16], &packet[16..20]].map(v4);
                let (ttl, protocol) = (packet[8], packet[9]);
                Some(Ip { src, dst, ttl, protocol, upper: upper.unwrap_or(&[]), is_long: false })
            }
            6 if packet.len() >= 40 => {
                let v6 = |at: usize| {
                    let octets: [u8; 16] = packet[at..at + 16].try_into().expect("sixteen bytes");
                    IpAddr::from(Ipv6Addr::from(octets))
                };
                let (ttl, protocol) = (packet[7], packet[6]);
                let is_long = matches!(protocol, 0 | 43 | 44 | 51 | 60 | 135 | 139 | 140);
                let upper = &packet[40..];
                Some(Ip { src: v6(8), dst: v6(24), ttl, protocol, upper, is_long })
            }
            _ => None,
        }
    }

    fn port(&self, at: usize) -> u16 {
        self.upper.get(at..at + 2).map_or(0, |port| u16::from_be_bytes([port[0], port[1]]))
    }
}

fn v4(octets: &[u8]) -> IpAddr {
    let octets: [u8; 4] = octets.try_into().expect("four bytes");
    IpAddr::from(Ipv4Addr::from(octets))
}

const BGP: u16 = 179;
const LDP: u16 = 646;
