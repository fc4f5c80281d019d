//! `ip4_longer`, `ip6_longer`: a decision in a frame that is longer than its packet does not count.
//!
//! ```text
//!  ip4_input, ip6_input ─ longer ─┬ UDP to the port of decisions, from the back ─► drop
//!                                 └ anything else ─► lookup
//! ```
//!
//! | cost | such packets alone: a look at the side of their interface |
//! |------|------------------------------------------------------------|
//!
//! What follows a packet in its frame has been cut off here, so that the length of UDP is right.
//! The deployed Gatekeeper counts all bytes that were received, and refuses such a message; no
//! Grantor sends one, since the shortest decision needs no padding.

use std::marker::PhantomData;
use std::sync::Arc;

use graph::{Lanes, Node, View, labels};
use lookup::sync::Published;
use tables::{Forwarding, Side};
use wire::ggu::Refusal;

use super::decisions::is_message;
use super::settings::{Counters, Settings};
use crate::family::Family;
use crate::lanes::Iface;

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
    const HELP: &'static str = "refuses decisions in frames that are longer than they";
    const READS: Lanes = Lanes::of::<(Iface,)>();

    fn process(&mut self, v: &mut View<'_, Self>) {
        let (forwarding, settings, counters) = &self.of;
        let ifaces = forwarding.ifaces.load(v.guard());
        let ports = settings.load(v.guard()).ports;
        v.leave_all(To::Lookup);
        for i in 0..v.n() {
            let at_back = ifaces.side(v.get(Iface, i)) == Side::Back;
            if at_back && is_message(v.head(i), v.len(i), ports) {
                counters.decisions.refused[Refusal::Length as usize].add(1);
                v.drop(i, Why::Longer);
            }
        }
    }
}
