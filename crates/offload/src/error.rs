//! The errors of a run.

use std::io;

use lookup::lpm::Refusal;

use crate::fault::Fault;

/// Why a run ends before its input does. A lost device is no reason: the cores continue.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Input or output fails.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The engine refuses a change; the table is unchanged.
    #[error(transparent)]
    Refusal(#[from] Refusal),
    /// The cores fail, and no other processor is left.
    #[error(transparent)]
    Cores(Fault),
    /// A device does not return the batches that it got.
    #[error("{device} has kept {batches} batches without answers")]
    Kept {
        /// The device.
        device: String,
        /// The number of batches.
        batches: usize,
    },
}
