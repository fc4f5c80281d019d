//! `switch/forward`: one worker's whole path between two ports of a bridge:
//! receive, classification, learning, lookup, transmit, counters on.
//!
//! ```text
//!  m0 ─ N packets in a ring ─► graph ─► m1, which gives them back to the ring
//!  plain    tags are payload        access   a VLAN of the bridge, untagged frames
//!  trunk    the VLAN's tag is in the frames
//! ```
//!
//! 64-byte frames to stations at m1, all of them known, drawn at random; from a
//! thousand stations at m0, or a million. A ring of packets has destinations of its
//! own; `fresh` gives each frame another one as it comes in, that cost included.
//! After each slice no packet may be missing, flooded or dropped. Beside them, up to a
//! million stations, what the cycles are made of ([`parts`]).

use std::sync::Arc;
use std::time::{Duration, Instant};

use graph::ring::{frames as frame_ring, spsc};
use graph::{Graph, Snapshot};
use io::{Burst, Port};
use lookup::exact::Key;
use lookup::sync::{Domain, Thread};
use nodes::DomainCounters;
use nodes::assembly::Common;
use nodes::switch::Bridging;
use nodes::switch::loops::Loops;
use tables::bridge::FloodRates;
use tables::macs::Learn;
use tables::switch::{BridgeConfig, LoopDetection, Member, Mode, Switch};
use tables::{Forwarding, PortId};
use wire::build::Frame;
use wire::ethernet::Mac;
use wire::vlan::Tag;

use super::super::router::{Source, per_node, stamp};
use super::parts;
use crate::data::Rng;
use crate::slices::{Sample, Variant, Work};
use crate::watch::Watch;
use crate::{Card, Context, Error, Experiment, Plot, Record, Row, Style, Takes, Verdict};

/// See the module.
pub struct Forward;

impl Experiment for Forward {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn judge(&self, rows: &[Row]) -> Vec<Verdict> {
        verdicts(rows)
    }

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        let sizes: &[u64] = context.pick(
            &[1_000, 100_000, 1_000_000, 16_000_000, 64_000_000, 256_000_000, 1_000_000_000],
            &[1_000, 1_000_000],
        );
        let rows =
            context.cells(sizes.to_vec(), |context, &stations| measure(context, stations))?;
        let verdicts = self.judge(&rows);
        let notes = vec![
            "core cycles a frame of processor time, receive and transmit included; mem ports, \
             16,000 packets, bursts of 256"
                .into(),
        ];
        Ok(context.record(rows, verdicts, notes))
    }
}

const CARD: Card = Card {
    name: "switch/forward",
    takes: Takes { full_s: 350.0, quick_s: 6.0 },
    help: "frames/s and cycles a frame of one worker's switch, per node, by stations",
    source: "CuckooSwitch (CoNEXT 2013), section 5; issue on the switch (Zen 3)",
    claim: "≤ 90 core cycles a frame at 1,000,000 stations, learning, VLANs and counters on (Zen \
            3); from there to 10⁹ at most 2.5 × as many",
    plots: &[
        Plot {
            title: "Cycles a frame",
            figure: "cycles",
            unit: "core cycles a frame",
            x: "stations",
            series: "variant",
            panels: &[],
            style: Style::LogLines,
        },
        Plot {
            title: "Rate of one worker",
            figure: "rate_mpps",
            unit: "million frames/s",
            x: "stations",
            series: "variant",
            panels: &[],
            style: Style::LogLines,
        },
    ],
};

