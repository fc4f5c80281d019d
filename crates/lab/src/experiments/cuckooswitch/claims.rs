//! Claims of tables of some sizes. What the paper says of small tables, which fit the L3 cache, is
//! not what it says of large ones.

use crate::lookups::Claim;
use crate::lookups::claims::{ratios, without};
use crate::record::{Bound, quantile};
use crate::{Row, Verdict};

/// What is said of tables, each as its library is compiled: no side is run with fewer instructions.
pub(super) fn whatever_isa(rows: &[Row], claims: &[Claim]) -> Vec<Verdict> {
    let rows = without(rows, "isa");
    claims.iter().flat_map(|claim| claim.judge(&rows)).collect()
}

/// `claim` of the tables that fit the L3 cache: the paper's of up to 2 million entries do, and
/// here so do 8 MB.
pub(super) fn small(rows: &[Row], claim: Claim) -> Vec<Verdict> {
    claim.judge(&of_sizes(rows, is_small))
}

/// `claim` of the tables of 256 MB and more, which did not fit any cache of the paper's time. A guest
/// may share a cache as large as that. 64 MB between the two fit one cache and not another, and
/// count as neither.
pub(super) fn large(rows: &[Row], claim: Claim) -> Vec<Verdict> {
    claim.judge(&of_sizes(rows, is_large))
}

/// `claim` of up to 16 million entries.
pub(super) fn up_to_16_m(rows: &[Row], claim: Claim) -> Vec<Verdict> {
    claim.judge(&of_sizes(rows, |entries| entries <= 16_000_000))
}

/// `claim` of more than 16 million entries, beside the largest table that has no more.
pub(super) fn from_16_m_on(rows: &[Row], claim: Claim) -> Vec<Verdict> {
    let below = rows.iter().filter_map(entries).filter(|entries| *entries <= 16_000_000).max();
    let first = below.unwrap_or(16_000_000);
    claim.judge(&of_sizes(rows, |entries| entries >= first))
}

/// What `of` has over `to` with large tables, over what it has with small ones.
pub(super) fn more_with_large(rows: &[Row], text: &str, of: &str, to: &str) -> Vec<Verdict> {
    let gain = |is: fn(usize) -> bool| {
        let found = ratios(&of_sizes(rows, is), "rate_mlps", ("engine", of, to), &[]);
        middle(found)
    };
    let found = gain(is_large).zip(gain(is_small)).map(|(large, small)| large / small);
    vec![Bound::more().judge(text, &found.into_iter().collect::<Vec<_>>(), "×")]
}

/// The rate of one value of a label over the best of `others`, at each size.
pub(super) fn best(
    rows: &[Row],
    text: &str,
    label: &str,
    (one, others): (&str, &[&str]),
) -> Vec<Verdict> {
    let over = |row: &Row| {
        let is = |other: &&Row| {
            others.contains(&other.label(label)) && other.label("entries") == row.label("entries")
        };
        let others = rows.iter().filter(is).filter_map(|other| other.median("rate_mlps"));
        Some(row.median("rate_mlps")? / others.reduce(f64::max)?)
    };
    let of = rows.iter().filter(|row| row.label(label) == one);
    let found: Vec<f64> = of.filter_map(over).collect();
    vec![Bound::least(1.0).judge(text, &found, "× the best of the others")]
}

fn middle(mut found: Vec<f64>) -> Option<f64> {
    found.sort_by(f64::total_cmp);
    quantile(&found, 0.5)
}

fn of_sizes(rows: &[Row], is: impl Fn(usize) -> bool) -> Vec<Row> {
    rows.iter().filter(|row| entries(row).is_some_and(&is)).cloned().collect()
}

fn entries(row: &Row) -> Option<usize> {
    row.label("entries").parse().ok()
}

/// The paper's tables of so many entries fit its L3 cache.
pub(in crate::experiments) fn is_small(entries: usize) -> bool {
    entries <= 2_000_000
}

fn is_large(entries: usize) -> bool {
    entries > 30_000_000
}

#[cfg(test)]
mod tests {
    use super::super::forward::FIG9;
    use super::super::tables::{FIG5, FIG6, FIG7};
    use crate::Ruling::{AsStated, Contradicted, Open, Reached, WithinNoise};
    use crate::{Experiment, Row, Ruling};

    /// Rows of tables of 1 million and 32 million entries, by a label: name, and the two rates.
    fn rows(label: &str, figure: &str, rates: &[(&str, [f64; 2])]) -> Vec<Row> {
        let mut rows = Vec::new();
        for (name, rates) in rates {
            for (entries, rate) in ["996147", "31876710"].into_iter().zip(rates) {
                let row = Row::new([(label, *name), ("entries", entries)]);
                let row = if label == "engine" { row } else { row.labelled("engine", "cuckoo") };
                rows.push(row.with(figure, *rate));
            }
        }
        rows
    }

