//! `router/ports`: what a packet costs a worker that takes it from one network interface
//! of the kernel and gives it to another, by the device that does it.
//!
//! ```text
//!  generator ─► veth ═ veth ─► device ─► device ─► veth ═ veth: nobody there
//!  └───── not counted ──────┘ └─────── the worker's time ───────┘
//! ```
//!
//! Nothing is looked up between the two. The kernel's share is in it: what it does with a
//! frame that is sent, it does in the sender's time, up to where the other end drops it.

use std::fmt;
use std::fs::File;
use std::os::fd::AsFd;
use std::process::Command;
use std::thread;
use std::time::Duration;

use io::{Burst, Device, Pool, PoolConfig, Port};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::slices::{Sample, Variant, Work};
use crate::watch::Watch;
use crate::{Card, Context, Error, Experiment, Plot, Record, Row, Style, Takes, Verdict};

/// See the module.
pub struct Ports;

impl Experiment for Ports {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn judge(&self, rows: &[Row]) -> Vec<Verdict> {
        verdicts(rows)
    }

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        let cells = [60, 1514]
            .into_iter()
            .flat_map(|bytes| [2, io::BURST].map(|at_once| Cell { bytes, at_once }));
        let rows = context.cells(cells, |context, cell| measure(context, cell))?;
        let note = "rates are by the worker's processor time, the kernel's part of it included";
        let verdicts = self.judge(&rows);
        Ok(context.record(rows, verdicts, vec![note.into()]))
    }
}

const CARD: Card = Card {
    name: "router/ports",
    takes: Takes { full_s: 60.0, quick_s: 5.0 },
    help: "receive and transmit over veth pairs: packet:IFACE beside DPDK's af_packet and af_xdp",
    source: "issue on repairs: a port of our own for plain Linux",
    claim: "packet:IFACE forwards at least 1.3 times what net_af_packet does",
    plots: &[Plot {
        title: "Forwarding over the kernel's interfaces",
        figure: "rate_mpps",
        unit: "million packets/s",
        x: "at_once",
        series: "device",
        panels: &["bytes"],
        style: Style::Bars,
    }],
};

/// What comes, and how much of it a poll finds.
struct Cell {
    bytes: usize,
    at_once: usize,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes, {} at once", self.bytes, self.at_once)
    }
}

fn measure(context: &Context, cell: &Cell) -> Result<Vec<Row>, Error> {
    let missing = |what| Error::Missing { experiment: CARD.name, what };
    let namespace = Namespace::new().map_err(missing)?;
    let wrong = |what| Error::Wrong { experiment: CARD.name, what };
    let pool = Pool::new(&PoolConfig::default()).map_err(|error| wrong(error.to_string()))?;
    let (mut variants, mut rows) = (Vec::new(), Vec::new());
    let row = |device: &str| {
        let labels = [("bytes", cell.bytes.to_string()), ("at_once", cell.at_once.to_string())];
        Row::new([("device", device.to_string())].into_iter().chain(labels))
    };
    for (number, name) in DEVICES.into_iter().enumerate() {
        match namespace.way(name, number, cell, &pool) {
            Ok(way) => variants.push(Variant::new(name, way)),
            Err(reason) => rows.push(row(name).noting(reason)),
        }
    }
    for timing in context.measure(&mut variants) {
        let lost = timing.figures.iter().find(|(name, _)| name == LOST);
        if timing.checksum.is_none() || lost.is_none_or(|(_, lost)| lost.median > 0.01) {
            return Err(wrong(format!("{}: packets are lost on the way", timing.name)));
        }
        let row = row(&timing.name).with("rate_mpps", timing.rate.scaled(1e-6));
        rows.push(row.with("nanos", timing.nanos).with("cycles", timing.cycles));
    }
    Ok(rows)
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let rate = |device: &str, like: &Row| {
        let labels = ["bytes", "at_once"].map(|name| (name, like.label(name)));
        let all = [[("device", device)].as_slice(), &labels].concat();
        rows.iter().find(|row| row.is(&all))?.median("rate_mpps")
    };
    let ours = rows.iter().filter(|row| row.label("device") == "packet");
    let verdict = |row: &Row| {
        let (bytes, at_once) = (row.label("bytes"), row.label("at_once"));
        let ratio = rate("packet", row)? / rate("net_af_packet", row)?;
        let claim = format!("{bytes} bytes, {at_once} at once: packet ≥ 1.3 × net_af_packet");
        Some(Verdict::at_least(claim, ratio, 1.3, "×"))
    };
    ours.filter_map(verdict).collect()
}

/// From one interface to another.
struct Way {
    generator: Box<dyn Port>,
    input: Box<dyn Port>,
    output: Box<dyn Port>,
    burst: Box<Burst>,
    frame: Vec<u8>,
    at_once: usize,
    /// Stopped when it is dropped, after the ports.
    _devices: Vec<Box<dyn Device>>,
}

