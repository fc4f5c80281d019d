//! Cache lines of eight words: the buckets of the tables of 8-byte entries.

use std::ops::RangeInclusive;

#[cfg(not(loom))]
use crate::pages::{Cell, Pages, Zeroed};
use crate::pages::{Kind, Touch};
use crate::sync::{AtomicU64, Ordering};

/// A bucket of `$n` words, aligned so that it lies in one cache line.
macro_rules! bucket {
    ($(#[$doc:meta])* $name:ident, $n:expr, $align:literal) => {
        $(#[$doc])*
        #[repr(align($align))]
        pub(super) struct $name([AtomicU64; $n]);

        // SAFETY: atomics, of which zero is a value, without a destructor.
        #[cfg(not(loom))]
        unsafe impl Zeroed for $name {}

        #[cfg(not(loom))]
        impl Cell for $name {
            fn rewrite(&self) {
                self.0[0].rewrite();
            }
        }

        #[cfg(loom)]
        impl Default for $name {
            fn default() -> Self {
                $name(std::array::from_fn(|_| AtomicU64::new(0)))
            }
        }

        impl $name {
            /// The word in `slot`: the writer's own, or one that a version guards.
            #[inline(always)]
            pub(super) fn own(&self, slot: usize) -> u64 {
                self.0[slot].load(Ordering::Relaxed)
            }

            /// Writes `slot`; who loads it sees all that was written before.
            #[inline(always)]
            pub(super) fn store(&self, slot: usize, word: u64) {
                self.0[slot].store(word, Ordering::Release);
            }
        }
    };
}

bucket! {
    /// A cache line of entries.
    Line, SLOTS, 64
}
bucket! {
    /// Half a line.
    Half, HALF, 32
}

impl Line {
    /// The first slot whose word `is_it`, for the writer. All are looked at, and
    /// none decides a branch: which it is nobody can predict.
    #[inline(always)]
    pub(super) fn position(&self, is_it: impl Fn(u64) -> bool) -> Option<usize> {
        let bit = |slot| u32::from(is_it(self.own(slot))) << slot;
        let bits = (0..SLOTS).fold(0, |bits, slot| bits | bit(slot));
        (bits != 0).then_some(bits.trailing_zeros() as usize)
    }

    /// The word in `slot`, and all that was written before it was.
    #[inline(always)]
    pub(super) fn load(&self, slot: usize) -> u64 {
        self.0[slot].load(Ordering::Acquire)
    }
}

/// Entries in a [`Line`]; fewer where loom explores them all.
pub(super) const SLOTS: usize = if cfg!(loom) { 2 } else { 8 };

/// Entries in a [`Half`].
pub(super) const HALF: usize = if cfg!(loom) { 2 } else { 4 };

/// The fewest buckets, as their power of two among `bits`, that hold `entries` in
/// buckets of `slots`.
pub(super) fn bits_for(entries: usize, slots: usize, bits: RangeInclusive<u32>) -> Option<u32> {
    bits.into_iter().find(|&bits| room_of(slots << bits) >= entries)
}

/// How many entries `slots` hold: 95 %, to which two choices of a bucket fill with
/// few moves.
pub(super) const fn room_of(slots: usize) -> usize {
    (slots as u64 * 19 / 20) as usize // as 64 bits: of 2^31 slots 19 times as many
}

/// 2^bits buckets, all zero at first.
#[cfg(not(loom))]
pub(super) struct Lines<T: Zeroed>(Pages<T>);

#[cfg(not(loom))]
impl<T: Zeroed> Lines<T> {
    /// On pages of this kind.
    ///
    /// # Errors
    /// When the system has no room for them, or would have too little left.
    pub(super) fn zeroed(bits: u32, pages: Kind) -> std::io::Result<Self> {
        Pages::admitted(pages, 1 << bits).map(Lines)
    }
}

#[cfg(not(loom))]
impl<T: Cell + Send> Touch for Lines<T> {
    fn touch(&self, step: usize) -> bool {
        self.0.touch(step)
    }
}

#[cfg(not(loom))]
impl<T: Zeroed> std::ops::Deref for Lines<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        &self.0
    }
}

/// Loom's atomics are made one by one.
#[cfg(loom)]
pub(super) struct Lines<T>(Box<[T]>);

#[cfg(loom)]
impl<T: Default> Lines<T> {
    pub(super) fn zeroed(bits: u32, _: Kind) -> std::io::Result<Self> {
        Ok(Lines((0..1 << bits).map(|_| T::default()).collect()))
    }
}

#[cfg(loom)]
impl<T: Send + Sync + 'static> Touch for Lines<T> {
    fn touch(&self, _: usize) -> bool {
        false
    }
}

#[cfg(loom)]
impl<T> std::ops::Deref for Lines<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_table_holds_95_percent_of_its_slots_to_the_last() {
        for bits in 1..=20 {
            let most = room_of(SLOTS << bits);
            assert_eq!(most, (SLOTS << bits) * 95 / 100);
            assert_eq!(bits_for(most, SLOTS, 1..=28), Some(bits));
            assert_eq!(bits_for(most + 1, SLOTS, 1..=28), Some(bits + 1));
        }
        assert_eq!(bits_for(0, HALF, 3..=28), Some(3));
        assert_eq!(bits_for(room_of(HALF << 28) + 1, HALF, 3..=28), None);
    }
}
