//! Network layer: header checks, lookup, choice among several paths.

pub mod ip4_input;
pub mod ip6_input;
pub mod ip_lookup;
pub mod ip_multipath;
pub(crate) mod step;

use graph::{Node, View};

/// Bytes of layer 3 in a minimal Ethernet frame (IEEE 802.3).
const MIN_PAYLOAD: u16 = 46;

/// True when nothing follows a packet of `total` bytes in the `len` that its
/// frame has for it, but for the padding of a minimal frame.
#[inline(always)]
fn is_exact(total: u16, len: u16) -> bool {
    // Wraps to more than is allowed where the packet is longer than its frame.
    len.wrapping_sub(total) <= MIN_PAYLOAD.saturating_sub(total)
}

/// Cuts off what follows packet `i` in its frame, but for the padding of a
/// minimal frame: from here on the frame is as long as the packet.
#[inline(never)]
fn cut<N: Node>(v: &mut View<'_, N>, i: usize, total: u16) {
    let kept = total.max(v.len(i).min(MIN_PAYLOAD));
    let l2 = v.frame_len(i).wrapping_sub(v.len(i));
    v.frame(i, l2.into(), usize::from(kept));
}
