//! The demo's second part: two switches joined by a trunk, and a table of
//! stations as large as memory allows.
//!
//! ```text
//!  host a 10.10.0.1 ── p0 switch s1 p1 ═══ trunk ═══ p1 switch s2 p0 ── host b 10.10.0.2
//! ```

use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use api::apps::switch::{self, Bridge, WhichMacs};
use api::{CallError, Client, Reply, Request, What};
use lookup::exact::mac_table::{MacWriter, Settings};
use lookup::exact::{Exact, Key, Writer};
use lookup::rng::SplitMix64;
use lookup::sync::Domain;

use super::Size;
use super::net::{Net, failed};
use crate::columns::{bytes, number};
use crate::commands::mac;
use crate::context::Context;
use crate::error::Error;
use crate::status::Status;

/// The whole part.
///
/// # Errors
/// When something of it cannot be had, or it is interrupted; what it made is
/// taken away in any case.
pub fn run(size: Size, stop: &Arc<AtomicBool>, cx: &mut Context) -> Result<Status, Error> {
    say(cx, "\nTwo switches with a trunk between them, a host at each.\n")?;
    let mut net = Net::new(stop)?;
    let start = Instant::now();
    network(&mut net)?;
    switches(&mut net)?;
    say(
        cx,
        &line(1, "switches", start, "`rutter run` twice, with [bridge.lan] and VLAN 10 on a trunk"),
    )?;
    let start = Instant::now();
    let said = reach(&net)?;
    say(cx, &(line(2, "reach", start, "host a to host b, both learnt at both switches") + &said))?;
    drop(net);
    say(cx, &stations(size.stations, stop)?)?;
    Ok(Status::Success)
}

fn say(cx: &mut Context, text: &str) -> Result<(), Error> {
    cx.out.write_all(text.as_bytes())?;
    Ok(cx.out.flush()?)
}

fn line(number: u32, name: &str, start: Instant, text: &str) -> String {
    format!("[{number}/3] {name:12} {:6.1} s  {text}\n", start.elapsed().as_secs_f64())
}

fn network(net: &mut Net) -> Result<(), Error> {
    for name in ["a", "b", "s1", "s2"] {
        net.check()?;
        net.namespace(name)?;
    }
    net.wire(("a", "eth0"), ("s1", "v0"))?;
    net.wire(("s1", "v1"), ("s2", "v1"))?;
    net.wire(("b", "eth0"), ("s2", "v0"))?;
    for (switch, end) in [("s1", "v1"), ("s2", "v1")] {
        // Room for the tag.
        net.on(switch, &["ip", "link", "set", end, "mtu", "1504"])?;
    }
    for (host, address) in [("a", "10.10.0.1/24"), ("b", "10.10.0.2/24")] {
        net.on(host, &["ip", "address", "add", address, "dev", "eth0"])?;
    }
    Ok(())
}

fn switches(net: &mut Net) -> Result<(), Error> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let me = std::env::current_exe()?.display().to_string();
    for (i, name) in ["s1", "s2"].into_iter().enumerate() {
        let config = format!(
            "workers = [{}]\n\
             [ports.p0]\ndevice = \"packet:v0\"\n\
             [ports.p1]\ndevice = \"packet:v1\"\n\
             [bridge.lan]\nports = [\"p0\", \"p1\"]\n\
             [bridge.lan.port.p0]\naccess = 10\n\
             [bridge.lan.port.p1]\ntrunk = [10, 20]\n",
            i % cores
        );
        let (file, socket) = (net.file(&format!("{name}.toml")), net.file(&format!("{name}.sock")));
        std::fs::write(&file, config)?;
        let (file, path) = (file.display().to_string(), socket.display().to_string());
        net.start(name, name, &[&me, "--socket", &path, "run", "--config", &file])?;
        net.wait(name, Duration::from_secs(60), || show(&socket, What::System).is_ok())?;
    }
    Ok(())
}

fn show(socket: &Path, what: impl Into<What>) -> Result<Reply, CallError> {
    Client::connect(socket)?.call(&Request::Show { what: what.into() })
}

