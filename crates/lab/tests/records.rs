//! The committed records: what this program makes of their rows, and whether it could have made
//! something else of others.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use lab::{Experiment, Record, Row, Ruling};

/// Each record of an experiment that there is.
fn committed() -> Vec<(&'static dyn Experiment, Record)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lab/records");
    let records = lab::report::load(&folder).expect("they are in the repository").into_iter();
    let named = |record: Record| {
        let mut all = lab::experiments::all().iter().copied();
        Some((all.find(|one| one.card().name == record.experiment)?, record))
    };
    records.filter_map(named).collect()
}

/// Bounds that changed are judged anew by `rutter-lab judge -o docs/lab/records`; then the page is
/// made again.
#[test]
fn committed_verdicts_are_those_of_this_program() {
    for (experiment, record) in committed() {
        let mut anew = record.clone();
        experiment.judge_anew(&mut anew);
        let same = anew.verdicts == record.verdicts && anew.notes == record.notes;
        assert!(same, "{}: rutter-lab judge -o docs/lab/records", record.experiment);
    }
}

/// A claim that holds whatever the rows, or that finds nothing to compare, is none.
#[test]
fn every_claim_can_be_contradicted() {
    let (mut random, mut cannot) = (Random(1), Vec::new());
    for (experiment, record) in committed() {
        let usual = experiment.judge(&record.rows).into_iter();
        let mut left: BTreeSet<String> = usual
            .filter(|verdict| verdict.ruling != Ruling::Beside)
            .map(|verdict| verdict.claim)
            .collect();
        for _ in 0..TRIALS {
            let rows: Vec<Row> = record.rows.iter().map(|row| random.changed(row)).collect();
            for verdict in experiment.judge(&rows) {
                if verdict.holds() == Some(false) {
                    left.remove(&verdict.claim);
                }
            }
            if left.is_empty() {
                break;
            }
        }
        let name = record.experiment;
        cannot.extend(left.into_iter().map(|claim| format!("{name}: {claim}")));
    }
    let unknown = |one: &String| !NOT_HERE.iter().any(|known| one.starts_with(known));
    cannot.retain(unknown);
    assert!(cannot.is_empty(), "{cannot:#?}");
}

/// What a machine of two cores does not measure.
const NOT_HERE: [&str; 1] = ["bloomfwd/fig2: on the CPU all have very similar rates at scale"];

/// How often the rows of a record are changed.
const TRIALS: usize = 200;

/// Knuth's MMIX generator.
struct Random(u64);

impl Random {
    /// From 0 to 1.
    fn next(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// The same row, but each figure another: a thousandth to a thousand times, and a loss where
    /// there was none.
    fn changed(&mut self, row: &Row) -> Row {
        let mut figures = BTreeMap::new();
        for (name, figure) in &row.figures {
            let factor = 10_f64.powf(6.0 * self.next() - 3.0);
            let of = |value: f64| if value <= 0.0 { factor } else { value * factor };
            let mut figure = *figure;
            (figure.median, figure.best) = (of(figure.median), of(figure.best));
            figures.insert(name.clone(), figure);
        }
        Row { figures, ..row.clone() }
    }
}
