//! From a message of the kernel to an event. Pure: bytes in, event out.
//!
//! Written by hand, not with `netlink-packet-route`, for two reasons: that crate
//! has no next-hop objects, which FRR uses for every route, and it builds a list
//! of attributes on the heap for each of a million routes; here a route with one
//! gateway allocates nothing.

mod link;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use netlink::message::{Attribute, Message, attributes, find, fixed_len, u16_at, u32_at};
use netlink::names::*;
use tables::Net;
use tables::event::{
    Event, How, LinkId, NextHop, NextHopTo, PartialRoute, Path, Route, Source, Target,
};

use self::link::{address, link, neighbour};
use super::{OUR_PROTOCOL, SHIELD_METRIC, SHIELD_PROTOCOL};

/// The event that `message` states; `None` for messages that concern nothing
/// here, or are damaged. `source` says which feed it came by.
pub fn decode(message: &Message<'_>, source: Source) -> Option<Event> {
    let body = Body::new(message)?;
    let gone = message.kind & 3 == DELETED;
    match message.kind & !3 {
        RTM_NEWLINK => link(&body, gone),
        RTM_NEWADDR => address(&body, gone),
        RTM_NEWNEIGH => neighbour(&body, gone),
        RTM_NEWNEXTHOP => next_hop(&body, gone),
        RTM_NEWROUTE if is_partial(&body) => {
            let route = partial(&body)?;
            Some(if gone { Event::PartialGone(route) } else { Event::Partial(route) })
        }
        RTM_NEWROUTE => route(&body, source).map(|route| {
            if gone { Event::RouteGone(route) } else { Event::Route(route, how(message.flags)) }
        }),
        _ => None,
    }
}

/// A message's fixed part, and its attributes.
struct Body<'b> {
    fixed: &'b [u8],
    rest: &'b [u8],
}

impl<'b> Body<'b> {
    fn new(message: &Message<'b>) -> Option<Self> {
        if message.kind & 3 > DELETED {
            return None; // a request
        }
        let (fixed, rest) = message.payload.split_at_checked(fixed_len(message.kind))?;
        Some(Body { fixed, rest })
    }

    fn attributes(&self) -> impl Iterator<Item = Attribute<'b>> {
        attributes(self.rest)
    }

    fn family(&self) -> u8 {
        self.fixed[0] // cannot panic: every fixed part has 8 bytes or more
    }
}

fn next_hop(body: &Body<'_>, gone: bool) -> Option<Event> {
    let (mut id, mut link, mut via) = (0, LinkId(0), None);
    let (mut group, mut blackhole, mut kernel) = (None, false, false);
    for (kind, value) in body.attributes() {
        match kind {
            NHA_ID => id = u32_at(value, 0),
            NHA_GROUP => group = Some(value),
            NHA_BLACKHOLE => blackhole = true,
            NHA_OIF => link = LinkId(u32_at(value, 0)),
            NHA_GATEWAY => via = ip(body.family(), value),
            NHA_ENCAP_TYPE | NHA_ENCAP | NHA_FDB => kernel = true, // an encapsulation, or a bridge's
            _ => {}
        }
    }
    if id == 0 {
        return None;
    }
    if gone {
        return Some(Event::NextHopGone(id));
    }
    let to = match group {
        _ if kernel => NextHopTo::Kernel,
        Some(members) => NextHopTo::Group(members.chunks_exact(8).map(member).collect()),
        None if blackhole => NextHopTo::Blackhole,
        None => NextHopTo::Path(Path { link, via, weight: 1, mtu: 0 }),
    };
    Some(Event::NextHop(NextHop { id, to }))
}

/// A `struct nexthop_grp`; the weight is stored less one, its high byte apart.
fn member(bytes: &[u8]) -> (u32, u16) {
    let weight = u16::from_le_bytes([bytes[4], bytes[5]]); // cannot panic: chunks of 8
    (u32_at(bytes, 0), weight.saturating_add(1))
}

