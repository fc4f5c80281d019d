//! Rutter4: an IPv4 lookup in two dependent reads of a few megabytes, or in one where
//! the /18 has a single hop. It is exact to /32 and updated in place under readers.
//!
//! ```text
//!   dst = 10.1.2.200     ├──── 18 bits ────┤├── 14 bits ──┤
//!                                ▼                 │
//!   roots  [2^18 × u32]   bits 31..5: place p      │
//!                         bits  4..0: shift s      │
//!                                │                 ▼
//!   cells  [u16]          cell p + (last 14 bits >> s)   ──► hop, or top bit and the
//!            ▲                                               line of a deep record
//!            ├ cell h (below 2^15) holds h: the record of every /18 whose only
//!            │ hop is h (s = 14)
//!            ├ records of 2, 4 or 8 cells (s = 13, 12, 11), 16 bytes each
//!            └ records of 16, 32 or 64 cells (s = 10, 9, 8), whole lines;
//!              behind one of 64, on lines of their own, deep records, one for
//!              each /24 with longer prefixes: [256 bits: bit j = the answer
//!              changes after address j][values, the last one first]
//!
//!   wide    hops beyond 15 bits: cells of 32 bits
//! ```
//!
//! | operation | cost                                                           |
//! |-----------|----------------------------------------------------------------|
//! | lookup    | 2 reads on 2 lines: root, cell (AVX-512: 1 where the /18 has   |
//! |           | one hop); 7 on 3 or 4 lines in a /24 with longer prefixes      |
//! | build     | one sweep over the prefixes                                    |
//! | update    | up to /24: one store for each cell that it owns; a new stride: |
//! |           | a new record, then one store; inside a /24: a copy of the      |
//! |           | record with that /24 painted, then one store; /0: one store    |
//! | memory    | 1 MiB, 64 KiB, and up to 128 bytes for each /18 that is not    |
//! |           | uniform; 64 or more for each /24 with longer prefixes          |
//!
//! One address, bit by bit. The routes are 10.1.0.0/16 to hop 5, 10.1.2.0/24 to hop 7
//! and 10.1.2.192/28 to hop 9; the address is 10.1.2.200, 0x0a0102c8.
//!
//! 1. The first 18 bits are 0x2804. `roots[0x2804]` is (p, 8): the /18 has a record of
//!    64 cells at p, one for each /24.
//! 2. The last 14 bits are 0x02c8; shifted right by 8 they are 2. Cell p + 2 is 10.1.2.0/24.
//!    Cell p + 3 holds 5, the answer for 10.1.3.0/24.
//! 3. The top bit of cell p + 2 is set, since the /24 has a longer prefix. Its other bits
//!    place a deep record behind the cells. Its bits 191 and 207 are set: the answer
//!    changes after 10.1.2.191 and after 10.1.2.207. Its values are 7, 9, 7, the last
//!    interval's first.
//! 4. Of bits 200 to 255 one is set, so the answer is value 1: hop 9.
//!
//! Source: our own; the design study's V18 (roots of /18s, each with its own stride).
//! We differ: deep records are behind their record, not in a hash of all /24s, so an
//! answer always comes from one version of its /18; cells have 15 bits and a flag; a
//! second version has cells of 32 bits.
//!
//! The reads bound the rate: with AVX-512, lookups reach two thirds or more of the rate of the
//! reads alone (`rutter lab run lpm/bound`). Keys with deep
//! records are answered last, without a branch that depends on the address, eight at a time
//! with AVX-512. `docs/lab/TRIED.md` lists changes that were tried and lost.
//!
//! Concurrency: a record is complete before the root that places it is stored (release).
//! After that its cells change one by one; its deep records do not. The memory of a
//! replaced record is reused after a grace period of the
//! [`Domain`](crate::sync::Domain).

mod record;
mod table;
mod writer;

use std::sync::Arc;

use super::export::Exported;
use super::instruments::Instrumented;
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
    help: "a root for each /18 over arrays of 2 to 64 hops; 16- or 32-bit hops; updates in place",
    max_hop: Hop::MAX.0,
    max_len: 32,
    max_prefixes: None,
    options: &[isa::OPTION],
};

fn build(
    rib: &Rib<u32>,
    options: &Options,
    domain: &Arc<Domain>,
) -> Result<Box<dyn super::Writer<u32>>, Refusal> {
    Ok(instrumented(rib, options, domain)?.writer)
}

/// The table, and where it reads.
pub(super) fn instrumented(
    rib: &Rib<u32>,
    options: &Options,
    domain: &Arc<Domain>,
) -> Result<Instrumented<u32>, Refusal> {
    Ok(match built(rib, options, domain)? {
        Built::Narrow(writer) => writer.instrumented(),
        Built::Wide(writer) => writer.instrumented(),
    })
}

/// The table, and what copies it.
pub(super) fn exported(
    rib: &Rib<u32>,
    options: &Options,
    domain: &Arc<Domain>,
) -> Result<Exported<u32>, Refusal> {
    Ok(match built(rib, options, domain)? {
        Built::Narrow(writer) => writer.exported(),
        Built::Wide(writer) => writer.exported(),
    })
}

enum Built {
    Narrow(writer::Rutter4<Narrow>),
    Wide(writer::Rutter4<Wide>),
}

/// Chooses the width of a value by the largest hop.
fn built(rib: &Rib<u32>, options: &Options, domain: &Arc<Domain>) -> Result<Built, Refusal> {
    options.check(&CARD)?;
    let isa = Isa::choose(&CARD, options)?;
    let largest = rib.iter().map(|(_, hop)| hop).max().unwrap_or(Hop::NONE);
    CARD.admit_hop(largest)?;
    Ok(if largest.0 <= Narrow::MOST {
        Built::Narrow(writer::Rutter4::build(rib, isa, domain)?)
    } else {
        Built::Wide(writer::Rutter4::build(rib, isa, domain)?)
    })
}

/// Bits of the address above a record.
const RECORD_BITS: u32 = 18;
/// Bits after them.
const REST_BITS: u32 = 32 - RECORD_BITS;
/// /24s in a /18.
const SLOTS: usize = 64;

#[cfg(test)]
mod tests;
