//! SAIL for IPv6: pushed to /16, /24, /32, /40, /48, and every eight bits beyond.
//!
//! ```text
//!    dst = 2001:db8:0102:… │ 2001     0d       b8       01       02     …
//!                             ▼        ▼        ▼        ▼        ▼
//!    BCN16  [ hop | chunk ] → [ 256 ] → [ 256 ] → [ 256 ] → [ 256 ] → … /128
//!           2^16 × 4 B          /24       /32       /40       /48
//!
//!    entry     bit 31 = 0: a hop, 0 for nothing but /0; 1: a chunk one level below
//!    default   the hop of /0; replaces zeros at the end of a burst
//! ```
//!
//! | operation | cost                                                             |
//! |-----------|------------------------------------------------------------------|
//! | lookup    | a read a level down to the answer: 5 for /41 to /48              |
//! | build     | one write per cell that a route covers, nested ones again        |
//! | update    | the cells that the prefix owns at its level, chunks below; not bounded |
//! | memory    | 256 KB, and 1 KB for each prefix of a level that holds longer ones |
//!
//! Source: thesis, section 3.6.1. We differ: the paper's last step, from 48 to 64,
//! takes 2^16 cells a chunk, 256 KB for each /48 that holds a longer route; ours is
//! of two levels, 56 and 64, so a table of today costs no more than one of 2013.
//! The paper ends at /64; the same levels go on to /128, at nothing for tables that
//! have no such routes. B, C and N are one array, as the paper has it for IPv4 on
//! processors; entries have 31 bits for a hop or a number.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use super::push::Pusher;
use crate::lpm::{Card, Entry, Options, Refusal, Writer};
use crate::sync::Domain;
use crate::{Hop, Rib};

/// The registry's line.
pub const ENTRY: Entry<u128> = Entry { card: &CARD, build };

const CARD: Card = Card {
    name: "sail6",
    paper: "Fu: High-Performance Software Packet Processing (2020), section 3.6.1",
    help: "prefixes are pushed to /16 and every 8 bits beyond; one read per level; updates in place",
    max_hop: Hop::MAX.0,
    max_len: 128,
    max_prefixes: None,
    options: &[],
};

fn build(
    rib: &Rib<u128>,
    options: &Options,
    domain: &Arc<Domain>,
) -> Result<Box<dyn Writer<u128>>, Refusal> {
    options.check(&CARD)?;
    rib.iter().try_for_each(|(_, hop)| CARD.admit_hop(hop))?;
    Ok(Box::new(Pusher::<u128, AtomicU32, 16>::build(&CARD, rib, domain)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::lpm::oracle::conformance!(u128, ENTRY);
}
