//! `bloomfwd/table3` and `table4`: prefixes before and after controlled expansion.
//! `bloomfwd/table5`: sizes of the filters.

use lookup::filter::Bloom;
use lookup::lpm::bloomfwd::expand::{Counts, cost, greedy, optimal};
use lookup::{Addr, Hop, Prefix};

use super::{AS65000, AS65000_V6};
use crate::lookups::Claim;
use crate::lookups::claims::each_kind;
use crate::record::Bound;
use crate::{Card, Context, Error, Experiment, Plot, Record, Row, Style, Takes, Verdict};

/// Table 3.
pub struct Table3;

/// Table 4.
pub struct Table4;

/// Table 5.
pub struct Table5;

impl Experiment for Table3 {
    fn card(&self) -> &'static Card {
        &Card {
            name: "bloomfwd/table3",
            takes: Takes { full_s: 2.0, quick_s: 1.0 },
            help: "prefixes by length before and after expansion to /20, /24 and /32",
            source: "Bloomfwd, table 3",
            claim: "516,699 prefixes of /21 to /24 become 971,555 of /24; 1,625 longer ones 113,397 of /32",
            plots: &[Plot {
                title: "Prefixes before and after expansion",
                figure: "prefixes_of_group",
                unit: "prefixes",
                x: "group",
                series: "state",
                panels: &["table"],
                style: Style::Bars,
            }],
        }
    }

    fn families(&self, _: &Context) -> &'static [&'static str] {
        &["ipv4"]
    }

    fn judge(&self, rows: &[Row]) -> Vec<Verdict> {
        EXPANSION.iter().flat_map(|claim| claim.judge(rows)).collect()
    }

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        let tables = context.beside(&[AS65000, "internet:667359,2"]);
        let rows = context.cells(tables, |context, name| {
            let table = context.load(name)?;
            let mut rows = Vec::new();
            for group in GROUPS {
                let [before, after] = counts(&table.ipv4, group).map(|n| n as f64);
                for (state, n) in [("original", before), ("expanded", after)] {
                    let labels = [
                        ("table", table.name.clone()),
                        ("group", format!("{} to {}", group.0, group.1)),
                        ("state", state.to_string()),
                    ];
                    let row = Row::new(labels).with("prefixes_of_group", n);
                    rows.push(row.with("growth", after / before.max(1.0)));
                }
            }
            Ok(rows)
        })?;
        let verdicts = self.judge(&rows);
        let note =
            "generated tables of the sizes of AS65000 and SYDNEY; give real ones with --table";
        Ok(context.record(rows, verdicts, vec![note.into()]))
    }
}

impl Experiment for Table4 {
    fn card(&self) -> &'static Card {
        &Card {
            name: "bloomfwd/table4",
            takes: Takes { full_s: 2.0, quick_s: 1.0 },
            help: "IPv6 prefixes after expansion to 4 to 8 levels: the paper's choice and the best",
            source: "Bloomfwd, table 4",
            claim: "AS65000-V6: 31,645 prefixes become 60,000 at 8 levels, 380,000 at 5, 1,166,000 at 4",
            plots: &[Plot {
                title: "Prefixes after expansion",
                figure: "expanded",
                unit: "prefixes",
                x: "levels",
                series: "choice",
                panels: &["table"],
                style: Style::LogY,
            }],
        }
    }

    fn families(&self, _: &Context) -> &'static [&'static str] {
        &["ipv6"]
    }

    fn judge(&self, rows: &[Row]) -> Vec<Verdict> {
        levels_needed(rows)
    }

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        let tables = context.beside(&[AS65000_V6, "internet6:42663,2", "internet6:200000"]);
        let rows = context.cells(tables, |context, name| {
            let table = context.load(name)?;
            Ok((4..=8).flat_map(|n| levels(&table.name, &table.ipv6, n)).collect())
        })?;
        let verdicts = self.judge(&rows);
        let note = "prefixes up to /64; estimated is the paper's cost, which counts keys that longer prefixes own";
        Ok(context.record(rows, verdicts, vec![note.into()]))
    }
}

