//! Packets that get an outer header: makes room in one step, and prefetches before that.

use super::{Burst, L2_ROOM, VECTOR};
use crate::Owned;
use crate::hint::prefetch;
use crate::packet::BEFORE;

impl Burst {
    /// Moves packet `i`'s head `by` bytes towards its start, and makes its frame start `l2` bytes
    /// before that and end `l3` bytes after it: [`Burst::retreat`] and [`Burst::frame`] in one
    /// step. Returns false, and changes nothing, where one of them would fail.
    #[inline(always)]
    pub fn wrap(&mut self, i: usize, by: usize, l2: usize, l3: usize) -> bool {
        let i = i % VECTOR;
        let Some(owned) = &mut self.pkt[i] else { return false };
        let (len, end) = (usize::from(self.len[i]), owned.packet().end());
        // B2: the head lies `len` bytes before the packet's end.
        let Some(head) = (end - len).checked_sub(by) else { return false };
        if l3 > len + by || l2 > L2_ROOM || head < L2_ROOM + BEFORE {
            return false;
        }
        // Mostly all of it is no longer than a packet may be, wherever its frame began.
        if len + by + l2 > owned.room() && !fits(owned, head, l2, l3) {
            return false;
        }
        // SAFETY: I1: `head + l3 <= end`, as `l3 <= len + by`; I4: `head - l2 >= BEFORE`; I6:
        // it is inside the frame as it was, or was just asked for.
        unsafe { owned.set_data(head - l2, l2 + l3) };
        self.vacated = false;
        // SAFETY: inside the buffer: `head <= end`, and enough before it (asked above).
        self.head[i] = unsafe { owned.place(head) };
        self.len[i] = l3 as u16;
        true
    }

    /// Prefetches the first line of packet `i`'s descriptor.
    #[inline(always)]
    pub fn ask(&self, i: usize) {
        // No address where there is none: that is nothing to ask for, and costs no compare.
        let raw = |owned: &Owned| owned.as_raw().as_ptr().cast_const();
        prefetch(self.pkt[i % VECTOR].as_ref().map_or(std::ptr::null(), raw));
    }

    /// Prefetches the line before packet `i`'s head, into which an outer header is written.
    #[inline(always)]
    pub fn ask_before(&self, i: usize) {
        prefetch(self.head[i % VECTOR].as_ptr().wrapping_sub(BEFORE));
    }
}

/// Whether a frame may start `l2` bytes before `head` and end `l3` bytes after it, and the
/// packet reach from there to its end in between.
#[inline(never)]
fn fits(owned: &Owned, head: usize, l2: usize, l3: usize) -> bool {
    let (start, end) = (usize::from(owned.packet().data_off), owned.packet().end());
    let (room, had) = (owned.room(), end - head.min(start));
    // What was there already may be longer than what is put in front leaves room for.
    head >= start + l2 || !(head < start && had > room) && l2 + l3 <= room.max(had)
}
