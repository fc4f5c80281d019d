//! Lulea: IPv4 lookup in three levels of 16, 8 and 8 bits, of which only the
//! places where the answer changes are stored.
//!
//! ```text
//!    level 1   codewords [ row 10 | six 6 ] × 4096     one for 16 slots
//!              bases     [ 16 ] × 1024                 one for 4 codewords
//!              pointers  [ 32 ] …                      one for each head
//!    maptable  row: 16 × 4 bits, the heads before and at each slot, less one
//!    pointer   base + six + maptable[row][slot]        all shared by a run of slots
//!
//!    pointer   bits 31..30 = 0: bits 29..0 are the hop, 0 for nothing but /0
//!              bits 31..30 = 1, 2, 3: bits 29..0 place a chunk for 8 more bits:
//!    sparse       8 heads × 8, 8 pointers              1-8 heads, searched by halving
//!    dense        16 codewords, pointers               9-64 heads: six is enough
//!    very dense   16 codewords, 4 bases × 8, pointers  65-256 heads
//!
//!    head      a slot at which a leaf of the complete trie begins, so of the 2^16
//!              maps of 16 slots only 678 occur (one is empty): a row of 10 bits
//! ```
//!
//! | operation | cost                                                           |
//! |-----------|----------------------------------------------------------------|
//! | lookup    | 4 reads a level, of which 3 are in 15 KB; /24: 2 levels        |
//! | build     | one sweep over the routes                                      |
//! | update    | built anew, as in the paper; a change of /0 is one store       |
//! | memory    | 4 bytes a head, 40 to 52 a chunk                               |
//!
//! Source: Degermark, Brodnik, Carlsson, Pink, *Small Forwarding Tables for Fast
//! Routing Lookups*, SIGCOMM 1997. We differ: the paper's pointers have 14 bits
//! for a hop or a chunk, today's tables have 40,000 chunks and 70,000 hops, so
//! ours have 30. Leaves of one hop that make up a block are one leaf. A base is
//! one less than the heads before it, so that 16 slots without a head need no
//! case of their own. A burst takes each level together, the chunks of each form
//! by themselves: no branch depends on a key.

use std::sync::Arc;

use super::default_hop::{self, DefaultHop};
use super::rebuilt::{Rebuilt, RebuiltWriter};
use super::{Card, Entry, Lpm, Options, Refusal, Writer};
use crate::hint::prefetch;
use crate::pages::Pages;
use crate::sync::Domain;
use crate::{Hop, Prefix, Rib};

/// The registry's line.
pub const ENTRY: Entry<u32> = Entry { card: &CARD, build };

const CARD: Card = Card {
    name: "lulea",
    paper: "Degermark, Brodnik, Carlsson, Pink: Small Forwarding Tables (1997)",
    help: "three levels of compressed bitmaps; small; rebuilt at each change",
    max_hop: PLACE,
    max_len: 32,
    max_prefixes: None,
    options: &[],
};

/// Never changed after `build`, but for `default`.
///
/// - I1: every codeword, base and pointer is as the header says; a pointer that
///   is not a hop places a whole chunk in `chunks`.
struct Lulea {
    codewords: Box<[u16; 1 << 12]>,
    bases: Box<[u16; 1 << 10]>,
    pointers: Pages<u32>,
    maptable: Box<[u64; 1 << ROW_BITS]>,
    chunks: Pages<u32>,
    default: DefaultHop,
}

impl Lpm<u32> for Lulea {
    fn lookup(&self, dst: u32) -> Hop {
        let mut pointer = self.first(dst);
        for shift in [8, 0] {
            let key = dst >> shift & 0xff;
            pointer = match pointer >> FORM_SHIFT {
                HOP => break,
                SPARSE => self.sparse(pointer & PLACE, key),
                DENSE => self.dense(pointer & PLACE, key),
                _ => self.very_dense(pointer & PLACE, key),
            };
        }
        self.default.or(pointer)
    }

    fn lookup_batch(&self, dsts: &[u32], hops: &mut [Hop]) {
        assert_eq!(dsts.len(), hops.len());
        let default = self.default.get();
        for (dsts, hops) in dsts.chunks(BURST).zip(hops.chunks_mut(BURST)) {
            let mut at = [0; BURST];
            for (at, &dst) in at.iter_mut().zip(dsts) {
                *at = self.first(dst);
            }
            self.level(dsts, &mut at, 8);
            self.level(dsts, &mut at, 0);
            for (hop, &found) in hops.iter_mut().zip(&at) {
                *hop = default_hop::or(found, default);
            }
        }
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.codewords)
            + size_of_val(&*self.bases)
            + size_of_val(&*self.pointers)
            + size_of_val(&*self.maptable)
            + size_of_val(&*self.chunks)
    }
}

