//! Which packets a trace or a capture takes: a tree of conditions, evaluated on
//! a whole frame. Not on the path of other packets: [`graph::Filter`] is asked
//! only while a trace or capture runs.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::bytes::{array, be16};
use wire::{ethernet, ipv4, ipv6, protocol};

/// A condition on one frame.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Filter {
    /// An address inside a network; a host is one of full length.
    Net(Side, IpAddr, u8),
    /// A TCP, UDP or SCTP port in this range.
    Port(Side, u16, u16),
    /// The protocol above IP, behind IPv6 extension headers.
    Proto(u8),
    /// The EtherType behind tags.
    Ether(u16),
    /// Any tag, or the outermost one with this VLAN.
    Vlan(Option<u16>),
    /// All of them; of none, true.
    And(Vec<Filter>),
    /// One of them; of none, false.
    Or(Vec<Filter>),
    /// The opposite.
    Not(Box<Filter>),
}

/// Which end of a packet a condition looks at.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Side {
    /// Either end.
    Any,
    /// Where it comes from.
    Source,
    /// Where it goes.
    Destination,
}

impl graph::Filter for Filter {
    fn matches(&self, frame: &[u8]) -> bool {
        self.holds(&Seen::new(frame))
    }
}

impl Filter {
    fn holds(&self, seen: &Seen) -> bool {
        match self {
            Filter::Net(side, address, length) => {
                side.of(seen.addresses).any(|found| covers(*address, *length, found))
            }
            Filter::Port(side, first, last) => {
                side.of(seen.ports).any(|port| (*first..=*last).contains(&port))
            }
            Filter::Proto(proto) => seen.proto == Some(*proto),
            Filter::Ether(kind) => seen.ether == *kind,
            Filter::Vlan(None) => seen.vlan.is_some(),
            Filter::Vlan(vlan) => seen.vlan == *vlan,
            Filter::And(all) => all.iter().all(|filter| filter.holds(seen)),
            Filter::Or(any) => any.iter().any(|filter| filter.holds(seen)),
            Filter::Not(inner) => !inner.holds(seen),
        }
    }
}

impl Side {
    fn of<T>(self, ends: Option<(T, T)>) -> impl Iterator<Item = T> {
        let (source, destination) = ends.unzip();
        let source = source.filter(|_| self != Side::Destination);
        let destination = destination.filter(|_| self != Side::Source);
        source.into_iter().chain(destination)
    }
}

fn covers(net: IpAddr, length: u8, address: IpAddr) -> bool {
    let differ = match (net, address) {
        (IpAddr::V4(net), IpAddr::V4(address)) => {
            u128::from(net.to_bits() ^ address.to_bits()) << 96
        }
        (IpAddr::V6(net), IpAddr::V6(address)) => net.to_bits() ^ address.to_bits(),
        _ => return false,
    };
    differ.leading_zeros() >= u32::from(length)
}

/// What conditions look at.
#[derive(Default)]
struct Seen {
    ether: u16,
    vlan: Option<u16>,
    addresses: Option<(IpAddr, IpAddr)>,
    proto: Option<u8>,
    ports: Option<(u16, u16)>,
}

impl Seen {
    fn new(frame: &[u8]) -> Seen {
        let mut seen = Seen::default();
        let Some(mut rest) = frame.get(12..).filter(|rest| rest.len() >= 2) else { return seen };
        seen.ether = be16(rest, 0);
        while [ethernet::VLAN, ethernet::QINQ].contains(&seen.ether) && rest.len() >= 6 {
            seen.vlan = seen.vlan.or(Some(be16(rest, 2) & 0xfff));
            rest = &rest[4..];
            seen.ether = be16(rest, 0);
        }
        let packet = &rest[2..];
        match seen.ether {
            ethernet::IPV4 => seen.ipv4(packet),
            ethernet::IPV6 => seen.ipv6(packet),
            ethernet::ARP if packet.len() >= 28 => {
                let address = |at| IpAddr::V4(Ipv4Addr::from(array(packet, at)));
                seen.addresses = Some((address(14), address(24)));
            }
            _ => {}
        }
        seen
    }

