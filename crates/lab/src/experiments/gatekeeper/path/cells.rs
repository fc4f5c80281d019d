//! What takes turns.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use lookup::lpm::Engines;
use lookup::{Hop, Prefix};

use super::super::super::router::{Bed as Router, Faults, Shuttle, Source, Tables};
use super::super::bed::{Bed, Load};
use super::super::full::Lines;
use super::super::generator::{Clients, PERIOD, Pace, known, owner, source};
use super::super::site::{Rings, Site};
use crate::crew::{Crew, Maker};
use crate::data::Traffic;
use crate::pace;
use crate::record::Figure;
use crate::slices::{Plan, Sample, Timing, Variant, Work, repeat};
use crate::testpmd::Testpmd;
use crate::{Context, Error, Row, clock, machine};

/// What is measured at a time; a number is the logarithm of places or flows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Cell {
    Requests(u32),
    Declined(u32),
    Granted(u32),
    Mixed(u32),
    /// One worker and two: of requests, or else of granted packets.
    Workers(bool),
    /// Two workers, and decisions.
    Decisions,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cell::Requests(bits) => write!(f, "requests, 2^{bits} places"),
            Cell::Declined(bits) => write!(f, "declined, 2^{bits} flows"),
            Cell::Granted(bits) => write!(f, "granted, 2^{bits} flows"),
            Cell::Mixed(bits) => write!(f, "mixed, 2^{bits} flows"),
            Cell::Workers(true) => write!(f, "workers, requests"),
            Cell::Workers(false) => write!(f, "workers, granted"),
            Cell::Decisions => write!(f, "decisions"),
        }
    }
}

impl Cell {
    pub fn measure(&self, context: &mut Context) -> Result<Vec<Row>, Error> {
        let wrong = |what| Error::Wrong { experiment: "gatekeeper", what };
        match *self {
            Cell::Workers(requests) => workers(context, requests).map_err(wrong),
            Cell::Decisions => decisions(context).map_err(wrong),
            cell => {
                let table = context.load(context.pick("internet:1000000", "internet:10000"))?;
                alone(context, cell, &table.ipv4).map_err(wrong)
            }
        }
    }

    /// What goes through a worker.
    fn load(self) -> Load {
        let none: Arc<[u32]> = Arc::new([]);
        let flows = |from: u32, bits: u32| (from..from + (1 << bits)).map(known);
        let all = |bits| flows(0, bits).collect::<Arc<[u32]>>();
        let load = |places, granted: &Arc<[u32]>, declined: &Arc<[u32]>, clients| {
            let (granted, declined, decisions) = (granted.clone(), declined.clone(), none.clone());
            Load { places, granted, declined, decisions, clients, packets: PACKETS }
        };
        match self {
            // So many requests as one worker sees while they live do not fill it: decisions
            // have what they may have of it.
            Cell::Requests(bits) if bits > 22 => {
                let declined = (0..(1_u32 << bits) / 10 * 7).map(known).collect();
                load(1 << bits, &none, &declined, Clients::strangers())
            }
            Cell::Requests(bits) => load(1 << bits, &none, &none, Clients::strangers()),
            Cell::Declined(bits) => load(2 << bits, &none, &all(bits), Clients::only(all(bits))),
            Cell::Mixed(bits) => {
                let granted: Arc<[u32]> = flows(0, bits - 2).collect();
                let declined: Arc<[u32]> = flows(1 << bits, bits - 2).collect();
                let both = granted.iter().zip(&*declined).flat_map(|(a, b)| [*a, *b]);
                let clients = Clients { flows: both.collect(), known: PERIOD / 5 };
                load(1 << bits, &granted, &declined, clients)
            }
            Cell::Granted(bits) => load(2 << bits, &all(bits), &none, Clients::only(all(bits))),
            Cell::Workers(true) => Cell::Requests(20).load(),
            Cell::Workers(false) | Cell::Decisions => Cell::Granted(20).load(),
        }
    }