impl Lulea {
    /// What level 1 says of `dst`.
    #[inline(always)]
    fn first(&self, dst: u32) -> u32 {
        let slot = dst >> 16;
        let codeword = self.codewords[(slot >> 4) as usize];
        let base = self.bases[(slot >> 6) as usize];
        let place = base.wrapping_add((codeword & SIX) + self.heads(codeword, slot));
        self.pointers[usize::from(place)]
    }

    /// The heads before and at `slot` among the codeword's, less one.
    #[inline(always)]
    fn heads(&self, codeword: u16, slot: u32) -> u16 {
        (self.maptable[usize::from(codeword >> SIX_BITS)] >> (4 * (slot & 15))) as u16 & 15
    }

    /// One more level for those whose pointer is a chunk.
    #[inline(always)]
    fn level(&self, dsts: &[u32], at: &mut [u32; BURST], shift: u32) {
        // A list for each form; every key is written to the end of its own.
        let (mut lists, mut ends) = ([[0_u8; BURST]; 4], [0_usize; 4]);
        for (i, &pointer) in at[..dsts.len()].iter().enumerate() {
            let form = (pointer >> FORM_SHIFT) as usize;
            lists[form][ends[form] % BURST] = i as u8;
            ends[form] += 1;
        }
        if ends[HOP as usize] == dsts.len() {
            return;
        }
        for form in [SPARSE, DENSE, VERY_DENSE] {
            let list = &lists[form as usize][..ends[form as usize]];
            for &i in list {
                prefetch(&self.chunks[(at[usize::from(i)] & PLACE) as usize]);
            }
        }
        let key = |i: u8| dsts[usize::from(i)] >> shift & 0xff;
        let list = |form: u32| &lists[form as usize][..ends[form as usize]];
        for &i in list(SPARSE) {
            let at = &mut at[usize::from(i)];
            *at = self.sparse(*at & PLACE, key(i));
        }
        for &i in list(DENSE) {
            let at = &mut at[usize::from(i)];
            *at = self.dense(*at & PLACE, key(i));
        }
        for &i in list(VERY_DENSE) {
            let at = &mut at[usize::from(i)];
            *at = self.very_dense(*at & PLACE, key(i));
        }
    }

    #[inline(always)]
    fn sparse(&self, chunk: u32, key: u32) -> u32 {
        let chunk = &self.chunks[chunk as usize..][..SPARSE_WORDS];
        let heads = u64::from(chunk[0]) | u64::from(chunk[1]) << 32;
        let not_after = |i: u32| u32::from((heads >> (8 * i)) as u8 as u32 <= key);
        let mut i = 4 * not_after(4);
        i += 2 * not_after(i + 2);
        i += not_after(i + 1);
        chunk[2 + i as usize % SPARSE_HEADS]
    }

    #[inline(always)]
    fn dense(&self, chunk: u32, key: u32) -> u32 {
        let codeword = self.codeword(chunk, key);
        let place = (codeword & SIX) + self.heads(codeword, key);
        self.chunks[(chunk + CODEWORDS + u32::from(place)) as usize]
    }

    #[inline(always)]
    fn very_dense(&self, chunk: u32, key: u32) -> u32 {
        let codeword = self.codeword(chunk, key);
        let base = (self.chunks[(chunk + CODEWORDS) as usize] >> (8 * (key >> 6))) as u8;
        let place = base.wrapping_add(((codeword & SIX) + self.heads(codeword, key)) as u8);
        self.chunks[(chunk + CODEWORDS + 1 + u32::from(place)) as usize]
    }

    #[inline(always)]
    fn codeword(&self, chunk: u32, key: u32) -> u16 {
        let pair = self.chunks[(chunk + (key >> 5)) as usize];
        (pair >> (key & 16)) as u16
    }
}

impl Rebuilt<u32> for Lulea {
    const CARD: &'static Card = &CARD;

    fn default_hop(&self) -> &DefaultHop {
        &self.default
    }
}

