//! `dxr/fig3` and `dxr/fig5`: lookups by threads, random and repeated keys, of
//! DXR and of the BSD radix tree.

use super::{LINX, d16r_d18r};
use crate::data::Traffic;
use crate::lookups::claims::Pair;
use crate::lookups::{Claim, Entrant, Measure, Part, Study};
use crate::record::Bound;
use crate::{Card, Context, Plot, Style, Takes};

/// Figure 3: DXR.
pub static FIG3: Study = Study {
    card: &Card {
        name: "dxr/fig3",
        takes: Takes { full_s: 35.0, quick_s: 3.0 },
        help: "lookup rate of D16R and D18R by threads, random and repeated keys",
        source: "DXR, figure 3",
        claim: "D18R: 117 Mlps random and 285 repeated on one core, 840 and 1,600 on eight",
        plots: PLOTS,
    },
    parts: |context| parts(context, || d16r_d18r().to_vec()),
    claims: &[
        Claim::Ratio {
            text: "D18R is slightly better than D16R",
            figure: "rate_mlps",
            label: "engine",
            of: "D18R",
            to: "D16R",
            bound: Bound::slightly(),
            when: SINGLY,
        },
        Claim::Ratio {
            text: "D18R on one core: repeated keys are 2.4 × as fast as random ones (285 and 117 Mlps)",
            figure: "rate_mlps",
            label: "traffic",
            of: "repeated",
            to: "random",
            bound: Bound::gain_of(285.0 / 117.0),
            when: &[("burst", "1"), ("engine", "D18R"), ("threads", "1")],
        },
        Claim::Scaling {
            text: "D18R scales almost linearly (random keys: 7.2 × on 8 cores)",
            figure: "rate_mlps",
            along: "threads",
            bound: Bound::within(0.9, 1.0),
            when: &[("burst", "1"), ("engine", "D18R"), ("traffic", "random")],
        },
    ],
    notes: &["hops are folded; this machine has fewer cores than the paper's eight", FORMS],
};

/// Figure 5: the BSD radix tree in the same configurations.
pub static FIG5: Study = Study {
    card: &Card {
        name: "dxr/fig5",
        takes: Takes { full_s: 110.0, quick_s: 3.0 },
        help: "lookup rate of the BSD radix tree by threads, DXR beside it",
        source: "DXR, figure 5",
        claim: "the BSD radix tree is about 40 times slower than DXR on one core and collapses on more",
        plots: PLOTS,
    },
    parts: |context| parts(context, || vec![Entrant::new("bsd-radix"), d16r_d18r()[1].clone()]),
    claims: &[
        Claim::Ratio {
            text: "the BSD radix tree is about 40 times slower than DXR on one core",
            figure: "rate_mlps",
            label: "engine",
            of: "D18R",
            to: "bsd-radix",
            bound: Bound::gain_of(40.0),
            when: &[("burst", "1"), ("threads", "1")],
        },
        Claim::Trend {
            text: "the BSD radix tree collapses as the number of cores increases: it has not half \
                   of one core's rate",
            figure: "rate_mlps",
            along: "threads",
            bound: Bound::most(0.5),
            when: &[("burst", "1"), ("engine", "bsd-radix")],
        },
    ],
    notes: &[
        "the paper's tree takes a lock for each lookup, which is what collapses; ours is read without",
        FORMS,
    ],
};

const PLOTS: &[Plot] = &[Plot {
    title: "Lookups by threads",
    figure: "rate_mlps",
    unit: "million lookups/s",
    x: "threads",
    series: "engine+isa+traffic",
    panels: &["table", "burst"],
    style: Style::Lines,
}];

/// As the paper looks up: one address after the other.
const SINGLY: &[Pair] = &[("burst", "1")];

const FORMS: &str = "burst 1: one lookup after the other, as in the paper, which is what its claims are judged \
                     by; burst 256: what the engines do with addresses together";

/// Each table in the paper's form and in bursts.
fn parts(context: &Context, entrants: fn() -> Vec<Entrant>) -> Vec<Part> {
    let traffic = [Traffic::Random, Traffic::Repeated];
    let part = |table: &String| {
        let part = |burst: &str| Part::ipv4(table).label("burst", burst).traffic(&traffic);
        // No engine has vector instructions for one address.
        let portable = entrants().into_iter().map(|one| match one.engine.as_str() {
            "dxr" => one.option("isa", "portable"),
            _ => one,
        });
        [
            part("1").entrants(portable).measure(&[Measure::ThreadsSingly(8)]),
            part("256").entrants(entrants()).each_isa().measure(&[Measure::Threads(8)]),
        ]
    };
    context.beside(&[LINX]).iter().flat_map(part).collect()
}
