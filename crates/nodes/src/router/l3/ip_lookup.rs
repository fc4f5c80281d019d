//! `ip4_lookup`, `ip6_lookup`: from destination to hop, and from hop to what
//! happens next.
//!
//! ```text
//!  Dst4, Dst6 ─► engine of the VRF ─► Answer ─► step ─┬ forward ─────► rewrite     Adjacency
//!        one batch a run of equal VRF                 ├ several ─────► multipath   Group
//!                                                     ├ the kernel's ► punt        PuntClass
//!                                                     └ blackhole, martian ► drop
//! ```
//!
//! | cost | the engine's batch, and one read of the hop table (4 bytes a hop) |
//! |------|--------------------------------------------------------------------|
//!
//! Source: RFC 1812 §5.2.4; RFC 8200, RFC 4291. Tables are loaded once a vector.

use std::marker::PhantomData;
use std::sync::Arc;

use graph::{Lanes, Node, Packets, View, labels};
use lookup::Hop;
use tables::{Forwarding, HopTable};

use super::step::{self, Why};
use crate::family::Family;
use crate::lanes::{Adjacency, Answer, Group, GroupId, Iface, PuntClass};
use crate::vrf::for_each_vrf;

labels! {
    /// Where packets go.
    pub enum To {
        Rewrite = "rewrite" carries [Adjacency, Answer],
        Multipath = "multipath" carries [Group, Answer],
        Punt = "punt" carries [PuntClass, Answer],
    }
}

/// The node of the family `F`.
pub struct Lookup<F> {
    forwarding: Arc<Forwarding>,
    /// Vectors so far, from a place of this worker's own.
    turn: usize,
    family: PhantomData<F>,
}

impl<F: Family> Lookup<F> {
    /// A node that looks up in `forwarding`.
    pub fn new(forwarding: Arc<Forwarding>) -> Self {
        let turn = F::recent(&forwarding).start();
        Lookup { forwarding, turn, family: PhantomData }
    }
}

impl<F: Family> Node for Lookup<F> {
    type Edge = To;
    type Drop = Why;
    const NAME: &'static str = F::LOOKUP;
    const HELP: &'static str = "looks destinations up";
    const READS: Lanes = Lanes::of::<(Iface, F::Dst)>();

    fn process(&mut self, v: &mut View<'_, Self>) {
        let ifaces = self.forwarding.ifaces.load(v.guard());
        let vrfs = self.forwarding.vrfs.load(v.guard());
        for_each_vrf(v, ifaces, |v, vrf, run| {
            let (keys, hops) = v.between(F::DST, Answer);
            // Another engine is tested with these addresses before it takes over.
            F::recent(&self.forwarding).note(self.turn, keys[run.start]);
            self.turn = self.turn.wrapping_add(1);
            let hops = &mut hops.first_mut(run.end)[run.clone()];
            match vrfs.get(usize::from(vrf.0)) {
                Some(vrf) => F::table(vrf).lookup_batch(&keys.first(run.end)[run], hops),
                None => hops.fill(Hop::NONE),
            }
        });
        lead_on(v, &self.forwarding);
    }
}

/// Gives each packet the edge of its hop: most are forwarded.
fn lead_on<F: Family>(v: &mut View<'_, Lookup<F>>, forwarding: &Forwarding) {
    let hops: &HopTable = forwarding.hops.load(v.guard());
    v.leave_all(To::Rewrite);
    for i in forward(v, hops)..v.n() {
        let step = hops.step(v.get(Answer, i));
        if let Some(adjacency) = step.forward() {
            v.set(Adjacency, i, adjacency);
        } else if let Some(group) = step.multipath() {
            v.set(Group, i, GroupId(group));
            v.leave(i, To::Multipath);
        } else {
            step::other(v, i, (step, step), To::Punt, forwarding);
        }
    }
}

