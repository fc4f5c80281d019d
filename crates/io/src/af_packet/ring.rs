//! Received frames in memory shared with the kernel (`TPACKET_V2`); `outbox` has those to be sent.
//!
//! ```text
//!  block │ frame │ frame │ … │ pad │ block …            a frame lies in one block
//!  frame │ status │ len │ got │ mac │ net │ time │ tag │ sockaddr_ll │ … │ offload 10 │ bytes …
//!                                                                                     ▲ mac, `got` of `len` bytes
//!  status   KERNEL ─► the kernel fills it ─► USER ─► we read it ─► KERNEL
//! ```
//!
//! Not `TPACKET_V3`: it hands over blocks, and a block that is not full only after a time-out of 1
//! ms or more. A lone packet waits for that.

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use super::offload::{self, Offload};
use super::socket::{self, Socket};

/// Invariants:
/// - R1: the `shape.bytes()` bytes from `map` on are mapped, readable and writable, as
///   long as this lives.
/// - R2: `at` is the start of a frame: `shape.frame` bytes from there on are inside R1's.
/// - R3: a frame whose status has USER is ours: the kernel neither reads nor writes it
///   before we store KERNEL there, which only [`Front::release`] does.
pub(super) struct Ring {
    map: NonNull<u8>,
    shape: Shape,
    /// The oldest frame, as an offset in bytes.
    at: usize,
    /// Its index in its block.
    in_block: usize,
}

// SAFETY: the mapping is this value's own, and the kernel does not mind which thread
// uses it.
unsafe impl Send for Ring {}

/// The size of a ring.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Shape {
    /// Bytes of a frame, headers included.
    frame: usize,
    /// Bytes of a block: whole pages, a power of two.
    block: usize,
    blocks: usize,
}

impl Shape {
    /// For frames of up to `longest` bytes, without a tag that is stored beside them.
    pub(super) fn new(longest: usize, frames: usize) -> Shape {
        let frame = (FIRST_BYTE + longest).next_multiple_of(libc::TPACKET_ALIGNMENT);
        let block = (MOST_BLOCK).max(frame.next_power_of_two());
        let blocks = frames.div_ceil(block / frame).min(MOST_BYTES / block).max(1);
        Shape { frame, block, blocks }
    }

    fn in_block(self) -> usize {
        self.block / self.frame
    }

    fn bytes(self) -> usize {
        self.block * self.blocks
    }

    /// The request to the kernel.
    pub(super) fn request(self) -> libc::tpacket_req {
        libc::tpacket_req {
            tp_block_size: self.block as u32,
            tp_block_nr: self.blocks as u32,
            tp_frame_size: self.frame as u32,
            tp_frame_nr: (self.in_block() * self.blocks) as u32,
        }
    }
}

impl Ring {
    /// Maps the ring of a socket, which has one of this shape.
    pub(super) fn map(socket: BorrowedFd<'_>, shape: Shape) -> io::Result<Ring> {
        let map = socket::map(socket, shape.bytes())?;
        Ok(Ring { map, shape, at: 0, in_block: 0 })
    }

