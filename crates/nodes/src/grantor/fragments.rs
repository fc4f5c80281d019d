//! Fragments of inner packets, until a policy can be asked about the whole.
//!
//! ```text
//!  fragment ─► Gather ─► first ─► its others      first: waits for a verdict, as a packet does
//!                          │
//!  question:  link, outer, inner header of all │ bytes of each, as far as a question goes
//! ```
//!
//! What is granted goes on in the fragments that came: nothing is longer than its way.

use policy::ask::{Facts, Matter, Question};
use wire::bytes::{be16, be32, put16};
use wire::bytes::{ipv4 as ip4, ipv6 as ip6};
use wire::{checksum, ipv4, ipv6, protocol};

use super::gather::{Chain, Gather, Key, Part, World};
use super::lanes::Inner;
use super::parked::{Parked, is_v4};

/// Those that wait, and what a question is made of.
pub(super) struct Fragments {
    pub all: Gather<Parked>,
    scratch: Box<[u8]>,
}

impl Fragments {
    /// Room for so many; none: fragments are asked about one by one.
    pub fn new(capacity: usize) -> Fragments {
        let scratch = if capacity == 0 { 0 } else { LONGEST };
        Fragments { all: Gather::new(capacity), scratch: vec![0; scratch].into() }
    }

    /// Whether they wait for one another.
    pub fn wait(&self) -> bool {
        self.all.capacity() > 0
    }

    /// Takes the first of a chain out; it has the others.
    pub fn next(&mut self, mut chain: Chain) -> Option<Parked> {
        let parked = self.all.next(&mut chain)?;
        Some(Parked { rest: chain, ..parked })
    }

    /// What a policy is asked about a packet, of so many bytes at most.
    pub fn question<'a>(&'a mut self, id: u32, parked: &'a Parked, most: usize) -> Question<'a> {
        if parked.whole == 0 {
            return parked.question(id, most);
        }
        self.of_whole(id, parked, most).unwrap_or_else(|| parked.question(id, most))
    }

    /// The same about one that came in fragments. `None`: it is not as it was when it came.
    fn of_whole<'a>(&'a mut self, id: u32, first: &Parked, most: usize) -> Option<Question<'a>> {
        let Question { facts, .. } = first.question(id, most);
        let frame = first.kept.data();
        let l3 = usize::from(facts.inner_l3);
        let head = before(frame.get(l3..)?, &first.inner)?;
        let headers = usize::from(first.inner.headers);
        let mut len = l3 + head;
        self.scratch.get_mut(..len)?.copy_from_slice(frame.get(..len)?);
        be_whole(self.scratch.get_mut(l3..len)?, &first.inner, head, first.whole)?;
        for part in std::iter::once(first).chain(self.all.iter(first.rest)) {
            let bytes = part.kept.data();
            let l3 = usize::from(part.link) + usize::from(part.inner.at);
            let head = before(bytes.get(l3..)?, &part.inner)?;
            let bytes = bytes.get(l3 + head..l3 + usize::from(part.inner.total))?;
            let end = (len + bytes.len()).min(most).min(self.scratch.len()).max(len);
            self.scratch.get_mut(len..end)?.copy_from_slice(&bytes[..end - len]);
            len = end;
        }
        // Headers behind the Fragment header are in the first fragment, and count as bytes of all.
        let upper = (head as u32 + first.whole).saturating_sub(headers as u32);
        let facts = Facts { frag: false, upper_len: upper as u16, ..facts };
        let bytes = &self.scratch[..len.min(most)];
        Some(Question { id, matter: Matter::Packet, facts, bytes })
    }
}

/// Of which packet of `world` a fragment is, and which part; `packet` starts at the inner
/// header. `None`: no part can be so long, or so short.
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

/// Whether a packet may be so long: `whole` bytes behind the headers of its first fragment, which
/// may be longer than those of the one that ends it.
pub(super) fn is_possible(first: &Parked, whole: u32) -> bool {
    let l3 = usize::from(first.link) + usize::from(first.inner.at);
    let head = first.kept.data().get(l3..).and_then(|packet| before(packet, &first.inner));
    head.is_some_and(|head| head as u32 + whole <= longest(&first.inner))
}

/// Bytes of the longest packet: IPv6 counts what is behind its fixed header.
fn longest(inner: &Inner) -> u32 {
    if is_v4(inner) { 0xffff } else { 0xffff + ipv6::LEN as u32 }
}

/// Bytes of an inner packet that each of its fragments has before its part.
fn before(packet: &[u8], inner: &Inner) -> Option<usize> {
    if is_v4(inner) {
        return Some(inner.headers.into());
    }
    let mut kind = *packet.get(ipv6::NEXT_HEADER)?;
    let mut at = ipv6::LEN;
    for _ in 0..=ipv6::MAX_EXTENSIONS {
        let fixed = packet.get(at..)?.first_chunk::<8>()?;
        at += match kind {
            protocol::FRAGMENT => return Some(at + ipv6::Fragment::LEN),
            protocol::AH => (usize::from(fixed[1]) + 2) * 4,
            _ => (usize::from(fixed[1]) + 1) * 8,
        };
        kind = fixed[0];
    }
    None
}

/// Makes headers those of a packet with `whole` bytes behind them. Of IPv6 it is one with a
/// Fragment header, that of all its bytes: RFC 6946.
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

/// Bytes of the longest frame in a question: link header, outer header, 65,535 behind them.
const LONGEST: usize = 22 + 40 + 40 + 65_535;
