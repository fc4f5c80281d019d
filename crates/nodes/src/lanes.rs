//! The lanes that nodes share: facts about packets, and where they are kept.
//!
//! ```text
//!         ethernet_input │ ip_input │ ip_lookup │ ip_multipath │ ip_rewrite │ output, punt
//!  A32                   │   Dst4 ──┼► Adjacency or Group ─────┼►           │
//!  A128                  │   Dst6 ──┼►          │              │            │
//!  Hops                  │          │  Answer   │   Answer     │            │
//!  A16       PuntClass or ────────────────────────────────────── OutPort ───┼►
//!  Ifaces    Iface (came in by) ────────────────────────────────  (goes out by)
//! ```
//!
//! An application's own are in its folder ([`switch::lanes`](crate::switch::lanes)).

use lookup::Hop;
use tables::{AdjacencyId, IfaceId, PortId};

use crate::class::Class;

graph::lanes! {
    /// Interface that it came in by; after the rewrite, the one that it leaves by.
    pub Iface = "iface": Ifaces as IfaceId;
    /// Destination of an IPv4 packet, host byte order.
    pub Dst4 = "dst4": A32 as u32;
    /// Destination of an IPv6 packet, host byte order.
    pub Dst6 = "dst6": A128 as u128;
    /// The result of the lookup, or of the choice among several hops.
    pub Answer = "answer": Hops as Hop;
    /// The next hop to write for.
    pub Adjacency = "adjacency": A32 as AdjacencyId;
    /// The next hops to choose from.
    pub Group = "group": A32 as GroupId;
    /// The port to leave by.
    pub OutPort = "out_port": A16 as PortId;
    /// Why the kernel gets it.
    pub PuntClass = "punt_class": A16 as Class;
}

/// Several next hops, by index.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct GroupId(pub u32);

impl From<u32> for GroupId {
    #[inline(always)]
    fn from(bits: u32) -> GroupId {
        GroupId(bits)
    }
}

impl From<GroupId> for u32 {
    #[inline(always)]
    fn from(group: GroupId) -> u32 {
        group.0
    }
}
