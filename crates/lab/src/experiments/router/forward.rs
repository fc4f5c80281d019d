//! `router/forward`: one worker's whole path: receive, the nodes, transmit,
//! counters on.
//!
//! ```text
//!  plain    every route leads to one next hop
//!  ecmp     every route leads to a group of four
//!  fresh    each packet gets a new destination out of a million as it comes in;
//!           what that costs is measured (`io read`, with and without) and subtracted
//!  io       receive and transmit alone
//!  io read  the same, and each frame's first line is read, as a router does: who writes
//!           first waits for it in the router's place
//! ```
//!
//! 64-byte frames, bursts of 256, two ports, 64 next hops. Every packet is checked
//! after each slice: a router that forwards wrongly has no figure.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use lookup::{Hop, Prefix};

use super::bed::{Bed, Faults, Shuttle};
use super::frames::Frames;
use super::source::Source;
use super::tables::Tables;
use crate::clock;
use crate::data::Traffic;
use crate::slices::{Timing, Variant};
use crate::testpmd::Testpmd;
use crate::{Card, Context, Error, Experiment, Plot, Record, Row, Style, Takes, Verdict};

/// See the module.
pub struct Forward;

impl Experiment for Forward {
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
        let mut notes = vec![
            "core cycles a packet of processor time, receive and transmit included; net_null and \
             dpdk-testpmd as DPDK gives them"
                .to_string(),
            "less_generator, which the goals are about: without what it costs to write a destination \
             into each frame whose first line is read anyway"
                .to_string(),
            "less_generator_and_miss: without what that costs more than ports that read no frame; a \
             router would wait for that line, so it is in our favour"
                .to_string(),
        ];
        let rows = context.cells(cells(context), run_cell)?;
        let verdicts = self.judge(&rows);
        if rows.iter().any(|row| row.note.is_some()) {
            notes.push("some variants have no figure: see the notes in the table".into());
        }
        Ok(context.record(rows, verdicts, notes))
    }
}

const CARD: Card = Card {
    name: "router/forward",
    takes: Takes { full_s: 300.0, quick_s: 80.0 },
    help: "packets/s and cycles a packet of one worker, per node, by table, traffic and packet pool",
    source: "issue on the router; design study of the packet graph (Zen 3)",
    claim: "core cycles a packet on Zen 3: IPv4 ≤ 75 (mem, 16,000 packets), ≤ 83 with multipath, \
            ≤ 95 (net_null), ≤ 115 (128,000 packets), ≤ 130 with fresh destinations; IPv6 ≤ 120",
    plots: &[
        Plot {
            title: "Cycles a packet",
            figure: "cycles",
            unit: "core cycles a packet",
            x: "variant",
            series: "prefixes",
            panels: &["family", "traffic"],
            style: Style::Bars,
        },
        Plot {
            title: "Rate of one worker",
            figure: "rate_mpps",
            unit: "million packets/s",
            x: "variant",
            series: "prefixes",
            panels: &["family", "traffic"],
            style: Style::Bars,
        },
    ],
};

/// One table, one traffic: all its variants take turns.
struct Cell {
    ipv6: bool,
    table: String,
    traffic: Traffic,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = if self.ipv6 { "ipv6" } else { "ipv4" };
        write!(f, "{family}, {}, {} traffic", self.table, self.traffic)
    }
}

fn cells(context: &Context) -> Vec<Cell> {
    let sizes: &[&str] = context.pick(&["10", "10000", "1000000"], &["1000000"]);
    let mut cells = Vec::new();
    for (ipv6, kind) in [(false, "internet"), (true, "internet6")] {
        let usual: Vec<String> = sizes.iter().map(|n| format!("{kind}:{n}")).collect();
        let usual: Vec<&str> = usual.iter().map(String::as_str).collect();
        for table in context.tables(&usual) {
            cells.push(Cell { ipv6, table, traffic: Traffic::Prefix });
        }
        // Random addresses meet few of the long prefixes: of the largest table only.
        if let Some(last) = cells.last().filter(|_| !context.quick()) {
            let table = last.table.clone();
            cells.push(Cell { ipv6, table, traffic: Traffic::Random });
        }
    }
    cells
}

