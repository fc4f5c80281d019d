//! Packets that lose an outer header: looks behind it, and takes it off in one step.

use super::{Burst, VECTOR};

impl Burst {
    /// The 64 bytes from `by` bytes behind packet `i`'s head: what [`Burst::head`] is once the
    /// head has advanced by that much. `None` where the packet is shorter.
    #[inline(always)]
    pub fn behind(&self, i: usize, by: usize) -> Option<&[u8; 64]> {
        let i = i % VECTOR;
        if by > usize::from(self.len[i]) {
            return None;
        }
        // SAFETY: `by <= len`: inside the packet, behind whose end 64 bytes follow (B2, I1); of
        // an entry without one `len` and so `by` are 0 (B2).
        let head = unsafe { self.head[i].add(by) };
        // SAFETY: as said: 64 bytes after it are ours, as B1 says of a head.
        Some(unsafe { &*head.as_ptr().cast() })
    }

    /// Moves packet `i`'s head and its frame's start `by` bytes towards its end, makes the frame
    /// end `l3` bytes after the head, and clears the device's hash: [`Burst::advance`],
    /// [`Burst::frame`] and [`Burst::forget_flow`] in one step, for a link header that stays as
    /// long as it is. Its bytes are not moved. Returns false, and changes nothing, where the packet
    /// is shorter.
    #[inline(always)]
    pub fn unwrap(&mut self, i: usize, by: usize, l3: usize) -> bool {
        let i = i % VECTOR;
        let len = usize::from(self.len[i]);
        let Some(owned) = &mut self.pkt[i] else { return false };
        if by > len || l3 > len - by {
            return false;
        }
        let start = usize::from(owned.packet().data_off);
        // B2: the head lies `len` bytes before the packet's end, and not before its data.
        let before = usize::from(owned.packet().data_len) - len;
        owned.forget_flow();
        // SAFETY: I1, I6: it ends no later than before, as `by + l3 <= len`, and is no longer; I4:
        // the start moves away from the buffer's.
        unsafe { owned.set_data(start + by, before + l3) };
        // SAFETY: inside the packet as it was, and `l3` bytes before its new end.
        self.head[i] = unsafe { self.head[i].add(by) };
        self.len[i] = l3 as u16;
        true
    }
}
