//! `bloomfwd/fig7` and `fig8`: IPv6, expansion levels.

use super::AS65000_V6;
use crate::data::Traffic;
use crate::lookups::{Claim, Entrant, Measure, Part, Study};
use crate::{Card, Context, Plot, Style, Takes};

/// Figure 7: expansion levels, and MIHT.
pub static FIG7: Study = Study {
    card: &Card {
        name: "bloomfwd/fig7",
        takes: Takes { full_s: 15.0, quick_s: 3.0 },
        help: "lookup rate of IPv6 Bloomfwd by the number of expansion levels, and of MIHT",
        source: "Bloomfwd, figure 7",
        claim: "5 levels are best: 5.1 × no expansion and 4.5 × MIHT",
        plots: PLOTS,
    },
    parts: |context| parts(context, &[AS65000_V6]),
    claims: &[
        Claim::Ratio {
            text: "5 levels are 5.1 × no expansion",
            figure: "rate_mlps",
            label: "engine",
            of: "bloomfwd6, 5 levels",
            to: "bloomfwd6, all lengths",
            least: 3.0,
            when: &[],
        },
        Claim::Ratio {
            text: "5 levels are 4.5 × MIHT",
            figure: "rate_mlps",
            label: "engine",
            of: "bloomfwd6, 5 levels",
            to: "miht6",
            least: 3.0,
            when: &[],
        },
        Claim::Ratio {
            text: "5 levels are better than 8",
            figure: "rate_mlps",
            label: "engine",
            of: "bloomfwd6, 5 levels",
            to: "bloomfwd6, 8 levels",
            least: 1.0,
            when: &[],
        },
    ],
    notes: &[SPACE],
};

/// Figure 8: several tables.
pub static FIG8: Study = Study {
    card: &Card {
        name: "bloomfwd/fig8",
        takes: Takes { full_s: 40.0, quick_s: 5.0 },
        help: "lookup rate of IPv6 Bloomfwd by expansion levels on several tables",
        source: "Bloomfwd, figure 8",
        claim: "5 levels are best on every table, whose rates are alike",
        plots: PLOTS,
    },
    parts: |context| {
        let usual = ["internet6:42663,2", "internet6:44103,3", "internet6:42227,4"];
        parts(context, &usual[..context.pick(3, 2)])
    },
    claims: &[Claim::Ratio {
        text: "5 levels are better than no expansion on every table",
        figure: "rate_mlps",
        label: "engine",
        of: "bloomfwd6, 5 levels",
        to: "bloomfwd6, all lengths",
        least: 1.5,
        when: &[],
    }],
    notes: &[SPACE],
};

const SPACE: &str = "addresses lie in routed /32s: uniform ones would nearly all miss";

const PLOTS: &[Plot] = &[Plot {
    title: "Lookups",
    figure: "rate_mlps",
    unit: "million lookups/s",
    x: "engine",
    series: "traffic",
    panels: &["table"],
    style: Style::Ranked,
}];

fn parts(context: &Context, usual: &[&str]) -> Vec<Part> {
    let mut entrants = vec![
        Entrant::new("bloomfwd6").named("bloomfwd6, all lengths").option("levels", "none"),
        Entrant::new("miht6"),
    ];
    entrants.extend((4..=8).map(|n| {
        Entrant::new("bloomfwd6").named(format!("bloomfwd6, {n} levels")).option("levels", n)
    }));
    let traffic = [Traffic::Random, Traffic::Prefix];
    let part = |table: &String| {
        Part::ipv6(table)
            .entrants(entrants.clone())
            .traffic(&traffic)
            .measure(&[Measure::Build, Measure::Rate])
    };
    context.tables(usual).iter().map(part).collect()
}
