//! Tables: what the nodes read ([`forwarding`]) and what the control thread
//! keeps to write it ([`control`]). Knows no packet, and no netlink: a feed reports
//! it [`event`]s.
//!
//! Inside, a module imports only modules of the lines below its own:
//!
//! ```text
//!   show
//!   shield
//!   follow intake publish
//!   control
//!   guards table
//!   front grantors
//!   routes
//!   targets
//!   listing
//!   fib gateways
//!   build pool switch
//!   forwarding oracle
//!   builtin links protections
//!   hops
//!   adjacency bridge error event limits peers
//!   iface macs nests net pace recent slab
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
mod front;
mod gateways;
mod grantors;
mod guards;
pub mod hops;
pub mod iface;
mod intake;
pub mod limits;
mod links;
mod listing;
pub mod macs;
#[cfg(test)]
mod model;
mod nests;
pub mod net;
pub mod oracle;
mod pace;
pub mod peers;
mod pool;
pub mod protections;
mod publish;
pub mod recent;
mod routes;
#[cfg(test)]
mod scenarios;
pub mod shield;
pub mod show;
mod slab;
pub mod switch;
mod table;
mod targets;
#[cfg(test)]
mod testing;

pub use adjacency::{Adjacency, AdjacencyId, Cell, Out};
pub use control::{Control, FibConfig, VrfConfig};
pub use error::{Error, Unfit};
pub use event::{Event, LinkId};
pub use forwarding::{Forwarding, FrontView, Vrf};
pub use grantors::{Named, Unresolved};
pub use hops::{HopTable, Kind, Step};
pub use iface::{Demux, Denied, Iface, IfaceId, Ifaces, Outer, Own, PortId, Side, Tags, VrfId};
pub use limits::{Capacity, Limits, Refused};
pub use net::{Family, Net};
pub use peers::Peers;
pub use protections::{Action, Grantor, Protection, Protections, SetId};
pub use recent::Recent;
pub use shield::{Changed, LOCAL, Protect};