fn measure(context: &mut Context, stations: u64) -> Result<Vec<Row>, Error> {
    // Filling large tables takes minutes and gigabytes: one of them must do.
    let only_fresh = stations > MANY;
    let lines = if only_fresh { None } else { Some(parts::lines(PACKETS, stations)) };
    let (mut variants, mut rows) = (Vec::new(), Vec::new());
    for (name, load) in VARIANTS.into_iter().filter(|(_, load)| !only_fresh || load.fresh) {
        match Bed::new(load, stations) {
            Ok(bed) => variants.push(Variant::new(name, bed)),
            Err(reason) => rows.push(labels(stations, name).noting(reason)),
        }
    }
    let mut refuse = |name, reason: String| rows.push(labels(stations, name).noting(reason));
    match &lines {
        Some(Ok(lines)) => variants.push(Variant::new(parts::LINES, lines.independent())),
        Some(Err(reason)) => refuse(parts::LINES, reason.clone()),
        None => {}
    }
    match (!only_fresh).then(|| parts::ports(PACKETS)) {
        Some(Ok(ports)) => variants.push(Variant::new(parts::PORTS, ports)),
        Some(Err(reason)) => refuse(parts::PORTS, reason),
        None => {}
    }
    for timing in context.measure(&mut variants) {
        let mut row = labels(stations, &timing.name);
        if [parts::LINES, parts::PORTS].contains(&&*timing.name) {
            let each = if timing.name == parts::LINES { parts::EACH } else { 1 };
            rows.push(parts::row(row, &timing, each as f64));
            continue;
        }
        if timing.checksum.is_none() {
            rows.push(row.noting("frames were lost, flooded or dropped"));
            continue;
        }
        row = row.with("cycles", timing.cycles).with("rate_mpps", timing.rate.scaled(1e-6));
        for (node, cycles) in &timing.parts {
            row = row.with(format!("node.{node}"), *cycles);
        }
        rows.push(row);
    }
    Ok(rows)
}

fn labels(stations: u64, variant: &str) -> Row {
    Row::new([("stations", stations.to_string()), ("variant", variant.to_string())])
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let cycles = |stations: &str, variant: &str| {
        let labels = [("stations", stations), ("variant", variant)];
        rows.iter().find(|row| row.is(&labels))?.median("cycles")
    };
    let stations = |row: &Row| row.label("stations").parse::<u64>().unwrap_or(0);
    let largest = rows.iter().max_by_key(|row| stations(row)).filter(|row| stations(row) > MANY);
    let fresh = |stations: &str| cycles(stations, "access, fresh destinations");
    let most = "≤ 90 cycles at 1,000,000 stations (Zen 3)";
    let growth = "10⁹ stations: at most 2.5 × the cycles at 1,000,000, fresh destinations";
    let grown = largest.map(|row| row.label("stations"));
    let mut verdicts = vec![
        match cycles("1000000", "access") {
            Some(measured) => Verdict::at_most(most, measured, 90.0, "cycles"),
            None => Verdict::open(most, "not measured here"),
        },
        match (fresh("1000000"), grown.and_then(|n| Some((n, fresh(n)?)))) {
            (Some(small), Some((n, large))) => {
                let unit = format!("× (at {n} stations, the most of this run)");
                Verdict::at_most(growth, large / small, 2.5, &unit)
            }
            _ => Verdict::open(growth, "not measured here"),
        },
    ];
    let sizes = ["1000", "1000000"].into_iter();
    verdicts.extend(sizes.filter_map(|stations| parts::verdict(rows, stations, "access")));
    verdicts
}

/// What the ports do with tags.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Kind {
    Plain,
    Access,
    Trunk,
}

/// What goes through a switch.
#[derive(Clone, Copy)]
struct Load {
    kind: Kind,
    /// Stations that send.
    sources: u64,
    /// Each frame gets a new destination as it comes in.
    fresh: bool,
    packets: usize,
}

impl Kind {
    fn mode(self) -> Mode {
        match self {
            Kind::Plain => Mode::Plain,
            Kind::Access => Mode::Access(VLAN),
            Kind::Trunk => Mode::Trunk { vlans: vec![VLAN..=VLAN], native: None },
        }
    }
}

/// One worker's switch, and the packets that go round through it.
pub(in crate::experiments) struct Bed {
    graph: Graph,
    thread: Thread,
    switch: Switch,
    seen: spsc::Consumer<Learn>,
    /// Dropped after the ports, which are in the graph.
    _source: Source,
}

