//! A packet that a node keeps over polls.
//!
//! ```text
//!  process: View::keep ─► Kept ─► the node's own queue ─► tick: View::emit ─► along its edges
//!           View::adopt ─┘   counted as held, from here ──────┴─► to here, or View::discard
//! ```
//!
//! | cost | of a packet: its move and a counter, each way; of a node that keeps: a look over its vectors |
//! |------|-----------------------------------------------------------------------------------------------|

use io::{Owned, World};

/// A packet taken out of the graph by a node, which owes it: emitted or discarded by a
/// [`View`](crate::View) of the same node sooner or later, never dropped as a value.
///
/// It is whole: its head is the frame's first byte when it comes back, and its lanes
/// are what the node fills then. The port it came in by is remembered, because its
/// buffer belongs to that port's world.
pub struct Kept {
    pub(crate) packet: Owned,
    pub(crate) port: u16,
    pub(crate) world: World,
    /// Number in the trace `trace`; 0 for none.
    pub(crate) mark: u16,
    pub(crate) trace: u64,
}

impl Kept {
    /// The frame.
    pub fn data(&self) -> &[u8] {
        self.packet.data()
    }

    /// The frame, to be changed.
    pub fn data_mut(&mut self) -> &mut [u8] {
        self.packet.data_mut()
    }

    /// Makes `data` the frame, of which the device has said nothing; `false`, and nothing
    /// changed, where its buffer has no room for it.
    pub fn fill(&mut self, data: &[u8]) -> bool {
        let fits = self.packet.fill(data);
        if fits {
            self.packet.forget();
        }
        fits
    }

    /// Asks for its descriptor, for it is to be emitted soon.
    #[inline(always)]
    pub fn ask(&self) {
        self.packet.ask();
    }

    /// Asks for the frame's begin, and for what lies before that; the descriptor should be there.
    #[inline(always)]
    pub fn ask_frame(&self) {
        self.packet.ask_data();
    }

    /// The port that it came in by.
    pub fn port(&self) -> u16 {
        self.port
    }
}

/// Why a kept packet was not put in.
pub enum Unsent {
    /// The vector is full, or holds packets of another port: the next one takes it.
    Full(Kept),
    /// Its port is gone: it can only be [discarded](crate::View::discard).
    Gone(Kept),
}

impl Unsent {
    /// The packet.
    pub fn into_kept(self) -> Kept {
        match self {
            Unsent::Full(kept) | Unsent::Gone(kept) => kept,
        }
    }
}
