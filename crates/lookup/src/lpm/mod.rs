//! Longest prefix match: the traits and the registry of engines.
//!
//! An engine is one file here, one line in [`Engines`], and one `conformance!`
//! line at its bottom. Three things make one up:
//!
//! - its table, [`Lpm`]: what the threads that look up share;
//! - its writer, [`Writer`]: what the one thread that updates owns;
//! - its card, [`Card`]: name, families, source and limits, as data.
//!
//! What only measurements ask of a table is in [`Instruments`], what devices with memory of
//! their own ask in [`Exports`].

mod bitmap;
mod blocks;
pub mod bloomfwd;
pub mod bsd_radix;
mod bursts;
mod cell;
mod default_hop;
pub mod dir24_8;
pub mod dxr;
mod engine;
mod export;
pub mod flatten;
mod hashed;
mod instruments;
mod intervals;
pub(crate) mod isa;
#[cfg(target_arch = "x86_64")]
mod lanes;
pub mod lc_trie;
pub mod lulea;
pub mod miht;
pub(crate) mod options;
#[cfg(test)]
pub(crate) mod oracle;
pub mod planb;
pub mod poptrie;
mod rebuilt;
mod registry;
mod renewed;
pub mod rutter4;
pub mod rutter6;
pub mod sail;
mod scale;
pub mod space;
mod staged;
pub mod tree_bitmap;
pub mod vpp;

pub use engine::{Applied, Build, Card, Entry, Lpm, Options, Refusal, Writer};
pub use export::{BuildExported, Export, Exported, Words};
pub use instruments::{BuildInstrumented, Instrumented, Reads};
pub use intervals::Intervals;
pub use options::{BadChoice, Choice};
pub use registry::{Engines, Exports, Instruments};
