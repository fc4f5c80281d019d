//! The hash functions of the paper over keys of both families, and the two ways to
//! get many hashes from them.

use std::marker::PhantomData;

use crate::Addr;
use crate::filter::Bloom;
use crate::hash::{GOLDEN, h2, knuth_32, knuth_64, murmur3_32, murmur3_64};

/// A family of hash functions. Of an IPv6 key only the upper half counts.
pub(super) trait Hash<A: Copy>: Send + Sync + 'static {
    /// The kernels' number of the family.
    const NUMBER: u32;

    /// Function `i` of the family.
    fn one(key: A, i: u32) -> u32;

    /// Two of them.
    #[inline(always)]
    fn two(key: A) -> (u32, u32) {
        (Self::one(key, 0), Self::one(key, 1))
    }
}

pub(super) struct Murmur;
pub(super) struct Knuth;
pub(super) struct H2;

impl Hash<u32> for Murmur {
    const NUMBER: u32 = 0;

    #[inline(always)]
    fn one(key: u32, i: u32) -> u32 {
        murmur3_32(key, salt(i))
    }
}

impl Hash<u32> for Knuth {
    const NUMBER: u32 = 1;

    #[inline(always)]
    fn one(key: u32, i: u32) -> u32 {
        knuth_32(key ^ salt(i))
    }
}

impl Hash<u32> for H2 {
    const NUMBER: u32 = 2;

    #[inline(always)]
    fn one(key: u32, i: u32) -> u32 {
        h2(key ^ salt(i))
    }
}

impl Hash<u128> for Murmur {
    const NUMBER: u32 = 0;

    #[inline(always)]
    fn one(key: u128, i: u32) -> u32 {
        (murmur3_64(high(key), salt(i).into()) >> 32) as u32
    }

    /// Both halves of one hash: as good as two, for half of the work.
    #[inline(always)]
    fn two(key: u128) -> (u32, u32) {
        let hash = murmur3_64(high(key), 0);
        ((hash >> 32) as u32, hash as u32)
    }
}

impl Hash<u128> for Knuth {
    const NUMBER: u32 = 1;

    #[inline(always)]
    fn one(key: u128, i: u32) -> u32 {
        (knuth_64(high(key) ^ u64::from(salt(i)).wrapping_mul(GOLDEN)) >> 32) as u32
    }
}

impl Hash<u128> for H2 {
    const NUMBER: u32 = 2;

    /// A function of 32 bits, of one half and then of the other.
    #[inline(always)]
    fn one(key: u128, i: u32) -> u32 {
        h2(h2((high(key) >> 32) as u32 ^ salt(i)) ^ high(key) as u32)
    }
}

/// How a filter and the table behind it get their hashes of one key.
pub(super) trait Scheme<A: Addr>: Send + Sync + 'static {
    /// The kernels' number of the hash functions.
    const HASH: u32;

    /// Hash `i` of the filter.
    fn filter(key: A, i: u32) -> u32;

    /// The hash of the table.
    fn table(key: A) -> u32;

    /// Which of the first `count` keys the filter passes, and their table hashes.
    fn screen<const N: usize>(filter: &Bloom, keys: &[A; N], count: usize)
    -> ([bool; N], [u32; N]);
}

/// Every hash is a function of its own.
pub(super) struct Separate<H>(PhantomData<H>);

impl<A: Addr, H: Hash<A>> Scheme<A> for Separate<H> {
    const HASH: u32 = H::NUMBER;

    #[inline(always)]
    fn filter(key: A, i: u32) -> u32 {
        H::one(key, i + 1)
    }

    #[inline(always)]
    fn table(key: A) -> u32 {
        H::one(key, 0)
    }

    #[inline(always)]
    fn screen<const N: usize>(
        filter: &Bloom,
        keys: &[A; N],
        count: usize,
    ) -> ([bool; N], [u32; N]) {
        let (mut passes, mut hashes) = ([false; N], [0; N]);
        for ((pass, hash), &key) in passes.iter_mut().zip(&mut hashes).zip(keys).take(count) {
            let each = (0..filter.k()).map(|i| <Self as Scheme<A>>::filter(key, i));
            *pass = filter.contains_all(each);
            if *pass {
                *hash = <Self as Scheme<A>>::table(key);
            }
        }
        (passes, hashes)
    }
}

/// Two functions, combined linearly; the first serves the table too. Computed over
/// all keys of a burst in vectors.
pub(super) struct Combined<H>(PhantomData<H>);

impl<A: Addr, H: Hash<A>> Scheme<A> for Combined<H> {
    const HASH: u32 = H::NUMBER;

    #[inline(always)]
    fn filter(key: A, i: u32) -> u32 {
        let (first, step) = H::two(key);
        first.wrapping_add(i.wrapping_mul(step | 1))
    }

    #[inline(always)]
    fn table(key: A) -> u32 {
        H::two(key).0
    }

    #[inline(always)]
    fn screen<const N: usize>(filter: &Bloom, keys: &[A; N], _: usize) -> ([bool; N], [u32; N]) {
        let (mut lower, mut upper) = ([0; N], [0; N]);
        for ((lower, upper), &key) in lower.iter_mut().zip(&mut upper).zip(keys) {
            (*lower, *upper) = H::two(key);
        }
        (filter.contains_each(&lower, &upper), lower)
    }
}

/// As [`Combined`], but one key after the other, none further than to its first bit
/// that is not set: for filters of many bits a key.
pub(super) struct Brief<H>(PhantomData<H>);

impl<A: Addr, H: Hash<A>> Scheme<A> for Brief<H> {
    const HASH: u32 = H::NUMBER;

    #[inline(always)]
    fn filter(key: A, i: u32) -> u32 {
        <Combined<H> as Scheme<A>>::filter(key, i)
    }

    #[inline(always)]
    fn table(key: A) -> u32 {
        <Combined<H> as Scheme<A>>::table(key)
    }

    #[inline(always)]
    fn screen<const N: usize>(
        filter: &Bloom,
        keys: &[A; N],
        count: usize,
    ) -> ([bool; N], [u32; N]) {
        let (mut passes, mut hashes) = ([false; N], [0; N]);
        for ((pass, hash), &key) in passes.iter_mut().zip(&mut hashes).zip(keys).take(count) {
            let (first, step) = H::two(key);
            *pass = filter.contains(u64::from(step) << 32 | u64::from(first));
            *hash = first;
        }
        (passes, hashes)
    }
}

#[inline(always)]
fn high(key: u128) -> u64 {
    (key >> 64) as u64
}

#[inline(always)]
fn salt(i: u32) -> u32 {
    i.wrapping_mul(0x5bd1_e995)
}
