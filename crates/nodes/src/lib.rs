//! The nodes of the packet graph, one file each, in folders in the packet's
//! order: [`parse`], [`l3`], [`rewrite`], [`out`]. [`NODES`] lists them;
//! [`router`] connects them.
#![forbid(unsafe_code)]

pub mod class;
pub mod counters;
pub mod filter;
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
pub use counters::{IfaceCounter, IfaceCounters};

use graph::Card;

/// Every node: name, help, edges, drop reasons.
pub const NODES: &[Card] = &[
    Card::of::<parse::ethernet_input::EthernetInput>(),
    Card::of::<l3::ip4_input::Ip4Input>(),
    Card::of::<l3::ip4_lookup::Ip4Lookup>(),
    Card::of::<l3::ip4_multipath::Ip4Multipath>(),
    Card::of::<l3::ip6_input::Ip6Input>(),
    Card::of::<l3::ip6_lookup::Ip6Lookup>(),
    Card::of::<l3::ip6_multipath::Ip6Multipath>(),
    Card::of::<rewrite::ip4_rewrite::Ip4Rewrite>(),
    Card::of::<rewrite::ip6_rewrite::Ip6Rewrite>(),
    Card::of::<out::output::Output>(),
    Card::of::<out::punt::Punt>(),
    Card::of::<out::kernel_input::KernelInput>(),
    Card::of::<out::worker_input::WorkerInput>(),
    Card::of::<out::drop::Drop>(),
];
