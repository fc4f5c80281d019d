//! SAIL_B: a bitmap and an array of hops for each length up to /24; for what is
//! longer, chunks. Lookup and update are both bounded by small constants.
//!
//! ```text
//!    on chip    nests   /0: 1 word   /6: 64   /12: 4,096   /18: 262,144      2.03 MiB
//!                       a word: B of the node's level and the five below
//!               B24     2^24 bits: a /24 is here, or something longer below   2 MiB
//!    off chip   N       [ … N1 | N2 | … | N24 ]   2^25 × 4 B, Ni from 2^i on   128 MiB
//!               N24     bit 31 = 0: the hop; 1: a chunk
//!               chunk   [ hop; 256 ] of what routes longer than /24 own, and the
//!                       label: the hop of the /24 itself                      1,028 B
//!    default    the hop of /0; replaces zeros at the end of a burst
//! ```
//!
//! | operation | cost                                                             |
//! |-----------|------------------------------------------------------------------|
//! | lookup    | 5 words on chip, no branch on the key; 1 hop off chip, at most 4 where |
//! |           | the /24 holds longer routes                                      |
//! | build     | one update a route, without a search                             |
//! | update    | up to /24: 1 word on chip, 1 hop off chip, whatever is below;    |
//! |           | longer: 1 word, the cells it owns (128 at most), a chunk to clear |
//! | memory    | 132 MiB, and 1 KiB for each /24 that holds longer routes         |
//!
//! Source: thesis, section 3.3. We differ:
//! - The bits of six lengths that one address needs lie in one word (`nest`),
//!   so 25 reads become 5; they are the same bits, and as many.
//! - A chunk's cells stay 0 where no route longer than /24 is, and such an address is
//!   looked up again above: the paper pushes the hop of the nearest shorter route into
//!   them, and a change of a /8 then rewrites every chunk inside. The price is two
//!   or three more reads for the addresses of such a hole.
//! - N has 31 bits for hops; /0 is not in it; algorithm 3 forgets /0 anyway.
//!
//! **The open problem** of section 5.2.1 asks for constant memory on chip, constant fast
//! lookup, and constant fast update at once. These two changes give all three: 4.03 MiB
//! on chip whatever the table; 5 reads on chip and 4 off chip at most; one write on chip
//! and one off chip for every prefix up to /24 (99.8 % of updates), 33 lines at most for
//! the others. Nothing is pushed, so there is no domino effect. What it costs against
//! `sail-l` is memory off chip: a hop's line is one of 128 MiB, mostly not in a cache.
//!
//! A burst that overlaps two updates may see the second without the first: then it
//! may answer with a shorter route that both cover.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::nest;
use super::split::{Lengths, PLACES, Split, Splitter};
use crate::hint::prefetch;
use crate::lpm::{Card, Entry, Options, Refusal, Writer};
use crate::pages::Pages;
use crate::rib::Change;
use crate::sync::Domain;
use crate::{Hop, Rib};

/// The registry's line.
pub const ENTRY: Entry<u32> = Entry { card: &CARD, build };

const CARD: Card = Card {
    name: "sail-b",
    paper: "Fu: High-Performance Software Packet Processing (2020), section 3.3",
    help: "a bitmap for each length up to /24, six to a word; constant-time lookups and updates",
    max_hop: Hop::MAX.0,
    max_len: 32,
    max_prefixes: None,
    options: &[],
};

fn build(
    rib: &Rib<u32>,
    options: &Options,
    domain: &Arc<Domain>,
) -> Result<Box<dyn Writer<u32>>, Refusal> {
    options.check(&CARD)?;
    Ok(Box::new(Splitter::<Nests>::build(&CARD, rib, domain)?))
}

/// The bitmaps of /0 to /23 by nests, and B24.
pub(super) struct Nests {
    nests: Pages<[AtomicU64; ROOM]>,
    pivots: Pages<[AtomicU64; 1 << 18]>,
}

impl Lengths for Nests {
    type Known = ();
    const READS: u64 = 5;

    fn new() -> std::io::Result<Self> {
        Ok(Nests { nests: Pages::zeroed(1)?, pivots: Pages::zeroed(1)? })
    }

    #[inline(always)]
    fn place(&self, top: u32) -> u32 {
        // The longest first: what an update replaces by shorter ones is not missed.
        let pivot = self.pivots[0][(top as usize / 64) % (1 << 18)].load(Ordering::Relaxed);
        let above = self.above(top);
        if pivot >> (top % 64) & 1 != 0 { 1 << 24 | top } else { above }
    }

