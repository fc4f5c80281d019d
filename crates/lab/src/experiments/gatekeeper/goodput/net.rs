//! Three namespaces, and who is in them.
//!
//! ```text
//!  clients          gatekeeper          server
//!  c0 ═════════════ g0        g1 ══════ s0 ─ stand-in for a Grantor ─ t0
//!  10.0.0.x             graph                                         10.20.0.1
//! ```
//!
//! The stand-in grants what clients ask for, by messages (GGU), and takes their packets out
//! of the outer headers; who else asks gets no answer. What the server sends goes back past
//! the Grantor, as in the field.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread;
use std::time::{Duration, Instant};

use io::{Burst, Device, Pool, PoolConfig, Port};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use wire::ggu::{Decision, Flow, Ports, Verdict, Writer};

use super::super::site::{BACK, GRANTOR};
use crate::clock;

/// Who is protected.
pub(super) const SERVER: Ipv4Addr = Ipv4Addr::new(10, 20, 0, 1);
/// Hardware addresses.
pub(super) const CLIENT_MAC: [u8; 6] = [2, 0, 0, 0, 1, 1];
pub(super) const FRONT_MAC: [u8; 6] = [2, 0, 0, 0, 1, 2];
pub(super) const BACK_MAC: [u8; 6] = [2, 0, 0, 0, 1, 3];
pub(super) const GRANTOR_MAC: [u8; 6] = [2, 0, 0, 0, 1, 4];

/// A client's address by number, from 2 on.
pub(super) fn client(n: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, n)
}

/// The namespaces; gone when dropped.
pub(super) struct Net {
    names: [String; 3],
}

impl Net {
    /// With so many clients.
    pub fn new(clients: u8) -> Result<Net, String> {
        remove_left();
        let id = std::process::id();
        let names = WHO.map(|who| format!("rutter-{who}-{id}"));
        for name in &names {
            ip(&["netns", "add", name])?;
        }
        let net = Net { names };
        let [c, g, s] = &net.names;
        pair((c, "c0", CLIENT_MAC), (g, "g0", FRONT_MAC))?;
        pair((s, "s0", GRANTOR_MAC), (g, "g1", BACK_MAC))?;
        // With an outer header before them its packets still fit.
        ip(&["-n", c, "link", "set", "c0", "mtu", "1400"])?;
        for n in 2..clients.saturating_add(2) {
            ip(&["-n", c, "addr", "add", &format!("{}/24", client(n)), "dev", "c0"])?;
        }
        let front = text(FRONT_MAC);
        ip(&["-n", c, "neigh", "add", "10.0.0.1", "lladdr", &front, "dev", "c0"])?;
        ip(&["-n", c, "route", "add", "10.20.0.0/16", "via", "10.0.0.1"])?;
        ip(&["-n", s, "tuntap", "add", "t0", "mode", "tap"])?;
        ip(&["-n", s, "link", "set", "t0", "mtu", "1400", "up"])?;
        ip(&["-n", s, "addr", "add", &format!("{SERVER}/16"), "dev", "t0"])?;
        let back = text(BACK_MAC);
        ip(&["-n", s, "neigh", "add", "10.20.0.254", "lladdr", &back, "dev", "t0"])?;
        ip(&["-n", s, "route", "add", "10.0.0.0/24", "via", "10.20.0.254"])?;
        steer(c, "c0")?;
        steer(s, "s0")?;
        Ok(net)
    }

    /// Enters the clients' namespace with this thread.
    pub fn enter_clients(&self) -> Result<(), String> {
        enter(&self.names[0])
    }

    /// The gatekeeper's.
    pub fn enter_gatekeeper(&self) -> Result<(), String> {
        enter(&self.names[1])
    }

    /// The server's.
    pub fn enter_server(&self) -> Result<(), String> {
        enter(&self.names[2])
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = ip(&["netns", "del", name]); // it says what is left, if anybody looks
        }
    }
}