impl Experiment for Table5 {
    fn card(&self) -> &'static Card {
        &Card {
            name: "bloomfwd/table5",
            takes: Takes { full_s: 1.0, quick_s: 1.0 },
            help: "bits and hash functions of the two filters by false-positive ratio",
            source: "Bloomfwd, table 5",
            claim: "AS65000, filter of the /24s: 9,312,412 bits and k = 7 at 1 %, 213,057 bits and k = 1 at 90 %",
            plots: &[Plot {
                title: "Bits of the filter for 971,555 prefixes of /24",
                figure: "bits",
                unit: "bits",
                x: "ratio_percent",
                series: "source",
                panels: &[],
                style: Style::Lines,
            }],
        }
    }

    fn judge(&self, rows: &[Row]) -> Vec<Verdict> {
        SIZES.iter().flat_map(|claim| claim.judge(rows)).collect()
    }

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        let rows = context.cells(["AS65000"], |_, _| {
            let rows = PAPER.iter().flat_map(|&(percent, bits, k)| {
                let ours = Bloom::size(PREFIXES, f64::from(percent) / 100.0);
                [("paper", (bits, k)), ("here", ours)].map(|(source, (bits, k))| {
                    let labels =
                        [("ratio_percent", percent.to_string()), ("source", source.to_string())];
                    Row::new(labels).with("bits", bits as f64).with("k", f64::from(k))
                })
            });
            Ok(rows.collect())
        })?;
        let verdicts = self.judge(&rows);
        let note = "m = n log2(1/f) / ln 2, k = log2(1/f): computed for the paper's own number of prefixes";
        Ok(context.record(rows, verdicts, vec![note.into()]))
    }
}

/// One row for the paper's choice of `n` levels, one for the best.
fn levels(table: &str, routes: &[(Prefix<u128>, Hop)], n: usize) -> Vec<Row> {
    let mut by_length: Counts = [0; 129];
    let routed = routes.iter().filter(|(prefix, _)| (1..=64).contains(&prefix.len()));
    routed.for_each(|(prefix, _)| by_length[usize::from(prefix.len())] += 1);
    let all: u64 = by_length.iter().sum();
    let choices = [("greedy", greedy(&by_length, n, 64)), ("optimal", optimal(&by_length, n, 64))];
    let row = |(choice, levels): (&str, Vec<u8>)| {
        let from = [0].into_iter().chain(levels.iter().copied());
        let each = from.zip(&levels).map(|(from, to)| counts(routes, (from + 1, *to))[1]);
        let expanded = each.sum::<u64>() as f64;
        let names: Vec<String> = levels.iter().map(u8::to_string).collect();
        let labels = [
            ("table", table.to_string()),
            ("levels", n.to_string()),
            ("choice", choice.to_string()),
            ("lengths", names.join(" ")),
        ];
        Row::new(labels)
            .with("expanded", expanded)
            .with("estimated", cost(&by_length, &levels) as f64)
            .with("growth", expanded / all.max(1) as f64)
    };
    choices.into_iter().map(row).collect()
}

/// What the paper's table says of its choice: how many prefixes there are, and how far off
/// the estimates are (0.87 for LINX at 6 levels, 1.90 for EQUINIX at 5).
fn levels_needed(rows: &[Row]) -> Vec<Verdict> {
    let judged = |text: &str, bound: Bound, n: Option<&str>, figure: fn(&Row) -> Option<f64>| {
        each_kind(rows, text, |rows| {
            let of = rows.iter().filter(|row| row.is(&[("choice", "greedy")]));
            let of = of.filter(|row| n.is_none_or(|n| row.is(&[("levels", n)])));
            bound.judge("", &of.filter_map(figure).collect::<Vec<_>>(), "×")
        })
    };
    let over_estimate = |row: &Row| Some(row.median("expanded")? / row.median("estimated")?);
    let grown = [
        ("8", "8 levels: 1.9 to 5.6 × as many", Bound::within(1.9, 5.57)),
        ("5", "5 levels: 12 to 87 × as many", Bound::within(12.0, 86.6)),
        ("4", "4 levels: 37 to 148 × as many", Bound::within(36.8, 148.0)),
    ];
    let grown = grown
        .into_iter()
        .flat_map(|(n, text, bound)| judged(text, bound, Some(n), |row| row.median("growth")));
    let text = "0.87 to 1.9 × as many as estimated, on every table";
    let estimates = judged(text, Bound::within(0.873, 1.9).every(), None, over_estimate);
    grown.chain(estimates).collect()
}

