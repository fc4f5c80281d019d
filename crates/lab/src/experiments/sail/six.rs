//! `sail/table3.5`, `fig3.16` and `fig3.17`: memory of the hybrid for large IPv6
//! tables.

use crate::lookups::claims::{each_kind, without};
use crate::lookups::{Claim, Measure, Part, Study};
use crate::record::Bound;
use crate::{Card, Context, Plot, Row, Style, Takes, Verdict};

/// Table 3.5: bitmaps and Bloom filters.
pub static TABLE3_5: Study = Study {
    card: &Card {
        name: "sail/table3.5",
        takes: Takes { full_s: 10.0, quick_s: 1.0 },
        help: "on-chip memory of the IPv6 hybrid: bitmaps and Bloom filters",
        source: "thesis, table 3.5",
        claim: "4 MB of bitmaps and 1.04 MB of Bloom filters hold 455,900 prefixes",
        plots: &[
            plot("On-chip memory", "on_chip_bytes", "bytes"),
            plot("Of it Bloom filters", "filter_bytes", "bytes"),
        ],
    },
    parts,
    claims: &[
        Claim::Bound {
            text: "4.40 to 5.04 MB on chip for 176,000 to 456,000 prefixes",
            figure: "on_chip_bytes",
            bound: Bound::within(4.40 * MB, 5.04 * MB),
            unit: "bytes",
            when: &[],
        },
        Claim::Bound {
            text: "of it 0.40 to 1.04 MB of Bloom filters",
            figure: "filter_bytes",
            bound: Bound::within(0.40 * MB, 1.04 * MB),
            unit: "bytes",
            when: &[],
        },
    ],
    notes: &[SYNTHETIC],
};

/// Figure 3.16: pivot nodes.
pub static FIG3_16: Study = Study {
    card: &Card {
        name: "sail/fig3.16",
        takes: Takes { full_s: 10.0, quick_s: 1.0 },
        help: "pivot nodes of the IPv6 hybrid at each pivot level",
        source: "thesis, figure 3.16",
        claim: "about 300,000 pivot nodes at level 24 and 1,000 at level 54, a little more than prefixes in all",
        plots: &[
            plot("Pivot nodes at level 24", "pivots_24", "nodes"),
            plot("Pivot nodes at level 34", "pivots_34", "nodes"),
            plot("Pivot nodes at level 44", "pivots_44", "nodes"),
            plot("Pivot nodes at level 54", "pivots_54", "nodes"),
        ],
    },
    parts,
    claims: &[Claim::Judge(pivots)],
    notes: &[SYNTHETIC],
};

/// Figure 3.17: off-chip memory.
pub static FIG3_17: Study = Study {
    card: &Card {
        name: "sail/fig3.17",
        takes: Takes { full_s: 10.0, quick_s: 1.0 },
        help: "off-chip memory of the IPv6 hybrid, and of Tree Bitmap",
        source: "thesis, figure 3.17",
        claim: "39 to 99 MB in all (22.8 to 56.9 of them for pivots); Tree Bitmap takes 71 % of that",
        plots: &[
            plot("Memory", "bytes", "bytes"),
            plot("Of it hash tables, off chip", "table_bytes", "bytes"),
        ],
    },
    parts: |context| {
        let engines = ["sail6-hybrid", "tree-bitmap"];
        parts(context).into_iter().map(|part| part.engines(&engines)).collect()
    },
    claims: &[
        Claim::Bound {
            text: "39.3 to 99.3 MB in all",
            figure: "bytes",
            bound: Bound::within(39.3 * MB, 99.3 * MB),
            unit: "bytes",
            when: &[("engine", "sail6-hybrid")],
        },
        Claim::Judge(memory),
    ],
    notes: &[SYNTHETIC, "the thesis' hash tables are loaded to a tenth; ours are fuller"],
};

/// Bytes do not depend on instructions, which Tree Bitmap has more of.
fn memory(rows: &[Row]) -> Vec<Verdict> {
    let claim = Claim::Ratio {
        text: "the hybrid takes 1.4 × the memory of Tree Bitmap (71.4 %)",
        figure: "bytes",
        label: "engine",
        of: "sail6-hybrid",
        to: "tree-bitmap",
        bound: Bound::about(1.0 / 0.714),
        when: &[],
    };
    claim.judge(&without(rows, "isa"))
}

/// Most pivot nodes are at level 24, next to none at level 54.
fn pivots(rows: &[Row]) -> Vec<Verdict> {
    let share = |text: &str, to: fn(&Row) -> Option<f64>, figure: f64, unit: &str| {
        each_kind(rows, text, |rows| {
            let ratio = |row: &Row| Some(row.median("pivots_24")? / to(row)?.max(1.0));
            let found: Vec<f64> = rows.iter().filter_map(ratio).collect();
            Bound::about(figure).judge("", &found, unit)
        })
    };
    let text = "level 24 has 0.66 pivot nodes a prefix (300,000 of 455,900)";
    let prefixes = |row: &Row| row.label("prefixes").parse().ok();
    let mut verdicts = share(text, prefixes, 300.0 / 455.9, "a prefix");
    let text = "level 24 has 300 × the pivot nodes of level 54 (300,000 and 1,000)";
    verdicts.extend(share(text, |row| row.median("pivots_54"), 300.0, "×"));
    verdicts
}

/// The thesis' MB are 2^20 bytes: 4 of them hold 2^25 − 1 bits.
const MB: f64 = 1_048_576.0;

const SYNTHETIC: &str = "the thesis makes its IPv6 tables out of IPv4 ones; here they are generated, the \
                         Internet's lengths";

fn parts(context: &Context) -> Vec<Part> {
    let usual: &[&str] = context
        .pick(&["internet6:175800", "internet6:340700", "internet6:455900"], &["internet6:455900"]);
    let part = |table: &String| {
        let part = Part::ipv6(table).engines(&["sail6-hybrid"]);
        part.measure(&[Measure::Build, Measure::Counts])
    };
    context.beside(usual).iter().map(part).collect()
}

const fn plot(title: &'static str, figure: &'static str, unit: &'static str) -> Plot {
    Plot { title, figure, unit, x: "table", series: "engine", panels: &[], style: Style::Bars }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ruling::{AsStated, Contradicted};

    #[test]
    fn memory_is_compared_whatever_the_instructions() {
        let ruled = |hybrid: f64| {
            let rows = [("sail6-hybrid", "portable", hybrid), ("tree-bitmap", "avx2", 10.0)];
            let row = |(engine, isa, bytes)| {
                Row::new([("engine", engine), ("isa", isa)]).with("bytes", bytes)
            };
            memory(&rows.map(row))[0].ruling
        };
        assert_eq!([14.0, 20.0, 9.0].map(ruled), [AsStated, Contradicted, Contradicted]);
    }
}
