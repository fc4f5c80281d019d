//! `output`: gives packets to the port that they leave by.
//!
//! ```text
//!  vector ─┬ all by one port ──► transmit the vector as it is
//!          └ mixed ──► staged by port, flushed at the vector's end
//!               another worker's port ──► its ring        another world's ──► copied, counted
//!               an inner port (a bridge's routed side) ──► ring to its node
//! ```
//!
//! | cost | one push a packet where ports are mixed; holding packets back until 32 are together gained nothing |
//! |------|----------------------------------------------------------------------|
//!
//! A packet that the port does not take is dropped and counted, never kept: a queue here would only
//! add delay (tried: counting sort by port, 11 cycles a packet more).

use std::ops::Range;
use std::sync::Arc;

use graph::ring::frames;
use graph::ring::spsc::Producer;
use graph::{Account, Bell, Lanes, NoEdge, Node, Point, Ports, View, labels};
use io::{Owned, VECTOR, World};

use super::detour::{self, Detour};
use super::refusals::Refusals;
use crate::lanes::OutPort;

labels! {
    /// Why packets are dropped.
    pub enum Why {
        /// The port did not take the packet: its queue is full.
        TransmitFull = "transmit_full",
        /// There is no such port any more.
        NoPort = "no_port",
        /// The ring to the port's worker is full.
        HandoverFull = "handover_full",
        /// The port's pool had no packet to copy into, or none long enough.
        NoBuffer = "no_buffer",
        /// The ring to the inner port's node is full. For a bridge's port, that node is `bridge_send`.
        BridgeFull = "bridge_full",
    }
}

/// A packet on its way to the worker that has its port.
pub struct Handed {
    /// The packet.
    pub packet: Owned,
    /// The port.
    pub out: u16,
}

/// The rings to another worker, and the ports that it has.
pub struct Remote {
    /// The ring for packets of the port's own world.
    pub ring: Producer<Handed>,
    /// The ring for copies of packets of another world; their `kind` is the port. `None` where
    /// there is only one world.
    pub copies: Option<frames::Producer>,
    /// The worker's ports, and the world of the packets that each takes.
    pub ports: Vec<(u16, World)>,
    /// The worker's bell; `None`: it does not sleep.
    pub bell: Option<Bell>,
}

impl Remote {
    /// Notes that a ring to this worker has a new packet.
    #[inline]
    fn wake(&self) {
        self.bell.iter().for_each(Bell::ring);
    }
}

/// Ports that are not devices. A packet that leaves by one comes back in at a node of the same
/// worker, which knows the network behind the port.
pub struct Inner {
    /// The numbers of the ports; they follow those of the devices.
    pub ports: Range<u16>,
    /// The ring to the node.
    pub ring: Producer<Detour>,
}

/// The node.
pub struct Output {
    /// Packets by port; the last entry is for ports that do not exist.
    staged: Vec<Staged>,
    remotes: Vec<Remote>,
    /// By port: the index of its worker in `remotes`, and the world of the packets that it takes.
    remote: Vec<Option<(usize, World)>>,
    inner: Vec<Inner>,
    refusals: Arc<Refusals>,
}

/// Packets of one vector that leave by one port.
struct Staged {
    n: usize,
    packets: Box<[Option<Owned>; VECTOR]>,
}

impl Output {
    /// A node for the devices' ports (those below `ports`; `remotes` lists the ones that other
    /// workers have) and for inner ports. It notes in `refusals` when a port refuses a packet.
    pub fn new(
        ports: u16,
        remotes: Vec<Remote>,
        inner: Vec<Inner>,
        refusals: Arc<Refusals>,
    ) -> Self {
        let most = remotes.iter().flat_map(|remote| &remote.ports).map(|(port, _)| port + 1);
        let most = most.chain(inner.iter().map(|inner| inner.ports.end));
        let ports = usize::from(most.fold(ports, u16::max));
        let mut remote = vec![None; ports];
        for (i, other) in remotes.iter().enumerate() {
            for &(port, world) in &other.ports {
                remote[usize::from(port)] = Some((i, world));
            }
        }
        let staged = |_| Staged { n: 0, packets: Box::new([const { None }; VECTOR]) };
        let staged = (0..=ports).map(staged).collect();
        Output { staged, remotes, remote, inner, refusals }
    }
}

impl Node for Output {
    type Edge = NoEdge;
    type Drop = Why;
    const NAME: &'static str = "output";
    const HELP: &'static str = "transmits by port, hands over to other workers";
    const READS: Lanes = Lanes::of::<(OutPort,)>();

    fn process(&mut self, v: &mut View<'_, Self>) {
        let (n, first) = (v.n(), v.get(OutPort, 0));
        if v.capturing(Point::Transmitted) {
            (0..n).for_each(|i| v.capture(i, Point::Transmitted));
        }
        let mixed = v.values(OutPort).fold(0, |mixed, out| mixed | (out.0 ^ first.0));
        if mixed == 0 && v.ports().world(first.0) == Some(v.world()) {
            let (packets, ports) = v.sink();
            let left = transmit(ports, first.0, packets);
            v.account(Account::Transmitted, n - left);
            if left > 0 {
                self.refusals.note(first.0, v.now());
            }
            return v.count_dropped(Why::TransmitFull, left);
        }
        let last = self.staged.len() - 1;
        let (none, ports) = self.staged.split_last_mut().expect("one more than there are ports");
        for (packet, out) in v.packets_and(OutPort) {
            let staged = match ports.get_mut(usize::from(out.0)) {
                Some(staged) => staged,
                None => &mut *none,
            };
            // The place is empty; writing without a drop is cheaper than a check.
            std::mem::swap(&mut staged.packets[staged.n % VECTOR], packet);
            staged.n += 1;
        }
        for out in 0..=last {
            if self.staged[out].n > 0 {
                self.flush(v, out as u16);
            }
        }
    }
}

