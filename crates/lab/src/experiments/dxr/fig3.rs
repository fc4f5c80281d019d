//! `dxr/fig3` and `dxr/fig5`: lookups by threads, random and repeated keys, of
//! DXR and of the BSD radix tree.

use super::{LINX, d16r_d18r};
use crate::data::Traffic;
use crate::lookups::{Claim, Entrant, Measure, Part, Study};
use crate::record::Bound;
use crate::{Card, Context, Plot, Style, Takes};

/// Figure 3: DXR.
pub static FIG3: Study = Study {
    card: &Card {
        name: "dxr/fig3",
        takes: Takes { full_s: 25.0, quick_s: 2.0 },
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
            bound: Bound::gain(1.0, 1.25),
            when: &[("traffic", "random"), ("threads", "1")],
        },
        Claim::Ratio {
            text: "D18R on one core: repeated keys are 2.4 × as fast as random ones (285 and 117 Mlps)",
            figure: "rate_mlps",
            label: "traffic",
            of: "repeated",
            to: "random",
            bound: Bound::gain_of(2.44),
            when: &[("threads", "1")],
        },
        Claim::Scaling {
            text: "random keys: it scales almost linearly (7.2 × on 8 cores)",
            figure: "rate_mlps",
            along: "threads",
            bound: Bound::within(0.9, 1.0),
            when: &[("traffic", "random")],
        },
    ],
    notes: &["hops are folded; this machine has fewer cores than the paper's eight"],
};

/// Figure 5: the BSD radix tree in the same configurations.
pub static FIG5: Study = Study {
    card: &Card {
        name: "dxr/fig5",
        takes: Takes { full_s: 80.0, quick_s: 2.0 },
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
            bound: Bound::gain_of(40.0),
            when: &[("threads", "1"), ("traffic", "random")],
        },
        Claim::Trend {
            text: "the BSD radix tree gets slower with more cores",
            figure: "rate_mlps",
            along: "threads",
            bound: Bound::less(),
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
    series: "engine+isa+traffic",
    panels: &["table"],
    style: Style::Lines,
}];

fn parts(context: &Context, entrants: fn() -> Vec<Entrant>) -> Vec<Part> {
    let traffic = [Traffic::Random, Traffic::Repeated];
    let part = |table: &String| {
        let part = Part::ipv4(table).entrants(entrants()).each_isa().traffic(&traffic);
        part.measure(&[Measure::Threads(8)])
    };
    context.beside(&[LINX]).iter().map(part).collect()
}
