//! `ip6_lookup`: from destination to hop, and from hop to what happens next.
//!
//! ```text
//!  wide.key128 ─► engine of the VRF ─► hop ─► step ─┬ forward ────► ip6_rewrite    key32 = adjacency
//!     one batch a run of equal VRF            ├ several ────► ip6_multipath  key32 = group
//!                                             ├ the kernel's ► punt          out = class
//!                                             └ blackhole, martian ► drop
//! ```
//!
//! | cost | the engine's batch, and one read of the hop table (4 bytes a hop) |
//! |------|--------------------------------------------------------------------|
//!
//! Source: RFC 8200, 4291. Tables are loaded once a vector.

use std::sync::Arc;

use graph::{Live, Node, View, labels};
use tables::{Forwarding, HopTable};

use super::step::{self, ByHop, Why};
use crate::vrf::for_each_vrf;

labels! {
    /// Where packets go.
    pub enum To { Rewrite = "ip6_rewrite", Multipath = "ip6_multipath", Punt = "punt" }
}

/// The node.
pub struct Ip6Lookup {
    forwarding: Arc<Forwarding>,
}

impl Ip6Lookup {
    /// A node that looks up in `forwarding`.
    pub fn new(forwarding: Arc<Forwarding>) -> Self {
        Ip6Lookup { forwarding }
    }
}

impl Node for Ip6Lookup {
    type Edge = To;
    type Drop = Why;
    const NAME: &'static str = "ip6_lookup";
    const HELP: &'static str = "looks IPv6 destinations up";
    const LIVE: Live = Live::IFACE.and(Live::KEY32).and(Live::HOP).and(Live::OUT);

    fn process(&mut self, v: &mut View<'_, Self>) {
        let hops: &HopTable = self.forwarding.hops.load(v.guard());
        let ifaces = self.forwarding.ifaces.load(v.guard());
        let vrfs = self.forwarding.vrfs.load(v.guard());
        for_each_vrf(v, ifaces, |v, vrf, run| {
            let found = &mut v.hop.first_mut(run.end)[run.clone()];
            match vrfs.get(usize::from(vrf.0)) {
                Some(vrf) => vrf.v6.lookup_batch(&v.wide.key128.first(run.end)[run], found),
                None => found.fill(lookup::Hop::NONE),
            }
        });
        for i in 0..v.n() {
            step::take(v, i, v.hop[i], hops);
        }
    }
}

impl ByHop for Ip6Lookup {
    const REWRITE: To = To::Rewrite;
    const MULTIPATH: Option<To> = Some(To::Multipath);
    const PUNT: To = To::Punt;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::{Net, to_p0, udp6};

    #[test]
    fn hops_lead_on() {
        let net = Net::new();
        let mut node = Ip6Lookup::new(net.forwarding.clone());
        let dst = ["2001:db8:9::1", "2001:db8:1::1", "2001:db8:2::1", "2001:db8:ffff::1", "::2"];
        let frame = to_p0(udp6("2001:db8::1"));
        let outcomes = net.bench().run(&mut node, &[frame.as_slice(); 5], |v, i| {
            v.wide.key128[i] = dst[i].parse::<std::net::Ipv6Addr>().unwrap().into();
            v.iface[i] = 1;
        });
        let got: Vec<_> = outcomes.iter().map(|got| got.to.as_str()).collect();
        assert_eq!(got, ["ip6_rewrite", "ip6_rewrite", "ip6_multipath", "punt", "punt"]);
    }
}
