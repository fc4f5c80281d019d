//! Port mirroring.

use serde::{Deserialize, Serialize};

/// What is asked for.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// A mirror more.
    Add(Span),
    /// A mirror less.
    Del {
        /// Its name.
        name: String,
    },
    /// All of them, with their counters.
    Show,
}

/// What is answered.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// To [`Request::Show`].
    Spans(Vec<Shown>),
}

/// A mirror.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Span {
    /// Its name.
    pub name: String,
    /// The ports whose frames are copied.
    pub ports: Vec<String>,
    /// Which of their frames.
    pub direction: Direction,
    /// Where copies go.
    pub to: Target,
    /// Only frames whose outermost tag has one of these VLANs; all where there is none.
    #[serde(default)]
    pub vlans: Vec<u16>,
    /// Only frames that this filter takes ([`crate::filter::text`]); all where it is empty.
    #[serde(default)]
    pub filter: String,
    /// One in so many is copied.
    #[serde(default = "every")]
    pub one_in: u32,
}

fn every() -> u32 {
    1
}

/// Which frames of a port.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Those that come in.
    In,
    /// Those that leave.
    Out,
    /// Both.
    #[default]
    Both,
}

/// Where copies go.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Target {
    /// Out by this port.
    Port(String),
    /// Into this file: pcapng where its name ends so, else pcap.
    File(String),
}

/// A mirror and what it has copied, all workers together.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Shown {
    /// The mirror.
    pub span: Span,
    /// Frames copied.
    pub copied: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Frames not copied for lack of a buffer.
    pub no_buffer: u64,
    /// Frames not copied because more were waiting than are taken.
    pub ring_full: u64,
    /// Why its file is no longer written; empty where it is.
    pub fault: String,
}

impl std::fmt::Display for Direction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Direction::In => "in",
            Direction::Out => "out",
            Direction::Both => "both",
        })
    }
}
