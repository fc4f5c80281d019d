//! The router's parts at run time, in the order in which they come up.

pub mod answer;
pub mod bridges;
pub mod control;
pub mod devices;
pub mod entries;
pub mod feed;
pub mod kernel_side;
pub mod macs;
pub mod monitor;
pub mod offline;
pub mod plan;
pub mod show;
pub mod watch;
pub mod workers;
