//! Rutter4: IPv4 in two dependent reads of a few megabytes, one where a /18 has one
//! hop; exact to /32, updated in place under readers.
//!
//! ```text
//!   dst = 10.1.2.200     ├──── 18 bits ────┤├── 14 bits ──┤
//!                                ▼                 │
//!   roots  [2^18 × u32]   bits 31..5: place p      │
//!                         bits  4..0: shift s      │
//!                                │                 ▼
//!   cells  [u16]          cell p + (last 14 bits >> s)   ──► hop, or top bit and the
//!            ▲                                               line of a deep record
//!            ├ cells 0 to 2^15 - 1: h at h, the record of a /18 of hop h (s = 14)
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
//! |           | one hop); 8 inside a /24 with longer prefixes                  |
//! | build     | one sweep over the prefixes                                    |
//! | update    | to /24: the cells it owns, each one store; where a record's    |
//! |           | stride changes, the record written anew and one store; inside  |
//! |           | a /24, that one painted, the rest of its record copied, one    |
//! |           | store; /0: one store                                           |
//! | memory    | 1 MiB, 64 KiB, and up to 128 bytes for each /18 that is not    |
//! |           | uniform; 64 or more for each /24 with longer prefixes          |
//!
//! Source: our own; the design study's V18 (roots of /18s, each with a stride of
//! its own). We differ from it: deep records lie behind their record, not in a
//! hash of all /24s, so that an answer is always that of one version of its /18;
//! cells are 15 bits and a flag; there is a version with cells of 32.
//!
//! Tried and lost (libloc, 968,428 prefixes; millions a second, medians of runs in
//! turns beside `dir-24-8`): bitmap records of 1.85 bytes a prefix, found by a
//! table of /13s and a line of entries, so that all lay in the second-level
//! cache: 4 reads on 3 lines and about 30 instructions a key cost more than the
//! lines saved. Random, prefix-based, Zipf: 81, 84, 127 (AVX2), 180, 167, 331
//! (AVX-512), where this does 180, 166, 255 and 413, 254, 424.
//!
//! Roots and cells of a key in one loop, from roots in registers (202, 191, 325 in a
//! test of the kernels alone; passes of their own 244, 266, 487; `dir-24-8` 94, 154,
//! 352), or roots 64 keys ahead (177, 198, 361): five instructions a key between the
//! reads, which a pass of their own does for eight at once. AVX2 gathers in both
//! passes: 468, 434, 804 there, on Sapphire Rapids; left out because on Zen 3, which
//! has no AVX-512 and needs this path, a gather is no faster than its loads. Sixteen
//! keys at a time through both gathers: 394, 513, 844; a burst through each 655,
//! 593, 959; two to eight blocks ahead as much. Reading the cells of the lanes that
//! need one by scalar loads: 564, 366, 481. Best are blocks of 128 keys whose roots stay
//! in registers (table below: before that), and roots on a large page: together 1.03 to
//! 1.14 times a pass of 256 keys each in turns, in bursts of 64 1.13 to 1.27 times. The
//! roots of the next block before the cells of this one: as much. With prefetches of the
//! cells' lines before their gathers 0.72 to 0.89 times, a busy core or not, tables in
//! cache or not.
//! Every update a sweep over its /18 and a record anew: 7,500 instructions, 1,900
//! so, a third of them searches for the owner (prefixes of that table, deleted and
//! put back).
//!
//! Where the time is: reads of roots alone do 1,100 to 1,500 M/s (by gathers 1,600
//! to 1,900), those of cells, 0.7 a key for prefix-based traffic in 4 MB, the rest;
//! one random line of `dir-24-8`'s 64 MiB 108 to 122.
//!
//! The bound (`rutter lab run lpm/bound` measures it anew) with AVX-512, by the same keys through the gathers alone, in turns (a busy
//! core; rates as multiples of the engine's, bursts of 256 and of 4,096):
//!
//! | traffic | cells a key | roots alone | cells alone | both in turn | `rte_fib` 2b |
//! |---------|-------------|-------------|-------------|--------------|--------------|
//! | random  | 0.19        | 2.60, 2.20  | 1.59, 1.65  | 0.99, 0.94   | 0.42, 0.29   |
//! | prefix  | 0.72        | 2.86, 3.18  | 1.35, 1.38  | 0.92, 0.96   | 0.78, 0.58   |
//! | Zipf    | 0.76, 0.70  | 2.78, 3.08  | 1.54, 1.57  | 0.99, 0.99   | 1.03, 0.98   |
//!
//! The lookups are as fast as their reads: what lies between costs nothing, and only
//! fewer or nearer lines would help. Of Zipf traffic `rte_fib` reads one near line a key
//! as a rule, this 1.7, so the two are equal there. One instruction less a row (deep
//! cells found at the end of a burst) gained 0 to 2 %, so it was left out.
//!
//! Concurrency: a record is complete before the root that places it is stored
//! (release); after that its cells are changed one by one, and what is deep is
//! not; a replaced one returns to use after a grace period of the
//! [`Domain`](crate::sync::Domain).

mod record;
mod table;
mod writer;

use std::sync::Arc;

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
    help: "roots of /18s, arrays of 2 to 64 hops; 16- or 32-bit hops, updates in place",
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

/// Chooses the width of a value by the largest hop.
pub(super) fn instrumented(
    rib: &Rib<u32>,
    options: &Options,
    domain: &Arc<Domain>,
) -> Result<Instrumented<u32>, Refusal> {
    options.check(&CARD)?;
    let isa = Isa::choose(&CARD, options)?;
    let largest = rib.iter().map(|(_, hop)| hop).max().unwrap_or(Hop::NONE);
    CARD.admit_hop(largest)?;
    if largest.0 <= Narrow::MOST {
        Ok(writer::Rutter4::<Narrow>::build(rib, isa, domain)?.instrumented())
    } else {
        Ok(writer::Rutter4::<Wide>::build(rib, isa, domain)?.instrumented())
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
