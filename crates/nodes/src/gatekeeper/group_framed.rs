//! `group_framed`: packets for one host that enter at the front in a broadcast frame.
//!
//! ```text
//!  ethernet_input, bridge_local ─ punt ─┬ ARP, groups, from elsewhere ──────────► punt   PuntClass
//!                                       └ IP for one host, from the front ─► front view
//!                                                     this router's ─► punt ◄───────┤
//!                                                     anything else ─► drop ◄───────┘
//! ```
//!
//! | cost | such packets alone: a lookup |
//! |------|------------------------------|
//!
//! A router does not forward them (RFC 1812 §5.3.4). Neither would the kernel, but it gets no
//! protected packet.

use std::sync::Arc;

use core::net::{Ipv4Addr, Ipv6Addr};
use graph::{Lanes, Node, View, labels};
use lookup::Hop;
use tables::{Forwarding, Kind, Side};
use wire::bytes::array;
use wire::{ipv4, ipv6};

use crate::class::Class;
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
        /// For one host that is not this router.
        NotForUs = "not_for_us",
    }
}

/// The node.
pub struct GroupFramed(Arc<Forwarding>);

impl GroupFramed {
    /// A node that looks up in `forwarding`.
    pub fn new(forwarding: Arc<Forwarding>) -> Self {
        GroupFramed(forwarding)
    }

    /// Whether packet `i` is for a group or for this router.
    fn is_ours(&self, v: &View<'_, Self>, i: usize) -> bool {
        let head = v.head(i);
        let ifaces = self.0.ifaces.load(v.guard());
        let vrf = ifaces.vrf.get(usize::from(v.get(Iface, i).0)).copied().unwrap_or_default();
        let vrfs = self.0.vrfs.load(v.guard());
        let front = vrfs.get(usize::from(vrf.0)).and_then(|vrf| vrf.front.as_ref());
        let hop = match head[0] >> 4 {
            4 if usize::from(v.len(i)) >= ipv4::MIN_LEN => {
                let dst = Ipv4Addr::from(array(head, ipv4::DST));
                if dst.is_multicast() || dst.is_broadcast() {
                    return true;
                }
                front.map(|front| front.v4.lookup(dst.into()))
            }
            6 if usize::from(v.len(i)) >= ipv6::LEN => {
                let dst = Ipv6Addr::from(array(head, ipv6::DST));
                if dst.is_multicast() {
                    return true;
                }
                front.map(|front| front.v6.lookup(dst.into()))
            }
            _ => return false,
        };
        let step = self.0.hops.load(v.guard()).step(hop.unwrap_or(Hop::NONE));
        matches!(step.kind(), Kind::ForUs | Kind::Multicast)
    }
}

impl Node for GroupFramed {
    type Edge = To;
    type Drop = Why;
    const NAME: &'static str = "group_framed";
    const HELP: &'static str = "keeps broadcast frames for protected hosts from the kernel";
    const READS: Lanes = Lanes::of::<(Iface, PuntClass)>();

    fn process(&mut self, v: &mut View<'_, Self>) {
        let ifaces = self.0.ifaces.load(v.guard());
        v.leave_all(To::Punt);
        for i in 0..v.n() {
            let at_front = ifaces.side(v.get(Iface, i)) == Side::Front;
            if at_front && v.get(PuntClass, i) == Class::Multicast && !self.is_ours(v, i) {
                v.drop(i, Why::NotForUs);
            }
        }
    }
}
