//! What both families' rewrite does below layer 3.

use graph::{BEFORE, Node, View};
use tables::adjacency::{Cell, Out};
use wire::ethernet;

use crate::counters::IfaceCounters;

/// A packet's EtherType and length from its head.
pub(crate) struct L3 {
    pub kind: u16,
    pub total: u16,
}

/// Gives packet `i` the link header of `cell`, with the EtherType of its own
/// family (an adjacency serves both: RFC 8950), and counts it. Bytes behind the
/// packet's end are cut off, but for the padding of a minimal frame.
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
    write(v.before_mut(i), out.len(), cell.header(), kind);
    let (l2, len) = (usize::from(out.len()), v.len(i));
    // Nearly always the old header was as long as the new one, and nothing
    // follows the packet: then the descriptor is right as it is.
    let longer = (total < len) & (len > MIN_PAYLOAD);
    if longer | (v.l2(i) != l2) {
        v.frame(i, l2, usize::from(total.max(len.min(MIN_PAYLOAD))));
    }
    v.out[i] = out.port().0;
    v.iface[i] = out.iface().0;
    counters.sent(out.iface(), 1, l2 as u64 + u64::from(v.len(i)));
}

/// Writes the link header, `len` bytes at the end of `words`. An untagged one is
/// written by itself: three whole words would touch the line before the frame,
/// which nobody else does (a cache miss a packet, 30 to 40 cycles).
#[inline(always)]
fn write(before: &mut [u8; BEFORE], len: u8, words: [u64; 3], kind: u16) {
    let [first, second, last] = words.map(u64::from_le);
    let last = last & !(0xffff << 48) | u64::from(kind.swap_bytes()) << 48;
    let mut put = |at: usize, word: u64| before[at..at + 8].copy_from_slice(&word.to_le_bytes());
    if usize::from(len) == ethernet::LEN {
        put(10, second >> 16 | last << 48);
    } else {
        put(0, first);
        put(8, second);
    }
    put(16, last);
}

/// Bytes of layer 3 in a minimal Ethernet frame (IEEE 802.3).
const MIN_PAYLOAD: u16 = 46;
