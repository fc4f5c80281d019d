//! `bridge_copies`: what `bridge_flood` has copied, on its way out.
//!
//! ```text
//!  bridge_flood ─► ring ─► bridge_copies ─┬► output
//!                                         └► bridge_local (the routed interface's copy)
//! ```
//!
//! | cost | one read of the ring a packet, one of its index a poll while it is empty |
//! |------|---------------------------------------------------------------------------|

use std::sync::Arc;

use graph::ring::spsc::Consumer;
use graph::{Live, NoDrop, Node, View, labels};
use io::{Owned, VECTOR};
use tables::Forwarding;

labels! {
    /// Where frames go.
    pub enum To { Output = "output", Local = "bridge_local" }
}

/// A packet on its way by a ring of its own worker.
pub struct Flooded {
    /// The packet.
    pub packet: Owned,
    /// The port whose pool it is of.
    pub pool: u16,
    /// The port to leave by.
    pub out: u16,
}

/// The node.
pub struct BridgeCopies {
    forwarding: Arc<Forwarding>,
    ring: Consumer<Flooded>,
    /// One that did not fit into the last vector.
    held: Option<Flooded>,
}

impl BridgeCopies {
    /// A node that empties `ring`.
    pub fn new(forwarding: Arc<Forwarding>, ring: Consumer<Flooded>) -> Self {
        BridgeCopies { forwarding, ring, held: None }
    }
}

impl Node for BridgeCopies {
    type Edge = To;
    type Drop = NoDrop;
    const NAME: &'static str = "bridge_copies";
    const HELP: &'static str = "sends the copies that bridge_flood made";
    const LIVE: Live = Live::OUT.and(Live::IFACE);
    const SOURCE: bool = true;

    fn process(&mut self, v: &mut View<'_, Self>) {
        let first_routed = self.forwarding.bridges.load(v.guard()).first_routed;
        refill(v, &mut self.ring, &mut self.held);
        for i in 0..v.n() {
            v.leave(i, if v.out[i] < first_routed { To::Output } else { To::Local });
        }
    }
}

/// Fills the vector of a source with packets from `ring`, as far as it goes.
pub(super) fn refill<N: Node>(
    v: &mut View<'_, N>,
    ring: &mut Consumer<Flooded>,
    held: &mut Option<Flooded>,
) {
    while v.n() < VECTOR {
        let Some(Flooded { packet, pool, out }) = held.take().or_else(|| ring.pop()) else { break };
        match v.push(packet, pool) {
            Ok(i) => {
                v.out[i] = out;
                v.iface[i] = graph::NO_IFACE;
            }
            // Of another world than those before it: the next vector's first.
            Err(packet) => {
                *held = Some(Flooded { packet, pool, out });
                break;
            }
        }
    }
}
