//! `lpm/bound`: engines beside their own reads.
//!
//! The places that a key reads, known beforehand, so that hardly anything but memory
//! takes time. No strict bound: an engine that keeps more reads in flight than gathers
//! of eight do may exceed it.
//!
//! The rivals of goals take part: where an engine's reads alone do not reach a goal over
//! them, in the same minutes, no work between the reads is to blame. Most goals are of bursts
//! of 256 (`rate_mlps`); to reads alone a burst means nothing.

use super::peers::{CROWDED, DEEP, allowed};
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
        Claim::Judge(allowed),
    ],
    notes: &[
        "NAME-reads: the reads of the same keys in memory of the same shape, at places known \
         beforehand; reads_per_lookup says how many there are",
        "bursts of 4,096, so that filling and draining the pipeline of a burst costs nothing",
    ],
};

const CARD: Card = Card {
    name: "lpm/bound",
    takes: Takes { full_s: 150.0, quick_s: 30.0 },
    help: "engines beside their own reads at places known beforehand: what memory allows them",
    source: "issue on longest-prefix match, point 4",
    claim: "the reads are the bound: what lies between them costs little",
    plots: &[
        plot("Lookups in bursts of 4,096", "rate_long_mlps", "million lookups/s"),
        plot("Lookups in bursts of 256", "rate_mlps", "million lookups/s"),
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
    let part = |part: Part, entrants: Vec<Entrant>| {
        let traffic = [Traffic::Random, Traffic::Prefix, Traffic::Zipf];
        let measures = [Measure::Rate, Measure::RateLong, Measure::Probes(1 << 16)];
        part.entrants(entrants).traffic(&traffic).measure(&measures)
    };
    let usual = ["internet:1000000+200000", CROWDED, DEEP];
    let tables = context.tables(context.pick(&usual, &usual[..1]));
    let both = |table: &String| {
        let four = with_reads(Entrant::new("rutter4")).chain(with_reads(Entrant::new("dir-24-8")));
        let four = four.chain(["rte_fib-2b", "rte_fib-2b-avx512"].map(Entrant::new));
        // The goals are over PlanB with AVX2.
        let planb = Entrant::new("planb").named("planb-avx2").option("isa", "avx2");
        let six = with_reads(Entrant::new("rutter6")).chain(with_reads(planb));
        [part(Part::ipv4(table), four.collect()), part(Part::ipv6(table), six.collect())]
    };
    tables.iter().flat_map(both).collect()
}

/// An engine, and its reads.
fn with_reads(entrant: Entrant) -> impl Iterator<Item = Entrant> {
    let reads = Entrant {
        engine: format!("{}{SUFFIX}", entrant.engine),
        name: format!("{}{SUFFIX}", entrant.name),
        ..entrant.clone()
    };
    [entrant, reads].into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Row, Ruling};

    /// A goal of 1.5 × 200 M/s that reads of 250 do not allow is named, and judged nowhere.
    #[test]
    fn what_reads_allow_is_beside_the_claims() {
        let row = |engine: &str, rate: f64| {
            let labels = [("engine", engine), ("family", "ipv4"), ("traffic", "prefix")];
            Row::new(labels).labelled("table", CROWDED).with("rate_mlps", rate)
        };
        let of = |rows: &[Row]| -> Vec<(String, String, Ruling)> {
            let said = allowed(rows).into_iter();
            said.map(|one| (one.claim, one.measured, one.ruling)).collect()
        };
        let rows = [
            row("rutter4", 230.0),
            row("rutter4-reads", 250.0),
            row("rte_fib-2b", 150.0),
            row("rte_fib-2b-avx512", 200.0),
        ];
        let claim = format!("{CROWDED}, prefix traffic: rutter4-reads ≥ 1.5 × rte_fib-2b");
        let measured = "1.25 × rte_fib-2b-avx512 (250 M/s)".to_string();
        assert_eq!(of(&rows), [(claim, measured, Ruling::Beside)]);
        // Without rivals there is nothing to say.
        assert_eq!(of(&rows[..2]), []);
    }
}
