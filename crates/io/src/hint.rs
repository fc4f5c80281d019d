//! Hints to the processor.

use crate::Head;

/// Asks for the first cache line of a header; changes nothing else.
#[inline(always)]
pub fn prefetch(head: Head) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: SSE is part of every x86_64; a prefetch never faults nor writes.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(head.as_ptr().cast()) }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = head;
}