/// Removes what runs have left that were killed.
fn remove_left() {
    let names = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
    for name in names.filter_map(|entry| entry.file_name().into_string().ok()) {
        if let Some(id) = whose(&name)
            && !std::path::Path::new(&format!("/proc/{id}")).exists()
        {
            let _ = ip(&["netns", "del", &name]); // another run may be at it, too
        }
    }
}

/// The process that has made the namespace of this name.
fn whose(name: &str) -> Option<u32> {
    let (who, id) = name.strip_prefix("rutter-")?.rsplit_once('-')?;
    WHO.contains(&who).then(|| id.parse().ok()).flatten()
}

const WHO: [&str; 3] = ["clients", "gatekeeper", "server"];

fn enter(name: &str) -> Result<(), String> {
    let file = File::open(format!("/run/netns/{name}")).map_err(|error| error.to_string())?;
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
        .map_err(|error| format!("the namespace cannot be entered: {error}"))
}

type End<'a> = (&'a str, &'a str, [u8; 6]);

fn pair((near, a, a_mac): End<'_>, (far, b, b_mac): End<'_>) -> Result<(), String> {
    let [a_mac, b_mac] = [a_mac, b_mac].map(text);
    let far_end = ["type", "veth", "peer", "name", b, "address", &b_mac, "netns", far];
    ip(&[&["-n", near, "link", "add", a, "address", &a_mac][..], &far_end].concat())?;
    ip(&["-n", near, "link", "set", a, "up"])?;
    ip(&["-n", far, "link", "set", b, "up"])
}

/// Has what `iface` receives worked off by the first core: the worker, which sends it, would
/// else do the TCP of all clients in its own time, while its queue overflows.
fn steer(name: &str, iface: &str) -> Result<(), String> {
    let set = format!("echo {:x} > /sys/class/net/{iface}/queues/rx-0/rps_cpus", first_core());
    ip(&["netns", "exec", name, "sh", "-c", &set])
        .map_err(|error| format!("receive packet steering (CONFIG_RPS): {error}"))
}

/// As a mask of 32 cores; others of more are steered by none.
fn first_core() -> u32 {
    1_u32.checked_shl(clock::cores()[0] as u32).unwrap_or_default()
}

/// Frames that the kernel had no room for in the cores' backlogs, on the whole machine.
pub(super) fn lost_in_backlogs() -> u64 {
    let text = std::fs::read_to_string("/proc/net/softnet_stat").unwrap_or_default();
    let dropped = |line: &str| u64::from_str_radix(line.split_whitespace().nth(1)?, 16).ok();
    text.lines().filter_map(dropped).sum()
}

fn text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

