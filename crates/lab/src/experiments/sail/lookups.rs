//! `sail/fig3.7`, `fig3.8`, `fig3.9` and `fig3.13`: lookup rates of SAIL_L beside the
//! schemes that the thesis compares it with.

use super::collectors;
use crate::data::Traffic;
use crate::lookups::{Claim, Entrant, Measure, Part, Study};
use crate::record::Bound;
use crate::{Card, Context, Plot, Style, Takes};

/// Figure 3.7: traffic with locality.
pub static FIG3_7: Study = Study {
    card: &Card {
        name: "sail/fig3.7",
        takes: Takes { full_s: 45.0, quick_s: 3.0 },
        help: "lookup rate with locality as real traffic has it, SAIL and its rivals",
        source: "thesis, figure 3.7",
        claim: "SAIL_L is 34–59 × LC-trie, 30–31 × Tree Bitmap, 7–8 × Lulea, 4.4–5.1 × D18R, 1.6–1.7 × Poptrie",
        plots: PLOTS,
    },
    parts: |context| parts(context, 6, Traffic::Zipf),
    claims: &[
        faster("lc-trie", "34 to 59 × LC-trie", 34.53, 58.88),
        faster("tree-bitmap", "30 to 31 × Tree Bitmap", 29.56, 31.44),
        faster("lulea", "6.6 to 7.7 × Lulea", 6.62, 7.66),
        faster("D18R", "4.4 to 5.1 × D18R", 4.36, 5.06),
        faster("poptrie", "1.6 to 1.7 × Poptrie", 1.59, 1.72),
    ],
    notes: &[
        "the thesis' captured traffic cannot be had: 100,000 flows by Zipf's law instead",
        BATCHED,
    ],
};

/// Figure 3.8: every prefix equally likely.
pub static FIG3_8: Study = Study {
    card: &Card {
        name: "sail/fig3.8",
        takes: Takes { full_s: 130.0, quick_s: 4.0 },
        help: "lookup rate with prefix-based traffic, SAIL and its rivals",
        source: "thesis, figure 3.8",
        claim: "SAIL_L is 57–68 × LC-trie, 24–27 × Tree Bitmap, 7.3–7.6 × Lulea, 4.7–5 × D18R, 1.2–1.3 × Poptrie",
        plots: PLOTS,
    },
    parts: |context| {
        let each = |traffic| parts(context, 6, traffic);
        [Traffic::Swept, Traffic::Prefix].into_iter().flat_map(each).collect()
    },
    claims: &[
        swept("lc-trie", "57 to 68 × LC-trie", 56.58, 68.46),
        swept("tree-bitmap", "24 to 27 × Tree Bitmap", 23.79, 26.68),
        swept("lulea", "7.3 to 7.6 × Lulea", 7.27, 7.61),
        swept("D18R", "4.7 to 5 × D18R", 4.69, 5.04),
        swept("poptrie", "1.2 to 1.3 × Poptrie", 1.23, 1.32),
        Claim::Ratio {
            text: "in random order SAIL_L is still faster than Poptrie (not in the thesis)",
            figure: "rate_mlps",
            label: "engine",
            of: "sail-l",
            to: "poptrie",
            bound: Bound::more(),
            when: &[("traffic", "prefix")],
        },
    ],
    notes: &[
        "swept: in the table's order, as the thesis generates it; prefix: the same in random order",
        BATCHED,
    ],
};

/// Figure 3.9: uniformly random addresses.
pub static FIG3_9: Study = Study {
    card: &Card {
        name: "sail/fig3.9",
        takes: Takes { full_s: 8.0, quick_s: 2.0 },
        help: "lookup rate with uniformly random traffic, SAIL and its rivals",
        source: "thesis, figure 3.9",
        claim: "SAIL_L is 46–55 × LC-trie, 6.7–7 × Tree Bitmap, 4.2–4.8 × Lulea, 2.3 × D18R, 1.13 × Poptrie",
        plots: PLOTS,
    },
    parts: |context| parts(context, 1, Traffic::Uniform),
    claims: &[
        faster("lc-trie", "46 to 55 × LC-trie", 46.22, 54.86),
        faster("tree-bitmap", "6.7 to 7 × Tree Bitmap", 6.73, 6.95),
        faster("lulea", "4.2 to 4.8 × Lulea", 4.24, 4.81),
        faster("D18R", "2.3 × D18R", 2.27, 2.31),
        faster("poptrie", "1.13 × Poptrie", 1.13, 1.14),
    ],
    notes: &[BATCHED],
};

