//! What an exact-match engine is, as data, and how it is built.

use std::sync::Arc;

use super::Writer;
use crate::lpm::options::Known;
use crate::lpm::{Options, Refusal};
use crate::sync::Domain;

/// What an engine is, as data: `rutter engines` prints these.
#[derive(Clone, Copy, Debug)]
pub struct Card {
    /// The name in configuration, records and `show` output.
    pub name: &'static str,
    /// What it is keyed by: `mac` or `flow`.
    pub family: &'static str,
    /// The paper or text that describes it.
    pub paper: &'static str,
    /// One line.
    pub help: &'static str,
    /// Bits of a key.
    pub key_bits: u16,
    /// The largest value; of a flow table, whose values are entries, the most
    /// entries.
    pub max_value: u32,
    /// The most entries; `None` where memory is the only limit.
    pub max_entries: Option<u64>,
    /// Options: name, default, one line of help.
    pub options: Known,
}

impl Card {
    /// A refusal by this engine.
    pub fn refuse(&self, limit: impl ToString) -> Refusal {
        Refusal { engine: self.name, limit: limit.to_string() }
    }
}

/// Builds an empty engine that may hold so many entries.
pub type Build = fn(usize, &Options, &Arc<Domain>) -> Result<Box<dyn Writer>, Refusal>;

/// One engine in the registry of tables of [`super::Key`]s.
#[derive(Clone, Copy)]
pub struct Entry {
    /// What it is.
    pub card: &'static Card,
    /// How it is built.
    pub build: Build,
}
