//! Cuts off the bytes behind a packet in its frame: padding, or bytes that a sender has added.

use std::sync::{Arc, OnceLock};

use graph::{Node, View};

/// Bytes of layer 3 in a minimal Ethernet frame (IEEE 802.3).
pub const MIN_PAYLOAD: u16 = 46;

/// Cuts off the bytes behind packet `i` in its frame, except the padding of a minimal frame. From
/// here on the frame is as long as the packet.
#[inline(never)]
pub fn cut<N: Node>(v: &mut View<'_, N>, i: usize, total: u16) {
    let kept = total.max(v.len(i).min(MIN_PAYLOAD));
    let l2 = v.frame_len(i).wrapping_sub(v.len(i));
    v.frame(i, l2.into(), usize::from(kept));
}

/// Whether a graph's header checks leave the cut to the node behind their edge `longer`. That node
/// needs to know how many bytes the frame had when it was received.
#[derive(Clone, Debug, Default)]
pub struct Uncut(Arc<OnceLock<()>>);

impl Uncut {
    /// Declares that the graph has that node.
    pub fn leave(&self) {
        self.0.get_or_init(|| ());
    }

    /// [`cut`], unless that node does it.
    pub fn cut<N: Node>(&self, v: &mut View<'_, N>, i: usize, total: u16) {
        if self.0.get().is_none() {
            cut(v, i, total);
        }
    }
}
