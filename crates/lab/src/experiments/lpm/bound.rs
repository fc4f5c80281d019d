//! `lpm/bound`: engines beside their own reads.
//!
//! The places that a key reads, known beforehand, so that hardly anything but memory
//! takes time. No strict bound: an engine that keeps more reads in flight than gathers
//! of eight do may exceed it.

use super::peers::{CROWDED, DEEP};
use crate::data::Traffic;
use crate::lookups::{Claim, Entrant, Measure, Part, Study};
use crate::reads::SUFFIX;
use crate::record::Bound;
use crate::{Card, Context, Plot, Style, Takes};

/// See the module.
pub static BOUND: Study = Study {
    card: &CARD,
    parts,
    claims: &[
        near("rutter4", "rutter4-reads", 2.0 / 3.0, "rutter4 does two thirds of what its reads do"),
        near("rutter6", "rutter6-reads", 0.5, "rutter6 does half of what its reads do"),
    ],
    notes: &[
        "NAME-reads: the reads of the same keys in memory of the same shape, at places known \
         beforehand; reads_per_lookup says how many there are",
        "bursts of 4,096, so that filling and draining the pipeline of a burst costs nothing",
    ],
};

const CARD: Card = Card {
    name: "lpm/bound",
    takes: Takes { full_s: 60.0, quick_s: 15.0 },
    help: "engines beside their own reads at places known beforehand: what memory allows them",
    source: "issue on longest-prefix match, point 4",
    claim: "the reads are the bound: what lies between them costs little",
    plots: &[
        plot("Lookups", "rate_long_mlps", "million lookups/s"),
        plot("Reads", "reads_per_lookup", "reads a lookup"),
    ],
};

const fn plot(title: &'static str, figure: &'static str, unit: &'static str) -> Plot {
    let panels = &["family", "table"];
    Plot { title, figure, unit, x: "traffic", series: "engine", panels, style: Style::Bars }
}

const fn near(of: &'static str, to: &'static str, least: f64, text: &'static str) -> Claim {
    let figure = "rate_long_mlps";
    Claim::Ratio {
        text,
        figure,
        label: "engine",
        of,
        to,
        bound: Bound::least(least).ours(),
        when: &[],
    }
}

fn parts(context: &Context) -> Vec<Part> {
    let table = |part: Part, engines: &[&str]| {
        let each =
            engines.iter().flat_map(|engine| [engine.to_string(), format!("{engine}{SUFFIX}")]);
        let traffic = [Traffic::Random, Traffic::Prefix, Traffic::Zipf];
        let measures = [Measure::RateLong, Measure::Probes(1 << 16)];
        part.entrants(each.map(|name| Entrant::new(&name))).traffic(&traffic).measure(&measures)
    };
    let usual = ["internet:1000000+200000", CROWDED, DEEP];
    let tables = context.tables(context.pick(&usual, &usual[..1]));
    let both = |name: &String| {
        [table(Part::ipv4(name), &["rutter4", "dir-24-8"]), table(Part::ipv6(name), &["rutter6"])]
    };
    tables.iter().flat_map(both).collect()
}
