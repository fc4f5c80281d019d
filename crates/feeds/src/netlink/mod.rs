//! The kernel's links, addresses, neighbours, next-hop objects and routes, by
//! netlink (RFC 3549, `rtnetlink(7)`).
//!
//! ```text
//!   kernel ──multicast──► socket ──► bytes ──► message ──► decode ──► Event ──► tables
//!          ◄──dumps────── socket        (mirror: listings, overruns, silent deletions)
//! ```

pub mod decode;
mod keep;
mod mirror;
mod socket;

pub use keep::Keeper;
pub use mirror::{Counters, Mirror};
pub use socket::Socket;

/// The number by which the kernel knows whose a route, rule or address is: Rutter's.
pub const OUR_PROTOCOL: u8 = 198;

/// The number of the routes by which routing daemons see protections. Not [`OUR_PROTOCOL`]: for
/// FRR that is its own (`RTPROT_SRTE`), whose routes it neither shows nor redistributes.
pub const SHIELD_PROTOCOL: u8 = 199;

/// Metric of the blackhole routes by which routing daemons see protections; below theirs, so
/// that they win. No static route has it.
pub const SHIELD_METRIC: u32 = 8;