fn route(body: &Body<'_>, source: Source) -> Option<Route> {
    let &[family, dst_len, _, _, table, protocol, _, kind, ..] = body.fixed else {
        return None;
    };
    if u32_at(body.fixed, 8) & RTM_F_CLONED != 0 {
        return None; // an exception of the cache
    }
    // Copies that Rutter made of the kernel's table of addresses: the mirror reads that table itself.
    if protocol == OUR_PROTOCOL && matches!(kind, RTN_LOCAL | RTN_BROADCAST | RTN_ANYCAST) {
        return None;
    }
    let mut found = Found::default();
    let (mut table, mut metric) = (u32::from(table), 0);
    let mut destination = unspecified(family)?;
    for (kind, value) in body.attributes() {
        match kind {
            RTA_DST => destination = ip(family, value)?,
            RTA_OIF => found.path.link = LinkId(u32_at(value, 0)),
            RTA_GATEWAY => found.path.via = ip(family, value),
            RTA_PRIORITY => metric = u32_at(value, 0),
            RTA_METRICS => found.path.mtu = mtu(family, value),
            RTA_MULTIPATH => found.multipath = Some(value),
            RTA_TABLE => table = u32_at(value, 0),
            RTA_VIA => found.path.via = via(value),
            RTA_ENCAP_TYPE | RTA_ENCAP => found.kernel = true,
            RTA_NH_ID => found.object = Some(u32_at(value, 0)),
            _ => {}
        }
    }
    let net = Net::covering(destination, dst_len)?;
    let target = found.target(family, kind);
    // What routing daemons are shown of a protection, which hides the route to the prefix.
    if (protocol, metric) == (SHIELD_PROTOCOL, SHIELD_METRIC) && target == Target::Blackhole {
        return None;
    }
    Some(Route { table, net, metric, protocol, source, target })
}

/// Does the route hold for packets from somewhere, or of a type of service, only?
fn is_partial(body: &Body<'_>) -> bool {
    body.fixed[2] != 0 || body.fixed[3] != 0 // cannot panic: a route's has 12 bytes
}

fn partial(body: &Body<'_>) -> Option<PartialRoute> {
    let &[family, dst_len, src_len, tos, table, ..] = body.fixed else { return None };
    if u32_at(body.fixed, 8) & RTM_F_CLONED != 0 {
        return None;
    }
    let (mut table, mut metric) = (u32::from(table), 0);
    let (mut to, mut from) = (unspecified(family)?, unspecified(family)?);
    for (kind, value) in body.attributes() {
        match kind {
            RTA_DST => to = ip(family, value)?,
            RTA_SRC => from = ip(family, value)?,
            RTA_PRIORITY => metric = u32_at(value, 0),
            RTA_TABLE => table = u32_at(value, 0),
            _ => {}
        }
    }
    let from = if src_len == 0 { None } else { Some(Net::covering(from, src_len)?) };
    Some(PartialRoute { table, net: Net::covering(to, dst_len)?, from, tos, metric })
}

/// What a route's attributes say of where it leads.
struct Found<'b> {
    path: Path,
    multipath: Option<&'b [u8]>,
    object: Option<u32>,
    kernel: bool,
}

impl Default for Found<'_> {
    fn default() -> Self {
        let path = Path { link: LinkId(0), via: None, weight: 1, mtu: 0 };
        Found { path, multipath: None, object: None, kernel: false }
    }
}

impl Found<'_> {
    fn target(&self, family: u8, kind: u8) -> Target {
        let Path { link, mtu, .. } = self.path;
        match kind {
            RTN_UNICAST => match (self.object, self.multipath) {
                _ if self.kernel => Target::Kernel,
                (Some(id), _) => Target::Object { id, mtu },
                (None, Some(hops)) => paths(family, hops, mtu),
                (None, None) => Target::Path(self.path),
            },
            RTN_LOCAL => Target::Local(link),
            RTN_BROADCAST | RTN_ANYCAST | RTN_MULTICAST => Target::Broadcast(link),
            RTN_BLACKHOLE => Target::Blackhole,
            RTN_UNREACHABLE => Target::Unreachable,
            RTN_PROHIBIT => Target::Prohibit,
            RTN_THROW => Target::Throw,
            _ => Target::Kernel,
        }
    }
}

