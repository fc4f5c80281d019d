//! What travels through the graph: packets, and what nodes learnt about them.

use std::ops::{Index, IndexMut, Range};

pub use io::{BEFORE, L2_ROOM};
use io::{Burst, Owned, VECTOR, World};
use lookup::Hop;
use lookup::exact::Key;

/// One value a packet. An index is taken modulo [`VECTOR`], so it is never out
/// of bounds and costs no branch.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct Lane<T>([T; VECTOR]);

impl<T: Copy> Lane<T> {
    /// A lane of equal values.
    pub fn filled(value: T) -> Self {
        Lane([value; VECTOR])
    }

    /// The values of the first `n` packets.
    ///
    /// # Panics
    /// When `n` exceeds [`VECTOR`].
    #[inline]
    pub fn first(&self, n: usize) -> &[T] {
        &self.0[..n]
    }

    /// The values of the first `n` packets, to be changed.
    ///
    /// # Panics
    /// When `n` exceeds [`VECTOR`].
    #[inline]
    pub fn first_mut(&mut self, n: usize) -> &mut [T] {
        &mut self.0[..n]
    }

    fn shift(&mut self, from: Range<usize>, to: usize) {
        self.0.copy_within(from, to);
    }

    fn copy(&mut self, to: usize, other: &Self, from: Range<usize>) {
        self.0[to..to + from.len()].copy_from_slice(&other.0[from]);
    }
}

impl<T> Index<usize> for Lane<T> {
    type Output = T;
    #[inline(always)]
    fn index(&self, i: usize) -> &T {
        &self.0[i % VECTOR]
    }
}

impl<T> IndexMut<usize> for Lane<T> {
    #[inline(always)]
    fn index_mut(&mut self, i: usize) -> &mut T {
        &mut self.0[i % VECTOR]
    }
}

/// Lanes off the path of IPv4, in a box of their own so that they do not thin
/// out the others in the cache.
#[repr(C)]
pub struct Wide {
    /// MAC address and forwarding domain.
    pub key64: Lane<Key>,
    /// 128-bit keys: IPv6 destinations, host byte order.
    pub key128: Lane<u128>,
    /// Hash of the flow.
    pub flow: Lane<u32>,
}

/// Up to [`VECTOR`] packets and a lane for everything that nodes learn about
/// them: lookups take whole arrays, packets are not written.
///
/// Entries `0..n` of each lane belong to the packets; the others are stale. A
/// lane holds something only after a node on the way filled it ([`Live`]).
///
/// No index is out of bounds, here or in the [`Burst`] below: packets, heads and
/// lanes take it modulo [`VECTOR`], and a head without a packet is nobody's memory.
///
/// Invariant V1, of what the graph's own code relies on, not of memory: all packets
/// are of one world and came in by one port.
#[repr(C, align(64))]
pub struct Vector {
    pub(crate) burst: Burst,
    pub(crate) edge: Lane<u8>,
    /// 32-bit keys: IPv4 destinations, host byte order.
    pub key32: Lane<u32>,
    /// What the lookup answered.
    pub hop: Lane<Hop>,
    /// Port to leave by.
    pub out: Lane<u16>,
    /// Interface it came in by; after the rewrite, the one it leaves by.
    pub iface: Lane<u16>,
    /// Why a packet on the drop edge is dropped: index of the graph's reasons.
    pub(crate) why: Lane<u16>,
    /// Number of the trace that follows the packet; 0 for none. Valid if `marked`.
    pub(crate) mark: Lane<u16>,
    /// Lanes off the path of IPv4.
    pub wide: Box<Wide>,
    pub(crate) marked: bool,
    pub(crate) port: u16,
    pub(crate) world: World,
    /// True while packets that were taken out are missing in `0..n`.
    pub(crate) holed: bool,
}

/// Lanes that hold something which following nodes read: what has to move when
/// a vector is split. Packet, head, length and reason always move.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Live(u8);

impl Live {
    /// None beside those that always move.
    pub const NONE: Live = Live(0);
    /// [`Vector::key32`].
    pub const KEY32: Live = Live(1);
    /// [`Vector::hop`].
    pub const HOP: Live = Live(2);
    /// [`Vector::out`].
    pub const OUT: Live = Live(4);
    /// [`Vector::iface`].
    pub const IFACE: Live = Live(8);
    /// [`Wide::key64`].
    pub const KEY64: Live = Live(16);
    /// [`Wide::key128`].
    pub const KEY128: Live = Live(32);
    /// [`Wide::flow`].
    pub const FLOW: Live = Live(64);

    /// These and those.
    pub const fn and(self, other: Live) -> Live {
        Live(self.0 | other.0)
    }

    #[inline]
    pub(crate) fn has(self, lane: Live) -> bool {
        self.0 & lane.0 != 0
    }
}

/// In the place of an edge: the packet has none yet.
pub(crate) const POSTPONED: u8 = 0xff;

