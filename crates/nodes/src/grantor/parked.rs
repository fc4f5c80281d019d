//! A packet that waits for a verdict, and the question about it.

use core::net::IpAddr;

use graph::{Account, Kept, Node, View};
use policy::ask::{Facts, Matter, Question};
use policy::program::RENEWAL;
use tables::IfaceId;
use wire::bytes::{ipv4 as ip4, ipv6 as ip6};
use wire::ggu::Flow;
use wire::{ethernet, ipv4, ipv6};

use super::fates::Why;
use super::gather::Chain;
use super::lanes::Inner;
use super::messages::{Ends, Reply};

/// The effect of a verdict on its packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Goes {
    /// The packet goes on if the verdict grants it.
    On,
    /// The packet is a copy; the original has gone on.
    Copied,
    /// The packet is a copy from a shield in shadow mode.
    Shadow,
    /// The packet's fragments never became whole: the policy decides about its flow, and the packet
    /// is dropped.
    Punished(Why),
}

/// A packet with its frame as it was received.
pub(super) struct Parked {
    pub kept: Kept,
    pub inner: Inner,
    /// Bytes of its link header.
    pub link: u16,
    /// The interface that it came in by.
    pub iface: IfaceId,
    pub goes: Goes,
    /// The fragments that follow it.
    pub rest: Chain,
    /// The length of all its fragments together; 0: the packet is not fragmented.
    pub whole: u32,
}

impl Parked {
    /// The question for the policy, of at most `most` bytes. Every offset is inside of the frame:
    /// the inner packet was found there.
    pub fn question(&self, id: u32, most: usize) -> Question<'_> {
        let Inner { at, dscp, ecn, frag, protocol, headers, total, .. } = self.inner;
        let ethertype = if is_v4(&self.inner) { ethernet::IPV4 } else { ethernet::IPV6 };
        let inner_l3 = self.link + u16::from(at);
        let facts = Facts {
            outer_ethertype: ethertype,
            inner_ethertype: ethertype,
            l4_proto: protocol,
            priority: dscp,
            outer_ecn: ecn,
            frag,
            upper_len: total - headers,
            outer_l3: self.link,
            inner_l3,
            l4: inner_l3 + headers,
        };
        let frame = self.kept.data();
        let end = usize::from(inner_l3) + usize::from(total);
        let bytes = &frame[..most.min(end).min(frame.len())];
        let matter = match self.goes {
            Goes::Punished(_) => Matter::Punish,
            _ => Matter::Packet,
        };
        Question { id, matter, facts, bytes }
    }

    /// The flow inside.
    pub fn flow(&self) -> Option<Flow> {
        let at = usize::from(self.link) + usize::from(self.inner.at);
        flow(&self.inner, self.kept.data().get(at..)?)
    }

    /// Whether a shield in this graph asks.
    pub fn is_here(&self) -> bool {
        self.inner.at == 0
    }

    /// The flow of the decision, and its receiver.
    pub fn ends(&self) -> Option<(Ends, Reply)> {
        let frame = self.kept.data();
        let (to, from) = match flow(&self.inner, frame.get(self.link.into()..)?)? {
            Flow::V4 { src, dst } => (IpAddr::from(src), IpAddr::from(dst)),
            Flow::V6 { src, dst } => (src.into(), dst.into()),
        };
        let reply = Reply::to(self.kept.port(), frame, self.link);
        Some((Ends { from, to, iface: self.iface }, reply))
    }
}

/// Source and destination in a header; the outer and the inner header have the same family.
fn flow(inner: &Inner, header: &[u8]) -> Option<Flow> {
    if is_v4(inner) {
        let head = header.first_chunk::<{ ipv4::MIN_LEN }>()?;
        Some(Flow::V4 { src: ip4(head, ipv4::SRC), dst: ip4(head, ipv4::DST) })
    } else {
        let head = header.first_chunk::<{ ipv6::LEN }>()?;
        Some(Flow::V6 { src: ip6(head, ipv6::SRC), dst: ip6(head, ipv6::DST) })
    }
}

pub(super) fn is_v4(inner: &Inner) -> bool {
    !inner.v6
}

/// A copy of packet `i`, outside of the vector.
pub(super) fn copy<N: Node>(v: &mut View<'_, N>, i: usize) -> Option<Kept> {
    let pool = v.port();
    let mut packet = v.ports().get(pool)?.allocate()?;
    if packet.copy_from(v.packet(i)) {
        match v.adopt(packet, pool) {
            Ok(kept) => {
                v.account(Account::Copies, 1);
                return Some(kept);
            }
            Err(back) => packet = back,
        }
    }
    v.ports().put_back(packet, pool);
    None
}

/// The level at which a packet waits: requests by their priority, and above them renewals, because
/// their flows are granted.
pub(super) fn level(inner: &Inner, shadow: bool) -> u8 {
    match inner.dscp {
        RENEWAL if !shadow => u8::MAX >> 2,
        dscp => dscp.saturating_sub(1),
    }
}
