//! What the tables hold, for people: nothing here is on the path of a packet.

mod ask;
mod look;
mod shields;

use std::net::IpAddr;
use std::time::Duration;

use crate::event::{LinkId, NeighbourState, Source};
use crate::{Family, Iface, IfaceId, Kind, Net, VrfId};

pub use ask::{Answer, Lookup};
pub use shields::{GrantorInfo, ProtectionInfo};

/// Which routes are wanted.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct RouteFilter {
    /// Of this VRF only.
    pub vrf: Option<VrfId>,
    /// Of this family only.
    pub family: Option<Family>,
    /// This prefix and those inside it only.
    pub inside: Option<Net>,
    /// Also those that another route of the same prefix beats.
    pub all: bool,
}

/// Where the next part of a listing starts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RouteCursor {
    vrf: VrfId,
    net: Net,
}

/// A route.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RouteInfo {
    /// Whose.
    pub vrf: VrfId,
    /// What it covers.
    pub net: Net,
    /// What it does.
    pub kind: RouteKind,
    /// The kernel's number of who made it.
    pub protocol: u8,
    /// Which feed reported it.
    pub source: Source,
    /// The lowest of a prefix wins.
    pub metric: u32,
    /// The ways of a unicast route.
    pub paths: Vec<PathInfo>,
    /// The next-hop object that it names.
    pub object: Option<u32>,
    /// The one that counts.
    pub best: bool,
}

/// What a route does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RouteKind {
    /// Forward.
    Unicast,
    /// To this machine.
    Local,
    /// A broadcast or anycast address of this machine.
    Broadcast,
    /// Drop silently.
    Blackhole,
    /// Drop: unreachable.
    Unreachable,
    /// Drop: prohibited.
    Prohibit,
    /// As where there is no route.
    Throw,
    /// Left to the kernel.
    Kernel,
}

/// One way of a route.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PathInfo {
    /// By this link.
    pub link: LinkId,
    /// Its name.
    pub link_name: String,
    /// To this gateway.
    pub via: Option<IpAddr>,
    /// Its share.
    pub weight: u16,
    /// Bytes of layer 3 that the route lets pass; 0: as many as the link.
    pub mtu: u16,
    /// What happens to packets; `None` while the link is down.
    pub state: Option<Kind>,
}

/// A neighbour.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NeighbourInfo {
    /// Where.
    pub link: LinkId,
    /// The name of that.
    pub link_name: String,
    /// Its address.
    pub ip: IpAddr,
    /// Its hardware address.
    pub mac: Option<[u8; 6]>,
    /// The kernel's word.
    pub state: NeighbourState,
    /// A gateway of routes, rather than a host only.
    pub gateway: bool,
}

/// A gateway of routes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Gateway {
    /// Where.
    pub link: LinkId,
    /// Its address.
    pub ip: IpAddr,
    /// The kernel has an entry for it, resolved or asked for; not one that failed.
    pub known: bool,
}

/// An interface of Rutter's.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct IfaceInfo {
    /// Its number.
    pub id: IfaceId,
    /// As the data path sees it.
    pub iface: Iface,
    /// Its tap, while there is one.
    pub link: Option<LinkId>,
    /// The addresses of that, then those of the macvlans on it.
    pub addresses: Vec<(IpAddr, u8)>,
}

/// A VRF.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct VrfInfo {
    /// Its number.
    pub id: VrfId,
    /// Its name.
    pub name: String,
    /// The kernel's table.
    pub table: u32,
    /// Which feed its routes come by.
    pub source: Source,
}

/// A forwarding table.
#[derive(Clone, Debug, PartialEq)]
pub struct FibInfo {
    /// Whose.
    pub vrf: VrfId,
    /// Which.
    pub family: Family,
    /// The engine that serves.
    pub engine: &'static str,
    /// Routes, those that others beat counted too.
    pub routes: u64,
    /// Prefixes in the engine, hosts and built-in ones included.
    pub prefixes: u64,
    /// Bytes that a lookup can read, free arena included.
    pub table_bytes: u64,
    /// Bytes of the store that the engine is built from.
    pub rib_bytes: u64,
    /// Bytes of the engine's writer.
    pub writer_bytes: u64,
    /// Changes carried out.
    pub updates: u64,
    /// Times that it was built anew.
    pub rebuilds: u64,
    /// How long the last build took.
    pub build_time: Duration,
    /// True while the table is behind the routes.
    pub behind: bool,
    /// The engine that is being built beside.
    pub switching_to: Option<&'static str>,
    /// The engine asked for last, and what became of that.
    pub switched: Option<(String, Result<(), String>)>,
    /// Changes refused at a limit, the engine's or `max_routes`.
    pub refused: u64,
    /// The engine's own figures.
    pub counters: Vec<(&'static str, u64)>,
}
