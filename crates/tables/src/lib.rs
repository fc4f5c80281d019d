//! Tables: what the nodes read ([`forwarding`]) and what the control thread
//! keeps to write it ([`control`]). Knows no packet, and no netlink: a feed tells
//! it [`event`]s.
//!
//! Inside, a module imports only those of the lines below its own:
//!
//! ```text
//!   show
//!   follow intake
//!   control
//!   table
//!   routes
//!   targets
//!   listing
//!   fib gateways
//!   build pool switch
//!   builtin forwarding oracle
//!   hops links peers
//!   adjacency bridge error event limits
//!   iface macs net pace recent slab
//! ```
#![forbid(unsafe_code)]

pub mod adjacency;
pub mod bridge;
mod build;
mod builtin;
pub mod control;
pub mod error;
pub mod event;
mod fib;
mod follow;
pub mod forwarding;
mod gateways;
pub mod hops;
pub mod iface;
mod intake;
pub mod limits;
mod links;
mod listing;
pub mod macs;
#[cfg(test)]
mod model;
pub mod net;
pub mod oracle;
mod pace;
pub mod peers;
mod pool;
pub mod recent;
mod routes;
#[cfg(test)]
mod scenarios;
pub mod show;
mod slab;
pub mod switch;
mod table;
mod targets;
#[cfg(test)]
mod testing;

pub use adjacency::{Adjacency, AdjacencyId};
pub use control::{Control, FibConfig, VrfConfig};
pub use error::Error;
pub use event::{Event, LinkId};
pub use forwarding::{Forwarding, Vrf};
pub use hops::{HopTable, Kind, Step};
pub use iface::{Demux, Iface, IfaceId, Ifaces, Outer, PortId, Tags, VrfId};
pub use limits::{Capacity, Limits, Refused};
pub use net::{Family, Net};
pub use peers::Peers;
pub use recent::Recent;
