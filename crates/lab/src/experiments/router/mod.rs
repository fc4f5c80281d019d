//! The router: forwarding, updates, convergence, scaling, memory.

mod bed;
mod control;
mod frames;
mod half;
mod source;
mod tables;
mod through;

pub(super) mod converge;
pub mod fixed;
pub(super) mod forward;
pub mod hugepages;
pub mod memory;
pub(super) mod scale;
pub(super) mod updates;

pub(super) use bed::{Shuttle, per_node};
pub(super) use frames::stamp;
pub(super) use scale::workers;
pub(super) use source::Source;
pub(super) use through::engines as through;
