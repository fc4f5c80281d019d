//! Packets and where they come from: the descriptor ([`Packet`]), bursts
//! ([`Burst`]), buffer pools, and ports ([`Port`], [`Device`]).

mod burst;
mod packet;
mod port;

pub use burst::{BURST, Burst, VECTOR};
pub use packet::{Head, Owned, Packet, World};
pub use port::{Counters, Device, Error, Link, Port};
