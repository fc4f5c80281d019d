//! Rutter6: IPv6 by a small direct array, then a balanced tree of cache lines with
//! 32-bit keys. A line holds keys and hops. Exact to /128, updated in place.
//!
//! ```text
//!   dst     ├─ 16 bits ─┤├─ t bits ─ … ──────── x, 32 bits ─┤├─ x, 32 ─┤├─ x, 32 ─┤├ 16 ┤
//!                ▼            ▼                  ▼                │          │        │
//!   root    [2^16 words]   cells [2^t entries]   a tree           └ deeper trees, where a
//!            cells 26│64-t  unit 26, bit 31: SUPER                  /48 (/80, /112) has
//!                                                                   borders inside: a line
//!                                                                   alone (bit 30), or nodes
//!   SUPER      15 keys │ unit of child 0     a node whose children are nodes
//!   node       15 keys │ unit of child 0     16 children at most, one block of units
//!   line       10 keys │ 11 values of 16 bits     or   7 keys │ 8 values of 32 bits
//!
//!   key        (first x of the next child or answer) - 1, ascending, u32::MAX behind the
//!              last: the child (value) for x is the one numbered: keys less than x; the
//!              top bit is flipped, so that signed numbers have the same order
//!   value      a hop, 0 for nothing but /0; or top bit and number of a deeper tree
//!   deep       [2^15 or more entries]   the deeper trees by number
//! ```
//!
//! | operation | cost                                                               |
//! |-----------|--------------------------------------------------------------------|
//! | lookup    | root, cell, node, line; a line more for each SUPER (1 key in 4);   |
//! |           | a word and a line more for each deeper tree, a node too in larger  |
//! | build     | a sweep over the routes and a copy                                 |
//! | update    | a line, and copies of the blocks on the way to it; /0: one store;  |
//! |           | a new table beside this one before it has twice the bytes of one   |
//! | memory    | 256 KiB, and 6 to 10 bytes an interval (wide: 9 to 14)             |
//!
//! Source: our own; from the design study of a tree of lines that hold keys and hops. We
//! differ: a deeper tree is a tree like the others, on the next 32 bits, and the value itself
//! names it, not a hash; it is a line alone where its answers fit into one. A change replaces
//! only the answers of its own prefix, so the routes beside it are not read. Keys are ordered
//! as unsigned numbers, so a tree may cover any range: AVX2 compares signed numbers only, and
//! flipping a bit of x costs 2 instructions less than a comparison by a minimum.
//!
//! With AVX-512 sixteen keys are searched side by side. Root words, cells, first children
//! and values come by gathers, and the places of all lines are computed at once. Five
//! instructions a line remain for each key: its entry, its place, its `x`, the comparison,
//! and a store of the mask, which is counted later. Keys enter by four rows, which stay in
//! registers until all cells are read, and lines are compared by eights. `docs/lab/TRIED.md`
//! has the gains, and the changes that were tried and lost.
//!
//! Keys that continue in deeper trees do so together after the burst, a level at a time, by
//! the same instructions as before. Few keys of the Internet are that deep; where many are,
//! each would otherwise wait for three reads a level, one key after the other.
//!
//! A call with more keys than a burst prefetches the keys of the next burst: at sixteen
//! bytes each, and read in bursts, they are not a stream that the processor recognises.
//!
//! The borders of each /16 determine its t: an array grows where this saves SUPER nodes.
//! Several cells with few borders share a tree.
//!
//! Concurrency: nodes and lines are never written after the store (release) of an entry
//! that leads to them; entries are cells, root words and words of `deep`. The memory of
//! replaced nodes and lines is reused after a grace period of the
//! [`Domain`](crate::sync::Domain).

mod cells;
mod rank;
mod roots;
mod sizes;
mod table;
mod tree;
mod writer;

use std::sync::Arc;

use super::export::Exported;
use super::instruments::Instrumented;
use super::isa::{self, Isa};
use super::renewed::Renewed;
use super::{Card, Entry, Options, Refusal, Writer};
use crate::sync::Domain;
use crate::{Hop, Rib};
use table::{Narrow, Value, Wide};

