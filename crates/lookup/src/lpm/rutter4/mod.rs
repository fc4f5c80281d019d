//! Rutter4: IPv4 in two dependent reads of a few megabytes, exact to /32,
//! updated in place under readers.
//!
//! ```text
//!   dst = 10.1.2.200     ├──── 18 bits ────┤├─ 14 bits: rest ─┤
//!                                 ▼                  │
//!   root [2^18 × u32]    index 27 │ shift 5          │
//!                            ▼        ▼              ▼
//!   arena [u16 or u32]   values[index | (rest >> shift)]  ──► hop, 0, or ESCAPE
//!
//!   a uniform /18        shift 14: one value (u16: of the identity table that
//!                        fills the arena's first 65,536 places, so T[h] = h)
//!   another /18          2^g values, g = 1..6: the fewest in which each value
//!                        stands for a part with one answer; aligned to 2^g, so
//!                        that `|` adds and one cache line is read
//!   a /18 that holds     64 values, ESCAPE for each /24 with longer prefixes │
//!   prefixes > /24       64 bits: which /24s │ for each a word: offset 27, shift 5 │
//!                        their values, 2^g each, g = 1..8
//! ```
//!
//! | operation | cost                                                           |
//! |-----------|----------------------------------------------------------------|
//! | lookup    | 2 reads; 5 inside a /24 that holds longer prefixes             |
//! | build     | one pass over the prefixes                                     |
//! | update    | one record written, one root entry stored; a prefix shorter    |
//! |           | than /18: one per /18 that it owns; /0: one store              |
//! | memory    | 1 MiB, and 2 to 128 bytes for each /18 that is not uniform     |
//!
//! Source: our own; from the design study of a /18 root with variable strides.
//! We differ from that study: prefixes beyond /24 live inside the record of
//! their /18 instead of a global hash, with a stride of their own. So a record is
//! one immutable piece, an answer is always that of one version of its /18, and
//! there is nothing to fill up or to clean.
//!
//! Concurrency: a record is never written after the root entry that names it was
//! stored (release); a replaced record returns to use after a grace period of the
//! [`Domain`](crate::sync::Domain). A reader loads a root entry once a lookup.

mod arena;
mod record;
mod table;
mod writer;

use std::sync::Arc;

use super::{Card, Entry, Options, Refusal};
use crate::sync::Domain;
use crate::{Hop, Rib};

/// The registry's line.
pub const ENTRY: Entry<u32> = Entry { card: &CARD, build };

const CARD: Card = Card {
    name: "rutter4",
    paper: "Rutter",
    help: "2^18 roots over arrays of variable stride; 16- or 32-bit hops, updates in place",
    max_hop: Hop::MAX.0 - 1,
    max_len: 32,
    max_prefixes: None,
    options: &[],
};

/// Chooses the width of a value by the largest hop.
fn build(
    rib: &Rib<u32>,
    options: &Options,
    domain: &Arc<Domain>,
) -> Result<Box<dyn super::Writer<u32>>, Refusal> {
    options.check(&CARD)?;
    let largest = rib.iter().map(|(_, hop)| hop).max().unwrap_or(Hop::NONE);
    CARD.admit_hop(largest)?;
    if largest.0 <= <u16 as table::Value>::MAX_HOP {
        Ok(Box::new(writer::Rutter4::<u16>::build(rib, domain)?))
    } else {
        Ok(Box::new(writer::Rutter4::<u32>::build(rib, domain)?))
    }
}

/// Bits of the address that index the root.
const ROOT_BITS: u32 = 18;
/// Bits after the root.
const REST_BITS: u32 = 32 - ROOT_BITS;
/// Bits of an entry that hold the shift.
const SHIFT_BITS: u32 = 5;
/// Places of the arena.
const PLACES: usize = 1 << (32 - SHIFT_BITS);
/// /24s in a /18.
const SLOTS: usize = 64;

/// The first and the last address of root slot `i`.
fn range(i: usize) -> std::ops::RangeInclusive<u32> {
    let first = (i as u32) << REST_BITS;
    first..=first | ((1 << REST_BITS) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::lpm::oracle::conformance!(u32, ENTRY);

    /// The same with hops that need 32 bits.
    fn build_wide(
        rib: &Rib<u32>,
        _: &Options,
        domain: &Arc<Domain>,
    ) -> Result<Box<dyn super::super::Writer<u32>>, Refusal> {
        rib.iter().try_for_each(|(_, hop)| CARD.admit_hop(hop))?;
        Ok(Box::new(writer::Rutter4::<u32>::build(rib, domain)?))
    }

    crate::lpm::oracle::conformance!(wide: u32, Entry { card: &CARD, build: build_wide });
}