    #[inline(always)]
    fn above(&self, top: u32) -> u32 {
        let (mut word, mut base) = (self.on_path(top, 18), 18);
        for shorter in [12, 6, 0] {
            let other = self.on_path(top, shorter);
            (word, base) = if word != 0 { (word, base) } else { (other, shorter) };
        }
        (1 << 24 | top) >> (24 - u32::from(base) - nest::longest(word))
    }

    #[inline(always)]
    fn prefetch(&self, top: u32) {
        prefetch(&self.pivots[0][(top as usize / 64) % (1 << 18)]);
        prefetch(self.nest(top, 18));
    }

    fn pivots(&self) -> &[AtomicU64] {
        &self.pivots[0]
    }

    fn bytes(&self) -> usize {
        NESTS * size_of::<u64>() + size_of_val(&*self.pivots)
    }

    fn hop_bytes() -> usize {
        PLACES * size_of::<u32>()
    }

    fn change(table: &Split<Self>, _: &mut (), change: &Change<u32>, _: &Rib<u32>) {
        let (len, top) = (change.prefix.len(), change.prefix.first() >> 8);
        let place = (1 << 24 | top) >> (24 - len);
        if let Some(hop) = change.hop {
            table.label(place, hop.0); // I1: before its bit
            table.accesses.off_chip(1);
        } else if len == 24 && table.has_chunk(place) {
            table.label(place, 0);
            table.accesses.off_chip(1);
        }
        if len == 24 {
            table.set_pivot(place, change.hop.is_some() || table.has_chunk(place));
        } else {
            let (word, bits) = table.lengths.with(top, len, change.hop.is_some());
            if bits != word.load(Ordering::Relaxed) {
                table.store(word, bits);
            }
        }
    }
}

impl Nests {
    /// The word of the prefix of `len` bits, at most 23, that covers `top`, and the
    /// bits that the word has with the prefix there, or not.
    pub(super) fn with(&self, top: u32, len: u8, there: bool) -> (&AtomicU64, u64) {
        let base = len / 6 * 6;
        let bit = 1 << nest::bit(top >> (24 - len), len - base);
        let word = self.nest(top, base);
        let old = word.load(Ordering::Relaxed); // the writer alone writes
        (word, if there { old | bit } else { old & !bit })
    }

    /// The word of the node that the first `base` bits of `top` lead to.
    #[inline(always)]
    fn nest(&self, top: u32, base: u8) -> &AtomicU64 {
        // Levels one after the other: those before /6, /12, /18 have 1, 65, 4,161.
        let before = ((1 << base) - 1) / 63;
        &self.nests[0][(before + (top as usize >> (24 - base))) % ROOM]
    }

    /// The bits of the prefixes that cover `top`, of lengths `base` to `base` + 5.
    #[inline(always)]
    fn on_path(&self, top: u32, base: u8) -> u64 {
        let word = self.nest(top, base).load(Ordering::Relaxed);
        word & nest::path(top >> (24 - 5 - base))
    }
}

/// Nodes of /0, /6, /12, /18.
const NESTS: usize = 1 + (1 << 6) + (1 << 12) + (1 << 18);

/// So many, as a power of two: an index cut to it needs no check.
const ROOM: usize = NESTS.next_power_of_two();

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Prefix;

    crate::lpm::oracle::conformance!(u32, ENTRY);

    /// Table 3.2 of the thesis, and the card.
    #[test]
    fn an_update_of_24_bits_or_less_is_two_writes() {
        let inside = (0..64).map(|i| (Prefix::covering(0x0a00_0000 | i << 13, 30), Hop(1)));
        let mut rib: Rib<u32> = inside.collect();
        let mut writer = build(&rib, &Options::default(), &Domain::new()).unwrap();
        for len in 1..=24 {
            for hop in [Some(Hop(2)), Some(Hop(3)), None] {
                let change = Change { prefix: Prefix::covering(0x0a00_0000, len), hop };
                rib.apply(&change);
                writer.apply(&rib, &[change]).unwrap();
            }
        }
        let counters = writer.table().counters();
        let of = |name| counters.iter().find(|(known, _)| *known == name).unwrap().1;
        assert_eq!((of("update_on_chip_most"), of("update_off_chip_most")), (1, 1));
        assert_eq!(of("updates"), 72);
    }
}
