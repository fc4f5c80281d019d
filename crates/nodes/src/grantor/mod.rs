//! Grantor: unwraps the packets of Gatekeepers, asks a policy about them, forwards those that it
//! grants, and sends its decisions.
//!
//! ```text
//!  ip4_input ─┬► ip4_tunnel ─┬► ip4_lookup ─► …        what is granted, and what is none of ours
//!             │              └► grantor ─┬► ip4_lookup  what the policy grants
//!             └► ip4_wrapped ─► punt     └► output      decisions, for Gatekeepers
//! ```
//!
//! With a shield in the same graph:
//!
//! ```text
//!  shield, solicit ─► asked_here ─► grantor ─► ip4_lookup
//!     ▲ ring to the flow's owner ─────┘ decisions
//! ```
//!
//! Inside, a module imports only modules of the lines below its own:
//!
//! ```text
//!   asked_here grantor ip4_wrapped
//!   fragments ip_tunnel post
//!   plain
//!   inner parked
//!   messages park unwrap
//!   fates gather settings
//!   lanes nets
//! ```

pub mod asked_here;
mod fates;
mod fragments;
mod gather;
#[allow(clippy::module_inception, reason = "a node's file is called as the node")]
pub mod grantor;
mod inner;
pub mod ip4_wrapped;
pub mod ip_tunnel;
pub mod lanes;
mod messages;
pub mod nets;
mod park;
mod parked;
mod plain;
mod post;
pub mod settings;
#[cfg(test)]
mod tests;
mod unwrap;

use std::sync::Arc;

use graph::Card;
use lookup::sync::Published;
use policy::ask::Asker;

use crate::assembly::Assembly;
use crate::counters::IfaceCounters;
use crate::family::{Family, V4, V6};
use ip_tunnel::{IpTunnel, Tunnels};

/// Names of its nodes.
pub const NODES: &[Card] = &[
    Card::of::<IpTunnel<V4>>(),
    Card::of::<IpTunnel<V6>>(),
    Card::of::<ip4_wrapped::Ip4Wrapped>(),
    Card::of::<asked_here::AskedHere>(),
    Card::of::<grantor::Grantor>(),
];

/// The nodes that a Grantor's router runs before its lookup, by family.
pub const ENTRY: [&str; 2] = [V4::TUNNEL, V6::TUNNEL];

/// The parts of one worker's Grantor.
pub struct Parts {
    /// The settings, which may change.
    pub settings: Arc<Published<settings::Settings>>,
    /// This worker's counters.
    pub counters: Arc<settings::Counters>,
    /// The asker of the policy; `None`: that of the graph that this graph replaces.
    pub asker: Option<Box<dyn Asker>>,
    /// The most packets that may wait.
    pub capacity: usize,
    /// The most fragments that may wait for the rest of their packet, beside those packets; 0: no
    /// fragment waits.
    pub fragments: usize,
}

/// Adds the Grantor to a router, which then leads to [`ENTRY`] (`router::tunnels`). A shield whose
/// decisions are made here must be in the graph already. `special` is the node for packets that a
/// shield keeps from its kernel.
pub fn add(mut assembly: Assembly, parts: Parts, special: Option<&'static str>) -> Assembly {
    let Parts { settings, counters, asker, capacity, fragments } = parts;
    let forwarding = assembly.common.forwarding.clone();
    let ifaces: Arc<IfaceCounters> = assembly.common.counters.clone();
    let all = || (forwarding.clone(), settings.clone(), counters.clone());
    let ((tables, set, counts), (tables6, set6, counts6)) = (all(), all());
    let counts_of = (counters.clone(), ifaces);
    let hearing = assembly.hearing.take();
    let is_asked_here = hearing.is_some();
    let (who, room) = ((asker, hearing), (capacity, fragments));
    let grantor = grantor::Grantor::new(forwarding.clone(), settings.clone(), counts_of, who, room);
    let mut assembly = assembly
        .node(IpTunnel::<V4>::new(tables, set, counts))
        .node(IpTunnel::<V6>::new(tables6, set6, counts6))
        .node(ip4_wrapped::Ip4Wrapped::new(forwarding))
        .node(grantor)
        .connect(V4::INPUT, "punt", "ip4_wrapped");
    if is_asked_here {
        assembly = assembly.node(asked_here::AskedHere);
    }
    if let Some(special) = special {
        assembly = assembly.connect("ip4_wrapped", "punt", special);
    }
    assembly
}
