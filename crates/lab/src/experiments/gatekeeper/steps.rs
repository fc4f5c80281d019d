//! `gatekeeper/fig4.6`: what the thesis did to requests under a flood, a step at a time and in
//! its order; and then ours.
//!
//! ```text
//!   header ─► pair ─► flow found or made ─► its level ─► solicitor: 64 levels, 5 % leave
//! ```
//!
//! A step is an option of the flow tables (`stop`, `batch`), or, for the solicitor's links, of
//! the experiment's own queue ([`solicit::Links`]).

mod solicit;
mod worker;

use lookup::exact::flow::{Wanted, engine};
use lookup::lpm::Options;

use crate::lookups::Claim;
use crate::lookups::claims::ratios;
use crate::matching::fixed_seed;
use crate::record::Bound;
use crate::slices::{Variant, repeat};
use crate::{Card, Context, Error, Experiment, Plot, Record, Row, Style, Takes, Verdict, clock};
use solicit::Links;
use worker::{SECOND, Worker};

/// See the module.
pub struct Fig46;

impl Experiment for Fig46 {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        let sizes = context.pick(vec![15, 20, 25], vec![12]);
        let sizes = sizes.into_iter().map(|bits| format!("2^{bits}"));
        let rows = context.cells(sizes, |context, name| {
            clock::cores().last().map(|&core| clock::pin(core));
            let bits: u32 = name.trim_start_matches("2^").parse().expect("it was made of a number");
            // Of large tables no two fit.
            let together = if bits > 20 { 1 } else { STEPS.len() };
            let rows = STEPS.chunks(together).flat_map(|steps| measure(context, steps, bits));
            Ok(agreeing(rows.collect()))
        })?;
        let verdicts = CLAIMS.iter().flat_map(|claim| claim.judge(&rows)).collect();
        let notes = [
            "64 packets a burst, each of a new flow; the table is full but for one flow a burst, which \
             goes as by a sweep",
            "checksum: the levels of 8,192 packets, of which a quarter are of known flows, and \
             which of them the solicitor sends; the same in all rows of one rule",
            "one worker does it all, the solicitor's part too; no packet is received or sent",
            "coroutines take the place of groups, 32 at a time; the steps behind have groups",
        ];
        Ok(context.record(rows, verdicts, notes.map(String::from).to_vec()))
    }
}

const CARD: Card = Card {
    name: "gatekeeper/fig4.6",
    takes: Takes { full_s: 360.0, quick_s: 5.0 },
    help: "requests of new flows into a full table: the thesis' steps from DPDK's hashing on",
    source: "thesis, figure 4.6",
    claim: "the steps make it 3.0 and 124 times as fast, at 2^15 and 2^20 flows",
    plots: &[Plot {
        title: "Requests of new flows, the table full",
        figure: "rate_mpps",
        unit: "million packets/s",
        x: "places",
        series: "step",
        panels: &[],
        style: Style::Bars,
    }],
};

/// How requests are served.
struct Step {
    name: &'static str,
    engine: &'static str,
    options: &'static [(&'static str, &'static str)],
    heads: Heads,
    links: Links,
}

/// How packets' headers are read.
#[derive(Clone, Copy, PartialEq)]
enum Heads {
    /// One after the other.
    Singly,
    /// Four ahead.
    Ahead,
    /// In turns.
    Turns,
}

const STEPS: &[Step] = &[
    Step {
        name: VANILLA,
        engine: "cuckoo-flow",
        options: &[("stop", "off"), ("batch", "singly")],
        heads: Heads::Singly,
        links: Links::Pool,
    },
    Step {
        name: STOP,
        engine: "cuckoo-flow",
        options: &[("stop", "on"), ("batch", "singly")],
        heads: Heads::Singly,
        links: Links::Pool,
    },
    Step {
        name: GROUPS,
        engine: "cuckoo-flow",
        options: &[("stop", "on"), ("batch", "groups")],
        heads: Heads::Ahead,
        links: Links::Pool,
    },
    Step {
        name: TURNS,
        engine: "cuckoo-flow",
        options: &[("stop", "on"), ("batch", "turns")],
        heads: Heads::Turns,
        links: Links::Pool,
    },
    Step {
        name: LINKS,
        engine: "cuckoo-flow",
        options: &[("stop", "on"), ("batch", "groups")],
        heads: Heads::Ahead,
        links: Links::Packet,
    },
    Step {
        name: "ours: flow-table, a flow makes room",
        engine: "flow-table",
        options: &[("full", "replace"), ("decided_max", "0"), ("batch", "groups")],
        heads: Heads::Ahead,
        links: Links::Packet,
    },
];

