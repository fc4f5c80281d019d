//! Numbers that IANA assigns: IP protocols (IPv6: next headers) and the ports
//! that a router itself cares about.

/// IPv6 Hop-by-Hop Options (RFC 8200 §4.3).
pub const HOP_BY_HOP: u8 = 0;
/// ICMP (RFC 792).
pub const ICMP: u8 = 1;
/// IGMP (RFC 3376).
pub const IGMP: u8 = 2;
/// IPv4 in IP (RFC 2003).
pub const IPIP: u8 = 4;
/// TCP (RFC 9293).
pub const TCP: u8 = 6;
/// UDP (RFC 768).
pub const UDP: u8 = 17;
/// DCCP (RFC 4340).
pub const DCCP: u8 = 33;
/// IPv6 in IP (RFC 2473).
pub const IPV6: u8 = 41;
/// IPv6 Routing header (RFC 8200 §4.4).
pub const ROUTING: u8 = 43;
/// IPv6 Fragment header (RFC 8200 §4.5).
pub const FRAGMENT: u8 = 44;
/// GRE (RFC 2784).
pub const GRE: u8 = 47;
/// Encapsulating Security Payload (RFC 4303).
pub const ESP: u8 = 50;
/// Authentication Header (RFC 4302).
pub const AH: u8 = 51;
/// ICMPv6 (RFC 4443).
pub const ICMPV6: u8 = 58;
/// IPv6 No Next Header (RFC 8200 §4.7).
pub const NO_NEXT: u8 = 59;
/// IPv6 Destination Options (RFC 8200 §4.6).
pub const DESTINATION_OPTIONS: u8 = 60;
/// OSPF (RFC 2328).
pub const OSPF: u8 = 89;
/// PIM (RFC 7761).
pub const PIM: u8 = 103;
/// VRRP (RFC 9568).
pub const VRRP: u8 = 112;
/// SCTP (RFC 9260).
pub const SCTP: u8 = 132;
/// UDP-Lite (RFC 3828).
pub const UDP_LITE: u8 = 136;

/// TCP port of BGP (RFC 4271).
pub const PORT_BGP: u16 = 179;
/// UDP port of RIP (RFC 2453).
pub const PORT_RIP: u16 = 520;
/// UDP port of RIPng (RFC 2080).
pub const PORT_RIPNG: u16 = 521;
/// UDP port of LDP, and TCP's (RFC 5036).
pub const PORT_LDP: u16 = 646;
/// UDP port of BFD control packets, one hop (RFC 5881).
pub const PORT_BFD: u16 = 3784;
/// UDP port of BFD echo packets (RFC 5881).
pub const PORT_BFD_ECHO: u16 = 3785;
/// UDP port of BFD over several hops (RFC 5883).
pub const PORT_BFD_MULTIHOP: u16 = 4784;

/// True when the first four bytes of the payload are a source and a destination port.
#[inline(always)]
pub fn has_ports(protocol: u8) -> bool {
    matches!(protocol, TCP | UDP | DCCP | SCTP | UDP_LITE)
}

/// The protocol's name as people write it, where it has one here.
pub fn name(protocol: u8) -> Option<&'static str> {
    Some(match protocol {
        HOP_BY_HOP => "hop-by-hop",
        ICMP => "ICMP",
        IGMP => "IGMP",
        IPIP => "IPIP",
        TCP => "TCP",
        UDP => "UDP",
        DCCP => "DCCP",
        IPV6 => "IPv6",
        ROUTING => "routing",
        FRAGMENT => "fragment",
        GRE => "GRE",
        ESP => "ESP",
        AH => "AH",
        ICMPV6 => "ICMPv6",
        NO_NEXT => "no next header",
        DESTINATION_OPTIONS => "destination options",
        OSPF => "OSPF",
        PIM => "PIM",
        VRRP => "VRRP",
        SCTP => "SCTP",
        UDP_LITE => "UDP-Lite",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_have_the_names_of_their_numbers() {
        // As in IANA's list.
        let names = [
            (0, "hop-by-hop"),
            (1, "ICMP"),
            (2, "IGMP"),
            (4, "IPIP"),
            (6, "TCP"),
            (17, "UDP"),
            (33, "DCCP"),
            (41, "IPv6"),
            (43, "routing"),
            (44, "fragment"),
            (47, "GRE"),
            (50, "ESP"),
            (51, "AH"),
            (58, "ICMPv6"),
            (59, "no next header"),
            (60, "destination options"),
            (89, "OSPF"),
            (103, "PIM"),
            (112, "VRRP"),
            (132, "SCTP"),
            (136, "UDP-Lite"),
        ];
        let found = (0..=255).filter_map(|number| Some((number, name(number)?)));
        assert!(found.eq(names));
    }

    #[test]
    fn these_protocols_begin_with_ports() {
        let found = (0..=255).filter(|&number| has_ports(number));
        assert!(found.eq([6, 17, 33, 132, 136]));
    }
}
