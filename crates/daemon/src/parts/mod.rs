//! The parts of every running instance, whatever applications run in it, in the order in which they start.

pub mod apart;
pub mod below;
pub mod control;
pub mod dealing;
pub mod devices;
pub mod entries;
pub mod kernel_side;
pub mod links;
pub mod macvlans;
pub mod neighbours;
pub mod offline;
pub mod peers;
pub mod plan;
pub mod secret;
pub mod shields;
pub mod show;
pub mod starving;
pub mod state;
pub mod vrfs;
pub mod watch;
pub mod workers;
pub mod written;
