//! The solicitor: requests wait for the channel to the Grantors, the most patient first.
//!
//! A worker has a [`Queue`] and is a [`Member`] of the one [`Channel`]. Requests that are
//! beyond the queue's room are dropped, the least patient first; the others leave when
//! the channel has room for them, and are encapsulated then.
//!
//! Inside, a module imports only modules of the lines below its own:
//!
//! ```text
//!   channel
//!   bucket queue
//!          chains
//! ```

mod bucket;
mod chains;
mod channel;
mod queue;
#[cfg(all(test, not(loom)))]
mod tests;

pub use bucket::Bucket;
pub use chains::LEVELS;
pub use channel::{BURST, Channel, Member, OVERHEAD, Poll};
pub use queue::{CAPACITY, Dropped, Queue};

/// Bytes a second of the channel: so many millionths of a bandwidth in bits a second,
/// rounded down.
pub fn channel_bytes(bits_per_s: u64, millionths: u32) -> u64 {
    let bytes = u128::from(bits_per_s) * u128::from(millionths) / (8 * 1_000_000);
    bytes.try_into().unwrap_or(u64::MAX)
}

/// The channel's share of the bandwidth, in millionths, unless configured otherwise: 5 %.
pub const SHARE: u32 = 50_000;
