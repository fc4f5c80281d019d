//! Why an experiment could not run.

use std::path::PathBuf;

/// What goes wrong in the lab.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No experiment matches what was asked for.
    #[error("no experiment is called `{name}`{} (`rutter lab list` names them)", hint(near))]
    Unknown {
        /// As typed.
        name: String,
        /// What was probably meant.
        near: Option<&'static str>,
    },
    /// No engine or rival has that name.
    #[error("no engine and no rival of this build is called `{name}`{}", hint(near))]
    UnknownEngine {
        /// As typed.
        name: String,
        /// What was probably meant.
        near: Option<String>,
    },
    /// A folder without records.
    #[error("{}: there is no record in this folder; `rutter lab run` makes some", folder.display())]
    Empty {
        /// Which folder.
        folder: PathBuf,
    },
    /// `--table` was given to an experiment that measures none, or none like it.
    #[error("`--table {table}` does not apply to {experiment}: it {why}")]
    NoTable {
        /// Which experiment.
        experiment: &'static str,
        /// As given.
        table: String,
        /// What the experiment does instead.
        why: &'static str,
    },
    /// `--engine` was given to an experiment that measures its own, or others.
    #[error("`--engine {engine}` does not apply to {experiment}: it does not measure that engine")]
    NoEngine {
        /// Which experiment.
        experiment: &'static str,
        /// As given.
        engine: String,
    },
    /// `--updates` was given to an experiment that replays none.
    #[error("`--updates {}` does not apply to {experiment}: it replays no updates", file.display())]
    NoUpdates {
        /// Which experiment.
        experiment: &'static str,
        /// As given.
        file: PathBuf,
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
}

/// The candidate that `word` is most likely a misspelling of, or the beginning of.
pub(crate) fn nearest<'c>(
    word: &str,
    candidates: impl IntoIterator<Item = &'c str>,
) -> Option<&'c str> {
    let near = |candidate: &&str| {
        let distance = strsim::osa_distance(word, candidate);
        let longest = word.chars().count().max(candidate.chars().count());
        (distance <= 1 + longest / 4).then_some(distance)
    };
    let near = candidates.into_iter().filter_map(|one| Some((near(&one)?, one)));
    near.min_by_key(|(distance, _)| *distance).map(|(_, candidate)| candidate)
}

fn hint(near: &Option<impl std::fmt::Display>) -> String {
    near.as_ref().map_or(String::new(), |near| format!(", did you mean `{near}`?"))
}

impl Error {
    /// For `map_err` after a file operation.
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.into();
        move |source| Error::File { path, source }
    }
}
