//! A router from its nodes.
//!
//! ```text
//!  ports ─► ethernet_input ─┬► ip4_input ─► ip4_lookup ─┬───────────────────► ip4_rewrite ─┐
//!                           │                           └► ip4_multipath ────► ip4_rewrite ├► output ─► ports
//!                           ├► ip6_input ─► … the same … ───────────────────► ip6_rewrite ─┤
//!  kernel ─► kernel_input ──┼──────────────────────────────────────────────────────────────┤
//!  workers ─► worker_input ─┼──────────────────────────────────────────────────────────────┘
//!                           └► punt ─► kernel            any node ─► drop
//! ```

use std::sync::Arc;

use graph::Builder;
use graph::ring::{frames, spsc};
use tables::Forwarding;
use wire::flow::Hasher;

use crate::class::Rates;
use crate::counters::IfaceCounters;
use crate::family::{Family, V4, V6};
use crate::l3::{ip_lookup, ip_multipath, ip4_input, ip6_input};
use crate::out::{drop, kernel_input, output, punt, worker_input};
use crate::parse::ethernet_input;
use crate::rewrite::ip_rewrite;

/// What one worker's router is made of.
pub struct Parts {
    /// The tables.
    pub forwarding: Arc<Forwarding>,
    /// This worker's counters per interface.
    pub counters: Arc<IfaceCounters>,
    /// The key of flow hashes: the same for all workers, another for each router.
    pub hasher: Hasher,
    /// What this worker may punt.
    pub rates: Rates,
    /// To the kernel thread.
    pub to_kernel: frames::Producer,
    /// From the kernel thread.
    pub from_kernel: frames::Consumer,
    /// Number of ports, this worker's and others'.
    pub ports: u16,
    /// To the workers that have the other ports.
    pub remotes: Vec<output::Remote>,
    /// From those workers.
    pub from_workers: Vec<spsc::Consumer<output::Handed>>,
}

/// Connects the nodes; other nodes can be added before it is built.
pub fn router(parts: Parts) -> Builder {
    let builder = Builder::new("ethernet_input")
        .node(ethernet_input::EthernetInput::new(parts.forwarding.clone(), parts.counters.clone()))
        .node(ip4_input::Ip4Input);
    let builder = family::<V4>(builder, &parts).node(ip6_input::Ip6Input);
    let builder = family::<V6>(builder, &parts);
    let Parts { forwarding, counters, .. } = parts;
    builder
        .node(kernel_input::KernelInput::new(parts.from_kernel, forwarding, counters))
        .node(worker_input::WorkerInput::new(parts.from_workers))
        .node(output::Output::new(parts.ports, parts.remotes))
        .node(punt::Punt::new(parts.to_kernel, &parts.rates))
        .node(drop::Drop)
}

/// The nodes that both families have.
fn family<F: Family>(builder: Builder, parts: &Parts) -> Builder {
    let (forwarding, counters) = (|| parts.forwarding.clone(), || parts.counters.clone());
    builder
        .node(ip_lookup::Lookup::<F>::new(forwarding()))
        .node(ip_multipath::Multipath::<F>::new(forwarding(), parts.hasher))
        .node(ip_rewrite::Rewrite::<F>::new(forwarding(), counters()))
        .connect(F::LOOKUP, "multipath", F::MULTIPATH)
        .connect(F::LOOKUP, "rewrite", F::REWRITE)
        .connect(F::MULTIPATH, "rewrite", F::REWRITE)
}
