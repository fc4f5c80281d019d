//! Ports in memory: for tests ([`connect`], [`sink`]), and for measuring ([`Ring`]).

mod peer;
mod ring;

pub use peer::{Mem, Peer, connect, sink};
pub use ring::{Ring, RingDevice, Stamp};
