//! What a paper says, as predicates over the rows.
//!
//! Kinds of traffic, families, instruction sets, and generated and real tables are judged
//! apart: a claim has a verdict for each of them, which names it.

use std::collections::BTreeMap;

use crate::data::kind;
use crate::record::Bound;
use crate::{Row, Verdict};

/// Label and value.
pub type Pair = (&'static str, &'static str);

/// One claim.
#[derive(Clone, Copy)]
pub enum Claim {
    /// `figure` of the rows `of` over that of the rows `to`, all other labels equal.
    Ratio {
        /// In the paper's words, with its figures.
        text: &'static str,
        /// Which figure.
        figure: &'static str,
        /// The label that distinguishes the two, and its two values.
        label: &'static str,
        /// The one said to have more.
        of: &'static str,
        /// The other.
        to: &'static str,
        /// What the text says of the factor.
        bound: Bound,
        /// Only rows with these labels.
        when: &'static [Pair],
    },
    /// `figure` at the largest value of the label `along` over that at the smallest.
    Trend {
        /// In the paper's words, with its figures.
        text: &'static str,
        /// Which figure.
        figure: &'static str,
        /// A label that holds numbers.
        along: &'static str,
        /// What the text says of the ratio of last to first.
        bound: Bound,
        /// Only rows with these labels.
        when: &'static [Pair],
    },
    /// What a [`Claim::Trend`] has over the growth of `along` itself: 1 is linear.
    Scaling {
        /// In the paper's words, with its figures.
        text: &'static str,
        /// Which figure.
        figure: &'static str,
        /// A label that holds numbers: threads, workers.
        along: &'static str,
        /// What the text says of the share of linear growth.
        bound: Bound,
        /// Only rows with these labels.
        when: &'static [Pair],
    },
    /// `figure` of each row.
    Bound {
        /// In the paper's words, with its figures.
        text: &'static str,
        /// Which figure.
        figure: &'static str,
        /// What the text says of it.
        bound: Bound,
        /// What follows the number.
        unit: &'static str,
        /// Only rows with these labels.
        when: &'static [Pair],
    },
    /// Anything else.
    Judge(fn(&[Row]) -> Vec<Verdict>),
}

impl Claim {
    /// What the rows say about it: a verdict for each kind of rows that are not compared
    /// with one another; one that is open where there are none.
    pub fn judge(&self, rows: &[Row]) -> Vec<Verdict> {
        match *self {
            Claim::Ratio { text, figure, label, of, to, bound, when } => {
                let of = (label, of, to);
                apart(rows, text, when, label, |rows| {
                    bound.judge("", &ratios(rows, figure, of, when), "×")
                })
            }
            Claim::Trend { text, figure, along, bound, when } => {
                apart(rows, text, when, along, |rows| {
                    let found = trends(rows, figure, along, when);
                    bound.judge("", &found.iter().map(|(_, y)| *y).collect::<Vec<_>>(), "×")
                })
            }
            Claim::Scaling { text, figure, along, bound, when } => {
                apart(rows, text, when, along, |rows| {
                    let found = trends(rows, figure, along, when);
                    let found: Vec<f64> = found.iter().map(|(x, y)| y / x).collect();
                    bound.judge("", &found, "of linear")
                })
            }
            Claim::Bound { text, figure, bound, unit, when } => {
                apart(rows, text, when, "", |rows| {
                    let of = rows.iter().filter(|row| row.is(when));
                    let found: Vec<f64> = of.filter_map(|row| row.median(figure)).collect();
                    bound.judge("", &found, unit)
                })
            }
            Claim::Judge(judge) => judge(rows),
        }
    }
}

/// The rows without a label that would keep apart what is to be compared.
pub fn without(rows: &[Row], label: &str) -> Vec<Row> {
    let mut rows = rows.to_vec();
    rows.iter_mut().for_each(|row| drop(row.labels.remove(label)));
    rows
}

/// The verdicts of `judge` on the kinds of `rows`, each with its kind behind `text`.
pub fn each_kind(rows: &[Row], text: &str, judge: impl Fn(&[Row]) -> Verdict) -> Vec<Verdict> {
    apart(rows, text, &[], "", judge)
}

