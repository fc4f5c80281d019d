//! `gatekeeper/fig4.6`: what the thesis did to requests under a flood, a step at a time and in
//! its order; and then ours.
//!
//! ```text
//!   header ─► pair ─► flow found or made ─► route of a new one ─► its level ─► solicitor:
//!                                                                   64 levels, 5 % leave
//! ```
//!
//! A step is an option: of the flow tables (`stop`, `batch`, `full`), or, as `links`, of the
//! queue, of which the shield has one kind alone. Any other combination is measured by
//! `--engine cuckoo-flow:stop=on,batch=turns,links=packet`.

mod solicit;
mod worker;

use std::fmt;
use std::sync::Arc;

use lookup::exact::flow::{Entry, Wanted, engine};
use lookup::lpm::{BadChoice, Choice, Lpm, Options};

use crate::lookups::Claim;
use crate::lookups::claims::ratios;
use crate::matching::fixed_seed;
use crate::record::Bound;
use crate::slices::{Variant, repeat};
use crate::{Card, Context, Error, Experiment, Plot, Record, Row, Style, Takes, Verdict, clock};
use solicit::Links;
use worker::{SECOND, Worker, fib};

/// See the module.
pub struct Fig46;

impl Experiment for Fig46 {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn takes_engine(&self, _: &Context, name: &str) -> bool {
        name.parse().is_ok_and(|choice: Choice| engine(&choice.name).is_some())
    }

    fn judge(&self, rows: &[Row]) -> Vec<Verdict> {
        CLAIMS.iter().flat_map(|claim| claim.judge(rows)).collect()
    }

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        let sizes = context.pick(vec![15, 20, 25], vec![12]);
        let wrong = |what| Error::Wrong { experiment: CARD.name, what };
        let steps = steps(context)?;
        let fib = fib().map_err(wrong)?;
        // Of large tables no two fit: these are measured one by one.
        let together = |bits: u32| if bits > 20 { 1 } else { steps.len().max(1) };
        let cells = sizes.into_iter().flat_map(|bits| {
            let of = |part| Cell { bits, part, parts: steps.len().div_ceil(together(bits)) };
            (0..steps.len().div_ceil(together(bits))).map(of).collect::<Vec<_>>()
        });
        let rows = context.cells(cells.collect::<Vec<_>>(), |context, cell| {
            clock::cores().last().map(|&core| clock::pin(core));
            let part = steps.chunks(together(cell.bits)).nth(cell.part).unwrap_or_default();
            Ok(measure(context, part, &fib, cell.bits))
        })?;
        let rows = agreeing(rows);
        let verdicts = self.judge(&rows);
        let notes = [
            "64 packets a burst, each of a new flow; the table is full but for one flow a burst, which \
             goes as by a sweep",
            "checksum: the levels of 8,192 packets, of which a quarter are of known flows, and \
             which of them the solicitor sends; the same in all rows of one rule",
            "rules: thesis, unbacked packets ask with the lowest level; deployed, they are dropped, and \
             nothing is inserted until a tenth of the table is free; replace, another makes room",
            "one worker does it all, the solicitor's part too; no packet is received or sent",
            "coroutines take the place of groups, 32 at a time; the steps behind have groups",
        ];
        Ok(context.record(rows, verdicts, notes.map(String::from).to_vec()))
    }
}

const CARD: Card = Card {
    name: "gatekeeper/fig4.6",
    takes: Takes { full_s: 300.0, quick_s: 5.0 },
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

/// What is measured at a time: some of the steps, at 2^`bits` places.
struct Cell {
    bits: u32,
    part: usize,
    parts: usize,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cell { bits, part, parts } = self;
        write!(f, "2^{bits}")?;
        if *parts > 1 { write!(f, ", {} of {parts}", part + 1) } else { Ok(()) }
    }
}

