//! `lpm/interleave`: one search after the other, in groups, and as coroutines that
//! take turns, on the engine that chases pointers most.

use crate::data::Traffic;
use crate::lookups::{Claim, Entrant, Measure, Part, Study};
use crate::record::Bound;
use crate::{Card, Context, Plot, Style, Takes};

/// See the module.
pub static INTERLEAVE: Study = Study {
    card: &CARD,
    parts,
    claims: &[
        beats("group", "group prefetching is at least twice as fast as one search after the other"),
        beats("async", "coroutines are at least twice as fast as one search after the other"),
    ],
    notes: &[
        "bsd-radix with its option `batch`: group takes 32 searches down together and each of them \
         back alone, async takes turns among 16 on both ways, scalar leaves it to the processor",
        "the gain is that of memory's latency over a turn's instructions: a table that fits the \
         cache gains less",
    ],
};

const CARD: Card = Card {
    name: "lpm/interleave",
    takes: Takes { full_s: 40.0, quick_s: 8.0 },
    help: "the same search one by one, in groups, and as async functions that take turns",
    source: "issue on longest-prefix match, point 6",
    claim: "searches that take turns while memory is read hide its latency",
    plots: &[Plot {
        title: "Lookups in bursts of 256",
        figure: "rate_mlps",
        unit: "million lookups/s",
        x: "traffic",
        series: "engine",
        panels: &["family", "table"],
        style: Style::Bars,
    }],
};

const fn beats(of: &'static str, text: &'static str) -> Claim {
    Claim::Ratio {
        text,
        figure: "rate_mlps",
        label: "engine",
        of,
        to: "scalar",
        bound: Bound::least(2.0).ours(),
        when: &[("size", "full")],
    }
}

fn parts(context: &Context) -> Vec<Part> {
    let batch = |batch: &str| Entrant::new("bsd-radix").option("batch", batch).named(batch);
    let entrants = ["scalar", "group", "async"].map(batch);
    let small = [Part::ipv4("internet:1000"), Part::ipv6("internet6:1000")];
    let mut parts: Vec<_> = small.map(|part| part.label("size", "in the cache")).into();
    for table in context.tables(&["internet:1000000+200000"]) {
        let full = [Part::ipv4(&table), Part::ipv6(&table)];
        parts.extend(full.map(|part| part.label("size", "full")));
    }
    let traffic = [Traffic::Random, Traffic::Prefix, Traffic::Zipf];
    let with_all = |part: Part| part.entrants(entrants.clone()).traffic(&traffic);
    parts.into_iter().map(|part| with_all(part).measure(&[Measure::Rate])).collect()
}
