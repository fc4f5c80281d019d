//! The router: forwarding, updates, convergence, scaling, memory.

mod bed;
mod frames;
mod source;
mod tables;

pub(super) mod converge;
pub mod fixed;
pub(super) mod forward;
pub(super) mod memory;
pub(super) mod scale;
pub(super) mod updates;
