//! The demo, step by step.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write, stderr};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use api::apps::router;
use api::apps::router::shown::Fib;
use api::reply::{Port, Runtime};
use api::{CallError, Client, Reply, Request, What};
use formats::{Load, Table};

use super::net::{Net, failed};
use super::{Size, bird};
use crate::columns::{bytes, number};
use crate::context::Context;
use crate::error::Error;
use crate::status::Status;
use crate::view;

/// The whole demo.
///
/// # Errors
/// When something of it cannot be had, or it is interrupted; what it made is
/// taken away in any case.
pub fn run(size: Size, stop: &Arc<AtomicBool>, cx: &mut Context) -> Result<Status, Error> {
    say(cx, "Rutter's demo: two hosts, a router, and an upstream that announces a full table.\n")?;
    let start = Instant::now();
    let table = table(size)?;
    say(
        cx,
        &step(
            1,
            "table",
            start,
            &format!("{} prefixes of the Internet's shape", number(table.len() as u64)),
        ),
    )?;
    let mut net = Net::new(stop)?;
    let start = Instant::now();
    network(&mut net)?;
    say(cx, &step(2, "network", start, "namespaces for hosts a and b, the upstream, the router"))?;
    let start = Instant::now();
    router(&mut net)?;
    say(cx, &step(3, "router", start, "`rutter run` with three ports and a worker"))?;
    let start = Instant::now();
    upstream(&mut net, &table)?;
    say(cx, &step(4, "upstream", start, "BIRD has read the table"))?;
    let converged = converge(&mut net, &table)?;
    let rate = table.len() as f64 / converged.as_secs_f64();
    let said = format!(
        "BGP, kernel and data plane have {} routes: {rate:.0} a second",
        number(table.len() as u64)
    );
    say(cx, &line(5, "convergence", converged, &said))?;
    let inside = inside(&table);
    say(cx, &reach(&mut net, inside)?)?;
    say(cx, &traffic(&mut net, &table, size)?)?;
    say(cx, &summary(&net)?)?;
    say(cx, "cleaning up\n")?;
    drop(net);
    Ok(Status::Success)
}

fn say(cx: &mut Context, text: &str) -> Result<(), Error> {
    cx.out.write_all(text.as_bytes())?;
    Ok(cx.out.flush()?)
}

fn step(number: u32, name: &str, start: Instant, text: &str) -> String {
    line(number, name, start.elapsed(), text)
}

fn line(number: u32, name: &str, took: Duration, text: &str) -> String {
    format!("[{number}/8] {name:12} {:6.1} s  {text}\n", took.as_secs_f64())
}

fn table(size: Size) -> Result<Table, Error> {
    let spec = format!("internet:{}+{}", size.v4, size.v6);
    Table::open(&spec, &Load::default()).map_err(|error| Error::Table { spec, error })
}

fn network(net: &mut Net) -> Result<(), Error> {
    for name in ["a", "b", "up", "r"] {
        net.check()?;
        net.namespace(name)?;
    }
    for (host, port, net_number) in [("a", "v0", 1), ("b", "v1", 2), ("up", "v2", 3)] {
        net.wire((host, "eth0"), ("r", port))?;
        let (v4, v6) = (format!("10.0.{net_number}"), format!("fd00:{net_number}:"));
        net.on(host, &["ip", "address", "add", &format!("{v4}.2/24"), "dev", "eth0"])?;
        net.on(host, &["ip", "address", "add", &format!("{v6}:2/64"), "dev", "eth0", "nodad"])?;
        net.on(host, &["ip", "route", "add", "default", "via", &format!("{v4}.1")])?;
        net.on(host, &["ip", "-6", "route", "add", "default", "via", &format!("{v6}:1")])?;
    }
    Ok(())
}

fn router(net: &mut Net) -> Result<(), Error> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut config = format!("workers = [{}]\n", usize::from(cores > 1));
    for port in 0..3 {
        // Writing to a String cannot fail.
        let _ = write!(
            config,
            "[ports.p{port}]\ndevice = \"packet:v{port}\"\n\
             addresses = [\"10.0.{0}.1/24\", \"fd00:{0}::1/64\"]\n",
            port + 1
        );
    }
    let file = net.file("rutter.toml");
    std::fs::write(&file, config)?;
    let me = std::env::current_exe()?;
    let (me, file) = (me.display().to_string(), file.display().to_string());
    let socket = net.file("api.sock").display().to_string();
    net.start("r", "rutter", &[&me, "--socket", &socket, "run", "--config", &file])?;
    let path = net.file("api.sock");
    net.wait("rutter", Duration::from_secs(60), || ask(&path, What::System).is_ok())?;
    Ok(())
}

fn ask(socket: &std::path::Path, what: impl Into<What>) -> Result<Reply, CallError> {
    Client::connect(socket)?.call(&Request::Show { what: what.into() })
}

