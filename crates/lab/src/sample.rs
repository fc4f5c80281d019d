//! What one slice of a measurement did.

use std::time::Duration;

/// What one slice did.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Operations that count: lookups, packets.
    pub ops: u64,
    /// Processor time that they took.
    pub time: Duration,
    /// All operations, with those beside which somebody else used the core; zero where the work
    /// does not look.
    pub done: u64,
    /// Processor time that all of them took.
    pub spent: Duration,
    /// The share of that time in which nobody else used the core, if the work looks.
    pub quiet: Option<f64>,
    /// A checksum of the results, the same for every slice of one variant.
    pub checksum: Option<u64>,
    /// What of it each part took, by name, in nanoseconds an operation.
    pub parts: Vec<(String, f64)>,
    /// Further figures of this slice by name, as they are.
    pub figures: Vec<(String, f64)>,
}

impl Sample {
    /// The least share of a slice's time that is enough for a figure: 1 of 10 ms.
    pub const QUIET_SHARE: f64 = 0.1;
}
