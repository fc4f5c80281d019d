//! `ip6_rewrite`: decrements the hop limit, and puts the next hop's link
//! header in front.
//!
//! ```text
//!  adjacency (one line) ─► hop limit > 1 and length ≤ MTU ─┬ yes ► rewritten ► output  out = port
//!                                                   └ no ──► untouched ► punt   out = class
//! ```
//!
//! | cost | one line of the adjacency, one of the packet; three stores of 8 bytes, one of 1 |
//! |------|---------------------------------------------------------------------------|
//!
//! Source: RFC 8200 §3 (hop limit); RFC 8201, RFC 4443 §3.2 (MTU: the kernel answers).

use std::sync::Arc;

use graph::{Live, NoDrop, Node, View, labels};
use tables::{AdjacencyId, Forwarding, HopTable};
use wire::bytes::be16;
use wire::{ethernet, ipv6};

use super::link;
use crate::class::Class;
use crate::counters::IfaceCounters;

labels! {
    /// Where packets go.
    pub enum To { Output = "output", Punt = "punt" }
}

/// The node.
pub struct Ip6Rewrite {
    forwarding: Arc<Forwarding>,
    counters: Arc<IfaceCounters>,
}

impl Ip6Rewrite {
    /// A node that takes adjacencies from `forwarding` and counts in `counters`.
    pub fn new(forwarding: Arc<Forwarding>, counters: Arc<IfaceCounters>) -> Self {
        Ip6Rewrite { forwarding, counters }
    }
}

impl Node for Ip6Rewrite {
    type Edge = To;
    type Drop = NoDrop;
    const NAME: &'static str = "ip6_rewrite";
    const HELP: &'static str = "decrements the hop limit and writes the next hop's link header";
    const LIVE: Live = Live::OUT.and(Live::IFACE);

    fn process(&mut self, v: &mut View<'_, Self>) {
        let hops: &HopTable = self.forwarding.hops.load(v.guard());
        rewrite(v, hops, &self.counters);
    }
}

/// A function of its own: as parameters the tables are known not to change, and
/// their addresses stay in registers.
#[inline(never)]
fn rewrite(v: &mut View<'_, Ip6Rewrite>, hops: &HopTable, counters: &IfaceCounters) {
    for i in 0..v.n() {
        let id = AdjacencyId(v.key32[i]);
        let cell = hops.adjacency(id);
        let (out, head) = (cell.out(), v.head(i));
        let total = u32::from(be16(head, ipv6::PAYLOAD_LEN)) + ipv6::LEN as u32;
        if (head[ipv6::HOP_LIMIT] <= 1) | (total > u32::from(out.mtu())) {
            punt(v, i);
            continue;
        }
        v.head_mut(i)[ipv6::HOP_LIMIT] -= 1; // cannot underflow: it is above 1
        let packet = link::L3 { kind: ethernet::IPV6, total: total as u16 };
        link::rewrite(v, i, packet, cell, out, counters);
        hops.mark_used(id);
        v.leave(i, To::Output);
    }
}

#[cold]
fn punt(v: &mut View<'_, Ip6Rewrite>, i: usize) {
    let expired = v.head(i)[ipv6::HOP_LIMIT] <= 1;
    v.out[i] = if expired { Class::TtlExceeded } else { Class::TooBig } as u16;
    v.leave(i, To::Punt);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::{Net, P1, PEER, stripped, to_p0, udp6};
    use graph::testing::Outcome;
    use tables::IfaceId;
    use wire::build::Frame;
    use wire::ethernet::Mac;
    use wire::vlan::Tag;

    fn run(frame: Frame<'_>, adjacency: u32) -> (Outcome, Arc<IfaceCounters>) {
        let (net, counters) = (Net::new(), IfaceCounters::new());
        let mut node = Ip6Rewrite::new(net.forwarding.clone(), counters.clone());
        let got = net.bench().run(&mut node, &[&to_p0(frame)], |v, i| {
            stripped(v, i);
            v.key32[i] = adjacency;
        });
        (got.into_iter().next().unwrap(), counters)
    }

    #[test]
    fn a_packet_leaves_with_its_new_header() {
        let payload = [9; 30];
        let frame = || udp6("2001:db8::1").payload(&payload);
        let want = frame().ttl(63).macs(Mac(P1), Mac(PEER));
        let (got, counters) = run(frame(), 8);
        assert_eq!(got.frame, want.build().to_vec());
        assert_eq!((got.to.as_str(), got.out, got.iface), ("output", 1, 2));
        let sent = counters.of(IfaceId(2));
        assert_eq!((sent.tx_packets.get(), sent.tx_bytes.get()), (1, got.frame.len() as u64));
        let (got, _) = run(frame(), 9);
        let tagged = wanted(want.tag(Tag::new(100)));
        assert_eq!((got.frame, got.iface), (tagged, 3));
    }

    fn wanted(frame: Frame<'_>) -> Vec<u8> {
        frame.build().to_vec()
    }

    #[test]
    fn what_follows_the_packet_is_cut_off() {
        let (got, _) = run(udp6("2001:db8::1").payload(&[9; 30]).pad_to(200), 8);
        let want = udp6("2001:db8::1").payload(&[9; 30]).ttl(63).macs(Mac(P1), Mac(PEER));
        assert_eq!(got.frame, wanted(want));
        let (got, _) = run(udp6("2001:db8::1").pad_to(60), 8);
        assert_eq!(got.frame.len(), 62);
    }

    #[test]
    fn what_cannot_go_is_punted_untouched() {
        for (frame, adjacency, class) in [
            (udp6("2001:db8::1").ttl(1), 8, Class::TtlExceeded),
            (udp6("2001:db8::1").ttl(0), 8, Class::TtlExceeded),
            (udp6("2001:db8::1").payload(&[0; 1400]), 9, Class::TooBig),
            (udp6("2001:db8::1"), 40, Class::TooBig),
        ] {
            let (got, counters) = run(frame, adjacency);
            assert_eq!((got.to.as_str(), Class::from_code(got.out)), ("punt", class));
            assert_eq!((got.frame, got.iface), (to_p0(frame), 1));
            assert_eq!(counters.of(IfaceId(2)).tx_packets.get(), 0);
        }
        let (got, _) = run(udp6("2001:db8::1").payload(&[0; 1352]), 9);
        assert_eq!(got.to, "output");
    }
}
