//! SAIL_U: prefixes pushed to the levels 6, 12, 18 and 24, so that an update writes
//! one word of 64 bits on chip.
//!
//! ```text
//!    on chip    B6: 1 word   B12: 64   B18: 4,096   B24: 262,144               2.03 MiB
//!    off chip   N       [ N6 | … | N12 | … | N18 | … | N24 ]   Ni from 2^i on, 65 MiB
//!               N24     bit 31 = 0: the hop; 1: a chunk of [ hop; 256 ] and a label,
//!                       as in sail-b
//!    writer     nests   the prefixes themselves: 2 words a node of /0, /6, /12, /18
//!    default    the hop of /0; replaces zeros at the end of a burst
//! ```
//!
//! | operation | cost                                                             |
//! |-----------|------------------------------------------------------------------|
//! | lookup    | 4 words on chip, no branch on the key; 1 hop off chip, at most 4 where |
//! |           | the /24 holds longer routes                                      |
//! | build     | one update a route, without a search                             |
//! | update    | up to /24: 1 word on chip, up to 64 hops (32 words) off chip;    |
//! |           | longer: 1 word, the cells it owns (128 at most), a chunk to clear |
//! | memory    | 67 MiB, and 1 KiB for each /24 that holds longer routes          |
//!
//! Source: thesis, section 3.4.1. We differ: as in `sail-b`, no hop is pushed from
//! above into a chunk; holes send the search up, and the hop pushed to a /24 that
//! has a chunk is the chunk's label. So the paper's bound on chip holds off chip
//! too: no prefix writes more than 64 hops. Which prefix owns a place is known from
//! the writer's bits, not asked of the `Rib`: a short prefix may have a hundred
//! thousand inside.
//!
//! A burst that overlaps two updates may see the second without the first: then it
//! may answer with a shorter route that both cover.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::accesses::words;
use super::nest;
use super::split::{Lengths, Split, Splitter};
use crate::hint::prefetch;
use crate::lpm::{Card, Entry, Options, Refusal, Writer};
use crate::pages::Pages;
use crate::rib::Change;
use crate::sync::Domain;
use crate::{Hop, Prefix, Rib};

/// The registry's line.
pub const ENTRY: Entry<u32> = Entry { card: &CARD, build };

const CARD: Card = Card {
    name: "sail-u",
    paper: "Fu: High-Performance Software Packet Processing (2020), section 3.4.1",
    help: "prefixes are pushed to /6, /12, /18 and /24; an update writes one word of a bitmap",
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
    Ok(Box::new(Splitter::<Pushed>::build(&CARD, rib, domain)?))
}

/// The bitmaps of four levels.
struct Pushed {
    above: Pages<[AtomicU64; ROOM]>,
    pivots: Pages<[AtomicU64; 1 << 18]>,
}

/// The prefixes that were pushed: of each node of /0, /6, /12, /18 those one to
/// five bits longer, as a nest, and those six bits longer, by their last bits.
struct Own(Vec<[u64; 2]>);

impl Default for Own {
    fn default() -> Self {
        Own(vec![[0; 2]; node(1 << 24, 18)])
    }
}

impl Lengths for Pushed {
    type Known = Own;
    const READS: u64 = 4;

    fn new() -> std::io::Result<Self> {
        Ok(Pushed { above: Pages::zeroed(1)?, pivots: Pages::zeroed(1)? })
    }

    #[inline(always)]
    fn place(&self, top: u32) -> u32 {
        // The longest first: what an update replaces by shorter ones is not missed.
        let pivot = self.word(top, 18).load(Ordering::Relaxed);
        let above = self.above(top);
        if pivot >> (top % 64) & 1 != 0 { 1 << 24 | top } else { above }
    }

    #[inline(always)]
    fn above(&self, top: u32) -> u32 {
        let mut place = 1;
        for level in [6, 12, 18] {
            let bits = top >> (24 - level);
            let word = self.word(top, level as u8 - 6).load(Ordering::Relaxed);
            place = if word >> (bits % 64) & 1 != 0 { 1 << level | bits } else { place };
        }
        place
    }

    #[inline(always)]
    fn prefetch(&self, top: u32) {
        prefetch(self.word(top, 18));
        prefetch(self.word(top, 12));
    }

    fn pivots(&self) -> &[AtomicU64] {
        &self.pivots[0]
    }

    fn bytes(&self) -> usize {
        node(0, 18) * size_of::<u64>() + size_of_val(&*self.pivots)
    }

    fn hop_bytes() -> usize {
        [6, 12, 18, 24].map(|level| size_of::<u32>() << level).iter().sum()
    }

    fn change(table: &Split<Self>, own: &mut Own, change: &Change<u32>, rib: &Rib<u32>) {
        let (len, top) = (change.prefix.len(), change.prefix.first() >> 8);
        let base = (len - 1) / 6 * 6;
        let known = &mut own.0[node(top, base)];
        set(known, top, base, len, change.hop.is_some());
        let hop = match change.hop {
            Some(hop) => hop.0,
            None => inherited(known, change.prefix, base, rib),
        };
        let places = owned(known, top, base, len);
        let word = table.lengths.word(top, base);
        let old = word.load(Ordering::Relaxed);
        let level = base + 6;
        let first = 1 << level | (top >> (24 - level)) & !63; // the word's first place
        if hop != 0 {
            write(table, first, places, hop); // I1: before their bits
        }
        let kept = |bit: &u32| level == 24 && table.has_chunk(first + bit);
        let chunks = ones(places).filter(kept).fold(0, |chunks, bit| chunks | 1 << bit);
        let new = if hop != 0 { old | places } else { old & !places | chunks };
        if new != old {
            table.store(word, new);
        }
        if hop == 0 {
            write(table, first, chunks, 0);
        }
    }

