//! Which frames a trace or a capture takes: a subset of pcap's conditions.
//! Parsed elsewhere; here they are evaluated, at a place that never allocates.

use core::net::IpAddr;

use wire::bytes::{array, be16};
use wire::{ethernet, ipv4, ipv6, protocol, vlan};

/// A condition on one frame. What the frame does not have (an address, a port)
/// does not match. Evaluation recurses: whoever makes one from what a client
/// sent refuses trees that are deep.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Filter {
    /// An IP address.
    Host(Side, IpAddr),
    /// An IP address whose first bits are those of this one.
    Net(Side, IpAddr, u8),
    /// A port of TCP, UDP, SCTP and the like, from the first to the last number.
    Port(Side, u16, u16),
    /// The protocol above IP, behind extension headers.
    Proto(u8),
    /// The EtherType behind tags.
    Ether(u16),
    /// Any tag, or the outermost one with this VLAN id.
    Vlan(Option<u16>),
    /// All of these; true if there are none.
    And(Vec<Filter>),
    /// Any of these; false if there are none.
    Or(Vec<Filter>),
    /// The opposite.
    Not(Box<Filter>),
}

/// Which end of a packet a condition looks at.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Side {
    /// Either.
    #[default]
    Any,
    /// Where it comes from.
    Source,
    /// The destination.
    Destination,
}

impl Filter {
    fn holds(&self, facts: &Facts) -> bool {
        match self {
            Filter::Host(side, address) => side.any(facts.addresses, |found| found == *address),
            Filter::Net(side, net, len) => {
                side.any(facts.addresses, |found| shares(found, *net, *len))
            }
            Filter::Port(side, first, last) => {
                side.any(facts.ports, |port| (*first..=*last).contains(&port))
            }
            Filter::Proto(proto) => facts.protocol == Some(*proto),
            Filter::Ether(kind) => facts.kind == *kind,
            Filter::Vlan(None) => facts.vlan.is_some(),
            Filter::Vlan(id) => facts.vlan == *id,
            Filter::And(all) => all.iter().all(|filter| filter.holds(facts)),
            Filter::Or(all) => all.iter().any(|filter| filter.holds(facts)),
            Filter::Not(inner) => !inner.holds(facts),
        }
    }
}

impl graph::Filter for Filter {
    fn matches(&self, frame: &[u8]) -> bool {
        self.holds(&Facts::of(frame))
    }
}

impl Side {
    fn any<T: Copy>(self, ends: Option<(T, T)>, f: impl Fn(T) -> bool) -> bool {
        let Some((source, destination)) = ends else { return false };
        match self {
            Side::Any => f(source) || f(destination),
            Side::Source => f(source),
            Side::Destination => f(destination),
        }
    }
}

/// True when the first `len` bits are equal; addresses of two families share none.
fn shares(address: IpAddr, net: IpAddr, len: u8) -> bool {
    match (address, net) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros() >= len.into(),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros() >= len.into(),
        _ => false,
    }
}

/// The fields of one frame that conditions read.
#[derive(Default)]
struct Facts {
    kind: u16,
    /// The VLAN of the outermost tag.
    vlan: Option<u16>,
    /// Source and destination.
    addresses: Option<(IpAddr, IpAddr)>,
    protocol: Option<u8>,
    /// Source and destination.
    ports: Option<(u16, u16)>,
}

impl Facts {
    fn of(frame: &[u8]) -> Facts {
        let mut facts = Facts::default();
        let mut at = ethernet::ETHERTYPE;
        for _ in 0..=vlan::MAX_TAGS {
            let Some(kind) = frame.get(at..at + 2) else { return facts };
            facts.kind = be16(kind, 0);
            at += 2;
            if facts.kind != ethernet::VLAN && facts.kind != ethernet::QINQ {
                break;
            }
            let Some(control) = frame.get(at..at + 2) else { return facts };
            facts.vlan = facts.vlan.or(Some(be16(control, 0) & vlan::ID_MASK));
            at += 2;
        }
        match facts.kind {
            ethernet::IPV4 => facts.ipv4(&frame[at..]),
            ethernet::IPV6 => facts.ipv6(&frame[at..]),
            _ => {}
        }
        facts
    }

