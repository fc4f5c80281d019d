//! CuVPP: VPP's lookup behind a cuckoo filter that stays in cache.
//!
//! ```text
//!    (prefix, length) ── CRC-32C twice ──► fingerprint 16, two buckets of four
//!                                            │ found in one of them     6 MB: 3 M places
//!                                            ▼
//!                                          FIB probe                see `vpp-hash`
//! ```
//!
//! | operation | cost                                                         |
//! |-----------|--------------------------------------------------------------|
//! | lookup    | a hash and 2 filter reads a length; a FIB probe for each that passes: |
//! |           | one that answers, and at most 1 false positive in 8,000 asked |
//! | build     | a place in the filter a prefix                               |
//! | update    | the FIB's, and one filter word; above a load of 0.8 moves    |
//! | memory    | the FIB, 6 MB                                                |
//!
//! Source: Kwon, Neupane, Marshall, Rafique, *CuVPP: Filter-based Longest Prefix
//! Matching in Software Data Planes*, 2020. We differ: the paper updates a second
//! copy of the FIB, we update under the readers: a burst during which the filter
//! moved a fingerprint is looked up again, and at the second time without the
//! filter. Prefixes of all lengths, /65-/128 too. The paper's CRC-32 gives 32 bits,
//! of which the fingerprint takes 16: too few are left for 750,000 buckets, and a
//! second CRC of the same bytes would say nothing new; ours is of the bytes
//! multiplied. A prefix leaves the filter only if the FIB had it, so a removal
//! takes nobody else's fingerprint ([`filter`](crate::filter)). When the load limit is
//! reached, or neither bucket, path nor stash has a place, the change is taken back
//! whole and the engine built anew, larger and with another hash; after eight such
//! attempts it refuses.

use std::sync::Arc;

use super::MAX_PREFIXES;
use super::screen::Screened;
use super::writer::{Steer, build};
use crate::filter::{Cuckoo, CuckooWriter};
use crate::lpm::hashed::NoRoom;
use crate::lpm::{Card, Entry, Options, Refusal, Writer, isa};
use crate::sync::Domain;
use crate::{Hop, Prefix, Rib};

/// The registry's line.
pub const ENTRY: Entry<u128> = Entry { card: &CARD, build: build_cuvpp };

const CARD: Card = Card {
    name: "cuvpp",
    paper: "Kwon et al.: CuVPP: Filter-based Longest Prefix Matching in Software Data Planes (2020)",
    help: "hash probes for the lengths that a cuckoo filter passes; updates in place",
    max_hop: Hop::MAX.0,
    max_len: 128,
    max_prefixes: Some(MAX_PREFIXES),
    options: &[
        isa::OPTION,
        (
            "fingerprint_bits",
            "16",
            "bits of a fingerprint, 4 to 16; one of up to 8 bits takes a byte",
        ),
        ("filter_entries", "3000000", "least number of places in the filter, 4 to 268435456"),
        ("load_limit", "95", "percentage of the places that may be used, 10 to 100"),
    ],
};

fn build_cuvpp(
    rib: &Rib<u128>,
    options: &Options,
    domain: &Arc<Domain>,
) -> Result<Box<dyn Writer<u128>>, Refusal> {
    let bits = options.get(&CARD, "fingerprint_bits", |bits| (4..=16).contains(bits))?;
    let least = options.get(&CARD, "filter_entries", |n: &usize| (4..=1 << 28).contains(n))?;
    let load = options.get(&CARD, "load_limit", |load| (10..=100).contains(load))?;
    // Room for a tenth more, or the first insertions would build it anew again.
    let needed = (rib.len() + rib.len() / 10 + 8) * 100 / usize::from(load);
    build(&CARD, rib, options, domain, |attempt| {
        let entries = least.max(needed + needed / 4 * attempt as usize);
        CuckooWriter::new(entries, bits, load)
    })
}

impl Steer for CuckooWriter {
    type Guide = Screened<Arc<Cuckoo>>;

    fn guide(&self) -> Arc<Self::Guide> {
        Arc::new(Screened(self.filter().clone()))
    }

