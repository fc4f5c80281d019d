//! Large zeroed arrays on 2 MB pages where they are to be had.
//!
//! A table of some megabytes read at random places misses the TLB on 4 KB pages
//! at nearly every read. The array is mapped, not allocated: its pages are backed
//! when first touched, so an array may be reserved at the size that it may reach
//! and never moves (what in-place engines need: readers hold references).

use std::io;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;

/// A fixed number of `T`, all bytes zero at first.
///
/// - I1: `place` is the start of a mapping of `bytes` bytes, aligned to a page and
///   so to `T`, that is unmapped when this is dropped and at no other time.
pub struct Pages<T: Zeroed> {
    place: NonNull<T>,
    len: usize,
    bytes: usize,
    owns: PhantomData<T>,
}

/// Types for which all bytes zero is a value, and that need no drop.
///
/// # Safety
/// All bytes zero must be a valid value, and the type must have no destructor.
pub unsafe trait Zeroed: Sync + 'static {}

macro_rules! zeroed {
    ($($t:ty),*) => {$(
        // SAFETY: an integer; zero is a value, and there is no destructor.
        unsafe impl Zeroed for $t {}
    )*};
}
zeroed!(
    u8,
    u16,
    u32,
    u64,
    u128,
    std::sync::atomic::AtomicU8,
    std::sync::atomic::AtomicU16,
    std::sync::atomic::AtomicU32,
    std::sync::atomic::AtomicU64
);
// SAFETY: an array of such values is one.
unsafe impl<T: Zeroed, const N: usize> Zeroed for [T; N] {}

impl<T: Zeroed> Pages<T> {
    /// `len` zeros. Memory is taken when places are first written or read.
    ///
    /// # Errors
    /// When the system has no room for the mapping.
    #[cfg(not(miri))]
    pub fn zeroed(len: usize) -> io::Result<Self> {
        const { assert!(align_of::<T>() <= 4096 && size_of::<T>() > 0) };
        let too_large = || io::Error::from(io::ErrorKind::OutOfMemory);
        let bytes = len.checked_mul(size_of::<T>()).ok_or_else(too_large)?.max(1);
        // A little more than asked, so that the array starts on a large page.
        let mapped = bytes.checked_add(LARGE).ok_or_else(too_large)?;
        let place = map(mapped)?;
        let start = place.addr().get().next_multiple_of(LARGE) - place.addr().get();
        // SAFETY: `start` < LARGE, so it lies inside the mapping.
        let aligned = unsafe { place.add(start) };
        unmap(place, start);
        // SAFETY: the end of the mapping is one past the piece kept.
        let tail = unsafe { aligned.add(bytes.next_multiple_of(SMALL)) };
        unmap(tail, mapped - start - bytes.next_multiple_of(SMALL));
        // SAFETY: the piece is mapped; advice changes no contents. Where it is
        // refused (no such pages), small pages serve.
        unsafe { libc::madvise(aligned.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE) };
        Ok(Pages { place: aligned.cast(), len, bytes, owns: PhantomData })
    }

    /// Miri knows no `madvise`: an ordinary allocation, leaked to the drop below.
    #[cfg(miri)]
    pub fn zeroed(len: usize) -> io::Result<Self> {
        let bytes = (len * size_of::<T>()).max(1);
        let layout = std::alloc::Layout::from_size_align(bytes, 4096)
            .map_err(|_| io::ErrorKind::OutOfMemory)?;
        // SAFETY: the size is not 0.
        let place = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) });
        let place = place.ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Pages { place: place.cast(), len, bytes, owns: PhantomData })
    }

    /// The values, to be changed.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        // SAFETY: I1; zero is a value of `T`, and `self` is not shared.
        unsafe { std::slice::from_raw_parts_mut(self.place.as_ptr(), self.len) }
    }
}

impl<T: Zeroed> Deref for Pages<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: I1; zero is a value of `T`.
        unsafe { std::slice::from_raw_parts(self.place.as_ptr(), self.len) }
    }
}

impl<T: Zeroed> Drop for Pages<T> {
    fn drop(&mut self) {
        #[cfg(not(miri))]
        unmap(self.place.cast(), self.bytes.next_multiple_of(SMALL));
        #[cfg(miri)]
        // SAFETY: allocated in `zeroed` with this layout (I1).
        unsafe {
            std::alloc::dealloc(
                self.place.as_ptr().cast(),
                std::alloc::Layout::from_size_align_unchecked(self.bytes, 4096),
            )
        }
    }
}

// SAFETY: the mapping belongs to no thread; `T` is as free to move as it says.
unsafe impl<T: Zeroed + Send> Send for Pages<T> {}
// SAFETY: sharing gives `&T` only, and `T` is `Sync`.
unsafe impl<T: Zeroed> Sync for Pages<T> {}

#[cfg(not(miri))]
fn map(bytes: usize) -> io::Result<NonNull<u8>> {
    let (read_write, private) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
    );
    // SAFETY: a new anonymous mapping at a place of the kernel's choice touches
    // nothing that exists.
    let place = unsafe { libc::mmap(std::ptr::null_mut(), bytes, read_write, private, -1, 0) };
    if place == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(NonNull::new(place.cast()).expect("the kernel maps nothing at 0"))
}

#[cfg(not(miri))]
fn unmap(place: NonNull<u8>, bytes: usize) {
    if bytes > 0 {
        // SAFETY: the callers own this piece of their mapping, and nothing refers to it.
        let result = unsafe { libc::munmap(place.as_ptr().cast(), bytes) };
        debug_assert_eq!(result, 0);
    }
}

#[cfg(not(miri))]
const LARGE: usize = 2 << 20;
#[cfg(not(miri))]
const SMALL: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn zeros_that_keep_what_is_written() {
        for len in [0, 1, 1000, 600_000] {
            let pages = Pages::<AtomicU32>::zeroed(len).unwrap();
            assert_eq!(pages.len(), len);
            assert!(pages.iter().step_by(511).all(|cell| cell.load(Ordering::Relaxed) == 0));
            for (i, cell) in pages.iter().enumerate().step_by(97) {
                cell.store(i as u32, Ordering::Relaxed);
            }
            assert!(
                pages
                    .iter()
                    .enumerate()
                    .step_by(97)
                    .all(|(i, c)| { c.load(Ordering::Relaxed) == i as u32 })
            );
        }
    }

    #[test]
    #[cfg(all(not(miri), target_pointer_width = "64"))]
    fn what_is_only_reserved_costs_nothing() {
        let pages = Pages::<u64>::zeroed(1 << 30).unwrap(); // 8 GiB
        assert_eq!(pages[1 << 29], 0);
        assert!(Pages::<u64>::zeroed(usize::MAX / 8).is_err());
    }
}
