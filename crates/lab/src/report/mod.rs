//! The report: one page that needs nothing else, made from records.
//!
//! Machines and commits come first, each once; then how the papers' claims fared, and apart
//! from them our own goals; then each paper with its experiments. Pictures are SVG in the
//! page: it needs no script and no other file.

mod html;
mod lines;
mod looks;
mod origin;
mod papers;
mod picture;
mod rows;
mod scale;
mod section;
mod svg;
mod verdicts;

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
    write_whole(&path, &html::page(&records, page.is_none()))?;
    Ok((path, records.len()))
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

/// Judges the rows of every record in `folder` by the claims and goals of this program, and keeps
/// what differs; returns the experiments whose records did.
///
/// # Errors
/// When there is no record, a file cannot be read, is no record, or cannot be written.
pub fn judge(folder: &Path) -> Result<Vec<&'static str>, Error> {
    let records = load(folder)?;
    if records.is_empty() {
        return Err(Error::Empty { folder: folder.into() });
    }
    let mut changed = Vec::new();
    for record in records {
        let mut anew = record.clone();
        let mut all = experiments::all().iter();
        let Some(experiment) = all.find(|one| one.card().name == record.experiment) else {
            continue;
        };
        experiment.judge_anew(&mut anew);
        if (&anew.verdicts, &anew.notes) != (&record.verdicts, &record.notes) {
            anew.save(folder)?;
            changed.push(experiment.card().name);
        }
    }
    Ok(changed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::machine::Machine;
    use crate::record::{Figure, Row, Ruling, Verdict};

    fn page(records: &[Record]) -> String {
        html::page(records, true)
    }

    #[test]
    fn a_page_stands_alone_and_shows_claims_and_plots() {
        let rows = (14..20).map(|n| {
            Row::new([("bytes", (1_u64 << n).to_string()), ("pages", "random <lines>".into())])
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
        let page = page(&[record]);
        assert_eq!(page.matches("<figure>").count(), 2);
        assert_eq!(page.matches("class=\"plot\"").count(), 2);
        for text in [
            "Test &amp; Co",
            "<td class=\"yes\">reached</td>",
            "<td class=\"no\">missed</td>",
            "<td class=\"open\">open</td>",
            "≥ 8 reads",
            "random &lt;lines&gt;",
        ] {
            assert!(page.contains(text), "{text}");
        }
        for outside in ["<script", "<link", "src=", "@import", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
    }

    /// What a reviewer asks for: the machine once, a verdict for each claim of a paper apart
    /// from our goals, the command, the paper's own points, the difference of workload.
    #[test]
    fn a_paper_is_beside_what_was_measured_here() {
        let machine = Machine { cpu: "Zen 9".into(), release: true, ..Machine::default() };
        let row = |threads: &str, rate: f64| {
            let labels = [
                ("table", "internet:417523,hops=213"),
                ("engine", "D18R"),
                ("isa", "portable"),
                ("traffic", "random"),
                ("burst", "1"),
                ("threads", threads),
            ];
            let figure = Figure { median: rate, best: rate, spread: 0.2, samples: 11 };
            Row::new(labels).with("rate_mlps", figure)
        };
        let claim = |text: &str, ruling| Verdict {
            claim: text.into(),
            bounds: "1.18 to 1.23 ×".into(),
            measured: "1.2 ×".into(),
            ruling,
        };
        let fig3 = Record {
            experiment: "dxr/fig3".into(),
            machine: machine.clone(),
            hops: Options::HOPS,
            tables: vec!["odd name.txt".into()],
            rows: vec![row("1", 90.0), row("2", 170.0)],
            verdicts: vec![
                claim("18 to 23 % <faster>", Ruling::AsStated),
                claim("scales", Ruling::Contradicted),
                claim("our own", Ruling::Reached),
            ],
            notes: vec!["fewer cores & caches".into()],
            ..Record::default()
        };
        let ours = Record {
            experiment: "machine/limits".into(),
            machine: machine.clone(),
            verdicts: vec![Verdict { ruling: Ruling::AsStated, ..Verdict::open("overlap", "9") }],
            ..Record::default()
        };
        // It judges the papers' claims in cells of its own, and is no paper's.
        let cells = Record {
            experiment: "science/verdicts".into(),
            machine,
            verdicts: vec![claim("in this cell", Ruling::Contradicted)],
            ..Record::default()
        };
        let page = page(&[fig3, ours, cells]);
        assert_eq!(page.matches("Zen 9").count(), 1, "the machine is described once");
        for text in [
            "Of 2 claims: <span class=\"yes\">1 as stated</span>, <span class=\"no\">1 contradicted",
            "18 to 23 % &lt;faster&gt;",
            "1.18 to 1.23 ×",
            "<code>rutter lab run dxr/fig3 --table &#39;odd name.txt&#39;</code>",
            "The paper's workload",
            "fewer cores &amp; caches",
            "<td class=\"r\">117</td><td class=\"r\">90</td>",
            "dxr/table1: open: no record of it here",
            "not measured on a GPU",
            "AMD FX-8150",
        ] {
            assert!(page.contains(text), "{text}");
        }
        let own = page.find("<h5>Our own goals").expect("a table of its own");
        assert!(
            page[own..].contains("our own") && !page[..own].contains("<td class=\"w\">our own")
        );
        // The word of older records for a goal.
        assert!(page.contains("<td class=\"yes\">reached</td><td class=\"w\">overlap</td>"));
        let held = "<td class=\"no\">contradicted</td><td class=\"w\">in this cell</td>";
        assert!(page.contains(held));
    }

    /// Its rows outlive the bounds that it was judged by.
    #[test]
    fn a_record_is_judged_anew_by_its_rows() {
        let row = |threads: &str, rate: f64| {
            let labels = [("engine", "D18R".to_string()), ("threads", threads.to_string())];
            Row::new(labels).with("rate_mlps", rate)
        };
        let old = Verdict { ruling: Ruling::AsStated, ..Verdict::open("old claim", "3.07 ×") };
        let record = Record {
            experiment: "dxr/fig3".into(),
            rows: vec![row("1", 100.0), row("2", 307.0)],
            verdicts: vec![old],
            ..Record::default()
        };
        let folder = std::env::temp_dir().join(format!("rutter-judge-{}", std::process::id()));
        record.save(&folder).unwrap();
        let said = [(); 2].map(|()| judge(&folder).unwrap());
        let page = page(&load(&folder).unwrap());
        fs::remove_dir_all(folder).unwrap();
        assert_eq!(said, [vec!["dxr/fig3"], vec![]]);
        assert!(!page.contains("old claim"));
        assert!(page.contains("of linear") && page.contains(">contradicted<"), "{page}");
    }

    #[test]
    fn a_plot_without_figures_is_left_out() {
        let card = experiments::all()[0].card();
        let record = Record {
            experiment: card.name.into(),
            notes: vec!["nothing".into()],
            ..Record::default()
        };
        assert!(!page(&[record]).contains("<figure"));
    }

    #[test]
    fn a_record_of_no_experiment_is_named() {
        let record = Record { experiment: "<gone>/fig1".into(), ..Record::default() };
        assert!(page(&[record]).contains("&lt;gone&gt;/fig1"));
    }
}