impl Bed {
    fn new(load: Load, stations: u64) -> Result<Bed, String> {
        let Load { kind, sources, fresh, packets } = load;
        let domain = Domain::new();
        let forwarding = Forwarding::new(&domain);
        let mut switch = switch(&forwarding, &domain, kind, stations + sources)?;
        let all = (stations + sources) as usize;
        switch.reserve(all).map_err(|refusal| refusal.to_string())?;
        learn(&mut switch, (THERE, stations, 1))?;
        learn(&mut switch, (HERE, sources, 0))?;
        let (learn, seen) = spsc::ring(1 << 14);
        let mut graph = graph(&forwarding, learn)?;
        let mut rng = Rng::new(1);
        let fill = |_: usize, room: &mut [u8]| {
            let to = THERE | rng.below(stations as usize) as u64;
            let from = HERE | rng.below(sources as usize) as u64;
            write(kind, to, from, room)
        };
        let mut source = Source::ring(packets, fill)?;
        if fresh {
            // Each port goes through a list of its own.
            source = source.stamped(|_| stamp(fresh_stations(stations), 0));
        }
        for (number, port) in std::mem::take(&mut source.ports).into_iter().enumerate() {
            let port = if number == 0 { port } else { Box::new(Outward(port)) };
            graph.ports().set(number as u16, port);
        }
        let mut thread = domain.register("switch");
        thread.offline();
        Ok(Bed { graph, thread, switch, seen, _source: source })
    }
}

/// A switch of access ports between `stations` stations, each frame to another one.
pub(in crate::experiments) fn access(stations: u64) -> Result<Bed, String> {
    Bed::new(Load { fresh: true, ..ACCESS }, stations)
}

/// A switch of access ports between `stations` stations, with so many packets.
pub(in crate::experiments) fn few(stations: u64, packets: usize) -> Result<Bed, String> {
    Bed::new(Load { packets, ..ACCESS }, stations)
}

/// Destinations drawn at random from all stations.
fn fresh_stations(stations: u64) -> Vec<[u8; 6]> {
    let mut rng = Rng::new(2);
    let address = |_| Key::new(THERE | rng.below(stations as usize) as u64, 0).octets();
    (0..FRESH).map(address).collect()
}

/// Has the switch see so many stations from one address on, at a port.
fn learn(switch: &mut Switch, (first, stations, port): (u64, u64, u16)) -> Result<(), String> {
    let now = Instant::now();
    let mut seen = Vec::with_capacity(LEARNT as usize);
    for n in (0..stations).step_by(LEARNT as usize) {
        seen.clear();
        let some = n..stations.min(n + LEARNT);
        seen.extend(some.map(|n| Learn { key: Key::new(first | n, 1), port }));
        switch.learn_all(&seen, now);
        if switch.counters(0).refused > 0 {
            return Err(format!("no memory for {stations} stations: {n} were learnt"));
        }
    }
    Ok(())
}

fn switch(
    forwarding: &Arc<Forwarding>,
    domain: &Arc<Domain>,
    kind: Kind,
    most: u64,
) -> Result<Switch, String> {
    let member = |port| Member {
        port: PortId(port),
        mode: kind.mode(),
        isolated: false,
        max_macs: None,
        flood: FloodRates::default(),
        mtu: 1500,
    };
    let bridge = BridgeConfig {
        name: "lan".into(),
        members: vec![member(0), member(1)],
        max_macs: most,
        ageing: 300,
        // Probes, one a second, would be counted among the frames that were sent on.
        loops: LoopDetection::Off,
        ..BridgeConfig::default()
    };
    let switch = Switch::new(forwarding, domain, vec![bridge], (2, &[[2; 6]]));
    let mut switch = switch.map_err(|error| error.to_string())?;
    switch.set_link(0, true);
    switch.set_link(1, true);
    Ok(switch)
}

fn graph(forwarding: &Arc<Forwarding>, learn: spsc::Producer<Learn>) -> Result<Graph, String> {
    let (to_kernel, _) = frame_ring::ring(1 << 16);
    let (_, from_kernel) = frame_ring::ring(1 << 16);
    let common = Common::alone(forwarding.clone(), (to_kernel, from_kernel), 2);
    nodes::router_and_switch(
        common,
        Bridging {
            bridges: 1,
            workers: 1,
            domains: DomainCounters::new(),
            learn,
            loops: Loops::new(2, [1, 2], None),
        },
    )
    .build(0)
    .map_err(|error| error.to_string())
}

