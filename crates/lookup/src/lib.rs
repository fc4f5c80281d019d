//! The lookup library: longest-prefix match ([`lpm`]), exact match ([`exact`]),
//! filters ([`filter`]), the publication of tables to threads that never wait
//! ([`sync`]), searches that take turns while memory is read ([`interleave`]), and
//! reproducible random numbers ([`rng`]).
//!
//! Addresses are numbers in host byte order: IPv4 is [`u32`], IPv6 is [`u128`]
//! (see [`Addr`]). A table maps an address to a [`Hop`].
//!
//! Inside, a module imports only modules of the lines below its own:
//!
//! ```text
//!   exact
//!   lpm
//!   rib
//!   filter interleave prefix rng
//!   addr hash hint hop pages sync
//! ```

mod addr;
pub mod exact;
pub mod filter;
pub mod hash;
#[cfg(test)]
mod heap;
pub mod hint;
mod hop;
pub mod interleave;
pub mod lpm;
pub mod pages;
mod prefix;
pub mod rib;
pub mod rng;
pub mod sync;

pub use addr::Addr;
pub use hop::Hop;
pub use prefix::{BadPrefix, Prefix};
pub use rib::Rib;
