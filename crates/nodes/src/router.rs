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
use crate::l3::{ip4_input, ip4_lookup, ip4_multipath, ip6_input, ip6_lookup, ip6_multipath};
use crate::out::{drop, kernel_input, output, punt, worker_input};
use crate::parse::ethernet_input;
use crate::rewrite::{ip4_rewrite, ip6_rewrite};

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
    let Parts { forwarding, counters, hasher, .. } = parts;
    let (tables, count) = (|| forwarding.clone(), || counters.clone());
    Builder::new("ethernet_input")
        .node(ethernet_input::EthernetInput::new(tables(), count()))
        .node(ip4_input::Ip4Input)
        .node(ip4_lookup::Ip4Lookup::new(tables()))
        .node(ip4_multipath::Ip4Multipath::new(tables(), hasher))
        .node(ip4_rewrite::Ip4Rewrite::new(tables(), count()))
        .node(ip6_input::Ip6Input)
        .node(ip6_lookup::Ip6Lookup::new(tables()))
        .node(ip6_multipath::Ip6Multipath::new(tables(), hasher))
        .node(ip6_rewrite::Ip6Rewrite::new(tables(), count()))
        .node(kernel_input::KernelInput::new(parts.from_kernel, tables(), count()))
        .node(worker_input::WorkerInput::new(parts.from_workers))
        .node(output::Output::new(parts.ports, parts.remotes))
        .node(punt::Punt::new(parts.to_kernel, &parts.rates))
        .node(drop::Drop)
}
