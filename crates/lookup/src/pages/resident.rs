//! What tests see of a table's arrays: the memory that the system has given for them.

use std::cell::{Cell, RefCell};
use std::ptr::NonNull;

thread_local! {
    /// While true, arrays of this thread lie on pages of 4 KB: of large ones most is air.
    pub(crate) static SMALL_PAGES: Cell<bool> = const { Cell::new(false) };
    /// Place and bytes of this thread's arrays.
    static MAPPED: RefCell<Vec<(usize, usize)>> = const { RefCell::new(Vec::new()) };
}

pub(super) fn mapped(place: NonNull<u8>, bytes: usize) {
    MAPPED.with_borrow_mut(|all| all.push((place.addr().get(), bytes)));
}

pub(super) fn unmapped(place: NonNull<u8>) {
    // A thread that ends may drop an array after its locals are gone.
    let _ = MAPPED.try_with(|all| all.borrow_mut().retain(|(at, _)| *at != place.addr().get()));
}

/// How many arrays this thread has.
pub(crate) fn arrays() -> usize {
    MAPPED.with_borrow(Vec::len)
}

/// Bytes of address space that this thread's arrays take.
pub(crate) fn address_space() -> usize {
    MAPPED.with_borrow(|all| all.iter().map(|(_, bytes)| bytes).sum())
}

/// Bytes of this thread's arrays for which there is memory.
pub(crate) fn resident() -> usize {
    const PAGE: usize = 4096;
    let of = |&(place, bytes): &(usize, usize)| {
        let mut there = vec![0_u8; bytes.div_ceil(PAGE)];
        // SAFETY: the vector has a byte for each page; nothing else is written, and an
        // array that another thread has unmapped is refused.
        let result = unsafe { libc::mincore(place as *mut _, bytes, there.as_mut_ptr()) };
        let pages = there.iter().filter(|&&page| page & 1 == 1).count();
        if result == 0 { pages * PAGE } else { 0 }
    };
    MAPPED.with_borrow(|all| all.iter().map(of).sum())
}
