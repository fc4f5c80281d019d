//! Why the control thread refuses.

use lookup::lpm::Refusal;

use crate::Family;

/// An error of the control side.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No engine of that name for the family.
    #[error("no engine is called `{name}` for {}", family.name())]
    UnknownEngine {
        /// As given.
        name: String,
        /// For which family.
        family: Family,
    },
    /// The engine cannot hold the table.
    #[error(transparent)]
    Engine(#[from] Refusal),
    /// The engine is just being changed.
    #[error("the engine of this table is being changed already")]
    Busy,
    /// No such routing tables.
    #[error("no VRF has this number")]
    UnknownVrf,
    /// Another VRF has the name or the kernel's table.
    #[error("the VRF `{name}` or its kernel table {table} exists already")]
    DuplicateVrf {
        /// As given.
        name: String,
        /// As given.
        table: u32,
    },
    /// Another interface has the name, or gets the same frames.
    #[error("the interface `{name}` clashes with `{with}`")]
    DuplicateInterface {
        /// As given.
        name: String,
        /// The one that is there.
        with: String,
    },
    /// More interfaces than ids.
    #[error("more than {limit} {what}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// The most that fit.
        limit: usize,
    },
}
