//! `lpm/peers`: every engine and every rival on one table.
//!
//! ```text
//!  rate      destinations in bursts of 256, 64 and 4,096, four kinds of traffic
//!  latency   each destination waits for the hop before it
//!  update    delete a prefix, put it back; with and without a reader beside
//!  bytes     what a lookup can read; the store of routes and the writer apart
//! ```

use crate::data::Traffic;
use crate::lookups::{Claim, Measure, Part, Study};
use crate::reads::SUFFIX;
use crate::record::short;
use crate::{Card, Context, Plot, Row, Style, Takes, Verdict};

/// See the module.
pub static PEERS: Study = Study {
    card: &CARD,
    parts,
    claims: &[Claim::Judge(goals)],
    notes: &[
        "rates and latencies by thread processor time, variants in turn; hops folded (--hops)",
        "an update is a delete or an insert of a random prefix, the store of routes included",
    ],
};

const CARD: Card = Card {
    name: "lpm/peers",
    takes: Takes { full_s: 900.0, quick_s: 200.0 },
    help: "every engine and rival on a table: rate, dependent latency, bytes, build and update time",
    source: "issue on longest-prefix match, points 4 and 5",
    claim: "rutter4 and rutter6 are faster than every other engine and every rival, in fewer bytes, in every row",
    plots: &[
        rate("Lookups in bursts of 256", "rate_mlps"),
        rate("Lookups in bursts of 64", "rate_64_mlps"),
        rate("Lookups in bursts of 4,096", "rate_long_mlps"),
        Plot { unit: "ns", ..rate("Dependent latency", "latency_ns") },
        per_engine("Memory that a lookup can read", "bytes_per_prefix", "bytes a prefix"),
        per_engine("Store of routes and writer", "writer_bytes_per_prefix", "bytes a prefix"),
        per_engine("Build", "build_s", "s"),
        per_engine("Update beside a reader", "update_beside_reader_us", "µs"),
        per_engine("Change of the default route", "update_default_us", "µs"),
    ],
};

const fn rate(title: &'static str, figure: &'static str) -> Plot {
    Plot {
        title,
        figure,
        unit: "million lookups/s",
        x: "engine",
        series: "traffic",
        panels: &["family", "table"],
        style: Style::Ranked,
    }
}

const fn per_engine(title: &'static str, figure: &'static str, unit: &'static str) -> Plot {
    Plot { unit, series: "family", style: Style::RankedLog, ..rate(title, figure) }
}

fn parts(context: &Context) -> Vec<Part> {
    let mut parts = Vec::new();
    let usual = ["internet:1000000+200000", CROWDED, DEEP];
    for table in context.tables(context.pick(&usual, &usual[..2])) {
        parts.extend([Part::ipv4(&table), Part::ipv6(&table)]);
    }
    let measures = [
        Measure::Build,
        Measure::Rate,
        Measure::Rate64,
        Measure::RateLong,
        Measure::Latency,
        Measure::Updates,
    ];
    parts.into_iter().map(|part| part.traffic(&Traffic::ALL).measure(&measures)).collect()
}

/// The goals of the issue, each for every table that was measured.
fn goals(rows: &[Row]) -> Vec<Verdict> {
    let of = |table: &str| {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.label("table") == table).collect();
        let has = |family| rows.iter().any(|row| row.label("family") == family);
        let rates = RATES.iter().filter(|goal| has(goal.family));
        let mut verdicts: Vec<_> = rates.map(|goal| goal.judge(&rows, table)).collect();
        let bounds = BOUNDS.iter().filter(|bound| has(bound.family));
        verdicts.extend(bounds.map(|bound| bound.judge(&rows, table)));
        let families = [("ipv4", "rutter4"), ("ipv6", "rutter6")].into_iter();
        verdicts.extend(families.filter_map(|of| everywhere(&rows, of, table)));
        verdicts
    };
    tables(rows).into_iter().flat_map(of).collect()
}

