//! Network layer: header checks, lookup, choice among several paths.

pub mod ip4_input;
pub mod ip4_link_local;
pub mod ip6_input;
pub mod ip_front;
pub mod ip_lookup;
pub mod ip_multipath;
pub mod ip_sides;
pub mod ip_source;
pub(crate) mod step;
