//! Port mirroring: copies of the frames of chosen ports, to another port or to a file.
//!
//! ```text
//!  port ─► span_in ─► ethernet_input ─► … ─► span_out ─► output ─► port
//!             │ copies                          │ copies
//!             ├► ring ─► span_send ─► output    ├► …
//!             └► ring of frames ─► file         └► …
//! ```
//!
//! Both nodes are insets: without a mirror of received frames `span_in` is switched off,
//! without a mirror of transmitted frames `span_out`; `span_send` sleeps until the first
//! mirror. Copies, and packets that another worker has already seen, bypass `span_out`, so
//! nothing is copied twice.

mod copy;
pub mod span_in;
pub mod span_out;
pub mod span_send;
mod spans;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use graph::Card;
use graph::ring::{frames, spsc};
use lookup::sync::Published;

use crate::assembly::{Assembly, DETOURS, FIRST, LAST};
use copy::Copier;
pub use spans::{Counter, Counters, MOST, Side, Span, Spans, Target};

/// Its nodes.
pub const NODES: &[Card] = &[
    Card::of::<span_in::SpanIn>(),
    Card::of::<span_out::SpanOut>(),
    Card::of::<span_send::SpanSend>(),
];

/// The inset that looks at frames of each [`Side`].
pub const INSETS: [&str; 2] = ["span_in", "span_out"];

/// The source that sends copies to ports; it sleeps until there is a mirror.
pub const SOURCE: &str = "span_send";

/// The parts of one worker's mirrors.
pub struct Parts {
    /// All mirrors.
    pub spans: Arc<Published<Spans>>,
    /// This worker's counters.
    pub counters: Arc<Counters>,
    /// To the thread that writes files, from each inset.
    pub files: [frames::Producer; 2],
}

/// Adds them.
pub fn add(assembly: Assembly, parts: Parts) -> Assembly {
    let Parts { spans, counters, files: [file_in, file_out] } = parts;
    let (to_port_in, from_in) = spsc::ring(DETOURS);
    let (to_port_out, from_out) = spsc::ring(DETOURS);
    let copier = |ring, file| Copier::new(spans.clone(), counters.clone(), ring, file);
    let first = span_in::SpanIn::new(copier(to_port_in, file_in));
    let last = span_out::SpanOut::new(copier(to_port_out, file_out));
    let assembly = assembly.inset(FIRST, first, &[]);
    let assembly = assembly.inset(LAST, last, &["span_send", "worker_input"]);
    assembly.dormant(span_send::SpanSend::new([from_in, from_out]))
}
