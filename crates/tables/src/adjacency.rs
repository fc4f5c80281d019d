//! Adjacencies: all that the rewrite of a packet needs, in one cache line.
//!
//! ```text
//!  word 0   iface 16 │ port 16 │ mtu 16 │ len
//!  word 1-3 24 bytes that end where layer 3 begins: the link header, right-aligned
//! ```

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::{IfaceId, PortId, Tags};

/// An adjacency by index; 0 is none.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[repr(transparent)]
pub struct AdjacencyId(pub u32);

impl From<u32> for AdjacencyId {
    #[inline(always)]
    fn from(index: u32) -> AdjacencyId {
        AdjacencyId(index)
    }
}

impl From<AdjacencyId> for u32 {
    #[inline(always)]
    fn from(id: AdjacencyId) -> u32 {
        id.0
    }
}

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
    /// The link header, right-aligned: byte 23 is the last before layer 3.
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
        let (bytes, len) = tags.bytes();
        link.extend_from_slice(&bytes[..len]);
        link.extend_from_slice(&ethertype.to_be_bytes());
        let mut header = [0; HEADER];
        header[HEADER - link.len()..].copy_from_slice(&link);
        Adjacency { iface, port, mtu, len: link.len() as u8, header }
    }
}

/// An adjacency as it lies in memory: written once, before its id is published;
/// atomics only so that a stale reader is never a data race.
///
/// ```text
///  word 0   iface 16 │ port 16 │ mtu 16 │ – │ len 8 │ – │ used 1     lowest bits first
///  word 1   header bytes 0..8; of an untagged header, which starts later: 10..18
///  word 2   header bytes 8..16
///  word 3   header bytes 16..24
/// ```
///
/// An untagged header is words 1 and 3, stored as they are. `used` is written by
/// whoever rewrites packets and only when it changes, so that workers do not
/// fight for the line; control clears it.
#[derive(Debug, Default)]
#[repr(C, align(32))]
pub struct Cell([AtomicU64; 4]);

impl Cell {
    /// Writes; the caller publishes the id afterwards (release).
    pub fn set(&self, adjacency: &Adjacency) {
        let word0 = u64::from(adjacency.iface.0)
            | u64::from(adjacency.port.0) << 16
            | u64::from(adjacency.mtu) << 32
            | u64::from(adjacency.len) << LEN;
        self.0[0].store(word0, Relaxed);
        let first = if usize::from(adjacency.len) == UNTAGGED { UNTAGGED_AT } else { 0 };
        for (word, at) in self.0[1..].iter().zip([first, 8, 16]) {
            let bytes = adjacency.header[at..at + 8].try_into().expect("eight bytes");
            word.store(u64::from_le_bytes(bytes), Relaxed);
        }
    }

    /// Interface, port, MTU and header length.
    #[inline(always)]
    pub fn out(&self) -> Out {
        Out(self.0[0].load(Relaxed))
    }

    /// Writes the link header that `out` ([`Cell::out`], in use) describes, with the
    /// packet's own EtherType (an adjacency serves both families: RFC 8950). Nothing
    /// before an untagged one is touched: it is in a line that nobody else needs (30
    /// to 40 cycles a packet).
    #[inline(always)]
    pub fn write(&self, out: Out, before: &mut [u8; HEADER], ethertype: u16) {
        self.put(before, 16, 3);
        if out.is_untagged() {
            self.put(before, UNTAGGED_AT, 1);
        } else {
            self.put(before, 0, 1);
            self.put(before, 8, 2);
        }
        before[HEADER - 2..].copy_from_slice(&ethertype.to_be_bytes());
    }

    #[inline(always)]
    fn put(&self, before: &mut [u8; HEADER], at: usize, i: usize) {
        before[at..at + 8].copy_from_slice(&self.0[i].load(Relaxed).to_le_bytes());
    }

    /// States that a packet left by this adjacency.
    #[cold]
    pub fn mark_used(&self) {
        self.0[0].fetch_or(USED, Relaxed);
    }

    /// True when a packet left by this adjacency since the last call.
    pub fn take_used(&self) -> bool {
        self.out().is_used() && self.0[0].fetch_and(!USED, Relaxed) & USED != 0
    }

