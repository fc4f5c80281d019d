//! A small network for tests: interfaces, routes and hops by hand.
//!
//! ```text
//!  p0   02::a0  iface 1      p1      02::a1  iface 2, MTU 1500
//!  p0.5.6       iface 4      p1.100          iface 3, MTU 1400
//! ```

use std::sync::Arc;

use graph::Node;
use graph::testing::{Before, Bench, Outcome, Uncounted, uncounted};
use lookup::lpm::Lpm;
use lookup::sync::{Domain, Guard};
use lookup::{Addr, Hop, Prefix};
use tables::hops::{fixed, withheld};
use tables::{
    Adjacency, AdjacencyId, Forwarding, FrontView, HopTable, Iface, IfaceId, Ifaces, Kind, Outer,
    PortId, Side, Step, Tags, Vrf, VrfId,
};
use wire::build::Frame;
use wire::ethernet::Mac;

pub(crate) const P0: [u8; 6] = [2, 0, 0, 0, 0, 0xa0];
pub(crate) const P1: [u8; 6] = [2, 0, 0, 0, 0, 0xa1];
pub(crate) const PEER: [u8; 6] = [2, 0, 0, 0, 0, 0xbb];

/// A macvlan's on p0.
pub(crate) const VIRTUAL: [u8; 6] = [0, 0, 0x5e, 0, 1, 7];

/// Hop 8 leaves by p1, hop 9 by p1.100, hop 10 is both, hop 11 neither yet.
pub(crate) struct Net {
    pub domain: Arc<Domain>,
    pub forwarding: Arc<Forwarding>,
}

/// Longest prefix match by looking at everything.
pub(crate) struct Linear<A>(pub Vec<(Prefix<A>, Hop)>);

impl<A: Addr> Lpm<A> for Linear<A> {
    fn lookup(&self, dst: A) -> Hop {
        let covers = self.0.iter().filter(|(prefix, _)| prefix.contains(dst));
        covers.max_by_key(|(prefix, _)| prefix.len()).map_or(Hop::NONE, |(_, hop)| *hop)
    }
    fn lookup_batch(&self, dsts: &[A], hops: &mut [Hop]) {
        dsts.iter().zip(hops).for_each(|(dst, hop)| *hop = self.lookup(*dst));
    }
    fn bytes(&self) -> usize {
        0
    }
}

pub(crate) fn v4(text: &str, len: u8) -> Prefix<u32> {
    Prefix::covering(text.parse::<std::net::Ipv4Addr>().unwrap().into(), len)
}

pub(crate) fn v6(text: &str, len: u8) -> Prefix<u128> {
    Prefix::covering(text.parse::<std::net::Ipv6Addr>().unwrap().into(), len)
}

impl Net {
    pub fn new() -> Net {
        let domain = Domain::new();
        let forwarding = Forwarding::new(&domain);
        let iface = |name: &str, port: u16, tags, mac, mtu, vrf| Iface {
            name: name.into(),
            port: PortId(port),
            tags,
            mac,
            mtu,
            vrf: VrfId(vrf),
            up: true,
            macs: if name == "p0" { vec![VIRTUAL] } else { Vec::new() },
            side: Side::Neither,
        };
        forwarding.ifaces.publish(Ifaces::new([
            iface("p0", 0, Tags::None, P0, 1500, 0),
            iface("p1", 1, Tags::None, P1, 1500, 0),
            iface("p1.100", 1, Tags::Dot1q(100), P1, 1400, 0),
            iface("p0.5.6", 0, Tags::QinQ(Outer::Dot1ad, 5, 6), P0, 1500, 1),
            iface("p0.7.8", 0, Tags::QinQ(Outer::Dot1q, 7, 8), P0, 1500, 1),
        ]));
        forwarding.hops.publish(Arc::new(hops()));
        let main = Vrf {
            v4: Arc::new(Linear(vec![
                (v4("10.0.0.0", 8), Hop(8)),
                (v4("10.1.0.0", 16), Hop(9)),
                (v4("10.2.0.0", 16), Hop(10)),
                (v4("10.3.0.0", 16), Hop(11)),
                (v4("10.4.0.0", 16), fixed::BLACKHOLE),
                (v4("10.5.0.0", 16), fixed::UNREACHABLE),
                (v4("10.6.0.0", 16), fixed::VIA_KERNEL),
                (v4("10.24.0.0", 16), Hop(16)),
                (v4("10.25.0.0", 16), Hop(15)),
                (v4("192.0.2.1", 32), fixed::FOR_US),
                (v4("224.0.0.0", 4), fixed::MULTICAST),
                (v4("240.0.0.0", 4), fixed::MARTIAN),
            ])),
            v6: Arc::new(Linear(vec![
                (v6("2001:db8::", 32), Hop(8)),
                (v6("2001:db8:1::", 48), Hop(9)),
                (v6("2001:db8:2::", 48), Hop(10)),
                (v6("2001:db8:ffff::1", 128), fixed::FOR_US),
            ])),
            via_kernel: true,
            own_sources: true,
            front: None,
        };
        let second = Vrf {
            v4: Arc::new(Linear(vec![
                (v4("10.0.0.0", 8), fixed::BLACKHOLE),
                (v4("10.3.0.0", 16), Hop(11)),
                (v4("10.6.0.0", 16), fixed::VIA_KERNEL),
                (v4("203.0.113.9", 32), fixed::FOR_US),
            ])),
            v6: Arc::new(Linear(vec![(v6("2001:db8:5::5", 128), fixed::FOR_US)])),
            via_kernel: false,
            own_sources: false,
            front: None,
        };
        forwarding.vrfs.publish(vec![main, second]);
        Net { domain, forwarding }
    }

    pub fn bench(&self) -> Bench {
        Bench::new(&self.domain)
    }
}

