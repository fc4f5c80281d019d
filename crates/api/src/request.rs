//! What a client asks for.

use serde::{Deserialize, Serialize};

use crate::apps::{router, switch};
use crate::flat::flat;
use crate::{Filter, apps};

/// One request.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", remote = "Self")]
pub enum Request {
    /// State and counters.
    Show {
        /// Of what.
        what: What,
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
    /// To the router.
    #[serde(skip)]
    Router(router::Request),
    /// To the switch.
    #[serde(skip)]
    Switch(switch::Request),
    /// To another application.
    App(apps::Request),
    /// The configuration that runs, as TOML.
    Config,
    /// Drain and end.
    Stop {
        /// Delete the taps in the kernel too.
        remove: bool,
    },
}

/// What can be shown. (A later application's is a request of its own.)
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", remote = "Self")]
pub enum What {
    /// Devices, their links and their own counters.
    Ports,
    /// Layer-3 interfaces and their counters.
    Interfaces,
    /// Nodes, edges and the packets on them.
    Graph {
        /// Draw edges that no packet took, too.
        all: bool,
    },
    /// Cycles, vector sizes, busy share.
    Runtime,
    /// Packets dropped, by reason.
    Drops,
    /// What is used of every limit, and what was refused.
    Capacity,
    /// The daemon, its machine, the kernel settings it changed.
    System,
    /// What is not as it should be where the daemon is.
    Doctor,
    /// What the router knows.
    #[serde(skip)]
    Router(router::What),
    /// What the switch knows.
    #[serde(skip)]
    Switch(switch::What),
}

flat!(Request: Router(router::Request), Switch(switch::Request));
flat!(What: Router(router::What), Switch(switch::What));
