//! `bloomfwd/table3`: prefixes before and after controlled expansion to /20, /24 and
//! /32. `bloomfwd/table5`: sizes of the filters.

use lookup::filter::Bloom;
use lookup::{Hop, Prefix};

use super::AS65000;
use crate::lookups::Claim;
use crate::{Card, Context, Error, Experiment, Plot, Record, Row, Style};

/// Table 3.
pub struct Table3;

/// Table 5.
pub struct Table5;

impl Experiment for Table3 {
    fn card(&self) -> &'static Card {
        &Card {
            name: "bloomfwd/table3",
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

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        let tables = context.tables(&[AS65000, "internet:667359,2"]);
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
        let verdicts = EXPANSION.iter().flat_map(|claim| claim.judge(&rows)).collect();
        let note =
            "generated tables of the sizes of AS65000 and SYDNEY; give real ones with --table";
        Ok(context.record(rows, verdicts, vec![note.into()]))
    }
}

impl Experiment for Table5 {
    fn card(&self) -> &'static Card {
        &Card {
            name: "bloomfwd/table5",
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
        let verdicts = SIZES.iter().flat_map(|claim| claim.judge(&rows)).collect();
        let note = "m = n log2(1/f) / ln 2, k = log2(1/f): computed for the paper's own number of prefixes";
        Ok(context.record(rows, verdicts, vec![note.into()]))
    }
}

const EXPANSION: &[Claim] = &[
    Claim::Bound {
        text: "the /21 to /24 about double (1.7 to 1.9 in the paper's tables)",
        figure: "growth",
        least: 1.4,
        most: 2.3,
        unit: "×",
        when: &[("group", "21 to 24")],
    },
    Claim::Bound {
        text: "the longer ones grow by a large factor (6 to 70)",
        figure: "growth",
        least: 6.0,
        most: 100.0,
        unit: "×",
        when: &[("group", "25 to 32")],
    },
];

const SIZES: &[Claim] = &[Claim::Ratio {
    text: "our filter has as many bits as the paper's at every ratio (within a tenth)",
    figure: "bits",
    label: "source",
    of: "here",
    to: "paper",
    least: 0.9,
    when: &[],
}];

/// How many prefixes of a group of lengths there are, and how many of its longest
/// length cover the same addresses.
fn counts(routes: &[(Prefix<u32>, Hop)], (shortest, longest): (u8, u8)) -> [u64; 2] {
    let (mut before, mut after, mut covered) = (0, 0, None);
    let group = routes.iter().filter(|(p, _)| (shortest..=longest).contains(&p.len()));
    // Ordered by address, then length: what lies in an earlier one follows it.
    for (prefix, _) in group {
        before += 1;
        if covered.is_none_or(|last| prefix.first() > last) {
            after += 1_u64 << (longest - prefix.len());
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
    fn nested_prefixes_expand_once() {
        let route = |first, len| (Prefix::new(first, len).unwrap(), Hop(1));
        let routes = [route(0x0a00_0000, 22), route(0x0a00_0100, 24), route(0x0a00_0400, 24)];
        assert_eq!(counts(&routes, (21, 24)), [3, 5]);
        assert_eq!(counts(&routes, (0, 20)), [0, 1 << 20]);
    }
}
