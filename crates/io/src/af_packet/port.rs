//! One queue of the port: a ring to receive from, a socket to send by.

use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use super::gather::{self, Joined};
use super::offload::{Offload, Segments};
use super::outbox::Outbox;
use super::ring::{Front, Ring};
use super::socket::Socket;
use crate::tally::Tally;
use crate::{BURST, Burst, Owned, Packet, Pool, Port, VECTOR};

/// The port.
pub(super) struct Queue {
    pub(super) receiver: Arc<Socket>,
    pub(super) ring: Ring,
    pub(super) sender: Socket,
    pub(super) outbox: Outbox,
    /// Sends frames for many; `None` where these would overtake other frames, or the kernel takes none.
    pub(super) joiner: Option<Socket>,
    pub(super) large: Large,
    pub(super) pool: Pool,
    /// Shared by all queues; `number` is this queue's.
    pub(super) tallies: Arc<[Tally]>,
    pub(super) number: usize,
}

impl Port for Queue {
    fn attach(&mut self, worker: usize) {
        self.pool.attach(worker);
    }

    fn receive(&mut self, burst: &mut Burst, most: usize) -> usize {
        let Queue { ring, large, pool, receiver, .. } = self;
        let tally = &self.tallies[self.number];
        let start = burst.n();
        let (end, mut bytes) = (start + most.min(VECTOR - start), 0);
        while burst.n() < end {
            if large.is_waiting() {
                bytes += large.cut(burst, end, pool, tally);
                continue;
            }
            let Some(front) = ring.front() else { break };
            if front.is_outgoing() {
                front.release();
                continue;
            }
            let offload = front.offload();
            let Some(offload) = offload.filter(|o| front.is_whole() && !o.is_super_frame()) else {
                large.take(front, receiver, tally);
                continue;
            };
            // With an empty pool, frames stay with the kernel, which counts its losses.
            let Some(mut packet) = pool.allocate() else { break };
            if put(&mut packet, front.bytes(), front.tag(), offload) {
                if !offload.is_done() {
                    packet.packet_mut().flags |= Packet::SUMMED;
                }
                bytes += u64::from(packet.packet().len());
                packet.prefetch();
                burst.push(packet);
            } else {
                tally.rx_error();
                pool.put_one(packet);
            }
            front.release();
        }
        let received = burst.n() - start;
        if received > 0 {
            tally.received(received, bytes);
        }
        received
    }

    fn transmit(&mut self, packets: &mut [Option<Owned>]) -> usize {
        let (mut taken, mut sent, mut bytes) = (0, 0, 0);
        while taken < packets.len() {
            let rest = &packets[taken..];
            let rest = &rest[..rest.len().min(BURST)];
            let outcome = match self.joiner.as_ref().map_or(1, |_| gather::run(rest)) {
                1 => self.outbox.send(&self.sender, self.alone(rest)),
                n => self.join(&rest[..n]),
            };
            match outcome {
                Ok(0) => break, // a hole: not what the caller promised
                Ok(n) => {
                    let lens = rest[..n].iter().flatten().map(|p| u64::from(p.packet().len()));
                    bytes += lens.sum::<u64>();
                    (taken, sent) = (taken + n, sent + n);
                }
                Err(error) if is_full(&error) => break,
                Err(_) => {
                    // The interface is down, or the frame is too long for it.
                    self.tallies[self.number].tx_error();
                    taken += 1;
                }
            }
        }
        self.tallies[self.number].sent(sent, bytes);
        self.pool.put(&mut packets[..taken]);
        taken
    }

    crate::port::packets_of_own_pool!();

    fn idle(&mut self) {
        self.receiver.take_error();
    }

    fn wakes(&self) -> Option<BorrowedFd<'_>> {
        Some(self.receiver.as_fd())
    }
}

impl Queue {
    /// The packets at the front that go one by one.
    #[inline]
    fn alone<'p>(&self, packets: &'p [Option<Owned>]) -> &'p [Option<Owned>] {
        let joins = |n: &usize| self.joiner.is_some() && gather::run(&packets[*n..]) > 1;
        &packets[..(1..packets.len()).find(joins).unwrap_or(packets.len())]
    }

    /// Sends packets as one frame; if that fails, it sends one by one as many as it can.
    #[cold]
    #[inline(never)]
    fn join(&mut self, packets: &[Option<Owned>]) -> std::io::Result<usize> {
        let frames = || packets.iter().flatten().map(Owned::data);
        if let (Some(joiner), Some(joined)) = (&self.joiner, Joined::of(frames())) {
            let heads = [&joined.beside[..], joined.headers()].into_iter();
            let parts = heads.chain(frames().map(|frame| &frame[joined.data..]));
            match joiner.send_parts(parts) {
                Ok(()) => return Ok(packets.len()),
                Err(error) if is_full(&error) => return Err(error),
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => self.joiner = None,
                Err(_) => {}
            }
        }
        self.outbox.send(&self.sender, packets)
    }
}

