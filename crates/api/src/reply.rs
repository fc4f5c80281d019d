//! What the daemon answers.

use serde::{Deserialize, Serialize};

use crate::apps::{self, router, switch};
use crate::flat::flat;

/// One frame from the daemon.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// A part of the answer.
    Part(Reply),
    /// The answer is complete.
    Done,
    /// The request failed; what came before is not complete.
    Error(Failure),
}

/// Why a request failed.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, thiserror::Error)]
#[error("{text}")]
pub struct Failure {
    /// For programs.
    pub kind: ErrorKind,
    /// For people.
    pub text: String,
}

/// Classes of failure.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The request is not understood or contradicts itself.
    Invalid,
    /// What it names does not exist.
    NotFound,
    /// A limit or the system refuses it.
    Refused,
    /// Too many clients or streams.
    Busy,
    /// The daemon is at fault.
    Internal,
}

/// One part of an answer.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", remote = "Self")]
pub enum Reply {
    /// To [`crate::What::Ports`].
    Ports(Vec<Port>),
    /// To [`crate::What::Interfaces`]; several parts.
    Interfaces(Vec<Interface>),
    /// To [`crate::What::Graph`].
    Graph {
        /// Every node, in the graph's order.
        nodes: Vec<Node>,
        /// The same drawn as a tree, for people.
        drawing: String,
    },
    /// To [`crate::What::Runtime`].
    Runtime(Runtime),
    /// To [`crate::What::Drops`].
    Drops(Vec<Drop>),
    /// To [`crate::What::Capacity`].
    Capacity(Vec<Capacity>),
    /// To [`crate::What::System`].
    System(Box<System>),
    /// To [`crate::What::Doctor`].
    Doctor(Vec<Finding>),
    /// One traced packet.
    Trace(Trace),
    /// Captured packets, and how many were lost because the client was slow.
    Packets {
        /// In the order of their time.
        packets: Vec<Captured>,
        /// Since the capture began.
        lost: u64,
    },
    /// From the router.
    #[serde(skip)]
    Router(router::Reply),
    /// From the switch.
    #[serde(skip)]
    Switch(switch::Reply),
    /// To [`crate::Request::App`].
    App(apps::Reply),
    /// To [`crate::Request::Config`].
    Config(String),
    /// A request that changes something was carried out; warnings, if any.
    Changed {
        /// For people.
        warnings: Vec<String>,
    },
}

flat!(Reply: Router(router::Reply), Switch(switch::Reply));

/// A device.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Port {
    pub name: String,
    /// As in the configuration.
    pub device: String,
    pub mac: String,
    /// The kernel's network interface below it.
    pub netdev: Option<String>,
    pub link: bool,
    /// Why it takes and sends nothing while its link is up: a loop behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out: Option<String>,
    /// 0 where unknown.
    pub speed_mbps: u32,
    pub mtu: u16,
    pub queues: u16,
    /// Workers that poll it.
    pub workers: Vec<u16>,
    pub rx_packets: u64,
    pub rx_bytes: u64,
    /// Lost for lack of receive descriptors.
    pub rx_missed: u64,
    /// Damaged, or longer than a buffer.
    pub rx_errors: u64,
    /// Lost for lack of buffers.
    pub rx_no_buffer: u64,
    pub tx_packets: u64,
    pub tx_bytes: u64,
    pub tx_errors: u64,
}

/// A layer-3 interface: a port or one of its VLANs.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Interface {
    pub name: String,
    pub port: String,
    /// VLAN tags, outermost first: ``, `100`, `7.8`, `7.8 (0x8100)` where the outer one is no
    /// service tag.
    pub tags: String,
    pub mac: String,
    pub mtu: u16,
    pub vrf: String,
    pub up: bool,
    pub addresses: Vec<String>,
    pub rx_packets: u64,
    pub rx_bytes: u64,
    pub tx_packets: u64,
    pub tx_bytes: u64,
    /// Handed to the kernel.
    pub punted: u64,
    /// Sent by the kernel.
    pub from_kernel: u64,
}

/// A node of the graph, all workers together.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Node {
    pub name: String,
    /// One line.
    pub help: String,
    pub packets: u64,
    pub edges: Vec<Edge>,
}

/// An edge of the graph.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Edge {
    pub name: String,
    /// The node that it leads to.
    pub to: String,
    pub packets: u64,
}

/// What the workers do.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Runtime {
    /// Ticks of the time-stamp counter a second: the cycles below are these,
    /// not core cycles.
    pub tsc_hz: u64,
    /// One for each worker.
    pub workers: Vec<Worker>,
}