    /// The oldest frame, if there is one.
    #[inline]
    pub(super) fn front(&mut self) -> Option<Front<'_>> {
        // Acquire: what the kernel wrote before it stored the status is seen.
        let status = self.status().load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: R2: a frame is longer than its header; ours (R3).
        let header = unsafe { self.first().cast::<libc::tpacket2_hdr>().as_ref() };
        let (mac, got) = (usize::from(header.tp_mac), header.tp_snaplen as usize);
        let tag = (status & libc::TP_STATUS_VLAN_VALID != 0).then(|| {
            let known = status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
            (if known { header.tp_vlan_tpid } else { DOT1Q }, header.tp_vlan_tci)
        });
        // The kernel wrote them; what they are taken for does not rest on that.
        let inside = mac >= FIRST_BYTE - ALIGNED_ETHERNET && mac + got <= self.shape.frame;
        let (mac, got) = if inside { (mac, got) } else { (self.shape.frame, 0) };
        Some(Front { len: header.tp_len as usize, status, mac, got, tag, ring: self })
    }

    /// Discards the frames in the ring, and the copies that wait beside it in its socket.
    pub(super) fn flush(&mut self, socket: &Socket) {
        let all = self.shape.in_block() * self.shape.blocks;
        for _ in 0..all {
            let Some(front) = self.front() else { break };
            if front.is_copied() {
                let _ = socket.receive(&mut []); // the frame is discarded, however long it is
            }
            front.release();
        }
    }

    /// Bytes of a frame.
    pub(super) fn frame(&self) -> usize {
        self.shape.frame
    }

    /// Its address.
    pub(super) fn cursor(&self) -> (usize, usize) {
        (self.at, self.in_block)
    }

    /// Returns to the earlier position.
    pub(super) fn go_to(&mut self, (at, in_block): (usize, usize)) {
        let inside = at + self.shape.frame <= self.shape.bytes();
        assert!(inside && at.is_multiple_of(libc::TPACKET_ALIGNMENT), "a frame's start");
        (self.at, self.in_block) = (at, in_block);
    }

    #[inline]
    pub(super) fn status(&self) -> &AtomicU32 {
        // SAFETY: R2: a frame begins with its status, on a boundary of 16; we and the
        // kernel touch it as a whole only.
        unsafe { self.first().cast::<AtomicU32>().as_ref() }
    }

    #[inline]
    fn first(&self) -> NonNull<u8> {
        // SAFETY: a frame's start is in it.
        unsafe { self.place(0) }
    }

    /// The address of byte `by` of the oldest frame.
    ///
    /// # Safety
    /// `by` is at most a frame's size (R2).
    #[inline]
    pub(super) unsafe fn place(&self, by: usize) -> NonNull<u8> {
        // SAFETY: inside the mapping, or at its end (the caller says, R1).
        unsafe { self.map.add(self.at + by) }
    }

    #[inline]
    pub(super) fn advance(&mut self) {
        self.in_block += 1;
        self.at += self.shape.frame;
        if self.in_block == self.shape.in_block() {
            self.in_block = 0;
            self.at = (self.at).next_multiple_of(self.shape.block);
            if self.at == self.shape.bytes() {
                self.at = 0;
            }
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: R1: mapped by `Ring::map`, so long; nobody refers to it any more.
        unsafe { socket::unmap(self.map, self.shape.bytes()) };
    }
}

/// The oldest frame of a ring, until it is released.
pub(super) struct Front<'r> {
    ring: &'r mut Ring,
    /// At least `FIRST_BYTE - ALIGNED_ETHERNET`; `mac + got` is at most a frame's size.
    mac: usize,
    got: usize,
    len: usize,
    status: u32,
    tag: Option<(u16, u16)>,
}

impl Front<'_> {
    /// Its bytes, without the tag; cut off where [`Front::is_whole`] is false.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: `mac` is at most a frame's size.
        let first = unsafe { self.ring.place(self.mac) };
        // SAFETY: `got` bytes from `mac` on are in the frame, which is ours (R3) until
        // it is released, and that takes `self`.
        unsafe { std::slice::from_raw_parts(first.as_ptr(), self.got) }
    }

    /// The work that is left on it; `None` where it cannot be done.
    #[inline]
    pub(super) fn offload(&self) -> Option<Offload> {
        // SAFETY: `mac` is at most a frame's size, and more than a header's.
        let header = unsafe { self.ring.place(self.mac - offload::HEADER) };
        // SAFETY: the header ends where the bytes begin or before: inside the frame, and
        // ours (R3).
        Offload::parse(unsafe { header.cast().as_ref() })
    }

    /// Whether the ring has all its bytes.
    #[inline]
    pub(super) fn is_whole(&self) -> bool {
        self.got == self.len
    }

    /// Whether the socket has a whole copy to be read.
    pub(super) fn is_copied(&self) -> bool {
        self.status & libc::TP_STATUS_COPY != 0
    }

    /// Type and contents of the tag that the kernel removed.
    #[inline]
    pub(super) fn tag(&self) -> Option<(u16, u16)> {
        self.tag
    }

    /// Whether this machine sent it.
    #[inline]
    pub(super) fn is_outgoing(&self) -> bool {
        // SAFETY: R2: the address lies behind the header, before the frame's bytes.
        let kind = unsafe {
            self.ring.place(ADDRESS + std::mem::offset_of!(libc::sockaddr_ll, sll_pkttype))
        };
        // SAFETY: R1, R3.
        unsafe { *kind.as_ref() == libc::PACKET_OUTGOING }
    }

    /// Gives the frame back to the kernel.
    #[inline]
    pub(super) fn release(self) {
        // Release: we have read it before.
        self.ring.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.ring.advance();
    }
}

