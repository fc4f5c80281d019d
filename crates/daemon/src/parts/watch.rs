//! Traces and captures: rings from every worker, read until enough is there or
//! the client is gone.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use api::filter::{Filter, Side};
use api::reply::{Captured, Step as ShownStep, Trace as ShownTrace};
use api::{ErrorKind, Failure, Reply};
use graph::clock::Rate;
use graph::ring::{frames, spsc};
use graph::{Capture, Point, Stats, Step, Trace};
use nodes::filter as conditions;

use super::state::{Names, State, up};
use crate::server::Client;

/// Follows the next `count` packets and sends the way of each.
///
/// # Errors
/// When a worker has ended.
pub fn trace(
    state: &State,
    (count, filter): (u32, Option<conditions::Filter>),
    timeout: Duration,
    out: &mut Client,
) -> Result<(), Failure> {
    let mut rings = Vec::new();
    each(state, |worker| {
        let (ring, steps) = spsc::ring(STEPS);
        let packets = count.min(u32::from(u16::MAX)) as u16;
        let filter = filter.clone().map(|filter| Box::new(filter) as Box<dyn graph::Filter>);
        let trace = Trace { packets, filter, ring };
        rings.push(steps);
        worker.call(move |graph| drop(graph.set_trace(Some(trace))))
    })?;
    let stats: Vec<Arc<Stats>> = up(&state.workers())?.stats.clone();
    let names = state.names();
    let (start, mut left) = (Instant::now(), count);
    let mut ways = HashMap::<(usize, u16), Vec<Step>>::new();
    while left > 0 && start.elapsed() < timeout && out.waits() {
        for (worker, ring) in rings.iter_mut().enumerate() {
            while let Some(step) = ring.pop() {
                let way = ways.entry((worker, step.packet)).or_default();
                way.push(step);
                if step.edge == Step::SUNK && left > 0 {
                    left -= 1;
                    let way = ways.remove(&(worker, step.packet)).unwrap_or_default();
                    out.part(Reply::Trace(shown(worker, &way, &stats[worker], &names)));
                }
            }
        }
        std::thread::sleep(PAUSE);
    }
    each(state, |worker| worker.call(|graph| drop(graph.set_trace(None))))
}

/// Calls every worker. They are held only for that time, not while a client is
/// written to: a slow one would keep the router from stopping. Where they have
/// stopped there is none.
fn each(
    state: &State,
    mut call: impl FnMut(&graph::Worker) -> Result<(), graph::WorkerError>,
) -> Result<(), Failure> {
    let workers = state.workers();
    let mut threads = workers.iter().flat_map(|workers| &workers.threads);
    threads.try_for_each(|worker| call(worker).map_err(internal))
}

fn shown(worker: usize, way: &[Step], stats: &Stats, names: &Names) -> ShownTrace {
    let Some(first) = way.first() else { return ShownTrace::default() };
    let mut before = None;
    let step = |step: &Step| {
        let (node, edge) = step.describe(stats);
        let edge = match step.edge {
            Step::SUNK => String::new(),
            Step::DROPPED => format!("dropped: {edge}"),
            _ => format!("→ {edge}"),
        };
        let detail = detail(step, before, names);
        before = Some(*step);
        let cycles = step.time.saturating_sub(first.time);
        ShownStep { node: node.into(), edge, cycles, detail }
    };
    let steps = way.iter().map(step).collect();
    let bytes = hex(first.data());
    ShownTrace {
        worker: worker as u16,
        port: names.port(first.port),
        bytes,
        length: first.bytes,
        steps,
    }
}

/// The changes since the last step.
fn detail(step: &Step, before: Option<Step>, names: &Names) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    if before.is_none_or(|before| before.data() != step.data()) {
        let _ = write!(text, "{}", wire::describe::Frame(step.data()));
    }
    let new_iface = before.is_none_or(|before| before.iface != step.iface);
    if let Some(name) = names.interface(step.iface).filter(|_| new_iface) {
        let gap = if text.is_empty() { "" } else { ", " };
        let _ = write!(text, "{gap}interface {name}");
    }
    if step.hop != 0 && before.is_none_or(|before| before.hop != step.hop) {
        let gap = if text.is_empty() { "" } else { ", " };
        let _ = write!(text, "{gap}hop {}", step.hop);
    }
    text
}

/// The packets that a client wants to capture.
pub struct Wanted {
    /// Which frames.
    pub filter: Option<conditions::Filter>,
    /// Bytes kept of each.
    pub snap: usize,
    /// How many; without end where there is none.
    pub count: Option<u64>,
}

/// Sends frames as they are received, transmitted, punted, dropped, until there
/// are enough or the client is gone.
///
/// # Errors
/// When a worker has ended.
pub fn capture(state: &State, wanted: Wanted, out: &mut Client) -> Result<(), Failure> {
    let mut rings = Vec::new();
    each(state, |worker| {
        let (ring, captured) = frames::ring(CAPTURE_RING);
        let filter = wanted.filter.clone().map(|filter| Box::new(filter) as Box<dyn graph::Filter>);
        let points = vec![Point::Received, Point::Transmitted];
        let capture = Capture { points, filter, snap: wanted.snap, ring };
        rings.push(captured);
        worker.call(move |graph| drop(graph.set_capture(Some(capture))))
    })?;
    let workers = rings.len().max(1);
    let lost_before = lost(state)?;
    let names = state.names();
    let clock = Clock::new();
    let mut left = wanted.count.unwrap_or(u64::MAX);
    let mut sent = Instant::now();
    while left > 0 && out.waits() {
        let mut packets: Vec<Captured> = Vec::new();
        for ring in &mut rings {
            let some =
                std::iter::from_fn(|| ring.pop(|meta, frame| one(meta, frame, &names, &clock)));
            packets.extend(some.take((PART / workers).max(1)));
        }
        packets.sort_by_key(|packet| packet.time_ns);
        packets.truncate(left.min(packets.len() as u64) as usize);
        left -= packets.len() as u64;
        // Now and then an empty part, so that the client sees us alive.
        if !packets.is_empty() || sent.elapsed() > ALIVE {
            sent = Instant::now();
            let lost = lost(state)?.saturating_sub(lost_before);
            out.part(Reply::Packets { packets, lost });
        } else {
            std::thread::sleep(PAUSE);
        }
    }
    each(state, |worker| worker.call(|graph| drop(graph.set_capture(None))))
}