    /// All of it.
    pub fn get(&self) -> Adjacency {
        let out = self.out();
        let mut header = [0; HEADER];
        let ethertype = (self.0[3].load(Relaxed) >> 48) as u16;
        self.write(out.used(), &mut header, ethertype.swap_bytes());
        Adjacency { iface: out.iface(), port: out.port(), mtu: out.mtu(), len: out.len(), header }
    }
}

/// Bytes of an untagged header, and where it starts.
const UNTAGGED: usize = 14;
const UNTAGGED_AT: usize = HEADER - UNTAGGED;
/// The sign, which is the cheapest bit to ask for.
const USED: u64 = 1 << 63;
/// Where the length is. Not at a whole byte: the compiler would compare it in place,
/// by two constants of 64 bits.
const LEN: u32 = 49;

/// The first word of an adjacency.
#[derive(Clone, Copy, Debug)]
pub struct Out(u64);

impl Out {
    /// Interface by which the packet leaves.
    #[inline(always)]
    pub fn iface(self) -> IfaceId {
        IfaceId(self.0 as u16)
    }
    /// Its port.
    #[inline(always)]
    pub fn port(self) -> PortId {
        PortId((self.0 >> 16) as u16)
    }
    /// Bytes of layer 3 that fit.
    #[inline(always)]
    pub fn mtu(self) -> u16 {
        (self.0 >> 32) as u16
    }
    /// Bytes of the link header.
    #[inline(always)]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(self) -> u8 {
        (self.0 >> LEN) as u8
    }
    /// The same in use.
    #[inline]
    pub fn used(self) -> Out {
        Out(self.0 | USED)
    }
    /// True for a header without tags; it is in use.
    #[inline(always)]
    fn is_untagged(self) -> bool {
        self.0 >> LEN == USED >> LEN | UNTAGGED as u64
    }
    /// True once a packet left by it.
    #[inline(always)]
    pub fn is_used(self) -> bool {
        self.0 & USED != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Outer;

    /// Lanes keep ids as numbers.
    #[test]
    fn an_id_is_its_number() {
        assert_eq!((AdjacencyId::from(7), u32::from(AdjacencyId(7))), (AdjacencyId(7), 7));
    }

    #[test]
    fn the_outer_tag_has_its_type() {
        let link = |kind| {
            let tags = Tags::QinQ(kind, 0x123, 0x456);
            Adjacency::new(Default::default(), [2; 6], [4; 6], tags, 0x0800).header
        };
        let [ad, q] = Outer::ALL.map(link);
        assert_eq!(ad[14..], [0x88, 0xa8, 1, 0x23, 0x81, 0, 4, 0x56, 8, 0]);
        assert_eq!(q[14..], [0x81, 0, 1, 0x23, 0x81, 0, 4, 0x56, 8, 0]);
    }

    #[test]
    fn a_cell_gives_back_what_was_written() {
        let out = (IfaceId(7), PortId(3), 1500);
        let [ad, q] = Outer::ALL.map(|kind| Tags::QinQ(kind, 5, 6));
        for (tags, len) in [(Tags::None, 14), (Tags::Dot1q(100), 18), (ad, 22), (q, 22)] {
            let adjacency = Adjacency::new(out, [2; 6], [4; 6], tags, 0x0800);
            let cell = Cell::default();
            cell.set(&adjacency);
            assert_eq!(cell.get(), adjacency);
            let mut before = [0xee; HEADER];
            cell.write(cell.out().used(), &mut before, 0x86dd);
            assert_eq!(before[22..], [0x86, 0xdd]);
            assert_eq!(
                before[HEADER - usize::from(len)..22],
                adjacency.header[HEADER - usize::from(len)..22]
            );
            assert!(len != 14 || before[..10] == [0xee; 10], "nothing before an untagged header");
            assert!(!cell.take_used());
            cell.mark_used();
            assert_eq!((cell.get(), cell.take_used(), cell.take_used()), (adjacency, true, false));
            assert_eq!(cell.out().len(), len);
            assert_eq!(adjacency.header[22..], [8, 0]);
            assert_eq!(adjacency.header[HEADER - len as usize..][..6], [2; 6]);
        }
    }
}
