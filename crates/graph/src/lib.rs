//! The packet graph: vectors of packets, nodes that work on them, the scheduler,
//! workers, counters, traces. It knows no protocol.
//!
//! ```text
//!            ┌─────────────────────── one worker, one thread, one graph ──────────────────────┐
//!  Port ─►   │ receive ─► Vector ─► Node ─► Node ─► … ─► sink (output, punt, drop)            │ ─► Port
//!            └────▲────────────────────────────────────────────────────────────────────────────┘
//!      commands, │ counters: Stats; between polls the worker quiesces
//! ```
//!
//! Inside, a module imports only modules of the lines below its own:
//!
//! ```text
//!   worker
//!   builder jobs
//!   testing graph
//!   needs node
//!   context packets
//!   draw spread watch
//!   stats
//!   card nap ring wheel
//!   bell clock inset kept lanes sync tick vector
//!   slots
//!   poison
//! ```

mod bell;
mod builder;
mod card;
pub mod clock;
mod context;
mod draw;
#[allow(clippy::module_inception)]
mod graph;
mod inset;
mod jobs;
mod kept;
mod lanes;
mod nap;
mod needs;
mod node;
mod packets;
#[cfg(debug_assertions)]
mod poison;
pub mod ring;
mod slots;
pub mod spread;
mod stats;
mod sync;
pub mod testing;
mod tick;
mod vector;
mod watch;
pub mod wheel;
mod worker;

pub use bell::Bell;
pub use builder::{Builder, Error};
pub use card::{Card, Label, NoDrop, NoEdge};
pub use context::Ports;
pub use graph::{Graph, NodeError};
pub use jobs::{Job, Progress};
pub use kept::{Kept, Unsent};
pub use lanes::{Bits, Lane, LaneCard, Lanes, Several};
pub use node::{Node, View};
pub use packets::{Declares, Packets};
pub use slots::Column;
pub use stats::{
    Account, Balance, Counter, DropCount, EdgeCount, NodeCount, Receive, Snapshot, Stats,
};
pub use tick::Due;
pub use vector::{BEFORE, L2_ROOM, Vector};
pub use watch::{Capture, Filter, NO_IFACE, Point, Step, Trace};
pub use worker::{Answers, Idle, Status, Work, Worker, WorkerConfig, WorkerError};

/// Where lanes are kept: memory of a vector, by its width.
pub mod slot {
    pub use crate::slots::{A16, A32, A64, A128, B16, B32, C32, Hops, Ifaces, Keys, Slot};
}

#[cfg(test)]
mod tests;
