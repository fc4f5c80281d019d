//! From frames to packets of a protocol on an interface.

pub mod cut;
pub mod ethernet_input;
pub mod flow;
pub mod owner;
