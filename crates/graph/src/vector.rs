//! A vector, which travels through the graph: packets, and the nodes' results about them.

use std::ops::Range;

pub use io::{BEFORE, L2_ROOM};
use io::{Burst, Owned, VECTOR, World};

use crate::slots::{Column, SlotSet, Slots};

/// Up to [`VECTOR`] packets and [slots](crate::slot) for everything that nodes learn
/// about them: lookups take whole arrays, packets are not written.
///
/// ```text
///  burst   packets, heads, lengths          ┐
///  edge    where each goes next             │ entries 0..n belong to packets,
///  why     of those that go to `drop`       │ the others are stale
///  slots   what nodes learnt: lanes         │
///  mark    number of its trace, if `marked` ┘
/// ```
///
/// A slot holds something only after a node on the way filled a lane in it: nodes reach
/// them through [`Packets`](crate::Packets), with the lanes that they declared.
///
/// No index is out of bounds, here or in the [`Burst`] below: packets, heads and
/// slots take it modulo [`VECTOR`], and a head without a packet is nobody's memory.
///
/// Invariant V1, of what the graph's own code relies on, not of memory: all packets
/// are of one world and came in by one port.
#[repr(C, align(64))]
pub struct Vector {
    pub(crate) burst: Burst,
    pub(crate) edge: Column<u8>,
    pub(crate) slots: Slots,
    /// Why a packet on the drop edge is dropped: index of the graph's reasons.
    pub(crate) why: Column<u16>,
    /// Number of the trace that follows the packet; 0 for none. Valid if `marked`.
    pub(crate) mark: Column<u16>,
    pub(crate) marked: bool,
    pub(crate) port: u16,
    pub(crate) world: World,
    /// True while packets that were taken out are missing in `0..n`.
    pub(crate) holed: bool,
    /// A packet did not fit: the source that fills it has more.
    pub(crate) refused: bool,
}

/// In the place of an edge: the packet has none yet.
pub(crate) const POSTPONED: u8 = 0xff;

impl Vector {
    pub(crate) fn new() -> Box<Vector> {
        Box::new(Vector {
            burst: *Burst::new(),
            edge: Column::filled(0),
            slots: Slots::new(),
            why: Column::filled(0),
            mark: Column::filled(0),
            marked: false,
            port: 0,
            world: World::Own,
            holed: false,
            refused: false,
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
        self.parts(i).1
    }

    /// The bytes of packet `i`'s frame before its head, and all from there to its end.
    #[inline]
    pub fn parts(&self, i: usize) -> (&[u8], &[u8]) {
        let frame = self.packet(i).data();
        let head = frame.len().saturating_sub(usize::from(self.len(i)));
        // cannot be `None`: the difference is at most the length.
        frame.split_at_checked(head).unwrap_or_default()
    }

    /// Makes the frame of packet `i` start `l2` bytes before its head and end
    /// `l3` bytes after it. False, and nothing done, where the packet is shorter
    /// than `l3`, `l2` exceeds [`L2_ROOM`], or there is no room for it.
    #[inline(always)]
    pub fn frame(&mut self, i: usize, l2: usize, l3: usize) -> bool {
        self.burst.frame(i, l2, l3)
    }

    /// [`Vector::retreat`] and [`Vector::frame`] in one step, for an outer header of which
    /// the length of the whole is known.
    #[inline(always)]
    pub fn wrap(&mut self, i: usize, by: usize, l2: usize, l3: usize) -> bool {
        self.burst.wrap(i, by, l2, l3)
    }

    /// The 64 bytes from `by` bytes behind packet `i`'s head, as [`Vector::head`] gives those
    /// from it. `None` where the packet is shorter.
    #[inline(always)]
    pub fn behind(&self, i: usize, by: usize) -> Option<&[u8; 64]> {
        self.burst.behind(i, by)
    }

    /// [`Vector::advance`], [`Vector::frame`] and [`Vector::forget_flow`] in one step, to take
    /// an outer header off behind a link header that stays as long as it is, and has yet to be
    /// moved. False, and nothing done, where the packet is shorter.
    #[inline(always)]
    pub fn unwrap(&mut self, i: usize, by: usize, l3: usize) -> bool {
        self.burst.unwrap(i, by, l3)
    }

    /// Asks for packet `i`'s descriptor, which holds the length of its frame.
    #[inline(always)]
    pub fn ask(&self, i: usize) {
        self.burst.ask(i);
    }

    /// Asks for what lies before packet `i`'s head.
    #[inline(always)]
    pub fn ask_before(&self, i: usize) {
        self.burst.ask_before(i);
    }

    /// Puts packet `i`'s head to its frame's first byte.
    #[inline(always)]
    pub fn rewind(&mut self, i: usize) {
        self.burst.rewind(i);
    }

    /// Clears the device's hash of packet `i`: it is not the flow's.
    #[inline(always)]
    pub fn forget_flow(&mut self, i: usize) {
        self.burst.forget_flow(i);
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

    /// Closes the holes: packets behind them move up, with the values of their `live` slots.
    #[cold]
    #[inline(never)]
    pub(crate) fn close(&mut self, live: SlotSet) {
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
        if self.marked {
            self.mark[i] = mark;
        }
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

    /// Moves the packets `from` and the values of their `live` slots forward to `to`, over
    /// packets that were moved out.
    ///
    /// # Safety
    /// As [`Burst::shift`]: what was at `to` was moved out, and the caller ends with
    /// [`Vector::truncate`].
    pub(crate) unsafe fn shift(&mut self, from: Range<usize>, to: usize, live: SlotSet) {
        // SAFETY: passed on unchanged.
        unsafe { self.burst.shift(from.clone(), to) };
        self.edge.shift(from.clone(), to);
        self.why.shift(from.clone(), to);
        self.slots.shift(from.clone(), to, live);
        if self.marked {
            self.mark.shift(from, to);
        }
    }

    /// Appends the packets `from` of `other` and the values of their `live` slots. They are
    /// moved out.
    ///
    /// # Safety
    /// As [`Burst::append`]: `other` is closed with [`Vector::truncate`].
    ///
    /// # Panics
    /// When there is no room.
    pub(crate) unsafe fn append(&mut self, other: &Vector, from: Range<usize>, live: SlotSet) {
        let at = self.n();
        // SAFETY: passed on unchanged.
        unsafe { self.burst.append(&other.burst, from.clone()) };
        self.why.copy(at, &other.why, from.clone());
        self.slots.copy(at, &other.slots, from.clone(), live);
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

    /// Overwrites what is in no slot of `live`, and what belongs to no packet.
    #[cfg(debug_assertions)]
    pub(crate) fn poison(&mut self, live: SlotSet) {
        let n = self.n();
        self.slots.spoil(0..n, SlotSet::ALL.without(live));
        self.slots.spoil(n..VECTOR, SlotSet::ALL);
    }

    /// Makes it empty for its next use, after a sink took every packet.
    pub(crate) fn clear(&mut self) {
        self.burst.clear();
        (self.marked, self.holed, self.refused) = (false, false, false);
    }
}
