//! A packet that waits for a verdict, and what a policy is asked about it.

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

/// What becomes of a packet that is answered for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Goes {
    /// It goes on, if the verdict says so.
    On,
    /// It is the copy of one that has gone on.
    Copied,
    /// It is a shadow's.
    Shadow,
    /// It is one of fragments that came to nothing: its flow is decided, and it is dropped so.
    Punished(Why),
}

/// A packet with its frame as it came.
pub(super) struct Parked {
    pub kept: Kept,
    pub inner: Inner,
    /// Bytes of its link header.
    pub link: u16,
    /// The interface that it came in by.
    pub iface: IfaceId,
    pub goes: Goes,
    /// The fragments behind it.
    pub rest: Chain,
    /// Bytes that all its fragments are together; 0: it is not in fragments.
    pub whole: u32,
}

impl Parked {
    /// What a policy is asked, of so many bytes at most. No place is beyond the frame: the
    /// inner packet was found there.
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

    /// Whose decision it is, and who hears of it.
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

/// Source and destination in a header; both headers are of one family.
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

/// A copy of packet `i`, kept.
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

/// Where a packet waits: requests by their priority, above them renewals, whose flows are
/// granted.
pub(super) fn level(inner: &Inner, shadow: bool) -> u8 {
    match inner.dscp {
        RENEWAL if !shadow => u8::MAX >> 2,
        dscp => dscp.saturating_sub(1),
    }
}
