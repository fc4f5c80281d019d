//! What a client asks for.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

pub use crate::apps::router::{Route, RouteKind, Via};
pub use crate::apps::switch::WhichMacs;
use crate::{Family, Filter, apps};

/// One request.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// State and counters.
    Show {
        /// Of what.
        what: What,
    },
    /// A static route into the kernel's table (protocol 198), or straight into
    /// the data plane where Rutter runs without a kernel.
    RouteAdd(Route),
    /// Takes a static route out.
    RouteDel {
        /// `10.0.0.0/8`.
        prefix: String,
        /// Which routing tables.
        vrf: String,
        /// Which of several routes to the same prefix.
        metric: Option<u32>,
    },
    /// A permanent neighbour.
    NeighbourAdd {
        /// On which interface.
        interface: String,
        /// Its address.
        address: IpAddr,
        /// Its hardware address, `02:00:00:00:00:01`.
        mac: String,
    },
    /// Takes a neighbour out.
    NeighbourDel {
        /// On which interface.
        interface: String,
        /// Its address.
        address: IpAddr,
    },
    /// A station of a bridge that does not age.
    MacAdd {
        /// Its address, `02:00:00:00:00:01`.
        mac: String,
        /// The port where it is, one of a bridge's.
        port: String,
        /// Its VLAN; 0 where the bridge does not look at tags.
        vlan: u16,
    },
    /// Takes a station out, static or learnt.
    MacDel {
        /// Its address.
        mac: String,
        /// In which bridge; may be left out where there is one.
        bridge: Option<String>,
        /// Its VLAN; 0 where the bridge does not look at tags.
        vlan: u16,
    },
    /// Forgets learnt stations.
    MacFlush(WhichMacs),
    /// Rebuilds a forwarding table with another engine, beside the running one.
    FibEngine {
        /// Which routing tables.
        vrf: String,
        /// IPv4 or IPv6.
        family: Family,
        /// The engine's name.
        engine: String,
        /// Its options by name.
        options: Vec<(String, String)>,
    },
    /// The way of the next packets through the graph: a stream of
    /// [`crate::Reply::Trace`].
    Trace {
        /// How many packets.
        count: u32,
        /// Which ones; all where there is none.
        filter: Option<Filter>,
        /// How long to wait for them.
        timeout_ms: u64,
    },
    /// Packets as they come in and leave: a stream of [`crate::Reply::Packets`]
    /// until the client closes, or `count` is reached.
    Capture {
        /// Which ones; all where there is none.
        filter: Option<Filter>,
        /// Bytes of each packet.
        snap_length: u16,
        /// How many packets; without end where there is none.
        count: Option<u64>,
    },
    /// To one application.
    App(apps::Request),
    /// The configuration that runs, as TOML.
    Config,
    /// Drain and end.
    Stop {
        /// Delete the taps in the kernel too.
        remove: bool,
    },
}

/// What can be shown.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// Devices, their links and their own counters.
    Ports,
    /// Layer-3 interfaces and their counters.
    Interfaces,
    /// Routes of the data plane: a stream of parts.
    Routes {
        /// Which routing tables; all where there is none.
        vrf: Option<String>,
        /// IPv4 or IPv6; both where there is none.
        family: Option<Family>,
        /// Only this prefix and what lies inside it.
        inside: Option<String>,
        /// The one route that this address takes.
        to: Option<IpAddr>,
        /// At most so many.
        limit: Option<u64>,
    },
    /// Hosts on connected networks.
    Neighbours,
    /// Bridges, their VLANs and counters.
    Bridges,
    /// Stations of bridges.
    Macs {
        /// Which.
        which: WhichMacs,
        /// At most so many.
        limit: Option<u64>,
    },
    /// Nodes, edges and the packets on them.
    Graph {
        /// Draw edges that no packet took, too.
        all: bool,
    },
    /// Cycles, vector sizes, busy share.
    Runtime,
    /// Packets dropped, by reason.
    Drops,
    /// Forwarding tables: engine, size, memory.
    Fib,
    /// What is used of every limit, and what was refused.
    Capacity,
    /// The daemon, its machine, the kernel settings it changed.
    System,
}
