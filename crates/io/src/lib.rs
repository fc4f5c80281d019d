//! Packets and where they come from: the descriptor ([`Packet`]), bursts
//! ([`Burst`]), buffer pools ([`Pool`]), and ports ([`Port`], [`Device`]).

mod burst;
mod hint;
pub mod mem;
mod owner;
mod packet;
mod pool;
mod port;
mod tally;

pub use burst::{BURST, Burst, VECTOR};
pub use hint::prefetch;
pub use packet::{Head, Owned, Packet, World};
pub use pool::{Pages, Pool, PoolConfig};
pub use port::{Counters, Device, Error, Link, Port};