fn upstream(net: &mut Net, table: &Table) -> Result<(), Error> {
    let config = net.file("upstream.conf");
    bird::upstream(&config, table)?;
    start_bird(net, "up", "upstream", &config)?;
    let control = net.file("upstream.ctl").display().to_string();
    let name = net.name("up");
    let ready = move || {
        let words = ["netns", "exec", &name, "birdc", "-s", &control, "show", "status"];
        let said = std::process::Command::new("ip").args(words).output();
        said.is_ok_and(|said| String::from_utf8_lossy(&said.stdout).contains("Daemon is up"))
    };
    net.wait("the upstream's BIRD", Duration::from_secs(120), ready)?;
    Ok(())
}

fn start_bird(
    net: &mut Net,
    namespace: &str,
    name: &str,
    config: &std::path::Path,
) -> Result<(), Error> {
    let config = config.display().to_string();
    let control = net.file(&format!("{name}.ctl")).display().to_string();
    let pid = net.file(&format!("{name}.pid")).display().to_string();
    net.start(namespace, name, &["bird", "-f", "-c", &config, "-s", &control, "-P", &pid])
}

/// Starts the router's BIRD, and waits until every route is in the data plane.
fn converge(net: &mut Net, table: &Table) -> Result<Duration, Error> {
    let config = net.file("router.conf");
    std::fs::write(&config, bird::ROUTER)?;
    start_bird(net, "r", "router", &config)?;
    let (socket, want, start) = (net.file("api.sock"), table.len() as u64, Instant::now());
    let mut progress = Progress::new();
    net.wait("the full table", Duration::from_secs(600), || {
        let fib = ask(&socket, router::What::Fib);
        let Ok(Reply::Router(router::Reply::Fib(all))) = fib else { return false };
        let have: u64 = all.iter().map(|fib| fib.routes).sum();
        progress.show(have.min(want), want, start.elapsed());
        have >= want && all.iter().all(|fib| !fib.behind)
    })
    .inspect(|_| Progress::end())
}

/// How far a long step is, on standard error.
struct Progress {
    last: Option<Instant>,
}

impl Progress {
    fn new() -> Progress {
        Progress { last: None }
    }

    fn show(&mut self, have: u64, want: u64, took: Duration) {
        let terminal = stderr().is_terminal();
        let pause = Duration::from_millis(if terminal { 200 } else { 5000 });
        if self.last.is_some_and(|last| last.elapsed() < pause) {
            return;
        }
        self.last = Some(Instant::now());
        let (start, end) = if terminal { ("\r\x1b[K", "") } else { ("", "\n") };
        let (percent, seconds) = (100 * have / want.max(1), took.as_secs());
        // Where standard error is closed nobody reads it.
        let _ = write!(
            stderr(),
            "{start}      {} of {} routes in the data plane ({percent} %, {seconds} s){end}",
            number(have),
            number(want)
        );
    }

