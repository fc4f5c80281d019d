//! VPP's lookup behind a Bloom filter: only lengths that the filter passes are
//! probed in the FIB.
//!
//! ```text
//!    (prefix, length) ── CRC-32C twice ──► k bits of one filter, 6 MB
//!                                            │ all set
//!                                            ▼
//!                                          FIB probe                see `vpp-hash`
//! ```
//!
//! | operation | cost                                                         |
//! |-----------|--------------------------------------------------------------|
//! | lookup    | a hash and mostly 1 filter read a length; a FIB probe for each that |
//! |           | passes: one that answers, and the false positives            |
//! | build     | k counters and bits a prefix                                 |
//! | update    | the same; the writer's counters tell when a bit may be cleared |
//! | memory    | the FIB, 6 MB; the writer: a byte a bit (48 MB)              |
//!
//! Source: Kwon et al., *CuVPP*, 2020, "VPP + Bloom"; Dharmapurikar et al., *Longest
//! Prefix Matching Using Bloom Filters*, 2003. We differ: prefixes are removed too
//! (a counting filter); the paper does not give k: with 6 MB, 4 bits keep false
//! positives below 1 in 1,000 up to 2 M prefixes. A filter with fewer than 8 bits a
//! prefix is made larger when the table is built.

use std::sync::Arc;

use super::MAX_PREFIXES;
use super::screen::Screened;
use super::writer::{Steer, build};
use crate::filter::{Bloom, CountingBloom};
use crate::lpm::hashed::NoRoom;
use crate::lpm::{Card, Entry, Options, Refusal, Writer, isa};
use crate::sync::Domain;
use crate::{Hop, Prefix, Rib};

/// The registry's line.
pub const ENTRY: Entry<u128> = Entry { card: &CARD, build: build_bloom };

const CARD: Card = Card {
    name: "vpp-bloom",
    paper: "Kwon et al.: CuVPP (2020), its VPP with a Bloom filter",
    help: "hash probes for the lengths that a Bloom filter passes; updates in place",
    max_hop: Hop::MAX.0,
    max_len: 128,
    max_prefixes: Some(MAX_PREFIXES),
    options: &[
        isa::OPTION,
        ("filter_bytes", "6000000", "least size of the filter in bytes, 8 to 536870912"),
        ("k", "4", "bits that a prefix sets in the filter, 1 to 16"),
    ],
};

fn build_bloom(
    rib: &Rib<u128>,
    options: &Options,
    domain: &Arc<Domain>,
) -> Result<Box<dyn Writer<u128>>, Refusal> {
    let bytes = options.get(&CARD, "filter_bytes", |bytes: &u64| (8..=1 << 29).contains(bytes))?;
    let k = options.get(&CARD, "k", |k| (1..=16).contains(k))?;
    let bits = (8 * bytes).max(8 * rib.len() as u64);
    build(&CARD, rib, options, domain, |_| CountingBloom::new(bits, k))
}

impl Steer for CountingBloom {
    type Guide = Screened<Arc<Bloom>>;

    fn guide(&self) -> Arc<Self::Guide> {
        Arc::new(Screened(self.filter().clone()))
    }

    fn insert(&mut self, _: Prefix<u128>, hash: u64) -> Result<(), NoRoom> {
        CountingBloom::insert(self, hash);
        Ok(())
    }

    fn remove(&mut self, _: Prefix<u128>, hash: u64) {
        CountingBloom::remove(self, hash);
    }

    fn bytes(&self) -> usize {
        CountingBloom::bytes(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Prefix;
    use crate::rib::Change;

    crate::lpm::oracle::conformance!(conformance: u128, ENTRY, "filter_bytes" = "4096");
    crate::lpm::oracle::conformance!(
        full: u128, ENTRY, "filter_bytes" = "8", "k" = "2", "isa" = "portable"
    );

    #[test]
    fn the_fib_is_asked_for_what_the_filter_passes() {
        let gone = Prefix::covering(3 << 126, 48);
        let routes = [(Prefix::covering(1 << 127, 48), Hop(1)), (Prefix::covering(0, 32), Hop(2))];
        let mut rib: Rib<u128> = routes.into_iter().chain([(gone, Hop(3))]).collect();
        let mut writer = build_bloom(&rib, &Options::default(), &Domain::new()).unwrap();
        rib.remove(&gone);
        writer.apply(&rib, &[Change { prefix: gone, hop: None }]).unwrap();
        let (table, mut hops) = (writer.table(), [Hop::NONE; 4]);
        table.lookup_batch(&[1 << 127, 5, 1 << 126, gone.first()], &mut hops);
        assert_eq!(hops, [Hop(1), Hop(2), Hop::NONE, Hop::NONE]);
        let figures: Vec<u64> = table.counters().iter().take(4).map(|(_, n)| *n).collect();
        assert_eq!(figures, [4, 4 + 3, 2, 0]);
        assert_eq!(table.counters()[5], ("filter_bytes", 6_000_000));
    }
}
