//! What a port fills and a graph works through.

use crate::{Head, Owned};

/// Room of a vector, in packets.
pub const VECTOR: usize = 256;

/// Packets of one receive burst.
pub const BURST: usize = 64;

/// Up to [`VECTOR`] packets: entries `0..n` of each array are valid, the others
/// are `None` (packets) or stale.
#[repr(C, align(64))]
pub struct Burst {
    /// Number of packets.
    pub n: u16,
    /// The packets; `Some` in `0..n`.
    pub pkt: [Option<Owned>; VECTOR],
    /// Where the current header starts: the first data byte on receive.
    pub head: [Head; VECTOR],
    /// Bytes from `head` to the end of the packet.
    pub len: [u16; VECTOR],
}

impl Burst {
    /// An empty burst on the heap; its heads point to a shared place of zeros.
    pub fn new() -> Box<Burst> {
        Box::new(Burst {
            n: 0,
            pkt: [const { None }; VECTOR],
            head: [Head::nowhere(); VECTOR],
            len: [0; VECTOR],
        })
    }

    /// Appends a packet: `head` and `len` are its data's.
    ///
    /// # Panics
    /// When the burst is full.
    #[inline]
    pub fn push(&mut self, packet: Owned) {
        let i = usize::from(self.n);
        self.head[i] = packet.head();
        self.len[i] = packet.packet().data_len;
        self.pkt[i] = Some(packet);
        self.n += 1;
    }
}
