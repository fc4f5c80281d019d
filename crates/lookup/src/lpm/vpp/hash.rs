//! VPP's IPv6 lookup: a hash probe for each prefix length present.
//!
//! ```text
//!    lengths  [ 64 | 48 | 47 | … | 20 ]   those present, the longest first
//!                 │ mask, CRC-32C
//!                 ▼
//!    FIB      [ header … ] ──► [ prefix, length, hop ] …          see `hashed`
//! ```
//!
//! | operation | cost                                                         |
//! |-----------|--------------------------------------------------------------|
//! | lookup    | for each length down to the answer's: a hash, a line of the index (4 B |
//! |           | a bucket, mostly in cache), a line of records unless it is empty |
//! | build     | a hash and a copy a prefix                                   |
//! | update    | a block of some records written anew, one store              |
//! | memory    | 16 bytes a prefix up to /64, 24 a longer one; 4 a bucket     |
//!
//! Source: VPP's `ip6-lookup`, the "Base VPP" of Kwon et al., *CuVPP*, 2020; the
//! hash table is described in [`hashed`](crate::lpm::hashed). We differ: the key is
//! hashed from 8 bytes up to /64; a burst probes a length together, and reads ahead.

use std::sync::Arc;

use super::MAX_PREFIXES;
use super::screen::{Open, Screened};
use super::writer::{Steer, build};
use crate::lpm::hashed::NoRoom;
use crate::lpm::{Card, Entry, isa};
use crate::{Hop, Prefix};

/// The registry's line.
pub const ENTRY: Entry<u128> = Entry {
    card: &CARD,
    build: |rib, options, domain| build(&CARD, rib, options, domain, |_| Ok(Unguided)),
};

const CARD: Card = Card {
    name: "vpp-hash",
    paper: "Kwon et al.: CuVPP (2020), its Base VPP",
    help: "one hash probe per prefix length present, longest first; updates in place",
    max_hop: Hop::MAX.0,
    max_len: 128,
    max_prefixes: Some(MAX_PREFIXES),
    options: &[isa::OPTION],
};

/// Every length present is probed.
struct Unguided;

impl Steer for Unguided {
    type Guide = Screened<Open>;

    fn guide(&self) -> Arc<Screened<Open>> {
        Arc::new(Screened(Open))
    }

    fn insert(&mut self, _: Prefix<u128>, _: u64) -> Result<(), NoRoom> {
        Ok(())
    }

    fn remove(&mut self, _: Prefix<u128>, _: u64) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::lpm::oracle::conformance!(u128, ENTRY);
    crate::lpm::oracle::conformance!(portable: u128, ENTRY, "isa" = "portable");
}
