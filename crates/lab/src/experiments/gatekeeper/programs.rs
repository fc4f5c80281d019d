//! `gatekeeper/programs`: what a packet costs that a program is asked about: each program that
//! comes with Rutter, compiled, interpreted, and in Rust; and a granted packet's whole way through a
//! worker by each. Rutter has two of the five built in; the other three are written for this
//! comparison alone ([`twins`]).

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use graph::clock as ticks;
use nodes::gatekeeper::granted::Granted;
use nodes::gatekeeper::programs::{Declined, Programs as Table};
use nodes::gatekeeper::rule::{Answer, Arrival, Page, Rule};
use nodes::gatekeeper::times::Times;
use policy::bpf::stock::{STOCK, Stock};
use policy::bpf::{Checked, Clock, Engine};
use wire::build::Frame;
use wire::ggu::Verdict as Decision;

use super::bed::{Bed, Load};
use super::generator::{Clients, known};
use super::path::PACKETS;
use super::site::{Rings, Site};
use super::twins;
use crate::record::Bound;
use crate::slices::{Variant, repeat};
use crate::{Card, Context, Error, Experiment, Plot, Record, Row, Style, Takes, Verdict, clock};

/// See the module.
pub struct Programs;

impl Experiment for Programs {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn judge(&self, rows: &[Row]) -> Vec<Verdict> {
        verdicts(rows)
    }

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        let wrong = |what| Error::Wrong { experiment: "gatekeeper/programs", what };
        let cells = STOCK.iter().map(|stock| stock.name).chain([WAY]);
        let rows = context.cells(cells, |context, name| {
            match STOCK.iter().find(|stock| stock.name == *name) {
                Some(stock) => alone(context, stock).map_err(wrong),
                None => way(context).map_err(wrong),
            }
        })?;
        let verdicts = self.judge(&rows);
        Ok(context.record(rows, verdicts, NOTES.map(String::from).into()))
    }
}

const NOTES: [&str; 3] = [
    "alone: a TCP segment to port 80 in IPv4 that passes, its page in the cache; through the trait that nodes call",
    "the whole way: as gatekeeper/granted, whose node asks by the number that a decision has; the generator's cost \
     is in all of them",
    "built in: granted and declined as Rutter has them, the other three as the lab's versions in Rust of the same \
     programs; all that run a program answer alike",
];

const CARD: Card = Card {
    name: "gatekeeper/programs",
    takes: Takes { full_s: 18.0, quick_s: 7.0 },
    help: "what a packet costs that a program is asked about: compiled, interpreted, built in",
    source: "issue on policies and Grantor; study of Gatekeeper, F6",
    claim: "granted ≤ 15 ns compiled; a granted packet through it ≤ 45 core cycles more than by what is built in",
    plots: &[Plot {
        title: "A packet",
        figure: "ns",
        unit: "ns",
        x: "program",
        series: "runs",
        panels: &[],
        style: Style::Bars,
    }],
};

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let of = |program: &str, runs: &str, figure: &str| {
        let labels = [("program", program), ("runs", runs)];
        rows.iter().find(|row| row.is(&labels)).and_then(|row| row.median(figure))
    };
    let more = of(WAY, COMPILED, "cycles").zip(of(WAY, BUILT_IN, "cycles"));
    let verdict = |text: &str, found: Option<f64>, (least, most), unit: &str| {
        let found: Vec<_> = found.into_iter().collect();
        Bound::within(least, most).ours().judge(text, &found, unit)
    };
    vec![
        verdict(
            "granted, compiled: 1 to 15 ns a packet",
            of("granted", COMPILED, "ns"),
            (1.0, 15.0),
            "ns",
        ),
        verdict(
            "a granted packet's way through it: −20 to 45 cycles more than by what is built in",
            more.map(|(program, built_in)| program - built_in),
            (-20.0, 45.0),
            "cycles",
        ),
    ]
}

