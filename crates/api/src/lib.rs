//! Messages between the daemon and its clients, and how they travel.
//!
//! A client connects to a Unix socket and sends requests, one after the other.
//! The daemon answers each with any number of [`Reply`] parts and one end:
//!
//! ```text
//!  client                                        daemon
//!    ├── {"version":1,"body":REQUEST} ──────────►  │
//!    │ ◄────────── {"version":1,"body":{"part":REPLY}}   0, 1 or many
//!    │ ◄────────── {"version":1,"body":"done"}           or {"error":…}
//! ```
//!
//! Every message is one frame ([`frame`]): a length, then JSON. A client that
//! wants no more parts of a stream closes the connection.
//!
//! Inside, a module imports only modules of the lines below its own:
//!
//! ```text
//!   client
//!   reply request
//!   apps filter flat frame
//! ```
#![forbid(unsafe_code)]

pub mod apps;
pub mod client;
pub mod filter;
mod flat;
pub mod frame;
pub mod reply;
pub mod request;

pub use client::{CallError, Client};
pub use filter::Filter;
pub use flat::names;
pub use frame::{Decoder, FrameError};
pub use reply::{Answer, ErrorKind, Failure, Reply};
pub use request::{Request, What};

use serde::{Deserialize, Serialize};

/// The version of the messages. It rises when an old client would misread a new
/// daemon; a new field or a new variant does not raise it.
pub const VERSION: u32 = 1;

/// Where the daemon listens by default.
pub const DEFAULT_SOCKET: &str = "/run/rutter/api.sock";

/// The environment variable that names another socket.
pub const SOCKET_VARIABLE: &str = "RUTTER_SOCKET";

/// What one frame holds.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Message<T> {
    /// The sender's [`VERSION`].
    pub version: u32,
    /// Request or answer.
    pub body: T,
}

impl<T> Message<T> {
    /// A message of this version.
    pub fn new(body: T) -> Self {
        Message { version: VERSION, body }
    }
}

/// IPv4 or IPv6.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}

impl std::fmt::Display for Family {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Family::Ipv4 => "ipv4",
            Family::Ipv6 => "ipv6",
        })
    }
}
