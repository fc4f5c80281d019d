//! The demo's third part: a shield holds a flood off while clients load a page.
//!
//! ```text
//!  clients 10.20.1.2 … ── p0 ┐               ┌ p2 ── 10.20.3.2: a Grantor, and behind it
//!                            │ front    back │        the server 203.0.113.5
//!  a flood 10.20.2.2 ──── p1 ┘               └
//! ```

mod defend;
mod flood;
mod page;

use std::fmt::Write as _;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use api::apps::gatekeeper::{self, Shield};
use api::apps::{Reply as AppReply, Request as AppRequest};
use api::{CallError, Client, Reply, Request, What};
use rustix::net::{AddressFamily, Protocol, SendFlags, SocketType, sendto, socket};

use super::Size;
use super::net::{Net, failed};
use crate::columns::number;
use crate::context::Context;
use crate::error::Error;
use crate::status::Status;
use page::Loads;

/// Who takes part: the demo starts itself as each, in a namespace.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum Actor {
    /// Loads a page.
    Load,
    /// Sends what nobody has asked for.
    Flood,
    /// Server and Grantor.
    Defend,
}

/// Is `actor` for some seconds; the address is a client's.
///
/// # Errors
/// When it cannot.
pub fn act(actor: Actor, from: Ipv4Addr, seconds: u64) -> Result<Status, Error> {
    match actor {
        Actor::Load => page::load(from, seconds),
        Actor::Flood => flood::flood(seconds),
        Actor::Defend => defend::defend(),
    }
}

/// The whole part.
///
/// # Errors
/// When something of it cannot be had, or it is interrupted; what it made is taken away in any
/// case.
pub fn run(_: Size, stop: &Arc<AtomicBool>, cx: &mut Context) -> Result<Status, Error> {
    say(cx, "\nA shield: a flood comes while clients load a page; a Grantor knows clients.\n")?;
    let mut net = Net::new(stop)?;
    let start = Instant::now();
    network(&mut net)?;
    shield(&mut net)?;
    say(
        cx,
        &line(1, "shield", start, "`rutter run` with [gatekeeper]; 203.0.113.0/24 is protected"),
    )?;
    let start = Instant::now();
    let before = client(&net, OLD)?.wait()?;
    say(cx, &line(2, "before", start, &format!("{} Kbyte page: {}", PAGE / 1000, told(&before))))?;
    say(cx, &under_flood(&mut net)?)?;
    let start = Instant::now();
    let after = client(&net, NEXT)?.wait()?;
    say(cx, &line(4, "after", start, &format!("another new client: {}", told(&after))))?;
    drop(net);
    Ok(Status::Success)
}

fn say(cx: &mut Context, text: &str) -> Result<(), Error> {
    cx.out.write_all(text.as_bytes())?;
    Ok(cx.out.flush()?)
}

fn line(number: u32, name: &str, start: Instant, text: &str) -> String {
    format!("[{number}/4] {name:12} {:6.1} s  {text}\n", start.elapsed().as_secs_f64())
}

fn network(net: &mut Net) -> Result<(), Error> {
    for name in ["c", "f", "g", "r"] {
        net.check()?;
        net.namespace(name)?;
    }
    for (host, port, number) in [("c", "v0", 1), ("f", "v1", 2), ("g", "v2", 3)] {
        net.wire((host, "eth0"), ("r", port))?;
        net.on(host, &["ip", "address", "add", &format!("10.20.{number}.2/24"), "dev", "eth0"])?;
        net.on(host, &["ip", "route", "add", "default", "via", &format!("10.20.{number}.1")])?;
    }
    for address in [NEW, NEXT] {
        net.on("c", &["ip", "address", "add", &format!("{address}/24"), "dev", "eth0"])?;
    }
    for (end, name) in [("g", "eth0"), ("r", "v2")] {
        // Room for the outer header.
        net.on(end, &["ip", "link", "set", name, "mtu", "1600"])?;
    }
    net.on("g", &["ip", "address", "add", &format!("{SERVER}/32"), "dev", "lo"])?;
    // What was inside comes by the loopback, from whoever sent it.
    let script = "for f in all default lo; do echo 0 >/proc/sys/net/ipv4/conf/$f/rp_filter; done";
    net.on("g", &["sh", "-c", script]).map(|_| ())
}

fn shield(net: &mut Net) -> Result<(), Error> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut config = format!("workers = [{}]\n", usize::from(cores > 1));
    for port in 0..3 {
        let mtu = if port == 2 { "mtu = 1600\n" } else { "" };
        // Writing to a String cannot fail.
        let _ = write!(
            config,
            "[ports.p{port}]\ndevice = \"packet:v{port}\"\n{mtu}addresses = [\"10.20.{}.1/24\"]\n",
            port + 1
        );
    }
    let _ = write!(
        config,
        "[gatekeeper]\nfront = [\"p0\", \"p1\"]\nback = [\"p2\"]\nbandwidth_mbps = 100\n\
         [[gatekeeper.protect]]\nprefix = \"203.0.113.0/24\"\ngrantors = [\"{GRANTOR}\"]\n"
    );
    let (file, socket) = (net.file("shield.toml"), net.file("shield.sock"));
    std::fs::write(&file, config)?;
    let me = std::env::current_exe()?.display().to_string();
    let (file, path) = (file.display().to_string(), socket.display().to_string());
    net.start("g", "defended", &[&me, "demo", "--actor", "defend"])?;
    net.start("r", "shield", &[&me, "--socket", &path, "run", "--config", &file])?;
    net.wait("the shield", Duration::from_secs(60), || {
        let found = ask(&socket).is_ok_and(|shield| {
            !shield.grantors.is_empty() && shield.grantors.iter().all(|of| of.fault.is_empty())
        });
        found && system(&socket).is_ok()
    })?;
    Ok(())
}

