//! The lab: it redoes the figures of the papers on the machine at hand, and
//! measures every engine and the router on any table and traffic.
//!
//! An experiment is one file in [`experiments`] and one line in its registry. It
//! asks [`data`] for tables and traffic, lets the things compared take turns in
//! short [`slices`], and returns a [`Record`]; [`report`] turns records into a
//! page. [`run`] does a set of experiments from their names to their files.
//!
//! Inside, a module imports only modules of the lines below its own:
//!
//! ```text
//!   report set
//!   experiments
//!   misses
//!   lookups
//!   contestants
//!   experiment pace rivals
//!   context crew devices lines matching testpmd
//!   slices
//!   record watch
//!   data machine reads width
//!   clock contest error peer sample
//! ```
#![deny(unsafe_code)]

pub mod clock;
pub mod contest;
pub mod contestants;
mod context;
mod crew;
pub mod data;
mod devices;
mod error;
pub mod experiment;
pub mod experiments;
mod lines;
pub mod lookups;
pub mod machine;
pub mod matching;
pub mod misses;
mod pace;
mod peer;
mod reads;
pub mod record;
pub mod report;
mod rivals;
mod sample;
mod set;
pub mod slices;
mod testpmd;
pub mod watch;
mod width;

pub use context::{Context, Options};
pub use devices::gpus_here;
pub use error::Error;
pub use experiment::{Card, Experiment, Plot, Style, Takes};
pub use record::{Figure, Record, Row, Ruling, Verdict};
pub use set::{Outcome, run, select};
