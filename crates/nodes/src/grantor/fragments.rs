//! Fragments of inner packets, which wait until the policy can be asked about the whole packet.
//!
//! ```text
//!  fragment ─► Gather ─► first ─► its others      first: waits for a verdict, as a packet does
//!                          │
//!  question:  link, outer, inner header of all │ bytes of each, as far as a question goes
//! ```
//!
//! Granted fragments go on as they came, or joined: as one packet, if its route's MTU allows that.
//!
//! Sources: RFC 791 §3.2, RFC 8200 §4.5; RFC 3168 §5.3 (congestion); RFC 1858, RFC 7112 (headers in
//! the first fragment). The attack of RFC 3128, a second fragment that overwrites the first one's
//! TCP flags, is an overlap.

use policy::ask::{Facts, Matter, Question};
use wire::bytes::{be16, be32, put16};
use wire::bytes::{ipv4 as ip4, ipv6 as ip6};
use wire::{checksum, ipv4, ipv6, protocol};

use super::gather::{Chain, Gather, Key, Part, World};
use super::lanes::Inner;
use super::parked::{Parked, is_v4};
use super::settings::Ecn;
use super::unwrap::{CE, NOT_ECT, ecn};

/// The fragments that wait, and a buffer for questions.
pub(super) struct Fragments {
    pub all: Gather<Parked>,
    scratch: Box<[u8]>,
}

impl Fragments {
    /// Room for this many fragments; with 0, each fragment is asked about alone.
    pub fn new(capacity: usize) -> Fragments {
        let scratch = if capacity == 0 { 0 } else { LONGEST };
        Fragments { all: Gather::new(capacity), scratch: vec![0; scratch].into() }
    }

    /// Whether fragments wait for one another.
    pub fn wait(&self) -> bool {
        self.all.capacity() > 0
    }

    /// Takes the first fragment out of a chain; it carries the rest.
    pub fn next(&mut self, mut chain: Chain) -> Option<Parked> {
        let parked = self.all.next(&mut chain)?;
        Some(Parked { rest: chain, ..parked })
    }

    /// The question about a packet, of at most `most` bytes.
    pub fn question<'a>(&'a mut self, id: u32, parked: &'a Parked, most: usize) -> Question<'a> {
        if parked.whole == 0 {
            return parked.question(id, most);
        }
        self.of_whole(id, parked, most).unwrap_or_else(|| parked.question(id, most))
    }

