//! The Grantor: what it does, and what became of packets.

use serde::{Deserialize, Serialize};

/// What is asked for.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// All of it.
    Show,
}

/// What is answered.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// To [`Request::Show`].
    Show(Box<Shown>),
}

/// The Grantor.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Shown {
    /// Prefixes of those who may ask.
    pub gatekeepers: Vec<String>,
    /// Prefixes of those who are served.
    pub serves: Vec<String>,
    /// What decides.
    pub policy: String,
    /// Milliseconds that packets wait at most.
    pub limit_ms: u64,
    /// What becomes of those that have waited so long.
    pub on_limit: String,
    /// What becomes of those for which there is no room.
    pub on_full: String,
    /// The rule for congestion that outer headers report.
    pub ecn: String,
    /// Whether nothing is forwarded.
    pub shadow: bool,
    /// UDP ports of decisions: source, destination.
    pub ports: [u16; 2],
    /// Packets that wait.
    pub waiting: u64,
    /// How many may.
    pub room: u64,
    /// What became of packets, questions and decisions.
    pub counts: Vec<Count>,
    /// What was dropped, as `node.reason`.
    pub drops: Vec<Count>,
}

/// A number of something.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Count {
    /// Of what.
    pub what: String,
    /// How many.
    pub count: u64,
}
