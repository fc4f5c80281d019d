//! `ip4_rewrite`, `ip6_rewrite`: decrements the TTL or hop limit, and puts the
//! next hop's link header in front.
//!
//! ```text
//!  adjacency (half a line) ─► limit > 1 and length ≤ MTU ─┬ yes ► rewritten ► output  OutPort
//!                                                         └ no ──► untouched ► punt   PuntClass
//! ```
//!
//! | cost | half a line of the adjacency, one of the packet, one of the descriptor; one branch a packet |
//! |------|---------------------------------------------------------------------------------------------|
//!
//! Source: RFC 1812 §5.3.1 (TTL), §4.2.2.5; RFC 1624 (checksum); RFC 8200 §3 (hop
//! limit); RFC 1191, RFC 8201, RFC 4443 §3.2 (MTU: the kernel answers).

use std::marker::PhantomData;
use std::sync::Arc;

use graph::{Lanes, NoDrop, Node, Packets, View, labels};
use tables::adjacency::{Cell, Out};
use tables::{Forwarding, HopTable};

use crate::class::Class;
use crate::counters::IfaceCounters;
use crate::family::Family;
use crate::lanes::{Adjacency, Iface, OutPort, PuntClass};

labels! {
    /// Where packets go.
    pub enum To {
        Output = "output" carries [OutPort, Iface],
        Punt = "punt" carries [PuntClass, Iface], // as it came
    }
}

/// The node of the family `F`.
pub struct Rewrite<F> {
    forwarding: Arc<Forwarding>,
    counters: Arc<IfaceCounters>,
    family: PhantomData<F>,
}

impl<F: Family> Rewrite<F> {
    /// A node that takes adjacencies from `forwarding` and counts in `counters`.
    pub fn new(forwarding: Arc<Forwarding>, counters: Arc<IfaceCounters>) -> Self {
        Rewrite { forwarding, counters, family: PhantomData }
    }
}

impl<F: Family> Node for Rewrite<F> {
    type Edge = To;
    type Drop = NoDrop;
    const NAME: &'static str = F::REWRITE;
    const HELP: &'static str = "decrements the hop limit and writes the next hop's link header";
    const READS: Lanes = Lanes::of::<(Adjacency, Iface)>();

    fn process(&mut self, v: &mut View<'_, Self>) {
        let hops = self.forwarding.hops.load(v.guard());
        v.leave_all(To::Output);
        if !rewrite::<F>(v, hops, &self.counters) {
            v.postponed(To::Output, |v, i| other(v, i, hops, &self.counters));
        }
    }
}

/// Rewrites packets whose frames keep their lengths, by adjacencies in use, and
/// postpones the others; false where there are any.
#[inline(never)]
fn rewrite<F: Family>(
    v: &mut Packets<Rewrite<F>>,
    hops: &HopTable,
    counters: &IfaceCounters,
) -> bool {
    let mut all = true;
    for i in 0..v.n() {
        let Some(cell) = hops.find(v.get(Adjacency, i)) else {
            v.postpone(i);
            all = false;
            continue;
        };
        let (out, len) = (cell.out(), v.len(i));
        let bytes = len.wrapping_add(out.len().into());
        let limit = F::limit(v.head(i));
        let goes = (limit as u8 > 1) & (len <= out.mtu());
        if goes & out.is_used() & (v.frame_len(i) == bytes) {
            send::<F>(v, i, cell, out);
            counters.sent(out.iface(), 1, bytes.into());
        } else {
            v.postpone(i);
            all = false;
        }
    }
    all
}

