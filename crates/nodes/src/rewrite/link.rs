//! What both families' rewrite does below layer 3.

use graph::{BEFORE, Node, View};
use tables::adjacency::{Cell, Out};
use wire::bytes::put16;

use crate::counters::IfaceCounters;

/// A packet's EtherType and length from its head.
pub(crate) struct L3 {
    pub kind: u16,
    pub total: u16,
}

/// Gives packet `i` the link header of `cell`, with the EtherType of its own
/// family (an adjacency serves both: RFC 8950), and counts it. Bytes behind the packet's end are cut off, but for the padding
/// of a minimal frame.
#[inline(always)]
pub(crate) fn rewrite<N: Node>(
    v: &mut View<'_, N>,
    i: usize,
    packet: L3,
    cell: &Cell,
    out: Out,
    counters: &IfaceCounters,
) {
    let L3 { kind, total } = packet;
    let before = v.before_mut(i);
    for (bytes, word) in before.chunks_exact_mut(8).zip(cell.header()) {
        bytes.copy_from_slice(&word.to_ne_bytes());
    }
    put16(before, BEFORE - 2, kind);
    let l2 = usize::from(out.len());
    let l3 = total.max(v.len(i).min(MIN_PAYLOAD));
    v.frame(i, l2, usize::from(l3));
    v.out[i] = out.port().0;
    v.iface[i] = out.iface().0;
    counters.sent(out.iface(), 1, l2 as u64 + u64::from(l3));
}

/// Bytes of layer 3 in a minimal Ethernet frame (IEEE 802.3).
const MIN_PAYLOAD: u16 = 46;
