//! The nodes of the packet graph, one file each, in folders in the packet's
//! order: [`parse`], [`l2`], [`l3`], [`rewrite`], [`out`]. [`NODES`] lists them;
//! [`router`] connects them.
#![forbid(unsafe_code)]

pub mod class;
pub mod counters;
pub mod family;
pub mod filter;
pub mod l2;
pub mod l3;
pub mod out;
pub mod parse;
pub mod rewrite;
pub mod router;
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

use graph::Card;

use crate::family::{V4, V6};

/// Every node: name, help, edges, drop reasons.
pub const NODES: &[Card] = &[
    Card::of::<parse::ethernet_input::EthernetInput>(),
    Card::of::<l2::bridge_input::BridgeInput>(),
    Card::of::<l2::bridge_learn::BridgeLearn>(),
    Card::of::<l2::bridge_forward::BridgeForward>(),
    Card::of::<l2::bridge_local::BridgeLocal>(),
    Card::of::<l2::bridge_send::BridgeSend>(),
    Card::of::<l2::bridge_flood::BridgeFlood>(),
    Card::of::<l2::bridge_copies::BridgeCopies>(),
    Card::of::<l3::ip4_input::Ip4Input>(),
    Card::of::<l3::ip_lookup::Lookup<V4>>(),
    Card::of::<l3::ip_multipath::Multipath<V4>>(),
    Card::of::<l3::ip6_input::Ip6Input>(),
    Card::of::<l3::ip_lookup::Lookup<V6>>(),
    Card::of::<l3::ip_multipath::Multipath<V6>>(),
    Card::of::<rewrite::ip_rewrite::Rewrite<V4>>(),
    Card::of::<rewrite::ip_rewrite::Rewrite<V6>>(),
    Card::of::<out::output::Output>(),
    Card::of::<out::punt::Punt>(),
    Card::of::<out::kernel_input::KernelInput>(),
    Card::of::<out::worker_input::WorkerInput>(),
    Card::of::<out::drop::Drop>(),
];