fn write(kind: Kind, to: u64, from: u64, room: &mut [u8]) -> usize {
    let mac = |n: u64| Mac(Key::new(n, 0).octets());
    let frame = Frame::other(0x88b5).payload(&[0; 46]).macs(mac(from), mac(to)).pad_to(64);
    let frame = if kind == Kind::Trunk { frame.tag(Tag::new(VLAN)) } else { frame };
    frame.emit(room).expect("64 bytes of room")
}

impl Bed {
    /// Forwards at least `frames`; says so where one did not leave by lookup.
    pub(in crate::experiments) fn forward(&mut self, frames: u64) -> Result<(), String> {
        let before = self.graph.stats().snapshot();
        self.thread.online();
        let (mut came, mut silent) = (0, 0);
        while came < frames && silent < ROUNDS {
            let n = self.graph.poll(self.thread.guard()) as u64;
            self.thread.quiesce();
            came += n;
            silent = if n == 0 { silent + 1 } else { 0 };
        }
        self.thread.offline();
        let seen: Vec<Learn> = std::iter::from_fn(|| self.seen.pop()).collect();
        self.switch.learn_all(&seen, Instant::now());
        let after = self.graph.stats().snapshot();
        if right(&before, &after) { Ok(()) } else { Err(format!("{:?}", after.law)) }
    }
}

impl Work for Bed {
    fn slice(&mut self, target: Duration) -> Sample {
        let before = self.graph.stats().snapshot();
        self.thread.online();
        let mut watch = Watch::new(target);
        loop {
            let mut came = 0;
            for _ in 0..ROUNDS {
                came += self.graph.poll(self.thread.guard()) as u64;
                self.thread.quiesce();
            }
            if !watch.lap(came) {
                break;
            }
        }
        self.thread.offline();
        let seen: Vec<Learn> = std::iter::from_fn(|| self.seen.pop()).collect();
        self.switch.learn_all(&seen, Instant::now());
        let after = self.graph.stats().snapshot();
        let ops = after.law.transmitted - before.law.transmitted;
        let sample = watch.sample_of(ops, per_node(&before, &after));
        Sample { checksum: right(&before, &after).then_some(0), ..sample }
    }
}

/// Every frame came out again, by lookup.
fn right(before: &Snapshot, after: &Snapshot) -> bool {
    let received = after.law.received - before.law.received;
    let sent = after.law.transmitted - before.law.transmitted;
    after.law.holds() && received > 0 && received == sent && after.law.copies == 0
}

/// A port by which nothing comes in.
struct Outward(Box<dyn Port>);

impl Port for Outward {
    io::around_port!(self.0: rest, transmit);

    fn receive(&mut self, _: &mut Burst, _: usize) -> usize {
        0
    }
}

const VARIANTS: [(&str, Load); 6] = [
    ("plain", Load { kind: Kind::Plain, ..ACCESS }),
    ("access", ACCESS),
    ("trunk", Load { kind: Kind::Trunk, ..ACCESS }),
    ("access, a million senders", Load { sources: 1_000_000, ..ACCESS }),
    ("access, fresh destinations", Load { fresh: true, ..ACCESS }),
    (parts::NEAR, Load { packets: parts::FEW, ..ACCESS }),
];

const ACCESS: Load = Load { kind: Kind::Access, sources: 1_000, fresh: false, packets: PACKETS };

/// Fresh destinations.
const FRESH: usize = 1 << 20;

/// Stations up to which all variants take part.
const MANY: u64 = 1_000_000;
const PACKETS: usize = 16_000;
const VLAN: u16 = 10;
/// Addresses of stations at either port.
const HERE: u64 = 0x0200_0000_0000;
const THERE: u64 = 0x0600_0000_0000;
/// Stations that are learnt together.
const LEARNT: u64 = 1 << 12;
/// Polls between two looks at the clock.
const ROUNDS: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_frame_leaves_by_lookup() {
        for (name, load) in VARIANTS {
            let mut bed = Bed::new(Load { sources: 100, ..load }, 1000).unwrap();
            let sample = bed.slice(Duration::from_millis(2));
            assert!(sample.ops > 0 && sample.checksum.is_some(), "{name}: {sample:?}");
            assert!(sample.parts.iter().any(|(part, _)| part == "bridge_forward"), "{name}");
        }
    }
}
