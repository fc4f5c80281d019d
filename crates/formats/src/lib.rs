//! Table files: text, pyasn and MRT, each plain or compressed; and generated
//! tables that look like the Internet's (`internet:N`).
//!
//! ```text
//!   file ── stream ── plain bytes ──┬── text ──────────────┬── Table { v4, v6, hops, report }
//!           (gz, bz2, xz by magic)  └── mrt ── best path ──┤
//!   internet:N ────────────────────────────────────────────┘
//! ```
//!
//! A damaged line or record never ends a load: what could be read is in the
//! [`Table`], and its [`Report`] says how much was damaged, where, and why. A table
//! for which there is no memory is an [`Error`].
#![forbid(unsafe_code)]

mod hops;
pub mod internet;
mod memory;
pub mod mrt;
mod prefix;
mod report;
mod rng;
mod stream;
mod table;
mod text;

pub use hops::Hops;
pub use memory::NoMemory;
pub use prefix::AnyPrefix;
pub use report::{Damage, Fault, Place, Report};
pub use rng::SplitMix64;
pub use table::{Error, Load, Progress, Table};