    fn known_bytes(own: &Own) -> usize {
        size_of_val(&own.0[..])
    }
}

impl Pushed {
    /// The word of level `base` + 6 below the node that the first `base` bits of
    /// `top` lead to.
    #[inline(always)]
    fn word(&self, top: u32, base: u8) -> &AtomicU64 {
        if base == 18 {
            &self.pivots[0][(top as usize >> 6) % (1 << 18)]
        } else {
            &self.above[0][node(top, base) % ROOM]
        }
    }
}

/// Numbers the nodes of /0, /6, /12, /18, a level after the other.
#[inline(always)]
fn node(top: u32, base: u8) -> usize {
    let before = ((1 << base) - 1) / 63;
    before + (top as usize >> (24 - base))
}

fn set(known: &mut [u64; 2], top: u32, base: u8, len: u8, there: bool) {
    let bits = top >> (24 - len);
    let (word, bit) = match len - base {
        6 => (1, bits % 64),
        more => (0, nest::bit(bits, more)),
    };
    known[word] = known[word] & !(1 << bit) | u64::from(there) << bit;
}

/// The hop of the longest prefix of this node that covers `prefix`; 0 where there
/// is none. The nearest known may be gone from `rib`: then its own change follows.
fn inherited(known: &[u64; 2], prefix: Prefix<u32>, base: u8, rib: &Rib<u32>) -> u32 {
    let lengths = (base + 1..prefix.len()).rev();
    let covering = lengths.map(|len| Prefix::covering(prefix.first(), len));
    let there = |outer: &Prefix<u32>| {
        let (bits, more) = (outer.first() >> (32 - outer.len()), outer.len() - base);
        known[0] >> nest::bit(bits, more) & 1 != 0
    };
    let nearest = covering.into_iter().find(there);
    nearest.and_then(|outer| rib.get(&outer)).map_or(0, |hop| hop.0)
}

/// The places, of the 64 of this node, that the prefix of `len` bits covers and no
/// longer one of the node does.
fn owned(known: &[u64; 2], top: u32, base: u8, len: u8) -> u64 {
    let more = len - base;
    if more == 6 {
        return 1 << (top >> (24 - len) & 63);
    }
    let own = nest::bit(top >> (24 - len), more);
    let mut places = covered(own);
    // Nodes below `own` in heap order: each level's are a run.
    for deeper in 1..6 - u32::from(more) {
        let run = (1_u64 << (1 << deeper)) - 1;
        for bit in ones(known[0] & run << (own << deeper)) {
            places &= !covered(bit);
        }
    }
    places & !known[1]
}

/// The places, of the 64 six bits below, that a nest's bit covers.
fn covered(bit: u32) -> u64 {
    let more = bit.ilog2();
    let each = 64 >> more;
    let run = if each == 64 { u64::MAX } else { (1 << each) - 1 };
    run << ((bit - (1 << more)) * each)
}

/// Writes `hop` to some of the 64 places from `first` on.
fn write(table: &Split<Pushed>, first: u32, places: u64, hop: u32) {
    ones(places).for_each(|bit| table.label(first + bit, hop));
    if places != 0 {
        let (low, high) = (places.trailing_zeros() as usize, places.ilog2() as usize);
        table.accesses.off_chip(words(low, high, size_of::<u32>()));
    }
}

/// The numbers of the bits that are set.
fn ones(mut word: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = (word != 0).then(|| word.trailing_zeros())?;
        word &= word - 1;
        Some(bit)
    })
}

/// Nodes of /0, /6, /12, as a power of two: an index cut to it needs no check.
const ROOM: usize = 1 << 13;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lpm::oracle::Rng;

    crate::lpm::oracle::conformance!(u32, ENTRY);

    /// Table 3.2 of the thesis.
    #[test]
    fn an_update_writes_one_word_on_chip() {
        let (mut rib, mut rng) = (Rib::new(), Rng::new(11));
        let mut writer = build(&rib, &Options::default(), &Domain::new()).unwrap();
        for _ in 0..if cfg!(miri) { 50 } else { 5000 } {
            let (prefix, hop) = rng.route::<u32>();
            let near = Prefix::covering(0x0a0a_0000 | prefix.first() >> 16, prefix.len());
            let change = Change { prefix: near, hop: (rng.below(3) > 0).then_some(hop) };
            rib.apply(&change);
            writer.apply(&rib, &[change]).unwrap();
        }
        let counters = writer.table().counters();
        let of = |name| counters.iter().find(|(known, _)| *known == name).unwrap().1;
        assert_eq!((of("update_on_chip_most"), of("on_chip_bytes")), (1, 0x20_8208));
    }

    #[test]
    fn a_place_is_owned_by_the_longest() {
        let mut known = [0; 2];
        let set_at = |known: &mut [u64; 2], bits: u32, len: u8| {
            set(known, bits << (24 - len), 18, len, true);
        };
        set_at(&mut known, 0b10, 20);
        set_at(&mut known, 0b1011, 22);
        set_at(&mut known, 0b100_001, 24);
        assert_eq!(owned(&known, 0b10 << 4, 18, 20), 0x0fff << 32 & !(1 << 33));
        assert_eq!(owned(&known, 0b1011 << 2, 18, 22), 0xf << 44);
        assert_eq!(owned(&known, 0, 18, 19), 0xffff_ffff);
        assert_eq!(owned(&known, 0b100_001, 18, 24), 1 << 33);
    }

    #[test]
    #[cfg(not(miri))] // many routes
    fn a_table_that_outgrows_its_arrays_is_built_anew() {
        crate::lpm::oracle::Suite::new(ENTRY, &[]).outgrows_its_chunks();
    }
}
