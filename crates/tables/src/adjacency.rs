//! Adjacencies: all that the rewrite of a packet needs, in one cache line.
//!
//! ```text
//!  word 0   iface 16 │ port 16 │ mtu 16 │ len 8 │ –
//!  word 1-3 24 bytes that end where layer 3 begins: the link header, right-aligned
//! ```

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::{IfaceId, PortId, Tags};

/// An adjacency by index; 0 is none.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[repr(transparent)]
pub struct AdjacencyId(pub u32);

/// Where a packet leaves, and the link header it gets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Adjacency {
    /// Interface by which it leaves.
    pub iface: IfaceId,
    /// The port of that interface.
    pub port: PortId,
    /// Bytes of layer 3 that fit.
    pub mtu: u16,
    /// Bytes of the link header: 14, 18 or 22.
    pub len: u8,
    /// The link header, right-aligned: byte 23 stands before layer 3.
    pub header: [u8; HEADER],
}

/// Bytes written before layer 3; the link header is at the end of them.
pub const HEADER: usize = 24;

impl Adjacency {
    /// The link header `dst`, `src`, tags; the last two bytes are `ethertype`.
    pub fn new(
        (iface, port, mtu): (IfaceId, PortId, u16),
        dst: [u8; 6],
        src: [u8; 6],
        tags: Tags,
        ethertype: u16,
    ) -> Self {
        let mut link = Vec::with_capacity(HEADER);
        link.extend_from_slice(&dst);
        link.extend_from_slice(&src);
        let mut word = |value: u16| link.extend_from_slice(&value.to_be_bytes());
        match tags {
            Tags::None => {}
            Tags::Dot1q(vlan) => [DOT1Q, vlan].into_iter().for_each(&mut word),
            Tags::QinQ(outer, inner) => {
                [DOT1AD, outer, DOT1Q, inner].into_iter().for_each(&mut word)
            }
        }
        word(ethertype);
        let mut header = [0; HEADER];
        header[HEADER - link.len()..].copy_from_slice(&link);
        Adjacency { iface, port, mtu, len: link.len() as u8, header }
    }
}

const DOT1Q: u16 = 0x8100;
const DOT1AD: u16 = 0x88a8;

/// An adjacency as it lies in memory: written once, before its id is published;
/// atomics only so that a stale reader is never a data race.
#[derive(Debug, Default)]
#[repr(C, align(32))]
pub struct Cell([AtomicU64; 4]);

impl Cell {
    /// Writes; the caller publishes the id afterwards (release).
    pub fn set(&self, adjacency: &Adjacency) {
        let word0 = u64::from(adjacency.iface.0)
            | u64::from(adjacency.port.0) << 16
            | u64::from(adjacency.mtu) << 32
            | u64::from(adjacency.len) << 48;
        self.0[0].store(word0, Relaxed);
        for (word, bytes) in self.0[1..].iter().zip(adjacency.header.chunks_exact(8)) {
            word.store(u64::from_ne_bytes(bytes.try_into().expect("chunks of 8")), Relaxed);
        }
    }

    /// Interface, port, MTU and header length.
    #[inline]
    pub fn out(&self) -> Out {
        Out(self.0[0].load(Relaxed))
    }

    /// The 24 bytes before layer 3 as three words, in memory order.
    #[inline]
    pub fn header(&self) -> [u64; 3] {
        [self.0[1].load(Relaxed), self.0[2].load(Relaxed), self.0[3].load(Relaxed)]
    }

    /// All of it.
    pub fn get(&self) -> Adjacency {
        let out = self.out();
        let mut header = [0; HEADER];
        for (bytes, word) in header.chunks_exact_mut(8).zip(self.header()) {
            bytes.copy_from_slice(&word.to_ne_bytes());
        }
        Adjacency { iface: out.iface(), port: out.port(), mtu: out.mtu(), len: out.len(), header }
    }
}

/// The first word of an adjacency.
#[derive(Clone, Copy, Debug)]
pub struct Out(u64);

impl Out {
    /// Interface by which the packet leaves.
    #[inline]
    pub fn iface(self) -> IfaceId {
        IfaceId(self.0 as u16)
    }
    /// Its port.
    #[inline]
    pub fn port(self) -> PortId {
        PortId((self.0 >> 16) as u16)
    }
    /// Bytes of layer 3 that fit.
    #[inline]
    pub fn mtu(self) -> u16 {
        (self.0 >> 32) as u16
    }
    /// Bytes of the link header.
    #[inline]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(self) -> u8 {
        (self.0 >> 48) as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_gives_back_what_was_written() {
        let out = (IfaceId(7), PortId(3), 1500);
        for (tags, len) in [(Tags::None, 14), (Tags::Dot1q(100), 18), (Tags::QinQ(5, 6), 22)] {
            let adjacency = Adjacency::new(out, [2; 6], [4; 6], tags, 0x0800);
            let cell = Cell::default();
            cell.set(&adjacency);
            assert_eq!(cell.get(), adjacency);
            assert_eq!(cell.out().len(), len);
            assert_eq!(adjacency.header[22..], [8, 0]);
            assert_eq!(adjacency.header[HEADER - len as usize..][..6], [2; 6]);
        }
    }
}
