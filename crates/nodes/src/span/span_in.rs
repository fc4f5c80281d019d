//! `span_in`: copies received frames for the mirrors of their port.
//!
//! ```text
//!  port ─► span_in ─► ethernet_input
//!            └► copies: ring to span_send, ring to the file's thread
//! ```
//!
//! | cost with mirrors      | of a packet                                                 |
//! |------------------------|-------------------------------------------------------------|
//! | none                   | none: the node is not there                                 |
//! | some                   | a read of the port's mirrors a packet; a copy of each frame |
//! |                        | that is taken                                               |

use graph::{Node, View, labels};

use super::copy::Copier;
use super::spans::Side;

pub use super::copy::Why;

labels! {
    /// Where frames go.
    pub enum To { First = "ethernet_input" }
}

/// The node.
pub struct SpanIn(Copier);

impl SpanIn {
    pub(super) fn new(copier: Copier) -> Self {
        SpanIn(copier)
    }
}

impl Node for SpanIn {
    type Edge = To;
    type Drop = Why;
    const NAME: &'static str = "span_in";
    const HELP: &'static str = "copies frames that come in, for mirrors";

    fn process(&mut self, v: &mut View<'_, Self>) {
        self.0.look(v, Side::In, |v, _| v.port());
        v.leave_all(To::First);
    }
}
