//! The demo's third part: a shield on one machine holds a flood off while clients load a page.
//!
//! ```text
//!  clients 10.20.1.2 … ── p0 ┐                 ┌ p2 ── 10.20.3.2, and behind it
//!                            │ front ·── back  │        the server 203.0.113.5
//!  a flood 10.20.2.2 ──── p1 ┘  policy in Lua  └
//! ```

mod flood;
mod page;
mod serve;

use std::fmt::Write as _;
use std::io::Write;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use api::apps::grantor::Shown;
use api::apps::{Reply as AppReply, Request as AppRequest, gatekeeper, grantor};
use api::{CallError, Client, Reply, Request};

use super::Size;
use super::net::{Net, failed};
use crate::columns::number;
use crate::context::Context;
use crate::error::Error;
use crate::status::Status;
use page::Loads;

/// The participants: the demo starts itself as each of them, in a namespace.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum Actor {
    /// Loads a page.
    Load,
    /// Sends unrequested packets.
    Flood,
    /// The server.
    Serve,
}

/// Is `actor`; seconds and address are a client's.
///
/// # Errors
/// When it cannot.
pub fn act(actor: Actor, from: Ipv4Addr, seconds: u64) -> Result<Status, Error> {
    match actor {
        Actor::Load => page::load(from, seconds),
        Actor::Flood => flood::flood(),
        Actor::Serve => serve::serve(),
    }
}

/// The whole part.
///
/// # Errors
/// When something of it cannot be had, a client gets no page, or it is interrupted; what it made
/// is taken away in any case.
pub fn run(_: Size, stop: &Arc<AtomicBool>, cx: &mut Context) -> Result<Status, Error> {
    say(cx, "\nA shield on one machine: a flood comes while clients load a page.\n")?;
    let mut net = Net::new(stop)?;
    let start = Instant::now();
    network(&mut net)?;
    shield(&mut net)?;
    let said = format!(
        "203.0.113.0/24 is protected by a policy of {} lines in Lua, asked {} times a second",
        POLICY.lines().count(),
        number(REQUESTS)
    );
    say(cx, &line(1, "shield", start, &said))?;
    let start = Instant::now();
    let before = client(&net, OLD)?.loads()?;
    say(cx, &line(2, "before", start, &format!("{} Kbyte page: {}", PAGE / 1000, told(&before))))?;
    came(&before, "before the flood")?;
    under_flood(&mut net, cx)?;
    let start = Instant::now();
    let after = client(&net, NEXT)?.loads()?;
    say(cx, &line(4, "after", start, &format!("another new client: {}", told(&after))))?;
    came(&after, "after the flood")?;
    Ok(Status::Success)
}

/// Whether a client has got a page.
fn came(loads: &Loads, when: &str) -> Result<(), Error> {
    if loads.pages > 0 { Ok(()) } else { Err(failed("the shield", format!("no page came {when}"))) }
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
    net.on("g", &["ip", "address", "add", &format!("{SERVER}/32"), "dev", "lo"]).map(|_| ())
}

fn shield(net: &mut Net) -> Result<(), Error> {
    let (file, policy) = (net.file("shield.toml"), net.file("shield.lua"));
    std::fs::write(&file, configuration(&policy))?;
    std::fs::write(&policy, POLICY)?;
    let me = std::env::current_exe()?.display().to_string();
    let (file, socket) = (file.display().to_string(), net.file("shield.sock"));
    let path = socket.display().to_string();
    net.start("g", "server", &[&me, "demo", "--actor", "serve"])?;
    net.start("r", "shield", &[&me, "--socket", &path, "run", "--config", &file])?;
    net.wait("the shield", Duration::from_secs(60), || protects(&socket).is_ok_and(|ready| ready))?;
    // The first page does not wait until the way back is found.
    let ping = ["ping", "-n", "-q", "-c", "1", "-W", "1"];
    for (host, to) in [("c", "10.20.1.1"), ("g", "10.20.3.1")] {
        let known = || net.on(host, &[&ping[..], &[to]].concat()).is_ok();
        let start = Instant::now();
        while !known() {
            net.check()?;
            if start.elapsed() > Duration::from_secs(20) {
                return Err(failed("the shield", format!("{to} does not answer")));
            }
        }
    }
    Ok(())
}

