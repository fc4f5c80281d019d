//! The crate `poptrie`: Poptrie without a direct table.

use lookup::{Hop, Prefix};
use poptrie::Poptrie;

use super::plain::{self, Trie};
use crate::contest::Contestant;

/// For IPv4.
pub(super) fn ipv4() -> Contestant<u32> {
    plain::contestant::<u32, Poptrie<(u32, u8), Hop>>("crate-poptrie").slow()
}

/// For IPv6.
pub(super) fn ipv6() -> Contestant<u128> {
    plain::contestant::<u128, Poptrie<(u128, u8), Hop>>("crate-poptrie").slow()
}

macro_rules! family {
    ($addr:ty) => {
        impl Trie<$addr> for Poptrie<($addr, u8), Hop> {
            type Key = $addr;

            fn new() -> Self {
                Poptrie::new()
            }
            fn key(dst: $addr) -> $addr {
                dst
            }
            fn find(&self, key: $addr) -> Hop {
                self.lookup(key).copied().unwrap_or_default()
            }
            fn insert(&mut self, prefix: &Prefix<$addr>, hop: Hop) {
                Poptrie::insert(self, (prefix.first(), prefix.len()), hop);
            }
            fn remove(&mut self, prefix: &Prefix<$addr>) {
                Poptrie::remove(self, (prefix.first(), prefix.len()));
            }
        }
    };
}

family!(u32);
family!(u128);
