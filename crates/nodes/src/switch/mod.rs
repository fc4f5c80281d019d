//! The switch: from port and tag to a forwarding domain, learning, forwarding,
//! flooding, and the ways to and from a bridge's routed interface.
//!
//! ```text
//!  ethernet_input ─► bridge_input ─► bridge_learn ─► bridge_forward ─┬► output
//!       bridge_copies ◄─ ring ◄─ bridge_flood ◄──────────────────────┤
//!       (routed side) bridge_local ─► ip4_input …  ◄─────────────────┘
//!       output ─► ring ─► bridge_send ─► output | bridge_flood
//!       (each second) bridge_probe ─► output … a loop … ─► bridge_flood
//! ```
//!
//! A bridge's routed side is an inner port: its number is behind those of the devices.

pub mod bridge_copies;
pub mod bridge_flood;
pub mod bridge_forward;
pub mod bridge_input;
pub mod bridge_learn;
pub mod bridge_local;
pub mod bridge_probe;
pub mod bridge_send;
mod decide;
pub mod lanes;
pub mod loops;
#[cfg(test)]
mod real;
#[cfg(test)]
mod ring_tests;
mod sip;
mod tag;
#[cfg(test)]
mod testbed;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use graph::Card;
use graph::ring::spsc;
use tables::macs::Learn;

use self::loops::Loops;
use crate::assembly::{Assembly, Common, DETOURS};
use crate::counters::DomainCounters;

/// Its nodes.
pub const NODES: &[Card] = &[
    Card::of::<bridge_input::BridgeInput>(),
    Card::of::<bridge_learn::BridgeLearn>(),
    Card::of::<bridge_forward::BridgeForward>(),
    Card::of::<bridge_local::BridgeLocal>(),
    Card::of::<bridge_send::BridgeSend>(),
    Card::of::<bridge_flood::BridgeFlood>(),
    Card::of::<bridge_copies::BridgeCopies>(),
    Card::of::<bridge_probe::BridgeProbe>(),
];

/// The parts of one worker's bridges.
pub struct Bridging {
    /// How many there are; their routed sides are ports behind the others.
    pub bridges: u16,
    /// All workers, which share the rates of flooding.
    pub workers: u32,
    /// This worker's counters per forwarding domain.
    pub domains: Arc<DomainCounters>,
    /// To the bridge thread: which stations were seen.
    pub learn: spsc::Producer<Learn>,
    /// The loop state that all workers share.
    pub loops: Arc<Loops>,
}

impl Bridging {
    /// No bridge.
    pub fn none() -> Bridging {
        let (learn, _) = spsc::ring(1);
        let (domains, loops) = (DomainCounters::new(), Loops::new(0, [0; 2], None));
        Bridging { bridges: 0, workers: 1, domains, learn, loops }
    }
}

/// Adds the switch.
pub fn add(assembly: Assembly, bridging: Bridging) -> Assembly {
    let Bridging { bridges, workers, domains, learn, loops } = bridging;
    let Common { forwarding, counters, ports, .. } = &assembly.common;
    let (tables, domains) = (|| forwarding.clone(), || domains.clone());
    let inner = *ports..*ports + bridges;
    let (to_bridge, from_output) = spsc::ring(DETOURS);
    let (copies, from_flood) = spsc::ring(DETOURS);
    let input = bridge_input::BridgeInput::new(tables(), domains(), loops.clone());
    let learn = bridge_learn::BridgeLearn::new(tables(), domains(), (learn, loops.clone()));
    let forward = bridge_forward::BridgeForward::new(tables());
    let local = bridge_local::BridgeLocal::new(tables(), counters.clone());
    let send = bridge_send::BridgeSend::new(tables(), from_output);
    let shares = (inner.end, workers);
    let flood =
        bridge_flood::BridgeFlood::new(tables(), (domains(), loops.clone()), copies, shares);
    let copies = bridge_copies::BridgeCopies::new(tables(), from_flood);
    let probe = bridge_probe::BridgeProbe::new(tables(), loops);
    let assembly = assembly.inner(inner, to_bridge);
    let assembly = assembly.node(input).node(learn).node(forward).node(local);
    let assembly = assembly.node(send).node(flood).node(copies);
    // A node that ticks costs every poll something.
    if bridges > 0 { assembly.node(probe) } else { assembly }
}