/// README's, in the demo's network; with two ports at the front.
fn configuration(policy: &Path) -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let worker = usize::from(cores > 1);
    let mut config = format!("role = [\"gatekeeper\", \"grantor\"]\nworkers = [{worker}]\n");
    for port in 0..3 {
        // Writing to a String cannot fail.
        let _ = write!(
            config,
            "[ports.p{port}]\ndevice = \"packet:v{port}\"\naddresses = [\"10.20.{}.1/24\"]\n",
            port + 1
        );
    }
    config
        + &format!(
            "[[route]]
prefix = \"203.0.113.0/24\"
via = [\"10.20.3.2\"]
[gatekeeper]
front = [\"p0\", \"p1\"]
back = [\"p2\"]
requests = {REQUESTS}
[[gatekeeper.protect]]
prefix = \"203.0.113.0/24\"
[grantor]
policy = {policy:?}
"
        )
}

/// Whether the protected server is ready.
fn protects(socket: &Path) -> Result<bool, CallError> {
    let request = gatekeeper::Request::Protections;
    let mut client = Client::connect(socket)?;
    match client.call(&Request::App(AppRequest::Gatekeeper(request)))? {
        Reply::App(AppReply::Gatekeeper(gatekeeper::Reply::Protections(all))) => {
            Ok(!all.is_empty() && all.iter().all(|one| one.in_table && one.faults.is_empty()))
        }
        _ => Err(CallError::Unexpected),
    }
}

fn ask(net: &Net) -> Result<Shown, Error> {
    let request = Request::App(AppRequest::Grantor(grantor::Request::Show));
    match Client::connect(&net.file("shield.sock"))?.call(&request)? {
        Reply::App(AppReply::Grantor(grantor::Reply::Show(shown))) => Ok(*shown),
        _ => Err(CallError::Unexpected.into()),
    }
}

/// A process of the demo that prints its measurements.
struct Playing(std::process::Child);

impl Playing {
    fn loads(self) -> Result<Loads, Error> {
        let said = self.said()?;
        Loads::parse(&said).ok_or_else(|| failed("a client", said))
    }

    /// Its output at the end; its standard input ends.
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
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    child.map(Playing).map_err(|error| failed("ip", error))
}

fn client(net: &Net, from: Ipv4Addr) -> Result<Playing, Error> {
    let seconds = SECONDS.to_string();
    play(net, "c", &["load", "--from", &from.to_string(), "--seconds", &seconds])
}

/// Two clients while the flood comes: one that was granted before, one that must ask.
fn under_flood(net: &mut Net, cx: &mut Context) -> Result<(), Error> {
    let start = Instant::now();
    let (was, reached) = (ask(net)?, unasked(net)?);
    let flood = play(net, "f", &["flood"])?;
    std::thread::sleep(Duration::from_secs(1));
    let (old, new) = (client(net, OLD)?, client(net, NEW)?);
    let (old, new) = (old.loads()?, new.loads()?);
    let (sent, rate) = flooded(&flood.said()?)?;
    let (is, reached) = (ask(net)?, unasked(net)? - reached);
    let said = format!("{} packets from as many sources, {} a second", number(sent), number(rate));
    say(cx, &line(3, "flood", start, &said))?;
    let count =
        |of: &Shown, what| of.counts.iter().find(|one| one.what == what).map_or(0, |one| one.count);
    let counted = |what| number(count(&is, what) - count(&was, what));
    let text = format!(
        "      the client of before: {}\n      a new client: {}\n      the policy was asked {} times, \
         and declined {}; {} packets of the flood reached the server\n",
        told(&old),
        told(&new),
        counted("asked"),
        counted("verdicts: drop"),
        number(reached)
    );
    say(cx, &text)?;
    came(&old, "for the client of before, under the flood")?;
    came(&new, "for a new client, under the flood")
}

/// The output of a flood: its packets, and the number a second.
fn flooded(said: &str) -> Result<(u64, u64), Error> {
    let read = said.split_once(' ').and_then(|(sent, ms)| {
        let (sent, ms): (u64, u64) = (sent.parse().ok()?, ms.parse().ok()?);
        Some((sent, sent * 1000 / ms.max(1)))
    });
    read.ok_or_else(|| failed("the flood", said))
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
    if pages == 0 {
        return format!("not once, {failed} failed");
    }
    let failed = if failed == 0 { String::new() } else { format!(", {failed} failed") };
    format!(
        "{pages} times{failed}, the first after {}, then {} each (at most {})",
        ms(first),
        ms(median),
        ms(worst)
    )
}

/// README's, to the byte.
const POLICY: &str = include_str!("policy.lua");
/// Requests to the policy, a second.
const REQUESTS: u64 = 1000;
const SERVER: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 5);
/// Clients: before the flood, during it, after it.
const OLD: Ipv4Addr = Ipv4Addr::new(10, 20, 1, 2);
const NEW: Ipv4Addr = Ipv4Addr::new(10, 20, 1, 3);
const NEXT: Ipv4Addr = Ipv4Addr::new(10, 20, 1, 4);
/// The server's port.
const WEB: u16 = 80;
/// Bytes of a page.
const PAGE: usize = 100_000;
/// The shortest time of each client.
const SECONDS: u64 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_is_that_of_readme_and_guide() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        for page in ["README.md", "docs/guide/one-box.md"] {
            let text = std::fs::read_to_string(format!("{root}/{page}")).unwrap();
            assert!(text.contains(&format!("```lua\n{POLICY}```\n")), "{page}");
        }
    }

    #[test]
    fn what_a_flood_prints_is_read() {
        assert_eq!(flooded("3000 1500").unwrap(), (3000, 2000));
        assert_eq!(flooded("0 0").unwrap(), (0, 0));
        assert!(flooded("").is_err() && flooded("1 x").is_err());
    }

    #[test]
    fn a_client_without_a_page_is_an_error() {
        assert!(came(&Loads::default(), "").is_err());
        assert!(came(&Loads { pages: 1, ..Loads::default() }, "").is_ok());
    }
}
