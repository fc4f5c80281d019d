//! A router from its nodes.
//!
//! ```text
//!  ports ─► ethernet_input ─┬► ip4_input ─► ip4_lookup ─┬───────────────────► ip4_rewrite ─┐
//!                           │                           └► ip4_multipath ────► ip4_rewrite ├► output ─► ports
//!                           ├► ip6_input ─► … the same … ───────────────────► ip6_rewrite ─┤
//!  kernel ─► kernel_input ──┼──────────────────────────────────────────────────────────────┤
//!  workers ─► worker_input ─┼──────────────────────────────────────────────────────────────┘
//!                           └► punt ─► kernel            any node ─► drop
//!
//!  ports of bridges: ethernet_input ─► bridge_input ─► bridge_learn ─► bridge_forward ─┬► output
//!                          bridge_copies ◄─ ring ◄─ bridge_flood ◄───────────────────┤
//!                          (routed side) bridge_local ─► ip4_input …  ◄────────────────┘
//!                          output ─► ring ─► bridge_send ─► output | bridge_flood
//! ```

use std::sync::Arc;

use graph::Builder;
use graph::ring::{frames, spsc};
use tables::Forwarding;
use tables::macs::Learn;
use wire::flow::Hasher;

use crate::class::Rates;
use crate::counters::{DomainCounters, IfaceCounters};
use crate::family::{Family, V4, V6};
use crate::l2::{
    bridge_copies, bridge_flood, bridge_forward, bridge_input, bridge_learn, bridge_local,
    bridge_send,
};
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
    pub from_workers: Vec<worker_input::Incoming>,
    /// What it bridges.
    pub bridging: Bridging,
}

/// What one worker's bridges are made of.
pub struct Bridging {
    /// How many there are; their routed sides are ports behind the others.
    pub bridges: u16,
    /// All workers, which share the rates of flooding.
    pub workers: u32,
    /// This worker's counters per forwarding domain.
    pub domains: Arc<DomainCounters>,
    /// To the bridge thread: which stations were seen.
    pub learn: spsc::Producer<Learn>,
}

impl Bridging {
    /// No bridge.
    pub fn none() -> Bridging {
        let (learn, _) = spsc::ring(1);
        Bridging { bridges: 0, workers: 1, domains: DomainCounters::new(), learn }
    }
}

/// Connects the nodes; other nodes can be added before it is built.
pub fn router(parts: Parts) -> Builder {
    let (to_bridge, from_output) = spsc::ring(FLOODED);
    let all_ports = parts.ports + parts.bridging.bridges;
    let builder = Builder::new("ethernet_input")
        .node(ethernet_input::EthernetInput::new(parts.forwarding.clone(), parts.counters.clone()))
        .node(ip4_input::Ip4Input);
    let builder = family::<V4>(builder, &parts).node(ip6_input::Ip6Input);
    let builder = family::<V6>(builder, &parts);
    let Parts { forwarding, counters, bridging, .. } = parts;
    let tables = (&forwarding, &counters);
    bridges(builder, tables, bridging, (all_ports, from_output))
        .node(kernel_input::KernelInput::new(parts.from_kernel, forwarding, counters))
        .node(worker_input::WorkerInput::new(parts.from_workers))
        .node(output::Output::new(all_ports, parts.remotes, (parts.ports, to_bridge)))
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

/// The nodes of bridges.
fn bridges(
    builder: Builder,
    (forwarding, counters): (&Arc<Forwarding>, &Arc<IfaceCounters>),
    bridging: Bridging,
    (ports, from_output): (u16, spsc::Consumer<bridge_copies::Flooded>),
) -> Builder {
    let (tables, domains) = (|| forwarding.clone(), || bridging.domains.clone());
    let (copies, from_flood) = spsc::ring(FLOODED);
    let shares = (ports, bridging.workers);
    builder
        .node(bridge_input::BridgeInput::new(tables(), domains()))
        .node(bridge_learn::BridgeLearn::new(tables(), domains(), bridging.learn))
        .node(bridge_forward::BridgeForward::new(tables()))
        .node(bridge_local::BridgeLocal::new(tables(), counters.clone()))
        .node(bridge_send::BridgeSend::new(tables(), from_output))
        .node(bridge_flood::BridgeFlood::new(tables(), domains(), copies, shares))
        .node(bridge_copies::BridgeCopies::new(tables(), from_flood))
}

/// Packets of a worker's rings to itself; more copies than that a poll does not send.
const FLOODED: usize = 4096;
