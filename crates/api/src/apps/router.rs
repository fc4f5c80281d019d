//! Routes, neighbours and forwarding tables.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

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
