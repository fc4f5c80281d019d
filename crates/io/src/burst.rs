//! What a port fills and a graph works through.

mod unwrap;
mod wrap;

use std::ops::Range;
use std::ptr::NonNull;

use crate::packet::{BEFORE, Head};
use crate::{Owned, Packet};

/// Room of a vector, in packets.
pub const VECTOR: usize = 256;

/// Packets that go to the kernel, or to another worker, at once. A graph receives up to
/// [`VECTOR`]: what a node does once is then shared by more packets.
pub const BURST: usize = 64;

/// Most bytes of link header (two tags).
pub const L2_ROOM: usize = 22;

/// Up to [`VECTOR`] packets, and for each a head: where the header in hand
/// starts, the first data byte on receive.
///
/// ```text
///  entry      0 … n-1                      n … 255
///  pkt        Some                         None
///  head       in the packet's buffer       nowhere: 128 bytes of the burst's own
///  len        from head to packet's end    0
/// ```
///
/// No call leaves these bounds, whatever its arguments are: an index is taken
/// modulo [`VECTOR`], and *every* entry has a head that may be read and written.
/// So a head costs no compare.
///
/// Invariants:
/// - B1: each `head[i]` has [`BEFORE`] bytes before and 64 after it that only
///   the owner of this burst may touch: in the buffer of the packet in `pkt[i]`,
///   or in `nowhere`. So an entry is *vacated* (its head goes nowhere) before its
///   packet, or a `&mut` to it, is given to anybody.
/// - B2: a head that is not nowhere lies `len[i]` bytes before its packet's end,
///   and not before its data; the others' `len[i]` is 0.
/// - B3: entries from `n` on are vacated.
/// - B4: if `vacated`, all entries are.
///
/// Nothing of it can be set past the functions:
///
/// ```compile_fail,E0616
/// fn lie(burst: &mut io::Burst) {
///     burst.n = 256;
/// }
/// ```
///
/// ```compile_fail,E0616
/// fn swap(burst: &mut io::Burst) {
///     burst.pkt.swap(0, 1);
/// }
/// ```
///
/// ```compile_fail,E0616
/// fn keep(burst: &io::Burst) -> *mut u8 {
///     burst.head[0].as_ptr()
/// }
/// ```
///
/// ```compile_fail,E0599
/// fn twice(burst: &io::Burst) -> io::Burst {
///     burst.clone()
/// }
/// ```
///
/// ```compile_fail,E0133
/// fn double(burst: &mut io::Burst, other: &io::Burst) {
///     burst.append(other, 0..1);
/// }
/// ```
#[repr(C, align(64))]
pub struct Burst {
    pub(crate) n: u16,
    vacated: bool,
    pub(crate) pkt: [Option<Owned>; VECTOR],
    pub(crate) head: [Head; VECTOR],
    pub(crate) len: [u16; VECTOR],
    nowhere: Nowhere,
}

impl Burst {
    /// An empty burst on the heap.
    pub fn new() -> Box<Burst> {
        let nowhere = Nowhere::new();
        Box::new(Burst {
            n: 0,
            vacated: true,
            pkt: [const { None }; VECTOR],
            head: [nowhere.head(); VECTOR],
            len: [0; VECTOR],
            nowhere,
        })
    }

    /// Appends a packet: `head` and `len` are its data's.
    ///
    /// # Panics
    /// When the burst is full.
    #[inline]
    pub fn push(&mut self, packet: Owned) {
        self.put(usize::from(self.n), packet);
        self.n += 1;
    }

    /// The entries that are free, for a driver to write packets into; then
    /// [`Burst::accept`].
    #[inline]
    pub fn spare(&mut self) -> &mut [Option<Owned>] {
        &mut self.pkt[usize::from(self.n)..] // vacated (B3)
    }

    /// Appends what was written into the first `got` of [`Burst::spare`]; what
    /// `refuse` says no to goes there instead.
    #[inline]
    pub fn accept(&mut self, got: usize, mut refuse: impl FnMut(Owned) -> Option<Owned>) {
        let start = self.n();
        self.n = (start + got).min(VECTOR) as u16;
        self.retain(start, &mut refuse);
    }

    /// Calls `keep` with each packet from `start` on: those that it gives back
    /// stay, in order, with their heads at their first byte.
    #[inline]
    pub fn retain(&mut self, start: usize, mut keep: impl FnMut(Owned) -> Option<Owned>) {
        let mut kept = start;
        for i in start..self.n() {
            if let Some(packet) = self.take(i).and_then(&mut keep) {
                self.put(kept, packet);
                kept += 1;
            }
        }
        self.n = self.n.min(kept as u16);
    }

