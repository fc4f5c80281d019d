//! `ip4_wrapped`: keeps packets from the kernel that no Gatekeeper can have sent.
//!
//! ```text
//!  ip4_input ─── punt ─► options, IP in IP, for this machine ─┬ yes ► drop
//!                                                             └ no ─► punt   PuntClass: as it came
//! ```
//!
//! | cost | of packets with options alone: a lookup of the destination |
//! |------|--------------------------------------------------------------|
//!
//! Packets with IPv4 options are punted before any lookup. A Gatekeeper's outer header has no options.

use std::sync::Arc;

use graph::{Lanes, Node, View, labels};
use tables::{Forwarding, Side};
use wire::bytes::array;
use wire::ipv4;

use super::inner::is_ip;
use super::ip_tunnel::is_ours;
use crate::family::V4;
use crate::lanes::{Iface, PuntClass};

labels! {
    /// Where packets go.
    pub enum To {
        Punt = "punt" carries [PuntClass],
    }
}

labels! {
    /// Why packets are dropped.
    pub enum Why {
        /// The outer header has options.
        OuterOptions = "outer_options",
    }
}

/// The node.
pub struct Ip4Wrapped {
    forwarding: Arc<Forwarding>,
}

impl Ip4Wrapped {
    /// A node that finds this machine's addresses in `forwarding`.
    pub fn new(forwarding: Arc<Forwarding>) -> Self {
        Ip4Wrapped { forwarding }
    }
}

impl Node for Ip4Wrapped {
    type Edge = To;
    type Drop = Why;
    const NAME: &'static str = "ip4_wrapped";
    const HELP: &'static str = "drops IP in IP behind options";
    const READS: Lanes = Lanes::of::<(Iface, PuntClass)>();

    fn process(&mut self, v: &mut View<'_, Self>) {
        let ifaces = self.forwarding.ifaces.load(v.guard());
        v.leave_all(To::Punt);
        for i in 0..v.n() {
            let (head, iface) = (v.head(i), v.get(Iface, i));
            if !is_ip(head[ipv4::PROTOCOL]) || ifaces.side(iface) == Side::Front {
                continue;
            }
            let dst = u32::from_be_bytes(array(head, ipv4::DST));
            if is_ours::<V4>(&self.forwarding, v.guard(), iface, dst) {
                v.drop(i, Why::OuterOptions);
            }
        }
    }
}
