//! `unsent`: keeps packets of a bypass that the rewrite could not send from the kernel.
//!
//! ```text
//!  ip4_rewrite, ip6_rewrite ─ punt ─┬ from elsewhere ─► punt   PuntClass
//!                                   └ from the front ─► TTL used up, too long ─► icmp_error   Faulty
//! ```
//!
//! | cost | such packets alone: a look at the side of their interface, and at the adjacency |
//! |------|----------------------------------------------------------------------------------|

use std::sync::Arc;

use graph::{Lanes, Node, View, labels};
use tables::{Forwarding, Side};

use super::fault::{Fault, Kind, may_not_be_fragmented};
use super::lanes::Faulty;
use crate::class::Class;
use crate::lanes::{Adjacency, Iface, PuntClass};

labels! {
    /// Where packets go.
    pub enum To {
        Punt = "punt" carries [PuntClass],
        Error = "icmp_error" carries [Faulty],
    }
}

labels! {
    /// Why packets are dropped.
    pub enum Why {
        /// Longer than the way carries, and nobody has forbidden to fragment it: nobody does.
        TooLong = "too_long",
    }
}

/// The node.
pub struct Unsent(Arc<Forwarding>);

impl Unsent {
    /// A node that knows the front by `forwarding`.
    pub fn new(forwarding: Arc<Forwarding>) -> Self {
        Unsent(forwarding)
    }
}

impl Node for Unsent {
    type Edge = To;
    type Drop = Why;
    const NAME: &'static str = "unsent";
    const HELP: &'static str = "keeps from the kernel what a bypass cannot send";
    const READS: Lanes = Lanes::of::<(PuntClass, Iface, Adjacency)>();

    fn process(&mut self, v: &mut View<'_, Self>) {
        let ifaces = self.0.ifaces.load(v.guard());
        let hops = self.0.hops.load(v.guard());
        v.leave_all(To::Punt);
        for i in 0..v.n() {
            if ifaces.side(v.get(Iface, i)) != Side::Front {
                continue;
            }
            let kind = match v.get(PuntClass, i) {
                Class::TooBig if !may_not_be_fragmented(v.head(i)) => {
                    v.drop(i, Why::TooLong);
                    continue;
                }
                Class::TooBig => Kind::TooLong(hops.adjacency(v.get(Adjacency, i)).out().mtu()),
                _ => Kind::Expired,
            };
            v.set(Faulty, i, Fault::new(kind));
            v.leave(i, To::Error);
        }
    }
}