/// Figure 3.13: more prefixes beyond /24.
pub static FIG3_13: Study = Study {
    card: &Card {
        name: "sail/fig3.13",
        takes: Takes { full_s: 60.0, quick_s: 4.0 },
        help: "lookup rate against the share of prefixes longer than /24, SAIL_L and Poptrie",
        source: "thesis, figure 3.13",
        claim: "SAIL_L falls to 448–467, 357–380, 271–296 Mpps at 1, 5, 10 %; it is 1.5–2.8 × Poptrie",
        plots: &[Plot { x: "long_percent", style: Style::Lines, ..PLOTS[0] }],
    },
    parts: |context| {
        let part = |(table, percent): (&String, u32)| {
            let part = Part::ipv4(format!("{table}|long={percent}"));
            let part = part.engines(&["sail-l", "poptrie"]).label("long_percent", percent);
            let part = part.each_isa();
            part.traffic(&[Traffic::Swept, Traffic::Prefix]).measure(&[Measure::Rate])
        };
        let tables = collectors(context, 2, 1);
        tables.iter().flat_map(|t| [0, 1, 2, 5, 10].map(|p| part((t, p)))).collect()
    },
    claims: &[
        Claim::Ratio {
            text: "at 10 % long prefixes the rate is 0.6 of that at 1 % (271 to 296 and 448 to 467 Mpps)",
            figure: "rate_mlps",
            label: "long_percent",
            of: "10",
            to: "1",
            bound: Bound::within(271.0 / 467.0, 296.0 / 448.0),
            when: &[("engine", "sail-l"), ("traffic", "swept")],
        },
        swept("poptrie", "1.5 to 2.8 × Poptrie", 1.47, 2.83),
    ],
    notes: &["the long prefixes are added at random places, as in the thesis", BATCHED],
};

const BATCHED: &str = "every engine here looks up in bursts of 256 with prefetching, which the thesis' rivals did not; \
     SAIL has no vector instructions here: it is compared with what has none (isa: portable)";

const PLOTS: &[Plot] = &[Plot {
    title: "Lookups",
    figure: "rate_mlps",
    unit: "million lookups/s",
    x: "table",
    series: "engine+isa",
    panels: &["traffic"],
    style: Style::Bars,
}];

const fn faster(to: &'static str, text: &'static str, least: f64, most: f64) -> Claim {
    let (figure, label, of) = ("rate_mlps", "engine", "sail-l");
    let bound = Bound::gain(least, most);
    Claim::Ratio { text, figure, label, of, to, bound, when: &[] }
}

const fn swept(to: &'static str, text: &'static str, least: f64, most: f64) -> Claim {
    let (figure, label, of) = ("rate_mlps", "engine", "sail-l");
    let bound = Bound::gain(least, most);
    Claim::Ratio { text, figure, label, of, to, bound, when: &[("traffic", "swept")] }
}

/// The engines of the figures, and SAIL_B and SAIL_U, which the thesis leaves out.
fn parts(context: &Context, tables: u32, traffic: Traffic) -> Vec<Part> {
    let names = ["sail-l", "sail-b", "sail-u", "lc-trie", "tree-bitmap", "lulea", "poptrie"];
    let mut entrants = names.map(Entrant::new).to_vec();
    entrants.push(Entrant::new("dxr").named("D18R").option("k", 18));
    let part = |table: &String| {
        let part = Part::ipv4(table).entrants(entrants.clone());
        part.each_isa().traffic(&[traffic]).measure(&[Measure::Rate])
    };
    collectors(context, tables, 2).iter().map(part).collect()
}
