//! Network layer: header checks, lookup, choice among several paths.

pub mod ip4_input;
pub mod ip4_link_local;
pub mod ip6_input;
pub mod ip_front;
pub mod ip_lookup;
pub mod ip_multipath;
pub mod ip_sides;
pub mod ip_source;
pub(crate) mod step;

use graph::{Node, View};

/// Bytes of layer 3 in a minimal Ethernet frame (IEEE 802.3).
const MIN_PAYLOAD: u16 = 46;

/// Cuts off what follows packet `i` in its frame, but for the padding of a
/// minimal frame: from here on the frame is as long as the packet.
#[inline(never)]
fn cut<N: Node>(v: &mut View<'_, N>, i: usize, total: u16) {
    let kept = total.max(v.len(i).min(MIN_PAYLOAD));
    let l2 = v.frame_len(i).wrapping_sub(v.len(i));
    v.frame(i, l2.into(), usize::from(kept));
}
