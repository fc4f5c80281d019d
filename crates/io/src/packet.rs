//! The packet descriptor and the two kinds of pointer to it.

use std::ptr::NonNull;

/// One packet's descriptor. It stands in front of its buffer and is laid out
/// like DPDK's `rte_mbuf` in every field that both use (asserted at compile
/// time in `io-dpdk`), so that the DPDK port hands packets over unchanged.
///
/// ```text
///  Packet (128 B)  │ headroom 128 B │ data …            │ tailroom │
///                  ▲ buf            ▲ buf + data_off    ▲ + data_len
///  line 0: what drivers fill        line 1: only gatekeeper nodes and drivers write it
/// ```
///
/// Invariants: I1: at least 64 bytes after `buf + data_off` are readable,
/// whatever `data_len` says. I2: one segment (`segs == 1`, `next` null).
/// I3: `refcnt == 1` while a port or node holds it.
#[repr(C, align(64))]
pub struct Packet {
    /// Start of the buffer (the headroom).
    pub buf: *mut u8,
    /// Bus address of `buf`; DPDK's, unused in Rutter's own world.
    pub iova: u64,
    /// Bytes from `buf` to the first byte of data.
    pub data_off: u16,
    /// Always 1 (I3).
    pub refcnt: u16,
    /// Always 1 (I2).
    pub segs: u16,
    /// The device's number for the port it came in by.
    pub port: u16,
    /// DPDK's offload flags ([`Packet::HAS_HASH`] among them).
    pub flags: u64,
    /// DPDK's packet type.
    pub kind: u32,
    /// Bytes of the packet, all segments.
    pub pkt_len: u32,
    /// Bytes of the packet in this segment: all of them (I2).
    pub data_len: u16,
    /// A VLAN tag that the device stripped.
    pub vlan: u16,
    /// The device's hash of the flow, valid if `flags` has [`Packet::HAS_HASH`].
    pub flow: u32,
    /// The hash field's upper half.
    pub flow_hi: u32,
    /// An outer VLAN tag that the device stripped.
    pub vlan_outer: u16,
    /// Bytes of the buffer, headroom included.
    pub buf_len: u16,
    /// The pool that the packet returns to: DPDK's, or Rutter's own.
    pub pool: *mut u8,
    /// Always null (I2).
    pub next: *mut Packet,
    /// Header lengths for offloads, in DPDK's bit layout.
    pub tx_offset: u64,
    /// DPDK's shared-buffer information; null.
    pub shared: *mut u8,
    /// Bytes of private area between descriptor and buffer.
    pub priv_size: u16,
    /// DPDK's time-synchronisation flags.
    pub timesync: u16,
    /// DPDK's dynamic fields.
    pub dynamic: [u32; 9],
}

const _: () = assert!(size_of::<Packet>() == 128 && align_of::<Packet>() == 64);

impl Packet {
    /// In `flags`: the device computed `flow` (`RTE_MBUF_F_RX_RSS_HASH`).
    pub const HAS_HASH: u64 = 1 << 1;
    /// Bytes before the data in a fresh packet (`RTE_PKTMBUF_HEADROOM`).
    pub const HEADROOM: u16 = 128;
    /// Bytes before the data that stay free, for nodes that write link headers.
    pub const KEPT: u16 = 32;
}

/// Whose pool a packet returns to. Packets of one world never enter the other's
/// ports uncopied.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum World {
    /// Rutter's own pools: ports `mem`, `pcap`, `tap`.
    Own,
    /// DPDK's mempools.
    Dpdk,
}

/// Owns one packet. Only ports and pools take packets back; dropping an
/// `Owned` anywhere else is a bug and panics in debug builds, so none leaks.
#[repr(transparent)]
pub struct Owned(NonNull<Packet>);

// SAFETY: a packet is owned by one thread at a time and holds no thread-local state.
unsafe impl Send for Owned {}

impl Owned {
    /// Takes ownership of a packet.
    ///
    /// # Safety
    /// `packet` must be valid and initialised (I1–I3), and nobody else may own it.
    #[inline]
    pub unsafe fn from_raw(packet: NonNull<Packet>) -> Self {
        Owned(packet)
    }

    /// Gives ownership up, to a pool or a driver.
    #[inline]
    pub fn into_raw(self) -> NonNull<Packet> {
        let raw = self.0;
        std::mem::forget(self);
        raw
    }

    /// The descriptor's place; ownership stays here.
    #[inline]
    pub fn as_raw(&self) -> NonNull<Packet> {
        self.0
    }

    /// The descriptor.
    #[inline]
    pub fn packet(&self) -> &Packet {
        // SAFETY: owned, so valid and not written by anyone else.
        unsafe { self.0.as_ref() }
    }

    /// The descriptor, to be changed. Callers keep I1–I3.
    #[inline]
    pub fn packet_mut(&mut self) -> &mut Packet {
        // SAFETY: owned, so valid and not shared.
        unsafe { self.0.as_mut() }
    }

