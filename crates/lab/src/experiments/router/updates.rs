//! `router/updates`: forwarding while the table changes.
//!
//! ```text
//!  worker's core     poll, poll, …                     slices at 0, 10,000 and 100,000
//!  control's core    delete a route, put it back, …    updates a second, in turn
//! ```
//!
//! Routes that cover none of the packets' destinations change, so that every
//! packet's next hop can still be checked. A slice that got fewer updates than
//! it should says so.

use std::cell::RefCell;
use std::rc::Rc;

use lookup::rib::Change;
use lookup::{Hop, Prefix};

use super::bed::{Bed, Faults};
use super::frames::Frames;
use super::half::Half;
use super::source::Source;
use super::tables::Tables;
use crate::data::{Rng, Traffic};
use crate::pace::{self, Beside};
use crate::record::short;
use crate::{Card, Context, Error, Experiment, Plot, Record, Row, Style, Takes, Verdict};

/// See the module.
pub struct Updates;

impl Experiment for Updates {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn families(&self, _: &Context) -> &'static [&'static str] {
        &["ipv4", "ipv6"]
    }

    fn judge(&self, rows: &[Row]) -> Vec<Verdict> {
        verdicts(rows)
    }

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        context.two_cores(CARD.name, "one forwards, one updates")?;
        let halves = Half::all(context, &["internet:1000000"], &["internet6:200000"]);
        let rows = context.cells(halves, |context, half| {
            let table = half.table(context)?;
            match half.family {
                "ipv4" => measure(context, &table.ipv4),
                _ => measure(context, &table.ipv6),
            }
        })?;
        let note = "a rate is the median of interleaved slices; `kept` is the median of its \
                    quotient by the slice without updates in the same round";
        let verdicts = self.judge(&rows);
        Ok(context.record(rows, verdicts, vec![note.into()]))
    }
}

const CARD: Card = Card {
    name: "router/updates",
    takes: Takes { full_s: 15.0, quick_s: 3.0 },
    help: "forwarding rate of one worker at 0, 10,000 and 100,000 updates a second",
    source: "issue on the router, point 5",
    claim: "forwarding keeps its rate within 2 % at 10,000 updates/s, within 5 % at 100,000",
    plots: &[Plot {
        title: "Forwarding beside updates",
        figure: "rate_mpps",
        unit: "million packets/s",
        x: "updates_wanted",
        series: "family",
        panels: &[],
        style: Style::Bars,
    }],
};

fn measure<A: Frames>(context: &Context, routes: &[(Prefix<A>, Hop)]) -> Result<Vec<Row>, Error> {
    let failed = |what: String| Error::Wrong { experiment: CARD.name, what };
    let routed: Vec<_> = routes.iter().filter(|(prefix, _)| prefix.len() > 0).copied().collect();
    if routed.is_empty() {
        return Ok(Vec::new());
    }
    let mut dsts = Traffic::Prefix.draw(&routed, PACKETS, 1);
    let (tables, updater) = Tables::new(&routed, A::DEFAULT, false).map_err(failed)?;
    let source = Source::mem(PACKETS, &dsts).map_err(failed)?;
    dsts.sort_unstable();
    let changes = changes(updater.rib.iter(), &dsts);
    if changes.is_empty() {
        return Err(failed("every route covers a destination".into()));
    }
    let faults: Faults = Rc::new(RefCell::new(Vec::new()));
    let bed = Bed::new(&tables, "worker", source, &faults).map_err(failed)?;
    let mut updater = updater;
    let mut next = changes.iter().cycle();
    let found = pace::beside(context, bed, &RATES, |pace| {
        pace.keep(|n| {
            let mut some = next.by_ref().take(n as usize);
            some.try_for_each(|change| updater.apply(std::slice::from_ref(change)))?;
            tables.reclaim();
            Ok(())
        })
    });
    let found = found.map_err(failed)?;
    if let Some(fault) = faults.borrow().first() {
        return Err(failed(fault.clone()));
    }
    let rows = found.iter().map(|Beside { wanted, done, timing, kept }| {
        let row = Row::new([
            ("family", A::FAMILY.to_string()),
            ("prefixes", routes.len().to_string()),
            ("engine", A::DEFAULT.to_string()),
            ("updates_wanted", wanted.to_string()),
        ]);
        row.with("updates_per_s", *done)
            .with("rate_mpps", timing.rate.scaled(1e-6))
            .with("cycles", timing.cycles)
            .with("kept", *kept)
    });
    Ok(rows.collect())
}

/// Deletions of routes that cover no destination, each followed by its return.
fn changes<A: Frames>(
    routes: impl Iterator<Item = (Prefix<A>, Hop)>,
    sorted_dsts: &[A],
) -> Vec<Change<A>> {
    let quiet = |prefix: &Prefix<A>| {
        let next = sorted_dsts.partition_point(|dst| *dst < prefix.first());
        sorted_dsts.get(next).is_none_or(|dst| *dst > prefix.last())
    };
    let mut some: Vec<_> = routes.filter(|(prefix, _)| quiet(prefix)).collect();
    Rng::new(11).shuffle(&mut some);
    some.truncate(MOST_ROUTES);
    let pair = |(prefix, hop)| [Change { prefix, hop: None }, Change { prefix, hop: Some(hop) }];
    some.into_iter().flat_map(pair).collect()
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for row in rows {
        let bound = match row.label("updates_wanted") {
            "10000" => 0.98,
            "100000" => 0.95,
            _ => continue,
        };
        let Some(kept) = row.median("kept") else { continue };
        let claim = format!(
            "{} at {} updates/s keeps ≥ {bound} of its rate",
            row.label("family"),
            row.label("updates_wanted")
        );
        let mut verdict = Verdict::at_least(claim, kept, bound, "×");
        let done = row.median("updates_per_s").unwrap_or(0.0);
        verdict.measured += &format!(" at {} updates/s done", short(done));
        verdicts.push(verdict);
    }
    verdicts
}

const RATES: [u64; 3] = [0, 10_000, 100_000];
const PACKETS: usize = 16_000;
const MOST_ROUTES: usize = 50_000;
