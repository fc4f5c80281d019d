//! Pages that nobody may read lie before and behind the arrays of tests, so that a read beyond
//! either end stops the test. Miri runs no vector instructions, and the address sanitizer
//! sees neither mapped arrays nor what a gather reads.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use super::{Pages, SMALL};

/// Bytes of a guard.
pub(super) const GUARD: usize = SMALL;

/// Shuts the pages before and behind the `bytes` bytes of an array.
///
/// # Safety
/// Both belong to the array's mapping, and nothing refers to them.
pub(super) unsafe fn shut(place: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller's promise: the page before is in one mapping with the array.
    let before = unsafe { place.sub(GUARD) };
    // SAFETY: likewise the page behind.
    let behind = unsafe { place.add(bytes) };
    for guard in [before, behind] {
        // SAFETY: nothing refers to the page.
        let result = unsafe { libc::mprotect(guard.as_ptr().cast(), GUARD, libc::PROT_NONE) };
        assert_eq!(result, 0, "a page can be shut");
    }
}

/// A copy of some values that ends where a guard begins.
///
/// - I1: the last `len` values' worth of bytes of `bytes`, whole pages, hold such values.
pub(crate) struct Guarded<T> {
    bytes: Pages<u8>,
    len: usize,
    of: PhantomData<T>,
}

impl<T: Copy> From<&[T]> for Guarded<T> {
    fn from(values: &[T]) -> Self {
        let size = size_of_val(values);
        let mut bytes = Pages::<u8>::zeroed(size.next_multiple_of(SMALL)).expect("there is room");
        let at = bytes.len() - size;
        let to = bytes.as_mut_slice()[at..].as_mut_ptr();
        // SAFETY: `size` bytes of values that may be copied, to as many of another array.
        unsafe { std::ptr::copy_nonoverlapping(values.as_ptr().cast(), to, size) };
        Guarded { bytes, len: values.len(), of: PhantomData }
    }
}

impl<T: Copy> Deref for Guarded<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        let at = self.bytes.len() - self.len * size_of::<T>();
        // SAFETY: I1; whole pages less whole values keep the alignment of a value.
        unsafe { std::slice::from_raw_parts(self.bytes[at..].as_ptr().cast(), self.len) }
    }
}

impl<T: Copy> DerefMut for Guarded<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        let at = self.bytes.len() - self.len * size_of::<T>();
        let start = self.bytes.as_mut_slice()[at..].as_mut_ptr();
        // SAFETY: as above, and `self` is not shared.
        unsafe { std::slice::from_raw_parts_mut(start.cast(), self.len) }
    }
}

/// What the kernel says of the page at `address`: `rw-p`, `---p`, or nothing.
fn rights(address: usize) -> Option<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines().find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (from, to) = range.split_once('-')?;
        let [from, to] = [from, to].map(|end| usize::from_str_radix(end, 16).ok());
        (from?..to?).contains(&address).then(|| rest[..4].to_string())
    })
}

#[test]
fn nobody_reads_beyond_an_array() {
    for values in [1, 1000, 1024, 3 << 20] {
        let pages = Pages::<u32>::zeroed(values).unwrap();
        let (first, end) = (pages.as_ptr().addr(), pages.as_ptr().addr() + pages.bytes);
        assert_eq!(rights(first - 1).as_deref(), Some("---p"), "before {values}");
        assert_eq!(rights(end).as_deref(), Some("---p"), "behind {values}");
        assert_eq!(rights(end - 1).as_deref(), Some("rw-p"));
    }
}

#[test]
fn guarded_values_end_at_a_guard() {
    let mut values = Guarded::from(&[1_u128, 2, 3][..]);
    values[1] = 7;
    assert_eq!(*values, [1, 7, 3]);
    assert_eq!(rights(values.as_ptr_range().end.addr()).as_deref(), Some("---p"));
}
