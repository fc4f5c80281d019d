//! The router: every port feeds one graph a worker; routed packets leave by the
//! port of their next hop, the others go to the kernel by the tap of the
//! interface that they came in by.
//!
//! ```text
//!  p0 ─┐                                                        ┌─ p0
//!  p1 ─┼─► ethernet_input ─► ip4 | ip6 ─► rewrite ─► output ────┼─ p1
//!  pN ─┘        │ ARP, for us, exceptions                ▲      └─ pN
//!               └──────────► punt ─► taps p0, p0.100, p1 │
//!                                    taps ─► kernel_input ┘
//! ```

use graph::Graph;
use nodes::assembly::Common;
use nodes::switch::Bridging;

/// The application's name in `show system`.
pub const NAME: &str = "router";

/// The graph of worker number `worker`.
///
/// # Errors
/// When the nodes do not fit together.
pub fn graph(worker: usize, common: Common, bridging: Bridging) -> Result<Graph, graph::Error> {
    nodes::router_and_switch(common, bridging).build(worker)
}
