//! `sail/fig3.11`: memory accesses of an update.

use super::collectors;
use crate::lookups::{Claim, Measure, Part, Study};
use crate::record::Bound;
use crate::{Card, Plot, Style, Takes};

/// See the module.
pub static FIG3_11: Study = Study {
    card: &Card {
        name: "sail/fig3.11",
        takes: Takes { full_s: 20.0, quick_s: 2.0 },
        help: "memory accesses and time of an update of SAIL_L, SAIL_B and SAIL_U",
        source: "thesis, figure 3.11",
        claim: "SAIL_L writes 1.8 to 2.3 times an update on average, 7.9 in the worst interval",
        plots: &[
            plot(
                "Off-chip words written by an update",
                "update_off_chip_words_per_update",
                "words",
            ),
            plot("On-chip words written by an update", "update_on_chip_words_per_update", "words"),
            plot("Time of an update", "update_us", "µs"),
        ],
    },
    parts: |context| {
        let part = |table: &String| {
            let part = Part::ipv4(table).engines(&["sail-l", "sail-b", "sail-u"]);
            part.measure(&[Measure::Updates, Measure::WorstUpdates])
        };
        collectors(context, 3, 2).iter().map(part).collect()
    },
    claims: &[
        Claim::Bound {
            text: "SAIL_L: 1.81 to 2.25 memory accesses an update",
            figure: "update_off_chip_words_per_update",
            bound: Bound::within(1.807, 2.253),
            unit: "words",
            when: &[("engine", "sail-l")],
        },
        Claim::Bound {
            text: "SAIL_L: 7.88 memory accesses an update in the worst interval of 500",
            figure: "update_off_chip_words_worst_per_update",
            bound: Bound::cost_of(7.88),
            unit: "words",
            when: &[("engine", "sail-l")],
        },
        Claim::Bound {
            text: "SAIL_U: one on-chip access an update at most, on every table",
            figure: "update_on_chip_words_per_update",
            bound: Bound::most(1.0).counted().every(),
            unit: "words",
            when: &[("engine", "sail-u")],
        },
    ],
    notes: &[
        "updates delete a random prefix and put it back; accesses are words of 64 bits written",
    ],
};

const fn plot(title: &'static str, figure: &'static str, unit: &'static str) -> Plot {
    Plot { title, figure, unit, x: "table", series: "engine", panels: &[], style: Style::Bars }
}
