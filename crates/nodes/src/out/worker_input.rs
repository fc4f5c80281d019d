//! `worker_input`: packets that other workers hand over, because this one has
//! the port that they leave by.
//!
//! ```text
//!  other worker's output ─► ring ─► worker_input ─► output
//! ```
//!
//! | cost | one read of the ring a packet, one of its index a poll while it is empty |
//! |------|---------------------------------------------------------------------------|

use graph::ring::spsc::Consumer;
use graph::{Account, Live, Node, View, labels};

use super::output::Handed;

labels! {
    /// Where packets go.
    pub enum To { Output = "output" }
}

labels! {
    /// Why packets are dropped.
    pub enum Why {
        /// The port has gone, or takes packets of another world.
        NoPort = "no_port",
    }
}

/// The node.
pub struct WorkerInput {
    /// One from each other worker.
    rings: Vec<Consumer<Handed>>,
    /// A packet that did not fit into the last vector.
    held: Option<Handed>,
}

impl WorkerInput {
    /// A node that empties `rings`.
    pub fn new(rings: Vec<Consumer<Handed>>) -> Self {
        WorkerInput { rings, held: None }
    }
}

impl Node for WorkerInput {
    type Edge = To;
    type Drop = Why;
    const NAME: &'static str = "worker_input";
    const HELP: &'static str = "takes packets that other workers hand over";
    const LIVE: Live = Live::OUT.and(Live::IFACE);
    const SOURCE: bool = true;

    fn process(&mut self, v: &mut View<'_, Self>) {
        let rings = &mut self.rings;
        let mut next = || rings.iter_mut().find_map(Consumer::pop);
        while v.n() < io::BURST {
            let Some(handed) = self.held.take().or_else(&mut next) else { break };
            let Handed { packet, out } = handed;
            match v.push(packet, out) {
                Ok(i) => {
                    v.out[i] = out;
                    v.iface[i] = graph::NO_IFACE; // the first worker knew it
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
