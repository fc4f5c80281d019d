//! The crate `prefix-trie`: a compressed binary trie in a vector.

use lookup::{Addr, Hop, Prefix};
use prefix_trie::PrefixMap;

use super::plain::{self, Trie};
use crate::contest::Contestant;

/// For IPv4.
pub(super) fn ipv4() -> Contestant<u32> {
    plain::contestant::<u32, PrefixMap<(u32, u8), Hop>>("crate-prefix-trie")
}

/// For IPv6.
pub(super) fn ipv6() -> Contestant<u128> {
    plain::contestant::<u128, PrefixMap<(u128, u8), Hop>>("crate-prefix-trie")
}

impl<A: Addr> Trie<A> for PrefixMap<(A, u8), Hop>
where
    (A, u8): prefix_trie::Prefix,
{
    type Key = (A, u8);

    fn new() -> Self {
        PrefixMap::new()
    }
    fn key(dst: A) -> (A, u8) {
        (dst, A::WIDTH)
    }
    fn find(&self, key: (A, u8)) -> Hop {
        self.get_lpm(&key).map_or(Hop::NONE, |(_, hop)| *hop)
    }
    fn insert(&mut self, prefix: &Prefix<A>, hop: Hop) {
        PrefixMap::insert(self, (prefix.first(), prefix.len()), hop);
    }
    fn remove(&mut self, prefix: &Prefix<A>) {
        PrefixMap::remove(self, &(prefix.first(), prefix.len()));
    }
}