/// What the reads of an engine alone would make of its goals over one rival, where both took
/// part: no goals themselves.
pub(super) fn allowed(rows: &[Row]) -> Vec<Verdict> {
    const READS: [(&str, &str); 2] = [("rutter4", "rutter4-reads"), ("rutter6", "rutter6-reads")];
    let one = |goal: &&Rate| !goal.rivals.is_empty();
    let of = |table: &str| {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.label("table") == table).collect();
        let judged = RATES.iter().filter(one).filter_map(|goal| {
            let (_, ours) = READS.into_iter().find(|(engine, _)| *engine == goal.ours)?;
            let verdict = Rate { ours, ..*goal }.judge(&rows, table);
            let said = verdict.holds().is_some();
            said.then(|| Verdict::beside(verdict.claim, verdict.measured))
        });
        judged.collect::<Vec<_>>()
    };
    tables(rows).into_iter().flat_map(of).collect()
}

fn tables(rows: &[Row]) -> Vec<&str> {
    let mut tables: Vec<&str> = rows.iter().map(|row| row.label("table")).collect();
    tables.dedup();
    tables.sort_unstable();
    tables.dedup();
    tables
}

/// As location data are, which nobody tunes a table for.
pub(super) const CROWDED: &str = "internet:608000+200000,long=22";

/// The same for IPv6, worse than anybody has seen: most routes in /48s that have many.
pub(super) const DEEP: &str = "internet6:200000,long=60";

/// What is asked of a table, and of one with many long prefixes in crowded blocks.
#[derive(Clone, Copy)]
struct Goal {
    usual: f64,
    crowded: f64,
}

impl Goal {
    fn of(self, table: &str) -> f64 {
        if table.contains(",long=") { self.crowded } else { self.usual }
    }
}

/// `ours` against the best of `rivals`, names or beginnings of names.
#[derive(Clone, Copy)]
struct Rate {
    family: &'static str,
    ours: &'static str,
    rivals: &'static str,
    figure: &'static str,
    traffic: &'static str,
    factor: Goal,
}

impl Rate {
    fn judge(&self, rows: &[&Row], table: &str) -> Verdict {
        let Rate { family, ours, rivals, figure, traffic, factor } = self;
        let factor = factor.of(table);
        let claim = format!(
            "{table}, {traffic} traffic{}: {ours} ≥ {factor} × {}",
            match *figure {
                "rate_long_mlps" => ", long bursts",
                _ => "",
            },
            if rivals.is_empty() { "all others" } else { rivals },
        );
        let on = rows.iter().filter(|row| row.is(&[("family", family), ("traffic", traffic)]));
        let figures = |is: &dyn Fn(&str) -> bool| {
            let those = on.clone().filter(|row| is(row.label("engine")));
            let figures = those.filter_map(|row| Some((row.median(figure)?, row.label("engine"))));
            figures.max_by(|a, b| a.0.total_cmp(&b.0))
        };
        let own = figures(&|name| name == *ours);
        // Where the processor has no more than AVX2, it goes by the plain name.
        let rivals = match rivals.strip_suffix("-avx2") {
            Some(plain) if figures(&|name| name == *rivals).is_none() => plain,
            _ => *rivals,
        };
        // The same engine with other instructions is no rival, and nobody's reads are.
        let is_own = |name: &str| name.starts_with(*ours) || name.ends_with(SUFFIX);
        let best = figures(&|name| !is_own(name) && name.starts_with(rivals));
        match (own, best) {
            (Some((own, _)), Some((best, name))) => {
                let measured = format!("{} × {name} ({} M/s)", short(own / best), short(own));
                Verdict::goal(claim, measured, own / best >= factor)
            }
            _ => Verdict::open(claim, "one of them did not take part"),
        }
    }
}

