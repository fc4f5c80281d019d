//! Large zeroed arrays on 2 MB pages where they are to be had.
//!
//! A table of some megabytes read at random places misses the TLB on 4 KB pages
//! at nearly every read. The array is mapped, not allocated: its pages are backed
//! when first touched, so an array may be reserved at the size that it may reach
//! and never moves (what in-place engines need: readers hold references).
//!
//! Pages that the administrator has reserved ([`Kind::Reserved`]) are taken only where
//! somebody asks for them: they may be meant for DPDK's packets.
//!
//! Because a mapping always succeeds, a table that grows asks [`admit`] first, or is
//! [`Pages::admitted`]; and a large one is touched before it serves: by who builds it, or
//! in the background ([`Touching`]).

mod cut;
#[cfg(all(test, not(miri)))]
mod guards;
#[cfg_attr(any(miri, test), allow(dead_code))]
mod machine;
#[cfg(all(test, not(miri)))]
mod resident;
mod room;
mod touch;

use std::io;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

pub(crate) use cut::{Cut, Masked};
#[cfg(all(test, not(miri)))]
pub(crate) use guards::Guarded;
#[cfg(all(test, not(miri)))]
pub(crate) use resident::{SMALL_PAGES, address_space, arrays, resident};
#[cfg(test)]
pub(crate) use room::tests::PRETENDED;
pub use room::{NoRoom, RESERVE, STEP, admit, ask, available, refused, trust};
use room::{Promise, promise};
/// Miri knows where an allocation ends.
#[cfg(all(test, miri))]
pub(crate) use std::vec::Vec as Guarded;
pub use touch::{Cell, STEP as TOUCH_STEP, Touch, Touching};

/// What an array lies on.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Kind {
    /// Pages of 1 GB or 2 MB that were reserved (`vm.nr_hugepages`).
    Reserved,
    /// Memory that the system is asked to back with pages of 2 MB.
    #[default]
    Transparent,
    /// Pages of 4 KB, for comparison.
    Small,
}

impl Kind {
    /// The kind of this name, as engines' options say it.
    pub fn named(name: &str) -> Option<Kind> {
        match name {
            "reserved" => Some(Kind::Reserved),
            "large" => Some(Kind::Transparent),
            "small" => Some(Kind::Small),
            _ => None,
        }
    }
}

/// A fixed number of `T`, all bytes zero at first.
///
/// - I1: `place` is the start of a mapping of `bytes` bytes, whole pages, aligned to one
///   and so to `T`, that is unmapped when this is dropped and at no other time; `len`
///   values fit.
pub struct Pages<T: Zeroed> {
    place: NonNull<T>,
    len: usize,
    bytes: usize,
    /// In tests, bytes of the guard on either side, which belong to the mapping.
    #[cfg(all(test, not(miri)))]
    guard: usize,
    /// Of arrays that were asked for: what is not touched yet.
    promise: Option<Promise>,
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
    pub fn zeroed(len: usize) -> io::Result<Self> {
        Pages::zeroed_on(Kind::default(), len)
    }

    /// `len` zeros on pages of this kind.
    ///
    /// # Errors
    /// When the system has no room for the mapping, or has not reserved so many pages.
    #[cfg(not(miri))]
    pub fn zeroed_on(kind: Kind, len: usize) -> io::Result<Self> {
        const { assert!(align_of::<T>() <= 4096 && size_of::<T>() > 0) };
        let too_large = || io::Error::from(io::ErrorKind::OutOfMemory);
        let bytes = len.checked_mul(size_of::<T>()).filter(|&bytes| bytes <= isize::MAX as usize);
        let bytes = bytes.ok_or_else(too_large)?.max(1);
        #[cfg(test)]
        let kind = if SMALL_PAGES.get() { Kind::Small } else { kind };
        let (place, bytes) = match kind {
            Kind::Reserved => reserved(bytes)?,
            Kind::Transparent => aligned(bytes, libc::MADV_HUGEPAGE)?,
            Kind::Small => aligned(bytes, libc::MADV_NOHUGEPAGE)?,
        };
        #[cfg(test)]
        resident::mapped(place, bytes);
        Ok(Pages {
            place: place.cast(),
            len,
            bytes,
            #[cfg(test)]
            guard: if kind == Kind::Reserved { 0 } else { GUARD },
            promise: None,
            owns: PhantomData,
        })
    }