    fn ipv4(&mut self, packet: &[u8]) {
        if packet.len() < ipv4::MIN_LEN {
            return;
        }
        let address = |at| IpAddr::from(array::<4>(packet, at));
        self.addresses = Some((address(ipv4::SRC), address(ipv4::DST)));
        self.protocol = Some(packet[ipv4::PROTOCOL]);
        let first = be16(packet, ipv4::FRAGMENT) & ipv4::OFFSET_MASK == 0;
        let header_len = usize::from(packet[ipv4::VERSION_IHL] & 15) * 4;
        self.upper(packet.get(header_len..).filter(|_| first));
    }

    fn ipv6(&mut self, packet: &[u8]) {
        if packet.len() < ipv6::LEN {
            return;
        }
        let address = |at| IpAddr::from(array::<16>(packet, at));
        self.addresses = Some((address(ipv6::SRC), address(ipv6::DST)));
        let payload = &packet[ipv6::LEN..];
        let Ok(chain) = ipv6::walk(packet[ipv6::NEXT_HEADER], payload) else { return };
        self.protocol = Some(chain.protocol);
        let first = chain.fragment.is_none_or(|fragment| fragment.offset == 0);
        self.upper(payload.get(chain.at..).filter(|_| first));
    }

    fn upper(&mut self, upper: Option<&[u8]>) {
        let has_ports = self.protocol.is_some_and(protocol::has_ports);
        if let Some([a, b, c, d, ..]) = upper.filter(|_| has_ports) {
            self.ports = Some((u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d])));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::{to_p0, udp4, udp6};
    use proptest::prelude::*;
    use wire::build::Frame;
    use wire::vlan::Tag;

    fn on(filter: &Filter, frame: Frame<'_>) -> bool {
        graph::Filter::matches(filter, &to_p0(frame))
    }

    #[test]
    fn each_condition_looks_at_its_field() {
        use Filter::*;
        use Side::*;
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let v4 = || udp4("10.1.2.3");
        let (src, dst) = (address("198.51.100.7"), address("10.1.2.3"));
        for (filter, want) in [
            (Host(Any, dst), true),
            (Host(Source, dst), false),
            (Host(Source, src), true),
            (Host(Any, address("2001:db8::1")), false),
            (Net(Destination, address("10.1.0.0"), 16), true),
            (Net(Any, address("10.1.2.4"), 29), true),
            (Net(Any, address("10.1.2.4"), 30), false),
            (Net(Any, address("::"), 0), false),
            (Net(Any, address("0.0.0.0"), 0), true),
            (Port(Any, 53, 53), true),
            (Port(Source, 53, 53), false),
            (Port(Source, 3999, 4001), true),
            (Proto(17), true),
            (Proto(6), false),
            (Ether(0x0800), true),
            (Vlan(None), false),
            (And(vec![Proto(17), Not(Box::new(Port(Any, 80, 80)))]), true),
            (Or(vec![Proto(6), Ether(0x0800)]), true),
            (And(vec![]), true),
            (Or(vec![]), false),
        ] {
            assert_eq!(on(&filter, v4()), want, "{filter:?}");
            assert_eq!(on(&Not(Box::new(filter)), v4()), !want);
        }
        let tagged = v4().tag(Tag::outer(5)).tag(Tag::new(6));
        for (filter, want) in [
            (Vlan(None), true),
            (Vlan(Some(5)), true),
            (Vlan(Some(6)), false),
            (Vlan(Some(7)), false),
            (Port(Any, 53, 53), true),
        ] {
            assert_eq!(on(&filter, tagged), want, "{filter:?}");
        }
        let v6 = || udp6("2001:db8::1").extension(60, [1, 4, 0, 0, 0, 0]);
        assert!(on(&And(vec![Port(Destination, 53, 53), Proto(17), Ether(0x86dd)]), v6()));
        assert!(on(&Host(Destination, address("2001:db8::1")), v6()));
        assert!(!on(&Port(Any, 0, 65_535), v4().fragment(1, 8, false)));
    }

    proptest! {
        #[test]
        fn any_bytes(mut bytes in proptest::collection::vec(any::<u8>(), 0..120), kind in 0..5_usize) {
            if bytes.len() > 14 {
                let kind: u16 = [0x0800, 0x86dd, 0x8100, 0x88a8, 0x0806][kind];
                bytes[12..14].copy_from_slice(&kind.to_be_bytes());
            }
            Facts::of(&bytes);
        }
    }
}