/// The verdicts on the kinds of `rows`, `text` with the names of the kind for a claim.
/// What `compared` distinguishes is compared, not judged apart.
fn apart(
    rows: &[Row],
    text: &str,
    when: &[Pair],
    compared: &str,
    judge: impl Fn(&[Row]) -> Verdict,
) -> Vec<Verdict> {
    let mut kinds = BTreeMap::<String, Vec<Row>>::new();
    // What `when` asks for need not be named once more.
    let named = |label: &&str| *label != compared && !when.iter().any(|(name, _)| name == label);
    for row in rows {
        let of = |label: &str| match (label, row.label(label)) {
            ("table", table) => kind(table),
            (_, value) => value,
        };
        let of: Vec<&str> = APART.into_iter().filter(named).map(of).collect();
        let of: Vec<&str> = of.into_iter().filter(|value| !value.is_empty()).collect();
        kinds.entry(of.join(", ")).or_default().push(row.clone());
    }
    let judged = kinds.iter().map(|(kind, rows)| {
        let claim = if kind.is_empty() { text.into() } else { format!("{text} [{kind}]") };
        Verdict { claim, ..judge(rows) }
    });
    // A kind in which one side is missing says nothing where another says something.
    let (open, said): (Vec<_>, Vec<_>) =
        judged.partition(|verdict| verdict.ruling == crate::record::Ruling::Open);
    match (said.is_empty(), open.into_iter().next()) {
        (true, Some(open)) => vec![Verdict { claim: text.into(), ..open }],
        (true, None) => vec![Verdict { claim: text.into(), ..judge(&[]) }],
        (false, _) => said,
    }
}

/// Rows that differ in these are not compared, nor their ratios thrown together.
const APART: [&str; 4] = ["family", "table", "traffic", "isa"];

/// `figure` of `of` over that of `to` for every pair of rows that differ in
/// nothing else.
pub fn ratios(
    rows: &[Row],
    figure: &str,
    (label, of, to): (&str, &str, &str),
    when: &[(&str, &str)],
) -> Vec<f64> {
    let side = |value: &str| {
        let has = |row: &&Row| row.label(label) == value && row.is(when);
        let figures = rows.iter().filter(has).filter_map(|row| Some((row, row.median(figure)?)));
        figures.collect::<Vec<_>>()
    };
    let others = side(to);
    let same = |a: &Row, b: &Row| {
        let mut names = a.labels.keys().filter(|name| *name != label);
        // What a table is changed in has a label of its own: `long_percent`, `one_in`.
        let changed = base(a.label("table")) == base(b.label("table"))
            && a.label("table") != b.label("table");
        names.all(|name| match &**name {
            "table" | "prefixes" if changed => true,
            _ => !b.labels.contains_key(name) || a.label(name) == b.label(name),
        })
    };
    let ratio = |(row, value): (&Row, f64)| {
        let (_, other) = others.iter().find(|(other, _)| same(row, other))?;
        (*other > 0.0).then(|| value / other)
    };
    side(of).into_iter().filter_map(ratio).collect()
}

/// A table without what was changed in it.
fn base(table: &str) -> &str {
    table.split('|').next().unwrap_or(table)
}