    /// The same packets, so few of them and a table so small that the caches hold all: what
    /// is left are instructions.
    fn cached(self) -> Load {
        let cell = match self {
            Cell::Requests(_) | Cell::Workers(true) => Cell::Requests(12),
            Cell::Declined(_) => Cell::Declined(10),
            Cell::Mixed(_) => Cell::Mixed(12),
            Cell::Granted(_) | Cell::Workers(false) | Cell::Decisions => Cell::Granted(10),
        };
        Load { packets: FEW, ..cell.load() }
    }
}

/// One worker, what it is made of, and others.
fn alone(context: &Context, cell: Cell, routes: &[(Prefix<u32>, Hop)]) -> Result<Vec<Row>, String> {
    clock::cores().last().map(|&core| clock::pin(core));
    let load = cell.load();
    // A site each: workers of one share a channel's tokens.
    let sites = [Site::new(1, BACK_BITS)?, Site::new(1, BACK_BITS)?, Site::new(1, BACK_BITS)?];
    let of = |site, load| Bed::new(site, (0, Rings::none()), load, &Arc::default());
    let (bed, of_bed) = on_large_pages(|| of(&sites[0], load.clone()));
    let bed = Rc::new(RefCell::new(bed?));
    let (fewer, of_fewer) = on_large_pages(|| of(&sites[1], Load { packets: FEW, ..load.clone() }));
    let fewer = fewer?;
    let (mut from, mut from_2) = (0, 0);
    let (flows, granted) = (load.granted.len() + load.declined.len(), !load.granted.is_empty());
    let (lines, of_lines) = on_large_pages(|| match cell {
        Cell::Requests(_) => Some(Lines::new(load.places, load.places, false)),
        Cell::Declined(_) | Cell::Granted(_) => Some(Lines::new(load.places, flows, granted)),
        _ => None,
    });
    let lines = lines.transpose().map_err(|error| error.to_string())?.map(RefCell::new);
    let large = [(GATEKEEPER, of_bed), (FEWER, of_fewer), (LINES, of_lines)];
    let (tables, _updater) = Tables::new(routes, u32::DEFAULT, false)?;
    let faults = Faults::default();
    let routed = Source::mem(PACKETS, &Traffic::Prefix.draw(routes, PACKETS, 1))?;
    let mut variants = vec![
        Variant::new(GATEKEEPER, Shared(bed.clone(), 1)),
        Variant::new(SLOW, Shared(bed.clone(), SLOWNESS)),
        Variant::new(FEWER, fewer),
        Variant::new(CACHED, of(&sites[2], cell.cached())?),
        Variant::new(PORTS, Shuttle::new(source(PACKETS, None)?)),
        Variant::new(READ, Shuttle::new(source(PACKETS, None)?).reading()),
        Variant::new(WRITTEN, Shuttle::new(source(PACKETS, Some(&load.clients))?).reading()),
        Variant::new(ROUTER, Router::new(&tables, ROUTER, routed, &faults)?),
    ];
    if let Some(lines) = &lines {
        let read = || lines.borrow().read(&mut from, SLICE);
        variants.push(Variant::new(LINES, repeat(SLICE, read)));
        if matches!(cell, Cell::Requests(_)) {
            let write = || lines.borrow_mut().write(&mut from_2, SLICE);
            variants.push(Variant::new(WRITTEN_LINES, repeat(SLICE, write)));
        }
    }
    let mut rows = Vec::new();
    match Testpmd::start("mac", clock::cores().last().copied().unwrap_or(0)) {
        Ok(testpmd) => variants.push(Variant::new(TESTPMD, testpmd)),
        Err(reason) => rows.push(labels(cell, TESTPMD).noting(reason)),
    }
    let timings = context.measure(&mut variants);
    drop(variants);
    if let Some(fault) = faults.borrow().first() {
        return Err(fault.clone());
    }
    let cycles = |name: &str| {
        let of = timings.iter().find(|timing| timing.name == name);
        of.map_or(0.0, |timing| timing.cycles.median)
    };
    let over = |base: &str| (cycles(WRITTEN) - cycles(base)).max(0.0);
    for timing in &timings {
        let mut row = labels(cell, &timing.name);
        if timing.name.starts_with(GATEKEEPER) && timing.checksum.is_none() {
            return Err(format!("{cell}: packets met other verdicts"));
        }
        if let Some((_, mib)) = large.iter().find(|(name, _)| timing.name == *name) {
            row = row.with("large_pages_mib", *mib);
        }
        if timing.name == GATEKEEPER {
            row = row.with("less_generator", timing.cycles.less(over(READ)));
            row = row.with("generator_cycles", over(READ));
            // In our favour: the miss on a frame's first line is taken away, too.
            row = row.with("less_generator_and_miss", timing.cycles.less(over(PORTS)));
            row = row.with("filled_percent", bed.borrow_mut().filled() * 100.0);
        }
        rows.push(figures(row, timing));
    }
    Ok(rows)
}

