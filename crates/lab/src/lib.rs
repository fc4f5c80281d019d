//! The lab: it redoes the figures of the papers on the machine at hand, and
//! measures every engine and the router on any table and traffic.
//!
//! An experiment is one file in [`experiments`] and one line in its registry. It
//! asks [`data`] for tables and traffic, lets the things compared take turns in
//! short [`slices`], and returns a [`Record`]; [`report`] turns records into a
//! page. [`run`] does one experiment from its name to its files.
#![deny(unsafe_code)]

pub mod clock;
pub mod contest;
mod context;
mod crew;
pub mod data;
mod error;
pub mod experiment;
pub mod experiments;
pub mod lookups;
pub mod machine;
pub mod matching;
pub mod misses;
pub mod record;
pub mod report;
mod rivals;
pub mod slices;
mod testpmd;

use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;

pub use context::{Context, Options};
pub use error::Error;
pub use experiment::{Card, Experiment, Plot, Style};
pub use record::{Figure, Record, Row, Verdict};

/// The experiments that `names` ask for, in the registry's order. A name is an
/// experiment's, or its beginning up to a slash (`router`), or `all`.
///
/// # Errors
/// When a name fits none.
pub fn select(names: &[String]) -> Result<Vec<&'static dyn Experiment>, Error> {
    let fits = |experiment: &dyn Experiment, name: &str| {
        let full = experiment.card().name;
        name == "all" || full == name || full.split('/').next() == Some(name.trim_end_matches('/'))
    };
    let all = experiments::all();
    for name in names {
        if !all.iter().any(|experiment| fits(*experiment, name)) {
            return Err(Error::Unknown { name: name.clone() });
        }
    }
    let wanted = |experiment: &&&dyn Experiment| names.iter().any(|name| fits(**experiment, name));
    Ok(all.iter().filter(wanted).copied().collect())
}

/// Runs one experiment and writes its record; returns the record and where it is.
///
/// # Errors
/// When the experiment cannot run, or a file cannot be written.
pub fn run(experiment: &dyn Experiment, context: &mut Context) -> Result<(Record, PathBuf), Error> {
    let name = experiment.card().name;
    context.start(name)?;
    // A set of experiments runs for hours: one that panics must not end the others.
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| experiment.run(context)));
    let panicked = |_| Err(Error::Wrong { experiment: name, what: "it panicked".into() });
    let record = outcome.unwrap_or_else(panicked)?;
    let path = record.save(context.out())?;
    context.finish()?;
    Ok((record, path))
}
