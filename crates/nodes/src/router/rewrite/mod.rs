//! The last changes before a packet leaves.

pub mod ip_rewrite;
