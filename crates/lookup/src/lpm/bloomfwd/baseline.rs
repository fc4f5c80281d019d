//! The baseline of Bloomfwd: three lengths instead of 32.
//!
//! ```text
//!    /25-/32 expanded to /32    filter ──► table
//!    /21-/24 expanded to /24    filter ──► table
//!    /1-/20                     [ hop; 2^20 ], 4 MiB
//! ```
//!
//! | operation | cost                                                          |
//! |-----------|---------------------------------------------------------------|
//! | lookup    | 2 filters of k reads, with false positives at 0.3 k = 2; 2 reads |
//! |           | for each that passes; else 1 read of the array                |
//! | build     | up to 128 keys a prefix (1.5 on average in real tables)       |
//! | update    | a prefix's own keys: up to 8 of /24, 128 of /32; up to /20 a run |
//! |           | of the array                                                  |
//! | memory    | 4 MiB; 12 bytes and 2.5 bits a key; the writer: a byte a filter bit |
//!
//! Source: Lucchesi et al., 2018, section 3.2. We differ: the paper's baseline takes
//! its hashes from C's `rand()`, ours from k seeded functions of the same choice as
//! `bloomfwd`, scalar and one by one, so that the two differ only in what the paper
//! adds; a filter whose keys have doubled asks for the table to be built anew.

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
pub const ENTRY: Entry<u32> = Entry { card: &CARD, build: build_baseline };

const CARD: Card = Card {
    name: "bloom-baseline",
    paper: "Lucchesi et al.: High-performance IP lookup using Intel Xeon Phi (2018), its baseline",
    help: "Bloom filters and hash tables for /24 and /32, an array for /20; updates in place",
    max_hop: Hop::MAX.0,
    max_len: 32,
    max_prefixes: Some(MAX_PREFIXES),
    options: &[isa::OPTION, RATE, ("hash", "murmur", "murmur, knuth or h2")],
};

fn build_baseline(
    rib: &Rib<u32>,
    options: &Options,
    domain: &Arc<Domain>,
) -> Result<Box<dyn Writer<u32>>, Refusal> {
    let (plan, named) = Plan::four(&CARD, rib, options)?;
    with_hash!(named, build::<u32, 1, Separate>(&CARD, rib, options, domain, &plan))
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::lpm::oracle::conformance!(u32, ENTRY);
    crate::lpm::oracle::conformance!(h2: u32, ENTRY, "hash" = "h2", "isa" = "portable");
}