    /// Miri knows no `madvise`: an ordinary allocation, leaked to the drop below.
    #[cfg(miri)]
    pub fn zeroed_on(_: Kind, len: usize) -> io::Result<Self> {
        let bytes = (len * size_of::<T>()).max(1);
        let layout = std::alloc::Layout::from_size_align(bytes, 4096)
            .map_err(|_| io::ErrorKind::OutOfMemory)?;
        // SAFETY: the size is not 0.
        let place = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) });
        let place = place.ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Pages { place: place.cast(), len, bytes, promise: None, owns: PhantomData })
    }

    /// `len` zeros where the machine has memory for them, or so many pages are reserved,
    /// which are not of that. With too few of those, large pages serve. Until a large array
    /// is touched ([`Touch`], [`Pages::touch_now`]) nobody else is granted its memory.
    ///
    /// # Errors
    /// When there is too little of either.
    pub fn admitted(kind: Kind, len: usize) -> io::Result<Self> {
        if kind == Kind::Reserved
            && let Ok(pages) = Pages::zeroed_on(kind, len)
        {
            return Ok(pages);
        }
        let bytes = len.saturating_mul(size_of::<T>());
        let promise = if bytes < LARGE_ARRAY {
            admit(bytes).map(|()| None)
        } else {
            promise(bytes).map(Some)
        };
        let promise = promise.map_err(io::Error::other)?;
        let kind = if kind == Kind::Small { kind } else { Kind::Transparent };
        let mut pages = Pages::zeroed_on(kind, len)?;
        pages.promise = promise;
        Ok(pages)
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
        #[cfg(all(test, not(miri)))]
        resident::unmapped(self.place.cast());
        #[cfg(all(test, not(miri)))]
        // SAFETY: the guards are of the same mapping.
        unmap(unsafe { self.place.cast().sub(self.guard) }, self.bytes + 2 * self.guard);
        #[cfg(not(any(miri, test)))]
        unmap(self.place.cast(), self.bytes);
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

/// Gives each of `cells` the same value, where no reader is yet.
pub(crate) fn fill(cells: &[AtomicU32], value: u32) {
    #[cfg(not(miri))]
    cells.iter().for_each(|cell| cell.store(value, Ordering::Relaxed));
    #[cfg(miri)]
    fill_by_copies(cells, value);
}

/// Miri takes minutes for the stores of one root: a copy of any length is one step.
#[cfg(miri)]
fn fill_by_copies(cells: &[AtomicU32], value: u32) {
    let Some(first) = cells.first() else { return };
    first.store(value, Ordering::Relaxed);
    let mut done = 1;
    while done < cells.len() {
        let more = done.min(cells.len() - done);
        copy(&cells[..more], &cells[done..]);
        done += more;
    }
}

/// Copies cells at once, which no thread may read or write meanwhile: miri says so.
#[cfg(miri)]
pub(crate) fn copy<T: Zeroed>(from: &[T], to: &[T]) {
    assert!(from.len() <= to.len());
    // SAFETY: `to` has that many, cells of both may be written through a shared
    // reference where they are atomics, and two slices do not overlap.
    unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to.as_ptr().cast_mut(), from.len()) };
}

// SAFETY: the mapping belongs to no thread; `T` is as free to move as it says.
unsafe impl<T: Zeroed + Send> Send for Pages<T> {}
// SAFETY: sharing gives `&T` only, and `T` is `Sync`.
unsafe impl<T: Zeroed> Sync for Pages<T> {}

