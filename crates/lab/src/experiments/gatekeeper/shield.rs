//! `gatekeeper/shield`: a shield on one machine, whose policy is asked in the same graph.
//!
//! ```text
//!  flood     each packet is a new flow, the table is full; 10,000 a second are asked about
//!  asked     the same, and as many are asked about as the channel takes in a poll
//!  granted   each packet is of a granted flow, and leaves by its route
//!  mixed     of ten packets eight are new flows, one is granted, one declined
//! ```
//!
//! One worker, receive and transmit included, as in [`path`](super::path), with its frames and its
//! generator. Beside it goes a Gatekeeper under the same packets, which wraps what it would send,
//! and a router. The policy declines whoever asks, at once: what one in Lua takes is
//! `gatekeeper/policies`. Each slice is checked: what the verdicts were, and that just what is
//! granted left.

use std::fmt;
use std::sync::Arc;

use lookup::lpm::Engines;

use super::super::router::{Bed as Router, Faults, Shuttle, Source, Tables};
use super::bed::{Bed, Load};
use super::generator::{Clients, PERIOD, known, source};
use super::path::PACKETS;
use super::site::{Rings, Site};
use crate::data::Traffic;
use crate::record::short;
use crate::slices::{Timing, Variant};
use crate::{Card, Context, Error, Experiment, Plot, Record, Row, Style, Takes, Verdict, clock};

/// See the module.
pub struct Shield;

impl Experiment for Shield {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn judge(&self, rows: &[Row]) -> Vec<Verdict> {
        verdicts(rows)
    }

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        let wrong = |what| Error::Wrong { experiment: CARD.name, what };
        let bits = context.pick(20, 14);
        let cells = [Kind::Flood, Kind::Asked, Kind::Granted, Kind::Mixed].map(|of| (of, bits));
        let rows = context
            .cells(cells.map(Cell), |context, cell| measure(context, *cell).map_err(wrong))?;
        let verdicts = self.judge(&rows);
        Ok(context.record(rows, verdicts, NOTES.map(String::from).into()))
    }
}

const CARD: Card = Card {
    name: "gatekeeper/shield",
    takes: Takes { full_s: 25.0, quick_s: 6.0 },
    help: "cycles a packet of a shield on one machine: a flood, granted flows, both",
    source: "issue on policies and Grantor",
    claim: "at 2^20: flood ≤ 230 core cycles, granted ≤ 220, as of a Gatekeeper alone",
    plots: &[Plot {
        title: "Cycles a packet",
        figure: "cycles",
        unit: "core cycles a packet",
        x: "variant",
        series: "kind",
        panels: &[],
        style: Style::Bars,
    }],
};

const NOTES: [&str; 2] = [
    "core cycles a packet of processor time, receive and transmit included; IPv4, 64-byte frames, \
     mem ports, 16,000 packets; the policy is in the same thread, and declines",
    "less_generator, which the goals are about: without what it costs to write a source into each \
     frame whose first line is read anyway",
];

/// What comes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    Flood,
    Asked,
    Granted,
    Mixed,
}

/// With the logarithm of places or flows.
#[derive(Clone, Copy, Debug)]
struct Cell((Kind, u32));

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cell((kind, bits)) = self;
        write!(f, "{}, 2^{bits}", kind.name())
    }
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Flood => "flood",
            Kind::Asked => "asked",
            Kind::Granted => "granted",
            Kind::Mixed => "mixed",
        }
    }

    fn decisions_per_s(self) -> u64 {
        if self == Kind::Asked { EACH } else { USUAL }
    }

    /// As a Gatekeeper of `path` has it.
    fn load(self, bits: u32) -> Load {
        let flows =
            |from: u32, bits: u32| (from..from + (1 << bits)).map(known).collect::<Arc<[u32]>>();
        let none: Arc<[u32]> = Arc::new([]);
        let (granted, declined, clients) = match self {
            Kind::Flood | Kind::Asked => (none.clone(), none.clone(), Clients::strangers()),
            Kind::Granted => (flows(0, bits - 1), none.clone(), Clients::only(flows(0, bits - 1))),
            Kind::Mixed => {
                let (granted, declined) = (flows(0, bits - 2), flows(1 << bits, bits - 2));
                let both = granted.iter().zip(&*declined).flat_map(|(a, b)| [*a, *b]);
                let clients = Clients { flows: both.collect(), known: PERIOD / 5 };
                (granted, declined, clients)
            }
        };
        let (places, decisions) = (1 << bits, none);
        Load { places, granted, declined, decisions, clients, packets: PACKETS }
    }
}

