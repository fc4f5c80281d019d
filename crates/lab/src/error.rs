//! Why an experiment could not run.

use std::path::PathBuf;

/// What goes wrong in the lab.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No experiment matches what was asked for.
    #[error("no experiment is called `{name}`; `rutter lab list` names them")]
    Unknown {
        /// As typed.
        name: String,
    },
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A record could not be understood.
    #[error("{}: not a record: {source}", path.display())]
    Record {
        /// Which file.
        path: PathBuf,
        /// What the parser said.
        source: serde_json::Error,
    },
    /// A table could not be loaded.
    #[error("table `{table}`: {reason}")]
    Table {
        /// As given.
        table: String,
        /// Why.
        reason: String,
    },
    /// This machine or build lacks what the experiment needs.
    #[error("{experiment} needs {what}")]
    Missing {
        /// Which experiment.
        experiment: &'static str,
        /// What, and how to get it.
        what: String,
    },
    /// A packet, a lookup or a count came out wrong: the figures would be worthless.
    #[error("{experiment}: wrong result: {what}")]
    Wrong {
        /// Which experiment.
        experiment: &'static str,
        /// What was seen and what was expected.
        what: String,
    },
    /// A plot could not be drawn.
    #[error("plot `{title}`: {reason}")]
    Plot {
        /// Its title.
        title: String,
        /// What the drawing library said.
        reason: String,
    },
}

impl Error {
    /// For `map_err` after a file operation.
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.into();
        move |source| Error::File { path, source }
    }
}
