//! The router: forwarding, updates, scaling, memory.

mod bed;
mod frames;

pub(super) mod forward;
