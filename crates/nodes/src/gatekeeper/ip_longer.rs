//! `ip4_longer`, `ip6_longer`: frames that are longer than their packets.
//!
//! ```text
//!  ip4_input, ip6_input ─ longer ─┬ UDP to the port of decisions, from the back ─► drop
//!                                 ├ from the front, about which a Grantor decides ─► lookup
//!                                 └ anything else ─► cut off ─► lookup
//! ```
//!
//! | cost | such packets alone: a look at the side of their interface, a lookup of those of the front |
//! |------|--------------------------------------------------------------------------------------------|
//!
//! A decision in such a frame does not count: the deployed Gatekeeper counts all bytes that were
//! received, and refuses it; no Grantor sends one, since the shortest decision needs no padding.
//! A budget counts all bytes, too: `shield` itself cuts the packets that a budget pays for.

use std::marker::PhantomData;
use std::sync::Arc;

use graph::{Lanes, Node, View, labels};
use lookup::sync::Published;
use tables::{Forwarding, HopTable, Kind, Side};
use wire::ggu::Refusal;

use super::decisions::is_message_to_us;
use super::ip_special::front_hop;
use super::outer::packet_len;
use super::settings::{Counters, Settings};
use crate::family::Family;
use crate::lanes::Iface;
use crate::parse::cut::cut;

labels! {
    /// Where packets go.
    pub enum To {
        Lookup = "lookup",
    }
}

labels! {
    /// Why packets are dropped.
    pub enum Why {
        /// A message in a frame with something behind it: `udp_length` among the refused.
        Longer = "longer_frame",
    }
}

/// What it is made of.
type Of = (Arc<Forwarding>, Arc<Published<Settings>>, Arc<Counters>);

/// The node of the family `F`.
pub struct IpLonger<F> {
    of: Of,
    family: PhantomData<F>,
}

impl<F: Family> IpLonger<F> {
    /// A node that knows the back by these tables, and messages by these settings.
    pub fn new(of: Of) -> Self {
        IpLonger { of, family: PhantomData }
    }
}

impl<F: Family> Node for IpLonger<F> {
    type Edge = To;
    type Drop = Why;
    const NAME: &'static str = F::LONGER;
    const HELP: &'static str =
        "cuts off what follows packets, and refuses decisions in such frames";
    const READS: Lanes = Lanes::of::<(Iface, F::Dst)>();

    fn process(&mut self, v: &mut View<'_, Self>) {
        let (forwarding, settings, counters) = &self.of;
        let ifaces = forwarding.ifaces.load(v.guard());
        let hops: &HopTable = forwarding.hops.load(v.guard());
        let settings = settings.load(v.guard());
        v.leave_all(To::Lookup);
        for i in 0..v.n() {
            let iface = v.get(Iface, i);
            let side = ifaces.side(iface);
            if side == Side::Back && is_message_to_us(v.rest(i), settings) {
                counters.decisions.refused[Refusal::Length as usize].add(1);
                v.drop(i, Why::Longer);
                continue;
            }
            // Of these all bytes of the frame count.
            let stays = || {
                let hop = front_hop::<F>(forwarding, v.guard(), iface, v.get(F::DST, i));
                matches!(hops.step(hop).kind(), Kind::Protected | Kind::Discard)
            };
            if side != Side::Front || !stays() {
                let total = packet_len(v.head(i));
                cut(v, i, total);
            }
        }
    }
}
