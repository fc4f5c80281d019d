//! The packet descriptor and the two kinds of pointer to it.

use std::mem::offset_of;
use std::ptr::NonNull;

use crate::hint;

/// Bytes before a head that can be written: three words, the link header at
/// their end.
pub const BEFORE: usize = 24;

pub(crate) mod shadow;

/// One packet's descriptor. It lies in front of its buffer and is laid out
/// like DPDK's `rte_mbuf` in every field that both use (asserted at compile
/// time in `io-dpdk`), so that the DPDK port hands packets over unchanged.
///
/// ```text
///  Packet (128 B)  │ headroom 128 B │ data …            │ tailroom │ 64 B │
///                  ▲ buf            ▲ buf + data_off    ▲ end
///  line 0: what drivers fill        line 1: only gatekeeper nodes and drivers write it
/// ```
///
/// Invariants:
/// - I1: the data, `data_len` bytes from `buf + data_off`, lie in the buffer that
///   the packet owns, and so do the 64 bytes behind them, whatever they hold.
/// - I2: one segment (`segs == 1`, `next` null).
/// - I3: `refcnt == 1` while a port or node holds it.
/// - I4: at least [`BEFORE`] bytes of the buffer lie before the data.
/// - I5: `buf`, `buf_len` and `pool` are what the pool made them; `iova` is `OWN`
///   in Rutter's own pools, and in no other.
/// - I6: only a driver makes `data_len` more than [`Owned::room`], wherever the data start. So a
///   ring may give a packet its whole headroom back.
///
/// Safe code reads the fields through functions, and changes them only through those of [`Owned`],
/// which keep the invariants:
///
/// ```compile_fail,E0616
/// fn move_buffer(packet: &mut io::Packet) {
///     packet.data_len = 60_000;
/// }
/// ```
///
/// ```compile_fail,E0599
/// fn change(packet: &mut io::Owned) {
///     packet.packet_mut();
/// }
/// ```
#[repr(C, align(64))]
pub struct Packet {
    /// Start of the buffer (the headroom).
    pub(crate) buf: *mut u8,
    /// Bus address of `buf`, DPDK's; in Rutter's own world [`OWN`].
    pub(crate) iova: u64,
    /// Bytes from `buf` to the first byte of data.
    pub(crate) data_off: u16,
    /// Always 1 (I3).
    pub(crate) refcnt: u16,
    /// Always 1 (I2).
    pub(crate) segs: u16,
    /// The device's number for the port it came in by.
    pub(crate) port: u16,
    /// DPDK's offload flags ([`Packet::HAS_HASH`] among them).
    pub(crate) flags: u64,
    /// DPDK's packet type.
    pub(crate) kind: u32,
    /// Bytes of the packet, all segments.
    pub(crate) pkt_len: u32,
    /// Bytes of the packet in this segment: all of them (I2).
    pub(crate) data_len: u16,
    /// A VLAN tag that the device stripped.
    pub(crate) vlan: u16,
    /// The device's hash of the flow, valid if `flags` has [`Packet::HAS_HASH`].
    pub(crate) flow: u32,
    /// The hash field's upper half.
    pub(crate) flow_hi: u32,
    /// An outer VLAN tag that the device stripped.
    pub(crate) vlan_outer: u16,
    /// Bytes of the buffer, headroom included.
    pub(crate) buf_len: u16,
    /// The pool that the packet returns to: DPDK's, or Rutter's own.
    pub(crate) pool: *mut u8,
    /// Always null (I2).
    pub(crate) next: *mut Packet,
    /// Header lengths for offloads, in DPDK's bit layout.
    pub(crate) tx_offset: u64,
    /// DPDK's shared-buffer information; null.
    pub(crate) shared: *mut u8,
    /// Bytes of private area between descriptor and buffer.
    pub(crate) priv_size: u16,
    /// DPDK's time-synchronisation flags.
    pub(crate) timesync: u16,
    /// DPDK's dynamic fields.
    pub(crate) dynamic: [u32; 9],
}

const _: () = assert!(size_of::<Packet>() == 128 && align_of::<Packet>() == 64);

impl Packet {
    /// In `flags`: the device computed `flow` (`RTE_MBUF_F_RX_RSS_HASH`).
    pub const HAS_HASH: u64 = 1 << 1;
    /// In `flags`: the transport checksum is right (`RTE_MBUF_F_RX_L4_CKSUM_GOOD`).
    pub const SUMMED: u64 = 1 << 8;
    /// Bytes before the data in a fresh packet (`RTE_PKTMBUF_HEADROOM`).
    pub const HEADROOM: u16 = 128;
    /// Bytes before the data that stay free, for nodes that write link headers.
    pub const KEPT: u16 = 32;

