//! `router/converge`: from the first netlink message read to the last route in the
//! data plane, while a worker reads the table on the other core.
//!
//! ```text
//!  dump    the routes are in a namespace's kernel already: the mirror lists them,
//!          as after a start of the router
//!  burst   a recorded stream of messages through a socketpair: the decoder and
//!          the tables without the kernel's own work
//! ```
//!
//! A routing daemon is no part of it: it is slower than both.

use std::fmt;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use feeds::netlink::Mirror;
use feeds::netlink::decode::decode;
use lookup::lpm::Engines;
use lookup::sync::Domain;
use lookup::{Addr, Hop, Prefix};
use netlink::message::Messages;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tables::control::MAIN_TABLE;
use tables::event::Source;
use tables::{Family, Forwarding};

use super::control::{P0, control, is_done, p0_is_up};
use super::half::Half;
use crate::clock;
use crate::record::Figure;
use crate::{Card, Context, Error, Experiment, Plot, Record, Row, Style, Takes, Verdict};

/// See the module.
pub struct Converge;

impl Experiment for Converge {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn families(&self, _: &Context) -> &'static [&'static str] {
        &["ipv4", "ipv6"]
    }

    fn judge(&self, rows: &[Row]) -> Vec<Verdict> {
        rows.iter().filter_map(verdict).collect()
    }

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        let halves = Half::all(context, &["internet:1000000"], &["internet6:200000"]);
        let both = |half: Half| ["burst", "dump"].map(|how| Cell { how, half: half.clone() });
        let cells = halves.into_iter().flat_map(both);
        let rows = context.cells(cells, |context, Cell { how, half }| {
            let table = half.table(context)?;
            match half.family {
                "ipv4" => measure(context, how, &table.ipv4, Family::V4),
                _ => measure(context, how, &table.ipv6, Family::V6),
            }
        })?;
        let verdicts = self.judge(&rows);
        Ok(context.record(rows, verdicts, vec!["elapsed time, not processor time".into()]))
    }
}

/// How routes come, and which.
struct Cell {
    how: &'static str,
    half: Half,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.how, self.half)
    }
}

const CARD: Card = Card {
    name: "router/converge",
    takes: Takes { full_s: 40.0, quick_s: 27.0 },
    help: "time from the first netlink message to the last route in the data plane",
    source: "issue on the router, point 4",
    claim: "routes reach the data plane at 200,000 a second or more while forwarding goes on",
    plots: &[Plot {
        title: "Routes into the data plane",
        figure: "routes_per_s",
        unit: "routes/s",
        x: "how",
        series: "family",
        panels: &[],
        style: Style::Bars,
    }],
};

fn measure<A: Engines>(
    context: &Context,
    how: &str,
    routes: &[(Prefix<A>, Hop)],
    family: Family,
) -> Result<Vec<Row>, Error> {
    if routes.is_empty() {
        return Ok(Vec::new());
    }
    let row = Row::new([
        ("how", how.to_string()),
        ("family", A::FAMILY.to_string()),
        ("prefixes", routes.len().to_string()),
    ]);
    let mut times = Vec::new();
    let namespace = if how == "dump" { Some(Namespace::new(routes)) } else { None };
    let namespace = match namespace.transpose() {
        Ok(namespace) => namespace,
        Err(reason) => return Ok(vec![row.noting(reason)]),
    };
    for _ in 0..context.pick(5, 1) {
        let time = match &namespace {
            Some(namespace) => thread::scope(|scope| {
                let dump = scope.spawn(|| dump(namespace, routes.len(), family));
                dump.join().unwrap_or_else(|_| Err("the control thread panicked".into()))
            }),
            None => burst(routes, family),
        };
        match time {
            Ok(time) => times.push(time.as_secs_f64()),
            Err(reason) => return Ok(vec![row.noting(reason)]),
        }
    }
    let rates: Vec<f64> = times.iter().map(|time| routes.len() as f64 / time).collect();
    let row = row.with("time_s", Figure::least_is_best(&times));
    Ok(vec![row.with("routes_per_s", Figure::most_is_best(&rates))])
}

