//! `bridge_copies`: sends the copies of `bridge_flood`.
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
use graph::{Node, View, labels};
use tables::Forwarding;

use crate::lanes::{Iface, OutPort};
use crate::out::detour::{Detour, refill};

labels! {
    /// Where frames go.
    pub enum To {
        Output = "output" carries [OutPort, Iface],
        Local = "bridge_local" carries [OutPort, Iface],
    }
}

labels! {
    /// Why packets are dropped.
    pub enum Why {
        /// The port whose pool the copy is of has gone.
        NoPort = "no_port",
    }
}

/// The node.
pub struct BridgeCopies {
    forwarding: Arc<Forwarding>,
    ring: Consumer<Detour>,
}

impl BridgeCopies {
    /// A node that empties `ring`.
    pub fn new(forwarding: Arc<Forwarding>, ring: Consumer<Detour>) -> Self {
        BridgeCopies { forwarding, ring }
    }
}

impl Node for BridgeCopies {
    type Edge = To;
    type Drop = Why;
    const NAME: &'static str = "bridge_copies";
    const HELP: &'static str = "sends the copies that bridge_flood made";
    const SOURCE: bool = true;
    const WAKES: bool = true; // by nodes of its own worker

    fn process(&mut self, v: &mut View<'_, Self>) {
        let first_routed = self.forwarding.bridges.load(v.guard()).first_routed;
        refill(v, &mut self.ring, Why::NoPort);
        for i in 0..v.n() {
            v.leave(i, if v.get(OutPort, i).0 < first_routed { To::Output } else { To::Local });
        }
    }
}