    /// Bytes of data.
    #[allow(clippy::len_without_is_empty)] // as `Owned::data`
    #[inline(always)]
    pub fn len(&self) -> u16 {
        self.data_len
    }

    /// Bytes of the buffer before the data.
    #[inline]
    pub fn headroom(&self) -> u16 {
        self.data_off
    }

    /// The device's number for the port that it came in by.
    #[inline]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The device's hash of its flow, where it computed one.
    #[inline(always)]
    pub fn flow(&self) -> Option<u32> {
        (self.flags & Packet::HAS_HASH != 0).then_some(self.flow)
    }

    /// Whether its transport checksum is known to be right: computed here, or checked by a card.
    #[inline(always)]
    pub(crate) fn is_summed(&self) -> bool {
        self.flags & Packet::SUMMED != 0
    }

    /// The world whose pool it returns to.
    #[inline(always)]
    pub fn world(&self) -> World {
        if self.iova == OWN { World::Own } else { World::Dpdk }
    }

    /// Whether the packet is as a port must pass it on: in one segment (I2), with [`Packet::KEPT`]
    /// bytes before it (I4).
    #[inline]
    pub fn is_whole(&self) -> bool {
        self.segs == 1 && self.data_off >= Packet::KEPT
    }

    /// Bytes from the buffer's start to the data's end.
    #[inline(always)]
    pub(crate) fn end(&self) -> usize {
        usize::from(self.data_off) + usize::from(self.data_len)
    }
}

/// `iova` of Rutter's own packets: no bus address. DPDK's bus addresses have 57 bits, and all ones
/// means "bad". So the packet's first line, which is in the cache, gives its world.
pub(crate) const OWN: u64 = u64::from_be_bytes(*b"rutterPo");

macro_rules! layout {
    ($($field:ident),* $(,)?) => {
        /// The offsets of a [`Packet`]'s fields, in bytes from its start.
        #[allow(missing_docs)] // said at the fields
        pub struct Layout {
            $(pub $field: usize),*
        }

        impl Packet {
            /// The offsets, for `io-dpdk` to compare with `rte_mbuf`.
            pub const LAYOUT: Layout = Layout { $($field: offset_of!(Packet, $field)),* };
        }
    };
}

layout! {
    buf, iova, data_off, refcnt, segs, port, flags, kind, pkt_len, data_len, vlan, flow, flow_hi,
    vlan_outer, buf_len, pool, next, tx_offset, shared, priv_size, timesync, dynamic,
}

/// The owner of the pool that a packet returns to. Packets of one world enter the other's ports
/// only as copies.
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
    /// `packet` must be valid and initialised (I1–I5), and nobody else may own it.
    #[inline]
    pub unsafe fn from_raw(packet: NonNull<Packet>) -> Self {
        Owned(packet)
    }

    /// Gives up ownership, to a pool or a driver.
    #[inline]
    pub fn into_raw(self) -> NonNull<Packet> {
        let raw = self.0;
        std::mem::forget(self);
        raw
    }

    /// The address of the descriptor; the ownership stays here.
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

    /// The descriptor, mutable: the caller keeps I1 to I5.
    #[inline]
    pub(crate) fn packet_mut(&mut self) -> &mut Packet {
        // SAFETY: owned, so valid and not shared.
        unsafe { self.0.as_mut() }
    }

    /// The packet's bytes.
    #[inline]
    pub fn data(&self) -> &[u8] {
        let len = usize::from(self.packet().data_len);
        // SAFETY: I1: they lie in the buffer that this packet owns.
        unsafe { std::slice::from_raw_parts(self.head().as_ptr(), len) }
    }

    /// The packet's bytes, mutable.
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

/// Changes that keep the descriptor's invariants, whatever their arguments are.
impl Owned {
    /// Bytes of data that fit behind the headroom with I1 kept: 64 bytes of the
    /// buffer stay free behind them.
    #[inline]
    pub fn room(&self) -> usize {
        usize::from(self.packet().buf_len.saturating_sub(Packet::HEADROOM + 64))
    }

    /// Makes `data` the packet's bytes, behind a whole headroom. Returns `false`, and changes
    /// nothing, where there is no room for it.
    #[inline]
    pub fn fill(&mut self, data: &[u8]) -> bool {
        if !self.resize(data.len()) {
            return false;
        }
        self.data_mut().copy_from_slice(data);
        true
    }

    /// Sets the packet's length to `len` bytes behind a whole headroom, with arbitrary contents.
    /// Returns `false`, and changes nothing, where there is no room for them.
    #[inline]
    pub fn resize(&mut self, len: usize) -> bool {
        let fits = len <= self.room();
        if fits {
            // SAFETY: I1, I6: there is room; I4: behind a whole headroom.
            unsafe { self.set_data(Packet::HEADROOM.into(), len) };
        }
        fits
    }

