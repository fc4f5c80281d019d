//! `machine/limits`: how fast one core reads memory.
//!
//! ```text
//!  dependent     the next place is known only when this read is done: latency
//!  independent   places are known beforehand: reads in flight at once
//! ```
//!
//! A lookup of `r` reads in a table whose touched lines fill a region can be no
//! faster than the independent rate of that region divided by `r`; on small pages,
//! or on those of 2 MB on which our tables lie.

use std::fmt;

use lookup::pages::Kind;

use crate::lines::Lines;
use crate::slices::Variant;
use crate::{Card, Context, Error, Experiment, Plot, Record, Row, Style, Takes, Verdict};

/// See the module.
pub struct Limits;

impl Experiment for Limits {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn judge(&self, rows: &[Row]) -> Vec<Verdict> {
        let gain = |row: &Row| Some(row.median("rate_mps")? * row.median("latency_ns")? / 1e3);
        vec![match (rows.first().and_then(gain), rows.last().and_then(gain)) {
            (Some(first), Some(last)) => Verdict::at_least(
                "independent reads overlap at least 8-fold in the largest region",
                last,
                8.0,
                &format!("reads in flight ({} in the smallest)", crate::record::short(first)),
            ),
            _ => Verdict::open("independent reads overlap", "not measured"),
        }]
    }

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        let (large, small) = context.pick((33, 30), (26, 26));
        let regions = PAGES.into_iter().flat_map(|pages| {
            let most = if pages.1 == Kind::Small { small } else { large };
            (14..=most).map(move |bits| Region { bits, pages })
        });
        let rows = context.cells(regions, |context, region| Ok(vec![measure(context, *region)]))?;
        let verdicts = self.judge(&rows);
        let note = "2 MB: transparent huge pages, which the system is asked for; see the machine's";
        Ok(context.record(rows, verdicts, vec![note.into()]))
    }
}

const CARD: Card = Card {
    name: "machine/limits",
    takes: Takes { full_s: 120.0, quick_s: 3.0 },
    help: "memory reads of one core: dependent latency and independent rate by region size",
    source: "the roofline of every lookup",
    claim: "the footprint of the touched lines is the rate: reads overlap, but every cache level has a ceiling",
    plots: &[
        Plot {
            title: "Independent random reads",
            figure: "rate_mps",
            unit: "million reads/s",
            x: "bytes",
            series: "pages",
            panels: &[],
            style: Style::LogLines,
        },
        Plot {
            title: "Dependent read latency",
            figure: "latency_ns",
            unit: "ns",
            x: "bytes",
            series: "pages",
            panels: &[],
            style: Style::LogLines,
        },
    ],
};

/// A region of 2^`bits` bytes.
#[derive(Clone, Copy)]
struct Region {
    bits: u32,
    pages: (&'static str, Kind),
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "2^{} bytes, pages of {}", self.bits, self.pages.0)
    }
}

fn measure(context: &Context, Region { bits, pages: (name, pages) }: Region) -> Row {
    let bytes = (1_u64 << bits).to_string();
    let row = Row::new([("bytes", bytes), ("pages", name.to_string())]);
    let lines = match Lines::new(1 << (bits - 6), pages) {
        Ok(lines) => lines.linked(),
        Err(reason) => return row.noting(reason),
    };
    let mut variants = [
        Variant::new("dependent", lines.dependent()),
        Variant::new("independent", lines.independent()),
    ];
    let timings = context.measure(&mut variants);
    row.with("latency_ns", timings[0].nanos)
        .with("latency_cycles", timings[0].cycles)
        .with("rate_mps", timings[1].rate.scaled(1e-6))
        .with("independent_cycles", timings[1].cycles)
}

const PAGES: [(&str, Kind); 2] = [("4 KB", Kind::Small), ("2 MB", Kind::Transparent)];
