//! `span_send`: sends the copies of `span_in` and `span_out` to a port.
//!
//! ```text
//!  span_in, span_out ─► rings ─► span_send ─► output
//! ```
//!
//! | cost | one read of a ring a copy, one of each ring's index a poll while they are empty |
//! |------|---------------------------------------------------------------------------------|

use graph::ring::spsc::Consumer;
use graph::{Node, View, labels};

use crate::lanes::{Iface, OutPort};
use crate::out::detour::{Detour, refill};

labels! {
    /// Where copies go.
    pub enum To { Output = "output" carries [OutPort, Iface] }
}

labels! {
    /// Why packets are dropped.
    pub enum Why {
        /// The port whose pool the copy is of has gone.
        NoPort = "no_port",
    }
}

/// The node.
pub struct SpanSend {
    rings: [Consumer<Detour>; 2],
}

impl SpanSend {
    /// A node that empties `rings`.
    pub fn new(rings: [Consumer<Detour>; 2]) -> Self {
        SpanSend { rings }
    }
}

impl Node for SpanSend {
    type Edge = To;
    type Drop = Why;
    const NAME: &'static str = "span_send";
    const HELP: &'static str = "sends the copies that mirrors made";
    const SOURCE: bool = true;
    const WAKES: bool = true; // by nodes of its own worker

    fn process(&mut self, v: &mut View<'_, Self>) {
        for ring in &mut self.rings {
            refill(v, ring, Why::NoPort);
        }
        v.leave_all(To::Output);
    }
}
