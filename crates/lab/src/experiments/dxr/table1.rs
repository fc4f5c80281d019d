//! `dxr/table1`: sizes and build time.

use super::{LINX, TODAY, d16r_d18r};
use crate::lookups::{Claim, Measure, Part, Study};
use crate::record::Bound;
use crate::{Card, Context, Plot, Style, Takes};

/// See the module.
pub static TABLE1: Study = Study {
    card: &CARD,
    parts,
    claims: &[
        Claim::Ratio {
            text: "D18R is about twice as large as D16R (1,548,700 bytes against 800,672)",
            figure: "bytes",
            label: "engine",
            of: "D18R",
            to: "D16R",
            bound: Bound::about(1_548_700.0 / 800_672.0),
            when: &[("size", "")],
        },
        of("D16R", "D16R: 1.9 bytes a prefix", "bytes_per_prefix", 800_672.0 / 417_523.0),
        of("D18R", "D18R: 3.7 bytes a prefix", "bytes_per_prefix", 1_548_700.0 / 417_523.0),
        of("D16R", "D16R is built in 97 ms", "build_s", 0.097),
        of("D18R", "D18R is built in 221 ms", "build_s", 0.221),
    ],
    notes: &[
        "the paper's snapshots of 2012 cannot be had; generated tables of their size are used instead",
        "bytes are what the engine holds: array ends and spare room included",
    ],
};

const fn of(engine: &'static str, text: &'static str, figure: &'static str, value: f64) -> Claim {
    let when: &[(&str, &str)] = match engine.as_bytes()[2] {
        b'6' => &[("engine", "D16R"), ("size", "")],
        _ => &[("engine", "D18R"), ("size", "")],
    };
    Claim::Bound { text, figure, bound: Bound::cost_of(value), unit: "", when }
}

const CARD: Card = Card {
    name: "dxr/table1",
    takes: Takes { full_s: 8.0, quick_s: 2.0 },
    help: "bytes, chunks, ranges and build time of D16R and D18R",
    source: "DXR, table 1",
    claim: "417,523 prefixes take 0.8 MB (D16R) or 1.5 MB (D18R), built in 97 or 221 ms",
    plots: &[
        plot("Memory", "bytes_per_prefix", "bytes a prefix"),
        plot("Chunks", "chunks", "chunks"),
        plot("Build", "build_s", "s"),
    ],
};

const fn plot(title: &'static str, figure: &'static str, unit: &'static str) -> Plot {
    Plot { title, figure, unit, x: "table", series: "engine", panels: &[], style: Style::Bars }
}

fn parts(context: &Context) -> Vec<Part> {
    let tables =
        context.beside(&[LINX, "internet:421059,2,hops=38", "internet:412568,3,hops=80", TODAY]);
    let measures = [Measure::Build, Measure::Counts];
    let part = |table: &String| {
        let part = Part::ipv4(table).entrants(d16r_d18r()).measure(&measures);
        if table == TODAY { part.label("size", "today's") } else { part }
    };
    tables.iter().map(part).collect()
}
