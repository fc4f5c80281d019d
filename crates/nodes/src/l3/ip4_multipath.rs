//! `ip4_multipath`: chooses one of a route's several next hops by the packet's flow.
//!
//! ```text
//!  flow hash × members of the group ► hop ► step ─┬ forward ► ip4_rewrite   key32 = adjacency
//!  (weight = how often a hop is a member)         └ else ───► punt, drop
//! ```
//!
//! | cost | the device's hash, or one multiplication; three dependent reads |
//! |------|--------------------------------------------------------------------|
//!
//! Source: RFC 2992 (equal-cost multi-path by hash), RFC 6438 for IPv6. A flow keeps its
//! path, and so its order, as long as the group stands. The key of the hash is drawn
//! by each router, or flows that one router has sent the same way would all choose
//! alike at the next (polarisation).

use std::sync::Arc;

use graph::{Live, Node, View, labels};
use lookup::Hop;
use tables::{Forwarding, HopTable};
use wire::flow::Hasher;

use super::step::{self, ByHop, Why};

labels! {
    /// Where packets go.
    pub enum To { Rewrite = "ip4_rewrite", Punt = "punt" }
}

/// The node.
pub struct Ip4Multipath {
    forwarding: Arc<Forwarding>,
    hasher: Hasher,
}

impl Ip4Multipath {
    /// A node that chooses by `hasher` where the device computed no hash. All
    /// workers must have the same hasher.
    pub fn new(forwarding: Arc<Forwarding>, hasher: Hasher) -> Self {
        Ip4Multipath { forwarding, hasher }
    }
}

impl Node for Ip4Multipath {
    type Edge = To;
    type Drop = Why;
    const NAME: &'static str = "ip4_multipath";
    const HELP: &'static str = "chooses among several next hops by the hash of the flow";
    const LIVE: Live = Live::IFACE.and(Live::KEY32).and(Live::HOP).and(Live::OUT);

    fn process(&mut self, v: &mut View<'_, Self>) {
        let hops: &HopTable = self.forwarding.hops.load(v.guard());
        for i in 0..v.n() {
            let hash = v.device_hash(i).unwrap_or_else(|| self.hasher.ipv4(v.head(i)));
            let hop: Hop = hops.member(v.key32[i], hash);
            v.hop[i] = hop;
            step::take(v, i, hop, hops);
        }
    }
}

impl ByHop for Ip4Multipath {
    const REWRITE: To = To::Rewrite;
    const MULTIPATH: Option<To> = None;
    const PUNT: To = To::Punt;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::{Net, stripped, to_p0, udp4};
    use std::net::SocketAddrV4;
    use wire::build::Frame;

    #[test]
    fn flows_spread_by_weight_and_stay() {
        let net = Net::new();
        let mut node = Ip4Multipath::new(net.forwarding.clone(), Hasher::new(7));
        let dst: SocketAddrV4 = "10.2.0.1:53".parse().unwrap();
        let frames: Vec<Vec<u8>> = (0..240_u16)
            .map(|i| {
                let mut src: SocketAddrV4 = "198.51.100.7:1".parse().unwrap();
                src.set_port(1000 + i / 2);
                to_p0(Frame::udp4(src, dst))
            })
            .collect();
        let frames: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
        let outcomes = net.bench().run(&mut node, &frames, |v, i| {
            stripped(v, i);
            v.key32[i] = 1;
        });
        assert!(outcomes.iter().all(|got| got.to == "ip4_rewrite"));
        assert!(outcomes.chunks(2).all(|pair| pair[0].key32 == pair[1].key32));
        let second = outcomes.iter().filter(|got| (got.key32, got.hop) == (9, 9)).count();
        assert!((120..=200).contains(&second), "{second} of 240, 160 expected");
    }

    #[test]
    fn an_empty_group_is_no_route() {
        let net = Net::new();
        let mut node = Ip4Multipath::new(net.forwarding.clone(), Hasher::new(7));
        let frame = to_p0(udp4("10.2.0.1"));
        let got = net.bench().run(&mut node, &[&frame], |v, i| v.key32[i] = 5);
        assert_eq!(got[0].to, "punt");
    }
}
