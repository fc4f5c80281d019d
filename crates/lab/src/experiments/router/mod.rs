//! The router: forwarding, updates, convergence, scaling, memory.

experiments! {
    mod forward: Forward,
    mod hugepages: Hugepages,
    mod updates: Updates,
    mod converge: Converge,
    mod scale: Scale,
    mod memory: Memory,
    mod ports: Ports,
    mod failover: Failover,
}

mod bed;
mod control;
mod frames;
mod half;
mod source;
mod tables;
mod through;

pub(super) use bed::{Bed, Faults, Shuttle, per_node};
pub(super) use frames::{Frames, ROUTER, stamp};
pub use hugepages::serve as serve_hugepages;
pub use memory::serve as serve_memory;
pub(super) use scale::workers;
pub(super) use source::Source;
pub(super) use tables::Tables;
pub(super) use through::engines as through;
