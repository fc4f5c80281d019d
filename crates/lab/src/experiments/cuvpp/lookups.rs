//! `cuvpp/fig6` and `fig7`: lookup rates against the number of prefixes.

use super::{ENGINES, tables};
use crate::data::Traffic;
use crate::lookups::{Claim, Measure, Part, Study};
use crate::record::Bound;
use crate::{Card, Context, Plot, Style, Takes};

/// Figure 6: lengths as RouteViews' LINX archive has them.
pub static FIG6: Study = Study {
    card: &Card {
        name: "cuvpp/fig6",
        takes: Takes { full_s: 60.0, quick_s: 11.0 },
        help: "lookup rate against 0.5 to 2 M prefixes, RouteViews lengths",
        source: "CuVPP, figure 6",
        claim: "CuVPP is 18–23 % faster than base VPP, 3–51 % than with a Bloom filter, 7–10 % than with a trie",
        plots: PLOTS,
    },
    parts: |context| parts(context, "rv-linx"),
    claims: &[
        faster("vpp-hash", "18 to 23 % faster than base VPP", 1.18, 1.23),
        faster("vpp-bloom", "3 to 51 % faster than with a Bloom filter", 1.03, 1.51),
        faster("vpp-trie", "7 to 10 % faster than with a trie", 1.07, 1.10),
        CONSTANT,
    ],
    notes: NOTES,
};

/// Figure 7: lengths as Deutsche Telekom's looking glass has them.
pub static FIG7: Study = Study {
    card: &Card {
        name: "cuvpp/fig7",
        takes: Takes { full_s: 60.0, quick_s: 12.0 },
        help: "lookup rate against 0.5 to 2 M prefixes, Deutsche Telekom lengths",
        source: "CuVPP, figure 7",
        claim: "CuVPP is 13–24 % faster than base VPP, 4–30 % than with a Bloom filter, 104–128 % than with a trie",
        plots: PLOTS,
    },
    parts: |context| parts(context, "dt-ip6"),
    claims: &[
        faster("vpp-hash", "13 to 24 % faster than base VPP", 1.13, 1.24),
        faster("vpp-bloom", "4 to 30 % faster than with a Bloom filter", 1.04, 1.30),
        faster("vpp-trie", "104 to 128 % faster than with a trie", 2.04, 2.28),
        CONSTANT,
    ],
    notes: NOTES,
};

const PLOTS: &[Plot] = &[Plot {
    title: "Lookups",
    figure: "rate_mlps",
    unit: "million lookups/s",
    x: "prefixes",
    series: "engine",
    panels: &["traffic"],
    style: Style::Lines,
}];

const NOTES: &[&str] = &[
    "uniform: addresses out of 2^128 (nearly all without a route); prefix: an address in a random prefix",
    "all four look up in bursts of 256 with prefetching; VPP's own code does not prefetch",
];

/// In the middle of all sizes, each kind of traffic apart.
const fn faster(to: &'static str, text: &'static str, least: f64, most: f64) -> Claim {
    let (figure, label, of) = ("rate_mlps", "engine", "cuvpp");
    let bound = Bound::gain(least, most);
    Claim::Ratio { text, figure, label, of, to, bound, when: &[] }
}

const CONSTANT: Claim = Claim::Trend {
    text: "CuVPP's rate is the same whatever the number of prefixes",
    figure: "rate_mlps",
    along: "prefixes",
    bound: Bound::about(1.0),
    when: &[("engine", "cuvpp")],
};

fn parts(context: &Context, lengths: &str) -> Vec<Part> {
    let part = |table: &String| {
        let part = Part::ipv6(table).engines(ENGINES);
        part.traffic(&[Traffic::Uniform, Traffic::Prefix]).measure(&[Measure::Rate])
    };
    tables(context, lengths).iter().map(part).collect()
}