/// Whether the kernel has no room now: for the socket (`EAGAIN`), or in the
/// interface's queue.
fn is_full(error: &std::io::Error) -> bool {
    error.kind() == ErrorKind::WouldBlock || error.raw_os_error() == Some(libc::ENOBUFS)
}

/// Makes `packet` the frame with its tag in it, and finishes it. False where it is too
/// long, a runt, or not what is said of it.
#[inline]
fn put(packet: &mut Owned, frame: &[u8], tag: Option<(u16, u16)>, offload: Offload) -> bool {
    match tag {
        None => packet.fill(frame) && (offload.is_done() || offload.finish(packet.data_mut())),
        Some(tag) => {
            let Some((addresses, rest)) = frame.split_at_checked(ADDRESSES) else { return false };
            if !packet.resize(frame.len() + TAG) {
                return false;
            }
            let data = packet.data_mut();
            data[..ADDRESSES].copy_from_slice(addresses);
            data[ADDRESSES..ADDRESSES + TAG].copy_from_slice(&tag_bytes(tag));
            data[ADDRESSES + TAG..].copy_from_slice(rest);
            offload.is_done() || offload.moved(TAG).finish(data)
        }
    }
}

/// Frames that are not simply copied: of up to 64 KiB, for many.
///
/// ```text
///  room │ 4 free │ addresses │ type │ …        a tag: │ addresses │ tag │ type │ …
/// ```
pub(super) struct Large {
    /// Made for the first.
    room: Box<[u8]>,
    /// What is left of the frame in `room` that begins at `start`.
    segments: Option<Segments>,
    start: usize,
    end: usize,
}

impl Large {
    pub(super) fn new() -> Large {
        Large { room: Box::default(), segments: None, start: 0, end: 0 }
    }

    #[inline]
    fn is_waiting(&self) -> bool {
        self.segments.is_some()
    }

    /// Takes a frame out of the ring, to be cut; one that cannot be is refused, counted.
    #[cold]
    #[inline(never)]
    fn take(&mut self, front: Front<'_>, socket: &Socket, tally: &Tally) {
        if self.room.is_empty() {
            self.room = vec![0; ROOM].into_boxed_slice();
        }
        let (tag, mut offload) = (front.tag(), front.offload());
        let place = &mut self.room[TAG..];
        let len = if front.is_copied() {
            // The copies wait in the order of the ring.
            match socket.receive(place) {
                Ok(Some((header, len))) => {
                    offload = Offload::parse(&header);
                    Some(len)
                }
                Ok(None) | Err(_) => None,
            }
        } else if front.is_whole() && front.bytes().len() <= place.len() {
            let bytes = front.bytes();
            place[..bytes.len()].copy_from_slice(bytes);
            Some(bytes.len())
        } else {
            None
        };
        front.release();
        self.start = TAG;
        if let (Some(tag), Some(ADDRESSES..)) = (tag, len) {
            self.room.copy_within(TAG..TAG + ADDRESSES, 0);
            self.room[ADDRESSES..ADDRESSES + TAG].copy_from_slice(&tag_bytes(tag));
            (self.start, offload) = (0, offload.map(|offload| offload.moved(TAG)));
        }
        self.end = TAG + len.unwrap_or(0);
        let frame = &self.room[self.start..self.end];
        self.segments = offload.and_then(|offload| Segments::of(frame, &offload));
        if self.segments.is_none() {
            tally.rx_error();
        }
    }

    /// Makes packets of it, up to entry `end` of the burst; their bytes.
    #[cold]
    #[inline(never)]
    fn cut(&mut self, burst: &mut Burst, end: usize, pool: &Pool, tally: &Tally) -> u64 {
        let Some(segments) = &mut self.segments else { return 0 };
        let (frame, mut bytes) = (&self.room[self.start..self.end], 0);
        while burst.n() < end {
            let len = segments.next_len();
            let packet = if len == 0 { None } else { pool.allocate() };
            let Some(mut packet) = packet else {
                if len > 0 {
                    tally.rx_no_buffer(); // the rest of it: nobody would wake us for that
                }
                self.segments = None;
                break;
            };
            if packet.resize(len) {
                segments.write(frame, packet.data_mut());
                packet.packet_mut().flags |= Packet::SUMMED;
                bytes += len as u64;
                burst.push(packet);
            } else {
                tally.rx_error(); // segments longer than the port's MTU
                pool.put_one(packet);
                self.segments = None;
                break;
            }
        }
        bytes
    }
}

fn tag_bytes((kind, contents): (u16, u16)) -> [u8; TAG] {
    let ([a, b], [c, d]) = (kind.to_be_bytes(), contents.to_be_bytes());
    [a, b, c, d]
}

/// Two hardware addresses.
const ADDRESSES: usize = 12;
/// A VLAN tag.
const TAG: usize = 4;
/// The longest super-frame and its headers.
const ROOM: usize = 65_536 + 256 + TAG;
