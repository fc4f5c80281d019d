//! The crate `ip_network_table-deps-treebitmap`: Tree Bitmap with nibbles.

use ip_network_table_deps_treebitmap::IpLookupTable;
use lookup::{Addr, Hop, Prefix};

use super::plain::{self, Trie};
use crate::contest::Contestant;

/// For IPv4.
pub(super) fn ipv4() -> Contestant<u32> {
    plain::contestant::<u32, IpLookupTable<std::net::Ipv4Addr, Hop>>("crate-treebitmap")
}

/// For IPv6.
pub(super) fn ipv6() -> Contestant<u128> {
    plain::contestant::<u128, IpLookupTable<std::net::Ipv6Addr, Hop>>("crate-treebitmap")
}

impl<A: Addr> Trie<A> for IpLookupTable<A::Ip, Hop>
where
    A::Ip: ip_network_table_deps_treebitmap::address::Address,
{
    type Key = A::Ip;

    fn new() -> Self {
        IpLookupTable::new()
    }
    fn key(dst: A) -> A::Ip {
        dst.to_ip()
    }
    fn find(&self, key: A::Ip) -> Hop {
        self.longest_match(key).map_or(Hop::NONE, |(_, _, hop)| *hop)
    }
    fn insert(&mut self, prefix: &Prefix<A>, hop: Hop) {
        IpLookupTable::insert(self, prefix.first().to_ip(), u32::from(prefix.len()), hop);
    }
    fn remove(&mut self, prefix: &Prefix<A>) {
        IpLookupTable::remove(self, prefix.first().to_ip(), u32::from(prefix.len()));
    }
    fn bytes(&self) -> Option<usize> {
        let (nodes, results) = self.mem_usage();
        Some(nodes + results)
    }
}