/// Packets that may not go are punted; others' frames are made to hold the header.
fn other<F: Family>(
    v: &mut View<'_, Rewrite<F>>,
    i: usize,
    hops: &HopTable,
    counters: &IfaceCounters,
) {
    let cell = hops.adjacency(v.get(Adjacency, i));
    let (out, len) = (cell.out(), v.len(i));
    let expired = F::limit(v.head(i)) as u8 <= 1;
    if expired | (len > out.mtu()) {
        v.set(PuntClass, i, if expired { Class::TtlExceeded } else { Class::TooBig });
        return v.leave(i, To::Punt);
    }
    if !out.is_used() {
        cell.mark_used();
    }
    v.frame(i, out.len().into(), len.into());
    send::<F>(v, i, cell, out.used());
    counters.sent(out.iface(), 1, u64::from(out.len()) + u64::from(len));
}

/// Changes packet `i` and where it goes.
#[inline(always)]
fn send<F: Family>(v: &mut Packets<Rewrite<F>>, i: usize, cell: &Cell, out: Out) {
    let head = v.head_mut(i);
    F::decrement(head, F::limit(head));
    cell.write(out, v.before_mut(i), F::ETHERTYPE);
    v.set(OutPort, i, out.port());
    v.set(Iface, i, out.iface());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::{V4, V6};
    use crate::testbed::{Net, P1, PEER, stripped, to_p0, udp4, udp6};
    use graph::testing::Outcome;
    use tables::{AdjacencyId, IfaceId};
    use wire::build::Frame;
    use wire::ethernet::Mac;
    use wire::vlan::Tag;

    fn run<F: Family>(frame: Frame<'_>, adjacency: u32) -> (Outcome, Arc<IfaceCounters>) {
        let (net, counters) = (Net::new(), IfaceCounters::new());
        let mut node = Rewrite::<F>::new(net.forwarding.clone(), counters.clone());
        let got = net.bench().run(&mut node, &[&to_p0(frame)], |v, i| {
            stripped(v, i);
            v.set(Adjacency, i, AdjacencyId(adjacency));
        });
        (got.into_iter().next().unwrap(), counters)
    }

    fn leaves<F: Family>(frame: Frame<'_>) {
        let want = frame.ttl(63).macs(Mac(P1), Mac(PEER));
        let (got, counters) = run::<F>(frame, 8);
        assert_eq!(got.frame, want.build().to_vec());
        assert_eq!(
            (got.to.as_str(), got.get(OutPort).0, got.get(Iface)),
            ("output", 1, IfaceId(2))
        );
        let sent = counters.of(IfaceId(2));
        assert_eq!((sent.tx_packets.get(), sent.tx_bytes.get()), (1, got.frame.len() as u64));
        let (got, counters) = run::<F>(frame, 9);
        assert_eq!((&got.frame, got.get(Iface).0), (&want.tag(Tag::new(100)).build().to_vec(), 3));
        assert_eq!(counters.of(IfaceId(3)).tx_bytes.get(), got.frame.len() as u64);
    }

    #[test]
    fn a_packet_leaves_with_its_new_header() {
        leaves::<V4>(udp4("10.0.0.1").payload(&[9; 30]));
        leaves::<V6>(udp6("2001:db8::1").payload(&[9; 30]));
    }

    /// A header of 20 bytes for an IPv4 packet inside, of 40 for IPv6; hop limit 64.
    fn outer<F: Family>(payload: usize) -> Vec<u8> {
        let mut header = vec![0; if F::ETHERTYPE == V4::ETHERTYPE { 20 } else { 40 }];
        if header.len() == 20 {
            let total = (20 + payload) as u16;
            header[..2].copy_from_slice(&[0x45, 0]);
            header[2..4].copy_from_slice(&total.to_be_bytes());
            (header[8], header[9]) = (64, 4);
            header[12..20].copy_from_slice(&[192, 0, 2, 1, 10, 0, 0, 9]);
        } else {
            header[0] = 0x60;
            header[4..6].copy_from_slice(&(payload as u16).to_be_bytes());
            (header[6], header[7]) = (41, 64);
            header[8..40].fill(0x20);
        }
        summed(header)
    }

    fn summed(mut header: Vec<u8>) -> Vec<u8> {
        if header.len() == 20 {
            header[10..12].fill(0);
            let sum = wire::checksum::checksum(&header);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        header
    }

    /// Puts outer headers in front of `inner` until there is no room, rewrites, and
    /// compares; `most` is how many there are room for.
    fn grows<F: Family>(inner: Frame<'_>, adjacency: u32, most: usize) {
        let (net, inner) = (Net::new(), to_p0(inner));
        let mut want = inner[14..].to_vec();
        for times in 1..=most + 1 {
            let mut node = Rewrite::<F>::new(net.forwarding.clone(), IfaceCounters::new());
            let got = net.bench().run(&mut node, &[&inner], |v, i| {
                stripped(v, i);
                for turn in 1..=times {
                    let header = outer::<F>(v.len(i).into());
                    assert_eq!(v.retreat(i, header.len()), turn <= most);
                    if turn <= most {
                        v.head_mut(i)[..header.len()].copy_from_slice(&header);
                    }
                }
                v.set(Adjacency, i, AdjacencyId(adjacency));
            });
            if times <= most {
                want.splice(..0, outer::<F>(want.len()));
            }
            let link = if adjacency == 9 { 18 } else { 14 };
            let len = outer::<F>(0).len();
            let mut sent = want.clone();
            sent[if len == 20 { 8 } else { 7 }] -= 1;
            let header = summed(sent[..len].to_vec());
            sent[..len].copy_from_slice(&header);
            assert_eq!(got[0].frame[link..], sent, "{times}");
            assert_eq!(got[0].frame[..6], PEER);
            assert_eq!((got[0].to.as_str(), usize::from(got[0].len)), ("output", sent.len()));
        }
    }

    #[test]
    fn outer_headers_go_in_front_without_a_copy() {
        for adjacency in [8, 9] {
            grows::<V4>(udp4("10.0.0.1").payload(&[9; 30]), adjacency, 4);
            grows::<V6>(udp6("2001:db8::1").payload(&[9; 30]), adjacency, 2);
        }
    }

    fn is_punted<F: Family>(frame: Frame<'_>, adjacency: u32, class: Class) {
        let (got, counters) = run::<F>(frame, adjacency);
        assert_eq!((got.to.as_str(), got.get(PuntClass)), ("punt", class));
        assert_eq!((&got.frame, got.get(Iface).0), (&to_p0(frame), 1));
        assert_eq!(counters.of(IfaceId(2)).tx_packets.get(), 0);
    }

    #[test]
    fn what_cannot_go_is_punted_untouched() {
        for ttl in [0, 1] {
            is_punted::<V4>(udp4("10.0.0.1").ttl(ttl), 8, Class::TtlExceeded);
            is_punted::<V6>(udp6("2001:db8::1").ttl(ttl), 8, Class::TtlExceeded);
        }
        is_punted::<V4>(udp4("10.0.0.1").payload(&[0; 1373]), 9, Class::TooBig);
        is_punted::<V6>(udp6("2001:db8::1").payload(&[0; 1353]), 9, Class::TooBig);
        is_punted::<V4>(udp4("10.0.0.1"), 40, Class::TooBig);
        assert_eq!(run::<V4>(udp4("10.0.0.1").payload(&[0; 1372]), 9).0.to, "output");
        assert_eq!(run::<V6>(udp6("2001:db8::1").payload(&[0; 1352]), 9).0.to, "output");
    }

    #[test]
    fn an_adjacency_is_marked_when_a_packet_leaves_by_it() {
        let net = Net::new();
        let mut node = Rewrite::<V4>::new(net.forwarding.clone(), IfaceCounters::new());
        let frame = to_p0(udp4("10.0.0.1"));
        let reader = net.domain.register("test");
        let cell = net.forwarding.hops.load(reader.guard()).adjacency(AdjacencyId(8));
        for _ in 0..2 {
            assert!(!cell.take_used());
            net.bench().run(&mut node, &[&frame, &frame], |v, i| {
                stripped(v, i);
                v.set(Adjacency, i, AdjacencyId(8));
            });
            assert!(cell.take_used());
        }
    }
}
