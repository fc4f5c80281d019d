//! `ip4_link_local`: packets with an address of one link, which are never forwarded.
//!
//! ```text
//!  from 169.254/16 ─► route of the destination ─┬ this machine ─► punt   PuntClass
//!                                               └ anything else ► drop
//! ```
//!
//! | cost | a lookup for each packet: they are few, or a flood that ends here |
//! |------|--------------------------------------------------------------------|
//!
//! Source: RFC 3927 §2.7, §7. The kernel forwards such packets, so it gets only what is
//! for this machine: a neighbour with such an address may be a BGP peer.

use std::sync::Arc;

use graph::{Lanes, Node, View, labels};
use io::VECTOR;
use tables::{Forwarding, HopTable, Kind};

use crate::class::Class;
use crate::lanes::{Dst4, Iface, PuntClass};
use crate::vrf::for_each_vrf;

labels! {
    /// Where packets go.
    pub enum To {
        Punt = "punt" carries [PuntClass],
    }
}

labels! {
    /// Why packets are dropped.
    pub enum Why {
        /// Of one link alone, and not for this machine: RFC 3927 §2.7.
        LinkLocal = "link_local",
    }
}

/// The node.
pub struct Ip4LinkLocal {
    forwarding: Arc<Forwarding>,
}

impl Ip4LinkLocal {
    /// A node that looks up in `forwarding`.
    pub fn new(forwarding: Arc<Forwarding>) -> Self {
        Ip4LinkLocal { forwarding }
    }
}

impl Node for Ip4LinkLocal {
    type Edge = To;
    type Drop = Why;
    const NAME: &'static str = "ip4_link_local";
    const HELP: &'static str = "keeps packets from 169.254/16 on their link";
    const READS: Lanes = Lanes::of::<(Iface, Dst4)>();

    fn process(&mut self, v: &mut View<'_, Self>) {
        let ifaces = self.forwarding.ifaces.load(v.guard());
        let vrfs = self.forwarding.vrfs.load(v.guard());
        let hops: &HopTable = self.forwarding.hops.load(v.guard());
        let mut ours = [false; VECTOR];
        for_each_vrf(v, ifaces, |v, vrf, run| {
            let Some(vrf) = vrfs.get(usize::from(vrf.0)) else { return };
            for i in run {
                // cannot panic: a run is within a vector.
                ours[i] = hops.step(vrf.v4.lookup(v.get(Dst4, i))).kind() == Kind::ForUs;
            }
        });
        for (i, &ours) in (0..v.n()).zip(&ours) {
            if ours {
                v.set(PuntClass, i, Class::ForUs);
                v.leave(i, To::Punt);
            } else {
                v.drop(i, Why::LinkLocal);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::{Net, to_p0};
    use tables::IfaceId;
    use wire::build::Frame;

    #[test]
    fn only_what_is_for_this_machine_goes_on() {
        let net = Net::new();
        let mut node = Ip4LinkLocal::new(net.forwarding.clone());
        let to = ["192.0.2.1", "10.9.0.1", "10.6.0.1", "11.0.0.1", "224.0.0.5", "192.0.2.1"];
        let frame = to_p0(Frame::ipv4([169, 254, 0, 9].into(), [10, 0, 0, 1].into(), 17));
        let outcomes = net.bench().run(&mut node, &[frame.as_slice(); 6], |v, i| {
            v.set(Dst4, i, to[i].parse::<std::net::Ipv4Addr>().unwrap().into());
            // The last is in another VRF, where that address is nobody's.
            v.set(Iface, i, IfaceId(if i == 5 { 4 } else { 1 }));
        });
        let got: Vec<_> = outcomes.iter().map(|got| got.to.as_str()).collect();
        assert_eq!(got[0], "punt");
        assert_eq!(outcomes[0].get(PuntClass), Class::ForUs);
        assert_eq!(got[1..], ["drop: link_local"; 5]);
    }
}
