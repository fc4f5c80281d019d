//! Turns a packet that is granted, or was never asked about, into one that the route lookup takes.
//!
//! ```text
//!  link header │ outer header │ inner packet, padding
//!                link header │ inner packet               what the lookup gets
//! ```
//!
//! A packet from a shield in the same graph has no outer header; nothing is removed or changed.

use graph::{BEFORE, Packets};
use wire::bytes::{array, be16, put16};
use wire::{checksum, ethernet, ipv4, ipv6, vlan};

use super::lanes::Inner;
use super::settings::Ecn;

/// Why a packet does not go on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Unfit {
    /// [`Ecn::Rfc6040`] drops it.
    Congested,
    /// No room for a link header.
    NoRoom,
}

/// Takes the outer header off packet `i`, whose frame has `link` bytes before that header.
/// Afterwards the head is at the inner header.
///
/// The inner TTL leaves as it came, because the deployed Grantor is no hop. The rewrite decrements
/// the TTL, so this node increments it. (A TTL of 255 becomes 254: no packet behind a router has
/// it.)
pub(super) fn unwrap<N>(
    v: &mut Packets<N>,
    i: usize,
    link: usize,
    inner: &Inner,
    mode: Ecn,
) -> Result<(), Unfit> {
    // The head is at the frame's first byte, or behind the link header already.
    let passed = usize::from(v.frame_len(i).wrapping_sub(v.len(i)));
    let left = link.checked_sub(passed).ok_or(Unfit::NoRoom)?;
    if !v.advance(i, left) {
        return Err(Unfit::NoRoom);
    }
    if inner.at == 0 {
        return v.frame(i, link, inner.total.into()).then_some(()).ok_or(Unfit::NoRoom);
    }
    let header = LinkHeader::of(v.before_mut(i), link).ok_or(Unfit::NoRoom)?;
    // The device hashed the outer packet, and all packets of a Gatekeeper share one outer flow.
    v.forget_flow(i);
    if !v.advance(i, inner.at.into()) {
        return Err(Unfit::NoRoom);
    }
    match inner.v6 {
        false => four(v.head_mut(i), inner.ecn, mode)?,
        true => six(v.head_mut(i), inner.ecn, mode)?,
    }
    if !v.frame(i, link, inner.total.into()) {
        return Err(Unfit::NoRoom);
    }
    header.put(v.before_mut(i));
    Ok(())
}

/// The bytes before a head. What lies before them may be in a cache line that nobody has read.
pub(super) enum LinkHeader {
    /// Without tags: its first and its last 8 bytes, which stay in registers.
    Plain([[u8; 8]; 2]),
    /// With one tag: the 8 bytes between as well, of which 6 are the ends'.
    Tagged([[u8; 8]; 3]),
    /// So many, at the end.
    Other([u8; BEFORE], usize),
}

impl LinkHeader {
    #[inline(always)]
    pub(super) fn of(before: &[u8; BEFORE], link: usize) -> Option<LinkHeader> {
        match link {
            ethernet::LEN => return Some(LinkHeader::Plain(PLAIN.map(|at| array(before, at)))),
            TAGGED_LEN => return Some(LinkHeader::Tagged(TAGGED.map(|at| array(before, at)))),
            _ => {}
        }
        let at = BEFORE.checked_sub(link)?;
        let mut bytes = [0; BEFORE];
        bytes.get_mut(at..)?.copy_from_slice(before.get(at..)?);
        Some(LinkHeader::Other(bytes, at))
    }

    #[inline(always)]
    pub(super) fn put(&self, before: &mut [u8; BEFORE]) {
        // cannot panic: all places are constant.
        let mut put = |at: usize, bytes: &[u8; 8]| before[at..at + 8].copy_from_slice(bytes);
        match self {
            LinkHeader::Plain(parts) => {
                PLAIN.into_iter().zip(parts).for_each(|(at, part)| put(at, part))
            }
            LinkHeader::Tagged(parts) => {
                TAGGED.into_iter().zip(parts).for_each(|(at, part)| put(at, part))
            }
            LinkHeader::Other(bytes, at) => before[*at..].copy_from_slice(&bytes[*at..]),
        }
    }
}