/// A ping between the hosts, and the first switch's stations afterwards.
fn reach(net: &Net) -> Result<String, Error> {
    let pinged = net.on("a", &["ping", "-n", "-c", "20", "-i", "0.05", "-W", "2", "10.10.0.2"])?;
    let mut text = String::new();
    for last in pinged.lines().filter(|line| line.contains("loss") || line.contains("rtt")) {
        let _ = writeln!(text, "      {}", last.trim()); // cannot fail: a String
    }
    let socket = net.file("s1.sock");
    let what = switch::What::Macs { which: WhichMacs::default(), limit: None };
    let Reply::Switch(switch::Reply::Macs((macs, count))) = show(&socket, what)? else {
        return Err(failed("show macs", "no answer"));
    };
    for line in mac::macs(&macs, count).lines() {
        let _ = writeln!(text, "      {line}");
    }
    let Reply::Switch(switch::Reply::Bridges(all)) = show(&socket, switch::What::Bridges)? else {
        return Err(failed("show bridges", "no answer"));
    };
    let sum = |of: fn(&Bridge) -> u64| all.iter().map(of).sum::<u64>();
    let frames = sum(|bridge| bridge.domains.iter().map(|domain| domain.frames).sum());
    let flooded = sum(|bridge| bridge.domains.iter().map(|domain| domain.flooded).sum());
    let _ = writeln!(
        text,
        "      {} frames bridged, {} of them flooded",
        number(frames),
        number(flooded)
    );
    Ok(text)
}

/// Fills a switch's table with as many stations as memory allows, up to `most`,
/// and looks them up.
fn stations(mut most: usize, stop: &Arc<AtomicBool>) -> Result<String, Error> {
    let domain = Domain::new();
    let start = Instant::now();
    let mut writer = loop {
        // From the start as large as it gets: growing needs room for both tables.
        let settings = Settings { start_entries: most, ..Settings::new(most) };
        match MacWriter::new(settings, &domain) {
            Ok(writer) => break writer,
            Err(_) if most > LEAST => most /= 2,
            Err(error) => return Err(failed("a table of stations", error)),
        }
    };
    let mut refused = 0;
    for first in (0..most as u64).step_by(BATCH) {
        if stop.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        let last = (first + BATCH as u64).min(most as u64);
        let batch: Vec<_> = (first..last).map(|n| (station(n), (n % 4000) as u16)).collect();
        refused += writer.insert_batch(&batch);
    }
    let filled = start.elapsed();
    let (mut wrong, mut found) = (0_u64, 0_u64);
    let mut thread = domain.register("demo");
    let (table, begin) = (writer.shared().clone(), Instant::now());
    let (mut keys, mut values, mut rng) = ([station(0); 256], [0; 256], SplitMix64(1));
    while begin.elapsed() < Duration::from_secs(2) {
        for _ in 0..256 {
            let mut wanted = [0; 256];
            for (key, wanted) in keys.iter_mut().zip(&mut wanted) {
                let which = rng.below(most as u64);
                (*key, *wanted) = (station(which), (which % 4000) as u16);
            }
            table.lookup_batch(thread.guard(), &keys, &mut values);
            wrong +=
                values.iter().zip(&wanted).filter(|(value, wanted)| value != wanted).count() as u64;
            found += 256;
        }
        thread.quiesce();
    }
    if wrong > refused as u64 {
        return Err(failed("a table of stations", format_args!("{wrong} wrong answers")));
    }
    let (capacity, took) = (writer.capacity(), begin.elapsed());
    let said =
        format!("{} stations in {}", number(capacity.entries as u64), bytes(capacity.bytes as u64));
    Ok(line(3, "stations", start, &said)
        + &format!(
            "      filled at {} a second; {} random lookups a second on one core, each answer checked\n",
            number((capacity.entries as f64 / filled.as_secs_f64()) as u64),
            number((found as f64 / took.as_secs_f64()) as u64),
        ))
}

/// Station `n`: an address of its own in one of sixteen VLANs.
fn station(n: u64) -> Key {
    Key::new(0x0200_0000_0000 | n, (n & 15) as u16 + 1)
}

const LEAST: usize = 100_000;
const BATCH: usize = 1 << 16;
