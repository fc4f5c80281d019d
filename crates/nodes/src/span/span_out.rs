//! `span_out`: copies transmitted frames for the mirrors of their port.
//!
//! ```text
//!  … ─► span_out ─► output
//!            └► copies: ring to span_send, ring to the file's thread
//! ```
//!
//! | cost with mirrors      | of a packet                                                 |
//! |------------------------|-------------------------------------------------------------|
//! | none                   | none: the node is not there                                 |
//! | some                   | a read of the port's mirrors a packet; a copy of each frame |
//! |                        | that is taken                                               |

use graph::{Lanes, Node, View, labels};

use super::copy::Copier;
use super::spans::Side;
use crate::lanes::OutPort;

pub use super::copy::Why;

labels! {
    /// Where frames go.
    pub enum To { Output = "output" }
}

/// The node.
pub struct SpanOut(Copier);

impl SpanOut {
    pub(super) fn new(copier: Copier) -> Self {
        SpanOut(copier)
    }
}

impl Node for SpanOut {
    type Edge = To;
    type Drop = Why;
    const NAME: &'static str = "span_out";
    const HELP: &'static str = "copies frames that leave, for mirrors";
    const READS: Lanes = Lanes::of::<(OutPort,)>();

    fn process(&mut self, v: &mut View<'_, Self>) {
        self.0.look(v, Side::Out, |v, i| v.get(OutPort, i).0);
        v.leave_all(To::Output);
    }
}
