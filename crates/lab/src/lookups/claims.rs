//! What a paper says, as predicates over the rows.

use std::collections::BTreeMap;

use crate::record::short;
use crate::{Row, Verdict};

/// Label and value.
pub type Pair = (&'static str, &'static str);

/// One claim.
#[derive(Clone, Copy)]
pub enum Claim {
    /// `figure` of the rows `of` is at least `least` times that of the rows `to`,
    /// all other labels equal; the middle one of all such pairs counts.
    Ratio {
        /// In the paper's words, with its figures.
        text: &'static str,
        /// Which figure.
        figure: &'static str,
        /// Which label tells the two apart, and its two values.
        label: &'static str,
        /// The one said to have more.
        of: &'static str,
        /// The other.
        to: &'static str,
        /// By which factor at least.
        least: f64,
        /// Only rows with these labels.
        when: &'static [Pair],
    },
    /// `figure` at the largest value of the label `along` over that at the smallest
    /// lies between `least` and `most`; the middle one of all lines counts.
    Trend {
        /// In the paper's words, with its figures.
        text: &'static str,
        /// Which figure.
        figure: &'static str,
        /// A label that holds numbers.
        along: &'static str,
        /// The least ratio of last to first.
        least: f64,
        /// The largest.
        most: f64,
        /// Only rows with these labels.
        when: &'static [Pair],
    },
    /// `figure` lies between `least` and `most` in every row.
    Bound {
        /// In the paper's words, with its figures.
        text: &'static str,
        /// Which figure.
        figure: &'static str,
        /// The least value.
        least: f64,
        /// The largest.
        most: f64,
        /// What stands behind the number.
        unit: &'static str,
        /// Only rows with these labels.
        when: &'static [Pair],
    },
    /// Anything else.
    Judge(fn(&[Row]) -> Vec<Verdict>),
}

impl Claim {
    /// What the rows say about it.
    pub fn judge(&self, rows: &[Row]) -> Vec<Verdict> {
        match *self {
            Claim::Ratio { text, figure, label, of, to, least, when } => {
                let found = ratios(rows, figure, (label, of, to), when);
                vec![verdict(text, &found, least, f64::INFINITY, "×")]
            }
            Claim::Trend { text, figure, along, least, most, when } => {
                vec![verdict(text, &trends(rows, figure, along, when), least, most, "×")]
            }
            Claim::Bound { text, figure, least, most, unit, when } => {
                let of = rows.iter().filter(|row| row.is(when));
                let found: Vec<f64> = of.filter_map(|row| row.median(figure)).collect();
                let all = found.iter().all(|value| (least..=most).contains(value));
                let middle = verdict(text, &found, least, most, unit);
                vec![Verdict { confirmed: middle.confirmed.map(|_| all), ..middle }]
            }
            Claim::Judge(judge) => judge(rows),
        }
    }
}

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
        names.all(|name| !b.labels.contains_key(name) || a.label(name) == b.label(name))
    };
    let ratio = |(row, value): (&Row, f64)| {
        let (_, other) = others.iter().find(|(other, _)| same(row, other))?;
        (*other > 0.0).then(|| value / other)
    };
    side(of).into_iter().filter_map(ratio).collect()
}

/// Last over first along a numeric label, for each line of rows.
fn trends(rows: &[Row], figure: &str, along: &str, when: &[Pair]) -> Vec<f64> {
    /// Labels of a line, and its points.
    type Lines<'r> = BTreeMap<Vec<(&'r String, &'r String)>, Vec<(f64, f64)>>;
    let mut lines = Lines::new();
    for row in rows.iter().filter(|row| row.is(when)) {
        let (Some(value), Ok(x)) = (row.median(figure), row.label(along).parse()) else { continue };
        // The table's size is part of its name.
        let dependent = |name: &str| name == along || name == "table" || name == "prefixes";
        let line = row.labels.iter().filter(|(name, _)| !dependent(name)).collect();
        lines.entry(line).or_default().push((x, value));
    }
    let ratio = |line: Vec<(f64, f64)>| {
        let first = line.iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
        let last = line.iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
        (first.0 < last.0 && first.1 > 0.0).then(|| last.1 / first.1)
    };
    lines.into_values().filter_map(ratio).collect()
}

/// The middle one of `found` against both bounds.
pub fn verdict(text: &str, found: &[f64], least: f64, most: f64, unit: &str) -> Verdict {
    let mut sorted = found.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(middle) = sorted.get(sorted.len() / 2).copied() else {
        return Verdict::open(text, "nothing to compare took part");
    };
    let (low, high) = (sorted[0], sorted[sorted.len() - 1]);
    let measured = match sorted.len() {
        1 => format!("{} {unit}", short(middle)),
        n => format!("{} {unit} ({} to {}, {n} cases)", short(middle), short(low), short(high)),
    };
    let confirmed = Some((least..=most).contains(&middle));
    Verdict { claim: text.to_string(), measured, confirmed }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Row> {
        let mut rows = Vec::new();
        for (engine, factor) in [("a", 3.0), ("b", 1.0)] {
            for (size, rate) in [("10", 8.0), ("1000", 4.0)] {
                let labels = [("engine", engine), ("prefixes", size), ("table", size)];
                let row = Row::new(labels.map(|(name, value)| (name, value.to_string())));
                rows.push(row.with("rate", rate * factor));
            }
        }
        rows
    }

    #[test]
    fn ratios_compare_what_is_alike() {
        assert_eq!(ratios(&rows(), "rate", ("engine", "a", "b"), &[]), [3.0, 3.0]);
        let claim = |least| Claim::Ratio {
            text: "a wins",
            figure: "rate",
            label: "engine",
            of: "a",
            to: "b",
            least,
            when: &[("prefixes", "10")],
        };
        assert_eq!(claim(2.0).judge(&rows())[0].confirmed, Some(true));
        assert_eq!(claim(4.0).judge(&rows())[0].confirmed, Some(false));
        assert_eq!(claim(4.0).judge(&[])[0].confirmed, None);
    }

    #[test]
    fn trends_go_from_the_smallest_to_the_largest() {
        let claim = |least, most| Claim::Trend {
            text: "halves",
            figure: "rate",
            along: "prefixes",
            least,
            most,
            when: &[],
        };
        assert_eq!(claim(0.4, 0.6).judge(&rows())[0].confirmed, Some(true));
        assert_eq!(claim(0.9, 1.1).judge(&rows())[0].confirmed, Some(false));
    }

    #[test]
    fn a_bound_holds_for_every_row() {
        let claim = |most| Claim::Bound {
            text: "small",
            figure: "rate",
            least: 0.0,
            most,
            unit: "M/s",
            when: &[("engine", "b")],
        };
        assert_eq!(claim(8.0).judge(&rows())[0].confirmed, Some(true));
        assert_eq!(claim(7.0).judge(&rows())[0].confirmed, Some(false));
    }
}