/// `ours` is faster than every other engine and rival with every kind of traffic and in
/// every burst, in fewer bytes: only where each row agrees. The worst of them is named.
fn everywhere(rows: &[&Row], (family, ours): (&str, &str), table: &str) -> Option<Verdict> {
    let claim = format!("{table}: {ours} is faster than every other, in fewer bytes, in every row");
    let of: Vec<&Row> = rows.iter().copied().filter(|row| row.label("family") == family).collect();
    let (mut worst, mut fails, mut all) = (None::<(f64, String)>, 0, 0);
    let own = of.iter().filter(|row| row.label("engine") == ours);
    for (own, figure) in own.flat_map(|own| AGAINST.map(|figure| (own, figure))) {
        let Some(value) = own.median(figure) else { continue };
        let traffic = own.label("traffic");
        let others = of.iter().filter(|row| row.label("traffic") == traffic);
        // The same engine with other instructions, and its reads alone, are no others.
        for other in others.filter(|row| !row.label("engine").starts_with(ours)) {
            let Some(theirs) = other.median(figure) else { continue };
            let gain = if figure == BYTES { theirs / value } else { value / theirs };
            let what = if figure == BYTES { "bytes" } else { traffic };
            let name = format!("{} × {}, {what} ({figure})", short(gain), other.label("engine"));
            (all, fails) = (all + 1, fails + usize::from(gain <= 1.0));
            if worst.as_ref().is_none_or(|(least, _)| gain < *least) {
                worst = Some((gain, name));
            }
        }
    }
    let (_, worst) = worst?;
    Some(Verdict::goal(claim, format!("{worst} at worst; {fails} of {all} fail"), fails == 0))
}

const BYTES: &str = "bytes_per_prefix";
const AGAINST: [&str; 4] = ["rate_mlps", "rate_64_mlps", "rate_long_mlps", BYTES];

/// A figure of one engine that is at most `most`.
struct Bound {
    family: &'static str,
    ours: &'static str,
    figure: &'static str,
    most: Goal,
    unit: &'static str,
}

impl Bound {
    fn judge(&self, rows: &[&Row], table: &str) -> Verdict {
        let Bound { family, ours, figure, most, unit } = self;
        let most = most.of(table);
        let claim = format!("{table}: {ours} {figure} ≤ {most} {unit}");
        let mut own = rows.iter().filter(|row| row.is(&[("family", family), ("engine", ours)]));
        match own.find_map(|row| row.median(figure)) {
            Some(found) => Verdict::at_most(claim, found, most, unit),
            None => Verdict::open(claim, "it was not measured"),
        }
    }
}

const fn both(goal: f64) -> Goal {
    Goal { usual: goal, crowded: goal }
}

/// Something else of tables with many long prefixes.
const fn crowded(goal: Rate, crowded: f64) -> Rate {
    Rate { factor: Goal { crowded, ..goal.factor }, ..goal }
}

const fn v4(ours: &'static str, rivals: &'static str, traffic: &'static str, least: f64) -> Rate {
    let factor = both(least);
    Rate { family: "ipv4", ours, rivals, figure: "rate_mlps", traffic, factor }
}

const fn v6(rivals: &'static str, traffic: &'static str, least: f64) -> Rate {
    let factor = both(least);
    Rate { family: "ipv6", ours: "rutter6", rivals, figure: "rate_mlps", traffic, factor }
}

const fn long(goal: Rate) -> Rate {
    Rate { figure: "rate_long_mlps", ..goal }
}

const fn bound4(figure: &'static str, most: f64, unit: &'static str) -> Bound {
    let most = both(most);
    Bound { family: "ipv4", ours: "rutter4", figure, most, unit }
}

const fn bound6(figure: &'static str, most: f64, unit: &'static str) -> Bound {
    let most = both(most);
    Bound { family: "ipv6", ours: "rutter6", figure, most, unit }
}

const RATES: &[Rate] = &[
    v4("rutter4", "rte_fib-2b", "random", 3.0),
    crowded(v4("rutter4", "rte_fib-2b", "prefix", 2.0), 1.5),
    crowded(v4("rutter4", "rte_fib-2b", "zipf", 1.1), 1.0),
    v4("rutter4", "", "random", 1.0),
    v4("rutter4", "", "prefix", 1.0),
    v4("rutter4", "", "zipf", 1.0),
    v4("dir-24-8", "rte_fib-4b", "random", 0.9),
    v4("dir-24-8", "rte_fib-4b", "prefix", 0.9),
    long(v6("planb-avx2", "random", 2.2)),
    long(v6("planb-avx2", "prefix", 2.2)),
    long(v6("planb-avx2", "zipf", 2.0)),
    v6("planb-avx2", "random", 1.8),
    v6("planb-avx2", "prefix", 1.8),
    v6("rte_fib6", "random", 5.0),
    crowded(v6("rte_fib6", "prefix", 5.0), 1.5),
    crowded(v6("rte_fib6", "zipf", 3.0), 1.0),
    v6("poptrie", "random", 5.0),
    v6("poptrie", "prefix", 5.0),
    v6("poptrie", "zipf", 3.0),
    v6("", "random", 1.0),
    v6("", "prefix", 1.0),
];

