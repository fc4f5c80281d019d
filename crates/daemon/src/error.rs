//! Why the data plane does not start, or ended.

use std::io;
use std::path::PathBuf;

use crate::config::{Mistakes, Text};
use crate::threads::Death;

/// Why the data plane does not start, or ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another instance uses the socket.
    #[error("another instance is running at {}: {who} (`rutter stop` ends it)", socket.display())]
    Running {
        /// The API socket.
        socket: PathBuf,
        /// Its process and configuration.
        who: String,
    },
    /// Another instance uses the network namespace, with another socket.
    #[error("another instance is running in this network namespace: {who}")]
    NamespaceTaken {
        /// Its process and socket.
        who: String,
    },
    /// A device.
    #[error(transparent)]
    Device(#[from] ::io::Error),
    /// The machine cannot provide what the configuration asks for.
    #[error("{}: {reason}", path.join("."))]
    Asked {
        /// The keys to it.
        path: Vec<String>,
        /// Why, and what to do.
        reason: String,
    },
    /// The same, with file and line.
    #[error(transparent)]
    Config(#[from] Mistakes),
    /// A table refuses.
    #[error(transparent)]
    Tables(#[from] tables::Error),
    /// The bridges' table.
    #[error("bridges: {reason}")]
    Bridge {
        /// The reason.
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
        /// The operation that failed.
        action: String,
        /// The system's error.
        source: io::Error,
    },
    /// A thread of the daemon has ended before its time.
    #[error("the {thread} thread has ended")]
    Gone {
        /// Its name.
        thread: &'static str,
    },
    /// A thread died that the run cannot do without; its cause has been logged.
    #[error("the thread {} has died: the run is over", death.thread)]
    Died {
        /// The thread, and the reason.
        death: Death,
    },
    /// Packets that came in have neither left nor been dropped: a fault of Rutter's.
    #[error("{missing} packets are unaccounted for")]
    Unaccounted {
        /// How many; or how many were counted twice.
        missing: u64,
    },
}

impl Error {
    /// The machine cannot provide the value at `path` of the configuration.
    pub(crate) fn asked(path: &[impl ToString], reason: impl ToString) -> Error {
        let path = path.iter().map(ToString::to_string).collect();
        Error::Asked { path, reason: reason.to_string() }
    }

    /// A device refuses the value at `path` of the configuration.
    pub(crate) fn device(path: &[impl ToString], error: ::io::Error) -> Error {
        match error {
            ::io::Error::Description { reason, .. } => Error::asked(path, reason),
            ::io::Error::Refused { action, reason, .. } => {
                Error::asked(path, format_args!("{action}: {reason}"))
            }
            error => error.into(),
        }
    }

    /// With file and line, if the error is about the configuration.
    pub(crate) fn placed(self, text: &Text) -> Error {
        let Error::Asked { path, reason } = self else { return self };
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        Mistakes(vec![text.mistake(&path, reason)]).into()
    }
}

/// Adds the operation that failed.
pub(crate) trait Doing<T> {
    /// Turns an I/O error into this crate's.
    fn doing(self, action: impl FnOnce() -> String) -> Result<T, Error>;
}

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, action: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|source| Error::System { action: action(), source })
    }
}
