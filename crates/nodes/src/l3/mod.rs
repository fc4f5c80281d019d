//! Network layer: header checks, lookup, choice among several paths.

pub mod ip4_input;
pub mod ip4_lookup;
pub mod ip4_multipath;
pub mod ip6_input;
pub mod ip6_lookup;
pub mod ip6_multipath;
pub(crate) mod step;