/// Growth of a numeric label from first to last, and of a figure along it, for each line
/// of rows.
fn trends(rows: &[Row], figure: &str, along: &str, when: &[Pair]) -> Vec<(f64, f64)> {
    /// Labels of a line, and its points.
    type Lines<'r> = BTreeMap<Vec<(&'r String, &'r String)>, Vec<(f64, f64)>>;
    let mut lines = Lines::new();
    for row in rows.iter().filter(|row| row.is(when)) {
        let (Some(value), Ok(x)) = (row.median(figure), row.label(along).parse()) else { continue };
        // The table's size is part of its name.
        let sized = along != "threads" && along != "workers";
        let dependent =
            |name: &str| name == along || sized && (name == "table" || name == "prefixes");
        let line = row.labels.iter().filter(|(name, _)| !dependent(name)).collect();
        lines.entry(line).or_default().push((x, value));
    }
    let ratio = |line: Vec<(f64, f64)>| {
        let first = line.iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
        let last = line.iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
        (first.0 < last.0 && first.1 > 0.0).then(|| (last.0 / first.0, last.1 / first.1))
    };
    lines.into_values().filter_map(ratio).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Ruling::{AsStated, Contradicted, Open, Stronger};

    fn row(labels: &[(&str, &str)], rate: f64) -> Row {
        Row::new(labels.iter().copied()).with("rate", rate)
    }

    fn rows() -> Vec<Row> {
        let mut rows = Vec::new();
        for (engine, factor) in [("a", 3.0), ("b", 1.0)] {
            for (size, rate) in [("10", 8.0), ("1000", 4.0)] {
                let table = format!("internet:{size}");
                let labels = [("engine", engine), ("prefixes", size), ("table", &*table)];
                rows.push(row(&labels, rate * factor));
            }
        }
        rows
    }

    fn wins(bound: Bound) -> Claim {
        let (text, figure, label) = ("a wins", "rate", "engine");
        Claim::Ratio { text, figure, label, of: "a", to: "b", bound, when: &[] }
    }

    fn rulings(claim: Claim, rows: &[Row]) -> Vec<crate::record::Ruling> {
        claim.judge(rows).into_iter().map(|verdict| verdict.ruling).collect()
    }

    #[test]
    fn ratios_compare_what_is_alike() {
        assert_eq!(ratios(&rows(), "rate", ("engine", "a", "b"), &[]), [3.0, 3.0]);
        assert_eq!(rulings(wins(Bound::least(2.0)), &rows()), [AsStated]);
        assert_eq!(rulings(wins(Bound::least(4.0)), &rows()), [Contradicted]);
        assert_eq!(rulings(wins(Bound::gain(1.5, 2.0)), &rows()), [Stronger]);
        assert_eq!(rulings(wins(Bound::least(4.0)), &[]), [Open]);
    }

    /// Thrown together, two ratios of 0.5 and two of 2 are in the middle neither.
    #[test]
    fn traffic_tables_and_instruction_sets_are_judged_apart() {
        let mut rows = Vec::new();
        for (label, kinds) in [
            ("traffic", ["uniform", "prefix"]),
            ("table", ["internet:10", "routes-of-2015"]),
            ("isa", ["portable", "avx2"]),
            ("family", ["ipv4", "ipv6"]),
        ] {
            rows.clear();
            for (kind, rate) in kinds.into_iter().zip([2.0, 0.5]) {
                rows.push(row(&[("engine", "a"), (label, kind)], rate));
                rows.push(row(&[("engine", "b"), (label, kind)], 1.0));
            }
            let said = wins(Bound::more()).judge(&rows);
            let (mut held, mut texts) = (Vec::new(), Vec::new());
            for verdict in said {
                held.push(verdict.holds());
                texts.push(verdict.claim);
            }
            held.sort();
            assert_eq!(held, [Some(false), Some(true)], "{texts:?}");
            let names = ["generated", "uniform", "portable", "ipv4"];
            assert!(texts.iter().any(|t| names.iter().any(|n| t.contains(n))), "{texts:?}");
        }
    }

    #[test]
    fn what_is_compared_is_not_judged_apart() {
        let of = |traffic, rate| row(&[("engine", "a"), ("traffic", traffic)], rate);
        let rows = [of("repeated", 2.0), of("random", 1.0)];
        let claim = Claim::Ratio {
            text: "twice as fast",
            figure: "rate",
            label: "traffic",
            of: "repeated",
            to: "random",
            bound: Bound::about(2.0),
            when: &[],
        };
        assert_eq!(rulings(claim, &rows), [AsStated]);
    }

    /// An engine with other instructions is not what the claim compares.
    #[test]
    fn other_instruction_sets_are_not_compared() {
        let rows = [
            row(&[("engine", "a"), ("isa", "avx512")], 9.0),
            row(&[("engine", "b"), ("isa", "portable")], 1.0),
        ];
        assert_eq!(rulings(wins(Bound::more()), &rows), [Open]);
    }

    #[test]
    fn trends_go_from_the_smallest_to_the_largest() {
        let claim = |bound| Claim::Trend {
            text: "halves",
            figure: "rate",
            along: "prefixes",
            bound,
            when: &[],
        };
        assert_eq!(rulings(claim(Bound::within(0.4, 0.6)), &rows()), [AsStated]);
        assert_eq!(rulings(claim(Bound::within(0.9, 1.1)), &rows()), [Contradicted]);
    }

    /// Three times as much on two cores is no linear growth.
    #[test]
    fn scaling_has_a_bound_above() {
        let of = |twice: f64| {
            let rows = [row(&[("threads", "1")], 1.0), row(&[("threads", "2")], twice)];
            let claim = Claim::Scaling {
                text: "almost linearly",
                figure: "rate",
                along: "threads",
                bound: Bound::within(0.9, 1.0),
                when: &[],
            };
            rulings(claim, &rows)[0]
        };
        assert_eq!([1.9, 3.07, 1.2].map(of), [AsStated, Contradicted, Contradicted]);
    }

    #[test]
    fn a_bound_of_every_row_fails_by_one() {
        let claim = |most| Claim::Bound {
            text: "small",
            figure: "rate",
            bound: Bound::most(most).every(),
            unit: "M/s",
            when: &[("engine", "b")],
        };
        assert_eq!(rulings(claim(8.0), &rows()), [AsStated]);
        assert_eq!(rulings(claim(7.0), &rows()), [Contradicted]);
    }
}
