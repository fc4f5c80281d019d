//! Why the data plane does not start, or ended.

use std::io;
use std::path::PathBuf;

/// Why the data plane does not start, or ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another instance has the socket.
    #[error("another instance is running at {}: {who} (`rutter stop` ends it)", socket.display())]
    Running {
        /// The API socket.
        socket: PathBuf,
        /// Its process and configuration.
        who: String,
    },
    /// Another instance has the network namespace, at another socket.
    #[error("another instance is running in this network namespace: {who}")]
    NamespaceTaken {
        /// Its process and socket.
        who: String,
    },
    /// A device.
    #[error(transparent)]
    Device(#[from] ::io::Error),
    /// A port of the configuration cannot be had.
    #[error("port `{port}`: {reason}")]
    Port {
        /// Its name.
        port: String,
        /// Why, and what to do.
        reason: String,
    },
    /// A table refuses.
    #[error(transparent)]
    Tables(#[from] tables::Error),
    /// The bridges' table.
    #[error("bridges: {reason}")]
    Bridge {
        /// Why.
        reason: String,
    },
    /// The nodes do not fit together.
    #[error(transparent)]
    Graph(#[from] graph::Error),
    /// A worker.
    #[error(transparent)]
    Worker(#[from] graph::WorkerError),
    /// The system refuses.
    #[error("{action}: {source}")]
    System {
        /// What was tried.
        action: String,
        /// What came back.
        source: io::Error,
    },
    /// A thread of the daemon has ended before its time.
    #[error("the {thread} thread has ended")]
    Gone {
        /// Its name.
        thread: &'static str,
    },
    /// Packets that came in are neither out nor dropped: a fault of Rutter's.
    #[error("{missing} packets are unaccounted for")]
    Unaccounted {
        /// How many, or counted twice.
        missing: u64,
    },
}

/// Names what was tried.
pub(crate) trait Doing<T> {
    /// Makes an I/O error one of ours.
    fn doing(self, action: impl FnOnce() -> String) -> Result<T, Error>;
}

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, action: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|source| Error::System { action: action(), source })
    }
}