    fn insert(&mut self, _: Prefix<u128>, hash: u64) -> Result<(), NoRoom> {
        CuckooWriter::insert(self, hash).map_err(|_| NoRoom)
    }

    fn remove(&mut self, _: Prefix<u128>, hash: u64) {
        let held = CuckooWriter::remove(self, hash);
        debug_assert!(held, "what the FIB had is in the filter");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Portable;
    use crate::lpm::Applied;
    use crate::lpm::hashed::{BURST, Found, HashedWriter, Sums};
    use crate::lpm::oracle::Rng;
    use crate::lpm::vpp::Guide;
    use crate::lpm::vpp::fib::{Fib, Hashing, narrow};
    use crate::rib::Change;

    crate::lpm::oracle::conformance!(u128, ENTRY);
    crate::lpm::oracle::conformance!(
        tight: u128, ENTRY, "filter_entries" = "4", "fingerprint_bits" = "12", "load_limit" = "100"
    );
    crate::lpm::oracle::conformance!(
        short: u128, ENTRY, "filter_entries" = "64", "fingerprint_bits" = "5", "isa" = "portable"
    );

    #[test]
    fn the_papers_filter_has_6_mb_and_grows_where_it_must() {
        let bytes = |rib: &Rib<u128>, entries: &str| {
            let options = Options([("filter_entries".to_string(), entries.to_string())].into());
            let table = build_cuvpp(rib, &options, &Domain::new()).unwrap().table();
            table.counters().iter().find(|(name, _)| *name == "filter_bytes").unwrap().1
        };
        assert_eq!(bytes(&Rib::new(), "3000000") / 1000, 6000);
        let rib: Rib<u128> = (1..1001).map(|i| (Prefix::covering(i << 64, 64), Hop(1))).collect();
        // Of 1,108 at a load of 95 %: 292 buckets, and the stash.
        assert_eq!(bytes(&rib, "4"), 292 * 8 + 64);
    }

    #[test]
    fn a_full_filter_asks_to_be_built_anew_and_changes_nothing() {
        let (mut rib, domain, mut rng) = (Rib::new(), Domain::new(), Rng::new(1));
        let options = Options([("filter_entries".to_string(), "4".to_string())].into());
        let mut writer = build_cuvpp(&rib, &options, &domain).unwrap();
        let mut rebuilt = 0;
        for _ in 0..if cfg!(miri) { 20 } else { 2000 } {
            let before = rib.clone();
            let changes: Vec<_> = (0..3)
                .map(|_| Change { prefix: Prefix::covering(rng.addr(), 48), hop: Some(Hop(1)) })
                .collect();
            changes.iter().for_each(|change| {
                rib.apply(change);
            });
            if writer.apply(&rib, &changes).unwrap() == Applied::Rebuild {
                let table = writer.table();
                assert!(changes.iter().all(|c| table.lookup(c.prefix.first()) == Hop::NONE));
                assert!(before.iter().all(|(p, hop)| table.lookup(p.first()) == hop));
                writer = build_cuvpp(&rib, &options, &domain).unwrap();
                rebuilt += 1;
            }
            let table = writer.table();
            assert!(changes.iter().all(|c| table.lookup(c.prefix.first()) == Hop(1)));
        }
        assert!(rebuilt > 5 || cfg!(miri), "{rebuilt}");
    }

    #[test]
    fn changes_are_made_in_place_where_there_is_room() {
        let (mut rib, domain) = (Rib::new(), Domain::new());
        let mut writer = build_cuvpp(&rib, &Options::default(), &domain).unwrap();
        for round in 0..if cfg!(miri) { 2 } else { 40 } {
            let prefix = |i: u8| Prefix::covering(u128::from(i) << 120 | 1, 4 * i);
            let hop = (round % 3 > 0).then_some(Hop(1 + round));
            let changes: Vec<_> = (0..33).map(|i| Change { prefix: prefix(i), hop }).collect();
            changes.iter().for_each(|change| {
                rib.apply(change);
            });
            assert_eq!(writer.apply(&rib, &changes), Ok(Applied::InPlace));
            let table = writer.table();
            for change in &changes {
                let got = table.lookup(change.prefix.first());
                assert_eq!(got, hop.unwrap_or(Hop::NONE), "{change:?}");
            }
            let lengths = *table.counters().last().unwrap();
            assert_eq!(lengths, ("lengths", if hop.is_some() { 32 } else { 0 }));
        }
    }

    #[test]
    fn what_goes_leaves_the_filter() {
        let (mut rib, domain) = (Rib::new(), Domain::new());
        let options = Options([("filter_entries".to_string(), "64".to_string())].into());
        let mut writer = build_cuvpp(&rib, &options, &domain).unwrap();
        for i in 1..if cfg!(miri) { 100 } else { 1000 } {
            for hop in [Some(Hop(1)), None] {
                let change = Change { prefix: Prefix::covering(i << 80, 48), hop };
                rib.apply(&change);
                assert_eq!(writer.apply(&rib, &[change]), Ok(Applied::InPlace));
            }
        }
    }

    /// A burst during which a fingerprint is moved does not believe the filter.
    #[test]
    fn while_something_moves_the_filter_is_not_believed() {
        let (domain, mut filter) = (Domain::new(), CuckooWriter::new(64, 16, 95).unwrap());
        let (key, hashing) = (narrow(1 << 127, 48), Hashing::new(0));
        let hash = hashing.of::<Portable, 2>(48, &key) as u32;
        let record = (hash, [key[0], key[1] | 5]);
        let narrow = HashedWriter::build(&domain, &[record]).unwrap().table().clone();
        let wide = HashedWriter::build(&domain, &[]).unwrap().table().clone();
        let fib = Fib::new(narrow, wide, hashing);
        fib.set_lengths(1 << 47);
        let (guide, mut found) = (Screened(filter.filter().clone()), [0; BURST]);
        let burst = |found: &mut Found<BURST>| {
            guide.burst::<Portable, BURST>(&fib, &[1 << 127], found, &mut Sums::default());
        };
        burst(&mut found);
        assert_eq!(found[0], 0, "the filter holds nothing");
        filter.moving(|_| burst(&mut found));
        assert_eq!(found[0], 5);
    }

    #[test]
    fn what_a_lookup_costs_is_counted() {
        let routes = [(Prefix::covering(1 << 127, 48), Hop(1)), (Prefix::covering(0, 32), Hop(2))];
        let rib: Rib<u128> = routes.into_iter().collect();
        let table = build_cuvpp(&rib, &Options::default(), &Domain::new()).unwrap().table();
        let mut hops = [Hop::NONE; 3];
        table.lookup_batch(&[1 << 127, 5, 1 << 126], &mut hops);
        assert_eq!(hops, [Hop(1), Hop(2), Hop::NONE]);
        let figures: Vec<u64> = table.counters().iter().take(4).map(|(_, n)| *n).collect();
        assert_eq!(figures, [3, 3 + 2, 2, 0]); // the first is found at /48, two go on to /32
        let bytes = table.counters()[6];
        assert_eq!(bytes, ("fib_bytes", 2 * 64 * 4 + 2 * 16)); // two indexes, two records
    }

    /// A fingerprint of four bits passes much that the FIB does not have.
    #[test]
    fn false_positives_are_counted() {
        let rib: Rib<u128> =
            (1..501).map(|i| (Prefix::covering(i << 80, 48), Hop(i as u32))).collect();
        let short = ("fingerprint_bits".to_string(), "4".to_string());
        let least = ("filter_entries".to_string(), "4".to_string());
        let options = Options([short, least].into());
        let table = build_cuvpp(&rib, &options, &Domain::new()).unwrap().table();
        let (mut hops, mut found) = ([Hop::NONE; 60], 0);
        for first in [300, 600, 900] {
            table.lookup_batch(
                &std::array::from_fn::<_, 60, _>(|i| (first + i as u128 * 4) << 80),
                &mut hops,
            );
            found += hops.iter().filter(|hop| **hop != Hop::NONE).count() as u64;
        }
        let figures: Vec<u64> = table.counters().iter().take(4).map(|(_, n)| *n).collect();
        assert_eq!((figures[0], figures[1], figures[2]), (180, 180, found + figures[3]));
        assert!(figures[3] > 5, "{figures:?}");
    }
}