    fn end() {
        if stderr().is_terminal() {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

/// An IPv4 and an IPv6 address that only the full table leads to.
fn inside(table: &Table) -> (String, String) {
    let v4 = table.v4.iter().map(|(prefix, _)| prefix).find(|prefix| prefix.len() == 24);
    let v6 = table.v6.iter().map(|(prefix, _)| prefix).find(|prefix| prefix.len() == 48);
    let v4 = v4.map_or(0, |prefix| prefix.first() + 1);
    let v6 = v6.map_or(0, |prefix| prefix.first() + 1);
    (std::net::Ipv4Addr::from(v4).to_string(), std::net::Ipv6Addr::from(v6).to_string())
}

/// Pings and traceroutes through the router.
fn reach(net: &mut Net, (v4, v6): (String, String)) -> Result<String, Error> {
    let start = Instant::now();
    net.on("up", &["ip", "address", "add", &format!("{v4}/32"), "dev", "lo"])?;
    net.on("up", &["ip", "address", "add", &format!("{v6}/128"), "dev", "lo", "nodad"])?;
    let mut text = String::new();
    for (family, targets) in [("-4", ["10.0.2.2", &v4]), ("-6", ["fd00:2::2", &v6])] {
        for target in targets {
            net.check()?;
            let pinged =
                net.on("a", &["ping", "-n", family, "-c", "5", "-i", "0.2", "-W", "2", target])?;
            let last = pinged.lines().filter(|line| line.contains("loss") || line.contains("rtt"));
            let last: Vec<&str> = last.map(str::trim).collect();
            let _ = writeln!(text, "      ping {target}: {}", last.join(", "));
        }
    }
    for target in [&v4, &v6] {
        let way = net.on("a", &["traceroute", "-n", "-q", "1", "-w", "2", target]);
        for line in way.unwrap_or_default().lines() {
            let _ = writeln!(text, "      {line}");
        }
    }
    Ok(line(6, "reach", start.elapsed(), "from host a to host b, and to the Internet's addresses")
        + &text)
}

/// Sends packets to addresses of the whole table, and reports the router's counters.
fn traffic(net: &mut Net, table: &Table, size: Size) -> Result<String, Error> {
    let targets = net.file("targets");
    let addresses = addresses(table);
    std::fs::write(&targets, &addresses)?;
    // These packets are dropped at their destination, without an answer.
    net.on("up", &["ip", "route", "replace", "blackhole", "default"])?;
    net.on("up", &["ip", "-6", "route", "replace", "blackhole", "default"])?;
    let socket = net.file("api.sock");
    let before = (runtime(&socket)?, ports(&socket)?);
    let me = std::env::current_exe()?.display().to_string();
    let (file, seconds) = (targets.display().to_string(), size.seconds.to_string());
    let start = Instant::now();
    let sent = net.on("a", &[&me, "demo", "--send", &file, "--seconds", &seconds])?;
    let took = start.elapsed();
    net.check()?;
    std::thread::sleep(Duration::from_millis(200));
    let after = (runtime(&socket)?, ports(&socket)?);
    let forwarded = sum(&after.1, |port| port.tx_packets) - sum(&before.1, |port| port.tx_packets);
    let packets = workers(&after.0, |w| w.packets) - workers(&before.0, |w| w.packets);
    let cycles = workers(&after.0, |w| w.busy_cycles) - workers(&before.0, |w| w.busy_cycles);
    let all = workers(&after.0, |w| w.cycles) - workers(&before.0, |w| w.cycles);
    let rate = forwarded as f64 / took.as_secs_f64();
    let said = format!(
        "host a sent {} packets to {} destinations",
        number(sent.trim().parse().unwrap_or(0)),
        number(addresses.lines().count() as u64),
    );
    let mut text = line(7, "traffic", took, &said);
    let _ = writeln!(
        text,
        "      forwarded {} packets, {} a second; {:.0} cycles a packet (of the time-stamp counter, \
         {:.2} GHz,\n      the kernel's system calls included); worker busy {:.0} %",
        number(forwarded),
        number(rate as u64),
        cycles as f64 / packets.max(1) as f64,
        after.0.tsc_hz as f64 / 1e9,
        100.0 * cycles as f64 / all.max(1) as f64,
    );
    Ok(text)
}

/// Addresses all over the table.
fn addresses(table: &Table) -> String {
    let mut text = String::new();
    let step = (table.v4.len() / (TARGETS * 3 / 4)).max(1);
    for (prefix, _) in table.v4.iter().step_by(step) {
        let address = std::net::Ipv4Addr::from(prefix.first() | u32::from(prefix.len() < 32));
        let _ = writeln!(text, "{address}");
    }
    let step = (table.v6.len() / (TARGETS / 4)).max(1);
    for (prefix, _) in table.v6.iter().step_by(step) {
        let address = std::net::Ipv6Addr::from(prefix.first() | u128::from(prefix.len() < 128));
        let _ = writeln!(text, "{address}");
    }
    text
}

fn sum(ports: &[Port], of: fn(&Port) -> u64) -> u64 {
    ports.iter().map(of).sum()
}

fn workers(runtime: &Runtime, of: fn(&api::reply::Worker) -> u64) -> u64 {
    runtime.workers.iter().map(of).sum()
}

fn runtime(socket: &std::path::Path) -> Result<Runtime, Error> {
    match ask(socket, What::Runtime)? {
        Reply::Runtime(runtime) => Ok(runtime),
        _ => Err(CallError::Unexpected.into()),
    }
}

fn ports(socket: &std::path::Path) -> Result<Vec<Port>, Error> {
    match ask(socket, What::Ports)? {
        Reply::Ports(ports) => Ok(ports),
        _ => Err(CallError::Unexpected.into()),
    }
}

/// Memory, the drawn graph, drops.
fn summary(net: &Net) -> Result<String, Error> {
    let socket = net.file("api.sock");
    let mut text = line(8, "summary", Duration::ZERO, "what the router says of itself");
    let Reply::Router(router::Reply::Fib(fibs)) = ask(&socket, router::What::Fib)? else {
        return Err(CallError::Unexpected.into());
    };
    for fib in &fibs {
        let _ = writeln!(text, "      {}", memory(fib));
    }
    let Reply::Graph { drawing, .. } = ask(&socket, What::Graph { all: false })? else {
        return Err(failed("show graph", "no answer"));
    };
    let _ = writeln!(text, "\n{drawing}");
    let Reply::Drops(mut drops) = ask(&socket, What::Drops)? else {
        return Err(CallError::Unexpected.into());
    };
    drops.extend(ports(&socket)?.iter().flat_map(view::lost_by));
    drops.retain(|drop| drop.packets > 0);
    let _ = writeln!(text, "{}", view::drops(&drops));
    Ok(text)
}

fn memory(fib: &Fib) -> String {
    let each = |bytes: u64| bytes as f64 / fib.prefixes.max(1) as f64;
    format!(
        "{} {}: {} prefixes, {} a lookup can read ({:.1} bytes a prefix), {} for updates \
         ({:.1} bytes a prefix)",
        fib.family,
        fib.engine,
        number(fib.prefixes),
        bytes(fib.table_bytes),
        each(fib.table_bytes),
        bytes(fib.rib_bytes + fib.writer_bytes),
        each(fib.rib_bytes + fib.writer_bytes),
    )
}

/// Destinations of the traffic.
const TARGETS: usize = 100_000;
