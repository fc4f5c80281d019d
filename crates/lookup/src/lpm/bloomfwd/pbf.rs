//! PBF, parallel Bloom filters: one for each prefix length says which lengths are worth
//! a hash probe.
//!
//! ```text
//!    /32  filter ──► table      /31  filter ──► table      …      /1  filter ──► table
//! ```
//!
//! | operation | cost                                                          |
//! |-----------|---------------------------------------------------------------|
//! | lookup    | for each length down to the answer 2 hashes, and mostly 1-2 filter |
//! |           | reads; then a probe of 2 reads                                |
//! | build     | k bits, counters and a record a prefix                        |
//! | update    | the same for one prefix                                       |
//! | memory    | 18.8 bits of filter, 8 bytes a prefix, 4 a bucket; the writer: |
//! |           | 18.8 bytes a prefix                                           |
//!
//! Source: Dharmapurikar, Krishnamurthy, Taylor, *Longest Prefix Matching Using Bloom
//! Filters*, SIGCOMM 2003, the basic configuration, each filter by its length's need. We
//! differ: hardware asks all filters at once, we from the longest on, and leave off
//! where a probe has answered; the k hashes are two, combined, tested up to the first no; the rate of false
//! positives is that of the SAIL thesis (section 3.6.3: k = 13, 2^-13), which compares
//! with PBF. As `bloom-naive` it is the table of `bloomfwd` without expansion; what
//! sets it apart is filters that say yes a thousand times less often.

use std::sync::Arc;

use super::MAX_PREFIXES;
use super::hashing::Brief;
use super::plan::{Plan, with_hash};
use super::writer::build;
use crate::lpm::isa;
use crate::lpm::{Card, Entry, Options, Refusal, Writer};
use crate::sync::Domain;
use crate::{Hop, Rib};

/// The registry's line.
pub const ENTRY: Entry<u32> = Entry { card: &CARD, build: build_pbf };

const CARD: Card = Card {
    name: "pbf",
    paper: "Dharmapurikar et al.: Longest Prefix Matching Using Bloom Filters (2003)",
    help: "a Bloom filter per prefix length, with few false positives, before each hash probe",
    max_hop: Hop::MAX.0,
    max_len: 32,
    max_prefixes: Some(MAX_PREFIXES),
    options: &[
        isa::OPTION,
        ("false_positives", "0.000122", "rate of false positives of each filter, 0.0001 to 0.9"),
        ("hash", "murmur", "murmur, knuth or h2"),
    ],
};

fn build_pbf(
    rib: &Rib<u32>,
    options: &Options,
    domain: &Arc<Domain>,
) -> Result<Box<dyn Writer<u32>>, Refusal> {
    let (plan, named) = Plan::by_length(&CARD, options, false)?;
    with_hash!(named, build::<u32, 1, Brief>(&CARD, rib, options, domain, &plan))
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::lpm::oracle::conformance!(u32, ENTRY);
    crate::lpm::oracle::conformance!(
        lax: u32, ENTRY, "false_positives" = "0.9", "isa" = "portable"
    );
}