/// What it makes, and so many MiB of it that are on large pages: they decide what a line costs that
/// no cache has.
fn on_large_pages<T>(make: impl FnOnce() -> T) -> (T, f64) {
    let before = machine::large_pages();
    let made = make();
    (made, machine::large_pages().saturating_sub(before) as f64 / f64::from(1 << 20))
}

fn figures(mut row: Row, timing: &Timing) -> Row {
    row = row.with("cycles", timing.cycles).with("rate_mpps", timing.rate.scaled(1e-6));
    for (name, figure) in &timing.figures {
        row = row.with(name, *figure);
    }
    nodes(row, timing)
}

fn nodes(row: Row, timing: &Timing) -> Row {
    let with =
        |row: Row, (node, cycles): &(String, Figure)| row.with(format!("node.{node}"), *cycles);
    timing.parts.iter().fold(row, with)
}

fn labels(cell: Cell, variant: &str) -> Row {
    let (kind, flows) = match cell {
        Cell::Requests(bits) => ("requests", bits),
        Cell::Declined(bits) => ("declined", bits),
        Cell::Granted(bits) => ("granted", bits),
        Cell::Mixed(bits) => ("mixed", bits),
        Cell::Workers(true) => ("requests", 20),
        Cell::Workers(false) | Cell::Decisions => ("granted", 20),
    };
    Row::new([
        ("kind", kind.to_string()),
        ("flows", format!("2^{flows}")),
        ("variant", variant.to_string()),
    ])
}

/// One worker and two, each with a table and a generator of its own.
fn workers(context: &Context, requests: bool) -> Result<Vec<Row>, String> {
    if clock::cores().len() < 2 {
        return Ok(vec![labels(Cell::Workers(requests), TWO).noting("one core")]);
    }
    let load = small(context, Cell::Workers(requests));
    let sites = [Site::new(1, BACK_BITS)?, Site::new(2, BACK_BITS)?];
    let timings = thread::scope(|scope| {
        let crew = |(n, name): (usize, &str)| {
            let site = &sites[n - 1];
            let maker = |number| -> Maker<'_> {
                let load = load.clone();
                Box::new(move || {
                    let bed = Bed::new(site, (number, Rings::none()), load, &Arc::default());
                    Box::new(said(bed))
                })
            };
            Variant::new(name, Crew::new(scope, (0..n).map(maker).collect()))
        };
        context.measure(&mut [(1, ONE), (2, TWO)].map(crew))
    });
    let row = |timing: &Timing| {
        if timing.checksum.is_none() {
            return Err(format!("{}: packets met other verdicts", timing.name));
        }
        let row = labels(Cell::Workers(requests), &timing.name);
        Ok(row.with("rate_mpps", timing.rate.scaled(1e-6)))
    };
    timings.iter().map(row).collect()
}

