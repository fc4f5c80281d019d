//! Tables: what the nodes read ([`forwarding`]) and what the control thread
//! keeps to write it. Knows no packet.
#![forbid(unsafe_code)]

pub mod adjacency;
pub mod forwarding;
pub mod hops;
pub mod iface;

pub use adjacency::{Adjacency, AdjacencyId};
pub use forwarding::{Forwarding, Vrf, VrfId};
pub use hops::{HopTable, Kind, Step};
pub use iface::{Demux, Iface, IfaceId, Ifaces, PortId, Tags};