/// Where a plain header's parts begin.
const PLAIN: [usize; 2] = [BEFORE - ethernet::LEN, BEFORE - 8];
/// Where the parts of a header with one tag begin.
const TAGGED: [usize; 3] = [BEFORE - TAGGED_LEN, BEFORE - 16, BEFORE - 8];
/// Bytes of a link header with one tag.
pub(super) const TAGGED_LEN: usize = ethernet::LEN + vlan::LEN;

fn four(head: &mut [u8; 64], outer: u8, mode: Ecn) -> Result<(), Unfit> {
    let ecn = ecn(outer, head[ipv4::TOS] & 3, mode).ok_or(Unfit::Congested)?;
    let change = |head: &mut [u8; 64], at, new| {
        let sum = checksum::update(be16(head, ipv4::CHECKSUM), be16(head, at), new);
        put16(head, at, new);
        put16(head, ipv4::CHECKSUM, sum);
    };
    let first = be16(head, ipv4::VERSION_IHL);
    if first & 3 != ecn.into() {
        change(head, ipv4::VERSION_IHL, first & !3 | u16::from(ecn));
    }
    if head[ipv4::TTL] < u8::MAX {
        change(head, ipv4::TTL, be16(head, ipv4::TTL) + 0x100);
    }
    Ok(())
}

fn six(head: &mut [u8; 64], outer: u8, mode: Ecn) -> Result<(), Unfit> {
    let first = be16(head, ipv6::VERSION);
    let ecn = ecn(outer, (first >> 4) as u8 & 3, mode).ok_or(Unfit::Congested)?;
    put16(head, ipv6::VERSION, first & !(3 << 4) | u16::from(ecn) << 4);
    head[ipv6::HOP_LIMIT] = head[ipv6::HOP_LIMIT].saturating_add(1);
    Ok(())
}

/// The ECN bits that the inner packet gets; `None`: the packet is dropped.
pub(super) fn ecn(outer: u8, inner: u8, mode: Ecn) -> Option<u8> {
    match (mode, outer, inner) {
        (Ecn::Deployed, CE, _) => Some(CE),
        (Ecn::Deployed, ..) => Some(inner),
        // RFC 6040, figure 4.
        (Ecn::Rfc6040, CE, NOT_ECT) => None,
        (Ecn::Rfc6040, _, NOT_ECT) => Some(NOT_ECT),
        (Ecn::Rfc6040, CE, _) => Some(CE),
        (Ecn::Rfc6040, ECT1, ECT0) => Some(ECT1),
        (Ecn::Rfc6040, ..) => Some(inner),
    }
}

pub(super) const NOT_ECT: u8 = 0;
const ECT1: u8 = 1;
const ECT0: u8 = 2;
/// Congestion experienced.
pub(super) const CE: u8 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_header_moves_alone() {
        let from: [u8; BEFORE] = core::array::from_fn(|i| i as u8 + 1);
        for link in 0..=BEFORE {
            let mut to = [0; BEFORE];
            LinkHeader::of(&from, link).unwrap().put(&mut to);
            let (before, header) = to.split_at(BEFORE - link);
            assert_eq!(header, &from[BEFORE - link..]);
            assert!(before.iter().all(|&byte| byte == 0), "{link}: {before:?}");
        }
        assert!(LinkHeader::of(&from, BEFORE + 1).is_none());
    }

    #[test]
    fn the_figures_of_both_rules() {
        let table =
            |mode| [0, 1, 2, 3].map(|inner| [0, 1, 2, 3].map(|outer| ecn(outer, inner, mode)));
        // Rows by the inner ECN; columns: outer Not-ECT, ECT(1), ECT(0), CE.
        let all = |bits: u8| [Some(bits), Some(bits), Some(bits), Some(3)];
        assert_eq!(table(Ecn::Deployed), [all(0), all(1), all(2), all(3)]);
        let not = [Some(0), Some(0), Some(0), None];
        let ect0 = [Some(2), Some(1), Some(2), Some(3)];
        assert_eq!(table(Ecn::Rfc6040), [not, all(1), ect0, all(3)]);
    }
}