/// Interface 1 is the front and 2 the back, and some of the first VRF is protected: hop 12
/// protects, 13 bypasses, 14 drops; 15 leads to the front, 16 to a neighbour at the back that is
/// not resolved.
pub fn shielded(net: &Net) {
    let thread = net.domain.register("shielded");
    let mut ifaces = net.forwarding.ifaces.load(thread.guard()).list[1..].to_vec();
    (ifaces[0].side, ifaces[1].side) = (Side::Front, Side::Back);
    net.forwarding.ifaces.publish(Ifaces::new(ifaces));
    let hops = net.forwarding.hops.load(thread.guard());
    for (hop, kind) in [(12, Kind::Protected), (13, Kind::Bypass), (14, Kind::Discard)] {
        hops.set_step(Hop(hop), Step::new(kind, hop));
    }
    let out = (IfaceId(1), PortId(0), 1500);
    let front = Adjacency::new(out, PEER, P0, Tags::None, wire::ethernet::IPV4);
    hops.set_adjacency(AdjacencyId(10), &front);
    hops.set_step(Hop(15), Step::new(Kind::Forward, 10));
    hops.set_step(Hop(16), Step::AT_BACK);
    let mut vrfs = net.forwarding.vrfs.load(thread.guard()).clone();
    vrfs[0].front = Some(FrontView {
        v4: Arc::new(Linear(vec![
            (v4("10.0.0.0", 8), withheld(Hop(8))),
            (v4("10.1.0.0", 16), withheld(Hop(9))),
            (v4("10.2.0.0", 16), withheld(Hop(10))),
            (v4("10.3.0.0", 16), withheld(Hop(11))),
            (v4("10.4.0.0", 16), fixed::BLACKHOLE),
            (v4("10.5.0.0", 16), withheld(fixed::UNREACHABLE)),
            (v4("10.6.0.0", 16), withheld(fixed::VIA_KERNEL)),
            (v4("10.20.0.0", 16), Hop(12)),
            (v4("10.21.0.0", 16), Hop(13)),
            (v4("10.22.0.0", 16), Hop(14)),
            (v4("10.23.0.0", 16), withheld(Hop(15))),
            (v4("192.0.2.1", 32), fixed::FOR_US),
            (v4("224.0.0.0", 4), fixed::MULTICAST),
            (v4("240.0.0.0", 4), fixed::MARTIAN),
        ])),
        v6: Arc::new(Linear(vec![
            (v6("2001:db8::", 32), withheld(Hop(8))),
            (v6("2001:db8:20::", 48), Hop(12)),
            (v6("2001:db8:ffff::1", 128), fixed::FOR_US),
        ])),
    });
    net.forwarding.vrfs.publish(vrfs);
}

fn hops() -> HopTable {
    let table = HopTable::new(64, 8, 64);
    let link = |iface, tags, mtu, kind| {
        Adjacency::new((IfaceId(iface), PortId(1), mtu), PEER, P1, tags, kind)
    };
    for (id, kind) in [(8, wire::ethernet::IPV4), (9, wire::ethernet::IPV4)] {
        let adjacency = match id {
            8 => link(2, Tags::None, 1500, kind),
            _ => link(3, Tags::Dot1q(100), 1400, kind),
        };
        table.set_adjacency(AdjacencyId(id), &adjacency);
        table.set_step(Hop(id), Step::new(Kind::Forward, id));
    }
    table.set_group(1, 0, &[Hop(8), Hop(9), Hop(9)]);
    table.set_step(Hop(10), Step::new(Kind::Multipath, 1));
    table.set_step(Hop(11), Step::new(Kind::NoNeighbour, 0));
    table
}

/// Nobody may count references to the tables while they live. What workers share is
/// borrowed under the guard: a count is a read-modify-write on a line of all workers, for each
/// vector (docs/adr/0001).
pub(crate) fn borrowed<'f>(
    forwarding: &'f Arc<Forwarding>,
    guard: Guard<'f>,
) -> Vec<Uncounted<'f>> {
    let all = [uncounted(forwarding), uncounted(forwarding.hops.load(guard))];
    let vrfs = forwarding.vrfs.load(guard).iter();
    let tables = vrfs.flat_map(|vrf| [uncounted(&vrf.v4), uncounted(&vrf.v6)]);
    all.into_iter().chain(tables).collect()
}

/// `frame` from a neighbour to p0, as bytes.
pub(crate) fn to_p0(frame: Frame<'_>) -> Vec<u8> {
    frame.macs(Mac(PEER), Mac(P0)).build().to_vec()
}

/// The result of `ethernet_input` for an untagged frame of p0.
pub(crate) fn stripped(v: &mut Before<'_>, i: usize) {
    assert!(v.advance(i, 14) || v.len(i) < 14);
    v.set(crate::lanes::Iface, i, IfaceId(1));
}

/// Runs `node` on one frame that `ethernet_input` has seen.
pub(crate) fn one<N: Node>(bench: &mut Bench, node: &mut N, frame: &[u8]) -> Outcome {
    bench.run(node, &[frame], stripped).remove(0)
}

/// A UDP datagram to `dst`, from a host in 198.51.100.0/24.
pub(crate) fn udp4(dst: &str) -> Frame<'static> {
    let src = "198.51.100.7:4000".parse().unwrap();
    Frame::udp4(src, std::net::SocketAddrV4::new(dst.parse().unwrap(), 53))
}

/// A UDP datagram to `dst`, from a host in 2001:db8:9::/48.
pub(crate) fn udp6(dst: &str) -> Frame<'static> {
    let src = "[2001:db8:9::7]:4000".parse().unwrap();
    Frame::udp6(src, std::net::SocketAddrV6::new(dst.parse().unwrap(), 53, 0, 0))
}
