//! Bloomfwd for IPv4: the baseline with hashes computed in vectors, two for all that
//! a level needs.
//!
//! ```text
//!    64 keys ──► h1[64], h2[64]              a vector at a time
//!                filter place i: h1 + i h2     (Kirsch and Mitzenmacher)
//!                table bucket:   h1            nothing is hashed twice
//!    levels and array as `bloom-baseline`
//! ```
//!
//! | operation | cost                                                          |
//! |-----------|---------------------------------------------------------------|
//! | lookup    | for each level 2 hashes in vectors, k filter reads without a branch; |
//! |           | 2 reads for each that passes; else 1 read of the array        |
//! | build, update, memory | as `bloom-baseline`                               |
//!
//! Source: Lucchesi et al., 2018, sections 4.1 and 4.3.2; with H2 and a rate of 0.3,
//! the paper's best. We differ: vectors are the compiler's, of loops over arrays of
//! keys compiled for AVX-512, AVX2 and any processor; hashes become places by a
//! multiplication that takes their high bits, not by a division; threads are
//! the caller's.

use std::sync::Arc;

use super::MAX_PREFIXES;
use super::hashing::Combined;
use super::plan::{Plan, RATE, with_hash};
use super::writer::exported as build;
use crate::lpm::isa;
use crate::lpm::{Card, Entry, Exported, Options, Refusal, Writer};
use crate::sync::Domain;
use crate::{Hop, Rib};

/// The registry's line.
pub const ENTRY: Entry<u32> = Entry { card: &CARD, build: build_four };

const CARD: Card = Card {
    name: "bloomfwd",
    paper: "Lucchesi et al.: High-performance IP lookup using Intel Xeon Phi (2018)",
    help: "Bloom filters and hash tables for /24 and /32, hashed with SIMD; updates in place",
    max_hop: Hop::MAX.0,
    max_len: 32,
    max_prefixes: Some(MAX_PREFIXES),
    options: &[isa::OPTION, RATE, ("hash", "h2", "murmur, knuth or h2")],
};

fn build_four(
    rib: &Rib<u32>,
    options: &Options,
    domain: &Arc<Domain>,
) -> Result<Box<dyn Writer<u32>>, Refusal> {
    Ok(exported(rib, options, domain)?.writer)
}

/// The table, and what copies it.
pub(in crate::lpm) fn exported(
    rib: &Rib<u32>,
    options: &Options,
    domain: &Arc<Domain>,
) -> Result<Exported<u32>, Refusal> {
    let (plan, named) = Plan::four(&CARD, rib, options)?;
    with_hash!(named, build::<u32, 1, Combined>(&CARD, rib, options, domain, &plan))
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::lpm::oracle::conformance!(u32, ENTRY);
    crate::lpm::oracle::conformance!(
        knuth: u32, ENTRY, "hash" = "knuth", "isa" = "portable", "false_positives" = "0.9"
    );
    crate::lpm::oracle::conformance!(
        murmur: u32, ENTRY, "hash" = "murmur", "false_positives" = "0.001"
    );

    #[test]
    fn a_table_that_would_grow_too_large_is_refused() {
        let rib: Rib<u32> =
            (0..2_u32.pow(20)).map(|i| (crate::Prefix::covering(i << 7, 25), Hop(1))).collect();
        let refusal = build_four(&rib, &Options::default(), &Domain::new()).err().unwrap();
        assert!(refusal.limit.contains("134217728 keys exceed 67108864"), "{refusal}");
    }
}
