//! `bridge_local`: frames of a bridge to its routed interface.
//!
//! ```text
//!  port of the bridge + tag ─► interface ─► ip4_input | ip6_input | punt
//! ```
//!
//! | cost (reads a packet) | the frame's line, in cache |
//! |-----------------------|----------------------------|
//!
//! It does the work of `ethernet_input` for a port outside of bridges, but the port is in
//! the lane `OutPort`: the number of the bridge's routed side.

use std::sync::Arc;

use graph::{Lanes, Node, View, labels};
use tables::Forwarding;

use crate::counters::IfaceCounters;
use crate::lanes::{Iface, OutPort, PuntClass};
use crate::parse::ethernet_input::{self, Arrival, arrival};

labels! {
    /// Where frames go.
    pub enum To {
        Ip4 = "ip4_input" carries [Iface],
        Ip6 = "ip6_input" carries [Iface],
        Punt = "punt" carries [Iface, PuntClass],
    }
}

pub use ethernet_input::Why;

/// The node.
pub struct BridgeLocal {
    forwarding: Arc<Forwarding>,
    counters: Arc<IfaceCounters>,
}

impl BridgeLocal {
    /// A node that finds interfaces in `forwarding` and counts in `counters`.
    pub fn new(forwarding: Arc<Forwarding>, counters: Arc<IfaceCounters>) -> Self {
        BridgeLocal { forwarding, counters }
    }
}

impl Node for BridgeLocal {
    type Edge = To;
    type Drop = Why;
    const NAME: &'static str = "bridge_local";
    const HELP: &'static str = "takes frames to a bridge's routed interface";
    const READS: Lanes = Lanes::of::<(OutPort,)>();

    fn process(&mut self, v: &mut View<'_, Self>) {
        let ifaces = self.forwarding.ifaces.load(v.guard());
        for i in 0..v.n() {
            let len = v.len(i);
            match arrival(ifaces, v.get(OutPort, i).0, v.head(i), len) {
                Ok((id, link, arrival)) => {
                    self.counters.received(id, 1, u64::from(len));
                    v.set(Iface, i, id);
                    v.advance(i, link); // `arrival` saw to it that the frame is longer
                    match arrival {
                        Arrival::Ip4 => v.leave(i, To::Ip4),
                        Arrival::Ip6 => v.leave(i, To::Ip6),
                        Arrival::Punt(class) => {
                            v.set(PuntClass, i, class);
                            v.leave(i, To::Punt);
                        }
                    }
                }
                Err(why) => v.drop(i, why),
            }
        }
    }
}