    fn ipv4(&mut self, packet: &[u8]) {
        if packet.len() < ipv4::MIN_LEN {
            return;
        }
        let address = |at| IpAddr::V4(Ipv4Addr::from(array(packet, at)));
        self.addresses = Some((address(ipv4::SRC), address(ipv4::DST)));
        let proto = packet[ipv4::PROTOCOL];
        self.proto = Some(proto);
        let header = usize::from(packet[ipv4::VERSION_IHL] & 15) * 4;
        if be16(packet, ipv4::FRAGMENT) & ipv4::OFFSET_MASK == 0 {
            self.upper(proto, packet.get(header..).unwrap_or_default());
        }
    }

    fn ipv6(&mut self, packet: &[u8]) {
        if packet.len() < ipv6::LEN {
            return;
        }
        let address = |at| IpAddr::V6(Ipv6Addr::from(array(packet, at)));
        self.addresses = Some((address(ipv6::SRC), address(ipv6::DST)));
        let payload = &packet[ipv6::LEN..];
        match ipv6::walk(packet[ipv6::NEXT_HEADER], payload) {
            Ok(chain) => {
                self.proto = Some(chain.protocol);
                self.upper(chain.protocol, payload.get(chain.at..).unwrap_or_default());
            }
            Err(_) => self.proto = Some(packet[ipv6::NEXT_HEADER]),
        }
    }

    fn upper(&mut self, proto: u8, upper: &[u8]) {
        let has_ports = [protocol::TCP, protocol::UDP, protocol::SCTP].contains(&proto);
        if has_ports && upper.len() >= 4 {
            self.ports = Some((be16(upper, 0), be16(upper, 2)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use graph::Filter as _;
    use proptest::prelude::*;
    use wire::build::Frame;

    fn frame() -> Vec<u8> {
        let (from, to) = ("10.0.0.1:1000".parse().unwrap(), "10.0.9.2:53".parse().unwrap());
        Frame::udp4(from, to).build().to_vec()
    }

    fn net(side: Side, text: &str, length: u8) -> Filter {
        Filter::Net(side, text.parse().unwrap(), length)
    }

    #[test]
    fn conditions_on_a_udp_frame() {
        let frame = frame();
        let yes = [
            net(Side::Any, "10.0.0.1", 32),
            net(Side::Source, "10.0.0.0", 24),
            net(Side::Destination, "10.0.8.0", 23),
            net(Side::Any, "0.0.0.0", 0),
            Filter::Port(Side::Destination, 50, 60),
            Filter::Proto(17),
            Filter::Ether(0x0800),
            Filter::And(vec![]),
        ];
        for filter in yes {
            assert!(filter.matches(&frame), "{filter:?}");
            assert!(!Filter::Not(Box::new(filter)).matches(&frame));
        }
        let no = [
            net(Side::Source, "10.0.9.2", 32),
            net(Side::Any, "::", 0),
            Filter::Port(Side::Source, 53, 53),
            Filter::Vlan(None),
            Filter::Or(vec![]),
        ];
        for filter in no {
            assert!(!filter.matches(&frame), "{filter:?}");
        }
    }

    #[test]
    fn tags_are_looked_behind() {
        let plain = frame();
        let mut tagged = plain[..12].to_vec();
        tagged.extend([0x88, 0xa8, 0, 7, 0x81, 0, 0, 8]);
        tagged.extend(&plain[12..]);
        assert!(Filter::Vlan(Some(7)).matches(&tagged) && !Filter::Vlan(Some(8)).matches(&tagged));
        assert!(Filter::Proto(17).matches(&tagged));
    }

    proptest! {
        #[test]
        fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..80), ether in 0_usize..4) {
            let mut bytes = bytes;
            if bytes.len() > 14 {
                bytes[12..14].copy_from_slice(&[[8, 0], [0x86, 0xdd], [0x81, 0], [8, 6]][ether]);
            }
            Filter::Port(Side::Any, 0, 9).matches(&bytes);
        }
    }
}
