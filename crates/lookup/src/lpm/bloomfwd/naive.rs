//! The naïve Bloom filter lookup: for each prefix length a filter and a hash table.
//!
//! ```text
//!    /32  filter ──► table      /31  filter ──► table      …      /1  filter ──► table
//! ```
//!
//! | operation | cost                                                          |
//! |-----------|---------------------------------------------------------------|
//! | lookup    | for each length present: k hashes and filter reads, with false  |
//! |           | positives at 0.3 k = 2; where all say yes a hash more and 2 reads |
//! | build     | k bits, counters and a record a prefix                        |
//! | update    | the same for one prefix                                       |
//! | memory    | 8 bytes a prefix, 4 a bucket; 32 filters as large as the largest |
//! |           | needs (2.5 bits a prefix of the commonest length); the writer: a |
//! |           | byte a filter bit                                             |
//!
//! Source: Lucchesi, Drummond, Teodoro, *High-performance IP lookup using Intel
//! Xeon Phi: a Bloom filters based approach*, 2018, section 3.1; Dharmapurikar,
//! Krishnamurthy, Taylor, *Longest Prefix Matching Using Bloom Filters*, 2003. We
//! differ: lengths of which there is no prefix are left out; a burst goes through
//! the lengths together; the filters' size fits the longest list, for the paper
//! gives none.

use std::sync::Arc;

use super::MAX_PREFIXES;
use super::hashing::Separate;
use super::plan::{Plan, RATE, with_hash};
use super::writer::build;
use crate::lpm::isa;
use crate::lpm::{Card, Entry, Options, Refusal, Writer};
use crate::sync::Domain;
use crate::{Hop, Rib};

/// The registry's line.
pub const ENTRY: Entry<u32> = Entry { card: &CARD, build: build_naive };

const CARD: Card = Card {
    name: "bloom-naive",
    paper: "Lucchesi et al.: High-performance IP lookup using Intel Xeon Phi (2018), its naive algorithm",
    help: "a Bloom filter and a hash table per prefix length; updates in place",
    max_hop: Hop::MAX.0,
    max_len: 32,
    max_prefixes: Some(MAX_PREFIXES),
    options: &[isa::OPTION, RATE, ("hash", "murmur", "murmur, knuth or h2")],
};

fn build_naive(
    rib: &Rib<u32>,
    options: &Options,
    domain: &Arc<Domain>,
) -> Result<Box<dyn Writer<u32>>, Refusal> {
    let (plan, named) = Plan::by_length(&CARD, options, true)?;
    with_hash!(named, build::<u32, 1, Separate>(&CARD, rib, options, domain, &plan))
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::lpm::oracle::conformance!(u32, ENTRY);
    crate::lpm::oracle::conformance!(
        knuth: u32, ENTRY, "hash" = "knuth", "isa" = "portable", "false_positives" = "0.01"
    );
}
