//! `cuvpp/table3`: cache misses.

use std::fmt;

use lookup::lpm::Options;

use super::ENGINES;
use crate::contestants;
use crate::data::short_name;
use crate::lookups::Claim;
use crate::misses::Counter;
use crate::record::Bound;
use crate::{Card, Context, Error, Experiment, Plot, Record, Row, Style, Takes, Verdict};

/// See the module.
pub struct Table3;

impl Experiment for Table3 {
    fn card(&self) -> &'static Card {
        &Card {
            name: "cuvpp/table3",
            takes: Takes { full_s: 80.0, quick_s: 40.0 },
            help: "cache references and misses of lookups by the four data planes",
            source: "CuVPP, table III",
            claim: "misses: base 6.6 %, Bloom 6.1 %, trie 2.7 %, CuVPP 0.2 % of the references",
            plots: &[
                Plot {
                    title: "Cache misses",
                    figure: "miss_percent",
                    unit: "% of the references",
                    x: "engine",
                    series: "counter",
                    panels: &["table"],
                    style: Style::Bars,
                },
                Plot {
                    title: "Cache misses of a lookup",
                    figure: "misses_per_lookup",
                    unit: "misses",
                    x: "engine",
                    series: "counter",
                    panels: &["table"],
                    style: Style::Bars,
                },
            ],
        }
    }

    fn families(&self, _: &Context) -> &'static [&'static str] {
        &["ipv6"]
    }

    fn takes_engine(&self, _: &Context, engine: &str) -> bool {
        contestants::named::<u128>(engine, Options::default()).is_ok()
    }

    fn judge(&self, rows: &[Row]) -> Vec<Verdict> {
        CLAIMS.iter().flat_map(|claim| claim.judge(rows)).collect()
    }

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        let counter = Counter::here(context.pick(4 * REDUCED_CACHE, REDUCED_CACHE));
        let (usual, lookups): (&str, u64) = match counter {
            Counter::Perf => ("rv-linx:500000", 500_000),
            Counter::Cachegrind(_) => {
                (context.pick("rv-linx:100000", "rv-linx:20000"), context.pick(100_000, 40_000))
            }
        };
        let engines = contestants::asked::<u128>(context, ENGINES);
        let mut cells = Vec::new();
        for table in context.beside(&[usual]) {
            cells.extend(engines.iter().map(|engine| Cell(engine.clone(), table.clone())));
        }
        let rows = context.cells(cells, |_, Cell(engine, table)| {
            let name = match counter {
                Counter::Perf => "perf",
                Counter::Cachegrind(_) => "cachegrind",
            };
            let labels = [
                ("engine", engine.to_string()),
                ("table", short_name(table)),
                ("counter", name.into()),
            ];
            let row = Row::new(labels);
            Ok(vec![match counter.count(engine, table, lookups) {
                Ok(found) => {
                    let row = match &found.isa {
                        Some(isa) => row.labelled("isa", isa),
                        None => row,
                    };
                    let share = found.misses as f64 * 100.0 / found.references.max(1) as f64;
                    row.with("references", found.references as f64)
                        .with("misses", found.misses as f64)
                        .with("miss_percent", share)
                        .with("misses_per_lookup", found.misses as f64 / lookups as f64)
                }
                Err(reason) => row.noting(reason),
            }])
        })?;
        let verdicts = self.judge(&rows);
        let note = match counter {
            Counter::Perf => {
                "hardware counters, by perf; what building the table costs is taken away".into()
            }
            Counter::Cachegrind(bytes) => format!(
                "no hardware counters here: simulated by cachegrind on a reduced run ({lookups} \
                 lookups; a last level of {bytes} bytes, as much smaller than the paper's 25 MB as \
                 {usual} is than its 500,000 prefixes); building the table is taken away"
            ),
        };
        Ok(context.record(rows, verdicts, vec![note]))
    }
}

/// An engine on a table.
struct Cell(String, String);

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.0, self.1)
    }
}

const CLAIMS: &[Claim] = &[
    fewer("vpp-hash", "base VPP misses 34 × as large a share as CuVPP", 6.640 / 0.195),
    fewer("vpp-bloom", "with a Bloom filter the share is 31 × CuVPP's", 6.114 / 0.195),
    fewer("vpp-trie", "with a trie the share is 14 × CuVPP's", 2.716 / 0.195),
];

/// More is stronger.
const fn fewer(of: &'static str, text: &'static str, factor: f64) -> Claim {
    let (figure, label, to) = ("miss_percent", "engine", "cuvpp");
    Claim::Ratio { text, figure, label, of, to, bound: Bound::gain_of(factor), when: &[] }
}

/// 25 MB × 20,000 / 500,000, as a power of two.
const REDUCED_CACHE: u32 = 1 << 20;
