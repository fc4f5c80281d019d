//! `ip4_source`, `ip6_source`: packets that claim to come from this machine.
//!
//! ```text
//!  packet ─► route of its source ─┬ this machine, in a VRF that wants none ─► drop
//!                                 └ anything else ─► lookup
//! ```
//!
//! | cost | a second lookup for each packet; no instruction where no VRF wants it |
//! |------|-----------------------------------------------------------------------|
//!
//! Source: RFC 2827, RFC 1812 §5.3.8 (a source that cannot come by this interface). Only
//! forwarded packets need it: the kernel takes none from an address of its own.

use std::marker::PhantomData;
use std::sync::Arc;

use graph::{Lanes, Node, View, labels};
use io::VECTOR;
use lookup::Hop;
use tables::{Forwarding, HopTable, Kind};

use crate::family::Family;
use crate::lanes::Iface;
use crate::vrf::for_each_vrf;

labels! {
    /// Where packets go.
    pub enum To {
        Lookup = "lookup",
    }
}

labels! {
    /// Why packets are dropped.
    pub enum Why {
        /// From an address of this machine: `[vrf.NAME] own_sources`.
        OwnSource = "own_source",
    }
}

/// The node of the family `F`.
pub struct Sources<F: Family> {
    forwarding: Arc<Forwarding>,
    sources: Box<[F::Addr; VECTOR]>,
    hops: Box<[Hop; VECTOR]>,
    family: PhantomData<F>,
}

impl<F: Family> Sources<F> {
    /// A node that looks up in `forwarding`.
    pub fn new(forwarding: Arc<Forwarding>) -> Self {
        let (sources, hops) =
            (Box::new([F::Addr::default(); VECTOR]), Box::new([Hop::NONE; VECTOR]));
        Sources { forwarding, sources, hops, family: PhantomData }
    }
}

impl<F: Family> Node for Sources<F> {
    type Edge = To;
    type Drop = Why;
    const NAME: &'static str = F::SOURCE;
    const HELP: &'static str = "drops packets from addresses of this machine";
    const READS: Lanes = Lanes::of::<(Iface,)>();

    fn process(&mut self, v: &mut View<'_, Self>) {
        let ifaces = self.forwarding.ifaces.load(v.guard());
        let vrfs = self.forwarding.vrfs.load(v.guard());
        let table: &HopTable = self.forwarding.hops.load(v.guard());
        let (sources, hops) = (&mut *self.sources, &mut *self.hops);
        for_each_vrf(v, ifaces, |v, vrf, run| {
            // cannot panic: a run is within a vector.
            let (sources, hops) = (&mut sources[run.clone()], &mut hops[run.clone()]);
            let vrf = vrfs.get(usize::from(vrf.0)).filter(|vrf| !vrf.own_sources);
            let Some(vrf) = vrf else { return hops.fill(Hop::NONE) };
            for (i, source) in run.zip(&mut *sources) {
                *source = F::source(v.head(i));
            }
            F::table(vrf).lookup_batch(sources, hops);
        });
        v.leave_all(To::Lookup);
        for (i, &hop) in (0..v.n()).zip(&*hops) {
            if table.step(hop).kind() == Kind::ForUs {
                v.drop(i, Why::OwnSource);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::{V4, V6};
    use crate::testbed::{Net, stripped, to_p0};
    use std::net::IpAddr;
    use tables::IfaceId;
    use wire::build::Frame;

    /// Where packets from `src` go, each from that interface.
    fn run<F: Family>(from: [(&str, u16); 3]) -> Vec<String> {
        let net = Net::new();
        let frames = from.map(|(src, _)| {
            to_p0(match src.parse().unwrap() {
                IpAddr::V4(src) => Frame::ipv4(src, [10, 0, 0, 1].into(), 17),
                IpAddr::V6(src) => Frame::ipv6(src, "2001:db8::1".parse().unwrap(), 17),
            })
        });
        let mut node = Sources::<F>::new(net.forwarding.clone());
        let outcomes = net.bench().run(&mut node, &frames.each_ref().map(|f| &**f), |v, i| {
            stripped(v, i);
            v.set(Iface, i, IfaceId(from[i].1));
        });
        outcomes.into_iter().map(|got| got.to).collect()
    }

    #[test]
    fn our_addresses_send_nothing_where_that_is_wanted() {
        // The VRF of interface 4 refuses them. That of interface 1 does not.
        let want = ["drop: own_source", "lookup", "lookup"];
        assert_eq!(run::<V4>([("203.0.113.9", 4), ("10.0.0.9", 4), ("192.0.2.1", 1)]), want);
        assert_eq!(run::<V6>([("2001:db8:5::5", 4), ("::5", 4), ("2001:db8:ffff::1", 1)]), want);
    }
}
