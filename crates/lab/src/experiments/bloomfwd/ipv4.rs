//! `bloomfwd/fig1`, `fig2`, `fig3`, `fig4`, `fig5` and `fig6`: IPv4.

use super::averages::{at_scale, hashes};
use super::{AS65000, as_in_the_paper, best_over_worst};
use crate::data::Traffic;
use crate::lookups::claims::{Pair, each_kind, without};
use crate::lookups::{Claim, Entrant, Measure, Part, Study};
use crate::record::Bound;
use crate::{Card, Plot, Style, Takes};

/// Figure 1: hash functions and false-positive ratios.
pub static FIG1: Study = Study {
    card: &Card {
        name: "bloomfwd/fig1",
        takes: Takes { full_s: 30.0, quick_s: 4.0 },
        help: "lookup rate by hash functions of filter and table and by false-positive ratio",
        source: "Bloomfwd, figure 1",
        claim: "30 % is best on average, H2 in filter and table best of all; Knuth's hash is below the others on average",
        plots: &[Plot { x: "ratio_percent", series: "hash", style: Style::Lines, ..RATE }],
    },
    parts: |context| {
        let ratios: &[u32] = context.pick(&[1, 5, 10, 30, 60, 90], &[1, 10, 30, 60, 90]);
        let entrants = ["murmur", "knuth", "h2"].into_iter().flat_map(|hash| {
            ratios.iter().map(move |percent| {
                Entrant::new("bloomfwd")
                    .option("hash", hash)
                    .option("false_positives", f64::from(*percent) / 100.0)
                    .label("hash", hash)
                    .label("ratio_percent", percent)
            })
        });
        let part = |table: &String| {
            Part::ipv4(table)
                .entrants(entrants.clone())
                .traffic(&[Traffic::Random])
                .measure(&[Measure::Rate])
        };
        context.beside(&[AS65000]).iter().map(part).collect()
    },
    claims: &[Claim::Judge(hashes)],
    notes: &[
        ONE_CORE,
        "filter and table share the hash here, so the paper's mixed pairs (Murmur + H2) are left out",
    ],
};

/// Figure 2: threads.
pub static FIG2: Study = Study {
    card: &Card {
        name: "bloomfwd/fig2",
        takes: Takes { full_s: 25.0, quick_s: 2.0 },
        help: "lookup rate by threads: Bloomfwd, the two algorithms that it improves, MIHT",
        source: "Bloomfwd, figure 2",
        claim: "Bloomfwd is the fastest on one thread, at least 3.7 × Baseline and MIHT on the Phi, and scales best",
        plots: &[Plot { x: "threads", series: "engine+isa", style: Style::Lines, ..RATE }],
    },
    parts: |context| {
        let engines = ["bloomfwd", "bloom-baseline", "bloom-naive", "miht"];
        let part = |table: &String| {
            Part::ipv4(table)
                .entrants(as_in_the_paper(&engines.map(Entrant::new)))
                .traffic(&[Traffic::Random])
                .measure(&[Measure::Threads(16)])
        };
        context.beside(&[AS65000]).iter().map(part).collect()
    },
    claims: &[
        ratio(
            "bloom-baseline",
            "the fastest on one core: faster than Baseline",
            Bound::more(),
            ONE,
        ),
        ratio("miht", "the fastest on one core: faster than MIHT", Bound::more(), ONE),
        ratio("bloom-baseline", "at least 3.7 × Baseline, whatever the threads", AT_LEAST, &[]),
        ratio("miht", "at least 3.7 × MIHT, whatever the threads", AT_LEAST, &[]),
        Claim::Ratio {
            text: "Baseline is faster than Naïve (not in the paper's evaluation)",
            figure: "rate_mlps",
            label: "engine",
            of: "bloom-baseline",
            to: "bloom-naive",
            bound: Bound::more().ours(),
            when: ONE,
        },
        Claim::Scaling {
            text: "Bloomfwd scales with threads (116 × on 244 threads of 61 cores)",
            figure: "rate_mlps",
            along: "threads",
            bound: Bound::within(116.0 / 244.0, 1.0),
            when: &[("engine", "bloomfwd")],
        },
        Claim::Judge(at_scale),
    ],
    notes: &[
        "the paper's sequential MIHT beats its Baseline on the Phi (0.46 against 0.31 Mlps)",
        "at least 3.7 × is said of the Phi, whose memory bandwidth the paper's CPU does not have; alike at \
         scale is said of the CPU",
    ],
};