fn build(
    rib: &Rib<u32>,
    options: &Options,
    _: &Arc<Domain>,
) -> Result<Box<dyn Writer<u32>>, Refusal> {
    options.check(&CARD)?;
    rib.iter().try_for_each(|(_, hop)| CARD.admit_hop(hop))?;
    let mut builder = Builder::new();
    let routes: Vec<_> = rib.iter().filter(|(prefix, _)| prefix.len() > 0).collect();
    let mut values = vec![0; 1 << 16];
    builder.paint(&routes, 0, 16, &mut values);
    if builder.chunks.len() > PLACE as usize {
        return Err(CARD.refuse(format!("more than {PLACE} words of chunks")));
    }
    let (maps, pointers) = heads(&values);
    let (codewords, bases) = builder.rows.codewords(&maps, 4);
    CARD.admit_bytes((pointers.len() + builder.chunks.len()) * size_of::<u32>())?;
    let no_memory = |error: std::io::Error| CARD.refuse(format!("no memory: {error}"));
    let table = Lulea {
        codewords: codewords.try_into().expect("a codeword for 16 of 2^16 slots"),
        bases: bases.try_into().expect("a base for 64 of 2^16 slots"),
        pointers: pages(&pointers).map_err(no_memory)?,
        maptable: builder.rows.maptable(),
        chunks: pages(&builder.chunks).map_err(no_memory)?,
        default: DefaultHop::of(rib),
    };
    Ok(Box::new(RebuiltWriter(Arc::new(table))))
}

fn pages(words: &[u32]) -> std::io::Result<Pages<u32>> {
    let mut pages = Pages::zeroed(words.len())?;
    pages.as_mut_slice().copy_from_slice(words);
    Ok(pages)
}

struct Builder {
    rows: Rows,
    chunks: Vec<u32>,
}

impl Builder {
    fn new() -> Self {
        Builder { rows: Rows::new(), chunks: Vec::new() }
    }

    /// Paints `routes`, by address, then length, over the slots that the bits
    /// `from` to `below` of the address choose among.
    fn paint(&mut self, routes: &[(Prefix<u32>, Hop)], from: u8, below: u8, slots: &mut [u32]) {
        let slot = |dst: u32| (dst << from >> (32 - (below - from))) as usize;
        let mut next = 0;
        while let Some(&(prefix, hop)) = routes.get(next) {
            let first = slot(prefix.first());
            if prefix.len() <= below {
                slots[first..=slot(prefix.last())].fill(hop.0);
                next += 1;
                continue;
            }
            let around = Prefix::covering(prefix.first(), below);
            let inside = routes[next..].iter().take_while(|(prefix, _)| around.covers(prefix));
            let end = next + inside.count();
            let mut values = [slots[first]; 256];
            self.paint(&routes[next..end], below, below + 8, &mut values);
            slots[first] = self.chunk(&values);
            next = end;
        }
    }

    /// A pointer for 256 slots: to a chunk, or the hop that all have.
    fn chunk(&mut self, values: &[u32; 256]) -> u32 {
        let (maps, pointers) = heads(values);
        let place = self.chunks.len() as u32; // `build` looks whether it fits
        let form = match pointers.len() {
            1 => return pointers[0],
            2..=SPARSE_HEADS => {
                self.sparse_heads(&maps);
                SPARSE
            }
            ..=64 => {
                let (codewords, _) = self.rows.codewords(&maps, maps.len());
                self.push_codewords(&codewords);
                DENSE
            }
            _ => {
                let (codewords, bases) = self.rows.codewords(&maps, 4);
                self.push_codewords(&codewords);
                let bases = bases.iter().rev();
                self.chunks.push(bases.fold(0, |word, &base| word << 8 | u32::from(base as u8)));
                VERY_DENSE
            }
        };
        self.chunks.extend(&pointers);
        if form == SPARSE {
            let last = pointers[pointers.len() - 1];
            self.chunks.resize(place as usize + SPARSE_WORDS, last);
        }
        form << FORM_SHIFT | place
    }

    /// Where the heads are; behind the last as if at the last slot.
    fn sparse_heads(&mut self, maps: &[u16]) {
        let slots = (0..256).filter(|slot| maps[slot / 16] >> (slot % 16) & 1 != 0);
        let mut heads = [0xff_u8; SPARSE_HEADS];
        heads.iter_mut().zip(slots).for_each(|(head, slot)| *head = slot as u8);
        let heads = u64::from_le_bytes(heads);
        self.chunks.extend([heads as u32, (heads >> 32) as u32]);
    }

    fn push_codewords(&mut self, codewords: &[u16]) {
        let pairs = codewords.chunks(2);
        self.chunks.extend(pairs.map(|pair| u32::from(pair[0]) | u32::from(pair[1]) << 16));
    }
}

/// The maps of heads among `values`, 16 slots each, and what the heads point to.
fn heads(values: &[u32]) -> (Vec<u16>, Vec<u32>) {
    let (mut maps, mut pointers) = (vec![0; values.len() / 16], Vec::new());
    cut(values, 0, &mut maps, &mut pointers);
    (maps, pointers)
}

