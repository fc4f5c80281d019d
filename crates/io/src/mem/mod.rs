//! Ports in memory: for tests ([`connect`]), and for measuring ([`Ring`]).

mod peer;
mod ring;

pub use peer::{Mem, Peer, connect};
pub use ring::{Ring, RingDevice, Stamp};
