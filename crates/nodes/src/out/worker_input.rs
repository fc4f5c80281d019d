//! `worker_input`: packets that other workers hand over, because this one has
//! the port that they leave by.
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
        /// The port has gone.
        NoPort = "no_port",
        /// The port's pool had no packet to copy into, or none long enough.
        NoBuffer = "no_buffer",
    }
}

/// What comes in from one other worker: the other ends of
/// [`Remote`](super::output::Remote).
pub struct Incoming {
    /// Packets.
    pub ring: Consumer<Handed>,
    /// Copies of packets of other worlds, by port.
    pub copies: Option<frames::Consumer>,
}

/// The node.
pub struct WorkerInput {
    workers: Vec<Incoming>,
    /// A packet that did not fit into the last vector.
    held: Option<Handed>,
}

impl WorkerInput {
    /// A node that empties the rings from other workers.
    pub fn new(workers: Vec<Incoming>) -> Self {
        WorkerInput { workers, held: None }
    }

    /// The next packet, each worker's packets before its copies.
    fn next(&mut self, v: &mut View<'_, Self>) -> Option<Handed> {
        self.held.take().or_else(|| {
            self.workers.iter_mut().find_map(|from| {
                from.ring.pop().or_else(|| from.copies.as_mut().and_then(|ring| copy(v, ring)))
            })
        })
    }
}

/// The next copy that there is a packet for.
fn copy(v: &mut View<'_, WorkerInput>, ring: &mut frames::Consumer) -> Option<Handed> {
    loop {
        let made = ring.pop(|meta, frame| {
            let port = v.ports().get(meta.kind).ok_or(Why::NoPort)?;
            let mut packet = port.allocate().ok_or(Why::NoBuffer)?;
            if packet.fill(frame) {
                return Ok(Handed { packet, out: meta.kind });
            }
            port.free(&mut [Some(packet)]);
            Err(Why::NoBuffer)
        })?;
        match made {
            Ok(handed) => return Some(handed),
            Err(why) => {
                v.account(Account::FromWorkers, 1);
                v.count_dropped(why, 1);
            }
        }
    }
}

impl Node for WorkerInput {
    type Edge = To;
    type Drop = Why;
    const NAME: &'static str = "worker_input";
    const HELP: &'static str = "takes packets that other workers hand over";
    const SOURCE: bool = true;

    fn process(&mut self, v: &mut View<'_, Self>) {
        while v.n() < io::BURST {
            let Some(Handed { packet, out }) = self.next(v) else { break };
            match v.push(packet, out) {
                Ok(i) => {
                    v.set(OutPort, i, PortId(out));
                    v.set(Iface, i, IfaceId(graph::NO_IFACE)); // the first worker knew it
                    v.account(Account::FromWorkers, 1);
                }
                // Of another world than those before it: the next vector's first.
                Err(packet) if v.n() > 0 => {
                    self.held = Some(Handed { packet, out });
                    break;
                }
                Err(packet) => {
                    v.account(Account::FromWorkers, 1);
                    v.count_dropped(Why::NoPort, 1);
                    discard(v, packet);
                    break;
                }
            }
        }
        v.leave_all(To::Output);
    }
}

/// Frees a packet whose port has gone while it was on its way: by any port, or,
/// where there is none, by nobody: it is lost to its pool until the end.
#[cold]
fn discard(v: &mut View<'_, WorkerInput>, packet: io::Owned) {
    let packets = &mut [Some(packet)];
    match v.ports().iter_mut().next() {
        Some((_, port)) => port.free(packets),
        None => drop(packets[0].take().map(io::Owned::into_raw)),
    }
}