/// Takes packets to their adjacencies, up to the first that has none. A function
/// of its own, without a call: its addresses stay in registers.
#[inline(never)]
fn forward<F: Family>(v: &mut Packets<Lookup<F>>, hops: &HopTable) -> usize {
    let n = v.n();
    for i in 0..n {
        match hops.step(v.get(Answer, i)).forward() {
            Some(adjacency) => v.set(Adjacency, i, adjacency),
            None => return i,
        }
    }
    n
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::Class;
    use crate::family::{V4, V6};
    use crate::lanes::{Dst4, Dst6};
    use crate::testbed::{Net, to_p0, udp4, udp6};
    use graph::testing::Outcome;
    use tables::IfaceId;

    fn run(dst: &[&str], iface: &[u16]) -> Vec<(String, u32, Class)> {
        let net = Net::new();
        let mut node = Lookup::<V4>::new(net.forwarding.clone());
        let frame = to_p0(udp4("10.0.0.1"));
        let frames = vec![frame.as_slice(); dst.len()];
        let outcomes = net.bench().run(&mut node, &frames, |v, i| {
            v.set(Dst4, i, dst[i].parse::<std::net::Ipv4Addr>().unwrap().into());
            v.set(Iface, i, IfaceId(iface[i % iface.len()]));
        });
        let lanes = |got: &Outcome| (got.get(Adjacency).0, got.get(PuntClass));
        let lanes = |got: Outcome| (got.to.clone(), lanes(&got).0, lanes(&got).1);
        outcomes.into_iter().map(lanes).collect()
    }

    fn class(dst: &str) -> Class {
        let (to, _, class) = run(&[dst], &[1]).remove(0);
        assert_eq!(to, "punt");
        class
    }

    #[test]
    fn hops_lead_on() {
        let got = run(&["10.9.0.1", "10.1.0.1", "10.2.0.1"], &[1]);
        let want = [("rewrite", 8), ("rewrite", 9), ("multipath", 1)];
        assert!(got.iter().map(|got| (got.0.as_str(), got.1)).eq(want));
        assert_eq!(class("10.3.0.1"), Class::NoNeighbour);
        assert_eq!(class("10.5.0.1"), Class::Unreachable);
        assert_eq!(class("10.6.0.1"), Class::ViaKernel);
        // Another VRF does not let its packets leave by interfaces that are not Rutter's.
        assert_eq!(run(&["10.6.0.1"], &[4])[0].0, "drop: via_kernel");
        assert_eq!(class("11.0.0.1"), Class::Unreachable);
        assert_eq!(class("192.0.2.1"), Class::ForUs);
        assert_eq!(class("224.0.0.5"), Class::Multicast);
        assert_eq!(run(&["10.4.0.1"], &[1])[0].0, "drop: blackhole");
        assert_eq!(run(&["255.255.255.255"], &[1])[0].0, "drop: martian");
    }

    #[test]
    fn what_is_unresolved_at_the_back_is_not_asked_for_from_there() {
        let net = Net::new();
        crate::testbed::shielded(&net);
        let to = |iface| {
            let mut node = Lookup::<V4>::new(net.forwarding.clone());
            let frame = to_p0(udp4("10.24.0.1"));
            let outcomes = net.bench().run(&mut node, &[frame.as_slice(); 2], |v, i| {
                let dst = ["10.24.0.1", "10.3.0.1"][i].parse::<std::net::Ipv4Addr>().unwrap();
                v.set(Dst4, i, dst.into());
                v.set(Iface, i, IfaceId(iface));
            });
            outcomes.into_iter().map(|got| got.to).collect::<Vec<_>>()
        };
        assert_eq!(to(2), ["drop: back_to_back", "punt"], "at the back, and elsewhere");
        assert_eq!(to(3), ["punt", "punt"], "from no side");
    }

    #[test]
    fn hops_of_ipv6_lead_on() {
        let net = Net::new();
        let mut node = Lookup::<V6>::new(net.forwarding.clone());
        let dst = ["2001:db8:9::1", "2001:db8:1::1", "2001:db8:2::1", "2001:db8:ffff::1", "::2"];
        let frame = to_p0(udp6("2001:db8::1"));
        let outcomes = net.bench().run(&mut node, &[frame.as_slice(); 5], |v, i| {
            v.set(Dst6, i, dst[i].parse::<std::net::Ipv6Addr>().unwrap().into());
            v.set(Iface, i, IfaceId(1));
        });
        let got: Vec<_> = outcomes.iter().map(|got| got.to.as_str()).collect();
        assert_eq!(got, ["rewrite", "rewrite", "multipath", "punt", "punt"]);
    }

    #[test]
    fn each_packet_is_looked_up_in_its_vrf() {
        let got = run(&["10.9.0.1"; 6], &[1, 4, 4]);
        let want = ["rewrite", "drop: blackhole", "drop: blackhole"];
        assert!(got.iter().map(|got| got.0.as_str()).eq(want.into_iter().chain(want)));
    }
}