    /// The packets, each to be taken or changed as a whole. From here on their
    /// heads are nowhere; [`Burst::clear`] follows.
    #[inline]
    pub fn packets(&mut self) -> &mut [Option<Owned>] {
        self.vacate_all();
        let n = self.n();
        &mut self.pkt[..n]
    }

    /// The frames from entry `start` on, to be changed in place.
    #[inline]
    pub fn frames(&mut self, start: usize) -> Frames<'_> {
        let n = self.n();
        Frames(&mut self.pkt[start.min(n)..n])
    }

    /// Makes it empty. Packets that nobody took are lost to their pool.
    #[inline]
    pub fn clear(&mut self) {
        let n = self.n();
        debug_assert!(self.pkt[..n].iter().all(Option::is_none), "packets were left behind");
        self.vacate_all();
        self.n = 0;
    }

    /// Takes packet `i` out.
    #[inline]
    pub fn take(&mut self, i: usize) -> Option<Owned> {
        let i = i % VECTOR;
        (self.head[i], self.len[i]) = (self.nowhere.head(), 0);
        self.pkt[i].take()
    }

    /// Number of packets, those that were taken out of its middle included.
    #[inline(always)]
    pub fn n(&self) -> usize {
        usize::from(self.n).min(VECTOR)
    }

    /// Packet `i`; `None` where there is none.
    #[inline(always)]
    pub fn packet(&self, i: usize) -> Option<&Owned> {
        self.pkt[i % VECTOR].as_ref()
    }

    /// Bytes from packet `i`'s head to its end.
    #[inline(always)]
    pub fn len(&self, i: usize) -> u16 {
        self.len[i % VECTOR]
    }

    /// True when it holds no packet.
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    #[inline]
    fn put(&mut self, i: usize, packet: Owned) {
        // What a driver left there goes first: that panics in debug builds, while no head
        // has been set (B3).
        self.pkt[i] = None;
        self.vacated = false;
        self.head[i] = packet.head();
        self.len[i] = packet.packet().len();
        self.pkt[i] = Some(packet);
    }

    /// What a driver that fills entries itself says beforehand.
    #[inline(always)]
    pub(crate) fn will_fill(&mut self) {
        self.vacated = false;
    }

    /// In runs of a fixed length, which are stores without a loop of their own: 1.2 instructions
    /// a packet, 2 in one loop over all. A whole number of runs, because entries from `n` on
    /// are vacated anyhow (B3).
    #[inline(never)]
    fn vacate_all(&mut self) {
        if self.vacated {
            return;
        }
        let (nowhere, used) = (self.nowhere.head(), self.n().next_multiple_of(RUN));
        let heads = self.head[..used].as_chunks_mut::<RUN>().0;
        let lens = self.len[..used].as_chunks_mut::<RUN>().0;
        for (heads, lens) in heads.iter_mut().zip(lens) {
            heads.fill(nowhere);
            lens.fill(0);
        }
        self.vacated = true;
    }
}

/// Heads: where nodes read and write.
impl Burst {
    /// The 64 bytes from packet `i`'s head; those beyond [`Burst::len`] are
    /// whatever the buffer holds. Where there is no packet `i`, they are
    /// nobody's.
    #[inline(always)]
    pub fn head(&self, i: usize) -> &[u8; 64] {
        let head = self.head[i % VECTOR].as_ptr();
        // SAFETY: B1: 64 bytes after a head are ours, whichever it is.
        unsafe { &*head.cast() }
    }

    /// The same, to be changed.
    #[inline(always)]
    pub fn head_mut(&mut self, i: usize) -> &mut [u8; 64] {
        let head = self.head[i % VECTOR].as_ptr();
        // SAFETY: B1, and the whole burst is borrowed: nobody has another
        // reference into a buffer or nowhere.
        unsafe { &mut *head.cast() }
    }

    /// The [`BEFORE`] bytes before packet `i`'s head, to be changed.
    #[inline(always)]
    pub fn before_mut(&mut self, i: usize) -> &mut [u8; BEFORE] {
        let head = self.head[i % VECTOR].as_ptr();
        // SAFETY: B1: as many bytes of the same buffer lie before a head.
        let before = unsafe { head.sub(BEFORE) };
        // SAFETY: B1, and the whole burst is borrowed.
        unsafe { &mut *before.cast() }
    }

