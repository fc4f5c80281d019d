//! `drop`: returns the buffers of dropped packets to their pool.
//!
//! ```text
//!  any node ── drop edge, reason ──► drop ──► pool      counted as node.reason by the graph
//! ```
//!
//! | cost | one call of the pool a vector |
//! |------|--------------------------------|

use graph::{NoDrop, NoEdge, Node, Point, View};

/// The node.
pub struct Drop;

impl Node for Drop {
    type Edge = NoEdge;
    type Drop = NoDrop;
    const NAME: &'static str = "drop";
    const HELP: &'static str = "frees dropped packets; the reasons are counted at the nodes";

    fn process(&mut self, v: &mut View<'_, Self>) {
        if v.capturing(Point::Dropped) {
            (0..v.n()).for_each(|i| v.capture(i, Point::Dropped));
        }
        v.free();
    }
}
