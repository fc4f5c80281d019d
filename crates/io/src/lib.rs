//! Packets and where they come from: the descriptor ([`Packet`]), bursts
//! ([`Burst`]), buffer pools ([`Pool`]), and ports ([`Port`], [`Device`]).
//!
//! Inside, a module imports only modules of the lines below its own:
//!
//! ```text
//!   open
//!   af_packet mem pcap tap
//!   netdev tally
//!   port
//!   burst pool
//!   packet
//!   error hint ioctl owner
//! ```

mod af_packet;
mod burst;
mod error;
mod hint;
mod ioctl;
pub mod mem;
mod netdev;
mod open;
mod owner;
mod packet;
pub mod pcap;
mod pool;
mod port;
mod tally;
pub mod tap;

pub use af_packet::{AfPacket, packet_sockets};
pub use burst::{BURST, Burst, Frames, L2_ROOM, VECTOR};
pub use error::Error;
pub use netdev::Interfaces;
pub use open::{is_own, open, open_with};
pub use packet::{BEFORE, Layout, Owned, Packet, World};
pub use pool::{Pages, Pool, PoolConfig};
pub use port::{Allocator, ByPair, Counters, Device, Link, Port, Spread};