/// Two workers that forward granted packets, while decisions come to the back of either for
/// the flows of both: each hands on what is the other's.
fn decisions(context: &Context) -> Result<Vec<Row>, String> {
    let row = labels(Cell::Decisions, COST);
    if clock::cores().len() < 2 {
        return Ok(vec![row.noting("one core")]);
    }
    let load = small(context, Cell::Decisions);
    let (site, pace) = (Site::new(2, BACK_BITS)?, Arc::new(Pace::default()));
    let timings = thread::scope(|scope| {
        let maker = |(number, rings): (usize, Rings)| -> Maker<'_> {
            let (site, pace, load) = (&site, pace.clone(), load.clone());
            // Each worker's packets are of flows that are its own; decisions come for all, and
            // not for the same ones to both at the same time.
            let mut decisions = load.granted.to_vec();
            decisions.rotate_left(load.granted.len() / 2 * number);
            let owned =
                load.granted.iter().copied().filter(|&source| owner(site, source) == number);
            let owned: Arc<[u32]> = owned.collect();
            let clients = Clients::only(owned.clone());
            let load = Load { granted: owned, decisions: decisions.into(), clients, ..load };
            Box::new(move || Box::new(said(Bed::new(site, (number, rings), load, &pace))))
        };
        let makers = Site::rings(2).into_iter().enumerate().map(maker).collect();
        let crew = Rc::new(RefCell::new(Crew::new(scope, makers)));
        let paced = |wanted: u64| {
            let (crew, pace) = (crew.clone(), pace.clone());
            Variant::new(wanted.to_string(), Paced { crew, pace, wanted })
        };
        let plan = if context.quick() { context.plan(4) } else { SHORT };
        context.measure_by(plan, &mut [0, EACH, EACH, 0].map(paced))
    });
    if timings.iter().any(|timing| timing.checksum.is_none()) {
        return Err("decisions: packets met other verdicts".into());
    }
    let cost = pace::cost_of(&timings).ok_or("no slices")?;
    let [done, handed] = [PER_S, HANDED].map(|name| {
        let figure = timings[1].figures.iter().find(|(of, _)| of == name);
        figure.map_or_else(Figure::default, |(_, figure)| *figure)
    });
    let row = row.with("loss_percent", cost.0).with("noise_percent", cost.1);
    let row = row.with("decisions_per_s", done).with(HANDED, handed);
    // Where they cost what they cost: the same packets, node by node.
    let each = [(NONE, &timings[0]), (SOME, &timings[1])];
    let parts = each.map(|(name, of)| {
        let row = labels(Cell::Decisions, name).with("rate_mpps", of.rate.scaled(1e-6));
        nodes(row, of)
    });
    Ok([row].into_iter().chain(parts).collect())
}

/// Says why there is no bed: its slices have no checksum then.
fn said(bed: Result<Bed, String>) -> Option<Bed> {
    bed.inspect_err(|reason| eprintln!("gatekeeper: {reason}")).ok()
}

/// A quick run has fewer flows.
fn small(context: &Context, cell: Cell) -> Load {
    match cell {
        Cell::Workers(true) if context.quick() => Cell::Requests(16).load(),
        _ if context.quick() => Cell::Granted(14).load(),
        _ => cell.load(),
    }
}

/// A crew at one pace of decisions.
struct Paced<'s> {
    crew: Rc<RefCell<Crew<'s>>>,
    pace: Arc<Pace>,
    wanted: u64,
}

impl Work for Paced<'_> {
    fn slice(&mut self, target: Duration) -> Sample {
        self.pace.done.store(0, Ordering::Relaxed);
        self.pace.handed.store(0, Ordering::Relaxed);
        self.pace.per_s.store(self.wanted, Ordering::Relaxed);
        let mut sample = self.crew.borrow_mut().slice(target);
        self.pace.per_s.store(0, Ordering::Relaxed);
        let done = self.pace.done.load(Ordering::Relaxed);
        let handed = self.pace.handed.load(Ordering::Relaxed) as f64;
        sample.figures = vec![
            (PER_S.into(), done as f64 / sample.spent.as_secs_f64()),
            (HANDED.into(), handed * 100.0 / done.max(1) as f64),
        ];
        sample
    }
}

