//! Memory that two processes share: one writes, the other reads.
//!
//! A [`Window`] reads memory that another process may write at any time: atomically, into memory of
//! its own, never through a reference. An [`Own`] writes. Each access is within bounds or panics:
//! the reader computes the offsets, and never takes them from the memory.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Memory that this process reads.
///
/// I1: `base` is the start of `len` readable bytes, aligned to 8, as long as `keep` lives.
#[derive(Debug)]
pub(crate) struct Window {
    base: NonNull<u8>,
    len: usize,
    keep: Keep,
}

/// Memory that this process also writes.
///
/// I2: the bytes of the window are writable, and no other `Own` of this process has them.
#[derive(Debug)]
pub(crate) struct Own(Window);

#[derive(Debug)]
enum Keep {
    /// Unmapped when dropped.
    Mapping,
    /// Memory of this process alone: for tests, fuzzing and miri.
    Words { _words: Arc<[AtomicU64]> },
}

// SAFETY: all accesses through a shared reference are atomic; plain ones are `unsafe`, or
// need `&mut Own`.
unsafe impl Send for Window {}
// SAFETY: as above.
unsafe impl Sync for Window {}

impl Window {
    /// Maps `len` bytes of `file` for reading.
    ///
    /// # Errors
    /// The system's.
    pub fn map(file: BorrowedFd<'_>, len: usize) -> io::Result<Window> {
        Window::mapped(file, len, ProtFlags::READ)
    }

    fn mapped(file: BorrowedFd<'_>, len: usize, protection: ProtFlags) -> io::Result<Window> {
        let at = ptr::null_mut();
        // SAFETY: a new mapping, where the kernel likes: it covers nothing of ours.
        let base = unsafe { mmap(at, len, protection, MapFlags::SHARED, file, 0) }?;
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Window { base, len, keep: Keep::Mapping })
    }

    /// Its address and its length.
    pub fn place(&self) -> (usize, usize) {
        (self.base.as_ptr().expose_provenance(), self.len)
    }

    /// The word at byte `at`.
    #[inline]
    pub fn load(&self, at: usize, order: Ordering) -> u32 {
        self.word(at).load(order)
    }

    /// Copies whole words from byte `at` on, once.
    #[inline]
    pub fn copy(&self, at: usize, out: &mut [u64]) {
        self.check(at, 8 * out.len(), 8);
        for (i, word) in out.iter_mut().enumerate() {
            // SAFETY: in bounds and aligned (checked above, I1).
            let at = unsafe { self.base.add(at + 8 * i) };
            // SAFETY: as above; atomic, so that it may change meanwhile.
            *word = unsafe { at.cast::<AtomicU64>().as_ref() }.load(Ordering::Relaxed);
        }
    }

    /// `len` bytes from `at` on, without a copy.
    ///
    /// # Safety
    /// Nobody writes them while the slice lives.
    #[inline]
    pub unsafe fn bytes(&self, at: usize, len: usize) -> &[u8] {
        self.check(at, len, 1);
        // SAFETY: in bounds (checked above, I1).
        let first = unsafe { self.base.add(at) };
        // SAFETY: as above, and not written: the caller's promise.
        unsafe { std::slice::from_raw_parts(first.as_ptr(), len) }
    }

    #[inline]
    fn word(&self, at: usize) -> &AtomicU32 {
        self.check(at, 4, 4);
        // SAFETY: in bounds (checked above, I1).
        let at = unsafe { self.base.add(at) };
        // SAFETY: as above, and aligned; whoever else has it uses atomics, or is another
        // process.
        unsafe { at.cast::<AtomicU32>().as_ref() }
    }

    /// # Panics
    /// Beyond the end, or not aligned.
    #[inline]
    fn check(&self, at: usize, len: usize, align: usize) {
        let end = at.checked_add(len);
        assert!(end.is_some_and(|end| end <= self.len) && at.is_multiple_of(align));
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        if matches!(self.keep, Keep::Mapping) {
            // SAFETY: mapped by `mapped`, this long; nothing refers to it any more.
            let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
        }
    }
}

impl Own {
    /// Maps `len` bytes of `file` for writing.
    ///
    /// # Errors
    /// The system's.
    ///
    /// # Safety
    /// No other [`Own`] of this process is of this file.
    pub unsafe fn map(file: BorrowedFd<'_>, len: usize) -> io::Result<Own> {
        Window::mapped(file, len, ProtFlags::READ | ProtFlags::WRITE).map(Own)
    }

    /// The written memory, for reading in this process.
    #[inline]
    pub fn window(&self) -> &Window {
        &self.0
    }

    /// Stores the word at byte `at`.
    #[inline]
    pub fn store(&mut self, at: usize, value: u32, order: Ordering) {
        self.0.word(at).store(value, order);
    }