    /// The same for a packet in fragments. `None`: its bytes have changed since it came.
    fn of_whole<'a>(&'a mut self, id: u32, first: &Parked, most: usize) -> Option<Question<'a>> {
        let Question { facts, .. } = first.question(id, most);
        let frame = first.kept.data();
        let l3 = usize::from(facts.inner_l3);
        let head = before(frame.get(l3..)?, &first.inner)?;
        let headers = usize::from(first.inner.headers);
        let len = l3 + head;
        self.scratch.get_mut(..len)?.copy_from_slice(frame.get(..len)?);
        be_whole(self.scratch.get_mut(l3..len)?, &first.inner, head, first.whole)?;
        let len = self.copy_parts(first, len, most)?;
        // Headers behind the Fragment header are in the first fragment, and count as payload of the whole.
        let upper = (head as u32 + first.whole).saturating_sub(headers as u32);
        let facts = Facts { frag: false, upper_len: upper as u16, ..facts };
        let bytes = &self.scratch[..len.min(most)];
        Some(Question { id, matter: Matter::Packet, facts, bytes })
    }

    /// Appends the payload of all fragments to the first `len` bytes of the scratch buffer, up to
    /// `most`; returns the new length.
    fn copy_parts(&mut self, first: &Parked, mut len: usize, most: usize) -> Option<usize> {
        for part in std::iter::once(first).chain(self.all.iter(first.rest)) {
            let bytes = part.kept.data();
            let l3 = usize::from(part.link) + usize::from(part.inner.at);
            let head = before(bytes.get(l3..)?, &part.inner)?;
            let bytes = bytes.get(l3 + head..l3 + usize::from(part.inner.total))?;
            let end = (len + bytes.len()).min(most).min(self.scratch.len()).max(len);
            self.scratch.get_mut(len..end)?.copy_from_slice(&bytes[..end - len]);
            len = end;
        }
        Some(len)
    }

    /// Joins all fragments into one packet of at most `most` bytes.
    pub fn join(&mut self, first: Parked, most: usize, mode: Ecn) -> Joined {
        if self.is_congested(&first, mode) {
            return Joined::Congested(first);
        }
        let Some((len, inner)) = self.lay_out(&first, most, mode) else {
            return Joined::Apart(first);
        };
        let rest = first.rest;
        let mut parked = first;
        if !parked.kept.fill(&self.scratch[..len]) {
            return Joined::Apart(parked);
        }
        Joined::One(Parked { inner, rest: Chain::EMPTY, whole: 0, ..parked }, rest)
    }

    /// Builds the packet's frame in the scratch buffer; returns its length. `None`: the packet is too long.
    fn lay_out(&mut self, first: &Parked, most: usize, mode: Ecn) -> Option<(usize, Inner)> {
        let reports = self.services(first, mode).any(|ecn| ecn == Some(CE));
        let frame = first.kept.data();
        let l3 = usize::from(first.link) + usize::from(first.inner.at);
        let mut inner = Inner { frag: false, ..first.inner };
        let mut head = before(frame.get(l3..)?, &inner)?;
        let v4 = is_v4(&inner);
        if !v4 {
            head -= ipv6::Fragment::LEN;
            inner.headers -= ipv6::Fragment::LEN as u16;
        }
        let total = head + first.whole as usize;
        inner.total = u16::try_from(total).ok().filter(|_| total <= most)?;
        let headers = self.scratch.get_mut(..l3 + head)?;
        headers.copy_from_slice(frame.get(..l3 + head)?);
        let headers = &mut headers[l3..];
        if reports {
            headers[1] |= if v4 { CE } else { CE << 4 };
        }
        if v4 {
            be_whole(headers, &inner, head, first.whole)?;
        } else {
            // The field that named the Fragment header names the header behind it.
            let (names, at) = fragment_header(frame.get(l3..)?)?;
            *headers.get_mut(names)? = *frame.get(l3 + at)?;
            put16(
                headers.first_chunk_mut::<{ ipv6::LEN }>()?,
                ipv6::PAYLOAD_LEN,
                (total - ipv6::LEN) as u16,
            );
        }
        let len = self.copy_parts(first, l3 + head, usize::MAX)?;
        (len == l3 + total).then_some((len, inner))
    }

    /// Whether one fragment reports congestion and another cannot: RFC 3168 §5.3. As deployed, the
    /// whole packet reports congestion nevertheless.
    fn is_congested(&self, first: &Parked, mode: Ecn) -> bool {
        let has = |what| self.services(first, mode).any(|ecn| ecn == what);
        has(None) || mode == Ecn::Rfc6040 && has(Some(CE)) && has(Some(NOT_ECT))
    }

    /// The ECN bits of each fragment once it is unwrapped.
    fn services(&self, first: &Parked, mode: Ecn) -> impl Iterator<Item = Option<u8>> + use<'_> {
        let of = move |part: &Parked| {
            let at = usize::from(part.link) + usize::from(part.inner.at) + 1;
            let bits = part.kept.data().get(at).copied().unwrap_or_default();
            let inner = if is_v4(&part.inner) { bits & 3 } else { bits >> 4 & 3 };
            ecn(part.inner.ecn, inner, mode)
        };
        std::iter::once(of(first)).chain(self.all.iter(first.rest).map(of))
    }
}

/// The result of joining fragments.
pub(super) enum Joined {
    /// They are joined; the other fragments are no longer needed.
    One(Parked, Chain),
    /// The packet would be too long.
    Apart(Parked),
    /// Some fragments report congestion, and the whole packet cannot.
    Congested(Parked),
}

/// The key and the range of a fragment of `world`; `packet` starts at the inner header. `None`: the
/// length is invalid for a fragment.
pub(super) fn part(packet: &[u8], inner: &Inner, world: World) -> Option<(Key, Part)> {
    let head = before(packet, inner)?;
    let (key, start, more) = if is_v4(inner) {
        let header = packet.first_chunk::<{ ipv4::MIN_LEN }>()?;
        let word = be16(header, ipv4::FRAGMENT);
        let key = Key {
            world,
            src: u32::from(ip4(header, ipv4::SRC)).into(),
            dst: u32::from(ip4(header, ipv4::DST)).into(),
            id: be16(header, ipv4::IDENT).into(),
            protocol: Some(inner.protocol),
        };
        (key, u32::from(word & ipv4::OFFSET_MASK) * 8, word & ipv4::MORE_FRAGMENTS != 0)
    } else {
        let header = packet.first_chunk::<{ ipv6::LEN }>()?;
        let fragment = packet.get(head - ipv6::Fragment::LEN..head)?.first_chunk::<8>()?;
        let key = Key {
            world,
            src: ip6(header, ipv6::SRC).into(),
            dst: ip6(header, ipv6::DST).into(),
            id: be32(fragment, 4),
            protocol: None,
        };
        let word = be16(fragment, 2);
        (key, u32::from(word & 0xfff8), word & 1 != 0)
    };
    let len = u32::from(inner.total).checked_sub(head as u32)?;
    let end = start + len;
    let fits = len > 0 && (!more || len.is_multiple_of(8)) && head as u32 + end <= longest(inner);
    fits.then_some((key, Part { start, end, more }))
}