impl Vector {
    pub(crate) fn new() -> Box<Vector> {
        Box::new(Vector {
            burst: *Burst::new(),
            edge: Lane::filled(0),
            key32: Lane::filled(0),
            hop: Lane::filled(Hop::NONE),
            out: Lane::filled(0),
            iface: Lane::filled(0),
            why: Lane::filled(0),
            mark: Lane::filled(0),
            wide: Box::new(Wide {
                key64: Lane::filled(Key::new(0, 0)),
                key128: Lane::filled(0),
                flow: Lane::filled(0),
            }),
            marked: false,
            port: 0,
            world: World::Own,
            holed: false,
        })
    }

    /// Number of packets.
    #[inline(always)]
    pub fn n(&self) -> usize {
        self.burst.n()
    }

    /// Bytes from packet `i`'s head to its end.
    #[inline(always)]
    pub fn len(&self, i: usize) -> u16 {
        self.burst.len(i)
    }

    /// The 64 bytes from packet `i`'s head; those beyond [`Vector::len`] are
    /// whatever the buffer holds. Where there is no packet `i`, they are nobody's.
    #[inline(always)]
    pub fn head(&self, i: usize) -> &[u8; 64] {
        self.burst.head(i)
    }

    /// The same, to be changed.
    #[inline(always)]
    pub fn head_mut(&mut self, i: usize) -> &mut [u8; 64] {
        self.burst.head_mut(i)
    }

    /// The [`BEFORE`] bytes before packet `i`'s head, to be changed.
    #[inline(always)]
    pub fn before_mut(&mut self, i: usize) -> &mut [u8; BEFORE] {
        self.burst.before_mut(i)
    }

    /// Packet `i`: descriptor and whole frame, from its first byte on.
    ///
    /// # Panics
    /// When there is no packet `i`.
    #[inline]
    pub fn packet(&self, i: usize) -> &Owned {
        self.burst.packet(i).expect("a packet at this index")
    }

    /// The hash of packet `i`'s flow, where its device computed one.
    #[inline(always)]
    pub fn device_hash(&self, i: usize) -> Option<u32> {
        self.burst.packet(i)?.packet().flow()
    }

    /// Moves packet `i`'s head `by` bytes towards its end, over a header. False,
    /// and nothing done, where the packet is shorter.
    #[inline(always)]
    pub fn advance(&mut self, i: usize, by: usize) -> bool {
        self.burst.advance(i, by)
    }

    /// Moves packet `i`'s head `by` bytes towards its start, as [`Burst::retreat`]
    /// says: to put an outer header in front of what its head points to, without a
    /// copy. Write it by [`Vector::head_mut`]; the rewrite then makes the frame that
    /// holds it ([`Vector::frame`]). False, and nothing done, where there is no room:
    /// a drop that the node names.
    #[inline]
    pub fn retreat(&mut self, i: usize, by: usize) -> bool {
        self.burst.retreat(i, by)
    }

    /// Bytes of packet `i`'s whole frame.
    #[inline(always)]
    pub fn frame_len(&self, i: usize) -> u16 {
        self.packet(i).packet().len()
    }

    /// All bytes of packet `i` from its head to its end.
    #[inline]
    pub fn rest(&self, i: usize) -> &[u8] {
        let frame = self.packet(i).data();
        &frame[frame.len().saturating_sub(usize::from(self.len(i)))..]
    }

    /// Makes the frame of packet `i` start `l2` bytes before its head and end
    /// `l3` bytes after it. False, and nothing done, where the packet is shorter
    /// than `l3`, `l2` exceeds [`L2_ROOM`], or there is no room for it.
    #[inline(always)]
    pub fn frame(&mut self, i: usize, l2: usize, l3: usize) -> bool {
        self.burst.frame(i, l2, l3)
    }

    /// Puts packet `i`'s head to its frame's first byte.
    #[inline(always)]
    pub fn rewind(&mut self, i: usize) {
        self.burst.rewind(i);
    }

    /// Changes packet `i`'s frame as a whole; its head is at the first byte then.
    /// `None` where there is no packet `i`.
    #[inline]
    pub fn edit<R>(&mut self, i: usize, change: impl FnOnce(&mut Owned) -> R) -> Option<R> {
        self.burst.edit(i, change)
    }

    /// Leaves packet `i` to [`View::postponed`](crate::View::postponed): so the loop
    /// over the vector can be a function of its own without any call in it, and
    /// what it needs stays in registers.
    #[inline(always)]
    pub fn postpone(&mut self, i: usize) {
        self.edge[i] = POSTPONED;
    }

    /// Takes packet `i` out, and leaves a hole until [`Vector::close`].
    pub(crate) fn take(&mut self, i: usize) -> Option<Owned> {
        let packet = self.burst.take(i)?;
        self.holed = true;
        Some(packet)
    }

    /// Closes the holes: packets behind them move up, with their live lanes.
    pub(crate) fn close(&mut self, live: Live) {
        let (n, mut kept, mut start) = (self.n(), 0, 0);
        let mut there = [false; VECTOR];
        there.iter_mut().enumerate().for_each(|(i, there)| *there = self.burst.packet(i).is_some());
        while start < n {
            let run = there[start..n].iter().take_while(|&&there| there).count();
            if run > 0 && kept != start {
                // SAFETY: what is in `kept..start` are holes, and packets that were
                // moved up; what is left behind `truncate` forgets.
                unsafe { self.shift(start..start + run, kept, live) };
            }
            kept += run;
            start += run.max(1);
        }
        self.holed = false;
        self.truncate(kept);
    }