const VANILLA: &str = "cuckoo-flow, one by one, requests in a pool";
const STOP: &str = "+ no insertion after a failure";
const GROUPS: &str = "+ groups";
const TURNS: &str = "or + coroutines";
const LINKS: &str = "+ links in the packet, a burst at once";

const CLAIMS: &[Claim] = &[Claim::Judge(factors), Claim::Judge(whole)];

/// What each step is said to make, at 2^15 and at 2^20: within a tenth.
fn factors(rows: &[Row]) -> Vec<Verdict> {
    let steps: [(&str, &str, &str, [f64; 2]); 5] = [
        ("no insertion after a failure", STOP, VANILLA, [1.2, 31.7]),
        ("group prefetching", GROUPS, STOP, [1.4, 2.6]),
        ("coroutines", TURNS, STOP, [1.1, 1.9]),
        ("links in the packet, a burst at once", LINKS, GROUPS, [1.8, 1.5]),
        ("all but coroutines, by these factors", LINKS, VANILLA, [3.0, 124.0]),
    ];
    let mut verdicts = Vec::new();
    for (what, of, to, factors) in steps {
        for (places, factor) in ["2^15", "2^20"].into_iter().zip(factors) {
            let text = format!("{what}: {factor} × at {places} flows");
            let found = ratio(rows, of, to, places);
            verdicts.push(Bound::gain_of(factor).judge(text, &found, "×"));
        }
    }
    verdicts
}

/// What is said of all of them.
fn whole(rows: &[Row]) -> Vec<Verdict> {
    let [small, large] = ["2^20", "2^25"].map(|places| ratio(rows, LINKS, VANILLA, places));
    let similar: Vec<f64> = large.iter().zip(&small).map(|(large, small)| large / small).collect();
    let text = "all of them: more than 90 × at 2^20 flows";
    vec![
        Bound::least(90.0).judge(text, &small, "×"),
        Bound::about(1.0).judge(
            "2^25 flows are similar: their factor over that of 2^20",
            &similar,
            "×",
        ),
    ]
}

fn ratio(rows: &[Row], of: &str, to: &str, places: &str) -> Vec<f64> {
    ratios(rows, "rate_mpps", ("step", of, to), &[("places", places)])
}

fn measure(context: &Context, steps: &[Step], bits: u32) -> Vec<Row> {
    let (mut workers, mut rows) = (Vec::new(), Vec::new());
    for step in steps {
        let rule = if step.engine == "flow-table" { "replace" } else { "thesis" };
        let labels = [("step", step.name), ("rule", rule), ("places", &format!("2^{bits}"))];
        let row = Row::new(labels.map(|(name, value)| (name, value.to_string())));
        let entry = engine(step.engine).expect("it is listed");
        let wanted = Wanted { entries: (1 << bits) - 1, second: SECOND };
        match (entry.build)(wanted, &options(step)) {
            Ok(table) => {
                let mut worker = Worker::new(table, step.heads, step.links);
                worker.fill();
                let row = row.checked(worker.trace());
                workers.push(worker);
                rows.push(row);
            }
            Err(refusal) => rows.push(row.noting(refusal.to_string())),
        }
    }
    let slices = workers.iter_mut().map(|it| repeat(SLICE, || it.serve(SLICE)));
    let mut variants: Vec<_> = slices.map(|work| Variant::new("", work)).collect();
    let mut timings = context.measure(&mut variants).into_iter();
    drop(variants);
    let mut filled = workers.iter().map(Worker::filled_percent);
    let with = |row: Row| match row.note {
        Some(_) => row,
        None => {
            let timing = timings.next().unwrap_or_default();
            row.with("rate_mpps", timing.rate.scaled(1e-6))
                .with("packet_ns", timing.nanos)
                .with("packet_cycles", timing.cycles)
                .with("filled_percent", filled.next().unwrap_or_default())
        }
    };
    rows.into_iter().map(with).collect()
}

fn options(step: &Step) -> Options {
    let mut options = fixed_seed();
    let own = step.options.iter().map(|(name, value)| (name.to_string(), value.to_string()));
    options.0.extend(own);
    options
}

/// What answers otherwise than the first of its rule has no figures.
fn agreeing(rows: Vec<Row>) -> Vec<Row> {
    let right = |row: &Row| {
        let mut same = rows.iter().filter(|other| other.label("rule") == row.label("rule"));
        same.find_map(|other| other.checksum.clone()) == row.checksum
    };
    let each = rows.iter().map(|row| match right(row) {
        true => row.clone(),
        false => Row { figures: Default::default(), ..row.clone() }.noting("other verdicts"),
    });
    each.collect()
}

/// Packets between two looks at the clock: failing searches take 32 µs each.
const SLICE: u64 = 1 << 10;