/// Figure 3: share of addresses that match.
pub static FIG3: Study = Study {
    card: &Card {
        name: "bloomfwd/fig3",
        takes: Takes { full_s: 12.0, quick_s: 3.0 },
        help: "lookup rate of Bloomfwd against the share of addresses that have a route",
        source: "Bloomfwd, figure 3",
        claim: "the matching ratio has little impact",
        plots: &[Plot { x: "matching_percent", style: Style::Lines, ..RATE }],
    },
    parts: |context| {
        let part = |(table, percent): (&String, u8)| {
            let part = Part::ipv4(table).engines(&["bloomfwd"]).label("matching_percent", percent);
            part.traffic(&[Traffic::Matching(percent)]).measure(&[Measure::Rate])
        };
        let tables = context.beside(&[AS65000]);
        tables.iter().flat_map(|table| [0, 20, 40, 60, 80, 100].map(|p| part((table, p)))).collect()
    },
    claims: &[Claim::Judge(|rows| {
        // Each share has traffic of its own.
        let rows = without(rows, "traffic");
        each_kind(&rows, "the matching ratio has little impact: best over worst", |rows| {
            let rates = rows.iter().filter_map(|row| row.median("rate_mlps"));
            let found = best_over_worst(rates.collect());
            Bound::about(1.0).judge("", found.as_slice(), "×")
        })
    })],
    notes: &[ONE_CORE],
};

/// Figure 4: random addresses and those of real flows.
pub static FIG4: Study = Study {
    card: &Card {
        name: "bloomfwd/fig4",
        takes: Takes { full_s: 10.0, quick_s: 2.0 },
        help: "lookup rate of Bloomfwd and MIHT with random and with recurring addresses",
        source: "Bloomfwd, figure 4",
        claim: "addresses of a real trace are looked up 1.16 times as fast as random ones",
        plots: &[Plot { x: "traffic", style: Style::Bars, ..RATE }],
    },
    parts: |context| {
        let traffic = [Traffic::Random, Traffic::Zipf, Traffic::Repeated];
        let part = |table: &String| {
            Part::ipv4(table)
                .engines(&["bloomfwd", "miht"])
                .traffic(&traffic)
                .measure(&[Measure::Rate])
        };
        context.beside(&[AS65000]).iter().map(part).collect()
    },
    claims: &[Claim::Ratio {
        text: "Bloomfwd: addresses of a real trace, which recur in flows, are 1.16 times as fast as random ones",
        figure: "rate_mlps",
        label: "traffic",
        of: "zipf",
        to: "random",
        bound: Bound::gain_of(1.16),
        when: &[("engine", "bloomfwd")],
    }],
    notes: &[
        "CAIDA's traces cannot be had: Zipf's law over 100,000 flows instead; repeated, each address 16 \
         times in a row, is what no trace has",
    ],
};