/// A bed that somebody else looks at between slices, with its clock so many times as slow.
struct Shared(Rc<RefCell<Bed>>, u64);

impl Work for Shared {
    fn slice(&mut self, target: Duration) -> Sample {
        let mut bed = self.0.borrow_mut();
        bed.slowness = self.1;
        bed.slice(target)
    }
}

/// A worker through which packets of one kind go (`request`, `declined`, `granted`), a
/// thousand of them, with a small table (`-large`: as many, and as large a table, as the
/// experiments have; `here-`: a policy of this machine decides, which is asked about next to
/// nothing): all that comes is dropped or leaves, whatever time it takes.
pub(in crate::experiments) fn fixed(
    kind: &str,
    body: impl FnOnce(&mut dyn FnMut(u64)),
) -> Result<(), String> {
    let here = kind.strip_prefix("here-");
    let load = match here.unwrap_or(kind) {
        "request" => Cell::Requests(20).cached(),
        "declined" => Cell::Declined(20).cached(),
        "granted" => Cell::Granted(20).cached(),
        "request-large" => Cell::Requests(20).load(),
        "declined-large" => Cell::Declined(20).load(),
        "granted-large" => Cell::Granted(20).load(),
        _ => return Err(format!("no kind of packets `{kind}`")),
    };
    let site = if here.is_some() { Site::one_box(1)? } else { Site::new(1, NARROW)? };
    let mut bed = Bed::new(&site, (0, Rings::none()), load, &Arc::default())?;
    let mut wrong = None;
    body(&mut |packets| {
        if let Err(reason) = bed.forward(packets) {
            wrong.get_or_insert(reason);
        }
    });
    wrong.map_or(Ok(()), Err)
}

/// Names of variants.
pub(super) const GATEKEEPER: &str = "gatekeeper";
/// Less is swept, and fewer tokens come.
const SLOW: &str = "gatekeeper, its clock 16 × as slow";
const FEWER: &str = "gatekeeper, 1,000 packets";
const CACHED: &str = "gatekeeper, 1,000 packets, a table of 2^12 places at most";
pub(super) const PORTS: &str = "ports";
const READ: &str = "ports, first lines read";
const WRITTEN: &str = "ports, sources written and first lines read";
pub(super) const ROUTER: &str = "router";
pub(super) const TESTPMD: &str = "testpmd mac";
pub(super) const LINES: &str = "its lines alone";
const WRITTEN_LINES: &str = "its lines alone, read and written";
pub(super) const ONE: &str = "one worker";
pub(super) const TWO: &str = "two workers";
pub(super) const COST: &str = "decisions";
const NONE: &str = "two workers, no decisions";
const SOME: &str = "two workers, decisions";

/// Decisions that reached a table: so many a second, and so many percent of them from the other
/// worker, which had heard them.
const PER_S: &str = "per_s";
pub(super) const HANDED: &str = "handed_over_percent";

/// Packets that go round where the second-level cache is to hold them.
const FEW: usize = 1_000;
const SLOWNESS: u64 = 16;
/// Packets that go round.
pub(in crate::experiments) const PACKETS: usize = 16_000;
/// Bits a second of the back, of which 5 % are the channel's: of seven million requests a second
/// about one in twenty leaves.
const BACK_BITS: u64 = 6_000_000_000;
/// The same where no request is to leave.
const NARROW: u64 = 1_000;
/// Decisions a second at the back of each of two workers.
const EACH: u64 = 500_000;
const SLICE: u64 = 1 << 16;
/// Some hundred rounds, each shorter than neighbours mostly come and go.
const SHORT: Plan = Plan { slice: Duration::from_millis(5), ..pace::SHORT };
