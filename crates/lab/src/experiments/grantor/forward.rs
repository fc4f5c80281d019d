//! `grantor/forward`: what it costs a router to unwrap what is granted.
//!
//! ```text
//!  grantor   frames of a Gatekeeper, DSCP 1: checked, unwrapped, forwarded by the table of routes
//!  router    the packets inside them, through the same graph without a Grantor
//!  written   ports that read each frame's first line, and write the outer header anew
//!  read      ports that read it
//! ```
//!
//! One worker, IPv4, packets of 64 bytes (wrapped: 84), bursts of 64, `mem` ports, 16,000
//! packets that go round. What leaves has lost its outer header, so that is written anew as it
//! comes in; what that costs is measured (`written` less `read`) and taken away. Each packet is
//! checked after each slice.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use graph::Graph;
use io::mem::Stamp;
use lookup::Addr;
use lookup::lpm::Engines;
use lookup::rib::Change;
use lookup::sync::Thread;
use lookup::{Hop, Prefix};
use nodes::assembly::Assembly;
use nodes::grantor::nets::Nets;
use nodes::grantor::settings::{Counters, Settings};
use nodes::grantor::{ENTRY, Parts, add};
use nodes::switch::Bridging;
use nodes::{router, switch};
use tables::hops::fixed;

use super::super::router::{
    Bed as Router, Faults, Frames, Shuttle, Source, Tables, per_node, taken,
};
use crate::data::Traffic;
use crate::slices::{Sample, Timing, Variant, Work};
use crate::{Card, Context, Error, Experiment, Plot, Record, Row, Style, Takes, Verdict, clock};

/// See the module.
pub struct Forward;

impl Experiment for Forward {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        let wrong = |what| Error::Wrong { experiment: CARD.name, what };
        let rows = context.cells(vec![Cell], |context, _| {
            let table = context.load(context.pick("internet:1000000", "internet:10000"))?;
            measure(context, &table.ipv4).map_err(wrong)
        })?;
        let verdicts = vec![verdict(&rows)];
        Ok(context.record(rows, verdicts, NOTES.map(String::from).into()))
    }
}

const CARD: Card = Card {
    name: "grantor/forward",
    takes: Takes { full_s: 30.0, quick_s: 4.0 },
    help: "cycles a granted packet at a Grantor, beside a router's",
    source: "issue on policies and Grantor",
    claim: "≤ 60 core cycles above the router's own",
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
    "core cycles a packet of processor time, receive and transmit included; IPv4, 64-byte packets, \
     mem ports, 16,000 packets",
    "less_generator: without what it costs to write the outer header anew",
];

/// All of it takes turns.
#[derive(Clone, Copy)]
struct Cell;

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("granted")
    }
}

fn verdict(rows: &[Row]) -> Verdict {
    let figure = |variant, name: &str| {
        let labels = [("kind", "granted"), ("variant", variant)];
        rows.iter().find(|row| row.is(&labels))?.median(name)
    };
    match (figure(GRANTOR, "less_generator"), figure(ROUTER, "cycles")) {
        (Some(ours), Some(router)) => Verdict::at_most(CARD.claim, ours - router, 60.0, "cycles"),
        _ => Verdict::open(CARD.claim, "not measured here"),
    }
}

