//! The report: one page that needs nothing else, made from records.
//!
//! Each experiment has a section: the claim, what was measured, whether they
//! agree; its plots; its figures. The machine stands at the top.

mod html;
mod marks;
mod plot;
mod ranked;

use std::fs;
use std::path::{Path, PathBuf};

use crate::record::{Record, write_whole};
use crate::{Error, experiments};

/// Writes the page of every record in `folder` to `page`, or to `report.html`
/// beside them; returns its path and the number of records.
///
/// # Errors
/// When there is no record, a file cannot be read, is no record, or cannot be written.
pub fn write(folder: &Path, page: Option<&Path>) -> Result<(PathBuf, usize), Error> {
    let records = load(folder)?;
    if records.is_empty() {
        return Err(Error::Empty { folder: folder.into() });
    }
    let path = page.map_or_else(|| folder.join("report.html"), Path::to_path_buf);
    write_whole(&path, &self::page(&records)?)?;
    Ok((path, records.len()))
}

/// The page for these records, in the registry's order.
///
/// # Errors
/// When a plot cannot be drawn.
pub fn page(records: &[Record]) -> Result<String, Error> {
    let mut sections = Vec::new();
    for experiment in experiments::all() {
        let card = experiment.card();
        for record in records.iter().filter(|record| record.experiment == card.name) {
            sections.push(html::section(card, record)?);
        }
    }
    Ok(html::page(records, &sections))
}

/// Every record in `folder`, by file name.
///
/// # Errors
/// When a file cannot be read or is no record.
pub fn load(folder: &Path) -> Result<Vec<Record>, Error> {
    let entries = fs::read_dir(folder).map_err(Error::file(folder))?;
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    paths.iter().map(|path| Record::load(path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::record::{Figure, Row, Verdict};

    #[test]
    fn a_page_stands_alone_and_shows_claims_and_plots() {
        let rows = (14..20).map(|n| {
            Row::new([("bytes", (1_u64 << n).to_string()), ("reads", "random <lines>".into())])
                .with("rate_mps", Figure::from(2000.0 / f64::from(n)))
                .with("latency_ns", f64::from(n))
        });
        let record = Record {
            experiment: "machine/limits".into(),
            quick: true,
            time_s: 1_800_000_000,
            machine: Machine { cpu: "Test & Co".into(), ..Machine::default() },
            rows: rows.collect(),
            verdicts: vec![
                Verdict::at_least("overlap", 9.0, 8.0, "reads"),
                Verdict::at_least("more overlap", 7.0, 8.0, "reads"),
                Verdict::open("unknown", "no counters here"),
            ],
            ..Record::default()
        };
        let page = page(&[record]).unwrap();
        assert_eq!(page.matches("<svg").count(), 2);
        for text in ["Test &amp; Co", "1 reached", "1 MISSED", "open", "random &lt;lines&gt;"] {
            assert!(page.contains(text), "{text}");
        }
        for outside in ["<script", "<link", "src=", "@import", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
    }

    #[test]
    fn a_plot_without_figures_is_left_out() {
        let card = experiments::all()[0].card();
        let record = Record {
            experiment: card.name.into(),
            notes: vec!["nothing".into()],
            ..Record::default()
        };
        assert!(!page(&[record]).unwrap().contains("<svg"));
    }
}
