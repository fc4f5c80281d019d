//! What an ICMP error is about, and whether one is due.

use wire::bytes::be16;
use wire::{icmp, icmpv6, ipv4, ipv6, protocol};

/// Why a packet cannot go on, as a lane has it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Fault(u64);

/// The kinds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// It is longer than so many bytes.
    TooLong(u16),
    /// Its TTL or hop limit is used up.
    Expired,
    /// No route leads to its destination.
    Unreachable,
}

impl Fault {
    /// Of a kind.
    pub fn new(kind: Kind) -> Fault {
        Fault(match kind {
            Kind::TooLong(mtu) => u64::from(mtu) << 8,
            Kind::Expired => 1,
            Kind::Unreachable => 2,
        })
    }

    /// The kind.
    pub fn kind(self) -> Kind {
        match self.0 & 0xff {
            0 => Kind::TooLong((self.0 >> 8) as u16),
            1 => Kind::Expired,
            _ => Kind::Unreachable,
        }
    }
}

impl From<u64> for Fault {
    #[inline(always)]
    fn from(bits: u64) -> Fault {
        Fault(bits)
    }
}

impl From<Fault> for u64 {
    #[inline(always)]
    fn from(fault: Fault) -> u64 {
        fault.0
    }
}

/// Whether a source learns from an error that its packet, which begins with `head`, is too
/// long: it has asked for that, or nobody would fragment it for IPv6.
#[inline]
pub(super) fn may_not_be_fragmented(head: &[u8; 64]) -> bool {
    head[0] >> 4 == 6 || be16(head, ipv4::FRAGMENT) & ipv4::DONT_FRAGMENT != 0
}

/// Whether an error about this packet is due: not about errors, fragments but the first, or
/// what went to a group (RFC 1812 §4.3.2.7, RFC 4443 §2.4 (e)). What is too short to tell is
/// none. That a source is one host's is a matter of the header checks.
pub(super) fn is_due(packet: &[u8]) -> bool {
    if packet.first().is_some_and(|first| first >> 4 == 6) {
        return ipv6::View::new(packet).is_ok_and(|view| is_due6(&view));
    }
    let Ok(view) = ipv4::View::new(packet) else { return false };
    let (src, dst) = (view.src(), view.dst());
    let of_many = dst.is_multicast() || dst.is_broadcast() || src.is_multicast();
    let first = be16(packet, ipv4::FRAGMENT) & ipv4::OFFSET_MASK == 0;
    let no_error = view.protocol() != protocol::ICMP
        || view.payload().first().is_some_and(|kind| !icmp::is_error(*kind));
    first && no_error && !of_many && !src.is_unspecified() && !src.is_loopback()
}

fn is_due6(view: &ipv6::View<'_>) -> bool {
    let Ok((chain, upper)) = view.upper() else { return false };
    let first = chain.fragment.is_none_or(|fragment| fragment.offset == 0);
    // A redirect is an answer, too: RFC 4443 §2.4 (e.2).
    let is_error = |kind: u8| icmpv6::is_error(kind) || kind == icmpv6::REDIRECT;
    let no_error =
        chain.protocol != protocol::ICMPV6 || upper.first().is_some_and(|kind| !is_error(*kind));
    let (src, dst) = (view.src(), view.dst());
    let one = !src.is_multicast() && !src.is_unspecified() && !src.is_loopback();
    first && no_error && one && !dst.is_multicast()
}
