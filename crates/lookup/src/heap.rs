//! Counts what tests take from the heap.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Bytes that this thread has taken and not given back, less what it gave back
/// for others.
pub(crate) fn live() -> isize {
    LIVE.with(Cell::get)
}

/// The system's allocator, counting.
struct Counting;

#[global_allocator]
static HEAP: Counting = Counting;

thread_local!(static LIVE: Cell<isize> = const { Cell::new(0) });

fn count(bytes: isize) {
    // A thread that ends may allocate after its locals are gone: not counted.
    let _ = LIVE.try_with(|live| live.set(live.get() + bytes));
}

// SAFETY: the system's allocator does the work; the counter changes nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's obligations are passed on unchanged.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as isize - layout.size() as isize);
        // SAFETY: as above.
        unsafe { System.realloc(place, layout, size) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: as above.
        unsafe { System.dealloc(place, layout) }
    }
}