fn measure(context: &Context, routes: &[(Prefix<u32>, Hop)]) -> Result<Vec<Row>, String> {
    clock::cores().last().map(|&core| clock::pin(core));
    let (tables, mut updater) = Tables::new(routes, u32::DEFAULT, false)?;
    let ours = Prefix::covering(u32::from_be_bytes(OURS), 32);
    updater.apply(&[Change { prefix: ours, hop: Some(fixed::FOR_US) }])?;
    let dsts = Traffic::Prefix.draw(routes, PACKETS, 1);
    let faults = Faults::default();
    let bed = Bed::new(&tables, wrapped(&dsts)?, &faults)?;
    let mut variants = vec![
        Variant::new(GRANTOR, bed),
        Variant::new(ROUTER, Router::new(&tables, ROUTER, Source::mem(PACKETS, &dsts)?, &faults)?),
        Variant::new(WRITTEN, Shuttle::new(wrapped(&dsts)?).reading()),
        Variant::new(READ, Shuttle::new(bare(&dsts)?).reading()),
    ];
    let timings = context.measure(&mut variants);
    drop(variants);
    if let Some(fault) = faults.borrow().first() {
        return Err(fault.clone());
    }
    let of = |name: &str| timings.iter().find(|timing| timing.name == name);
    let cycles = |name| of(name).map_or(0.0, |timing| timing.cycles.median);
    let generator = (cycles(WRITTEN) - cycles(READ)).max(0.0);
    let row = |timing: &Timing| {
        let labels = [("kind", "granted".to_string()), ("variant", timing.name.clone())];
        let row = Row::new(labels).with("cycles", timing.cycles);
        let row = row.with("rate_mpps", timing.rate.scaled(1e-6));
        let parts = timing.parts.iter();
        let row = parts.fold(row, |row, (node, of)| row.with(format!("node.{node}"), *of));
        match timing.name == GRANTOR {
            true => row
                .with("less_generator", timing.cycles.less(generator))
                .with("generator_cycles", generator),
            false => row,
        }
    };
    Ok(timings.iter().map(row).collect())
}

/// Packets to `dsts`, each in an outer one, which is written as they come in.
fn wrapped(dsts: &[u32]) -> Result<Source, String> {
    let source = bare(dsts)?;
    Ok(source.stamped(|_| -> Stamp {
        let mut frame = [0; HEADERS + 64];
        write(0, &mut frame);
        let headers: [u8; HEADERS] = wire::bytes::array(&frame, 0);
        Box::new(move |mut frames| {
            for frame in frames.iter_mut() {
                if let Some(start) = frame.first_chunk_mut() {
                    *start = headers;
                }
            }
        })
    }))
}

/// The same, whose outer header is written once.
fn bare(dsts: &[u32]) -> Result<Source, String> {
    Source::ring(PACKETS, |n, frame| write(dsts[n % dsts.len()], frame))
}

/// A frame of a Gatekeeper with a granted packet; its length.
fn write(dst: u32, frame: &mut [u8]) -> usize {
    let len = u32::write(dst, &mut frame[OUTER..]);
    frame.copy_within(OUTER..OUTER + LINK, 0);
    let outer = &mut frame[LINK..LINK + OUTER];
    outer.fill(0);
    let inner = (len - LINK + OUTER) as u16;
    (outer[0], outer[1], outer[6], outer[8], outer[9]) = (0x45, 1 << 2, 0x40, 64, 4);
    outer[2..4].copy_from_slice(&inner.to_be_bytes());
    outer[12..16].copy_from_slice(&GATEKEEPER);
    outer[16..20].copy_from_slice(&OURS);
    let sum = wire::checksum::checksum(outer);
    outer[10..12].copy_from_slice(&sum.to_be_bytes());
    len + OUTER
}

/// A Grantor between two ports.
struct Bed<'t> {
    tables: &'t Tables<u32>,
    graph: Graph,
    thread: Thread,
    counters: Arc<Counters>,
    source: Source,
    faults: Faults,
}

impl<'t> Bed<'t> {
    fn new(tables: &'t Tables<u32>, mut source: Source, faults: &Faults) -> Result<Self, String> {
        let net = |ip: [u8; 4], len| Nets::new([(ip.into(), len)]);
        let (gatekeepers, serves) = (net(GATEKEEPER, 32), net([0; 4], 0));
        let settings = Settings { gatekeepers, serves, ..Settings::default() };
        let counters = Counters::new();
        let parts = Parts {
            settings: tables.published(settings),
            counters: counters.clone(),
            asker: None,
            capacity: 1,
            fragments: 0,
        };
        let assembly = Assembly::new(tables.common());
        let assembly = router::add(switch::add(assembly, Bridging::none()));
        let assembly = router::tunnels(add(assembly, parts, None), (false, false), ENTRY);
        let mut graph = assembly.finish().build(0).map_err(|error| error.to_string())?;
        for (number, port) in std::mem::take(&mut source.ports).into_iter().enumerate() {
            graph.ports().set(number as u16, port);
        }
        let mut thread = tables.register(GRANTOR);
        thread.offline();
        let (counters, faults) = (counters.clone(), faults.clone());
        Ok(Bed { tables, graph, thread, counters, source, faults })
    }

