//! `sail/table3.2`: the bounds of the SAIL family. `sail/table3.4`: how many
//! prefixes are long.

use super::collectors;
use crate::lookups::{Claim, Measure, Part, Study};
use crate::record::Bound;
use crate::{Card, Context, Error, Experiment, Plot, Record, Row, Style, Takes, Verdict};

/// Table 3.2.
pub static TABLE3_2: Study = Study {
    card: &Card {
        name: "sail/table3.2",
        takes: Takes { full_s: 25.0, quick_s: 2.0 },
        help: "on-chip bytes and accesses an update of SAIL_B, SAIL_U and SAIL_L against their bounds",
        source: "thesis, table 3.2",
        claim: "on-chip memory: SAIL_B 4 MB, SAIL_U 2.03 MB, SAIL_L 2.13 MB; SAIL_B and SAIL_U write it once an update",
        plots: &[
            plot("On-chip memory", "on_chip_bytes", "bytes"),
            plot("Most on-chip words of one update", "update_on_chip_most_per_update", "words"),
        ],
    },
    parts: |context| {
        let part = |table: &String| {
            let part = Part::ipv4(table).engines(&["sail-b", "sail-u", "sail-l"]);
            part.measure(&[Measure::Build, Measure::Counts, Measure::Updates])
        };
        collectors(context, 3, 2).iter().map(part).collect()
    },
    claims: &[
        on_chip("SAIL_B: 4 MB on chip", "sail-b", (3.5, 4.5)),
        on_chip("SAIL_U: at most 2.03 MB on chip", "sail-u", (0.0, 2.035)),
        on_chip("SAIL_L: at most 2.13 MB on chip", "sail-l", (0.0, 2.135)),
        once("SAIL_B: one on-chip access an update at most", "sail-b"),
        once("SAIL_U: one on-chip access an update at most", "sail-u"),
    ],
    notes: &[
        "an access is a word of 64 bits written by one update",
        "bounds are as exact as the text; MB are of 2^20 bytes. Six levels of SAIL_B and SAIL_U lie \
         in one word, of which one bit in 64 is free: 33 KB of the 4.03 MB",
    ],
};

/// Table 3.4.
pub struct Table34;

impl Experiment for Table34 {
    fn card(&self) -> &'static Card {
        &Card {
            name: "sail/table3.4",
            takes: Takes { full_s: 5.0, quick_s: 2.0 },
            help: "share of the prefixes that are longer than /24",
            source: "thesis, table 3.4",
            claim: "0.25 to 7.6 % of the prefixes of 24 tables are longer than /24, mostly 1 to 2 %",
            plots: &[Plot {
                title: "Prefixes longer than /24",
                figure: "long_percent",
                unit: "%",
                x: "table",
                series: "family",
                panels: &[],
                style: Style::Ranked,
            }],
        }
    }

    fn families(&self, _: &Context) -> &'static [&'static str] {
        &["ipv4"]
    }

    fn judge(&self, rows: &[Row]) -> Vec<Verdict> {
        LONG.judge(rows)
    }

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        let tables = context.beside(&["internet:114069", "internet:467000", "internet:1100000"]);
        let rows = context.cells(tables, |context, name| {
            let table = context.load(name)?;
            let long = table.ipv4.iter().filter(|(prefix, _)| prefix.len() > 24).count();
            let labels = [
                ("family", "ipv4".to_string()),
                ("table", table.name.clone()),
                ("prefixes", table.ipv4.len().to_string()),
            ];
            let share = long as f64 * 100.0 / table.ipv4.len().max(1) as f64;
            Ok(vec![Row::new(labels).with("long", long as f64).with("long_percent", share)])
        })?;
        let verdicts = self.judge(&rows);
        let note = "generated tables follow the lengths measured in 2026; give others with --table";
        Ok(context.record(rows, verdicts, vec![note.into()]))
    }
}

const LONG: Claim = Claim::Bound {
    text: "0.25 to 7.6 % of the prefixes are longer than /24, on every table",
    figure: "long_percent",
    bound: Bound::within(0.25, 7.6).counted().every(),
    unit: "%",
    when: &[],
};

const fn on_chip(text: &'static str, engine: &'static str, (least, most): (f64, f64)) -> Claim {
    let bound = Bound::within(least * MB, most * MB).counted().every();
    let when: &'static [(&str, &str)] = match engine.as_bytes()[5] {
        b'b' => &[("engine", "sail-b")],
        b'u' => &[("engine", "sail-u")],
        _ => &[("engine", "sail-l")],
    };
    Claim::Bound { text, figure: "on_chip_bytes", bound, unit: "bytes", when }
}

const MB: f64 = 1_048_576.0;

const fn once(text: &'static str, engine: &'static str) -> Claim {
    let when: &'static [(&str, &str)] = match engine.as_bytes()[5] {
        b'b' => &[("engine", "sail-b")],
        _ => &[("engine", "sail-u")],
    };
    let (figure, bound) = ("update_on_chip_most_per_update", Bound::most(1.0).counted().every());
    Claim::Bound { text, figure, bound, unit: "words", when }
}

const fn plot(title: &'static str, figure: &'static str, unit: &'static str) -> Plot {
    Plot { title, figure, unit, x: "table", series: "engine", panels: &[], style: Style::Bars }
}
