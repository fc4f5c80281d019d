//! What a flow is known by.

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};

/// A pair of addresses, source and destination, of one family: 36 bytes.
///
/// I1: the first word is 4 or 6; with 4 each address has one word, the source's before the
///   destination's, and the rest is 0: a pair of IPv4 is one number of 64 bits, and is hashed
///   and compared as that.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
#[repr(transparent)]
pub struct FlowKey([u32; 9]);

const _: () = assert!(size_of::<FlowKey>() == 36);

impl FlowKey {
    /// Of IPv4, in host byte order.
    #[inline(always)]
    pub const fn v4(source: u32, destination: u32) -> FlowKey {
        FlowKey([4, source, destination, 0, 0, 0, 0, 0, 0])
    }

    /// Of IPv6, in host byte order.
    #[inline(always)]
    pub const fn v6(source: u128, destination: u128) -> FlowKey {
        let [a, b, c, d] = words(source);
        let [e, f, g, h] = words(destination);
        FlowKey([6, a, b, c, d, e, f, g, h])
    }

    /// True of a pair of IPv4.
    #[inline(always)]
    pub const fn is_v4(&self) -> bool {
        self.0[0] == 4
    }

    /// Source and destination; of IPv4 in the low 32 bits.
    #[inline]
    pub fn addresses(&self) -> [u128; 2] {
        let [_, source @ .., e, f, g, h] = self.0;
        if self.is_v4() {
            return [source[0].into(), source[1].into()];
        }
        let address =
            |words: [u32; 4]| words.iter().fold(0, |all, &word| all << 32 | u128::from(word));
        [source, [e, f, g, h]].map(address)
    }

    /// Source and destination as two words each, all that differs between the keys of one
    /// family: to be hashed.
    #[inline(always)]
    pub fn words(&self) -> [[u64; 2]; 2] {
        let [_, a, b, c, d, e, f, g, h] = self.0.map(u64::from);
        if self.is_v4() {
            return [[a << 32, 0], [b << 32, 0]];
        }
        [[a << 32 | b, c << 32 | d], [e << 32 | f, g << 32 | h]]
    }

    /// As a flow has it: eight words, and true of IPv4.
    #[inline(always)]
    pub(super) const fn parts(&self) -> ([u32; 8], bool) {
        let [family, a, b, c, d, e, f, g, h] = self.0;
        ([a, b, c, d, e, f, g, h], family == 4)
    }

    /// Of [`FlowKey::parts`].
    #[inline(always)]
    pub(super) const fn of([a, b, c, d, e, f, g, h]: [u32; 8], is_v4: bool) -> FlowKey {
        FlowKey([if is_v4 { 4 } else { 6 }, a, b, c, d, e, f, g, h])
    }

    /// A pair of IPv4 as one number.
    #[inline(always)]
    pub(super) fn pair(&self) -> u64 {
        u64::from(self.0[1]) | u64::from(self.0[2]) << 32
    }

    /// 64 bits, drawn by `seed`: products of 128 bits, folded, of the words and
    /// four numbers that whoever chooses the key does not know.
    #[inline(always)]
    pub(super) fn hash(&self, seed: &Seed) -> u64 {
        let [s, t, u, v] = seed.0;
        if self.is_v4() {
            return fold(fold(self.pair() ^ s, t) ^ u, v);
        }
        let [a, b, c, d, e, f, g, h, i] = self.0.map(u64::from);
        let one = fold((a << 32 | b) ^ s, (c << 32 | d) ^ t);
        let two = fold((e << 32 | f) ^ u, (g << 32 | h) ^ v);
        fold(one ^ i ^ t, two ^ s)
    }
}

impl fmt::Debug for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [source, destination] = self.addresses();
        if self.is_v4() {
            let [source, destination] =
                [source, destination].map(|it| Ipv4Addr::from_bits(it as u32));
            return write!(f, "{source} -> {destination}");
        }
        let [source, destination] = [source, destination].map(Ipv6Addr::from_bits);
        write!(f, "{source} -> {destination}")
    }
}

const fn words(address: u128) -> [u32; 4] {
    [(address >> 96) as u32, (address >> 64) as u32, (address >> 32) as u32, address as u32]
}

/// Four secret numbers.
#[derive(Clone, Copy)]
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
