//! Records: what an experiment measured, as data. JSON holds everything; CSV
//! holds the rows for a spreadsheet.

mod verdict;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::machine::Machine;

pub use verdict::{Bound, Ruling, Verdict, quantile};

/// The outcome of one run of one experiment.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Record {
    /// The experiment's name.
    pub experiment: String,
    /// True when it was run with `--quick`.
    pub quick: bool,
    /// The tables given with `--table`, without their folders. In older records, which have no
    /// `engines`, also the engines and the file of updates.
    #[serde(default)]
    pub tables: Vec<String>,
    /// The engines given with `--engine`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub engines: Option<Vec<String>>,
    /// The file given with `--updates`, without its folder.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub updates: Option<String>,
    /// How many different hops its tables have at most (`--hops`).
    #[serde(default)]
    pub hops: u32,
    /// Seconds since 1970 when it ended.
    pub time_s: u64,
    /// Seconds that it ran, those of interrupted runs whose cells it took up included.
    #[serde(default)]
    pub took_s: f64,
    /// Where it ran.
    pub machine: Machine,
    /// A checksum of the program that ran it.
    #[serde(default)]
    pub build: String,
    /// Data sets used: name and checksum.
    pub data: BTreeMap<String, String>,
    /// What was measured.
    pub rows: Vec<Row>,
    /// What was claimed, beside what was measured.
    pub verdicts: Vec<Verdict>,
    /// What a reader must know: what was left out, and why.
    pub notes: Vec<String>,
}

/// One measurement: what it is of, and its figures.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Row {
    /// What distinguishes it: engine, table, traffic.
    pub labels: BTreeMap<String, String>,
    /// What was measured; the unit ends the name (`rate_mlps`, `build_s`).
    pub figures: BTreeMap<String, Figure>,
    /// A checksum of the results.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub checksum: Option<String>,
    /// Why there are no figures: the engine refused, or answered wrongly.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub note: Option<String>,
}

/// One figure out of several samples.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Figure {
    /// The middle one, or what lies between the two in the middle.
    pub median: f64,
    /// The best one.
    pub best: f64,
    /// Difference between the quartiles, as a share of the median.
    pub spread: f64,
    /// How many.
    pub samples: usize,
}

impl Record {
    /// Reads a record.
    ///
    /// # Errors
    /// When the file cannot be read or is no record.
    pub fn load(path: &Path) -> Result<Record, Error> {
        let text = fs::read_to_string(path).map_err(Error::file(path))?;
        serde_json::from_str(&text).map_err(|source| Error::Record { path: path.into(), source })
    }

    /// Where the record of `experiment` lies in `folder`.
    pub fn path(folder: &Path, experiment: &str) -> PathBuf {
        folder.join(format!("{}.json", file_stem(experiment)))
    }

    /// Writes `NAME.json` and `NAME.csv` into `folder`; returns the former's path.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn save(&self, folder: &Path) -> Result<PathBuf, Error> {
        fs::create_dir_all(folder).map_err(Error::file(folder))?;
        let path = Record::path(folder, &self.experiment);
        let mut text = serde_json::to_string_pretty(self)
            .map_err(|source| Error::Record { path: path.clone(), source })?;
        text.push('\n');
        write_whole(&path, &text)?;
        write_whole(&path.with_extension("csv"), &self.csv())?;
        Ok(path)
    }

    /// The rows as comma-separated values: labels, then median, best and spread
    /// of each figure, checksum, note.
    pub fn csv(&self) -> String {
        let labels: BTreeSet<_> = self.rows.iter().flat_map(|row| row.labels.keys()).collect();
        let figures: BTreeSet<_> = self.rows.iter().flat_map(|row| row.figures.keys()).collect();
        let mut head: Vec<String> = labels.iter().map(|name| (*name).clone()).collect();
        for name in &figures {
            head.extend([(*name).clone(), format!("{name}.best"), format!("{name}.spread")]);
        }
        head.extend(["checksum".into(), "note".into()]);
        let mut text = csv_line(&head);
        for row in &self.rows {
            let mut cells: Vec<String> = labels
                .iter()
                .map(|name| row.labels.get(*name).cloned().unwrap_or_default())
                .collect();
            for name in &figures {
                match row.figures.get(*name) {
                    Some(f) => cells.extend([f.median, f.best, f.spread].map(short)),
                    None => cells.extend([const { String::new() }; 3]),
                }
            }
            cells.extend([row.checksum.clone(), row.note.clone()].map(Option::unwrap_or_default));
            text.push_str(&csv_line(&cells));
        }
        text
    }

    /// The rows that have all of these labels.
    pub fn find<'r>(&'r self, labels: &'r [(&str, &str)]) -> impl Iterator<Item = &'r Row> {
        self.rows.iter().filter(move |row| row.is(labels))
    }
}

impl Row {
    /// A row with these labels and no figure yet.
    pub fn new<'l, V: ToString>(labels: impl IntoIterator<Item = (&'l str, V)>) -> Row {
        let labels = labels.into_iter();
        let labels = labels.map(|(name, value)| (name.to_string(), value.to_string())).collect();
        Row { labels, ..Row::default() }
    }

    /// With one more label.
    pub fn labelled(mut self, name: impl Into<String>, value: impl ToString) -> Row {
        self.labels.insert(name.into(), value.to_string());
        self
    }

    /// With one more figure, if it was measured: without a sample there is nothing to judge.
    pub fn with(mut self, name: impl Into<String>, figure: impl Into<Figure>) -> Row {
        let figure = figure.into();
        if figure.samples > 0 {
            self.figures.insert(name.into(), figure);
        }
        self
    }

    /// With a reason why something is missing.
    pub fn noting(mut self, note: impl Into<String>) -> Row {
        self.note = Some(note.into());
        self
    }

    /// With the checksum of the results.
    pub fn checked(mut self, checksum: u64) -> Row {
        self.checksum = Some(format!("{checksum:016x}"));
        self
    }

    /// The value of a label; empty where it has none.
    pub fn label(&self, name: &str) -> &str {
        self.labels.get(name).map_or("", String::as_str)
    }

    /// The median of a figure.
    pub fn median(&self, name: &str) -> Option<f64> {
        self.figures.get(name).map(|figure| figure.median)
    }

    /// True when it has all of these labels.
    pub fn is(&self, labels: &[(&str, &str)]) -> bool {
        labels.iter().all(|(name, value)| self.label(name) == *value)
    }
}