const EXPANSION: &[Claim] = &[
    Claim::Bound {
        text: "the /21 to /24 become 1.87 to 1.90 times as many",
        figure: "growth",
        bound: Bound::within(1.87, 1.90),
        unit: "×",
        when: &[("group", "21 to 24")],
    },
    Claim::Bound {
        text: "the longer ones become 6.2 to 70 times as many",
        figure: "growth",
        bound: Bound::within(6.2, 69.8),
        unit: "×",
        when: &[("group", "25 to 32")],
    },
];

const SIZES: &[Claim] = &[Claim::Ratio {
    text: "our filter has as many bits as the paper's at every ratio",
    figure: "bits",
    label: "source",
    of: "here",
    to: "paper",
    bound: Bound::about(1.0).every(),
    when: &[],
}];

/// How many prefixes of a group of lengths there are, and how many of its longest
/// length cover the same addresses.
fn counts<A: Addr>(routes: &[(Prefix<A>, Hop)], (shortest, longest): (u8, u8)) -> [u64; 2] {
    let (mut before, mut after, mut covered) = (0, 0, None);
    let group = routes.iter().filter(|(p, _)| (shortest..=longest).contains(&p.len()));
    // Ordered by address, then length: what lies in an earlier one follows it.
    for (prefix, _) in group {
        before += 1;
        if covered.is_none_or(|last| prefix.first() > last) {
            after = 1_u64.wrapping_shl(u32::from(longest - prefix.len())).saturating_add(after);
            covered = Some(prefix.last());
        }
    }
    // Up to /20 there is a direct array, always full.
    if shortest == 0 { [before, 1 << longest] } else { [before, after] }
}

const GROUPS: [(u8, u8); 3] = [(0, 20), (21, 24), (25, 32)];

/// AS65000's prefixes of /24 after expansion.
const PREFIXES: usize = 971_555;

/// Ratio in percent, m and k of the first filter for AS65000.
const PAPER: [(u32, u64, u32); 5] = [
    (1, 9_312_412, 7),
    (10, 4_656_206, 4),
    (30, 2_434_631, 2),
    (60, 1_032_974, 1),
    (90, 213_057, 1),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_that_is_far_off_is_found() {
        let ruled = |expanded: f64| {
            let row = |choice: &str, expanded: f64| {
                let labels = [("table", "internet6:9"), ("levels", "5"), ("choice", choice)];
                let row = Row::new(labels).with("estimated", 10.0);
                row.with("expanded", expanded).with("growth", 20.0)
            };
            // The best levels are no claim of the paper's.
            let rows = [row("greedy", expanded), row("optimal", 1.0)];
            levels_needed(&rows).pop().unwrap().holds()
        };
        assert_eq!([10.0, 18.0].map(ruled), [Some(true); 2]);
        assert_eq!([5.0, 30.0].map(ruled), [Some(false); 2]);
    }

    #[test]
    fn nested_prefixes_expand_once() {
        let route = |first: u32, len| (Prefix::new(first, len).unwrap(), Hop(1));
        let routes = [route(0x0a00_0000, 22), route(0x0a00_0100, 24), route(0x0a00_0400, 24)];
        assert_eq!(counts(&routes, (21, 24)), [3, 5]);
        assert_eq!(counts(&routes, (0, 20)), [0, 1 << 20]);
    }
}
