//! A flow's key and its entry.

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};

use crate::pages::Zeroed;

/// A pair of addresses, source and destination, of one family: 36 bytes.
///
/// I1: the first word is 4 or 6; with 4 each address has one word, the rest is 0.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
#[repr(transparent)]
pub struct FlowKey([u32; 9]);

impl FlowKey {
    /// Of IPv4, in host byte order.
    pub const fn v4(source: u32, destination: u32) -> FlowKey {
        FlowKey([4, source, 0, 0, 0, destination, 0, 0, 0])
    }

    /// Of IPv6, in host byte order.
    pub const fn v6(source: u128, destination: u128) -> FlowKey {
        let [a, b, c, d] = words(source);
        let [e, f, g, h] = words(destination);
        FlowKey([6, a, b, c, d, e, f, g, h])
    }

    /// 64 bits, drawn by `seed`: products of 128 bits, folded, of the words and
    /// four numbers that whoever chooses the key does not know.
    #[inline(always)]
    pub(super) fn hash(&self, seed: &Seed) -> u64 {
        let [a, b, c, d, e, f, g, h, i] = self.0.map(u64::from);
        let [s, t, u, v] = seed.0;
        let one = fold((a << 32 | b) ^ s, (c << 32 | d) ^ t);
        let two = fold((e << 32 | f) ^ u, (g << 32 | h) ^ v);
        fold(one ^ i ^ t, two ^ s)
    }
}

impl fmt::Debug for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [family, source @ .., e, g, h, i] = self.0;
        let [source, destination] = [source, [e, g, h, i]];
        if family == 4 {
            let address = |words: [u32; 4]| Ipv4Addr::from_bits(words[0]);
            return write!(f, "{} -> {}", address(source), address(destination));
        }
        let address = |words: [u32; 4]| {
            Ipv6Addr::from_bits(words.iter().fold(0, |all, &word| all << 32 | u128::from(word)))
        };
        write!(f, "{} -> {}", address(source), address(destination))
    }
}

const fn words(address: u128) -> [u32; 4] {
    [(address >> 96) as u32, (address >> 64) as u32, (address >> 32) as u32, address as u32]
}

/// Four secret numbers.
pub(super) struct Seed([u64; 4]);

impl Seed {
    pub(super) fn new(seed: u64) -> Seed {
        Seed([1, 2, 3, 4].map(|i| crate::hash::murmur3_64(i, seed) | 1))
    }
}

/// Both halves of a product.
#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product >> 64) as u64 ^ product as u64
}

/// An entry: one cache line. Of a flow that is there, all but the key may change.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct Flow {
    pub(super) key: FlowKey,
    /// When [`super::FlowTable::expire`] takes it out, on the caller's clock.
    pub expires: u32,
    /// The table's own: the next flow of a chain, or of those that are free.
    pub(super) link: u32,
    /// The caller's.
    pub state: [u32; 5],
}

// SAFETY: integers, of which zero is a value, without a destructor.
unsafe impl Zeroed for Flow {}

const _: () = assert!(size_of::<Flow>() == 64 && size_of::<FlowKey>() == 36);

impl Flow {
    /// Its key.
    pub fn key(&self) -> &FlowKey {
        &self.key
    }

    pub(super) fn new(key: FlowKey) -> Flow {
        Flow { key, expires: 0, link: 0, state: [0; 5] }
    }

    /// True of a flow; false of a place without one.
    #[inline(always)]
    pub(super) fn is_there(&self) -> bool {
        self.key.0[0] == 4 || self.key.0[0] == 6
    }

    /// True of a place that never had a flow, since it was cleaned.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.key.0[0] == 0
    }

    pub(super) fn clear(&mut self) {
        self.key.0[0] = 0;
    }

    /// Leaves a place that a search has to pass.
    pub(super) fn bury(&mut self) {
        self.key.0[0] = u32::MAX;
    }
}