impl Figure {
    /// Out of samples of which the largest is the best.
    pub fn most_is_best(samples: &[f64]) -> Figure {
        Figure::new(samples, |sorted| sorted[sorted.len() - 1])
    }

    /// Out of samples of which the smallest is the best.
    pub fn least_is_best(samples: &[f64]) -> Figure {
        Figure::new(samples, |sorted| sorted[0])
    }

    /// Where half of the samples lie, as far as the spread says: from, to.
    pub fn middle(self) -> (f64, f64) {
        let half = self.median * self.spread / 2.0;
        (self.median - half, self.median + half)
    }

    /// The same figure in another unit.
    pub fn scaled(self, factor: f64) -> Figure {
        Figure { median: self.median * factor, best: self.best * factor, ..self }
    }

    /// The same figure with a part of it taken away.
    pub fn less(self, part: f64) -> Figure {
        let spread =
            if self.median > part { self.spread * self.median / (self.median - part) } else { 0.0 };
        Figure { median: self.median - part, best: self.best - part, spread, ..self }
    }

    fn new(samples: &[f64], best: fn(&[f64]) -> f64) -> Figure {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        if sorted.is_empty() {
            return Figure::default();
        }
        let at = |share: f64| quantile(&sorted, share).unwrap_or_default();
        let median = at(0.5);
        let spread = if median == 0.0 { 0.0 } else { (at(0.75) - at(0.25)) / median };
        Figure { median, best: best(&sorted), spread, samples: sorted.len() }
    }
}

impl From<f64> for Figure {
    /// A figure measured or counted once.
    fn from(value: f64) -> Figure {
        Figure { median: value, best: value, spread: 0.0, samples: 1 }
    }
}

/// An experiment's name as a file name: `router/forward` is `router-forward`.
pub fn file_stem(experiment: &str) -> String {
    experiment.replace('/', "-")
}

/// A figure with four significant digits.
pub fn short(value: f64) -> String {
    let digits = if value == 0.0 { 0 } else { 3 - value.abs().log10().floor() as i32 };
    let text = format!("{value:.*}", digits.clamp(0, 9) as usize);
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_string()
    } else {
        text
    }
}

/// Writes beside, then renames: a run that is cut off leaves no half record.
pub(crate) fn write_whole(path: &Path, text: &str) -> Result<(), Error> {
    let beside = path.with_extension("new");
    fs::write(&beside, text).map_err(Error::file(&beside))?;
    fs::rename(&beside, path).map_err(Error::file(path))
}

fn csv_line(cells: &[String]) -> String {
    let quote = |cell: &String| {
        if cell.contains([',', '"', '\n']) {
            format!("\"{}\"", cell.replace('"', "\"\""))
        } else {
            cell.clone()
        }
    };
    let mut line = cells.iter().map(quote).collect::<Vec<_>>().join(",");
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_best_and_spread() {
        let samples = [5.0, 1.0, 3.0, 2.0, 4.0];
        let least = Figure::least_is_best(&samples);
        assert_eq!((least.median, least.best, least.samples), (3.0, 1.0, 5));
        assert!((least.spread - 2.0 / 3.0).abs() < 1e-9);
        assert_eq!(Figure::most_is_best(&samples).best, 5.0);
        assert_eq!(Figure::most_is_best(&[]), Figure::default());
        let even = Figure::most_is_best(&[1.0, 2.0]);
        assert_eq!((even.median, even.spread), (1.5, 1.0 / 3.0));
    }

    #[test]
    fn a_figure_without_samples_is_none() {
        let row = Row::default().with("rate", 2.0).with("update_us", Figure::least_is_best(&[]));
        assert_eq!((row.median("rate"), row.median("update_us")), (Some(2.0), None));
    }

    #[test]
    fn figures_print_with_four_digits() {
        let cases = [(0.0, "0"), (1234.56, "1235"), (0.012_345, "0.01235"), (12.5, "12.5")];
        for (value, text) in cases {
            assert_eq!(short(value), text);
        }
    }

    #[test]
    fn a_record_survives_its_file() {
        let folder = std::env::temp_dir().join(format!("rutter-lab-record-{}", std::process::id()));
        let row = Row::new([("engine", "a,b".to_string())]).with("rate_mlps", 5.0).checked(7);
        let record = Record {
            experiment: "x/y".into(),
            rows: vec![row],
            verdicts: vec![Verdict::at_most("fast", 3.0, 4.0, "cycles")],
            ..Record::default()
        };
        let path = record.save(&folder).unwrap();
        assert!(path.ends_with("x-y.json"));
        let read = Record::load(&path).unwrap();
        assert_eq!((read.rows, read.verdicts), (record.rows.clone(), record.verdicts.clone()));
        let csv = fs::read_to_string(path.with_extension("csv")).unwrap();
        assert_eq!(
            csv,
            "engine,rate_mlps,rate_mlps.best,rate_mlps.spread,checksum,note\n\
             \"a,b\",5,5,0,0000000000000007,\n"
        );
        fs::remove_dir_all(folder).unwrap();
    }
}