/// Whether a packet may have this length: `whole` bytes behind the headers of its first fragment,
/// which may be longer than those of its last one.
pub(super) fn is_possible(first: &Parked, whole: u32) -> bool {
    let l3 = usize::from(first.link) + usize::from(first.inner.at);
    let head = first.kept.data().get(l3..).and_then(|packet| before(packet, &first.inner));
    head.is_some_and(|head| head as u32 + whole <= longest(&first.inner))
}

/// Bytes of the longest packet: an IPv6 length excludes the fixed header.
fn longest(inner: &Inner) -> u32 {
    if is_v4(inner) { 0xffff } else { 0xffff + ipv6::LEN as u32 }
}

/// Bytes of an inner packet that each of its fragments repeats before its range.
fn before(packet: &[u8], inner: &Inner) -> Option<usize> {
    if is_v4(inner) {
        return Some(inner.headers.into());
    }
    fragment_header(packet).map(|(_, at)| at + ipv6::Fragment::LEN)
}

/// Where an IPv6 packet names its Fragment header, and where that header is.
fn fragment_header(packet: &[u8]) -> Option<(usize, usize)> {
    let (mut names, mut at) = (ipv6::NEXT_HEADER, ipv6::LEN);
    for _ in 0..=ipv6::MAX_EXTENSIONS {
        let fixed = packet.get(at..)?.first_chunk::<8>()?;
        let len = match *packet.get(names)? {
            protocol::FRAGMENT => return Some((names, at)),
            protocol::AH => (usize::from(fixed[1]) + 2) * 4,
            _ => (usize::from(fixed[1]) + 1) * 8,
        };
        (names, at) = (at, at + len);
    }
    None
}

/// Whether the first of several fragments ends before the TCP flags, or before the upper-layer
/// header of IPv6: it is made to evade filters.
pub(super) fn is_tiny(inner: &Inner, part: &Part) -> bool {
    let least = match (inner.protocol, inner.v6) {
        (protocol::TCP, false) => 16, // RFC 1858 §3.2.1
        (protocol::TCP, true) => 20,  // RFC 7112 §5
        _ => 8,
    };
    part.start == 0 && part.more && inner.total - inner.headers < least
}

/// Makes the headers those of a packet with `whole` bytes behind them. For IPv6 it keeps a Fragment
/// header, as an atomic fragment: RFC 6946.
fn be_whole(headers: &mut [u8], inner: &Inner, head: usize, whole: u32) -> Option<()> {
    if is_v4(inner) {
        {
            let header = headers.first_chunk_mut::<{ ipv4::MIN_LEN }>()?;
            put16(header, ipv4::TOTAL_LEN, (head as u32 + whole) as u16);
            let flags = be16(header, ipv4::FRAGMENT);
            put16(header, ipv4::FRAGMENT, flags & !(ipv4::OFFSET_MASK | ipv4::MORE_FRAGMENTS));
            put16(header, ipv4::CHECKSUM, 0);
        }
        let sum = checksum::checksum(headers);
        put16(headers.first_chunk_mut::<{ ipv4::MIN_LEN }>()?, ipv4::CHECKSUM, sum);
    } else {
        let fragment = headers.get_mut(head - ipv6::Fragment::LEN..head)?.first_chunk_mut::<8>()?;
        put16(fragment, 2, 0);
        let header = headers.first_chunk_mut::<{ ipv6::LEN }>()?;
        put16(header, ipv6::PAYLOAD_LEN, ((head - ipv6::LEN) as u32 + whole) as u16);
    }
    Some(())
}

/// Bytes of the longest frame in a question: link header, outer header, and 65,535 bytes behind them.
const LONGEST: usize = 22 + 40 + 40 + 65_535;
