//! The nodes by which packets leave the graph, and by which packets from other workers enter it.

pub mod detour;
pub mod drop;
pub mod kernel_input;
pub(crate) mod leave;
pub mod output;
pub mod punt;
mod refine;
pub mod refusals;
pub mod worker_input;

pub use refine::TCP as SESSION_PORTS;
