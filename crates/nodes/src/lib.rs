//! The nodes of the packet graph, one file each, in folders: [`parse`], then the
//! applications' ([`APPLICATIONS`]), then [`out`]; [`assembly`] connects them.
//!
//! Inside, a module imports only modules of the lines below its own:
//!
//! ```text
//!   grantor
//!   gatekeeper router span switch
//!   assembly
//!   out parse
//!   family vrf
//!   lanes
//!   class counters filter sync
//! ```
#![forbid(unsafe_code)]

pub mod assembly;
pub mod class;
pub mod counters;
pub mod family;
pub mod filter;
pub mod gatekeeper;
pub mod grantor;
pub mod lanes;
pub mod out;
pub mod parse;
pub mod router;
pub mod span;
pub mod switch;
mod sync;
#[cfg(test)]
mod testbed;
#[cfg(test)]
mod tests;

#[cfg(test)]
#[global_allocator]
static ALLOCATOR: graph::testing::Counting = graph::testing::Counting;

mod vrf;

pub use class::{Class, Rates};
pub use counters::{DomainCounter, DomainCounters, IfaceCounter, IfaceCounters};

use graph::{Builder, Card};

use crate::assembly::{Assembly, Common};
use crate::switch::Bridging;

/// The nodes of each application, in the order in which packets meet them. An
/// application is a folder, and a line here.
pub const APPLICATIONS: &[(&str, &[Card])] = &[
    ("switch", switch::NODES),
    ("router", router::NODES),
    ("gatekeeper", gatekeeper::NODES),
    ("grantor", grantor::NODES),
    ("span", span::NODES),
];

/// Every node: name, help, edges, drop reasons.
pub fn nodes() -> impl Iterator<Item = &'static Card> {
    assembly::NODES.iter().chain(APPLICATIONS.iter().flat_map(|(_, nodes)| *nodes))
}

/// Router and switch, and nothing else: for tests and measurements.
pub fn router_and_switch(common: Common, bridging: Bridging) -> Builder {
    router::add(switch::add(Assembly::new(common), bridging)).finish()
}
