//! `router/scale`: one worker and two, each with its own ring of packets and its
//! own core, all with the same tables; control does nothing.

use std::thread;

use lookup::{Hop, Prefix};

use super::bed::{Bed, Faults};
use super::frames::Frames;
use super::half::Half;
use super::source::Source;
use super::tables::Tables;
use crate::clock;
use crate::crew::{Crew, Maker};
use crate::data::Traffic;
use crate::slices::Variant;
use crate::{Card, Context, Error, Experiment, Plot, Record, Row, Style, Takes, Verdict};

/// See the module.
pub struct Scale;

impl Experiment for Scale {
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
        if clock::cores().len() < MOST_WORKERS {
            let what = format!("{MOST_WORKERS} cores");
            return Err(Error::Missing { experiment: CARD.name, what });
        }
        let halves = Half::all(context, &["internet:1000000"], &["internet6:200000"]);
        let rows = context.cells(halves, |context, half| {
            let table = half.table(context)?;
            match half.family {
                "ipv4" => measure(context, &table.ipv4),
                _ => measure(context, &table.ipv6),
            }
        })?;
        let note = "rates are sums over the workers, each by its own processor time";
        let verdicts = self.judge(&rows);
        Ok(context.record(rows, verdicts, vec![note.into()]))
    }
}

const CARD: Card = Card {
    name: "router/scale",
    takes: Takes { full_s: 12.0, quick_s: 3.0 },
    help: "forwarding rate of one worker and of two, mem ports, control idle",
    source: "issue on the router; peers: two cores scale 1.8 to 2 times",
    claim: "two workers forward at least 1.8 times what one does",
    plots: &[Plot {
        title: "Forwarding by workers",
        figure: "rate_mpps",
        unit: "million packets/s",
        x: "workers",
        series: "family",
        panels: &[],
        style: Style::Bars,
    }],
};

fn measure<A: Frames>(context: &Context, routes: &[(Prefix<A>, Hop)]) -> Result<Vec<Row>, Error> {
    workers(context, routes, A::DEFAULT)
        .map_err(|what| Error::Wrong { experiment: CARD.name, what })
}

/// Rows for one worker and two with the engine called `engine`.
pub(in crate::experiments) fn workers<A: Frames>(
    context: &Context,
    routes: &[(Prefix<A>, Hop)],
    engine: &str,
) -> Result<Vec<Row>, String> {
    let routed: Vec<_> = routes.iter().filter(|(prefix, _)| prefix.len() > 0).copied().collect();
    if routed.is_empty() {
        return Ok(Vec::new());
    }
    let dsts = Traffic::Prefix.draw(&routed, PACKETS, 1);
    let (tables, _updater) = Tables::new(&routed, engine, false)?;
    let timings = thread::scope(|scope| {
        let maker = |_| -> Maker<'_> {
            let (tables, dsts) = (&tables, &dsts);
            Box::new(move || {
                let faults = Faults::default();
                let source = Source::mem(PACKETS, dsts);
                // Without packets its slices have no checksum.
                Box::new(source.and_then(|s| Bed::new(tables, "worker", s, &faults)).ok())
            })
        };
        let crew =
            |n: usize| Variant::new(n.to_string(), Crew::new(scope, (0..n).map(maker).collect()));
        context.measure(&mut (1..=MOST_WORKERS).map(crew).collect::<Vec<_>>())
    });
    let mut rows = Vec::new();
    for timing in &timings {
        if timing.checksum.is_none() {
            return Err(format!("{} workers: packets left wrongly", timing.name));
        }
        let row = Row::new([
            ("family", A::FAMILY.to_string()),
            ("prefixes", routes.len().to_string()),
            ("workers", timing.name.clone()),
        ]);
        rows.push(row.with("rate_mpps", timing.rate.scaled(1e-6)));
    }
    Ok(rows)
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let rate = |family: &str, workers: &str| {
        let labels = [("family", family), ("workers", workers)];
        rows.iter().find(|row| row.is(&labels))?.median("rate_mpps")
    };
    let verdict = |family: &str| {
        let ratio = rate(family, "2")? / rate(family, "1")?;
        Some(Verdict::at_least(format!("{family}: two workers ≥ 1.8 × one"), ratio, 1.8, "×"))
    };
    ["ipv4", "ipv6"].into_iter().filter_map(verdict).collect()
}

const MOST_WORKERS: usize = 2;
const PACKETS: usize = 16_000;