fn ip(words: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(words).output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let words = words.join(" ");
    Err(format!("`ip {words}`: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

/// A device, which is stopped when it is dropped, and its port.
type Opened = (Box<dyn Device>, Box<dyn Port>);

/// A port on an interface of this thread's namespace.
pub(super) fn port(iface: &str, pool: &Pool) -> Result<Opened, String> {
    let said = |error: io::Error| error.to_string();
    let mut device = io::open_with(&format!("packet:{iface}"), pool).map_err(said)?;
    let mut port = device.start(1).map_err(said)?.pop().ok_or("no port")?;
    port.attach(0);
    Ok((device, port))
}

/// The Grantor's life, until `stop`: `grants` says what a client gets; `lost` has the frames
/// that neither it nor the server behind it could take.
pub(super) fn stand_in(
    net: &Net,
    grants: impl Fn(Ipv4Addr) -> Verdict,
    (lost, stop): (&AtomicU64, &AtomicBool),
) -> Result<(), String> {
    net.enter_server()?;
    let said = |error: std::io::Error| error.to_string();
    let tap = io::tap::Tap::open("t0").map_err(said)?;
    tap.set_nonblocking(true).map_err(said)?;
    let tap_mac = tap.mac().map_err(said)?;
    let pool = Pool::new(&PoolConfig::default()).map_err(|error| error.to_string())?;
    let (device, mut port) = port("s0", &pool)?;
    let (mut burst, mut frame, mut not_taken) = (Burst::new(), [0; 2_048], 0);
    while !stop.load(Relaxed) {
        let n = port.receive(&mut burst, io::BURST);
        for i in 0..n {
            let Some(packet) = burst.take(i) else { continue };
            if let Some((source, dscp, inner)) = inside(packet.data()) {
                if dscp >= REQUEST {
                    let message = message(source, grants(source))?;
                    send(&mut *port, &message);
                }
                let inward = [&tap_mac[..], &BACK_MAC, &[8, 0], inner].concat();
                not_taken += u64::from(tap.write(&inward).is_err()); // the kernel's queue is full
            }
            port.free(&mut [Some(packet)]);
        }
        burst.clear();
        let mut sent = 0;
        while sent < io::BURST
            && let Ok(len) = tap.read(&mut frame)
        {
            frame[6..12].copy_from_slice(&GRANTOR_MAC);
            if frame[..6] == BACK_MAC {
                send(&mut *port, &frame[..len]);
            }
            sent += 1;
        }
        if n + sent == 0 {
            lost.store(not_taken + device.counters().rx_missed, Relaxed);
            thread::sleep(NAP);
        }
    }
    Ok(())
}

/// Of a frame to the Grantor, of a client: who, how urgently, and its packet.
fn inside(frame: &[u8]) -> Option<(Ipv4Addr, u8, &[u8])> {
    let outer = frame.get(14..34)?;
    let inner = frame.get(34..)?;
    let source = Ipv4Addr::from(*inner.get(12..16)?.first_chunk::<4>()?);
    let of_client = source.octets()[..3] == [10, 0, 0];
    let is_one = outer[0] == 0x45 && outer[9] == 4 && outer[16..20] == GRANTOR;
    (is_one && of_client).then_some((source, outer[1] >> 2, inner))
}

fn message(source: Ipv4Addr, verdict: Verdict) -> Result<Vec<u8>, String> {
    let said = |error: wire::Error| error.to_string();
    let mut buffer = [0; 200];
    let (from, to) = (GRANTOR.into(), BACK.into());
    let mut writer = Writer::new(&mut buffer, from, to, Ports::default()).map_err(said)?;
    let flow = Flow::V4 { src: source, dst: SERVER };
    writer.push(&Decision { flow, verdict }).map_err(said)?;
    Ok([&BACK_MAC[..], &GRANTOR_MAC, &[8, 0], writer.finish()].concat())
}

fn send(port: &mut dyn Port, frame: &[u8]) {
    let Some(mut packet) = port.allocate() else { return };
    packet.fill(frame);
    let mut packets = [Some(packet)];
    let sent = port.transmit(&mut packets);
    port.free(&mut packets[sent..]);
}

/// A connection from this address to the server, and how long that took.
pub(super) fn connect(
    from: Ipv4Addr,
    port: u16,
) -> Result<(std::net::TcpStream, Duration), String> {
    use rustix::net::{AddressFamily, SocketType, bind, socket, sockopt};
    let said = |error: rustix::io::Errno| format!("{from}: {error}");
    let begun = Instant::now();
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).map_err(said)?;
    sockopt::set_tcp_user_timeout(&socket, PATIENCE_MS).map_err(said)?;
    bind(&socket, &SocketAddrV4::new(from, 0)).map_err(said)?;
    rustix::net::connect(&socket, &SocketAddrV4::new(SERVER, port)).map_err(said)?;
    Ok((socket.into(), begun.elapsed()))
}

/// The lowest DSCP of a request.
const REQUEST: u8 = 3;
/// Who is not let in, or not heard, for so long gives up.
const PATIENCE_MS: u32 = 15_000;
const NAP: Duration = Duration::from_micros(50);