/// The offset of a frame's address (`TPACKET_ALIGN(sizeof(struct tpacket2_hdr))`).
const ADDRESS: usize = size_of::<libc::tpacket2_hdr>().next_multiple_of(libc::TPACKET_ALIGNMENT);
/// Room that the kernel leaves for a link header.
const ALIGNED_ETHERNET: usize = 16;
/// The latest offset of a frame's bytes, as `tpacket_rcv` computes it.
const FIRST_BYTE: usize = (ADDRESS + size_of::<libc::sockaddr_ll>() + ALIGNED_ETHERNET)
    .next_multiple_of(libc::TPACKET_ALIGNMENT)
    + offload::HEADER;
const DOT1Q: u16 = 0x8100;
/// Frames of a ring: those of 2 ms at a million a second, for a worker that has lost its core that long.
pub(super) const RECEIVED: usize = 2048;
/// Bytes of a ring: fewer long frames.
const MOST_BYTES: usize = 8 << 20;
/// Bytes of a block where a frame fits: what is left at its end is small.
const MOST_BLOCK: usize = 128 << 10;

const _: () = assert!(FIRST_BYTE > ADDRESS + size_of::<libc::sockaddr_ll>());
const _: () = assert!(ALIGNED_ETHERNET + offload::HEADER < FIRST_BYTE);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_frame_lies_in_its_block() {
        let lengths: &[usize] = if cfg!(miri) { &[64] } else { &[64, 1522, 9022, 65_000] };
        for &longest in lengths {
            let shape = Shape::new(longest, RECEIVED);
            assert!(shape.block.is_power_of_two() && shape.block.is_multiple_of(4096));
            assert!(shape.in_block() >= 1 && shape.frame * shape.in_block() <= shape.block);
            assert!(shape.bytes() <= MOST_BYTES && shape.frame >= FIRST_BYTE + longest);
            let frames = shape.in_block() * shape.blocks;
            assert!(frames >= 64 && (longest > 2000 || frames >= RECEIVED), "{longest}: {frames}");
            let mut memory = vec![0_u64; shape.bytes() / 8 + 2];
            // Not mapped, but as good for where frames lie; a frame begins at a multiple of 16.
            let offset = memory.as_ptr().align_offset(16);
            let map = NonNull::new(memory[offset..].as_mut_ptr()).unwrap().cast();
            let mut ring = std::mem::ManuallyDrop::new(Ring { map, shape, at: 0, in_block: 0 });
            let mut starts = std::collections::HashSet::new();
            for _ in 0..frames {
                assert!(ring.at / shape.block == (ring.at + shape.frame - 1) / shape.block);
                assert!(ring.at + shape.frame <= shape.bytes() && ring.front().is_none());
                assert!(starts.insert(ring.at));
                ring.advance();
            }
            assert_eq!((ring.at, ring.in_block), (0, 0));
        }
    }

    /// What a frame says of itself is believed only as far as the frame goes.
    #[test]
    fn a_frame_that_lies_about_its_length_is_empty() {
        let shape = Shape::new(1522, RECEIVED);
        let mut memory = vec![0_u64; shape.bytes() / 8 + 2];
        let offset = memory.as_ptr().align_offset(16);
        let map: NonNull<u8> = NonNull::new(memory[offset..].as_mut_ptr()).unwrap().cast();
        let mut ring = std::mem::ManuallyDrop::new(Ring { map, shape, at: 0, in_block: 0 });
        let mut show = |mac: u16, got: u32| {
            let header = libc::tpacket2_hdr {
                tp_status: libc::TP_STATUS_USER,
                tp_len: got,
                tp_snaplen: got,
                tp_mac: mac,
                tp_net: 0,
                tp_sec: 0,
                tp_nsec: 0,
                tp_vlan_tci: 0,
                tp_vlan_tpid: 0,
                tp_padding: [0; 4],
            };
            ring.at = 0;
            // SAFETY: the test's own memory, long enough and aligned for a header.
            unsafe { map.cast().write(header) };
            let front = ring.front().unwrap();
            let (len, offload) = (front.bytes().len(), front.offload());
            front.release();
            (len, offload.is_some())
        };
        assert_eq!(show(76, 60), (60, true));
        let most = (shape.frame - 76) as u32;
        assert_eq!((show(76, most), show(76, most + 1)), ((most as usize, true), (0, true)));
        for (mac, got) in [(0, 60), (9, 1), (u16::MAX, 1), (76, u32::MAX), (u16::MAX, u32::MAX)] {
            assert_eq!(show(mac, got), (0, true), "{mac} {got}");
        }
    }
}