fn system(socket: &Path) -> Result<Reply, CallError> {
    Client::connect(socket)?.call(&Request::Show { what: What::System })
}

fn ask(socket: &Path) -> Result<Shield, CallError> {
    let request = Request::App(AppRequest::Gatekeeper(gatekeeper::Request::Show));
    match Client::connect(socket)?.call(&request)? {
        Reply::App(AppReply::Gatekeeper(gatekeeper::Reply::Show(shield))) => Ok(*shield),
        _ => Err(CallError::Unexpected),
    }
}

/// A process of the demo's that prints what it has seen.
struct Playing(std::process::Child);

impl Playing {
    fn wait(self) -> Result<Loads, Error> {
        let said = self.said()?;
        Loads::parse(&said).ok_or_else(|| failed("a client", said))
    }

    fn said(self) -> Result<String, Error> {
        let done = self.0.wait_with_output()?;
        Ok(String::from_utf8_lossy(&done.stdout).trim().to_string())
    }
}

fn play(net: &Net, place: &str, words: &[&str]) -> Result<Playing, Error> {
    net.check()?;
    let child = Command::new("ip")
        .args(["netns", "exec", &net.name(place)])
        .arg(std::env::current_exe()?)
        .args(["demo", "--actor"])
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn();
    child.map(Playing).map_err(|error| failed("ip", error))
}

fn client(net: &Net, from: Ipv4Addr) -> Result<Playing, Error> {
    let seconds = SECONDS.to_string();
    play(net, "c", &["load", "--from", &from.to_string(), "--seconds", &seconds])
}

/// Two clients while the flood comes: one that was granted before, one that must ask.
fn under_flood(net: &mut Net) -> Result<String, Error> {
    let start = Instant::now();
    let socket = net.file("shield.sock");
    let shield = || ask(&socket).map_err(|error| failed("the shield", error));
    let (was, reached) = (shield()?, unasked(net)?);
    let seconds = (SECONDS + 2).to_string();
    let flood = play(net, "f", &["flood", "--seconds", &seconds])?;
    std::thread::sleep(Duration::from_secs(1));
    let (old, new) = (client(net, OLD)?, client(net, NEW)?);
    let (old, new) = (old.wait()?, new.wait()?);
    let sent: u64 = flood.said()?.parse().unwrap_or_default();
    let (is, reached) = (shield()?, unasked(net)? - reached);
    let asked = is.verdicts.requests - was.verdicts.requests;
    let decided =
        |of: &Shield| of.decisions.iter().find(|of| of.what == "declined").map_or(0, |of| of.count);
    let declined = decided(&is) - decided(&was);
    let rate = sent / (SECONDS + 2);
    let said = format!("{} packets from as many sources, {} a second", number(sent), number(rate));
    let mut text = line(3, "flood", start, &said);
    // Writing to a String cannot fail.
    let _ = writeln!(text, "      the client of before: {}", told(&old));
    let _ = writeln!(text, "      a new client: {}", told(&new));
    let _ = writeln!(
        text,
        "      {} packets asked; {} sources were declined, {} of their packets reached the server",
        number(asked),
        number(declined),
        number(reached)
    );
    Ok(text)
}

/// Datagrams that came for a port of the server that nobody listens at.
fn unasked(net: &Net) -> Result<u64, Error> {
    let text = net.on("g", &["cat", "/proc/net/snmp"])?;
    let mut udp = text.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let (names, values) = (udp.next().unwrap_or_default(), udp.next().unwrap_or_default());
    let mut both = names.split(' ').zip(values.split(' '));
    let found = both.find(|(name, _)| *name == "NoPorts").and_then(|(_, count)| count.parse().ok());
    found.ok_or_else(|| failed("/proc/net/snmp", "no counter of datagrams"))
}

fn told(loads: &Loads) -> String {
    let ms = |micros: u64| format!("{:.1} ms", micros as f64 / 1000.0);
    let Loads { pages, failed, first, median, worst } = *loads;
    let failed = if failed == 0 { String::new() } else { format!(", {failed} failed") };
    format!(
        "{pages} times in {SECONDS} s{failed}, the first after {}, then {} each (at most {})",
        ms(first),
        ms(median),
        ms(worst)
    )
}

/// A socket for IPv4 packets of `protocol`.
fn raw(protocol: Protocol) -> std::io::Result<OwnedFd> {
    Ok(socket(AddressFamily::INET, SocketType::RAW, Some(protocol))?)
}

/// Sends a packet that has its header with it, by a socket for `IPPROTO_RAW` (raw(7)).
fn send(raw: &OwnedFd, packet: &[u8], to: Ipv4Addr) -> std::io::Result<usize> {
    Ok(sendto(raw, packet, SendFlags::empty(), &SocketAddrV4::new(to, 0))?)
}

const SERVER: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 5);
const GRANTOR: Ipv4Addr = Ipv4Addr::new(10, 20, 3, 2);
/// Clients: before the flood, during it, after it.
const OLD: Ipv4Addr = Ipv4Addr::new(10, 20, 1, 2);
const NEW: Ipv4Addr = Ipv4Addr::new(10, 20, 1, 3);
const NEXT: Ipv4Addr = Ipv4Addr::new(10, 20, 1, 4);
/// Of the server.
const WEB: u16 = 80;
/// Bytes of a page.
const PAGE: usize = 100_000;
/// Of each of the clients.
const SECONDS: u64 = 4;
