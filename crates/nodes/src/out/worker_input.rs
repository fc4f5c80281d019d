//! `worker_input`: takes packets that other workers hand over because this worker has their output port.
//!
//! ```text
//!  other worker's output ─┬─► ring ─────────────────────────────────┬► worker_input ─► output
//!                         └─► copies of another world's packets ─► packet of the port's pool ─┘
//! ```
//!
//! | cost | one read of the ring a packet, one of its index a poll while it is empty |
//! |------|---------------------------------------------------------------------------|

use graph::ring::frames;
use graph::ring::spsc::Consumer;
use graph::{Account, Node, View, labels};
use io::Owned;
use tables::{IfaceId, PortId};

use super::output::Handed;
use crate::lanes::{Iface, OutPort};

labels! {
    /// Where packets go.
    pub enum To { Output = "output" carries [OutPort, Iface] }
}

labels! {
    /// Why packets are dropped.
    pub enum Why {
        /// The port is gone.
        NoPort = "no_port",
        /// The port's pool had no packet to copy into, or none long enough.
        NoBuffer = "no_buffer",
    }
}

/// The rings from one other worker: the receiving ends of [`Remote`](super::output::Remote).
pub struct Incoming {
    /// Packets.
    pub ring: Consumer<Handed>,
    /// Copies of packets of other worlds, by port.
    pub copies: Option<frames::Consumer>,
}

/// The node.
pub struct WorkerInput {
    workers: Vec<Incoming>,
}

impl WorkerInput {
    /// A node that empties the rings from other workers.
    pub fn new(workers: Vec<Incoming>) -> Self {
        WorkerInput { workers }
    }
}

impl Incoming {
    /// The kind of the next packet, and its output port; packets come before copies.
    #[inline]
    fn next(&mut self) -> Option<(Next, u16)> {
        let handed = self.ring.peek().map(|handed| (Next::Packet, handed.out));
        handed.or_else(|| Some((Next::Copy, self.copies.as_mut()?.peek()?.kind)))
    }

    /// Puts the next packet into the vector, as a packet of port `pool`; returns its index.
    fn take(
        &mut self,
        v: &mut View<'_, WorkerInput>,
        (next, out): (Next, u16),
        pool: u16,
    ) -> Option<Result<usize, Why>> {
        if next == Next::Packet {
            let packet = self.ring.pop()?.packet;
            return Some(put(v, packet, pool, out));
        }
        self.copies.as_mut()?.pop(|_, frame| {
            let port = v.ports().get(out).ok_or(Why::NoPort)?;
            let mut packet = port.allocate().ok_or(Why::NoBuffer)?;
            if packet.fill(frame) {
                return put(v, packet, pool, out);
            }
            port.free(&mut [Some(packet)]);
            Err(Why::NoBuffer)
        })
    }
}

/// The ring that holds the next packet.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Next {
    Packet,
    Copy,
}

/// Puts a packet that leaves by `out` into the vector. If that port is gone, another port frees the packet.
fn put(v: &mut View<'_, WorkerInput>, packet: Owned, pool: u16, out: u16) -> Result<usize, Why> {
    v.push(packet, pool).map_err(|packet| {
        v.ports().put_back(packet, out);
        Why::NoPort
    })
}

impl Node for WorkerInput {
    type Edge = To;
    type Drop = Why;
    const NAME: &'static str = "worker_input";
    const HELP: &'static str = "takes packets that other workers hand over";
    const SOURCE: bool = true;
    const WAKES: bool = true;

    fn process(&mut self, v: &mut View<'_, Self>) {
        for _ in 0..io::BURST {
            let next = self.workers.iter_mut().find_map(|from| Some((from.next()?, from)));
            let Some((next, from)) = next else { break };
            let (_, out) = next;
            // The packets came in by ports of another worker. All packets of one world get the
            // first one's port, so that packets to several ports share a vector.
            let same = v.n() > 0 && v.ports().world(out) == Some(v.world());
            let pool = if same { v.port() } else { out };
            if !v.has_room(pool) {
                break;
            }
            match from.take(v, next, pool) {
                Some(Ok(i)) => {
                    v.set(OutPort, i, PortId(out));
                    v.set(Iface, i, IfaceId(graph::NO_IFACE)); // the worker that received it knew it
                }
                Some(Err(why)) => v.count_dropped(why, 1),
                None => break,
            }
            v.account(Account::FromWorkers, 1);
        }
        v.leave_all(To::Output);
    }
}
