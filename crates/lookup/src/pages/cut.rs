//! Arrays of a power of two of values, in which any number is a place.

use std::io;
use std::ops::Deref;

use super::{Pages, Zeroed};

/// An array of a power of two of values, by numbers whose upper bits do not count: any number
/// is a place. The mask lies beside the array's place, where an AND takes it as it would a
/// constant, so that arrays may be as large as their tables need.
///
/// - I3: `all` has `mask + 1` values, [`LEAST_CUT`] or more.
pub(crate) struct Cut<T: Zeroed> {
    all: Pages<T>,
    mask: usize,
}

impl<T: Zeroed> Cut<T> {
    /// `len` zeros.
    ///
    /// # Errors
    /// As [`Pages::zeroed`].
    ///
    /// # Panics
    /// Where `len` is not a power of two, or less than [`LEAST_CUT`].
    pub(crate) fn zeroed(len: usize) -> io::Result<Self> {
        assert!(len.is_power_of_two() && len >= LEAST_CUT);
        Ok(Cut { all: Pages::zeroed(len)?, mask: len - 1 })
    }

    /// The value at `i`, its upper bits cut off.
    #[inline(always)]
    pub(crate) fn at(&self, i: usize) -> &T {
        // SAFETY: I1, I3: `i & mask` is less than the number of values.
        let place = unsafe { self.all.place.add(i & self.mask) };
        // SAFETY: it lies in the mapping, and zero is a value.
        unsafe { place.as_ref() }
    }

    /// The `i`-th of the blocks of `N` values, the upper bits of `i` cut off.
    #[inline(always)]
    pub(crate) fn block<const N: usize>(&self, i: usize) -> &[T; N] {
        const { assert!(N.is_power_of_two() && N <= LEAST_CUT) };
        let from = i.wrapping_mul(N) & self.mask;
        // SAFETY: as above.
        let place = unsafe { self.all.place.add(from) };
        // SAFETY: as above; whole blocks, of which `from` begins one, make up the array (I3).
        unsafe { place.cast().as_ref() }
    }
}

impl<T: Zeroed> Deref for Cut<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        &self.all
    }
}

/// All of an array, by numbers whose upper bits do not count: any number is a place. The
/// length is known only when the array is made, and still no read has a branch for it.
///
/// - I2: `all` has a power of two of values.
pub(crate) struct Masked<'t, T> {
    all: &'t [T],
}

impl<T> Clone for Masked<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Masked<'_, T> {}

impl<'t, T> Masked<'t, T> {
    /// # Panics
    /// Where `all` has not a power of two of values.
    #[inline(always)]
    pub(crate) fn new(all: &'t [T]) -> Self {
        assert!(all.len().is_power_of_two());
        Masked { all }
    }

    /// What of a number counts.
    #[inline(always)]
    #[cfg(avx512)]
    pub(crate) fn mask(self) -> usize {
        self.all.len() - 1
    }

    /// The value at `i`, its upper bits cut off.
    #[inline(always)]
    pub(crate) fn at(self, i: usize) -> &'t T {
        // SAFETY: I2, so that `i & (len - 1)` is less than `len`.
        unsafe { self.all.get_unchecked(i & (self.all.len() - 1)) }
    }

    /// The first value's place.
    #[inline(always)]
    #[cfg(avx512)]
    pub(crate) fn as_ptr(self) -> *const T {
        self.all.as_ptr()
    }
}

/// The values of the smallest [`Cut`], and of its largest block.
const LEAST_CUT: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_is_a_place() {
        let pages = Pages::<u64>::zeroed(8).unwrap();
        let all = Masked::new(&pages);
        assert!([0, 7, 8, usize::MAX].iter().all(|&i| std::ptr::eq(all.at(i), &pages[i % 8])));
        assert!(std::panic::catch_unwind(|| *Masked::new(&[0; 6]).at(0)).is_err());
        let cut = Cut::<u64>::zeroed(64).unwrap();
        for i in [0, 3, 63, 64, usize::MAX] {
            assert!(std::ptr::eq(cut.at(i), &cut[i % 64]));
            assert!(std::ptr::eq(&cut.block::<4>(i)[1], &cut[i % 16 * 4 + 1]));
            assert!(std::ptr::eq(&cut.block::<64>(i)[63], &cut[63]));
        }
        for len in [32, 96] {
            assert!(std::panic::catch_unwind(|| Cut::<u64>::zeroed(len).map(drop)).is_err());
        }
    }
}
