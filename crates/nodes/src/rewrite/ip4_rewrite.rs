//! `ip4_rewrite`: decrements the TTL, and puts the next hop's link
//! header in front.
//!
//! ```text
//!  adjacency (one line) ─► TTL > 1 and length ≤ MTU ─┬ yes ► rewritten ► output  out = port
//!                                                   └ no ──► untouched ► punt   out = class
//! ```
//!
//! | cost | one line of the adjacency, one of the packet; three stores of 8 bytes, one of 4 |
//! |------|---------------------------------------------------------------------------|
//!
//! Source: RFC 1812 §5.3.1 (TTL), §4.2.2.5; RFC 1624 (checksum); RFC 1191 (MTU: the kernel answers).

use std::sync::Arc;

use graph::{Live, NoDrop, Node, View, labels};
use tables::{AdjacencyId, Forwarding, HopTable};
use wire::bytes::{array, be16};
use wire::{ethernet, ipv4};

use super::link;
use crate::class::Class;
use crate::counters::IfaceCounters;

labels! {
    /// Where packets go.
    pub enum To { Output = "output", Punt = "punt" }
}

/// The node.
pub struct Ip4Rewrite {
    forwarding: Arc<Forwarding>,
    counters: Arc<IfaceCounters>,
}

impl Ip4Rewrite {
    /// A node that takes adjacencies from `forwarding` and counts in `counters`.
    pub fn new(forwarding: Arc<Forwarding>, counters: Arc<IfaceCounters>) -> Self {
        Ip4Rewrite { forwarding, counters }
    }
}

impl Node for Ip4Rewrite {
    type Edge = To;
    type Drop = NoDrop;
    const NAME: &'static str = "ip4_rewrite";
    const HELP: &'static str = "decrements the TTL and writes the next hop's link header";
    const LIVE: Live = Live::OUT.and(Live::IFACE);

    fn process(&mut self, v: &mut View<'_, Self>) {
        let hops: &HopTable = self.forwarding.hops.load(v.guard());
        rewrite(v, hops, &self.counters);
    }
}

/// A function of its own: as parameters the tables are known not to change, and
/// their addresses stay in registers.
#[inline(never)]
fn rewrite(v: &mut View<'_, Ip4Rewrite>, hops: &HopTable, counters: &IfaceCounters) {
    for i in 0..v.n() {
        let id = AdjacencyId(v.key32[i]);
        let cell = hops.adjacency(id);
        let (out, head) = (cell.out(), v.head(i));
        let total = be16(head, ipv4::TOTAL_LEN);
        let word = u32::from_le_bytes(array(head, ipv4::TTL));
        if (word as u8 <= 1) | (total > out.mtu()) {
            punt(v, i);
            continue;
        }
        let head = v.head_mut(i);
        head[ipv4::TTL..ipv4::TTL + 4].copy_from_slice(&decremented(word).to_le_bytes());
        let packet = link::L3 { kind: ethernet::IPV4, total };
        link::rewrite(v, i, packet, cell, out, counters);
        hops.mark_used(id);
        v.leave(i, To::Output);
    }
}

/// TTL, protocol and checksum, in memory order, with the TTL one less: in that
/// order the checksum is in the upper half, and 1 more (RFC 1624 equation 3: by
/// carry 2 more where it is 0xfffe or 0xffff). The TTL is not 0.
#[inline(always)]
fn decremented(word: u32) -> u32 {
    let carry = u32::from(word >= 0xfffe_0000) << 16;
    word.wrapping_add(0xffff).wrapping_add(carry)
}

#[cold]
fn punt(v: &mut View<'_, Ip4Rewrite>, i: usize) {
    let expired = v.head(i)[ipv4::TTL] <= 1;
    v.out[i] = if expired { Class::TtlExceeded } else { Class::TooBig } as u16;
    v.leave(i, To::Punt);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::{Net, P1, PEER, stripped, to_p0, udp4};
    use graph::testing::Outcome;
    use tables::IfaceId;
    use wire::build::Frame;
    use wire::ethernet::Mac;
    use wire::vlan::Tag;

    fn run(frame: Frame<'_>, adjacency: u32) -> (Outcome, Arc<IfaceCounters>) {
        let (net, counters) = (Net::new(), IfaceCounters::new());
        let mut node = Ip4Rewrite::new(net.forwarding.clone(), counters.clone());
        let got = net.bench().run(&mut node, &[&to_p0(frame)], |v, i| {
            stripped(v, i);
            v.key32[i] = adjacency;
        });
        (got.into_iter().next().unwrap(), counters)
    }

    #[test]
    fn a_packet_leaves_with_its_new_header() {
        let payload = [9; 30];
        let frame = || udp4("10.0.0.1").payload(&payload);
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
        let (got, _) = run(udp4("10.0.0.1").payload(&[9; 30]).pad_to(200), 8);
        let want = udp4("10.0.0.1").payload(&[9; 30]).ttl(63).macs(Mac(P1), Mac(PEER));
        assert_eq!(got.frame, wanted(want));
        let (got, _) = run(udp4("10.0.0.1").pad_to(60), 8);
        assert_eq!(got.frame.len(), 60);
    }

    #[test]
    fn what_cannot_go_is_punted_untouched() {
        for (frame, adjacency, class) in [
            (udp4("10.0.0.1").ttl(1), 8, Class::TtlExceeded),
            (udp4("10.0.0.1").ttl(0), 8, Class::TtlExceeded),
            (udp4("10.0.0.1").payload(&[0; 1400]), 9, Class::TooBig),
            (udp4("10.0.0.1"), 40, Class::TooBig),
        ] {
            let (got, counters) = run(frame, adjacency);
            assert_eq!((got.to.as_str(), Class::from_code(got.out)), ("punt", class));
            assert_eq!((got.frame, got.iface), (to_p0(frame), 1));
            assert_eq!(counters.of(IfaceId(2)).tx_packets.get(), 0);
        }
        let (got, _) = run(udp4("10.0.0.1").payload(&[0; 1372]), 9);
        assert_eq!(got.to, "output");
    }

    #[test]
    fn the_checksum_follows_the_ttl() {
        for check in 0..=u16::MAX {
            let [low, high] = check.to_be_bytes();
            let word = u32::from_le_bytes([64, 17, low, high]);
            let [ttl, protocol, low, high] = decremented(word).to_le_bytes();
            let want = wire::checksum::after_ttl_decrement(check);
            assert_eq!((ttl, protocol, u16::from_be_bytes([low, high])), (63, 17, want));
        }
    }
}