    /// Sets the number of the trace that follows packet `i`, the last one.
    pub(crate) fn set_mark(&mut self, i: usize, mark: u16) {
        if mark != 0 && !self.marked {
            self.mark.first_mut(i).fill(0);
            self.marked = true;
        }
        self.mark[i] = mark;
    }

    /// True when it holds no packet.
    pub fn is_empty(&self) -> bool {
        self.burst.is_empty()
    }

    /// The port by which its packets came in.
    #[inline(always)]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The edge that all packets take; `None` when they differ.
    #[inline]
    pub(crate) fn uniform(&self) -> Option<u8> {
        let edges = self.edge.first(self.n());
        let first = *edges.first()?;
        let differ = edges.iter().fold(0, |differ, &edge| differ | (edge ^ first));
        (differ == 0).then_some(first)
    }

    /// The edge that most packets take, or nearly: the first one's, or, where
    /// that is no majority, the first that differs from it. Counting every edge
    /// byte by byte cost 7 cycles a packet.
    pub(crate) fn majority(&self) -> u8 {
        let edges = self.edge.first(self.n());
        let first = edges[0];
        let same = edges.iter().filter(|&&edge| edge == first).count();
        if 2 * same >= edges.len() {
            return first;
        }
        let other = edges.iter().copied().find(|&edge| edge != first).unwrap_or(first);
        let others = edges.iter().filter(|&&edge| edge == other).count();
        if others > same { other } else { first }
    }

    /// Moves the packets `from` and their live lanes forward to `to`, over
    /// packets that were moved out.
    ///
    /// # Safety
    /// As [`Burst::shift`]: what was at `to` was moved out, and the caller ends with
    /// [`Vector::truncate`].
    pub(crate) unsafe fn shift(&mut self, from: Range<usize>, to: usize, live: Live) {
        // SAFETY: passed on unchanged.
        unsafe { self.burst.shift(from.clone(), to) };
        self.edge.shift(from.clone(), to);
        self.why.shift(from.clone(), to);
        if live.has(Live::KEY32) {
            self.key32.shift(from.clone(), to);
        }
        if live.has(Live::HOP) {
            self.hop.shift(from.clone(), to);
        }
        if live.has(Live::OUT) {
            self.out.shift(from.clone(), to);
        }
        if live.has(Live::IFACE) {
            self.iface.shift(from.clone(), to);
        }
        if live.has(Live::KEY64) {
            self.wide.key64.shift(from.clone(), to);
        }
        if live.has(Live::KEY128) {
            self.wide.key128.shift(from.clone(), to);
        }
        if live.has(Live::FLOW) {
            self.wide.flow.shift(from.clone(), to);
        }
        if self.marked {
            self.mark.shift(from, to);
        }
    }

    /// Appends the packets `from` of `other` and their live lanes. They are
    /// moved out.
    ///
    /// # Safety
    /// As [`Burst::append`]: `other` is closed with [`Vector::truncate`].
    ///
    /// # Panics
    /// When there is no room.
    pub(crate) unsafe fn append(&mut self, other: &Vector, from: Range<usize>, live: Live) {
        let at = self.n();
        // SAFETY: passed on unchanged.
        unsafe { self.burst.append(&other.burst, from.clone()) };
        self.why.copy(at, &other.why, from.clone());
        if live.has(Live::KEY32) {
            self.key32.copy(at, &other.key32, from.clone());
        }
        if live.has(Live::HOP) {
            self.hop.copy(at, &other.hop, from.clone());
        }
        if live.has(Live::OUT) {
            self.out.copy(at, &other.out, from.clone());
        }
        if live.has(Live::IFACE) {
            self.iface.copy(at, &other.iface, from.clone());
        }
        if live.has(Live::KEY64) {
            self.wide.key64.copy(at, &other.wide.key64, from.clone());
        }
        if live.has(Live::KEY128) {
            self.wide.key128.copy(at, &other.wide.key128, from.clone());
        }
        if live.has(Live::FLOW) {
            self.wide.flow.copy(at, &other.wide.flow, from.clone());
        }
        self.append_marks(at, other, from);
    }

    fn append_marks(&mut self, at: usize, other: &Vector, from: Range<usize>) {
        if !self.marked && !other.marked {
            return;
        }
        if !self.marked {
            self.mark.first_mut(at).fill(0);
            self.marked = true;
        }
        if other.marked {
            self.mark.copy(at, &other.mark, from);
        } else {
            self.mark.first_mut(at + from.len())[at..].fill(0);
        }
    }

    /// Keeps the first `n` packets and forgets the others, which were moved out.
    pub(crate) fn truncate(&mut self, n: usize) {
        self.burst.truncate(n);
    }

    /// Makes it empty for its next use, after a sink took every packet.
    pub(crate) fn clear(&mut self) {
        self.burst.clear();
        (self.marked, self.holed) = (false, false);
    }
}