fn verdict(row: &Row) -> Option<Verdict> {
    let claim = format!(
        "{} {}, {} routes: ≥ 200,000 routes/s",
        row.label("how"),
        row.label("family"),
        row.label("prefixes")
    );
    Some(match row.median("routes_per_s") {
        Some(rate) => Verdict::at_least(claim, rate, 200_000.0, "routes/s"),
        None => Verdict::open(claim, row.note.clone()?),
    })
}

/// Runs `work` while another core looks addresses up as a worker does.
fn beside_a_reader<R>(
    forwarding: &Arc<Forwarding>,
    domain: &Arc<Domain>,
    work: impl FnOnce() -> R,
) -> R {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            clock::cores().last().map(|&core| clock::pin(core));
            let mut thread = domain.register("lab reader");
            let (dsts, mut hops) = ([0x0a01_0203_u32; 64], [Hop::NONE; 64]);
            while !stop.load(Ordering::Relaxed) {
                for vrf in forwarding.vrfs.load(thread.guard()) {
                    vrf.v4.lookup_batch(&dsts, &mut hops);
                }
                std::hint::black_box(&mut hops);
                thread.quiesce();
            }
        });
        let result = work();
        stop.store(true, Ordering::Relaxed);
        result
    })
}

/// The mirror in a namespace whose kernel has the routes.
fn dump(namespace: &Namespace, routes: usize, family: Family) -> Result<Duration, String> {
    let said = |error: std::io::Error| error.to_string();
    let file = File::open(format!("/run/netns/{}", namespace.0)).map_err(said)?;
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
        .map_err(|error| format!("the namespace cannot be entered: {error}"))?;
    let (mut control, domain) = control()?;
    let forwarding = control.forwarding().clone();
    let mut mirror = Mirror::open(BUFFER).map_err(said)?;
    clock::pin(clock::cores()[0]);
    beside_a_reader(&forwarding, &domain, || {
        let start = Instant::now();
        while !is_done(&mut control, routes, family) {
            let poll = mirror.poll(control.pause(), &mut |events| control.handle(events));
            poll.map_err(said)?;
            if start.elapsed() > PATIENCE {
                return Err(format!("not all routes are there after {PATIENCE:?}"));
            }
        }
        Ok(start.elapsed())
    })
}

/// Messages as the kernel would send them, through a socketpair.
fn burst<A: Addr>(routes: &[(Prefix<A>, Hop)], family: Family) -> Result<Duration, String> {
    let said = |error: std::io::Error| error.to_string();
    let (from, to) = UnixDatagram::pair().map_err(said)?;
    let datagrams: Vec<Vec<u8>> = routes.chunks(MESSAGES).map(messages).collect();
    let (mut control, domain) = control()?;
    control.handle(&[p0_is_up()]);
    let forwarding = control.forwarding().clone();
    clock::pin(clock::cores()[0]);
    thread::scope(|scope| {
        scope.spawn(|| {
            // The receiver may give up: nothing is left to be sent then.
            let _ = datagrams.iter().try_for_each(|datagram| from.send(datagram).map(|_| ()));
            drop(from);
        });
        beside_a_reader(&forwarding, &domain, || {
            let (start, mut left) = (Instant::now(), routes.len());
            let (mut buffer, mut events) = (vec![0; 1 << 16], Vec::new());
            while left > 0 {
                let n = to.recv(&mut buffer).map_err(said)?;
                let decoded = Messages::new(&buffer[..n]).map(|m| decode(&m, Source::Kernel));
                events.extend(decoded.flatten());
                left = left.saturating_sub(events.len());
                control.handle(&events);
                events.clear();
            }
            while !is_done(&mut control, routes.len(), family) {
                if start.elapsed() > PATIENCE {
                    return Err(format!("not all routes are there after {PATIENCE:?}"));
                }
                thread::sleep(control.pause());
            }
            Ok(start.elapsed())
        })
    })
}