    /// The packet's bytes.
    #[inline]
    pub fn data(&self) -> &[u8] {
        let len = usize::from(self.packet().data_len);
        // SAFETY: data_off .. data_off + data_len lies in the buffer that this packet owns.
        unsafe { std::slice::from_raw_parts(self.head().as_ptr(), len) }
    }

    /// The packet's bytes, to be changed.
    #[inline]
    pub fn data_mut(&mut self) -> &mut [u8] {
        let len = usize::from(self.packet().data_len);
        // SAFETY: as in `data`, and not shared.
        unsafe { std::slice::from_raw_parts_mut(self.head().as_ptr(), len) }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        debug_assert!(std::thread::panicking(), "a packet was dropped outside a port or pool");
    }
}

/// Where a node reads and writes: a place inside a packet's buffer with at
/// least 64 readable and writable bytes after it (I1), whatever the packet's
/// length is.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Head(NonNull<u8>);

// SAFETY: as for `Owned`, whose packet it points into.
unsafe impl Send for Head {}

impl Head {
    /// A head at `place`.
    ///
    /// # Safety
    /// At least 64 bytes from `place` must lie in the packet's buffer, and the
    /// packet must stay where it is for as long as the head is used.
    #[inline]
    pub unsafe fn new(place: NonNull<u8>) -> Self {
        Head(place)
    }

    /// The place.
    #[inline]
    pub fn as_ptr(self) -> *mut u8 {
        self.0.as_ptr()
    }
}

impl Owned {
    /// Where the data starts.
    #[inline]
    pub fn head(&self) -> Head {
        let packet = self.packet();
        // SAFETY: the data lies inside the buffer.
        let data = unsafe { packet.buf.add(usize::from(packet.data_off)) };
        // SAFETY: a buffer is not at address 0.
        Head(unsafe { NonNull::new_unchecked(data) })
    }
}

impl Owned {
    /// Bytes of data that fit behind the headroom with I1 kept: 64 bytes of the
    /// buffer stay free behind them.
    #[inline]
    pub fn room(&self) -> usize {
        usize::from(self.packet().buf_len.saturating_sub(Packet::HEADROOM + 64))
    }

    /// Makes `data` the packet's bytes, behind a whole headroom; `false`, and
    /// nothing changed, where there is no room for it.
    #[inline]
    pub fn fill(&mut self, data: &[u8]) -> bool {
        if data.len() > self.room() {
            return false;
        }
        self.set_len(data.len() as u16);
        self.data_mut().copy_from_slice(data);
        true
    }

    /// Makes this packet a copy of another, of whichever world: its bytes,
    /// port, flow hash and stripped tags. `false`, and nothing changed, where
    /// there is no room for it.
    #[inline]
    pub fn copy_from(&mut self, other: &Owned) -> bool {
        if !self.fill(other.data()) {
            return false;
        }
        let from = other.packet();
        let to = self.packet_mut();
        to.port = from.port;
        to.flags = from.flags & Packet::HAS_HASH;
        to.flow = from.flow;
        to.vlan = from.vlan;
        to.vlan_outer = from.vlan_outer;
        true
    }

    /// Makes room for `n` bytes in front of the data, of whatever value; `false`,
    /// and nothing done, where that left less than [`Packet::KEPT`] before them.
    #[inline]
    pub fn prepend(&mut self, n: usize) -> bool {
        let packet = self.packet_mut();
        let fits = usize::from(packet.data_off) >= n + usize::from(Packet::KEPT);
        if fits {
            packet.data_off -= n as u16;
            packet.data_len += n as u16;
            packet.pkt_len += n as u32;
        }
        fits
    }

    /// Takes the first `n` bytes off; `false`, and nothing done, where there are
    /// not so many.
    #[inline]
    pub fn strip(&mut self, n: usize) -> bool {
        let packet = self.packet_mut();
        let fits = usize::from(packet.data_len) >= n;
        if fits {
            packet.data_off += n as u16;
            packet.data_len -= n as u16;
            packet.pkt_len -= n as u32;
        }
        fits
    }

    /// Says that `len` bytes behind a whole headroom are the packet; at most
    /// [`Owned::room`].
    #[inline]
    pub(crate) fn set_len(&mut self, len: u16) {
        let packet = self.packet_mut();
        packet.data_off = Packet::HEADROOM;
        packet.data_len = len;
        packet.pkt_len = u32::from(len);
    }
}

impl Head {
    /// A place of 64 zero bytes that belongs to no packet: what unused entries
    /// of a burst hold, so that every head is readable. Never written: nodes
    /// touch only entries below `n`.
    pub fn nowhere() -> Head {
        #[repr(align(64))]
        struct Line(std::cell::UnsafeCell<[u8; 64]>);
        // SAFETY: nobody writes it (see above), so it may be shared.
        unsafe impl Sync for Line {}
        static NOWHERE: Line = Line(std::cell::UnsafeCell::new([0; 64]));
        Head(NonNull::new(NOWHERE.0.get().cast()).expect("a static is not null"))
    }
}