    fn ruled(figure: &dyn Experiment, rows: &[Row], start: &str) -> Ruling {
        let mut verdicts = figure.judge(rows).into_iter();
        let found = verdicts.find(|verdict| verdict.claim.starts_with(start));
        found.unwrap_or_else(|| panic!("no claim begins with {start}")).ruling
    }

    /// Batches cost with small tables and add with large ones: thrown together, neither shows.
    #[test]
    fn batches_are_judged_by_size() {
        let rows = |small: f64, large: f64| {
            let steps = [("+ x86 order", [1.0, 1.0]), ("+ batches of 14", [small, large])];
            let rows = rows("engine", "rate_mlps", &steps);
            ["with large tables batches", "with tables that fit"].map(|t| ruled(&FIG5, &rows, t))
        };
        assert_eq!(rows(0.8, 1.15), [AsStated; 2]);
        assert_eq!(rows(1.5, 0.7), [Contradicted; 2]);
    }

    /// Rows of older records do not say which instructions they are of.
    #[test]
    fn instructions_keep_no_tables_apart() {
        let mut rows =
            rows("engine", "rate_mlps", &[("+ prefetching", [1.0; 2]), ("mac-table", [4.0; 2])]);
        assert_eq!(ruled(&FIG5, &rows, "our mac-table"), Reached);
        for row in &mut rows {
            let isa = if row.label("engine") == "mac-table" { "avx512" } else { "portable" };
            row.labels.insert("isa".into(), isa.into());
        }
        assert_eq!(ruled(&FIG5, &rows, "our mac-table"), Reached);
    }

    #[test]
    fn more_than_slightly_is_not_slightly() {
        let rows = |factor: f64| {
            let of = [("baseline", [1.0, 1.0]), ("+ large pages", [1.1, factor])];
            ruled(&FIG5, &rows("engine", "rate_mlps", &of), "huge pages")
        };
        assert_eq!([1.15, 2.0].map(rows), [AsStated, Contradicted]);
    }

    #[test]
    fn batch_sizes_are_judged_by_the_size_of_the_table() {
        let rows = |one: [f64; 2], four: [f64; 2], fourteen: [f64; 2], sixteen: [f64; 2]| {
            let of = [("1", one), ("4", four), ("14", fourteen), ("16", sixteen)];
            let rows = rows("batch", "rate_mlps", &of);
            [
                "up to batches of 4",
                "from batches of 5 on the rate increases",
                "from batches of 5 on \
             the rate slightly",
                "batches of 16 are only",
            ]
            .map(|start| ruled(&FIG6, &rows, start))
        };
        assert_eq!(rows([1.0; 2], [2.0; 2], [1.9, 3.0], [1.85, 2.9]), [AsStated; 4]);
        let faster = rows([1.0; 2], [2.0, 1.0], [3.0, 2.0], [4.0, 3.0]);
        assert_eq!(faster, [Contradicted, AsStated, Contradicted, Contradicted]);
        let [.., noise] = rows([1.0; 2], [2.0; 2], [1.0; 2], [1.04; 2]);
        assert_eq!(noise, WithinNoise);
    }

    #[test]
    fn the_exception_for_small_tables_is_theirs() {
        let rows = |dense: [f64; 2]| {
            let rows =
                rows("engine", "rate_mlps", &[("cuckoo", [2.0, 2.0]), ("google-dense", dense)]);
            ["with small tables dense", "faster than dense"].map(|start| ruled(&FIG7, &rows, start))
        };
        assert_eq!(rows([3.0, 1.0]), [AsStated; 2]);
        assert_eq!(rows([1.0, 3.0]), [Contradicted; 2]);
    }

    #[test]
    fn dense_hash_map_decreases_beyond_16_million_entries() {
        let rows = |rates: [f64; 2]| {
            let of = [("cuckoo", [10.0, 10.0]), ("google-dense", rates)];
            let rows = rows("engine", "rate_mpps", &of);
            ["dense_hash_map in bursts nearly", "dense_hash_map in bursts: from"]
                .map(|start| ruled(&FIG9, &rows, start))
        };
        assert_eq!(rows([9.5, 6.0]), [AsStated; 2]);
        assert_eq!(rows([5.0, 6.0]), [Contradicted; 2]);
        assert_eq!(ruled(&FIG9, &[], "dense_hash_map in bursts: from"), Open);
    }
}