/// `RTM_NEWROUTE` for each of `routes`, by one of 20 gateways on `p0`.
fn messages<A: Addr>(routes: &[(Prefix<A>, Hop)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let octets = |addr: A| addr.to_u128().to_be_bytes()[16 - usize::from(A::WIDTH / 8)..].to_vec();
    for (prefix, hop) in routes {
        let start = bytes.len();
        bytes.resize(start + HEADER, 0);
        let family = if A::WIDTH == 32 { 2 } else { 10 };
        // Family, lengths, TOS, table, protocol BIRD, scope universe, type unicast, flags.
        bytes.extend([family, prefix.len(), 0, 0, 254, 12, 0, 1, 0, 0, 0, 0]);
        let mut attribute = |kind: u16, value: &[u8]| {
            bytes.extend((4 + value.len() as u16).to_ne_bytes());
            bytes.extend(kind.to_ne_bytes());
            bytes.extend(value);
        };
        attribute(15, &MAIN_TABLE.to_ne_bytes());
        attribute(1, &octets(prefix.first()));
        attribute(6, &32_u32.to_ne_bytes());
        attribute(5, &octets(gateway::<A>(hop.0 % GATEWAYS)));
        attribute(4, &P0.0.to_ne_bytes());
        let length = (bytes.len() - start) as u32;
        bytes[start..start + 4].copy_from_slice(&length.to_ne_bytes());
        bytes[start + 4..start + 6].copy_from_slice(&24_u16.to_ne_bytes());
    }
    bytes
}

fn gateway<A: Addr>(i: u32) -> A {
    let net = if A::WIDTH == 32 { 0x0aff_0000 } else { 0x2001_0db8_00ff << 80 };
    A::from_u128(net + 1 + u128::from(i))
}

/// A network namespace with one interface, `p0`, and routes; gone when dropped.
struct Namespace(String);

impl Namespace {
    fn new<A: Addr>(routes: &[(Prefix<A>, Hop)]) -> Result<Namespace, String> {
        let name = format!("rutter-lab-{}", std::process::id());
        ip(&["netns", "add", &name]).map_err(|error| format!("no network namespace: {error}"))?;
        let namespace = Namespace(name);
        let name = namespace.0.as_str();
        // Without any local address the kernel takes every gateway for invalid.
        ip(&["-n", name, "link", "set", "lo", "up"])?;
        ip(&["-n", name, "link", "add", "p0", "type", "veth", "peer", "name", "p0-peer"])?;
        ip(&["-n", name, "link", "set", "p0-peer", "up"])?;
        ip(&["-n", name, "link", "set", "p0", "up"])?;
        let family = if A::WIDTH == 32 { "-4" } else { "-6" };
        let mut batch = Command::new("ip");
        batch.args(["-n", name, family, "-batch", "-"]).stdin(Stdio::piped());
        let mut batch = batch.stderr(Stdio::piped()).spawn().map_err(|error| error.to_string())?;
        if let Some(input) = batch.stdin.take() {
            let mut input = BufWriter::new(input);
            for (prefix, hop) in routes {
                let via = gateway::<A>(hop.0 % GATEWAYS).to_ip();
                // A failure shows as an exit status below.
                let _ = writeln!(input, "route add {prefix} via {via} dev p0 onlink proto bird");
            }
        }
        // It ends at the first refusal, so its words fit the pipe.
        let ended = batch.wait_with_output().map_err(|error| error.to_string())?;
        if ended.status.success() {
            return Ok(namespace);
        }
        let words = String::from_utf8_lossy(&ended.stderr);
        Err(format!("`ip -batch` refuses the routes: {}", words.trim()))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // If it cannot be deleted, nothing more can be done about it here.
        let _ = ip(&["netns", "del", &self.0]);
    }
}

fn ip(args: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(args).output();
    let output = output.map_err(|error| format!("ip: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("ip {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim()))
}

const HEADER: usize = 16;
const GATEWAYS: u32 = 20;
/// Of one datagram, as the kernel packs them.
const MESSAGES: usize = 200;
const BUFFER: usize = 64 << 20;
const PATIENCE: Duration = Duration::from_secs(120);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Table;

    #[test]
    fn a_burst_reaches_the_data_plane() {
        let table = Table::load("internet:3000+500").unwrap();
        assert!(burst(&table.ipv4, Family::V4).unwrap() < PATIENCE);
        assert!(burst(&table.ipv6, Family::V6).unwrap() < PATIENCE);
    }

    #[test]
    fn the_routes_of_a_namespace_reach_the_data_plane() {
        let table = Table::load("internet:3000").unwrap();
        let namespace = match Namespace::new(&table.ipv4) {
            Ok(namespace) => namespace,
            Err(reason) => return testing::skip(reason),
        };
        let dump = thread::spawn(move || dump(&namespace, 3000, Family::V4));
        assert!(dump.join().unwrap().unwrap() < PATIENCE);
    }
}
