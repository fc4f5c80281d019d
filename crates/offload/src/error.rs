//! Why a run ends early.

use std::io;

use lookup::lpm::Refusal;

use crate::fault::Fault;

/// Why a run ends before its input does. A lost device is no reason: the cores go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Input or output fails.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The engine refuses what has changed; the table is as before.
    #[error(transparent)]
    Refusal(#[from] Refusal),
    /// The cores fail, and nobody is left.
    #[error(transparent)]
    Cores(Fault),
    /// A device does not give back what it was given.
    #[error("{device} has kept {batches} batches without answers")]
    Kept {
        /// Which.
        device: String,
        /// How many.
        batches: usize,
    },
}