/// The registry's line.
pub const ENTRY: Entry<u128> = Entry { card: &CARD, build };

const CARD: Card = Card {
    name: "rutter6",
    paper: "Rutter",
    help: "2^16 roots over trees of cache lines with 32-bit keys; 16- or 32-bit hops; updates in place",
    max_hop: Hop::MAX.0,
    max_len: 128,
    max_prefixes: Some(1 << 28),
    options: &[isa::OPTION],
};

fn build(
    rib: &Rib<u128>,
    options: &Options,
    domain: &Arc<Domain>,
) -> Result<Box<dyn Writer<u128>>, Refusal> {
    Ok(exported(rib, options, domain)?.writer)
}

/// The table, and what copies it.
pub(super) fn exported(
    rib: &Rib<u128>,
    options: &Options,
    domain: &Arc<Domain>,
) -> Result<Exported<u128>, Refusal> {
    let Exported { writer, export } = match built(rib, options, domain)? {
        Built::Narrow(writer) => writer.exported(),
        Built::Wide(writer) => writer.exported(),
    };
    Ok(Exported { writer: Box::new(Renewed::new(writer, 4 * table::ROOTS, rib)), export })
}

/// The table, and where it reads.
pub(super) fn instrumented(
    rib: &Rib<u128>,
    options: &Options,
    domain: &Arc<Domain>,
) -> Result<Instrumented<u128>, Refusal> {
    Ok(match built(rib, options, domain)? {
        Built::Narrow(writer) => writer.instrumented(),
        Built::Wide(writer) => writer.instrumented(),
    })
}

enum Built {
    Narrow(writer::Rutter6<Narrow>),
    Wide(writer::Rutter6<Wide>),
}

/// Chooses the width of a value by the largest hop, and by the deeper trees.
fn built(rib: &Rib<u128>, options: &Options, domain: &Arc<Domain>) -> Result<Built, Refusal> {
    options.check(&CARD)?;
    let isa = Isa::choose_gathering(&CARD, options)?;
    let limit = CARD.max_prefixes.unwrap_or(u64::MAX);
    if rib.len() as u64 > limit {
        return Err(CARD.refuse(format!("{} prefixes exceed {limit}", rib.len())));
    }
    let largest = rib.iter().map(|(_, hop)| hop).max().unwrap_or(Hop::NONE);
    CARD.admit_hop(largest)?;
    // It gives up where there are more deeper trees than 15 bits number.
    if largest.0 <= Narrow::MOST
        && let Ok(writer) = writer::Rutter6::<Narrow>::build(rib, isa, domain)
    {
        return Ok(Built::Narrow(writer));
    }
    Ok(Built::Wide(writer::Rutter6::<Wide>::build(rib, isa, domain)?))
}

/// The 32 bits of `dst` that the trees of `level` tell apart.
#[inline(always)]
fn x_of(dst: u128, level: u32) -> u32 {
    ((dst << (ROOT_BITS + X_BITS * level)) >> (u128::BITS - X_BITS)) as u32
}

/// Bits of the address before the `x` of `level`, and the `x`; 128 at most.
fn bits_to(level: u32) -> u8 {
    (ROOT_BITS + X_BITS * (level + 1)).min(u128::BITS) as u8
}

/// Bits of the address that choose the root word.
const ROOT_BITS: u32 = 16;
const X_BITS: u32 = 32;
/// Trees below trees: 16 bits, then 32, 32, 32 and 16.
const LEVELS: u32 = 4;
/// Keys of a node; the entry of its first child is behind them.
const SEPARATORS: usize = 15;
/// Turned in keys.
const SIGN: u32 = 1 << 31;
/// In an entry: the node's children are nodes.
const SUPER: u32 = 1 << 31;
/// In the entry of a deeper tree: it is a line alone.
const LINE: u32 = 1 << 30;

#[cfg(test)]
mod tests;
