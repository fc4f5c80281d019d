//! `ip4_sides`, `ip6_sides`: a shield forwards nothing from its back to its back.
//!
//! ```text
//!  came in at │ leaves at   front   back   neither
//!  front      │             drop    ►      drop      (what a protection has let pass)
//!  back       │             ►       drop   ►
//!  neither    │             ►       ►      ►
//! ```
//!
//! | cost | two reads a packet: the adjacency, which is written from next, and two sides |
//! |------|-------------------------------------------------------------------------------|
//!
//! Packets that `ip_front` keeps from the lookup never arrive here: packets from the front
//! have passed. Encapsulated packets go to their Grantor, whose route leads out at the back
//! according to the tables. The node exists only with a shield.

use std::marker::PhantomData;
use std::sync::Arc;

use graph::{Lanes, Node, View, labels};
use tables::{Denied, Forwarding, HopTable};

use crate::family::Family;
use crate::lanes::{Adjacency, Iface};

labels! {
    /// Where packets go.
    pub enum To {
        Rewrite = "rewrite",
    }
}

labels! {
    /// Why packets are dropped.
    pub enum Why {
        /// It was let pass, and its route leads to the front.
        FrontToFront = "front_to_front",
        /// It was let pass, and its route leads to an interface of neither side.
        FrontElsewhere = "front_elsewhere",
        /// From the back, and its route leads there.
        BackToBack = "back_to_back",
    }
}

/// The node of the family `F`.
pub struct Sides<F> {
    forwarding: Arc<Forwarding>,
    family: PhantomData<F>,
}

impl<F: Family> Sides<F> {
    /// A node that asks `forwarding` for the sides.
    pub fn new(forwarding: Arc<Forwarding>) -> Self {
        Sides { forwarding, family: PhantomData }
    }
}

impl<F: Family> Node for Sides<F> {
    type Edge = To;
    type Drop = Why;
    const NAME: &'static str = F::SIDES;
    const HELP: &'static str = "drops what goes from one side of a shield to the same";
    const READS: Lanes = Lanes::of::<(Iface, Adjacency)>();

    fn process(&mut self, v: &mut View<'_, Self>) {
        let ifaces = self.forwarding.ifaces.load(v.guard());
        let hops: &HopTable = self.forwarding.hops.load(v.guard());
        v.leave_all(To::Rewrite);
        for i in 0..v.n() {
            let out = hops.adjacency(v.get(Adjacency, i)).out().iface();
            let from = ifaces.side(v.get(Iface, i));
            if let Err(denied) = from.may_leave_at(ifaces.side(out), true) {
                v.drop(i, why(denied));
            }
        }
    }
}

#[cold]
fn why(denied: Denied) -> Why {
    match denied {
        Denied::FrontToFront => Why::FrontToFront,
        Denied::BackToBack => Why::BackToBack,
        Denied::FrontElsewhere | Denied::FrontToBack => Why::FrontElsewhere,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::{V4, V6};
    use crate::testbed::{Net, shielded, to_p0, udp4};
    use tables::{AdjacencyId, IfaceId};

    #[test]
    fn each_pair_of_sides() {
        let net = Net::new();
        shielded(&net);
        let frame = to_p0(udp4("10.0.0.1"));
        // In at the front (1), the back (2) or neither (3); out by adjacencies of these.
        let (front, back, neither) = (10, 8, 9);
        let rows = [
            (1, front, "drop: front_to_front"),
            (1, back, "rewrite"),
            (1, neither, "drop: front_elsewhere"),
            (2, front, "rewrite"),
            (2, back, "drop: back_to_back"),
            (2, neither, "rewrite"),
            (3, front, "rewrite"),
            (3, back, "rewrite"),
            (3, neither, "rewrite"),
            (0, front, "rewrite"), // made here
        ];
        let frames = vec![frame.as_slice(); rows.len()];
        let mut node = Sides::<V4>::new(net.forwarding.clone());
        let got = net.bench().run(&mut node, &frames, |v, i| {
            v.set(Iface, i, IfaceId(rows[i].0));
            v.set(Adjacency, i, AdjacencyId(rows[i].1));
        });
        assert!(got.iter().zip(rows).all(|(got, (_, _, to))| got.to == to));
        let mut node = Sides::<V6>::new(net.forwarding.clone());
        let got = net.bench().run(&mut node, &frames, |v, i| {
            v.set(Iface, i, IfaceId(rows[i].0));
            v.set(Adjacency, i, AdjacencyId(rows[i].1));
        });
        assert!(got.iter().zip(rows).all(|(got, (_, _, to))| got.to == to));
    }
}