fn run_cell(context: &mut Context, cell: &Cell) -> Result<Vec<Row>, Error> {
    let table = context.load(&cell.table)?;
    if cell.ipv6 {
        measure(context, cell, &table.ipv6)
    } else {
        measure(context, cell, &table.ipv4)
    }
}

fn measure<A: Frames>(
    context: &Context,
    cell: &Cell,
    routes: &[(Prefix<A>, Hop)],
) -> Result<Vec<Row>, Error> {
    let failed = |what: String| Error::Wrong { experiment: CARD.name, what };
    if routes.is_empty() {
        return Ok(Vec::new());
    }
    // Drawn without the default route, which all tables get: it is no place to go.
    let routed: Vec<_> = routes.iter().filter(|(prefix, _)| prefix.len() > 0).copied().collect();
    let dsts = cell.traffic.draw(&routed, FRESH, 1);
    let (plain, _updater) = Tables::new(&routed, A::DEFAULT, false).map_err(failed)?;
    let (ecmp, _updater) = Tables::new(&routed, A::DEFAULT, true).map_err(failed)?;
    let faults: Faults = Rc::new(RefCell::new(Vec::new()));
    let (mut variants, mut notes) = (Vec::new(), Vec::new());
    for what in VARIANTS {
        let name = what.name();
        let source = match what.source(&dsts) {
            Ok(source) => source,
            Err(reason) => {
                notes.push(labels(cell, routes.len(), &name).noting(reason));
                continue;
            }
        };
        if matches!(what.through, Through::Io | Through::Read) {
            let ports = Shuttle::new(source);
            let ports = if what.through == Through::Read { ports.reading() } else { ports };
            variants.push(Variant::new(&name, ports));
            continue;
        }
        let tables = if what.through == Through::Ecmp { &ecmp } else { &plain };
        let bed = Bed::new(tables, &name, source, &faults).map_err(failed)?;
        variants.push(Variant::new(&name, bed));
    }
    for mode in ["io", "mac"] {
        let (name, core) = (format!("testpmd {mode}"), clock::cores().last().copied());
        match Testpmd::start(mode, core.unwrap_or(0)) {
            Ok(testpmd) => variants.push(Variant::new(name, testpmd)),
            Err(reason) => notes.push(labels(cell, routes.len(), &name).noting(reason)),
        }
    }
    let timings = context.measure(&mut variants);
    drop(variants);
    if let Some(fault) = faults.borrow().first() {
        return Err(failed(fault.clone()));
    }
    let rows = timings.iter().map(|timing| row(cell, routes.len(), timing, &timings));
    Ok(rows.chain(notes).collect())
}

/// Cycles that a fresh destination costs: the ports' own cost with it and with first lines
/// read, less that of the ports `base`.
fn generator(timings: &[Timing], port: &str, base: &str) -> f64 {
    let cycles = |through: &str| {
        let name = format!("{port} {through}");
        timings.iter().find(|timing| timing.name == name).map_or(0.0, |timing| timing.cycles.median)
    };
    (cycles("io read fresh") - cycles(base)).max(0.0)
}

fn row(cell: &Cell, prefixes: usize, timing: &Timing, all: &[Timing]) -> Row {
    let mut row = labels(cell, prefixes, &timing.name)
        .with("cycles", timing.cycles)
        .with("rate_mpps", timing.rate.scaled(1e-6));
    if let Some(port) = timing.name.strip_suffix(" fresh")
        && !port.ends_with(" io read")
    {
        let over = |base| generator(all, port, base);
        row = row.with("less_generator", timing.cycles.less(over("io read")));
        row = row.with("generator_cycles", over("io read"));
        row = row.with("less_generator_and_miss", timing.cycles.less(over("io")));
    }
    for (node, cycles) in &timing.parts {
        row = row.with(format!("node.{node}"), *cycles);
    }
    row
}