const BOUNDS: &[Bound] = &[
    bound4("bytes_per_prefix", 8.0, "bytes"),
    Bound {
        most: Goal { usual: 1.0, crowded: 1.5 },
        ..bound4("update_beside_reader_us", 1.0, "µs")
    },
    bound4("update_default_us", 1.0, "µs"),
    bound4("build_s", 0.2, "s"),
    bound6("bytes_per_prefix", 16.0, "bytes"),
    bound6("update_beside_reader_us", 4.0, "µs"),
    bound6("build_s", 0.05, "s"),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Engines and their rates, in M/s.
    fn found(engines: &[(&str, f64)]) -> String {
        let row = |(engine, rate): &(&str, f64)| {
            let labels = [("engine", *engine), ("family", "ipv6"), ("traffic", "random")];
            Row::new(labels).with("rate_mlps", *rate)
        };
        let rows: Vec<Row> = engines.iter().map(row).collect();
        let goal = v6("planb-avx2", "random", 1.8);
        goal.judge(&rows.iter().collect::<Vec<_>>(), "t").measured
    }

    #[test]
    fn tables_with_long_prefixes_have_goals_of_their_own() {
        let labels = [("engine", "rutter4"), ("family", "ipv4")];
        let row = Row::new(labels);
        let row = row.with("update_beside_reader_us", 1.2);
        let bound = BOUNDS.iter().find(|bound| bound.figure == "update_beside_reader_us").unwrap();
        let holds = |table| bound.judge(&[&row], table).holds();
        assert_eq!([holds("internet:1000000"), holds(CROWDED)], [Some(false), Some(true)]);
        let rows = [("rutter6", 3.2), ("rte_fib6", 1.0)].map(|(engine, rate)| {
            let labels = [("engine", engine), ("family", "ipv6"), ("traffic", "prefix")];
            Row::new(labels).with("rate_mlps", rate)
        });
        let goals = RATES.iter().filter(|goal| goal.rivals == "rte_fib6");
        let goal = goals.into_iter().find(|goal| goal.traffic == "prefix").unwrap();
        let holds = |table| goal.judge(&rows.each_ref(), table).holds();
        assert_eq!(
            ["internet:1+200000", CROWDED, DEEP].map(holds),
            [Some(false), Some(true), Some(true)]
        );
    }

    #[test]
    fn faster_than_every_other_needs_every_row() {
        let row = |engine: &str, traffic: &str, figure: &str, value: f64| {
            let labels = [("engine", engine), ("family", "ipv4"), ("traffic", traffic)];
            Row::new(labels).with(figure, value)
        };
        let said = |zipf: f64, bytes: f64| {
            let rows = [
                row("rutter4", "random", "rate_mlps", 9.0),
                row("rutter4", "zipf", "rate_mlps", zipf),
                row("rutter4", "", BYTES, bytes),
                row("rutter4-avx2", "zipf", "rate_mlps", 99.0),
                row("dxr", "random", "rate_mlps", 3.0),
                row("dxr", "zipf", "rate_mlps", 4.0),
                row("dxr", "", BYTES, 3.0),
            ];
            let rows: Vec<&Row> = rows.iter().collect();
            everywhere(&rows, ("ipv4", "rutter4"), "t").unwrap().holds()
        };
        assert_eq!(said(5.0, 2.0), Some(true));
        assert_eq!([said(3.0, 2.0), said(5.0, 4.0)], [Some(false); 2]);
    }

    #[test]
    fn a_rival_of_avx2_is_the_plain_one_where_there_is_no_more() {
        let more = [("rutter6", 6.0), ("rutter6-avx2", 5.0), ("planb", 4.0), ("planb-avx2", 3.0)];
        assert_eq!(found(&more), "2 × planb-avx2 (6 M/s)");
        assert_eq!(found(&[("rutter6", 6.0), ("planb", 4.0)]), "1.5 × planb (6 M/s)");
    }
}