/// A block is one leaf where all its slots have one hop; else two halves.
fn cut(values: &[u32], start: usize, maps: &mut [u16], pointers: &mut Vec<u32>) {
    if values.iter().all(|value| *value == values[0]) {
        maps[start / 16] |= 1 << (start % 16);
        pointers.push(values[0]);
        return;
    }
    let (left, right) = values.split_at(values.len() / 2);
    cut(left, start, maps, pointers);
    cut(right, start + left.len(), maps, pointers);
}

/// The maps of 16 slots that occur, ascending: the empty one is row 0.
struct Rows(Vec<u16>);

impl Rows {
    fn new() -> Self {
        let mut maps = vec![1_u16]; // one slot that is a leaf
        for width in [1, 2, 4, 8] {
            // A block that is one leaf, or two halves of any kind.
            let halves = maps.iter().flat_map(|right| maps.iter().map(move |left| (left, right)));
            let mut wider = vec![1];
            wider.extend(halves.map(|(left, right)| left | right << width));
            maps = wider;
        }
        maps.push(0);
        maps.sort_unstable();
        Rows(maps)
    }

    fn maptable(&self) -> Box<[u64; 1 << ROW_BITS]> {
        let mut table = Box::new([0; 1 << ROW_BITS]);
        for (row, map) in table.iter_mut().zip(&self.0) {
            let upto = |slot: u32| (map & (0xffff >> (15 - slot))).count_ones();
            *row = (0..16).map(|slot| u64::from(upto(slot).max(1) - 1) << (4 * slot)).sum();
        }
        table
    }

    /// A codeword for each map, and a base for each `group` of them. Where all
    /// are one group, there is no base to add: the base is 0, not one less.
    fn codewords(&self, maps: &[u16], group: usize) -> (Vec<u16>, Vec<u16>) {
        let one_group = maps.len() == group;
        let (mut codewords, mut bases, mut before) = (Vec::new(), Vec::new(), 0_u16);
        for maps in maps.chunks(group) {
            let base = if one_group { 0 } else { before.wrapping_sub(1) };
            for map in maps {
                let row = self.0.binary_search(map).expect("a map of a complete trie");
                let six = before.wrapping_sub(base).wrapping_sub(u16::from(*map == 0));
                codewords.push((row as u16) << SIX_BITS | six);
                before = before.wrapping_add(map.count_ones() as u16);
            }
            bases.push(base);
        }
        (codewords, bases)
    }
}

const HOP: u32 = 0;
const SPARSE: u32 = 1;
const DENSE: u32 = 2;
const VERY_DENSE: u32 = 3;

const FORM_SHIFT: u32 = 30;

/// The bits of a pointer beside the form: a hop, or a place.
const PLACE: u32 = (1 << FORM_SHIFT) - 1;

/// Bits of a codeword that number a row; 678 rows occur.
const ROW_BITS: u32 = 10;

const SIX_BITS: u32 = 6;
const SIX: u16 = (1 << SIX_BITS) - 1;

/// Words of the codewords of a chunk.
const CODEWORDS: u32 = 8;

const SPARSE_HEADS: usize = 8;

/// Words of a sparse chunk.
const SPARSE_WORDS: usize = 2 + SPARSE_HEADS;

const BURST: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    crate::lpm::oracle::conformance!(u32, ENTRY);

    #[test]
    fn as_many_maps_occur_as_the_paper_says() {
        let rows = Rows::new();
        assert_eq!(rows.0.len(), 678);
        assert!(rows.0.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn every_form_of_chunk() {
        // Every second /24 of a /16 in blocks of `step`: 256 / step heads.
        for (step, form) in [(256, HOP), (128, SPARSE), (32, SPARSE), (16, DENSE), (4, DENSE)]
            .into_iter()
            .chain([(2, VERY_DENSE), (1, VERY_DENSE)])
        {
            let len = 24 - u32::ilog2(step) as u8;
            let route = |i: u32| {
                let first = 0x0a00_0000 | (i * step) << 8;
                (Prefix::covering(first, len), Hop(i % 2 + 1))
            };
            let rib: Rib<u32> = (0..256 / step).map(route).collect();
            let mut builder = Builder::new();
            let routes: Vec<_> = rib.iter().collect();
            let mut values = vec![0; 1 << 16];
            builder.paint(&routes, 0, 16, &mut values);
            assert_eq!(values[0x0a00] >> FORM_SHIFT, form, "{step}");
            let table = build(&rib, &Options::default(), &Domain::new()).unwrap().table();
            for i in 0..256 {
                let want = Hop(i / step % 2 + 1);
                assert_eq!(table.lookup(0x0a00_0001 | i << 8), want, "{step} {i}");
            }
            assert_eq!(table.lookup(0x0a01_0000), Hop::NONE);
        }
    }
}