fn labels(cell: &Cell, prefixes: usize, variant: &str) -> Row {
    Row::new([
        ("family", if cell.ipv6 { "ipv6" } else { "ipv4" }.to_string()),
        ("prefixes", prefixes.to_string()),
        ("traffic", cell.traffic.to_string()),
        ("variant", variant.to_string()),
    ])
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let find = |family: &str, variant: &str, figure: &str| {
        let labels = [("family", family), ("variant", variant), ("traffic", "prefix")];
        let largest = |row: &&Row| row.label("prefixes").parse::<u64>().unwrap_or(0);
        rows.iter().filter(|row| row.is(&labels)).max_by_key(largest)?.median(figure)
    };
    let mut verdicts: Vec<Verdict> = GOALS
        .iter()
        .map(|(family, variant, figure, most)| {
            let claim = format!("{family}, {variant}: ≤ {most} cycles (Zen 3)");
            match find(family, variant, figure) {
                Some(cycles) => Verdict::at_most(claim, cycles, *most, "cycles"),
                None => Verdict::open(claim, "not measured here"),
            }
        })
        .collect();
    let mem = find("ipv4", "mem 16000", "cycles");
    for mode in ["io", "mac"] {
        let claim = format!("beside it, dpdk-testpmd {mode} on net_null");
        if let (Some(ours), Some(testpmd)) =
            (mem, find("ipv4", &format!("testpmd {mode}"), "cycles"))
        {
            let ratio = crate::record::short(ours / testpmd);
            let measured = format!(
                "{} cycles; the router on mem takes {ratio} ×",
                crate::record::short(testpmd)
            );
            verdicts.push(Verdict::beside(claim, measured));
        }
    }
    verdicts
}

/// What packets go through.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Through {
    Router,
    Ecmp,
    Io,
    /// Nothing, but each frame's first line is read.
    Read,
}

/// Ports and packets, and what is between.
struct What {
    /// Packets of a `mem` ring; 0 for `net_null`.
    pool: usize,
    through: Through,
    fresh: bool,
}

impl What {
    fn name(&self) -> String {
        let port = if self.pool == 0 { "null".into() } else { format!("mem {}", self.pool) };
        let through = match self.through {
            Through::Router => "",
            Through::Ecmp => " ecmp",
            Through::Io => " io",
            Through::Read => " io read",
        };
        format!("{port}{through}{}", if self.fresh { " fresh" } else { "" })
    }

    fn source<A: Frames>(&self, dsts: &[A]) -> Result<Source, String> {
        let source =
            if self.pool == 0 { Source::null(dsts) } else { Source::mem(self.pool, dsts) }?;
        Ok(if self.fresh { source.stamp(dsts) } else { source })
    }
}

const fn what(pool: usize, through: Through, fresh: bool) -> What {
    What { pool, through, fresh }
}

/// What takes turns in each cell.
const VARIANTS: [What; 18] = [
    what(2_000, Through::Router, false),
    what(16_000, Through::Router, false),
    what(128_000, Through::Router, false),
    what(0, Through::Router, false),
    what(16_000, Through::Ecmp, false),
    what(16_000, Through::Router, true),
    what(128_000, Through::Router, true),
    what(0, Through::Router, true),
    what(2_000, Through::Io, false),
    what(16_000, Through::Io, false),
    what(16_000, Through::Read, false),
    what(16_000, Through::Read, true),
    what(128_000, Through::Io, false),
    what(128_000, Through::Read, false),
    what(128_000, Through::Read, true),
    what(0, Through::Io, false),
    what(0, Through::Read, false),
    what(0, Through::Read, true),
];

/// Family, variant, figure, most cycles: prefix-based traffic on the largest table.
const GOALS: [(&str, &str, &str, f64); 6] = [
    ("ipv4", "mem 16000", "cycles", 75.0),
    ("ipv4", "mem 16000 ecmp", "cycles", 83.0),
    ("ipv4", "null", "cycles", 95.0),
    ("ipv4", "mem 128000", "cycles", 115.0),
    ("ipv4", "mem 128000 fresh", "less_generator", 130.0),
    ("ipv6", "mem 16000", "cycles", 120.0),
];

/// Fresh destinations.
const FRESH: usize = 1 << 20;
