//! `dxr/fig3` and `dxr/fig5`: lookups by threads, random and repeated keys, of
//! DXR and of the BSD radix tree.

use super::{LINX, d16r_d18r};
use crate::data::Traffic;
use crate::lookups::{Claim, Entrant, Measure, Part, Study};
use crate::{Card, Context, Plot, Style, Takes};

/// Figure 3: DXR.
pub static FIG3: Study = Study {
    card: &Card {
        name: "dxr/fig3",
        takes: Takes { full_s: 8.0, quick_s: 2.0 },
        help: "lookup rate of D16R and D18R by threads, random and repeated keys",
        source: "DXR, figure 3",
        claim: "D18R: 117 Mlps random and 285 repeated on one core, 840 and 1,600 on eight",
        plots: PLOTS,
    },
    parts: |context| parts(context, || d16r_d18r().to_vec()),
    claims: &[
        Claim::Ratio {
            text: "D18R is slightly faster than D16R on random keys",
            figure: "rate_mlps",
            label: "engine",
            of: "D18R",
            to: "D16R",
            least: 1.0,
            when: &[("traffic", "random"), ("threads", "1")],
        },
        Claim::Ratio {
            text: "repeated keys are about twice as fast as random ones (2.4 × for D18R)",
            figure: "rate_mlps",
            label: "traffic",
            of: "repeated",
            to: "random",
            least: 1.5,
            when: &[("threads", "1")],
        },
        Claim::Trend {
            text: "it scales almost linearly with cores",
            figure: "rate_mlps",
            along: "threads",
            least: 1.8,
            most: f64::INFINITY,
            when: &[("traffic", "random")],
        },
    ],
    notes: &["hops are folded; this machine has fewer cores than the paper's eight"],
};

/// Figure 5: the BSD radix tree in the same configurations.
pub static FIG5: Study = Study {
    card: &Card {
        name: "dxr/fig5",
        takes: Takes { full_s: 10.0, quick_s: 2.0 },
        help: "lookup rate of the BSD radix tree by threads, DXR beside it",
        source: "DXR, figure 5",
        claim: "the BSD radix tree is about 40 times slower than DXR on one core and collapses on more",
        plots: PLOTS,
    },
    parts: |context| parts(context, || vec![Entrant::new("bsd-radix"), d16r_d18r()[1].clone()]),
    claims: &[
        Claim::Ratio {
            text: "D18R is about 40 times faster than the BSD radix tree on one core",
            figure: "rate_mlps",
            label: "engine",
            of: "D18R",
            to: "bsd-radix",
            least: 20.0,
            when: &[("threads", "1"), ("traffic", "random")],
        },
        Claim::Trend {
            text: "the BSD radix tree gets slower with more cores",
            figure: "rate_mlps",
            along: "threads",
            least: 0.0,
            most: 1.0,
            when: &[("engine", "bsd-radix")],
        },
    ],
    notes: &[
        "the paper's tree takes a lock for each lookup, which is what collapses; ours is read without",
    ],
};

const PLOTS: &[Plot] = &[Plot {
    title: "Lookups by threads",
    figure: "rate_mlps",
    unit: "million lookups/s",
    x: "threads",
    series: "engine+traffic",
    panels: &["table"],
    style: Style::Lines,
}];

fn parts(context: &Context, entrants: fn() -> Vec<Entrant>) -> Vec<Part> {
    let traffic = [Traffic::Random, Traffic::Repeated];
    let part = |table: &String| {
        let part = Part::ipv4(table).entrants(entrants()).traffic(&traffic);
        part.measure(&[Measure::Threads(8)])
    };
    context.tables(&[LINX]).iter().map(part).collect()
}
