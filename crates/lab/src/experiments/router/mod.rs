//! The router: forwarding, updates, scaling, memory.

mod bed;
mod frames;
mod source;
mod tables;

pub(super) mod forward;
pub(super) mod updates;
