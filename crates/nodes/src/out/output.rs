//! `output`: gives packets to the port that they leave by.
//!
//! ```text
//!  vector ─┬ all by one port ──► transmit the vector as it is
//!          └ mixed ──► staged by port, flushed at the vector's end
//!               another worker's port ──► its ring        another world's ──► copied
//! ```
//!
//! | cost | one push a packet where ports are mixed; holding packets back until 32 are together gained nothing |
//! |------|----------------------------------------------------------------------|
//!
//! What a port does not take is dropped and counted, never kept: a queue here
//! would only add delay (tried: counting sort by port, 11 cycles a packet more).

use graph::ring::spsc::Producer;
use graph::{Account, Live, NoEdge, Node, Point, Ports, View, labels};
use io::{Owned, World};

labels! {
    /// Why packets are dropped.
    pub enum Why {
        /// The port did not take it: its queue is full.
        TransmitFull = "transmit_full",
        /// There is no such port any more.
        NoPort = "no_port",
        /// The ring to the port's worker is full.
        HandoverFull = "handover_full",
        /// The port's pool had no packet to copy into, or none long enough.
        NoBuffer = "no_buffer",
    }
}

/// A packet on its way to the worker that has its port.
pub struct Handed {
    /// The packet.
    pub packet: Owned,
    /// The port.
    pub out: u16,
    /// The interface that it leaves by.
    pub iface: u16,
}

/// The ring to another worker, and the ports that it has.
pub struct Remote {
    /// The way in.
    pub ring: Producer<Handed>,
    /// Its ports, and whose packets they take.
    pub ports: Vec<(u16, World)>,
}

/// The node.
pub struct Output {
    /// By port.
    staged: Vec<Vec<Option<Owned>>>,
    remotes: Vec<Remote>,
    /// By port: the index of its remote worker.
    remote: Vec<Option<usize>>,
}

impl Output {
    /// A node for ports below `ports`, of which other workers have those in `remotes`.
    pub fn new(ports: u16, remotes: Vec<Remote>) -> Self {
        let most = remotes.iter().flat_map(|remote| &remote.ports).map(|(port, _)| port + 1);
        let ports = usize::from(most.fold(ports, u16::max));
        let mut remote = vec![None; ports];
        for (i, other) in remotes.iter().enumerate() {
            other.ports.iter().for_each(|(port, _)| remote[usize::from(*port)] = Some(i));
        }
        let staged = (0..ports).map(|_| Vec::with_capacity(io::VECTOR)).collect();
        Output { staged, remotes, remote }
    }
}

impl Node for Output {
    type Edge = NoEdge;
    type Drop = Why;
    const NAME: &'static str = "output";
    const HELP: &'static str = "transmits by port, hands over to other workers";
    const LIVE: Live = Live::NONE;

    fn process(&mut self, v: &mut View<'_, Self>) {
        let (n, first) = (v.n(), v.out[0]);
        if v.capturing(Point::Transmitted) {
            (0..n).for_each(|i| v.capture(i, Point::Transmitted));
        }
        let mixed = v.out.first(n).iter().fold(0, |mixed, out| mixed | (out ^ first));
        if mixed == 0 && v.ports().world(first) == Some(v.world()) {
            let (packets, ports) = v.sink();
            let left = transmit(ports, first, packets);
            v.account(Account::Transmitted, n - left);
            return v.count_dropped(Why::TransmitFull, left);
        }
        for i in 0..n {
            let out = usize::from(v.out[i]);
            if self.remote.get(out).is_some_and(Option::is_some) {
                self.hand_over(v, i, out);
                continue;
            }
            let here = v.ports().world(out as u16);
            match self.staged.get_mut(out) {
                Some(staged) if here == Some(v.world()) => staged.push(v.take(i)),
                Some(staged) if here.is_some() => cross(v, i, staged),
                _ => v.count_dropped(Why::NoPort, 1),
            }
        }
        self.flush(v);
        v.free(); // what could not leave
    }
}

impl Output {
    fn flush(&mut self, v: &mut View<'_, Self>) {
        for (port, staged) in self.staged.iter_mut().enumerate().filter(|(_, s)| !s.is_empty()) {
            let left = transmit(v.ports(), port as u16, staged);
            v.account(Account::Transmitted, staged.len() - left);
            v.count_dropped(Why::TransmitFull, left);
            staged.clear();
        }
    }

    /// Puts packet `i` into the ring of the worker that has port `out`.
    #[cold]
    fn hand_over(&mut self, v: &mut View<'_, Self>, i: usize, out: usize) {
        let Some(remote) = self.remote[out].and_then(|i| self.remotes.get_mut(i)) else { return };
        let (out, iface) = (out as u16, v.iface[i]);
        if !remote.ports.contains(&(out, v.world())) {
            return v.count_dropped(Why::NoBuffer, 1);
        }
        if remote.ring.is_full() {
            return v.count_dropped(Why::HandoverFull, 1);
        }
        if let Some(packet) = v.take(i) {
            // There is room: only this side fills the ring.
            let _ = remote.ring.push(Handed { packet, out, iface });
            v.account(Account::HandedOver, 1);
        }
    }
}

/// Transmits, and frees what the port does not take; returns how many those are.
#[inline]
fn transmit(ports: &mut Ports, port: u16, packets: &mut [Option<Owned>]) -> usize {
    let Some(port) = ports.get(port) else { return packets.len() };
    let sent = port.transmit(packets);
    port.free(&mut packets[sent..]);
    packets.len() - sent
}

/// Copies packet `i` into a packet of its port's world; the original stays to be freed.
#[cold]
fn cross(v: &mut View<'_, Output>, i: usize, staged: &mut Vec<Option<Owned>>) {
    let out = v.out[i];
    let Some(mut copy) = v.ports().get(out).and_then(|port| port.allocate()) else {
        return v.count_dropped(Why::NoBuffer, 1);
    };
    if copy.copy_from(v.packet(i)) {
        v.account(Account::Crossed, 1);
        return staged.push(Some(copy));
    }
    v.count_dropped(Why::NoBuffer, 1);
    if let Some(port) = v.ports().get(out) {
        port.free(&mut [Some(copy)]);
    }
}