    /// Moves packet `i`'s head `by` bytes towards its end, over a header. False,
    /// and nothing done, where the packet is shorter.
    #[inline(always)]
    pub fn advance(&mut self, i: usize, by: usize) -> bool {
        let i = i % VECTOR;
        let len = usize::from(self.len[i]);
        if by > len {
            return false;
        }
        // SAFETY: `by <= len`: inside the packet, behind whose end 64 bytes follow
        // (B2, I1); of an entry without one `len` and so `by` are 0 (B2).
        self.head[i] = unsafe { self.head[i].add(by) };
        self.len[i] = (len - by) as u16;
        true
    }

    /// Moves packet `i`'s head `by` bytes towards its start: back over a header, or,
    /// to put one in front, into the headroom; the frame starts at the head then.
    /// False, and nothing done, where that left no room for a link header in front
    /// of it.
    #[inline]
    pub fn retreat(&mut self, i: usize, by: usize) -> bool {
        let i = i % VECTOR;
        let Some(owned) = &mut self.pkt[i] else { return false };
        let (end, start) = (owned.packet().end(), usize::from(owned.packet().data_off));
        // B2: the head lies `len` bytes before the packet's end.
        let Some(head) = (end - usize::from(self.len[i])).checked_sub(by) else { return false };
        if head < L2_ROOM + BEFORE {
            return false;
        }
        if head < start {
            if end - head > owned.room() {
                return false;
            }
            // SAFETY: I1: the end stays; I4, I6: just asked for.
            unsafe { owned.set_data(head, end - head) };
        }
        self.vacated = false;
        // SAFETY: inside the buffer: `head <= end`.
        self.head[i] = unsafe { owned.place(head) };
        self.len[i] = (end - head) as u16;
        true
    }

    /// Makes the frame of packet `i` start `l2` bytes before its head and end
    /// `l3` bytes after it. False, and nothing done, where the packet is shorter
    /// than `l3`, `l2` exceeds [`L2_ROOM`], or there is no room for it.
    #[inline(always)]
    pub fn frame(&mut self, i: usize, l2: usize, l3: usize) -> bool {
        let i = i % VECTOR;
        let len = usize::from(self.len[i]);
        let Some(owned) = &mut self.pkt[i] else { return false };
        // B2: the head lies `len` bytes before the packet's end.
        let head = owned.packet().end() - len;
        if l3 > len || l2 > L2_ROOM {
            return false;
        }
        // Inside the frame as it is, there is room: the usual case, one compare.
        let start = usize::from(owned.packet().data_off);
        if head < start + l2 && !grows(owned, head, l2, l3) {
            return false;
        }
        // SAFETY: I1: it ends no later than before; I4, I6: it is inside the frame as it
        // was, or was just asked for.
        unsafe { owned.set_data(head - l2, l2 + l3) };
        self.len[i] = l3 as u16;
        true
    }

    /// Puts packet `i`'s head to its frame's first byte.
    #[inline(always)]
    pub fn rewind(&mut self, i: usize) {
        let i = i % VECTOR;
        let Some(owned) = &self.pkt[i] else { return };
        self.vacated = false;
        self.head[i] = owned.head();
        self.len[i] = owned.packet().len();
    }

    /// Clears the device's hash of packet `i`: it is not the flow's.
    #[inline(always)]
    pub fn forget_flow(&mut self, i: usize) {
        if let Some(owned) = &mut self.pkt[i % VECTOR] {
            owned.forget_flow();
        }
    }

    /// Changes packet `i` as a whole, or puts another in its place; its head is at
    /// the first byte then. `None` where there is no packet `i`.
    #[inline]
    pub fn edit<R>(&mut self, i: usize, change: impl FnOnce(&mut Owned) -> R) -> Option<R> {
        let i = i % VECTOR;
        // Vacated first: `change` may panic with another packet in place.
        (self.head[i], self.len[i]) = (self.nowhere.head(), 0);
        let changed = self.pkt[i].as_mut().map(change);
        self.rewind(i);
        changed
    }
}

/// Whether a frame may start `l2` bytes before `head`, in front of where it starts now,
/// and end `l3` bytes after it.
#[inline(never)]
fn grows(owned: &Owned, head: usize, l2: usize, l3: usize) -> bool {
    head >= l2 + BEFORE && l2 + l3 <= owned.room().max(owned.packet().len().into())
}

