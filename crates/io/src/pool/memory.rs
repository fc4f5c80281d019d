//! Zeroed memory for packets, on pages of 2 MB where they are to be had.

use std::io;
use std::ptr::NonNull;

/// What a pool's memory lies on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Pages {
    /// Reserved pages of 2 MB (`vm.nr_hugepages`).
    Huge,
    /// Ordinary memory that the kernel was asked to back with pages of 2 MB.
    Transparent,
    /// Pages of 4 KB.
    Small,
}

/// A mapping of `bytes` zeroed bytes at `base`, unmapped when dropped.
pub(super) struct Memory {
    base: NonNull<u8>,
    bytes: usize,
    pages: Pages,
}

// SAFETY: it is memory; who may touch which part of it, the pool decides.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Maps at least `bytes`, aligned to a page; on small pages where `large`
    /// is false or it would waste more than it holds.
    pub(super) fn map(bytes: usize, large: bool) -> io::Result<Memory> {
        // Miri knows neither large pages nor partial unmapping.
        if !large || cfg!(miri) || bytes < LARGE / 2 {
            return Memory::small(bytes);
        }
        let bytes = bytes.next_multiple_of(LARGE);
        match map(bytes, libc::MAP_HUGETLB | libc::MAP_HUGE_2MB) {
            Ok(base) => Ok(Memory { base, bytes, pages: Pages::Huge }),
            Err(_) => Memory::transparent(bytes),
        }
    }

    fn small(bytes: usize) -> io::Result<Memory> {
        let bytes = bytes.next_multiple_of(SMALL);
        Ok(Memory { base: map(bytes, 0)?, bytes, pages: Pages::Small })
    }

    /// Maps one large page too many and gives back what is not aligned.
    fn transparent(bytes: usize) -> io::Result<Memory> {
        let start = map(bytes + LARGE, 0)?;
        let before = start.as_ptr().align_offset(LARGE);
        let skip = |n: usize| start.as_ptr().wrapping_add(n);
        unmap(start.as_ptr(), before);
        unmap(skip(before + bytes), LARGE - before);
        let base = NonNull::new(skip(before)).expect("it lies inside the mapping");
        // SAFETY: the range is ours; the advice changes what backs it, not what it holds.
        let advised = unsafe { libc::madvise(base.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE) };
        let pages = if advised == 0 { Pages::Transparent } else { Pages::Small };
        Ok(Memory { base, bytes, pages })
    }

    pub(super) fn base(&self) -> NonNull<u8> {
        self.base
    }

    pub(super) fn pages(&self) -> Pages {
        self.pages
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        crate::packet::shadow::forget(self.base.as_ptr(), self.bytes);
        unmap(self.base.as_ptr(), self.bytes);
    }
}

fn map(bytes: usize, flags: i32) -> io::Result<NonNull<u8>> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a fresh anonymous mapping at a place that the kernel chooses.
    let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, flags, -1, 0) };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(NonNull::new(base.cast()).expect("the kernel maps nothing at address 0"))
}

/// Gives back whole pages of a mapping that `map` made; nothing for 0 bytes.
fn unmap(base: *mut u8, bytes: usize) {
    if bytes > 0 {
        // SAFETY: the range belongs to the caller's mapping, and nobody uses it any more.
        let done = unsafe { libc::munmap(base.cast(), bytes) };
        debug_assert_eq!(done, 0, "munmap");
    }
}

const SMALL: usize = 4 << 10;
const LARGE: usize = 2 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_there_and_zero() {
        let much = if cfg!(miri) { 9 << 10 } else { 3 << 20 };
        for (bytes, large) in [(1, true), (5000, false), (much, true), (much, false)] {
            let memory = Memory::map(bytes, large).unwrap();
            assert!(memory.bytes >= bytes);
            let align = if memory.pages() == Pages::Small { SMALL } else { LARGE };
            assert_eq!(memory.base().as_ptr().align_offset(align), 0);
            // SAFETY: `bytes` bytes were mapped.
            let all = unsafe { std::slice::from_raw_parts_mut(memory.base().as_ptr(), bytes) };
            assert!(all.iter().all(|&byte| byte == 0));
            all.fill(1);
        }
    }
}
