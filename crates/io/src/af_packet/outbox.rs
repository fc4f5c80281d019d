//! Frames to be sent, in memory shared with the kernel.
//!
//! ```text
//!  frame │ status │ len │ … │ offload 10 │ bytes …
//!  status   AVAILABLE ─► we fill it ─► SEND_REQUEST ─ one system call for all ─► SENDING ─► AVAILABLE
//! ```
//!
//! The header beside a frame declares the whole frame as headers, so the kernel copies it.
//! By default the kernel would refer to the ring's pages, as it does for DPDK's
//! `net_af_packet`, which is slower than a copy: `router/ports` in the lab.

use std::io;
use std::sync::atomic::Ordering;

use super::offload::HEADER;
use super::ring::Ring;
use super::socket::Socket;
use crate::{BURST, Owned};

/// The ring. Invariant S1: a frame whose status is AVAILABLE is ours until we store SEND_REQUEST,
/// and the kernel takes it in [`Socket::send_ring`] only.
pub(super) struct Outbox(Ring);

impl Outbox {
    /// The ring of a socket that has one for sending, and headers beside frames.
    pub(super) fn new(ring: Ring) -> Outbox {
        Outbox(ring)
    }

    /// Sends the packets from the front, at most [`BURST`], as far as the kernel takes them;
    /// returns how many, at least 1 if there is a packet.
    ///
    /// # Errors
    /// Why the first packet was not sent.
    pub(super) fn send(&mut self, socket: &Socket, packets: &[Option<Owned>]) -> io::Result<usize> {
        let (begin, mut last, mut n) = (self.0.cursor(), self.0.cursor(), 0);
        for packet in packets.iter().take(BURST).map_while(Option::as_ref) {
            let cursor = self.0.cursor();
            match self.put(packet.data()) {
                Ok(()) => (last, n) = (cursor, n + 1),
                Err(error) if n == 0 => return Err(error),
                Err(_) => break,
            }
        }
        if n == 0 {
            return Ok(0);
        }
        let result = socket.send_ring();
        let end = self.0.cursor();
        self.0.go_to(last);
        let all = result.is_ok() && !self.waits();
        self.0.go_to(end);
        if all {
            return Ok(n);
        }
        match self.take_back(begin, n) {
            0 => Err(result.err().unwrap_or(io::ErrorKind::WouldBlock.into())),
            sent => Ok(sent),
        }
    }

    /// Writes a frame into the next place.
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        // Acquire: the kernel has read it before.
        if self.0.status().load(Ordering::Acquire) != libc::TP_STATUS_AVAILABLE {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if bytes.len() > self.0.frame() - FIRST_BYTE {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut beside = [0; HEADER];
        beside[2..4].copy_from_slice(&(bytes.len().min(COPIED) as u16).to_ne_bytes());
        let len = (HEADER + bytes.len()) as u32;
        // SAFETY: inside the frame: its second word.
        let place = unsafe { self.0.place(std::mem::offset_of!(libc::tpacket2_hdr, tp_len)) };
        // SAFETY: ours (S1), on a boundary of 4.
        unsafe { place.cast().write(len) };
        // SAFETY: inside the frame.
        let place = unsafe { self.0.place(FIRST_BYTE - HEADER) };
        // SAFETY: ours (S1), and as long.
        unsafe { place.cast().write(beside) };
        // SAFETY: inside the frame.
        let place = unsafe { self.0.place(FIRST_BYTE) };
        let (from, to) = (bytes.as_ptr(), place.as_ptr());
        // SAFETY: `bytes` fit (asked above) into what is ours (S1), where no packet lies.
        unsafe { std::ptr::copy_nonoverlapping(from, to, bytes.len()) };
        // Release: all was written before.
        self.0.status().store(libc::TP_STATUS_SEND_REQUEST, Ordering::Release);
        self.0.advance();
        Ok(())
    }

    /// Whether the kernel has not taken the frame at the cursor yet.
    fn waits(&self) -> bool {
        let status = self.0.status().load(Ordering::Acquire);
        status & (libc::TP_STATUS_SEND_REQUEST | libc::TP_STATUS_WRONG_FORMAT) != 0
    }

    /// Takes back those of `n` frames that the kernel has not taken; returns how many it has taken.
    /// Kernel and ring continue at the same frame.
    #[cold]
    fn take_back(&mut self, begin: (usize, usize), n: usize) -> usize {
        self.0.go_to(begin);
        let (mut sent, mut stop) = (n, None);
        for i in 0..n {
            if stop.is_none() && self.waits() {
                (sent, stop) = (i, Some(self.0.cursor()));
            }
            if stop.is_some() {
                self.0.status().store(libc::TP_STATUS_AVAILABLE, Ordering::Release);
            }
            self.0.advance();
        }
        stop.into_iter().for_each(|cursor| self.0.go_to(cursor));
        sent
    }
}

/// Where a frame's bytes begin: behind the header, as `tpacket_parse_header` reckons, and
/// what is said beside it.
const FIRST_BYTE: usize =
    size_of::<libc::tpacket2_hdr>().next_multiple_of(libc::TPACKET_ALIGNMENT) + HEADER;
/// Bytes of a frame that are copied: more would ask the kernel for more than a page in one piece.
const COPIED: usize = 2048;
/// Frames of the ring.
pub(super) const SENT: usize = 512;