impl Way {
    /// Sends some frames to the input.
    fn generate(&mut self) {
        let mut packets: Vec<_> = (0..BATCH).map(|_| self.generator.allocate()).collect();
        for (flow, packet) in packets.iter_mut().enumerate() {
            self.frame[33] = flow as u8; // the last byte of the destination
            packet.iter_mut().for_each(|packet| assert!(packet.fill(&self.frame), "it fits"));
        }
        let sent = self.generator.transmit(&mut packets);
        self.generator.free(&mut packets[sent..]);
    }

    /// Forwards what is there; how many packets.
    fn forward(&mut self) -> u64 {
        let mut all = 0;
        loop {
            let n = self.input.receive(&mut self.burst, self.at_once);
            if n == 0 {
                return all;
            }
            let packets = self.burst.packets();
            let sent = self.output.transmit(packets);
            self.output.free(&mut packets[sent..]);
            self.burst.clear();
            all += sent as u64;
        }
    }
}

impl Work for Way {
    fn slice(&mut self, target: Duration) -> Sample {
        let (mut watch, mut sent) = (Watch::new(target), 0);
        loop {
            watch.untimed(|| self.generate());
            sent += BATCH as u64;
            let n = self.forward();
            if n == 0 {
                return Sample::default();
            }
            if !watch.lap(n) {
                break;
            }
        }
        let sample = watch.sample();
        let lost = (sent - sample.done.min(sent)) as f64 / sent as f64;
        Sample { checksum: Some(0), figures: vec![(LOST.into(), lost)], ..sample }
    }
}

/// A network namespace; gone when dropped.
struct Namespace(String);

impl Namespace {
    fn new() -> Result<Namespace, String> {
        let name = format!("rutter-ports-{}", std::process::id());
        ip(&["netns", "add", &name])?;
        Ok(Namespace(name))
    }

    /// Two veth pairs, and `device` between them.
    fn way(&self, device: &str, number: usize, cell: &Cell, pool: &Pool) -> Result<Way, String> {
        let link = |end: &str| format!("{end}{number}");
        for (near, far) in [("v", "g"), ("w", "s")] {
            let (near, far) = (link(near), link(far));
            ip(&["-n", &self.0, "link", "add", &near, "type", "veth", "peer", "name", &far])?;
            for end in [near, far] {
                ip(&["-n", &self.0, "link", "set", &end, "up"])?;
            }
        }
        let open = |iface: &str, nth: usize| match device {
            "packet" => io::open_with(&format!("packet:{iface}"), pool),
            "packet direct" => io::open_with(&format!("packet:{iface},direct"), pool),
            dpdk => io_dpdk::open(&format!("{dpdk}{},iface={iface}", 2 * number + nth)),
        };
        let opened = || -> Result<_, io::Error> {
            let generator = io::open_with(&format!("packet:{}", link("g")), pool)?;
            let mut devices = vec![generator, open(&link("v"), 0)?, open(&link("w"), 1)?];
            let mut ports = Vec::new();
            for device in &mut devices {
                ports.extend(device.start(1)?);
            }
            Ok((devices, ports))
        };
        let entered = || {
            let file = File::open(format!("/run/netns/{}", self.0)).map_err(|e| e.to_string())?;
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
                .map_err(|error| format!("the namespace cannot be entered: {error}"))?;
            opened().map_err(|error| error.to_string())
        };
        let made = thread::scope(|scope| scope.spawn(entered).join());
        let (devices, ports) = made.map_err(|_| "opening the devices panicked".to_string())??;
        let Ok([mut generator, mut input, mut output]) = <[Box<dyn Port>; 3]>::try_from(ports)
        else {
            return Err("a device has another number of ports".into());
        };
        [&mut generator, &mut input, &mut output].into_iter().for_each(|port| port.attach(0));
        // To another machine, in UDP: whatever hears of it lets it go.
        let mut frame = vec![0; cell.bytes];
        frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 8, 0]);
        let len = (cell.bytes - 14) as u16;
        frame[14..16].copy_from_slice(&[0x45, 0]);
        frame[16..18].copy_from_slice(&len.to_be_bytes());
        frame[22..24].copy_from_slice(&[64, 17]);
        frame[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 1, 0, 0]);
        let (burst, at_once) = (Burst::new(), cell.at_once);
        Ok(Way { generator, input, output, burst, frame, at_once, _devices: devices })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = ip(&["netns", "del", &self.0]); // it says what is left, if anybody looks
    }
}

fn ip(words: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(words).output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let words = words.join(" ");
    Err(format!("`ip {words}`: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

const DEVICES: [&str; 4] = ["packet", "packet direct", "net_af_packet", "net_af_xdp"];
/// Frames that wait at once: fewer than the smallest of the rings holds.
const BATCH: usize = 256;
const LOST: &str = "lost";
