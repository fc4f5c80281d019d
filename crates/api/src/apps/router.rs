//! Routes, neighbours and forwarding tables.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::Family;

/// What the router is to change.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
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
}

/// What of it can be shown.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
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
    /// Forwarding tables: engine, size, memory.
    Fib,
    /// What an address meets in the data plane, and in the store behind it.
    Lookup {
        /// Which routing tables.
        vrf: String,
        /// The address.
        address: IpAddr,
    },
}

/// What it shows.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// To [`What::Routes`]; several parts.
    Routes(Vec<shown::Route>),
    /// To [`What::Neighbours`]; several parts.
    Neighbours(Vec<shown::Neighbour>),
    /// To [`What::Fib`].
    Fib(Vec<shown::Fib>),
    /// To [`What::Lookup`].
    Lookup(Box<shown::Lookup>),
}

/// A static route.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Route {
    /// `10.0.0.0/8`.
    pub prefix: String,
    /// Which routing tables.
    pub vrf: String,
    /// What to do with packets.
    pub kind: RouteKind,
    /// Next hops of a unicast route.
    pub via: Vec<Via>,
    /// The kernel's priority: the lowest of equal prefixes wins.
    pub metric: Option<u32>,
}

/// What a route does.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RouteKind {
    /// Forward to its next hops.
    #[default]
    Unicast,
    /// Drop silently.
    Blackhole,
    /// Drop, and say that the destination is unreachable.
    Unreachable,
    /// Drop, and say that it is prohibited.
    Prohibit,
}

/// One next hop.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Via {
    /// The gateway; none for a network on the link.
    pub gateway: Option<IpAddr>,
    /// Leaving by this interface; the kernel finds it where there is none.
    pub interface: Option<String>,
    /// Share among the next hops, 1 to 256.
    pub weight: u16,
}

/// As they are shown.
pub mod shown {
    use std::net::IpAddr;

    use serde::{Deserialize, Serialize};

    use crate::Family;

    /// A route of the data plane.
    #[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
    #[allow(missing_docs)]
    pub struct Route {
        pub vrf: String,
        pub prefix: String,
        /// `unicast`, `blackhole`, `unreachable`, `prohibit`, or `kernel`: left to it.
        pub kind: String,
        /// What the kernel calls its origin: `bird`, `static`, `kernel`, `rutter` …
        pub protocol: String,
        pub metric: u32,
        /// Bytes of layer 3 that pass, where the route says that itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub mtu: Option<u16>,
        /// False: another route of the same prefix comes first.
        pub best: bool,
        pub via: Vec<NextHop>,
    }

    /// One next hop of a route.
    #[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
    #[allow(missing_docs)]
    pub struct NextHop {
        pub gateway: Option<IpAddr>,
        pub interface: String,
        pub weight: u16,
        /// What happens to packets now: `forward`, `no-neighbour`, `via-kernel` …
        pub state: String,
    }

    /// An address looked up in the engine that serves, and in the store behind it.
    #[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
    #[allow(missing_docs)]
    pub struct Lookup {
        pub vrf: String,
        pub address: IpAddr,
        pub engine: String,
        /// What the engine answers the nodes.
        pub served: Answer,
        /// The longest prefix in the store, and its hop.
        pub stored: Option<Stored>,
        /// Both say the same.
        pub same: bool,
        /// Why they may differ for now.
        pub why: Option<String>,
        /// The route that counts.
        pub route: Option<Route>,
    }

    /// A hop and what it means.
    #[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
    #[allow(missing_docs)]
    pub struct Answer {
        /// 0: there is none.
        pub hop: u32,
        /// What happens to packets: `forward`, `unreachable`, `not-ready` …
        pub action: String,
        /// By which ways they leave.
        pub ways: Vec<Way>,
    }

    /// A way out.
    #[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
    #[allow(missing_docs)]
    pub struct Way {
        pub interface: String,
        /// Of the station it goes to.
        pub mac: String,
    }

    /// A prefix in the store.
    #[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
    #[allow(missing_docs)]
    pub struct Stored {
        pub prefix: String,
        #[serde(flatten)]
        pub answer: Answer,
    }

    /// A host on a connected network.
    #[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
    #[allow(missing_docs)]
    pub struct Neighbour {
        pub interface: String,
        pub address: IpAddr,
        pub mac: Option<String>,
        /// The kernel's word: `reachable`, `stale`, `permanent` …
        pub state: String,
    }

    /// A forwarding table.
    #[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
    #[allow(missing_docs)]
    pub struct Fib {
        pub vrf: String,
        pub family: Family,
        pub engine: String,
        /// Routes, as the routing daemon sees them.
        pub routes: u64,
        /// Prefixes in the engine, resolved hosts included.
        pub prefixes: u64,
        /// Bytes that a lookup can read, free arena included.
        pub table_bytes: u64,
        /// Bytes of the store of routes that the engine is built from.
        pub rib_bytes: u64,
        /// Bytes of the engine's writer.
        pub writer_bytes: u64,
        /// Changes carried out.
        pub updates: u64,
        /// Times that it was built anew.
        pub rebuilds: u64,
        /// Changes refused at a limit.
        pub refused: u64,
        /// True while the table is behind the routes: it is being built.
        pub behind: bool,
        /// The engine's own figures.
        pub counters: Vec<(String, u64)>,
    }
}