fn one(meta: frames::Meta, frame: &[u8], names: &Names, clock: &Clock) -> Captured {
    let point = Point::from_code(meta.kind);
    let interface = names.interface(meta.iface).unwrap_or_default();
    Captured {
        time_ns: clock.unix_ns(meta.time),
        port: names.port((meta.info >> 32) as u16),
        out: point == Some(Point::Transmitted),
        length: meta.info as u16,
        bytes: hex(frame),
        comment: match point {
            Some(Point::Dropped) => "dropped".into(),
            Some(Point::Punted) => format!("to the kernel, by {interface}"),
            _ => String::new(),
        },
    }
}

fn lost(state: &State) -> Result<u64, Failure> {
    let mut lost = 0;
    each(state, |worker| worker.call(|graph| graph.lost()).map(|more| lost += more))?;
    Ok(lost)
}

/// From ticks to the time of day. The rate is asked for each time: one that is kept from
/// the first second would be off by ever more.
pub struct Clock {
    ticks: u64,
    unix_ns: u64,
}

impl Clock {
    /// Both as they are now.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Clock {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let unix_ns = unix.as_nanos() as u64;
        Clock { ticks: graph::clock::now(), unix_ns }
    }

    /// Nanoseconds since 1970 at `ticks`.
    pub fn unix_ns(&self, ticks: u64) -> u64 {
        self.unix_ns_at(ticks, graph::clock::rate())
    }

    fn unix_ns_at(&self, ticks: u64, rate: Rate) -> u64 {
        let ns = |ticks: u64| (rate.ps(ticks) / 1000) as u64;
        match ticks.checked_sub(self.ticks) {
            Some(since) => self.unix_ns.saturating_add(ns(since)),
            None => self.unix_ns.saturating_sub(ns(self.ticks - ticks)),
        }
    }
}

/// The tree as the nodes evaluate it.
///
/// # Errors
/// When it is nested deeper than a stack should be.
pub fn filter(wanted: Option<Filter>) -> Result<Option<conditions::Filter>, Failure> {
    if wanted.as_ref().is_some_and(|filter| filter.depth() > DEEPEST) {
        let text = format!("the filter is nested deeper than {DEEPEST}");
        return Err(Failure { kind: ErrorKind::Invalid, text });
    }
    Ok(wanted.map(convert))
}

fn convert(filter: Filter) -> conditions::Filter {
    let side = |side| match side {
        Side::Any => conditions::Side::Any,
        Side::Source => conditions::Side::Source,
        Side::Destination => conditions::Side::Destination,
    };
    let all = |filters: Vec<Filter>| filters.into_iter().map(convert).collect();
    match filter {
        Filter::Host { side: s, address } => conditions::Filter::Host(side(s), address),
        Filter::Net { side: s, address, length } => {
            conditions::Filter::Net(side(s), address, length)
        }
        Filter::Port { side: s, first, last } => conditions::Filter::Port(side(s), first, last),
        Filter::Proto(proto) => conditions::Filter::Proto(proto),
        Filter::Ether(kind) => conditions::Filter::Ether(kind),
        Filter::Vlan(vlan) => conditions::Filter::Vlan(vlan),
        Filter::And(filters) => conditions::Filter::And(all(filters)),
        Filter::Or(filters) => conditions::Filter::Or(all(filters)),
        Filter::Not(inner) => conditions::Filter::Not(Box::new(convert(*inner))),
    }
}

fn internal(error: graph::WorkerError) -> Failure {
    Failure { kind: ErrorKind::Internal, text: error.to_string() }
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}"); // writing to a String cannot fail
    }
    text
}

/// Deeper filters are refused.
const DEEPEST: usize = 64;
/// Steps that may wait in a worker's ring.
const STEPS: usize = 8192;
const CAPTURE_RING: usize = 8 << 20;
/// Packets in one part: a client takes so many of the longest, in hexadecimal.
const PART: usize = 512;
const PAUSE: Duration = Duration::from_millis(10);
const ALIVE: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_day_follows_the_rate_as_it_is_known_now() {
        let clock = Clock { ticks: 1_000, unix_ns: 5_000 };
        let second = Duration::from_secs(1);
        let [estimate, measured] = [2_000_000_000, 1_000_000_000]
            .map(|hz| Rate::measured(hz, second).expect("it is a rate"));
        assert_eq!(clock.unix_ns_at(3_000, estimate), 6_000);
        assert_eq!(clock.unix_ns_at(3_000, measured), 7_000);
        assert_eq!(clock.unix_ns_at(0, measured), 4_000);
        assert_eq!(clock.unix_ns_at(1_000, measured), 5_000);
    }
}