    /// Makes this packet a copy of another one of any world: its bytes, port, flow hash and
    /// stripped tags. Returns `false`, and changes nothing, where there is no room for it.
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

    /// Clears the device's hash: it is not the flow's.
    #[inline]
    pub fn forget_flow(&mut self) {
        self.packet_mut().flags &= !Packet::HAS_HASH;
    }

    /// Clears the device's findings: the hash, and that a checksum is right.
    #[inline]
    pub fn forget(&mut self) {
        self.packet_mut().flags &= !(Packet::HAS_HASH | Packet::SUMMED);
    }

    /// Makes room for `n` bytes in front of the data, with arbitrary contents. Returns `false`, and
    /// changes nothing, where fewer than [`Packet::KEPT`] would be left before them.
    #[inline]
    pub fn prepend(&mut self, n: usize) -> bool {
        let (off, end) = (usize::from(self.packet().data_off), self.packet().end());
        let Some(off) = off.checked_sub(n) else { return false };
        let fits = off >= Packet::KEPT.into() && end - off <= self.room();
        if fits {
            // SAFETY: I1: the end stays; I4: KEPT is more than BEFORE; I6: just asked.
            unsafe { self.set_data(off, end - off) };
        }
        fits
    }

    /// Takes the first `n` bytes off. Returns `false`, and changes nothing, where there are fewer.
    #[inline]
    pub fn strip(&mut self, n: usize) -> bool {
        let (off, len) = (self.packet().data_off, self.packet().data_len);
        let fits = n <= len.into();
        if fits {
            // SAFETY: I1: the end stays; I4: the start moves away from the buffer's; I6.
            unsafe { self.set_data(usize::from(off) + n, usize::from(len) - n) };
        }
        fits
    }

    /// Prefetches the descriptor's first cache line.
    #[inline(always)]
    pub fn ask(&self) {
        hint::prefetch(self.0.as_ptr());
    }

    /// Prefetches the data's first cache line, and the line into which a header in front is written.
    #[inline(always)]
    pub fn ask_data(&self) {
        let head = self.head().as_ptr();
        hint::prefetch(head);
        hint::prefetch(head.wrapping_sub(BEFORE));
    }

    /// Prefetches the data's first cache line.
    #[inline(always)]
    pub fn prefetch(&self) {
        hint::prefetch(self.head().as_ptr());
    }

    /// Sets where the data start.
    ///
    /// # Safety
    /// I1, I4 and I6 hold for the new start.
    #[inline(always)]
    pub(crate) unsafe fn set_data(&mut self, off: usize, len: usize) {
        let packet = self.packet_mut();
        packet.data_off = off as u16;
        packet.data_len = len as u16;
        packet.pkt_len = len as u32;
        shadow::show(packet);
    }

    /// The data's start.
    #[inline(always)]
    pub(crate) fn head(&self) -> Head {
        // SAFETY: I1.
        unsafe { self.place(self.packet().data_off.into()) }
    }

    /// A head `off` bytes from the buffer's start.
    ///
    /// # Safety
    /// I1 and I4 would hold if the data started there.
    #[inline(always)]
    pub(crate) unsafe fn place(&self, off: usize) -> Head {
        // SAFETY: inside the buffer (the caller says).
        let place = unsafe { self.packet().buf.add(off) };
        // SAFETY: a buffer is not at address 0.
        Head(unsafe { NonNull::new_unchecked(place) })
    }
}

/// The place at which a node reads and writes: it has at least 64 bytes after it and [`BEFORE`]
/// before it, in a packet's buffer or in a dummy (B1 of [`Burst`](crate::Burst), the only type that
/// has heads).
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Head(NonNull<u8>);

// SAFETY: as for `Owned`, whose packet it points into.
unsafe impl Send for Head {}

impl Head {
    /// A head at `place`.
    ///
    /// # Safety
    /// The bytes before and after it are valid for as long as the head is used.
    #[inline(always)]
    pub(crate) unsafe fn new(place: NonNull<u8>) -> Self {
        Head(place)
    }

    /// The place.
    #[inline(always)]
    pub(crate) fn as_ptr(self) -> *mut u8 {
        self.0.as_ptr()
    }

    /// The head `by` bytes on.
    ///
    /// # Safety
    /// The bytes before and after the new place are valid.
    #[inline(always)]
    pub(crate) unsafe fn add(self, by: usize) -> Self {
        // SAFETY: inside the same buffer (the caller says).
        Head(unsafe { self.0.add(by) })
    }
}
