//! `bloomfwd/fig7` and `fig8`: IPv6, expansion levels.

use std::collections::BTreeMap;

use super::{AS65000_V6, as_in_the_paper, best_over_worst};
use crate::data::Traffic;
use crate::lookups::claims::each_kind;
use crate::lookups::{Claim, Entrant, Measure, Part, Study};
use crate::record::Bound;
use crate::{Card, Context, Plot, Row, Style, Takes, Verdict};

/// Figure 7: expansion levels, and MIHT.
pub static FIG7: Study = Study {
    card: &Card {
        name: "bloomfwd/fig7",
        takes: Takes { full_s: 30.0, quick_s: 3.0 },
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
            bound: Bound::gain_of(5.1),
            when: &[],
        },
        Claim::Ratio {
            text: "5 levels are 4.5 × MIHT",
            figure: "rate_mlps",
            label: "engine",
            of: "bloomfwd6, 5 levels",
            to: "miht6",
            bound: Bound::gain_of(4.5),
            when: &[],
        },
        best("bloomfwd6, 4 levels", "5 levels are best: better than 4", Bound::more()),
        best("bloomfwd6, 6 levels", "5 levels are best: better than 6", Bound::more()),
        best("bloomfwd6, 7 levels", "5 levels are best: better than 7", Bound::more()),
        best("bloomfwd6, 8 levels", "5 levels are best: better than 8", Bound::more()),
    ],
    notes: &[SPACE],
};

/// Figure 8: several tables.
pub static FIG8: Study = Study {
    card: &Card {
        name: "bloomfwd/fig8",
        takes: Takes { full_s: 90.0, quick_s: 5.0 },
        help: "lookup rate of IPv6 Bloomfwd by expansion levels on several tables",
        source: "Bloomfwd, figure 8",
        claim: "5 levels are best on every table, whose rates are alike",
        plots: PLOTS,
    },
    parts: |context| {
        let usual = ["internet6:42663,2", "internet6:44103,3", "internet6:42227,4"];
        parts(context, &usual[..context.pick(3, 2)])
    },
    claims: &[
        best(
            "bloomfwd6, all lengths",
            "5 levels are best on every table: better than no expansion",
            EVERY,
        ),
        best("bloomfwd6, 4 levels", "5 levels are best on every table: better than 4", EVERY),
        best("bloomfwd6, 6 levels", "5 levels are best on every table: better than 6", EVERY),
        best("bloomfwd6, 7 levels", "5 levels are best on every table: better than 7", EVERY),
        best("bloomfwd6, 8 levels", "5 levels are best on every table: better than 8", EVERY),
        Claim::Judge(alike),
    ],
    notes: &[SPACE],
};

const EVERY: Bound = Bound::more().every();

const fn best(to: &'static str, text: &'static str, bound: Bound) -> Claim {
    let (figure, label, of) = ("rate_mlps", "engine", "bloomfwd6, 5 levels");
    Claim::Ratio { text, figure, label, of, to, bound, when: &[] }
}

/// Each number of levels: the rate on the best table over that on the worst.
fn alike(rows: &[Row]) -> Vec<Verdict> {
    each_kind(rows, "each number of levels has similar rates on all tables", |rows| {
        let mut of = BTreeMap::<&str, Vec<f64>>::new();
        for row in rows.iter().filter(|row| row.label("engine").starts_with("bloomfwd6")) {
            of.entry(row.label("engine")).or_default().extend(row.median("rate_mlps"));
        }
        let found: Vec<f64> = of.into_values().filter_map(best_over_worst).collect();
        Bound::about(1.0).judge("", &found, "×")
    })
}

const SPACE: &str = "addresses lie in routed /32s: uniform ones would nearly all miss";

const PLOTS: &[Plot] = &[Plot {
    title: "Lookups",
    figure: "rate_mlps",
    unit: "million lookups/s",
    x: "engine",
    series: "traffic+isa",
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
            .entrants(as_in_the_paper(&entrants))
            .traffic(&traffic)
            .measure(&[Measure::Build, Measure::Rate])
    };
    context.beside(usual).iter().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ruling::{AsStated, Contradicted};

    #[test]
    fn one_table_is_like_no_other() {
        let ruled = |rates: &[(&str, f64)]| {
            let row = |(table, rate): &(&str, f64)| {
                let row = Row::new([("engine", "bloomfwd6, 5 levels"), ("table", *table)]);
                row.with("rate_mlps", *rate)
            };
            let verdicts = alike(&rates.iter().map(row).collect::<Vec<_>>()).into_iter();
            verdicts.map(|verdict| verdict.ruling).collect::<Vec<_>>()
        };
        let generated = [("internet6:9,2", 10.0), ("internet6:9,3", 10.5)];
        // Of the one real table nothing is said.
        assert_eq!(ruled(&[&generated[..], &[("real.txt", 5.0)]].concat()), [AsStated]);
        assert_eq!(ruled(&[("internet6:9,2", 10.0), ("internet6:9,3", 14.0)]), [Contradicted]);
    }
}
