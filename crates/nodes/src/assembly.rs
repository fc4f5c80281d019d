//! One worker's graph, put together by the applications.
//!
//! ```text
//!  ports ─► ethernet_input ─► … applications … ─┬► output ─► ports     any node ─► drop
//!  kernel ─► kernel_input ──────────────────────┤
//!  workers ─► worker_input ─────────────────────┤      inner port: output ─► ring ─► its node
//!                                               └► punt ─► kernel
//! ```
//!
//! What every application needs is here and in [`parse`](crate::parse) and
//! [`out`](crate::out): the first node, and the ways out and in. An application has a
//! function `add`: it adds nodes, connects edges, comes before others' nodes
//! ([`Assembly::inset`]), and brings ports that are no devices ([`Assembly::inner`]).

use std::ops::Range;
use std::sync::Arc;

use graph::ring::{frames, spsc};
use graph::{Builder, Card, Node};
use lookup::sync::Guard;
use tables::{Forwarding, IfaceId};
use wire::flow::Hasher;
use wire::ggu::Decision;

use crate::class::Rates;
use crate::counters::IfaceCounters;
use crate::out::detour::Detour;
use crate::out::output::Inner;
use crate::out::refusals::Refusals;
use crate::out::{drop, kernel_input, output, punt, worker_input};
use crate::parse::cut::Uncut;
use crate::parse::ethernet_input;
use crate::parse::owner::Owners;

/// What all nodes of one worker share, and its ways out and in.
pub struct Common {
    /// The tables.
    pub forwarding: Arc<Forwarding>,
    /// This worker's counters per interface.
    pub counters: Arc<IfaceCounters>,
    /// The key of flow hashes: the same for all workers, another for each router.
    pub hasher: Hasher,
    /// The rates at which this worker may punt.
    pub rates: Rates,
    /// To the kernel thread.
    pub to_kernel: frames::Producer,
    /// From the kernel thread.
    pub from_kernel: frames::Consumer,
    /// Number of devices, this worker's and others'.
    pub ports: u16,
    /// To the workers that have the other ports.
    pub remotes: Vec<output::Remote>,
    /// From those workers.
    pub from_workers: Vec<worker_input::Incoming>,
}

impl Common {
    /// The state of a single worker: counters of its own, the default rates, no other workers.
    pub fn alone(
        forwarding: Arc<Forwarding>,
        (to_kernel, from_kernel): (frames::Producer, frames::Consumer),
        ports: u16,
    ) -> Common {
        Common {
            forwarding,
            counters: IfaceCounters::new(),
            hasher: Hasher::new(1),
            rates: Rates::default(),
            to_kernel,
            from_kernel,
            ports,
            remotes: Vec::new(),
            from_workers: Vec::new(),
        }
    }
}

/// Receives decisions that are made in the same graph, without a message.
pub trait Hearing: Send {
    /// Hears a decision about a packet that came in by `iface`.
    fn hear(&mut self, guard: Guard<'_>, iface: IfaceId, now: u64, decision: &Decision);
}

/// A graph under construction.
pub struct Assembly {
    /// The state that its nodes share.
    pub common: Common,
    /// Which worker has a pair; `None` where one may meet several ([`Assembly::owned`]).
    pub owners: Option<Arc<Owners>>,
    /// Nodes, by name, that a shield's router leads packets to whose frames were longer than
    /// they are; nobody's, unless an application has said so.
    pub longer: Vec<&'static str>,
    /// Those nodes cut off what follows packets in their frames.
    pub uncut: Uncut,
    /// The refusals of ports: for nodes that can hold packets back.
    pub refusals: Arc<Refusals>,
    /// Who hears decisions that are made in this graph; nobody, unless an application has
    /// said so.
    pub hearing: Option<Box<dyn Hearing>>,
    builder: Builder,
    inner: Vec<Inner>,
}

impl Assembly {
    /// With the first node alone.
    pub fn new(common: Common) -> Assembly {
        let (forwarding, counters) = (common.forwarding.clone(), common.counters.clone());
        let first = ethernet_input::EthernetInput::new(forwarding, counters);
        let builder = Builder::new(FIRST).node(first);
        let refusals = Arc::new(Refusals::new(common.ports));
        let (longer, uncut) = (Vec::new(), Uncut::default());
        let (owners, hearing, inner) = (None, None, Vec::new());
        Assembly { common, owners, longer, uncut, refusals, hearing, builder, inner }
    }

    /// Declares the owner of each pair that comes in by ports that deal by pair.
    #[must_use]
    pub fn owned(mut self, owners: Option<Arc<Owners>>) -> Assembly {
        self.owners = owners;
        self
    }

    /// Adds a node: [`Builder::node`].
    #[must_use]
    pub fn node(mut self, node: impl Node + 'static) -> Assembly {
        self.builder = self.builder.node(node);
        self
    }

    /// Leads an edge to another node than that of its name: [`Builder::connect`].
    #[must_use]
    pub fn connect(mut self, node: &'static str, edge: &'static str, to: &'static str) -> Assembly {
        self.builder = self.builder.connect(node, edge, to);
        self
    }

    /// Adds a node that comes before another while it is switched on: [`Builder::inset`].
    #[must_use]
    pub fn inset(
        mut self,
        before: &'static str,
        node: impl Node + 'static,
        but: &'static [&'static str],
    ) -> Assembly {
        self.builder = self.builder.inset(before, node, but);
        self
    }

    /// Adds a source that is not asked until it is woken: [`Builder::dormant`].
    #[must_use]
    pub fn dormant(mut self, node: impl Node + 'static) -> Assembly {
        self.builder = self.builder.dormant(node);
        self
    }

    /// Adds ports that are not devices: packets that leave by one go into `ring`.
    #[must_use]
    pub fn inner(mut self, ports: Range<u16>, ring: spsc::Producer<Detour>) -> Assembly {
        self.inner.push(Inner { ports, ring });
        self
    }

    /// Adds the ways out and in.
    pub fn finish(self) -> Builder {
        let Common { forwarding, counters, .. } = self.common;
        let (ring, rates, ports) = (self.common.to_kernel, self.common.rates, self.common.ports);
        let punt = punt::Punt::new(forwarding.clone(), ring, &rates, ports);
        self.builder
            .node(kernel_input::KernelInput::new(self.common.from_kernel, forwarding, counters))
            .node(worker_input::WorkerInput::new(self.common.from_workers))
            .node(output::Output::new(ports, self.common.remotes, self.inner, self.refusals))
            .node(punt)
            .node(drop::Drop)
    }
}

/// The nodes that belong to no application.
pub const NODES: &[Card] = &[
    Card::of::<ethernet_input::EthernetInput>(),
    Card::of::<output::Output>(),
    Card::of::<punt::Punt>(),
    Card::of::<kernel_input::KernelInput>(),
    Card::of::<worker_input::WorkerInput>(),
    Card::of::<drop::Drop>(),
];

/// The node that packets from ports enter; to come before it is to be first.
pub const FIRST: &str = "ethernet_input";
/// The node that every packet passes that leaves by a port.
pub const LAST: &str = "output";

/// Packets of a worker's rings to itself; more copies than that a poll does not send.
pub const DETOURS: usize = 4096;
