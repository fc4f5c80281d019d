//! The last changes before a packet leaves.

pub mod ip4_rewrite;
pub mod ip6_rewrite;
pub(crate) mod link;