/// A mapping of `bytes` bytes on the largest reserved pages of which there are enough;
/// and how long it is.
#[cfg(not(miri))]
fn reserved(bytes: usize) -> io::Result<(NonNull<u8>, usize)> {
    let sizes = [(GIANT, libc::MAP_HUGE_1GB), (LARGE, libc::MAP_HUGE_2MB)];
    let mut refusal = io::Error::from(io::ErrorKind::OutOfMemory);
    // Of a page twice as large as the array more than half would be lost.
    for (page, size) in sizes.into_iter().filter(|(page, _)| page / 2 <= bytes.max(LARGE / 2)) {
        let bytes = bytes.next_multiple_of(page);
        match map(bytes, libc::MAP_HUGETLB | size) {
            Ok(place) => return Ok((place, bytes)),
            Err(error) => refusal = error,
        }
    }
    Err(refusal)
}

/// A mapping of `bytes` bytes that starts where a large page may, with this `advice`; and
/// how long it is. Where the advice is refused (there are no such pages), small ones serve.
/// In tests a guard is left on either side.
#[cfg(not(miri))]
fn aligned(bytes: usize, advice: i32) -> io::Result<(NonNull<u8>, usize)> {
    let bytes = bytes.next_multiple_of(SMALL);
    let mapped = bytes + LARGE + 2 * GUARD;
    let place = map(mapped, libc::MAP_NORESERVE)?;
    let start = (place.addr().get() + GUARD).next_multiple_of(LARGE) - place.addr().get();
    // SAFETY: `start` < LARGE + GUARD, so it lies inside the mapping.
    let aligned = unsafe { place.add(start) };
    unmap(place, start - GUARD);
    // SAFETY: the end of the mapping is at or behind the piece kept.
    let tail = unsafe { aligned.add(bytes + GUARD) };
    unmap(tail, mapped - start - bytes - GUARD);
    // SAFETY: the piece is mapped; advice changes no contents.
    unsafe { libc::madvise(aligned.as_ptr().cast(), bytes, advice) };
    #[cfg(test)]
    // SAFETY: both guards were kept above, and are new.
    unsafe {
        guards::shut(aligned, bytes)
    };
    Ok((aligned, bytes))
}

#[cfg(not(miri))]
fn map(bytes: usize, flags: i32) -> io::Result<NonNull<u8>> {
    let read_write = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags;
    // SAFETY: a new anonymous mapping at a place of the kernel's choice touches
    // nothing that exists.
    let place = unsafe { libc::mmap(std::ptr::null_mut(), bytes, read_write, flags, -1, 0) };
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

/// Arrays of so many bytes, and larger ones, are touched before they serve. Smaller ones may
/// be touched as they are written: soon.
pub const LARGE_ARRAY: usize = 16 << 20;

/// What engines say of an option that is a [`Kind`].
pub(crate) const HELP: &str =
    "large, reserved (pages of 1 GB or 2 MB, where enough are free) or small";

#[cfg(not(miri))]
const GIANT: usize = 1 << 30;
#[cfg(not(miri))]
const LARGE: usize = 2 << 20;
#[cfg(not(miri))]
const SMALL: usize = 4096;
#[cfg(all(test, not(miri)))]
const GUARD: usize = guards::GUARD;
#[cfg(not(any(test, miri)))]
const GUARD: usize = 0;

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

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
    fn small_pages_serve_and_reserved_ones_where_there_are_enough() {
        let small = Pages::<u64>::zeroed_on(Kind::Small, 1000).unwrap();
        assert!(small.iter().all(|&word| word == 0));
        // A machine that has none refuses, at once and not at the first touch.
        if let Ok(mut reserved) = Pages::<u64>::zeroed_on(Kind::Reserved, 1000) {
            reserved.as_mut_slice().fill(7);
            #[cfg(not(miri))]
            assert_eq!(reserved.bytes, LARGE);
        }
        #[cfg(not(miri))]
        assert!(Pages::<u8>::zeroed_on(Kind::Reserved, 1 << 44).is_err(), "16 TiB");
    }

    #[test]
    #[cfg(all(not(miri), target_pointer_width = "64"))]
    fn what_is_only_reserved_costs_nothing() {
        let pages = Pages::<u64>::zeroed(1 << 30).unwrap(); // 8 GiB
        assert_eq!(pages[1 << 29], 0);
        assert!(Pages::<u64>::zeroed(usize::MAX / 8).is_err());
    }
}
