//! `kernel_input`: frames that the kernel sends by a tap, on to the tap's port.
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
use io::Owned;
use tables::{Forwarding, IfaceId, Ifaces, PortId, Tags};
use wire::bytes::put16;
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
        /// The interface is gone, or its port is another worker's.
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
    /// Where a frame with its tags is put together.
    tagged: Vec<u8>,
    /// A packet of another world than the last vector's.
    held: Option<Sent>,
}

/// What the kernel sends, as a packet.
struct Sent {
    packet: Owned,
    /// The port whose pool it is of.
    pool: u16,
    /// The port to leave by.
    out: PortId,
    iface: IfaceId,
}

impl KernelInput {
    /// A node that empties `ring`, whose records have the interface to leave by.
    pub fn new(ring: Consumer, forwarding: Arc<Forwarding>, counters: Arc<IfaceCounters>) -> Self {
        let tagged = Vec::with_capacity(LONGEST);
        KernelInput { ring, forwarding, counters, tagged, held: None }
    }
}

impl Node for KernelInput {
    type Edge = To;
    type Drop = Why;
    const NAME: &'static str = "kernel_input";
    const HELP: &'static str = "takes frames from the kernel's taps";
    const SOURCE: bool = true;

    fn process(&mut self, v: &mut View<'_, Self>) {
        if self.ring.is_empty() && self.held.is_none() {
            return;
        }
        let ifaces = self.forwarding.ifaces.load(v.guard());
        let first_routed = self.forwarding.bridges.load(v.guard()).first_routed;
        let (ring, tagged) = (&mut self.ring, &mut self.tagged);
        for _ in 0..io::BURST {
            let next = self.held.take().map(Ok).or_else(|| {
                ring.pop(|meta, frame| {
                    v.account(Account::FromKernel, 1);
                    take(v, ifaces, IfaceId(meta.iface), frame, (first_routed, tagged))
                })
            });
            match next.map(|made| made.and_then(|sent| put(v, sent, &self.counters))) {
                Some(Ok(None)) => {}
                Some(Ok(other)) => {
                    self.held = other;
                    break;
                }
                Some(Err(why)) => v.count_dropped(why, 1),
                None => break,
            }
        }
        v.leave_all(To::Output);
    }
}

/// Makes a packet of `frame`.
fn take(
    v: &mut View<'_, KernelInput>,
    ifaces: &Ifaces,
    id: IfaceId,
    frame: &[u8],
    (first_routed, tagged): (u16, &mut Vec<u8>),
) -> Result<Sent, Why> {
    let iface = ifaces.get(id).ok_or(Why::NoInterface)?;
    let pool = pool(v.ports(), iface.port.0, first_routed).ok_or(Why::NoInterface)?;
    let port = v.ports().get(pool).ok_or(Why::NoInterface)?;
    if frame.len() < ethernet::LEN {
        return Err(Why::Runt);
    }
    if frame.len() + 8 > LONGEST {
        return Err(Why::NoBuffer);
    }
    let frame = with_tags(iface.tags, frame, tagged);
    let mut packet = port.allocate().ok_or(Why::NoBuffer)?;
    if !packet.fill(frame) {
        port.free(&mut [Some(packet)]);
        return Err(Why::NoBuffer);
    }
    Ok(Sent { packet, pool, out: iface.port, iface: id })
}

/// Puts it into the vector. One of another world than those there is given back:
/// it is the next vector's first.
fn put(
    v: &mut View<'_, KernelInput>,
    sent: Sent,
    counters: &IfaceCounters,
) -> Result<Option<Sent>, Why> {
    let Sent { packet, pool, out, iface } = sent;
    let bytes = packet.data().len() as u64;
    match v.push(packet, pool) {
        Ok(i) => {
            v.set(OutPort, i, out);
            v.set(Iface, i, iface);
            counters.sent(iface, 1, bytes);
            Ok(None)
        }
        Err(packet) if v.n() > 0 => Ok(Some(Sent { packet, pool, out, iface })),
        Err(packet) => {
            v.ports().free(pool, &mut [Some(packet)]);
            Err(Why::NoInterface) // the port has gone
        }
    }
}

/// The port of whose pool a packet that leaves by `port` is: that port, or any
/// for a bridge's routed side.
fn pool(ports: &mut Ports, port: u16, first_routed: u16) -> Option<u16> {
    if port < first_routed || first_routed == 0 {
        return Some(port);
    }
    ports.iter_mut().next().map(|(number, _)| number)
}

/// `frame` with `tags` behind its addresses.
fn with_tags<'f>(tags: Tags, frame: &'f [u8], room: &'f mut Vec<u8>) -> &'f [u8] {
    let mut bytes = [0; 8];
    let len = match tags {
        Tags::None => return frame,
        Tags::Dot1q(vlan) => {
            put16(&mut bytes, 0, ethernet::VLAN);
            put16(&mut bytes, 2, vlan);
            4
        }
        Tags::QinQ(outer, inner) => {
            put16(&mut bytes, 0, ethernet::QINQ);
            put16(&mut bytes, 2, outer);
            put16(&mut bytes, 4, ethernet::VLAN);
            put16(&mut bytes, 6, inner);
            8
        }
    };
    room.clear();
    room.extend_from_slice(&frame[..12]);
    room.extend_from_slice(&bytes[..len]);
    room.extend_from_slice(&frame[12..]);
    room
}

/// Longest frame with its tags: an MTU of 65,000 and the link header.
const LONGEST: usize = 65_000 + 64;