/// A program by each that can run it.
fn alone(context: &Context, stock: &Stock) -> Result<Vec<Row>, String> {
    clock::cores().last().map(|&core| clock::pin(core));
    let frame = Frame::tcp4(at(50_000), at(80), ACK).payload(&[7; 20]).build();
    let (link, packet) = frame.split_at(14);
    let len = frame.len() as u32;
    let arrival = |now| Arrival { now, len, link, packet };
    let times = Times::new(ticks::rate());
    let mut variants = Vec::new();
    let mut answers = Vec::new();
    let begun = ticks::now();
    for (runs, rule) in rules(stock)? {
        let mut page = parameters(stock.name);
        let mut now = begun;
        rule.init(&times, now, &mut page).map_err(|_| format!("{}: no init", stock.name))?;
        answers.push(rule.packet(&times, &arrival(now), u64::MAX, &mut page));
        let (times, arrival) = (&times, &arrival);
        let mut ask = move || {
            now += 100; // more than a second's budget never comes
            std::hint::black_box(rule.packet(times, &arrival(now), u64::MAX, &mut page))
        };
        let each = repeat(SLICE, move || {
            let passed = (0..SLICE).filter(|_| passes(ask())).count();
            passed as u64
        });
        variants.push(Variant::new(runs, each));
    }
    let wanted = stock.name != "declined";
    if answers.iter().any(|answer| passes(*answer) != wanted || *answer != answers[0]) {
        return Err(format!("{}: {answers:?}", stock.name));
    }
    let timings = context.measure(&mut variants);
    let each = if wanted { SLICE } else { 0 };
    if timings.iter().any(|timing| timing.checksum != Some(each)) {
        return Err(format!("{}: packets met other answers", stock.name));
    }
    let row = |name: &str| labels(stock.name, name);
    Ok(timings
        .iter()
        .map(|of| row(&of.name).with("ns", of.nanos).with("cycles", of.cycles))
        .collect())
}

/// Granted packets through a worker, by each that can run `granted`.
fn way(context: &Context) -> Result<Vec<Row>, String> {
    clock::cores().last().map(|&core| clock::pin(core));
    let bits = context.pick(16, 12);
    let flows: Arc<[u32]> = (0..1 << bits).map(known).collect();
    let load = Load {
        places: 2 << bits,
        granted: flows.clone(),
        declined: Arc::new([]),
        decisions: Arc::new([]),
        clients: Clients::only(flows),
        packets: PACKETS,
    };
    let mut variants = Vec::new();
    for (runs, rule) in rules(&STOCK[0])? {
        // Of its own: all beds of one have the same programs.
        let site = Site::new(1, BACK_BITS)?;
        let mut bed = Bed::new(&site, (0, Rings::none()), load.clone(), &Arc::default())?;
        let mut table = Table::default();
        table.set(0, Some(rule));
        let cookie = parameters("granted");
        bed.decide_by(&site, &table, Decision::Program { expire_s: 100_000, index: 0, cookie })?;
        variants.push(Variant::new(runs, bed));
    }
    let timings = context.measure(&mut variants);
    if timings.iter().any(|timing| timing.checksum.is_none()) {
        return Err("packets met other verdicts".into());
    }
    Ok(timings.iter().map(|of| labels(WAY, &of.name).with("cycles", of.cycles)).collect())
}

/// Who runs a program, and the program.
type Named = (&'static str, Arc<dyn Rule>);

/// What can run a program, and how it is called.
fn rules(stock: &Stock) -> Result<Vec<Named>, String> {
    let times = Times::new(ticks::rate());
    let clock = Clock { cycles_per_sec: times.second(), cycles_per_ms: times.millis(1) };
    let checked = Checked::new(stock.object, clock).map_err(|refused| refused.to_string())?;
    let mut rules: Vec<(_, Arc<dyn Rule>)> = Vec::new();
    match stock.name {
        "granted" => rules.push((BUILT_IN, Arc::new(Granted))),
        "declined" => rules.push((BUILT_IN, Arc::new(Declined))),
        "grantedv2" => rules.push((BUILT_IN, Arc::new(twins::GrantedV2))),
        "web" => rules.push((BUILT_IN, Arc::new(twins::Web))),
        "tcp-services" => rules.push((BUILT_IN, Arc::new(twins::TcpServices))),
        _ => {}
    }
    for (runs, engine) in [(COMPILED, Engine::Compiled), (INTERPRETED, Engine::Interpreter)] {
        rules.extend(checked.by(engine).map(|program| (runs, Arc::new(program) as Arc<dyn Rule>)));
    }
    Ok(rules)
}

/// A second's budget is more than comes; renewals are far off.
fn parameters(program: &str) -> Page {
    const RATE: u32 = 1 << 24;
    const FAR: u32 = 100_000_000;
    let words: &[u32] = match program {
        // A step of 24 bits, and one port at which the destination listens.
        "tcp-services" => &[RATE, FAR, 1 << 24 | 3_000, 80],
        "granted" => &[RATE, FAR, FAR],
        _ => &[RATE, RATE, FAR, FAR, 0],
    };
    let mut page = [0; 64];
    for (place, word) in page.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    page
}

fn passes(answer: Answer) -> bool {
    matches!(answer, Answer::Send(_) | Answer::Direct)
}

fn labels(program: &str, runs: &str) -> Row {
    Row::new([("program", program.to_string()), ("runs", runs.to_string())])
}

fn at(port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(198, 51, 100, 7), port)
}

const BUILT_IN: &str = "built in";
const COMPILED: &str = "compiled";
const INTERPRETED: &str = "interpreter";
const WAY: &str = "granted, the whole way";
const ACK: u16 = 0x10;
const SLICE: u64 = 1 << 12;
const BACK_BITS: u64 = 1_000_000_000;
