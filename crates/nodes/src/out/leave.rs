//! How a node sends a packet by an adjacency that the node itself has found.

use graph::Packets;
use tables::adjacency::Cell;
use tables::{IfaceId, PortId};

use crate::counters::IfaceCounters;

/// Turns packet `i`, of `len` bytes from its head on, into a frame. Returns the port that it leaves
/// by, or `None` where there is no room for the link header.
#[inline]
pub(crate) fn leave<N>(
    v: &mut Packets<N>,
    i: usize,
    cell: &Cell,
    (len, ethertype): (u16, u16),
    counters: &IfaceCounters,
) -> Option<(PortId, IfaceId)> {
    let out = cell.out();
    // The padding of a minimal frame may stay behind a packet.
    let kept = len.max(v.len(i).min(MIN_PAYLOAD));
    if !v.frame(i, out.len().into(), kept.into()) {
        return None;
    }
    if !out.is_used() {
        cell.mark_used();
    }
    cell.write(out.used(), v.before_mut(i), ethertype);
    counters.sent(out.iface(), 1, u64::from(out.len()) + u64::from(kept));
    Some((out.port(), out.iface()))
}

/// Bytes of layer 3 in a minimal Ethernet frame (IEEE 802.3).
const MIN_PAYLOAD: u16 = 46;
