//! `gatekeeper/requests`, `gatekeeper/declined`, `gatekeeper/granted`, `gatekeeper/mixed`: one
//! worker's whole path: receive, the nodes, transmit, counters on.
//!
//! ```text
//!  requests   each packet is a new flow, and the table is full
//!  declined   each packet is of a declined flow
//!  granted    each packet is of a granted flow, and leaves encapsulated
//!  mixed      of ten packets eight are new flows, one is granted, one declined; and what
//!             a million decisions a second cost two workers
//! ```
//!
//! 64-byte frames, bursts of 256, `mem` ports, 16,000 packets. A source is written into each
//! frame as it comes in; what that costs is measured by ports alone, with and without, and taken
//! away. Both read the first line of each frame, for a worker does: who writes first waits
//! for it in the worker's place. Beside them are a router of a million routes, and
//! `dpdk-testpmd`.
//!
//! Three more show what a packet waits for: the same with a slower clock (less is swept), with so
//! few packets that the second-level cache holds them, and with a small table, too.

mod cells;
mod verdicts;

pub(in crate::experiments) use cells::{PACKETS, fixed};

use crate::{Card, Context, Error, Experiment, Plot, Record, Row, Style, Takes, Verdict};
use cells::Cell;

/// See the module.
pub struct Requests;
/// See the module.
pub struct Declined;
/// See the module.
pub struct Granted;
/// See the module.
pub struct Mixed;

impl Experiment for Requests {
    fn card(&self) -> &'static Card {
        &REQUESTS
    }

    fn judge(&self, rows: &[Row]) -> Vec<Verdict> {
        verdicts::requests(rows)
    }

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        let sizes = context.pick(vec![20, 25], vec![16]);
        let cells = sizes.into_iter().map(Cell::Requests).chain([Cell::Workers(true)]);
        run(self, context, cells.collect())
    }
}

impl Experiment for Declined {
    fn card(&self) -> &'static Card {
        &DECLINED
    }

    fn judge(&self, rows: &[Row]) -> Vec<Verdict> {
        verdicts::declined(rows)
    }

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        let sizes = context.pick(vec![16, 20], vec![14]);
        run(self, context, sizes.into_iter().map(Cell::Declined).collect())
    }
}

impl Experiment for Granted {
    fn card(&self) -> &'static Card {
        &GRANTED
    }

    fn judge(&self, rows: &[Row]) -> Vec<Verdict> {
        verdicts::granted(rows)
    }

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        let sizes = context.pick(vec![16, 20], vec![14]);
        let cells = sizes.into_iter().map(Cell::Granted).chain([Cell::Workers(false)]);
        run(self, context, cells.collect())
    }
}

impl Experiment for Mixed {
    fn card(&self) -> &'static Card {
        &MIXED
    }

    fn judge(&self, rows: &[Row]) -> Vec<Verdict> {
        verdicts::mixed(rows)
    }

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        let bits = context.pick(20, 14);
        run(self, context, vec![Cell::Mixed(bits), Cell::Decisions])
    }
}

fn run(of: &dyn Experiment, context: &mut Context, cells: Vec<Cell>) -> Result<Record, Error> {
    let rows = context.cells(cells, |context, cell| cell.measure(context))?;
    let verdicts = of.judge(&rows);
    Ok(context.record(rows, verdicts, NOTES.map(String::from).into()))
}

const NOTES: [&str; 3] = [
    "core cycles a packet of processor time, receive and transmit included; IPv4, 64-byte frames, \
     mem ports, 16,000 packets",
    "less_generator, which the goals are about: without what it costs to write a source into each \
     frame whose first line is read anyway",
    "less_generator_and_miss: without what that costs more than ports that read no frame; a worker \
     would wait for that line, so it is in our favour",
];

const REQUESTS: Card = Card {
    name: "gatekeeper/requests",
    takes: Takes { full_s: 90.0, quick_s: 6.0 },
    help: "cycles a packet that is a new flow in a full table, per node; one worker and two",
    source: SOURCE,
    claim: "≤ 230 core cycles at 2^20 places; at 2^25 ≥ 0.6 × of its lines read alone; two workers \
            ≥ 1.8 ×",
    plots: &[PLOT],
};

const DECLINED: Card = Card {
    name: "gatekeeper/declined",
    takes: Takes { full_s: 40.0, quick_s: 4.0 },
    help: "cycles a packet of declined flows, per node",
    claim: "≤ 145 core cycles",
    ..REQUESTS
};

const GRANTED: Card = Card {
    name: "gatekeeper/granted",
    takes: Takes { full_s: 50.0, quick_s: 4.0 },
    help: "cycles a packet of granted flows, per node; one worker and two",
    claim: "≤ 175 core cycles at 2^16 flows, ≤ 220 at 2^20; two workers ≥ 1.8 ×",
    ..REQUESTS
};

const MIXED: Card = Card {
    name: "gatekeeper/mixed",
    takes: Takes { full_s: 60.0, quick_s: 4.0 },
    help: "cycles a packet of all kinds; what a million decisions a second cost granted flows",
    claim: "1,000,000 decisions/s on two workers cost granted flows ≤ 5 %",
    ..REQUESTS
};

const SOURCE: &str = "issue on Gatekeeper; study of Gatekeeper, section 6 (a core of 2.8 GHz)";

const PLOT: Plot = Plot {
    title: "Cycles a packet",
    figure: "cycles",
    unit: "core cycles a packet",
    x: "variant",
    series: "flows",
    panels: &[],
    style: Style::Bars,
};
