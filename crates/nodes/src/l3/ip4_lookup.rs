//! `ip4_lookup`: from destination to hop, and from hop to what happens next.
//!
//! ```text
//!  key32 ─► engine of the VRF ─► hop ─► step ─┬ forward ────► ip4_rewrite    key32 = adjacency
//!     one batch a run of equal VRF            ├ several ────► ip4_multipath  key32 = group
//!                                             ├ the kernel's ► punt          out = class
//!                                             └ blackhole, martian ► drop
//! ```
//!
//! | cost | the engine's batch, and one read of the hop table (4 bytes a hop) |
//! |------|--------------------------------------------------------------------|
//!
//! Source: RFC 1812 §5.2.4. Tables are loaded once a vector.

use std::sync::Arc;

use graph::{Live, Node, View, labels};
use tables::{Forwarding, HopTable};

use super::step::{self, ByHop, Why};
use crate::vrf::for_each_vrf;

labels! {
    /// Where packets go.
    pub enum To { Rewrite = "ip4_rewrite", Multipath = "ip4_multipath", Punt = "punt" }
}

/// The node.
pub struct Ip4Lookup {
    forwarding: Arc<Forwarding>,
}

impl Ip4Lookup {
    /// A node that looks up in `forwarding`.
    pub fn new(forwarding: Arc<Forwarding>) -> Self {
        Ip4Lookup { forwarding }
    }
}

impl Node for Ip4Lookup {
    type Edge = To;
    type Drop = Why;
    const NAME: &'static str = "ip4_lookup";
    const HELP: &'static str = "looks IPv4 destinations up";
    const LIVE: Live = Live::IFACE.and(Live::KEY32).and(Live::HOP).and(Live::OUT);

    fn process(&mut self, v: &mut View<'_, Self>) {
        let hops: &HopTable = self.forwarding.hops.load(v.guard());
        let ifaces = self.forwarding.ifaces.load(v.guard());
        let vrfs = self.forwarding.vrfs.load(v.guard());
        for_each_vrf(v, ifaces, |v, vrf, run| {
            let found = &mut v.hop.first_mut(run.end)[run.clone()];
            match vrfs.get(usize::from(vrf.0)) {
                Some(vrf) => vrf.v4.lookup_batch(&v.key32.first(run.end)[run], found),
                None => found.fill(lookup::Hop::NONE),
            }
        });
        for i in 0..v.n() {
            step::take(v, i, v.hop[i], hops);
        }
    }
}

impl ByHop for Ip4Lookup {
    const REWRITE: To = To::Rewrite;
    const MULTIPATH: Option<To> = Some(To::Multipath);
    const PUNT: To = To::Punt;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::Class;
    use crate::testbed::{Net, to_p0, udp4};

    fn run(dst: &[&str], iface: &[u16]) -> Vec<(String, u32, u16)> {
        let net = Net::new();
        let mut node = Ip4Lookup::new(net.forwarding.clone());
        let frame = to_p0(udp4("10.0.0.1"));
        let frames = vec![frame.as_slice(); dst.len()];
        let outcomes = net.bench().run(&mut node, &frames, |v, i| {
            v.key32[i] = dst[i].parse::<std::net::Ipv4Addr>().unwrap().into();
            v.iface[i] = iface[i % iface.len()];
        });
        outcomes.into_iter().map(|got| (got.to, got.key32, got.out)).collect()
    }

    fn class(dst: &str) -> Class {
        let (to, _, out) = run(&[dst], &[1]).remove(0);
        assert_eq!(to, "punt");
        Class::from_code(out)
    }

    #[test]
    fn hops_lead_on() {
        let got = run(&["10.9.0.1", "10.1.0.1", "10.2.0.1"], &[1]);
        let want = [("ip4_rewrite", 8), ("ip4_rewrite", 9), ("ip4_multipath", 1)];
        assert!(got.iter().map(|got| (got.0.as_str(), got.1)).eq(want));
        assert_eq!(class("10.3.0.1"), Class::NoNeighbour);
        assert_eq!(class("10.5.0.1"), Class::Unreachable);
        assert_eq!(class("10.6.0.1"), Class::ViaKernel);
        assert_eq!(class("11.0.0.1"), Class::Unreachable);
        assert_eq!(class("192.0.2.1"), Class::ForUs);
        assert_eq!(class("224.0.0.5"), Class::Multicast);
        assert_eq!(run(&["10.4.0.1"], &[1])[0].0, "drop: blackhole");
        assert_eq!(run(&["255.255.255.255"], &[1])[0].0, "drop: martian");
    }

    #[test]
    fn each_packet_is_looked_up_in_its_vrf() {
        let got = run(&["10.9.0.1"; 6], &[1, 4, 4]);
        let want = ["ip4_rewrite", "drop: blackhole", "drop: blackhole"];
        assert!(got.iter().map(|got| got.0.as_str()).eq(want.into_iter().chain(want)));
    }
}
