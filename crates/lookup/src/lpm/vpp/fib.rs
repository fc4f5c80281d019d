//! The hash FIB: two tables, of prefixes up to /64 and of longer ones.
//!
//! ```text
//!    ≤ /64    [ upper half | length, hop ]                 16 B a prefix
//!    > /64    [ upper half | lower half | length, hop ]    24 B
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Addr;
use crate::hash::{Crc32c, pair};
use crate::lpm::hashed::Hashed;

/// What readers share.
///
/// I1: a length of which the FIB holds a prefix has its bit in `lengths`.
pub(super) struct Fib {
    pub narrow: Arc<Hashed<2>>,
    pub wide: Arc<Hashed<3>>,
    pub hashing: Hashing,
    /// Bit n - 1 stands for length n; the upper half first.
    lengths: [AtomicU64; 2],
}

/// How prefixes are hashed: CRCs that start with the length, and a factor.
#[derive(Clone)]
pub(super) struct Hashing {
    seeds: [[u32; 2]; 129],
    odd: u64,
}

impl Fib {
    pub(super) fn new(narrow: Arc<Hashed<2>>, wide: Arc<Hashed<3>>, hashing: Hashing) -> Self {
        Fib { narrow, wide, hashing, lengths: Default::default() }
    }

    /// The lengths present; bit n - 1 stands for length n.
    #[inline(always)]
    pub(super) fn lengths(&self) -> u128 {
        let [high, low] = [0, 1].map(|i| self.lengths[i].load(Ordering::Acquire));
        u128::from(high) << 64 | u128::from(low)
    }

    pub(super) fn set_lengths(&self, lengths: u128) {
        self.lengths[0].store((lengths >> 64) as u64, Ordering::Release);
        self.lengths[1].store(lengths as u64, Ordering::Release);
    }

    pub(super) fn bytes(&self) -> usize {
        self.narrow.bytes() + self.wide.bytes()
    }
}

impl Hashing {
    pub(super) fn new(seed: u32) -> Self {
        let start = |len: usize| [0, 1].map(|i| crate::hash::crc32c(seed * 2 + i, len as u64 + 1));
        let odd = crate::hash::GOLDEN.wrapping_mul(u64::from(seed) * 2 + 1);
        Hashing { seeds: std::array::from_fn(start), odd }
    }

    /// The hash of a key of either width.
    #[inline(always)]
    pub(super) fn of<C: Crc32c, const W: usize>(&self, len: u8, key: &[u64; W]) -> u64 {
        pair::<C>(self.seeds[usize::from(len)], self.odd, &key[..W - 1])
    }
}

/// The key of the prefix of `len` bits, up to 64, that covers `dst`.
#[inline(always)]
pub(super) fn narrow(dst: u128, len: u8) -> [u64; 2] {
    [((dst & u128::mask(len)) >> 64) as u64, u64::from(len) << 32]
}

/// The key of the prefix of `len` bits that covers `dst`.
#[inline(always)]
pub(super) fn wide(dst: u128, len: u8) -> [u64; 3] {
    let prefix = dst & u128::mask(len);
    [(prefix >> 64) as u64, prefix as u64, u64::from(len) << 32]
}
