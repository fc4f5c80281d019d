//! Checks the inner packet of a packet that came for a Grantor. Every defect has a name.

use core::net::{Ipv4Addr, Ipv6Addr};

use graph::labels;
use wire::bytes::{array, be16, be128, ipv4 as ip4, ipv6 as ip6};
use wire::{checksum, ipv4, ipv6, protocol};

use super::lanes::Inner;
use super::nets::Nets;

labels! {
    /// Why packets are dropped.
    pub enum Why {
        /// The outer source is not in `gatekeepers`.
        Stranger = "stranger",
        /// The outer header has extension headers.
        OuterExtensions = "outer_extensions",
        /// The outer packet is a fragment.
        OuterFragment = "outer_fragment",
        /// IPv6 in IPv4, or IPv4 in IPv6.
        MixedFamilies = "mixed_families",
        /// The version of the inner header is not that of the outer one.
        InnerVersion = "inner_version",
        /// The inner header, or the packet length in it, exceeds the bytes that are there.
        InnerLength = "inner_length",
        /// The inner header's checksum is wrong.
        InnerChecksum = "inner_checksum",
        /// The inner source is unspecified, a group, or valid on one link only.
        InnerSource = "inner_source",
        /// The inner extension headers are cut off, too many, or in a wrong order.
        InnerExtensions = "inner_extensions",
        /// The inner packet is IP in IP again.
        Nested = "nested",
        /// The inner destination is not in `serves`.
        NotServed = "not_served",
        /// A copy from a shield in shadow mode that asks for nothing.
        Shadow = "shadow",
        /// The outer header reports congestion, and the inner packet cannot carry that: RFC 6040.
        Congested = "congested",
        /// There is no room for a link header.
        NoRoom = "no_headroom",
    }
}

/// The inner packet of `packet`, an outer IPv4 packet without options. The inner header gives its
/// length: bytes behind it are the padding of a short frame that was wrapped whole, and are cut
/// off.
pub(super) fn v4(packet: &[u8], serves: &Nets) -> Result<Inner, Why> {
    let outer = packet.first_chunk::<{ ipv4::MIN_LEN }>().ok_or(Why::InnerLength)?;
    let fragment = be16(outer, ipv4::FRAGMENT);
    if fragment & (ipv4::OFFSET_MASK | ipv4::MORE_FRAGMENTS) != 0 {
        return Err(Why::OuterFragment);
    }
    if outer[ipv4::PROTOCOL] != protocol::IPIP {
        return Err(Why::MixedFamilies);
    }
    let payload = packet.get(ipv4::MIN_LEN..be16(outer, ipv4::TOTAL_LEN).into());
    let payload = payload.ok_or(Why::InnerLength)?;
    if payload.first().is_some_and(|first| first >> 4 != 4) {
        return Err(Why::InnerVersion);
    }
    let (inner, dst) = four(payload)?;
    if !serves.has4(dst) {
        return Err(Why::NotServed);
    }
    let (at, tos) = (ipv4::MIN_LEN as u8, outer[ipv4::TOS]);
    Ok(Inner { at, dscp: tos >> 2, ecn: tos & 3, ..inner })
}

/// An IPv4 packet without an outer header, and its destination.
pub(super) fn four(payload: &[u8]) -> Result<(Inner, Ipv4Addr), Why> {
    let head = payload.first_chunk::<{ ipv4::MIN_LEN }>().ok_or(Why::InnerLength)?;
    let headers = usize::from(head[ipv4::VERSION_IHL] & 15) * 4;
    let total = usize::from(be16(head, ipv4::TOTAL_LEN));
    if headers < ipv4::MIN_LEN || total < headers || total > payload.len() {
        return Err(Why::InnerLength);
    }
    let is_right = match headers {
        ipv4::MIN_LEN => checksum::is_right_20(head),
        _ => checksum::is_right(&payload[..headers]), // cannot panic: it is no more than `total`
    };
    if !is_right {
        return Err(Why::InnerChecksum);
    }
    if !ipv4::is_source(array(head, ipv4::SRC)) {
        return Err(Why::InnerSource);
    }
    let protocol = head[ipv4::PROTOCOL];
    if is_ip(protocol) {
        return Err(Why::Nested);
    }
    let frag = be16(head, ipv4::FRAGMENT) & (ipv4::OFFSET_MASK | ipv4::MORE_FRAGMENTS) != 0;
    let (headers, total) = (headers as u16, total as u16);
    let inner = Inner { frag, protocol, headers, total, ..Inner::default() };
    Ok((inner, ip4(head, ipv4::DST)))
}

/// The same for IPv6.
pub(super) fn v6(packet: &[u8], serves: &Nets) -> Result<Inner, Why> {
    let outer = packet.first_chunk::<{ ipv6::LEN }>().ok_or(Why::InnerLength)?;
    let len = ipv6::LEN + usize::from(be16(outer, ipv6::PAYLOAD_LEN));
    let payload = packet.get(ipv6::LEN..len).ok_or(Why::InnerLength)?;
    match outer[ipv6::NEXT_HEADER] {
        protocol::IPV6 => {}
        protocol::IPIP => return Err(Why::MixedFamilies),
        next => return Err(behind_extensions(next, payload).unwrap_or(Why::OuterExtensions)),
    }
    if payload.first().is_some_and(|first| first >> 4 != 6) {
        return Err(Why::InnerVersion);
    }
    let (inner, dst) = six(payload)?;
    if !serves.has6(dst) {
        return Err(Why::NotServed);
    }
    let class = (be16(outer, ipv6::VERSION) >> 4) as u8;
    Ok(Inner { at: ipv6::LEN as u8, dscp: class >> 2, ecn: class & 3, ..inner })
}

/// The same as [`four`], for IPv6.
pub(super) fn six(payload: &[u8]) -> Result<(Inner, Ipv6Addr), Why> {
    let (head, rest) = payload.split_first_chunk::<{ ipv6::LEN }>().ok_or(Why::InnerLength)?;
    let len = usize::from(be16(head, ipv6::PAYLOAD_LEN));
    let rest = rest.get(..len).ok_or(Why::InnerLength)?;
    if !ipv6::is_source(be128(head, ipv6::SRC)) {
        return Err(Why::InnerSource);
    }
    let chain = ipv6::walk(head[ipv6::NEXT_HEADER], rest).map_err(|_| Why::InnerExtensions)?;
    if is_ip(chain.protocol) {
        return Err(Why::Nested);
    }
    let inner = Inner {
        v6: true,
        frag: chain.fragment.is_some(),
        protocol: chain.protocol,
        headers: (ipv6::LEN + chain.at) as u16, // at most `total`
        total: (ipv6::LEN + len) as u16,        // at most the packet's length
        ..Inner::default()
    };
    Ok((inner, ip6(head, ipv6::DST)))
}

/// The defect of an outer IPv6 packet with extension headers; `None` where it holds no IP packet.
/// Headers that cannot be followed may hold one.
pub(super) fn behind_extensions(next: u8, payload: &[u8]) -> Option<Why> {
    let Ok(chain) = ipv6::walk(next, payload) else { return Some(Why::OuterExtensions) };
    match (is_ip(chain.protocol), chain.fragment) {
        (true, Some(_)) => Some(Why::OuterFragment),
        (true, None) => Some(Why::OuterExtensions),
        (false, _) => None,
    }
}

/// Whether a protocol is IP in IP again.
#[inline(always)]
pub(super) const fn is_ip(protocol: u8) -> bool {
    protocol == protocol::IPIP || protocol == protocol::IPV6
}