    /// Writes whole words from byte `at` on, one by one.
    #[inline]
    pub fn write(&mut self, at: usize, words: &[u64]) {
        self.0.check(at, 8 * words.len(), 8);
        for (i, word) in words.iter().enumerate() {
            // SAFETY: in bounds and aligned (checked above, I1).
            let at = unsafe { self.0.base.add(at + 8 * i) };
            // SAFETY: as above; writable (I2).
            unsafe { at.cast::<AtomicU64>().as_ref() }.store(*word, Ordering::Relaxed);
        }
    }

    /// Copies `bytes` to byte `at`. The reader is another process, or waits for a word that is
    /// stored (release) after them.
    #[inline]
    pub fn put(&mut self, at: usize, bytes: &[u8]) {
        self.0.check(at, bytes.len(), 1);
        // SAFETY: in bounds (checked above, I1).
        let to = unsafe { self.0.base.add(at) };
        // SAFETY: as above; writable and nobody else's to write (I2), so it is no part of
        // `bytes`, which a safe caller has.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to.as_ptr(), bytes.len()) };
    }
}

/// A memory file of `len` zero bytes, which nobody can shrink or grow.
///
/// # Errors
/// The system's.
pub(crate) fn memory(name: &str, len: usize) -> io::Result<OwnedFd> {
    let file = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&file, len as u64)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)?;
    Ok(file)
}

/// Existing writable mappings stay; nobody can map or write it from then on.
///
/// # Errors
/// Kernels before 5.1 have no such seal.
pub(crate) fn seal_from_writers(file: &OwnedFd) -> io::Result<()> {
    Ok(fcntl_add_seals(file.as_fd(), SealFlags::FUTURE_WRITE | SealFlags::SEAL)?)
}

/// No seal can be added from then on.
///
/// # Errors
/// The system's.
pub(crate) fn seal(file: &OwnedFd) -> io::Result<()> {
    Ok(fcntl_add_seals(file.as_fd(), SealFlags::SEAL)?)
}

/// Both ends of `len` bytes within one process.
pub(crate) fn within(len: usize) -> (Own, Window) {
    let words: Arc<[AtomicU64]> = (0..len.div_ceil(8)).map(|_| AtomicU64::new(0)).collect();
    let base = NonNull::from(&*words).cast::<u8>();
    let end = |words| Window { base, len, keep: Keep::Words { _words: words } };
    (Own(end(words.clone())), end(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_end_writes_the_other_reads() {
        let (mut own, window) = within(64);
        own.write(8, &[1, 2]);
        own.put(25, b"abc");
        own.store(60, 7, Ordering::Release);
        let mut words = [0; 2];
        window.copy(8, &mut words);
        assert_eq!((words, window.load(60, Ordering::Acquire)), ([1, 2], 7));
        // SAFETY: nobody writes meanwhile.
        assert_eq!(unsafe { window.bytes(25, 3) }, b"abc");
        assert_eq!(own.window().load(60, Ordering::Relaxed), 7);
    }

    #[test]
    fn nothing_beyond_the_end_is_touched() {
        let (own, window) = within(64);
        let own = std::sync::Mutex::new(own);
        let fails = |access: &dyn Fn()| {
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(access));
            assert!(result.is_err());
            own.clear_poison();
        };
        fails(&|| _ = window.load(64, Ordering::Relaxed));
        fails(&|| _ = window.load(2, Ordering::Relaxed));
        fails(&|| window.copy(56, &mut [0; 2]));
        fails(&|| window.copy(usize::MAX - 7, &mut [0; 2]));
        fails(&|| own.lock().unwrap().put(63, b"ab"));
        fails(&|| own.lock().unwrap().write(64, &[1]));
        fails(&|| own.lock().unwrap().store(64, 1, Ordering::Relaxed));
    }

    #[cfg(not(miri))]
    #[test]
    fn sealed_memory_keeps_its_size_and_its_one_writer() {
        let file = memory("test", 4096).unwrap();
        // SAFETY: the one of this file.
        let mut own = unsafe { Own::map(file.as_fd(), 4096) }.unwrap();
        seal_from_writers(&file).unwrap();
        own.store(0, 9, Ordering::Release);
        assert_eq!(Window::map(file.as_fd(), 4096).unwrap().load(0, Ordering::Acquire), 9);
        // SAFETY: it fails.
        assert!(unsafe { Own::map(file.as_fd(), 4096) }.is_err());
        assert!(ftruncate(&file, 0).is_err() && ftruncate(&file, 8192).is_err());
        assert!(rustix::io::write(&file, b"a").is_err());
        assert!(fcntl_add_seals(&file, SealFlags::WRITE).is_err());
    }
}
