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
//!
//! Inside, a module imports only modules of the lines below its own:
//!
//! ```text
//!   load
//!   mrt
//!   stream
//!   error
//!   internet text
//!   table
//!   hops prefix
//!   memory report
//! ```
#![forbid(unsafe_code)]

mod error;
mod hops;
pub mod internet;
mod load;
mod memory;
pub mod mrt;
mod prefix;
mod report;
mod stream;
mod table;
mod text;

pub use error::Error;
pub use hops::Hops;
pub use load::{Load, Progress};
pub use memory::NoMemory;
pub use prefix::AnyPrefix;
pub use report::{Damage, Fault, Place, Report};
pub use table::{Listed, Table};