/// Splitting: entries move in runs, and the gaps are closed at the end.
impl Burst {
    /// Moves the entries `from` forward to `to`, over entries that were moved out.
    ///
    /// # Safety
    /// What is at `to` was moved out, and until [`Burst::truncate`] forgets what
    /// was moved out or left behind, no other method is called.
    ///
    /// # Panics
    /// When `to` lies behind `from`, or `from` beyond the room.
    pub unsafe fn shift(&mut self, from: Range<usize>, to: usize) {
        assert!(to <= from.start && from.start <= from.end && from.end <= VECTOR);
        let (start, n) = (from.start, from.len());
        let packets = self.pkt.as_mut_ptr();
        // SAFETY: start <= VECTOR (asserted).
        let source = unsafe { packets.add(start) };
        // SAFETY: to <= start.
        let place = unsafe { packets.add(to) };
        // SAFETY: n packets lie at `source` and at `place`, both in the array. What
        // was at `place` has been moved out (the caller says), so nothing is lost.
        unsafe { std::ptr::copy(source, place, n) };
        self.head.copy_within(from.clone(), to);
        self.len.copy_within(from, to);
    }

    /// Appends the entries `from` of `other`, which are moved out.
    ///
    /// # Safety
    /// `other` is closed by [`Burst::truncate`], and before that only
    /// [`Burst::shift`] or this is called of it.
    ///
    /// # Panics
    /// When there is no room, or `other` has no such entries.
    pub unsafe fn append(&mut self, other: &Burst, from: Range<usize>) {
        let (at, n) = (self.n(), from.len());
        assert!(at + n <= VECTOR && from.start <= from.end && from.end <= other.n());
        // SAFETY: from.start <= VECTOR (asserted).
        let source = unsafe { other.pkt.as_ptr().add(from.start) };
        // SAFETY: at <= VECTOR (asserted).
        let place = unsafe { self.pkt.as_mut_ptr().add(at) };
        // SAFETY: two different bursts; n entries lie at both places. What is
        // overwritten is `None` (beyond `n`); `other` forgets what was moved out.
        unsafe { std::ptr::copy_nonoverlapping(source, place, n) };
        let to = at..at + n;
        self.head[to.clone()].copy_from_slice(&other.head[from.clone()]);
        self.len[to].copy_from_slice(&other.len[from]);
        self.vacated = false;
        self.n = (at + n) as u16;
    }

    /// Keeps the first `n` entries and forgets the others, which were moved out.
    ///
    /// # Panics
    /// When there are fewer.
    pub fn truncate(&mut self, n: usize) {
        let end = self.n();
        for packet in &mut self.pkt[n..end] {
            // It was copied to where it went: it must not be dropped here.
            std::mem::forget(packet.take());
        }
        self.head[n..end].fill(self.nowhere.head());
        self.len[n..end].fill(0);
        self.n = n as u16;
    }
}

/// Frames whose bytes may be changed, and nothing else: their heads are in use.
///
/// ```compile_fail,E0616
/// fn steal(frames: io::Frames<'_>) -> Option<io::Owned> {
///     frames.0[0].take()
/// }
/// ```
pub struct Frames<'b>(pub(crate) &'b mut [Option<Owned>]);

impl Frames<'_> {
    /// Their bytes, in order.
    #[inline]
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        self.0.iter_mut().flatten().map(Owned::data_mut)
    }
}

/// Two lines of memory that belong to no packet, in the middle of which unused
/// heads are: what is written there is lost. A burst has its own, so that no two
/// threads meet there; on the heap, so that the burst may be moved.
struct Nowhere(NonNull<Lines>);

#[repr(align(64))]
struct Lines {
    _bytes: [u8; 128],
}

// SAFETY: the memory is owned, as by a box.
unsafe impl Send for Nowhere {}

impl Nowhere {
    fn new() -> Nowhere {
        Nowhere(NonNull::from(Box::leak(Box::new(Lines { _bytes: [0; 128] }))))
    }

    #[inline(always)]
    fn head(&self) -> Head {
        // SAFETY: the middle of the 128 bytes.
        let middle = unsafe { self.0.cast::<u8>().add(64) };
        // SAFETY: 64 bytes lie after it and as many before, alive as long as the
        // burst, which never hands a head out.
        unsafe { Head::new(middle) }
    }
}

impl Drop for Nowhere {
    fn drop(&mut self) {
        // SAFETY: it came from a box, and the heads end with the burst.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// Entries vacated at once: 32 stores of 8 bytes for the heads, 4 of 16 for the lengths.
const RUN: usize = 32;

const _: () = assert!(Packet::KEPT as usize >= BEFORE && BEFORE <= 64);
const _: () = assert!(VECTOR.is_multiple_of(RUN));