fn measure(context: &mut Context, Cell((kind, bits)): Cell) -> Result<Vec<Row>, String> {
    clock::cores().last().map(|&core| clock::pin(core));
    let table = context.load(context.pick("internet:1000000", "internet:10000"));
    let table = table.map_err(|error| error.to_string())?;
    let (tables, _updater) = Tables::new(&table.ipv4, u32::DEFAULT, false)?;
    let routed = Source::mem(PACKETS, &Traffic::Prefix.draw(&table.ipv4, PACKETS, 1))?;
    let (load, faults) = (kind.load(bits), Faults::default());
    let sites = [Site::one_box(kind.decisions_per_s())?, Site::new(1, BACK_BITS)?];
    let bed = |site| Bed::new(site, (0, Rings::none()), load.clone(), &Arc::default());
    let mut variants = vec![
        Variant::new(ONE_BOX, bed(&sites[0])?),
        Variant::new(GATEKEEPER, bed(&sites[1])?),
        Variant::new(READ, Shuttle::new(source(PACKETS, None)?).reading()),
        Variant::new(WRITTEN, Shuttle::new(source(PACKETS, Some(&load.clients))?).reading()),
        Variant::new(ROUTER, Router::new(&tables, ROUTER, routed, &faults)?),
    ];
    let timings = context.measure(&mut variants);
    drop(variants);
    if let Some(fault) = faults.borrow().first() {
        return Err(fault.clone());
    }
    let of = |name: &str| timings.iter().find(|timing| timing.name == name);
    if [ONE_BOX, GATEKEEPER].iter().any(|name| of(name).is_none_or(|of| of.checksum.is_none())) {
        return Err(format!("{}: packets met other verdicts", kind.name()));
    }
    let cycles = |name: &str| of(name).map_or(0.0, |timing| timing.cycles.median);
    let generator = (cycles(WRITTEN) - cycles(READ)).max(0.0);
    Ok(timings.iter().map(|timing| row(timing, (kind, bits), generator)).collect())
}

fn row(timing: &Timing, (kind, bits): (Kind, u32), generator: f64) -> Row {
    let flows = format!("2^{bits}");
    let labels = [("kind", kind.name().into()), ("flows", flows), ("variant", timing.name.clone())];
    let mut row = Row::new(labels).with("cycles", timing.cycles);
    row = row.with("rate_mpps", timing.rate.scaled(1e-6));
    if [ONE_BOX, GATEKEEPER].contains(&&*timing.name) {
        row = row.with("less_generator", timing.cycles.less(generator));
        row = row.with("generator_cycles", generator);
    }
    let figures = timing.figures.iter().map(|(name, figure)| (name.clone(), *figure));
    let parts = timing.parts.iter().map(|(node, figure)| (format!("node.{node}"), *figure));
    figures.chain(parts).fold(row, |row, (name, figure)| row.with(name, figure))
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let figure = |kind: Kind, flows: &str, variant: &str| {
        let labels = [("kind", kind.name()), ("flows", flows), ("variant", variant)];
        rows.iter().find(|row| row.is(&labels))?.median("less_generator")
    };
    let goal = |kind: Kind, most: f64| {
        let claim =
            format!("{}, 2^20: {LEAST} to {most} cycles without the generator's", kind.name());
        match figure(kind, "2^20", ONE_BOX) {
            Some(cycles) => Verdict::between(claim, cycles, (LEAST, most), "cycles"),
            None => Verdict::open(claim, "not measured here"),
        }
    };
    let beside = |kind: Kind| {
        let claim = format!("{}: beside a Gatekeeper under the same packets", kind.name());
        let both = ["2^20", "2^14"]
            .into_iter()
            .find_map(|flows| figure(kind, flows, ONE_BOX).zip(figure(kind, flows, GATEKEEPER)));
        let text = both.map_or("not measured here".into(), |(ours, theirs)| {
            format!("{} cycles, {} of the Gatekeeper", short(ours), short(theirs))
        });
        Verdict::beside(claim, text)
    };
    let goals = [goal(Kind::Flood, 230.0), goal(Kind::Granted, 220.0)];
    let all = [Kind::Flood, Kind::Asked, Kind::Granted, Kind::Mixed];
    goals.into_iter().chain(all.map(beside)).collect()
}

const ONE_BOX: &str = "one box";
const GATEKEEPER: &str = "gatekeeper";
const READ: &str = "ports, first lines read";
const WRITTEN: &str = "ports, sources written and first lines read";
const ROUTER: &str = "router";
/// Fewer cycles nothing takes.
const LEAST: f64 = 40.0;
/// Decisions a second, unless configured otherwise.
const USUAL: u64 = 10_000;
/// More than a worker can ask about.
const EACH: u64 = 100_000_000;
const BACK_BITS: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_hold_and_fail_by_the_rows() {
        let row = |kind: &str, cycles: f64| {
            let labels = [("kind", kind), ("flows", "2^20"), ("variant", ONE_BOX)];
            Row::new(labels).with("less_generator", cycles)
        };
        let held = |flood, granted| {
            let verdicts = verdicts(&[row("flood", flood), row("granted", granted)]);
            [verdicts[0].holds(), verdicts[1].holds()]
        };
        assert_eq!(held(229.0, 219.0), [Some(true); 2]);
        assert_eq!(held(231.0, 221.0), [Some(false); 2]);
        assert_eq!(held(1.0, 2.0), [Some(false); 2]);
        assert!(verdicts(&[]).iter().all(|verdict| verdict.holds().is_none()));
    }

    #[test]
    fn loads_are_as_the_kinds_say() {
        let mixed = Kind::Mixed.load(12);
        assert_eq!((mixed.granted.len(), mixed.declined.len()), (1 << 10, 1 << 10));
        assert_eq!(mixed.clients.known, PERIOD / 5);
        assert_eq!(Kind::Flood.load(12).clients.known, 0);
        assert_eq!(Kind::Granted.load(12).granted.len(), 1 << 11);
    }
}
