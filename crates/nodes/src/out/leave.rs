//! How a node sends a packet by an adjacency that it has found itself.

use graph::Packets;
use tables::adjacency::Cell;
use tables::{IfaceId, PortId};

use crate::counters::IfaceCounters;

/// Makes packet `i`, of `len` bytes from its head on, a frame on its way; gives where it
/// leaves, or `None` where there is no room before it.
#[inline]
pub(crate) fn leave<N>(
    v: &mut Packets<N>,
    i: usize,
    cell: &Cell,
    (len, ethertype): (u16, u16),
    counters: &IfaceCounters,
) -> Option<(PortId, IfaceId)> {
    let out = cell.out();
    // What a minimal frame was filled up with may stay behind a packet.
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