/// The MTU of `RTA_METRICS`, as far as the kernel heeds it when it forwards: that
/// of IPv6 only where it is locked, and never below RFC 8200 §5.
fn mtu(family: u8, metrics: &[u8]) -> u16 {
    let find = |kind| find(metrics, kind).map_or(0, |value| u32_at(value, 0));
    let mtu = u16::try_from(find(RTAX_MTU)).unwrap_or(u16::MAX);
    match (family, find(RTAX_LOCK) & 1 << RTAX_MTU) {
        (AF_INET6, 0) => 0,
        (AF_INET6, _) if mtu > 0 => mtu.max(1280),
        _ => mtu,
    }
}

/// `RTA_MULTIPATH`: a row of `struct rtnexthop`, each with attributes.
fn paths(family: u8, bytes: &[u8], mtu: u16) -> Target {
    let (mut all, mut rest, mut kernel) = (Vec::new(), bytes, false);
    while let Some(header) = rest.first_chunk::<8>() {
        let length = usize::from(u16_at(header, 0));
        let Some(inner) = rest.get(8..length) else { break };
        let (flags, weight) = (header[2], u16::from(header[3]) + 1);
        let mut path = Path { link: LinkId(u32_at(header, 4)), via: None, weight, mtu };
        for (kind, value) in attributes(inner) {
            match kind {
                RTA_GATEWAY => path.via = ip(family, value),
                RTA_VIA => path.via = via(value),
                RTA_ENCAP_TYPE | RTA_ENCAP => kernel = true,
                _ => {}
            }
        }
        // The kernel does not use others either.
        if flags & (RTNH_F_DEAD | RTNH_F_LINKDOWN) == 0 {
            all.push(path);
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    match (kernel, &all[..]) {
        (true, _) => Target::Kernel,
        (false, []) => Target::Unreachable,
        (false, [one]) => Target::Path(Path { weight: 1, ..*one }),
        (false, _) => Target::Paths(all.into()),
    }
}

/// `RTA_VIA`: a gateway of a family of its own (RFC 8950).
fn via(value: &[u8]) -> Option<IpAddr> {
    let family = u16_at(value, 0);
    ip(u8::try_from(family).ok()?, value.get(2..)?)
}

fn how(flags: u16) -> How {
    match flags {
        _ if flags & NLM_F_MULTI != 0 => How::Listed,
        _ if flags & NLM_F_REPLACE != 0 => How::Replace,
        _ if flags & NLM_F_APPEND != 0 => How::Append,
        _ => How::Create,
    }
}

fn ip(family: u8, value: &[u8]) -> Option<IpAddr> {
    match family {
        AF_INET => Some(Ipv4Addr::from(*value.first_chunk::<4>()?).into()),
        AF_INET6 => Some(Ipv6Addr::from(*value.first_chunk::<16>()?).into()),
        _ => None,
    }
}

fn unspecified(family: u8) -> Option<IpAddr> {
    match family {
        AF_INET => Some(Ipv4Addr::UNSPECIFIED.into()),
        AF_INET6 => Some(Ipv6Addr::UNSPECIFIED.into()),
        _ => None,
    }
}

/// Kinds come in fours: new, deleted, and two of requests.
const DELETED: u16 = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use netlink::message::Messages;
    use proptest::prelude::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = ((value.len() + 4) as u16).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn decoded(kind: u16, flags: u16, fixed: &[u8], attributes: &[Vec<u8>]) -> Option<Event> {
        let payload = [fixed, &attributes.concat()].concat();
        decode(&Message { kind, flags, sequence: 0, payload: &payload }, Source::Kernel)
    }

    const ROUTE4: [u8; 12] = [2, 24, 0, 0, 254, 12, 0, 1, 0, 0, 0, 0];

    fn target(attributes: &[Vec<u8>]) -> Target {
        match decoded(RTM_NEWROUTE, 0, &ROUTE4, attributes) {
            Some(Event::Route(route, How::Create)) => route.target,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_route_by_gateway() {
        let attributes = [
            attribute(1, &[203, 0, 113, 0]),
            attribute(15, &1000_u32.to_ne_bytes()),
            attribute(4, &3_u32.to_ne_bytes()),
            attribute(5, &[192, 0, 2, 1]),
            attribute(6, &32_u32.to_ne_bytes()),
        ];
        let via = Some("192.0.2.1".parse().unwrap());
        let route = Route {
            table: 1000,
            net: Net::covering("203.0.113.0".parse().unwrap(), 24).unwrap(),
            metric: 32,
            protocol: 12,
            source: Source::Kernel,
            target: Target::Path(Path { link: LinkId(3), via, weight: 1, mtu: 0 }),
        };
        let listed = decoded(RTM_NEWROUTE, NLM_F_MULTI, &ROUTE4, &attributes);
        assert_eq!(listed, Some(Event::Route(route.clone(), How::Listed)));
        let gone = decoded(RTM_DELROUTE, 0, &ROUTE4, &attributes);
        assert_eq!(gone, Some(Event::RouteGone(route)));
    }

    #[test]
    fn copies_of_our_own_addresses_are_not_heard_twice() {
        let of = |table, protocol, kind| {
            let fixed = [2, 32, 0, 0, table, protocol, 254, kind, 0, 0, 0, 0];
            let attributes = [attribute(1, &[10, 0, 1, 1]), attribute(4, &3_u32.to_ne_bytes())];
            decoded(RTM_NEWROUTE, NLM_F_MULTI, &fixed, &attributes)
        };
        for kind in [RTN_LOCAL, RTN_BROADCAST, RTN_ANYCAST] {
            assert_eq!(of(100, OUR_PROTOCOL, kind), None);
            assert!(of(255, 2, kind).is_some() && of(100, 3, kind).is_some());
        }
        assert!(of(100, OUR_PROTOCOL, 1).is_some(), "a static route");
    }

    #[test]
    fn what_routing_daemons_are_shown_of_a_protection_is_no_route() {
        let with = |protocol: u8, kind: u8, metric: u32| {
            let fixed = [2, 24, 0, 0, 254, protocol, 0, kind, 0, 0, 0, 0];
            let attributes = [attribute(1, &[203, 0, 113, 0]), attribute(6, &metric.to_ne_bytes())];
            let added = decoded(RTM_NEWROUTE, 0, &fixed, &attributes).is_some();
            assert_eq!(added, decoded(RTM_DELROUTE, 0, &fixed, &attributes).is_some());
            added
        };
        const BLACKHOLE: u8 = 6;
        assert!(!with(SHIELD_PROTOCOL, BLACKHOLE, SHIELD_METRIC));
        assert!(with(OUR_PROTOCOL, BLACKHOLE, 0), "a static route");
        assert!(with(SHIELD_PROTOCOL, 7, SHIELD_METRIC) && with(4, BLACKHOLE, SHIELD_METRIC));
    }

    #[test]
    fn the_mtu_of_a_route_where_the_kernel_heeds_it() {
        let metrics = |locks: &[u32], mtu: u32| {
            let lock = locks.iter().map(|bits| attribute(1, &bits.to_ne_bytes()));
            let all: Vec<_> = lock.chain([attribute(2, &mtu.to_ne_bytes())]).collect();
            all.concat()
        };
        assert_eq!(mtu(AF_INET, &metrics(&[], 1400)), 1400);
        assert_eq!(mtu(AF_INET, &metrics(&[4], 70_000)), u16::MAX);
        assert_eq!(mtu(AF_INET, &attribute(8, &[7, 0, 0, 0])), 0);
        assert_eq!(mtu(AF_INET6, &metrics(&[], 1400)), 0, "hosts' only");
        assert_eq!(mtu(AF_INET6, &metrics(&[2], 1400)), 0, "another metric is locked");
        assert_eq!(mtu(AF_INET6, &metrics(&[4], 1400)), 1400);
        assert_eq!(mtu(AF_INET6, &metrics(&[4], 600)), 1280);
        assert_eq!(mtu(AF_INET6, &metrics(&[4], 0)), 0);
        let all = [attribute(8, &metrics(&[], 1400)), attribute(30, &5_u32.to_ne_bytes())];
        assert_eq!(target(&all), Target::Object { id: 5, mtu: 1400 });
        let hop = [&[8, 0, 0, 0][..], &3_u32.to_ne_bytes()].concat();
        let all = [attribute(9, &[hop.clone(), hop].concat()), attribute(8, &metrics(&[], 1400))];
        let path = Path { link: LinkId(3), via: None, weight: 1, mtu: 1400 };
        assert_eq!(target(&all), Target::Paths([path; 2].into()));
    }

    #[test]
    fn routes_for_some_packets_only() {
        let to = attribute(1, &[203, 0, 113, 0]);
        let net = |text: &str| text.parse::<Net>().unwrap();
        let by_tos =
            PartialRoute { table: 254, net: net("203.0.113.0/24"), from: None, tos: 16, metric: 0 };
        let fixed = [2, 24, 0, 16, 254, 12, 0, 1, 0, 0, 0, 0];
        let found = decoded(RTM_NEWROUTE, 0, &fixed, std::slice::from_ref(&to));
        assert_eq!(found, Some(Event::Partial(by_tos)));
        let found = decoded(RTM_DELROUTE, 0, &fixed, &[to]);
        assert_eq!(found, Some(Event::PartialGone(by_tos)));
        let from: Ipv6Addr = "2001:db8::".parse().unwrap();
        let fixed = [10, 0, 32, 0, 254, 12, 0, 1, 0, 0, 0, 0];
        let all = [attribute(2, &from.octets()), attribute(6, &1024_u32.to_ne_bytes())];
        let by_source = PartialRoute {
            table: 254,
            net: net("::/0"),
            from: Some(net("2001:db8::/32")),
            tos: 0,
            metric: 1024,
        };
        assert_eq!(decoded(RTM_NEWROUTE, 0, &fixed, &all), Some(Event::Partial(by_source)));
    }

    #[test]
    fn gateways_of_the_other_family_weights_and_dead_members() {
        let mut gateway = 10_u16.to_ne_bytes().to_vec();
        gateway.extend(Ipv6Addr::LOCALHOST.octets());
        let hop = |flags: u8, weight: u8, link: u32, inner: &[u8]| {
            let mut bytes = ((8 + inner.len()) as u16).to_ne_bytes().to_vec();
            bytes.extend([flags, weight]);
            bytes.extend(link.to_ne_bytes());
            bytes.extend(inner);
            bytes
        };
        let [a, b] = [attribute(18, &gateway), attribute(5, &[192, 0, 2, 9])];
        let [first, second] = [hop(0, 0, 3, &a), hop(0, 2, 4, &b)];
        let all = target(&[attribute(9, &[first.clone(), second.clone()].concat())]);
        let path = |link, via: &str, weight| {
            let via = Some(via.parse().unwrap());
            Path { link: LinkId(link), via, weight, mtu: 0 }
        };
        assert_eq!(all, Target::Paths([path(3, "::1", 1), path(4, "192.0.2.9", 3)].into()));
        let dead = hop(1, 0, 3, &a);
        let one = target(&[attribute(9, &[dead.clone(), second].concat())]);
        assert_eq!(one, Target::Path(path(4, "192.0.2.9", 1)));
        assert_eq!(target(&[attribute(9, &dead)]), Target::Unreachable);
    }

    #[test]
    fn next_hop_objects_and_groups() {
        let members = [7_u32.to_ne_bytes(), [1, 0, 0, 0], 8_u32.to_ne_bytes(), [0, 1, 0, 0]];
        let group = decoded(
            RTM_NEWNEXTHOP,
            0,
            &[0; 8],
            &[attribute(1, &5_u32.to_ne_bytes()), attribute(2, &members.concat())],
        );
        let to = NextHopTo::Group([(7, 2), (8, 257)].into());
        assert_eq!(group, Some(Event::NextHop(NextHop { id: 5, to })));
        let gone = decoded(RTM_NEWNEXTHOP + 1, 0, &[0; 8], &[attribute(1, &5_u32.to_ne_bytes())]);
        assert_eq!(gone, Some(Event::NextHopGone(5)));
        assert_eq!(
            target(&[attribute(30, &5_u32.to_ne_bytes())]),
            Target::Object { id: 5, mtu: 0 }
        );
    }

    #[test]
    fn links_neighbours_addresses() {
        let mut fixed = [0; 16];
        fixed[4] = 9;
        fixed[8] = 0x41;
        let vrf = [attribute(1, b"vrf\0"), attribute(2, &attribute(1, &10_u32.to_ne_bytes()))];
        let attributes = [attribute(3, b"red\0"), attribute(18, &vrf.concat())];
        let Some(Event::Link(link)) = decoded(RTM_NEWLINK, 0, &fixed, &attributes) else {
            panic!()
        };
        assert_eq!((link.name.as_str(), link.up, link.vrf_table), ("red", true, Some(10)));
        let kind = |name: &[u8]| attribute(18, &attribute(1, name));
        let below = |attributes: &[Vec<u8>]| match decoded(RTM_NEWLINK, 0, &fixed, attributes) {
            Some(Event::Link(link)) => link.macvlan_of,
            _ => panic!(),
        };
        let (lower, vrrp) = (attribute(5, &8_u32.to_ne_bytes()), kind(b"macvlan\0"));
        assert_eq!(below(&[lower.clone(), vrrp.clone()]), Some(LinkId(8)));
        assert_eq!(below(&[lower.clone(), kind(b"vlan\0")]), None);
        let elsewhere = attribute(37, &1_u32.to_ne_bytes());
        assert_eq!(below(&[lower, vrrp, elsewhere]), None);

        let mut fixed = [0; 12];
        (fixed[0], fixed[4], fixed[8]) = (2, 9, 4);
        let attributes = [attribute(1, &[192, 0, 2, 1]), attribute(2, &[2; 6])];
        let neighbour = decoded(RTM_NEWNEIGH, 0, &fixed, &attributes);
        let Some(Event::Neighbour(neighbour)) = neighbour else { panic!() };
        assert_eq!(neighbour.resolved(), Some([2; 6]));

        let fixed = [2, 24, 0, 0, 9, 0, 0, 0];
        let attributes = [attribute(1, &[192, 0, 2, 2]), attribute(2, &[192, 0, 2, 1])];
        let Some(Event::Address(address)) = decoded(RTM_NEWADDR, 0, &fixed, &attributes) else {
            panic!()
        };
        assert_eq!((address.ip.to_string().as_str(), address.len), ("192.0.2.1", 24));
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded_or_not(
            kind in prop_oneof![16_u16..32, 104_u16..108],
            bytes in proptest::collection::vec(any::<u8>(), 0..160),
        ) {
            let message = Message { kind, flags: 0, sequence: 0, payload: &bytes };
            let _ = decode(&message, Source::Kernel);
            for message in Messages::new(&bytes) {
                let _ = decode(&message, Source::Fpm);
            }
        }
    }
}
