//! Rutter4: IPv4 in under two bytes a prefix, so that a full table stays in the
//! second-level cache; exact to /32, updated in place under readers.
//!
//! ```text
//!   dst = 10.1.2.200     ├─ 13 bits ─┤├ 5 ┤├─ 6 ──┤├─ 8 ──┤
//!                              ▼        │     │       │
//!   tops  [2^13 × u32]      a block     │     │       │
//!                              ▼        ▼     │       │
//!   block   entries [32 × u16]          entry │       │    one cache line
//!                             top bit 0: the hop of the whole /18
//!                             top bit 1: the place of its record in the block
//!                                             ▼       │
//!           records   [u64: bit j = the answer changes after /24 number j]
//!                     [u16 values, the last one first]
//!                     values[ones in (bits >> slot)]  │    ──► hop, or top bit and
//!                                                     ▼        place of a deep record
//!           deep      [256 bits, the same for addresses][u16 values]
//!
//!   wide    hops beyond 15 bits: all of 32 bits, 2^14 blocks of 16 entries
//! ```
//!
//! | operation | cost                                                           |
//! |-----------|----------------------------------------------------------------|
//! | lookup    | 2 reads (tops: 32 KiB, mostly in the first-level cache) in a   |
//! |           | uniform /18, else 4 on 3 lines; 8 inside a /24 with longer     |
//! | build     | one sweep over the prefixes                                    |
//! | update    | the /18 swept, its block copied, one store; a prefix shorter   |
//! |           | than /13: each block that it owns part of; /0: one store       |
//! | memory    | 32 KiB, 64 bytes for each /13 and 8 for each /18 that is not   |
//! |           | uniform, 2 for each change of the answer                       |
//!
//! Source: our own; from the design study of bitmap records under a /18 root
//! (U18). We differ from it: the root of 2^18 words, 1 MiB, is a line in each
//! block, so that sixteen keys are answered from 1.7 MB by gathers (AVX-512)
//! or a loop without a branch on a key; an update replaces a block, and a deep
//! record lies in it: an answer is always that of one version of its /13.
//!
//! Concurrency: a block is never written after the word of `tops` that names it
//! was stored (release); a replaced one returns to use after a grace period of
//! the [`Domain`](crate::sync::Domain).

#[cfg(avx512)]
mod avx512;
mod block;
mod record;
mod table;
mod writer;

use std::sync::Arc;

use super::isa::{self, Isa};
use super::{Card, Entry, Options, Refusal};
use crate::sync::Domain;
use crate::{Hop, Rib};
use table::{Narrow, Value, Wide};

/// The registry's line.
pub const ENTRY: Entry<u32> = Entry { card: &CARD, build };

const CARD: Card = Card {
    name: "rutter4",
    paper: "Rutter",
    help: "bitmap records in blocks of 64-byte lines; 16- or 32-bit hops, updates in place",
    max_hop: Hop::MAX.0,
    max_len: 32,
    max_prefixes: None,
    options: &[isa::OPTION],
};

/// Chooses the width of a value by the largest hop.
fn build(
    rib: &Rib<u32>,
    options: &Options,
    domain: &Arc<Domain>,
) -> Result<Box<dyn super::Writer<u32>>, Refusal> {
    options.check(&CARD)?;
    let isa = Isa::choose(&CARD, options)?;
    let largest = rib.iter().map(|(_, hop)| hop).max().unwrap_or(Hop::NONE);
    CARD.admit_hop(largest)?;
    if largest.0 <= Narrow::MOST {
        Ok(Box::new(writer::Rutter4::<Narrow>::build(rib, isa, domain)?))
    } else {
        Ok(Box::new(writer::Rutter4::<Wide>::build(rib, isa, domain)?))
    }
}

/// Bits of the address above a record.
const RECORD_BITS: u32 = 18;
/// Bits after them.
const REST_BITS: u32 = 32 - RECORD_BITS;
/// /24s in a /18.
const SLOTS: usize = 64;

#[cfg(test)]
mod tests;
