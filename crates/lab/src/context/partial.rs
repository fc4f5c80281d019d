//! What of an experiment is measured already: by a run that was interrupted, or by an
//! experiment before it in the same run.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::Context;
use crate::machine::{self, Machine};
use crate::record::{file_stem, write_whole};
use crate::slices::Slices;
use crate::{Error, Row};

/// Finished cells, and what they depend on.
#[derive(Default, Deserialize, Serialize)]
pub(super) struct Partial {
    machine: Machine,
    #[serde(default)]
    build: String,
    quick: bool,
    tables: Vec<String>,
    #[serde(default)]
    hops: u32,
    /// Seconds that the finished cells took, in all runs.
    #[serde(default)]
    pub took_s: f64,
    /// Of the finished cells, as of a context.
    #[serde(default)]
    pub slices: Slices,
    pub data: BTreeMap<String, String>,
    pub cells: BTreeMap<String, Vec<Row>>,
}

/// A cell as it was measured.
#[derive(Default)]
pub struct Found {
    /// Its rows.
    pub rows: Vec<Row>,
    /// How long it took.
    pub took: Duration,
    /// Its slices.
    pub slices: Slices,
}

impl Found {
    /// Adds what another part of the cell took.
    pub fn add(&mut self, part: &Found) {
        self.took += part.took;
        self.slices = self.slices + part.slices;
    }
}

impl Context {
    /// Whether this run has yet to measure that cell of that experiment, after this one.
    pub fn lacks(&self, experiment: &str, cell: &str) -> bool {
        self.ahead.contains(&experiment) && !self.partial_of(experiment).cells.contains_key(cell)
    }

    /// Keeps a cell of an experiment that comes later: it takes it up as if it had been interrupted.
    ///
    /// # Errors
    /// When it cannot be kept.
    pub fn hand_on(&mut self, experiment: &str, cell: &str, found: Found) -> Result<(), Error> {
        let mut partial = self.partial_of(experiment);
        partial.took_s += found.took.as_secs_f64();
        self.for_others_s += found.took.as_secs_f64();
        partial.slices = partial.slices + found.slices;
        partial.cells.insert(cell.into(), found.rows);
        self.write(experiment, &partial)
    }

    /// What `turn` measures, and how much that was.
    pub fn found(&mut self, turn: impl FnOnce(&mut Context) -> Vec<Row>) -> Found {
        let (begun, before) = (Instant::now(), self.slices.replace(Slices::default()));
        let rows = turn(self);
        let slices = self.slices.replace(before);
        Found { rows, took: begun.elapsed(), slices }
    }

    /// Counts the slices of what was [found](Context::found) as this experiment's.
    pub fn count(&self, found: &Found) {
        self.slices.set(self.slices.get() + found.slices);
    }

    /// Keeps the cells that are finished.
    pub(super) fn keep(&mut self) -> Result<(), Error> {
        self.partial.data = self.data.clone();
        self.partial.took_s = self.took_s();
        self.partial.slices = self.slices.get();
        self.write(self.experiment, &self.partial)
    }

    fn write(&self, experiment: &str, partial: &Partial) -> Result<(), Error> {
        let path = self.partial_path(experiment);
        let text = serde_json::to_string(partial)
            .map_err(|source| Error::Record { path: path.clone(), source })?;
        write_whole(&path, &text)
    }

    /// What there is of `experiment` by this program, on this machine, with these options.
    pub(super) fn partial_of(&self, experiment: &str) -> Partial {
        let found = fs::read_to_string(self.partial_path(experiment)).ok();
        let found = found.and_then(|text| serde_json::from_str::<Partial>(&text).ok());
        let fits = |p: &Partial| {
            p.machine.is_same(&self.machine)
                && p.build == machine::build()
                && p.quick == self.options.quick
                && p.tables == self.asked()
                && p.hops == self.options.hops
                && self.is_of_asked(&p.data)
        };
        found.filter(fits).unwrap_or_else(|| Partial {
            machine: self.machine.clone(),
            build: machine::build().into(),
            quick: self.options.quick,
            tables: self.asked(),
            hops: self.options.hops,
            ..Partial::default()
        })
    }

    pub(super) fn partial_path(&self, experiment: &str) -> PathBuf {
        self.out().join(format!("{}.partial", file_stem(experiment)))
    }
}
