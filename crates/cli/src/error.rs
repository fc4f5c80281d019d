//! Why a command could not do its work.

use std::io::{self, Write};
use std::path::PathBuf;

use lookup::lpm::Refusal;

use crate::status::{BROKEN_PIPE, INTERRUPTED, Status};
use crate::warn::warn;

/// Why a command could not do its work; exit status 2, 1 where what it names is
/// not there, 3 where a fault ended the data plane.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The table cannot be loaded at all.
    #[error("{}", of_table(spec, error))]
    Table {
        /// The argument of `--table`.
        spec: String,
        /// Why.
        error: formats::Error,
    },
    /// The engine does not take the table.
    #[error(transparent)]
    Refusal(#[from] Refusal),
    /// An engine of another kind.
    #[error("{name} is an engine for exact matches, not for prefixes")]
    ExactEngine {
        /// The name as requested.
        name: String,
    },
    /// No such engine.
    #[error("no engine is called `{name}`{}; there are: {}", did_you_mean(near), all.join(", "))]
    UnknownEngine {
        /// The name as requested.
        name: String,
        /// Names like it.
        near: Vec<&'static str>,
        /// All names.
        all: Vec<&'static str>,
    },
    /// An option of an engine is there twice.
    #[error("option `{name}` is given twice")]
    OptionTwice {
        /// Which.
        name: String,
    },
    /// A table without a prefix.
    #[error("{spec}: there is no prefix to check")]
    EmptyTable {
        /// The argument of `--table`.
        spec: String,
    },
    /// The engine's family has no prefix in the table.
    #[error("{engine} is for {families}, and {spec} has no such prefix")]
    NoPrefix {
        /// The engine.
        engine: &'static str,
        /// Its family.
        families: &'static str,
        /// The argument of `--table`.
        spec: String,
    },
    /// The engine's answer differs from the table's.
    #[error("{engine} and the table disagree on {addr}: hop {got} instead of {want}")]
    Disagreement {
        /// The engine.
        engine: &'static str,
        /// The address.
        addr: String,
        /// The engine's hop.
        got: u32,
        /// The table's hop.
        want: u32,
    },
    /// The lab cannot be started.
    #[error("{}", of_lab(.0))]
    Lab(io::Error),
    /// The daemon cannot be reached, or refuses.
    #[error(transparent)]
    Call(#[from] api::CallError),
    /// A filter that is none.
    #[error(transparent)]
    Filter(#[from] api::filter::text::BadFilter),
    /// Mistakes in the configuration.
    #[error(transparent)]
    Config(#[from] daemon::config::Mistakes),
    /// The data plane cannot start, or ended.
    #[error(transparent)]
    Daemon(#[from] daemon::Error),
    /// A policy cannot be loaded.
    #[error(transparent)]
    Policy(#[from] policy::cell::Error),
    /// Many lookups cannot go on.
    #[error(transparent)]
    Offload(offload::error::Error),
    /// The processors for the lookups cannot take the table.
    #[error(transparent)]
    Device(offload::fault::Fault),
    /// The system starts no threads.
    #[error("cannot start a thread: {0}")]
    Threads(io::Error),
    /// The demo cannot go on.
    #[error("{what}: {why}")]
    Demo {
        /// The operation.
        what: String,
        /// The system's error.
        why: String,
    },
    /// The user has interrupted; exit status 130.
    #[error("interrupted")]
    Interrupted,
    /// Arguments that clap cannot check.
    #[error("{0}")]
    Usage(&'static str),
    /// Arguments that clap cannot check, with the offending word.
    #[error("`{word}`: expected {expected}")]
    Word {
        /// The word as given.
        word: String,
        /// What was expected.
        expected: &'static str,
    },
    /// Standard input cannot be read.
    #[error("standard input: {0}")]
    Input(io::Error),
    /// A file cannot be written.
    #[error("{}: {error}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Output cannot be written.
    #[error("cannot write: {0}")]
    Output(#[from] io::Error),
}

impl Error {
    /// Prints the error and gives the exit status. A reader that went away, as
    /// `head` does, is none to complain to.
    pub fn report(&self) -> u8 {
        match self {
            Error::Output(error) | Error::Offload(offload::error::Error::Io(error))
                if error.kind() == io::ErrorKind::BrokenPipe =>
            {
                BROKEN_PIPE
            }
            // One line in a fixed form, which scripts read.
            Error::Refusal(refusal) => {
                let _ = writeln!(io::stderr(), "{refusal}");
                Status::Fault as u8
            }
            Error::Config(mistakes) | Error::Daemon(daemon::Error::Config(mistakes)) => {
                mistakes.0.iter().for_each(warn);
                Status::Fault as u8
            }
            Error::Interrupted => {
                warn(self);
                INTERRUPTED as u8
            }
            Error::Call(api::CallError::Failed(failure))
                if failure.kind == api::ErrorKind::NotFound =>
            {
                warn(self);
                Status::No as u8
            }
            Error::Daemon(daemon::Error::Died { .. }) => {
                warn(self);
                daemon::run::DIED
            }
            error => {
                warn(error);
                Status::Fault as u8
            }
        }
    }
}

/// The error already names the file that cannot be opened.
fn of_table(spec: &str, error: &formats::Error) -> String {
    match error {
        formats::Error::Open { .. } => error.to_string(),
        _ => format!("{spec}: {error}"),
    }
}

/// One that is not there is no fault of the machine: how to get it.
fn of_lab(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "the lab is not installed: `rutter-lab` is neither beside \
             this program nor on the PATH; `make lab` builds it, `make install` installs it"
            .into(),
        _ => format!("rutter-lab: {error}"),
    }
}

fn did_you_mean(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        names => format!(" (did you mean `{}`?)", names.join("` or `")),
    }
}
