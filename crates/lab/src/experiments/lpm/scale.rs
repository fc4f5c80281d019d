//! `lpm/scale`: from 10,000 to 10,000,000 prefixes.

use crate::data::Traffic;
use crate::lookups::{Claim, Measure, Part, Study};
use crate::record::Bound;
use crate::{Card, Context, Plot, Style, Takes};

/// See the module.
pub static SCALE: Study = Study {
    card: &CARD,
    parts,
    claims: &[
        Claim::Trend {
            text: "rutter4 keeps half of its rate from the smallest table to the largest",
            figure: "rate_mlps",
            along: "prefixes",
            bound: Bound::least(0.5).ours(),
            when: &[("engine", "rutter4"), ("traffic", "random")],
        },
        Claim::Trend {
            text: "rutter6 keeps a third of its rate from the smallest table to the largest",
            figure: "rate_mlps",
            along: "prefixes",
            bound: Bound::least(0.33).ours(),
            when: &[("engine", "rutter6"), ("traffic", "random")],
        },
    ],
    notes: &["generated tables: the Internet's lengths and nesting, 20 next hops"],
};

const CARD: Card = Card {
    name: "lpm/scale",
    takes: Takes { full_s: 200.0, quick_s: 20.0 },
    help: "rate, bytes and build time of engines against the number of prefixes",
    source: "issue on longest-prefix match, point 7",
    claim: "the footprint of the touched lines is the rate: small tables keep theirs",
    plots: &[
        plot("Lookups", "rate_mlps", "million lookups/s", &["family", "traffic"]),
        plot("Memory", "bytes_per_prefix", "bytes a prefix", &["family"]),
        plot("Build", "build_s", "s", &["family"]),
    ],
};

const fn plot(
    title: &'static str,
    figure: &'static str,
    unit: &'static str,
    panels: &'static [&'static str],
) -> Plot {
    Plot { title, figure, unit, x: "prefixes", series: "engine", panels, style: Style::LogLines }
}

fn parts(context: &Context) -> Vec<Part> {
    let sizes: &[u32] = context
        .pick(&[10_000, 100_000, 1_000_000, 3_000_000, 10_000_000], &[10_000, 100_000, 1_000_000]);
    let sizes6: &[u32] =
        context.pick(&[10_000, 100_000, 1_000_000, 3_000_000], &[10_000, 100_000, 400_000]);
    let ipv4 = sizes.iter().map(|n| Part::ipv4(format!("internet:{n}")).engines(IPV4));
    let ipv6 = sizes6.iter().map(|n| Part::ipv6(format!("internet6:{n}")).engines(IPV6));
    let traffic = [Traffic::Random, Traffic::Prefix];
    let measures = [Measure::Build, Measure::Rate];
    ipv4.chain(ipv6).map(|part| part.traffic(&traffic).measure(&measures)).collect()
}

const IPV4: &[&str] = &[
    "rutter4",
    "dir-24-8",
    "dxr",
    "poptrie",
    "sail-l",
    "lulea",
    "tree-bitmap",
    "bloomfwd",
    "bsd-radix",
    "rte_fib-4b",
];

const IPV6: &[&str] = &[
    "rutter6",
    "planb",
    "poptrie",
    "cuvpp",
    "sail6-hybrid",
    "tree-bitmap",
    "bloomfwd6",
    "rte_fib6",
];