impl Output {
    /// Sends the packets that are staged for port `out`.
    fn flush(&mut self, v: &mut View<'_, Self>, out: u16) {
        let staged = &mut self.staged[usize::from(out)];
        let packets = &mut staged.packets[..std::mem::take(&mut staged.n)];
        let here = v.ports().world(out);
        if here == Some(v.world()) {
            let left = transmit(v.ports(), out, packets);
            v.account(Account::Transmitted, packets.len() - left);
            if left > 0 {
                self.refusals.note(out, v.now());
            }
            return v.count_dropped(Why::TransmitFull, left);
        }
        let remote = self.remote.get(usize::from(out)).copied().flatten();
        match remote {
            Some((i, world)) if world == v.world() => {
                if hand_over(v, &mut self.remotes[i].ring, out, packets) > 0 {
                    self.refusals.note(out, v.now());
                }
                self.remotes[i].wake();
            }
            Some((i, _)) => {
                copy_over(v, self.remotes[i].copies.as_mut(), out, packets);
                self.remotes[i].wake();
            }
            None if here.is_some() => cross(v, out, packets),
            None => match self.inner.iter_mut().find(|inner| inner.ports.contains(&out)) {
                Some(inner) => return turn_in(v, &mut inner.ring, out, packets),
                None => v.count_dropped(Why::NoPort, packets.len()),
            },
        }
        let from = v.port();
        v.ports().free(from, packets); // packets that could not leave, and originals of copies
    }
}

/// Puts packets into the ring of the worker that has port `out`; returns how many did not fit.
fn hand_over(
    v: &View<'_, Output>,
    ring: &mut Producer<Handed>,
    out: u16,
    packets: &mut [Option<Owned>],
) -> usize {
    let mut handed = 0;
    for slot in packets.iter_mut() {
        let Some(packet) = slot.take() else { continue };
        match ring.push(Handed { packet, out }) {
            Ok(()) => handed += 1,
            Err(back) => *slot = Some(back.packet),
        }
    }
    v.account(Account::HandedOver, handed);
    v.count_dropped(Why::HandoverFull, packets.len() - handed);
    packets.len() - handed
}

/// Puts packets into the ring of an inner port's node.
fn turn_in(
    v: &mut View<'_, Output>,
    ring: &mut Producer<Detour>,
    out: u16,
    packets: &mut [Option<Owned>],
) {
    let pool = v.port();
    for slot in packets.iter_mut() {
        let Some(packet) = slot.take() else { continue };
        if let Err(packet) = detour::send(v, ring, Detour { packet, pool, out }) {
            v.count_dropped(Why::BridgeFull, 1);
            *slot = Some(packet);
        }
    }
    v.ports().free(pool, packets);
}

/// Copies packets to the worker that has port `out`, which takes packets of another world; the
/// originals stay.
#[cold]
fn copy_over(
    v: &View<'_, Output>,
    ring: Option<&mut frames::Producer>,
    out: u16,
    packets: &[Option<Owned>],
) {
    let Some(ring) = ring else { return v.count_dropped(Why::NoPort, packets.len()) };
    let meta = frames::Meta { kind: out, ..frames::Meta::default() };
    let copied =
        packets.iter().flatten().filter(|packet| ring.push(meta, &[packet.data()])).count();
    v.account(Account::HandedOver, copied);
    v.account(Account::Crossed, copied);
    v.count_dropped(Why::HandoverFull, packets.len() - copied);
}

/// Sends copies, in packets of port `out`'s world; the originals stay.
#[cold]
fn cross(v: &mut View<'_, Output>, out: u16, packets: &[Option<Owned>]) {
    let (mut sent, mut full) = (0, 0);
    for packet in packets.iter().flatten() {
        let Some(port) = v.ports().get(out) else { continue };
        let Some(mut copy) = port.allocate() else { continue };
        let fits = copy.copy_from(packet);
        let copy = &mut [Some(copy)];
        if fits && port.transmit(copy) == 1 {
            sent += 1;
            continue;
        }
        full += usize::from(fits);
        port.free(copy);
    }
    v.account(Account::Transmitted, sent);
    v.account(Account::Crossed, sent);
    v.count_dropped(Why::TransmitFull, full);
    v.count_dropped(Why::NoBuffer, packets.len() - sent - full);
}

/// Transmits the packets, and frees those that the port does not take; returns their number.
#[inline]
fn transmit(ports: &mut Ports, port: u16, packets: &mut [Option<Owned>]) -> usize {
    let Some(port) = ports.get(port) else { return packets.len() };
    let sent = port.transmit(packets).min(packets.len());
    let left = packets.len() - sent;
    if left > 0 {
        port.free(&mut packets[sent..]);
    }
    left
}