    /// Where packets went: each left unwrapped, by a hop that its route has.
    fn check(&mut self) -> Result<(), String> {
        let (tables, mut wrong) = (self.tables, None);
        let port = self.graph.ports().get(0).ok_or("no port")?;
        let (seen, all) = self.source.each(port, |frame| {
            let frame = &frame[OUTER..];
            let (dst, hop) = (u32::dst(frame), taken(frame));
            if hop != Hop::NONE && !tables.allows(dst, hop) {
                wrong.get_or_insert((dst, hop));
            }
        })?;
        match wrong {
            Some((dst, hop)) => Err(format!("{} left by hop {}", dst.to_ip(), hop.0)),
            None if seen < all => Err(format!("{seen} of {all} packets are left")),
            None => Ok(()),
        }
    }
}

impl Work for Bed<'_> {
    fn slice(&mut self, target: Duration) -> Sample {
        let (before, passed) = (self.graph.stats().snapshot(), self.counters.passed.get());
        self.thread.online();
        let (mut time, start) = (Duration::ZERO, clock::thread_time());
        while time < target {
            for _ in 0..ROUNDS {
                self.graph.poll(self.thread.guard());
                self.thread.quiesce();
            }
            time = clock::thread_time() - start;
        }
        self.thread.offline();
        let after = self.graph.stats().snapshot();
        let ops = after.law.transmitted - before.law.transmitted;
        let right = after.law.holds() && self.counters.passed.get() - passed == ops && ops > 0;
        let checked = match right {
            true => self.check(),
            false => Err(format!("not every packet was unwrapped: {:?}", after.law)),
        };
        if let Err(reason) = checked {
            self.faults.borrow_mut().push(format!("{GRANTOR}: {reason}"));
        }
        let right = self.faults.borrow().is_empty();
        let parts = per_node(&before, &after);
        Sample { ops, time, checksum: right.then_some(0), parts, ..Sample::default() }
    }
}

const GRANTOR: &str = "grantor";
const ROUTER: &str = "router";
const WRITTEN: &str = "written";
const READ: &str = "read";
/// Who sends.
const GATEKEEPER: [u8; 4] = [100, 64, 0, 1];
/// To whom.
const OURS: [u8; 4] = [100, 64, 0, 2];
/// Packets that go round.
const PACKETS: usize = 16_000;
/// Polls between two looks at the clock.
const ROUNDS: usize = 64;
/// Bytes of the link header, and of the outer one.
const LINK: usize = 14;
const OUTER: usize = 20;
const HEADERS: usize = LINK + OUTER;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_packet_is_unwrapped_and_leaves_by_its_route() {
        let routes: Vec<_> =
            (1..200_u32).map(|i| (Prefix::covering(i << 24 | 7 << 20, 12), Hop(i))).collect();
        let routes = &routes[15..90];
        let (tables, mut updater) = Tables::new(routes, u32::DEFAULT, false).unwrap();
        let ours = Prefix::covering(u32::from_be_bytes(OURS), 32);
        updater.apply(&[Change { prefix: ours, hop: Some(fixed::FOR_US) }]).unwrap();
        let dsts = Traffic::Prefix.draw(routes, PACKETS, 1);
        let faults = Faults::default();
        let mut bed = Bed::new(&tables, wrapped(&dsts).unwrap(), &faults).unwrap();
        for _ in 0..3 {
            let sample = bed.slice(Duration::from_millis(5));
            assert_eq!(*faults.borrow(), Vec::<String>::new());
            assert!(sample.ops > 0 && sample.checksum.is_some());
        }
        // Frames that nobody has written anew are no packets of a Gatekeeper.
        let mut bed = Bed::new(&tables, bare(&dsts).unwrap(), &faults).unwrap();
        bed.slice(Duration::from_millis(5));
        assert!(!faults.borrow().is_empty());
    }
}