/// One worker since its start.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Worker {
    pub name: String,
    pub core: u16,
    /// False when it did not come by for 100 ms; of one that sleeps, for a second.
    pub alive: bool,
    pub polls: u64,
    pub packets: u64,
    /// TSC cycles spent on polls with packets.
    pub busy_cycles: u64,
    /// TSC cycles since the worker started.
    pub cycles: u64,
    /// How long it waited for its core, in seconds in which that was much.
    #[serde(default)]
    pub starved_ns: u64,
    /// Since the last of them.
    #[serde(default)]
    pub starved_s_ago: Option<u64>,
    pub nodes: Vec<NodeRuntime>,
}

/// One node on one worker.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct NodeRuntime {
    pub name: String,
    pub vectors: u64,
    pub packets: u64,
    /// TSC cycles.
    pub cycles: u64,
}

/// One thing that `rutter doctor` looks at.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Finding {
    pub what: String,
    /// `ok`, `better`, `missing` or `error`.
    pub level: String,
    pub found: String,
    /// What to do; empty where all is well.
    pub remedy: String,
}

/// Packets dropped for one reason, all workers together.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Drop {
    pub reason: String,
    pub packets: u64,
    /// What it means and what to do.
    pub help: String,
}

/// One limit.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Capacity {
    pub what: String,
    pub used: u64,
    /// `None`: as far as memory goes.
    pub limit: Option<u64>,
    pub refused: u64,
    /// The latest refusal: of what, and why.
    pub last: String,
    /// The configuration key that sets it, where one does.
    pub key: Option<String>,
}

/// The daemon and its machine.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct System {
    pub version: String,
    pub pid: u32,
    pub uptime_s: u64,
    pub config: String,
    pub socket: String,
    pub application: String,
    pub idle: String,
    pub workers: Vec<u16>,
    /// The DPDK release; `None` where it is not used.
    pub dpdk: Option<String>,
    /// Kernel settings that were changed, and are restored at the end.
    pub settings: Vec<Setting>,
    /// Feeds of routes.
    pub feeds: Vec<Feed>,
    /// Packets by the accounting law, all workers together.
    pub accounting: Accounting,
    /// What is not as it should be.
    pub warnings: Vec<String>,
}

/// A kernel setting that Rutter changed.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Setting {
    pub name: String,
    pub was: String,
    pub is: String,
}

/// Where routes come from.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Feed {
    pub name: String,
    /// `synchronising`, `in step`, `lost` …
    pub state: String,
    /// Counters by name: messages, overruns, resynchronisations, drift …
    pub counters: Vec<(String, u64)>,
}

/// Received + from kernel + from workers + copies = transmitted + punted + handed over + drops + held.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Accounting {
    pub received: u64,
    pub from_kernel: u64,
    pub from_workers: u64,
    pub copies: u64,
    pub transmitted: u64,
    pub punted: u64,
    pub handed_over: u64,
    pub dropped: u64,
    /// Kept by nodes, to be handed on later.
    #[serde(default)]
    pub held: u64,
}

impl Accounting {
    /// What came in and did not leave: packets in flight while workers run, 0
    /// after they stopped. Negative: something was counted twice.
    pub fn missing(&self) -> i64 {
        let came = self.received + self.from_kernel + self.from_workers + self.copies;
        let went = self.transmitted + self.punted + self.handed_over + self.dropped + self.held;
        came.wrapping_sub(went) as i64
    }
}

/// The way of one packet.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Trace {
    pub worker: u16,
    /// Where it came in.
    pub port: String,
    /// Its first bytes, as they were at the first node, in hexadecimal.
    pub bytes: String,
    pub length: u16,
    pub steps: Vec<Step>,
}

/// One node that a traced packet passed.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Step {
    pub node: String,
    /// The edge by which it left.
    pub edge: String,
    /// TSC cycles since the packet's first node.
    pub cycles: u64,
    /// What the node knew: destination, hop, interface …
    pub detail: String,
}

/// One captured packet.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Captured {
    /// Nanoseconds since 1970.
    pub time_ns: u64,
    pub port: String,
    /// True when it left, false when it came in.
    pub out: bool,
    /// Bytes on the wire.
    pub length: u16,
    /// Its first bytes, in hexadecimal.
    pub bytes: String,
    /// Where it was seen, where that is not a port: dropped, punted.
    pub comment: String,
}
