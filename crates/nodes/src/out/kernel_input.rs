//! `kernel_input`: sends frames that the kernel writes to a tap out of the tap's port.
//!
//! ```text
//!  tap ─► kernel thread ─► ring ─► packet of the port's pool, tags put in ─► output
//! ```
//!
//! | cost | a copy a frame; at most [`io::BURST`] a poll, so forwarding never starves |
//! |------|----------------------------------------------------------------------------|

use std::sync::Arc;

use graph::ring::frames::Consumer;
use graph::{Account, Node, Ports, View, labels};
use tables::{Forwarding, IfaceId, PortId, Tags};
use wire::ethernet;

use crate::counters::IfaceCounters;
use crate::lanes::{Iface, OutPort};

labels! {
    /// Where frames go.
    pub enum To { Output = "output" carries [OutPort, Iface] }
}

labels! {
    /// Why frames are dropped.
    pub enum Why {
        /// The interface is gone, or another worker has its port.
        NoInterface = "no_interface",
        /// Shorter than its link header.
        Runt = "runt",
        /// The port's pool is empty, or its packets are too short.
        NoBuffer = "no_buffer",
    }
}

/// The node.
pub struct KernelInput {
    ring: Consumer,
    forwarding: Arc<Forwarding>,
    counters: Arc<IfaceCounters>,
    /// A buffer in which a frame gets its tags.
    tagged: Vec<u8>,
}

impl KernelInput {
    /// A node that empties `ring`. A record holds the interface to leave by.
    pub fn new(ring: Consumer, forwarding: Arc<Forwarding>, counters: Arc<IfaceCounters>) -> Self {
        KernelInput { ring, forwarding, counters, tagged: Vec::with_capacity(LONGEST) }
    }
}

impl Node for KernelInput {
    type Edge = To;
    type Drop = Why;
    const NAME: &'static str = "kernel_input";
    const HELP: &'static str = "takes frames from the kernel's taps";
    const SOURCE: bool = true;
    const WAKES: bool = true;

    fn process(&mut self, v: &mut View<'_, Self>) {
        if self.ring.is_empty() {
            return;
        }
        let ifaces = self.forwarding.ifaces.load(v.guard());
        let first_routed = self.forwarding.bridges.load(v.guard()).first_routed;
        for _ in 0..io::BURST {
            let Some(meta) = self.ring.peek() else { break };
            let id = IfaceId(meta.iface);
            let way = ifaces.get(id).and_then(|iface| {
                let pool = pool(v.ports(), iface.port.0, first_routed)?;
                Some((iface, pool))
            });
            // A frame for another port stays in the ring until the next vector.
            if way.is_some_and(|(_, pool)| !v.has_room(pool)) {
                break;
            }
            v.account(Account::FromKernel, 1);
            let tagged = &mut self.tagged;
            match self.ring.pop(|_, frame| take(v, way, frame, tagged)) {
                Some(Ok((i, out))) => {
                    v.set(OutPort, i, out);
                    v.set(Iface, i, id);
                    self.counters.sent(id, 1, v.frame_len(i).into());
                }
                Some(Err(why)) => v.count_dropped(why, 1),
                None => break,
            }
        }
        v.leave_all(To::Output);
    }
}

/// Puts `frame` into the vector, as a packet from the pool of its output port; returns its index
/// and that port.
fn take(
    v: &mut View<'_, KernelInput>,
    way: Option<(&tables::Iface, u16)>,
    frame: &[u8],
    tagged: &mut Vec<u8>,
) -> Result<(usize, PortId), Why> {
    let (iface, pool) = way.ok_or(Why::NoInterface)?;
    let port = v.ports().get(pool).ok_or(Why::NoInterface)?;
    if frame.len() < ethernet::LEN {
        return Err(Why::Runt);
    }
    if frame.len() + 8 > LONGEST {
        return Err(Why::NoBuffer);
    }
    let frame = with_tags(iface.tags, frame, tagged);
    let mut packet = port.allocate().ok_or(Why::NoBuffer)?;
    let (packet, why) = match packet.fill(frame) {
        false => (packet, Why::NoBuffer),
        true => match v.push(packet, pool) {
            Ok(i) => return Ok((i, iface.port)),
            Err(packet) => (packet, Why::NoInterface),
        },
    };
    v.ports().put_back(packet, pool);
    Err(why)
}

/// The port whose pool gives the packet that leaves by `port`: the port itself, or any port for a
/// bridge's routed side.
fn pool(ports: &mut Ports, port: u16, first_routed: u16) -> Option<u16> {
    if port < first_routed || first_routed == 0 {
        return Some(port);
    }
    ports.iter_mut().next().map(|(number, _)| number)
}

/// `frame` with `tags` inserted behind its addresses.
fn with_tags<'f>(tags: Tags, frame: &'f [u8], room: &'f mut Vec<u8>) -> &'f [u8] {
    let (bytes, len) = tags.bytes();
    if len == 0 {
        return frame;
    }
    room.clear();
    room.extend_from_slice(&frame[..12]);
    room.extend_from_slice(&bytes[..len]);
    room.extend_from_slice(&frame[12..]);
    room
}

/// Bytes of the longest frame with its tags: an MTU of 65,000 and the link header.
const LONGEST: usize = 65_000 + 64;
