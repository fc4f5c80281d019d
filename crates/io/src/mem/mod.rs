//! Ports in memory: for tests ([`connect`]), and for measuring ([`Ring`]).

mod peer;

pub use peer::{Mem, Peer, connect};