/// Figure 5: table size.
pub static FIG5: Study = Study {
    card: &Card {
        name: "bloomfwd/fig5",
        takes: Takes { full_s: 15.0, quick_s: 3.0 },
        help: "lookup rate of Bloomfwd against the share of the table that is kept",
        source: "Bloomfwd, figure 5",
        claim: "with 1/16 of the prefixes the rate grows from 68 to 79 Mlps (1.16 ×)",
        plots: &[Plot { x: "one_in", style: Style::LogLines, ..RATE }],
    },
    parts: |context| {
        let part = |(table, n): (&String, u32)| {
            let part = Part::ipv4(format!("{table}|keep={n}")).engines(&["bloomfwd"]);
            part.label("one_in", n).traffic(&[Traffic::Random]).measure(&[Measure::Rate])
        };
        let tables = context.beside(&[AS65000]);
        tables.iter().flat_map(|table| [1, 2, 4, 8, 16].map(|n| part((table, n)))).collect()
    },
    claims: &[Claim::Trend {
        text: "with 1/16 of the prefixes lookups are 1.16 times as fast",
        figure: "rate_mlps",
        along: "one_in",
        bound: Bound::gain_of(1.16),
        when: &[],
    }],
    notes: &[ONE_CORE],
};

/// Figure 6: several tables.
pub static FIG6: Study = Study {
    card: &Card {
        name: "bloomfwd/fig6",
        takes: Takes { full_s: 55.0, quick_s: 2.0 },
        help: "lookup rate of Bloomfwd and MIHT on several tables",
        source: "Bloomfwd, figure 6",
        claim: "Bloomfwd is about 4 × MIHT whatever the table",
        plots: &[Plot { x: "table", series: "engine+isa", style: Style::Bars, ..RATE }],
    },
    parts: |context| {
        let usual = [
            "internet:647346,2",
            "internet:620188,3",
            "internet:640812,4",
            "internet:634177,5",
            "internet:652531,6",
        ];
        let usual = &usual[..context.pick(5, 2)];
        let part = |table: &String| {
            Part::ipv4(table)
                .entrants(as_in_the_paper(&["bloomfwd", "miht"].map(Entrant::new)))
                .traffic(&[Traffic::Random])
                .measure(&[Measure::Rate])
        };
        context.beside(usual).iter().map(part).collect()
    },
    claims: &[Claim::Ratio {
        text: "about 4 × MIHT, regardless of the dataset",
        figure: "rate_mlps",
        label: "engine",
        of: "bloomfwd",
        to: "miht",
        bound: Bound::gain_of(4.0).every(),
        when: &[],
    }],
    notes: &["generated tables of the sizes of the paper's"],
};

const RATE: Plot = Plot {
    title: "Lookups",
    figure: "rate_mlps",
    unit: "million lookups/s",
    x: "table",
    series: "engine",
    panels: &[],
    style: Style::Bars,
};

const ONE_CORE: &str = "one core of a general processor instead of the 244 threads of a Xeon Phi";

const ONE: &[Pair] = &[("threads", "1")];
const AT_LEAST: Bound = Bound::least(3.7).every();

/// Bloomfwd over another.
const fn ratio(to: &'static str, text: &'static str, bound: Bound, when: &'static [Pair]) -> Claim {
    Claim::Ratio { text, figure: "rate_mlps", label: "engine", of: "bloomfwd", to, bound, when }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ruling::{AsStated, Contradicted};
    use crate::{Experiment, Row};

    /// Each share is its own kind of traffic: judged apart, no rate differs from itself.
    #[test]
    fn shares_of_matches_are_compared_with_one_another() {
        let ruled = |rates: [f64; 2]| {
            let row = |(percent, rate)| {
                let traffic = Traffic::Matching(percent).to_string();
                let labels = [("table", "internet:9".to_string()), ("traffic", traffic)];
                Row::new(labels).labelled("matching_percent", percent).with("rate_mlps", rate)
            };
            let verdicts =
                FIG3.judge(&[0, 100].into_iter().zip(rates).map(row).collect::<Vec<_>>());
            verdicts.into_iter().map(|verdict| verdict.ruling).collect::<Vec<_>>()
        };
        assert_eq!(ruled([50.0, 35.0]), [Contradicted]);
        assert_eq!(ruled([50.0, 48.0]), [AsStated]);
    }
}