/// Those that were asked for, or all.
fn steps(context: &Context) -> Result<Vec<Step>, Error> {
    let missing = |what| Error::Missing { experiment: CARD.name, what };
    let step = |choice: &String| Step::new(choice, choice).map_err(missing);
    match context.engines() {
        [] => Ok(usual()),
        asked => asked.iter().map(step).collect(),
    }
}

/// How requests are served.
struct Step {
    name: String,
    engine: &'static Entry,
    /// Of the table.
    options: Options,
    /// What a full one does.
    rule: String,
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

impl Step {
    /// The one that is written `choice`: a flow table with its options, and the queue's `links`.
    /// Headers are read as the table's batches are.
    fn new(name: &str, choice: &str) -> Result<Step, String> {
        let Choice { name: of, options: Options(mut given) } =
            choice.parse().map_err(|bad: BadChoice| bad.to_string())?;
        let engine = engine(&of).ok_or_else(|| format!("a flow table, which `{of}` is not"))?;
        let links = match given.remove("links").as_deref() {
            None | Some("packet") => Links::Packet,
            Some("pool") => Links::Pool,
            Some(other) => return Err(format!("links=pool or links=packet, not `{other}`")),
        };
        let heads = match given.get("batch").map(String::as_str) {
            Some("singly") => Heads::Singly,
            Some("turns") => Heads::Turns,
            _ => Heads::Ahead,
        };
        let usual = engine.rules.first().map_or("", |rule| rule.name());
        let rule = given.get("full").map_or(usual, String::as_str).to_string();
        let mut options = fixed_seed();
        options.0.extend(given);
        Ok(Step { name: name.into(), engine, options, rule, heads, links })
    }
}

/// The thesis' steps and ours: each differs from the one that its factor is of by one option.
const STEPS: &[(&str, &str)] = &[
    (VANILLA, "cuckoo-flow:stop=off,batch=singly,links=pool"),
    (STOP, "cuckoo-flow:stop=on,batch=singly,links=pool"),
    (GROUPS, "cuckoo-flow:stop=on,batch=groups,links=pool"),
    (TURNS, "cuckoo-flow:stop=on,batch=turns,links=pool"),
    (LINKS, "cuckoo-flow:stop=on,batch=groups,links=packet"),
    ("flow-table, the thesis' rule", "flow-table:full=thesis,batch=groups,links=packet"),
    ("flow-table, as deployed", "flow-table:full=deployed,batch=groups,links=packet"),
    (OURS, "flow-table:full=replace,decided_max=0,batch=groups,links=packet"),
];

fn usual() -> Vec<Step> {
    let step =
        |(name, choice): &(&str, &str)| Step::new(name, choice).expect("as it is written here");
    STEPS.iter().map(step).collect()
}

const VANILLA: &str = "cuckoo-flow, one by one, requests in a pool";
const STOP: &str = "+ no insertion after a failure";
const GROUPS: &str = "+ groups";
const TURNS: &str = "or + coroutines";
const LINKS: &str = "+ links in the packet, a burst at once";
const OURS: &str = "ours: flow-table, a flow makes room";

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

fn measure(context: &Context, steps: &[Step], fib: &Arc<dyn Lpm<u32>>, bits: u32) -> Vec<Row> {
    let (mut workers, mut rows) = (Vec::new(), Vec::new());
    for step in steps {
        let places = format!("2^{bits}");
        let labels = [("step", &step.name), ("rule", &step.rule), ("places", &places)];
        let row = Row::new(labels.map(|(name, value)| (name, value.clone())));
        let wanted = Wanted { entries: (1 << bits) - 1, second: SECOND };
        match (step.engine.build)(wanted, &step.options) {
            Ok(table) => {
                let how = (step.heads, step.links);
                let mut worker = Worker::new(table, fib, how, step.rule == "thesis");
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

/// What answers otherwise than the first of its rule and places has no figures.
fn agreeing(rows: Vec<Row>) -> Vec<Row> {
    let right = |row: &Row| {
        let is_like = |other: &&Row| {
            ["rule", "places"].iter().all(|label| other.label(label) == row.label(label))
        };
        let mut same = rows.iter().filter(is_like);
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
