//! Hopscotch hashing: a flow lies within 64 places of its home, and a map at
//! home says in which of them flows of this home stand.
//!
//! ```text
//!    hash ─► home      maps    2^b × 8 B     bit i: place home + i has one of mine
//!                      flows   2^b × 64 B
//! ```
//!
//! | operation | cost at load 0.5, 0.9                                          |
//! |-----------|----------------------------------------------------------------|
//! | lookup    | the map; 1.2, 1.5 entries of home                              |
//! | absent    | the map; 0.5, 0.9 entries                                      |
//! | insert    | a free place, and hops until it is within 64 of home           |
//! | delete    | a bit                                                          |
//! | memory    | 72 B a place, 64 B a page; refuses from about 91 % on          |
//!
//! Source: Herlihy, Shavit, Tzafrir, *Hopscotch Hashing*, DISC 2008; Li's thesis,
//! 4.5.6. We differ: one thread, so no locks or timestamps; 64 places (with 32 it
//! refuses from 82 % on); a free place is looked for over 4,096 places at most.

use super::hint::Hint;
use super::index::Index;
use super::key::Seed;
use super::memory::zeroed;
use super::size::{Size, card};
use super::table::{Core, Table};
use super::{Entry, Flow, FlowId, FlowKey, FlowTable, Full, Wanted};
use crate::exact::Card;
use crate::hint::prefetch;
use crate::lpm::{Options, Refusal};
use crate::pages::Pages;

/// The registry's line.
pub const ENTRY: Entry = Entry { card: &CARD, rules: &[Full::Thesis], build };

const CARD: Card = card(
    "hopscotch",
    "Herlihy, Shavit, Tzafrir: Hopscotch Hashing (2008); Li's thesis (2020), 4.5.6",
    "a bitmap of the 64 places from a flow's home on; full at about 91 %",
);

/// I1: place `home + i` has a flow of `home` if and only if bit i of
/// `maps[home]` is set.
struct Hopscotch {
    flows: Pages<Flow>,
    maps: Pages<u64>,
    bits: u32,
    seed: Seed,
    hops: u64,
}

fn build(wanted: Wanted, options: &Options) -> Result<Box<dyn FlowTable>, Refusal> {
    let size = Size::new(&ENTRY, wanted, options)?;
    let bits = size.bits.max(HOPS.ilog2());
    let (flows, maps) = (zeroed(&CARD, 1 << bits)?, zeroed(&CARD, 1 << bits)?);
    let core = Hopscotch { flows, maps, bits, seed: size.seed, hops: 0 };
    Ok(Box::new(Table::new(core, &size, &CARD)?))
}

impl Hopscotch {
    #[inline(always)]
    fn home(&self, hash: u64) -> usize {
        (hash >> (64 - self.bits)) as usize
    }

    #[inline(always)]
    fn at(&self, home: usize, distance: usize) -> usize {
        (home + distance) & (self.flows.len() - 1)
    }

    /// Moves a flow that lies before `free` there, as far back as can be;
    /// returns how many places nearer the free place is now.
    fn hop(&mut self, free: usize) -> Option<usize> {
        for back in (1..HOPS).rev() {
            let home = free.wrapping_sub(back) & (self.flows.len() - 1);
            let first = self.maps[home].trailing_zeros() as usize;
            if first >= back {
                continue;
            }
            let from = self.at(home, first);
            let flows = self.flows.as_mut_slice();
            flows[free] = flows[from];
            flows[from].clear();
            self.maps.as_mut_slice()[home] ^= 1 << first | 1 << back;
            self.hops += 1;
            return Some(back - first);
        }
        None
    }
}

impl Core for Hopscotch {
    const ROUNDS: usize = 2;

    #[inline(always)]
    fn ask(&self, hash: u64, round: usize) {
        let home = self.home(hash);
        if round == 0 {
            return prefetch(&self.maps[home]);
        }
        let mut map = self.maps[home];
        while map != 0 {
            prefetch(&self.flows[self.at(home, map.trailing_zeros() as usize)]);
            map &= map - 1;
        }
    }

    #[inline(always)]
    fn find(&self, hash: u64, key: &FlowKey) -> Option<FlowId> {
        let home = self.home(hash);
        let mut map = self.maps[home];
        while map != 0 {
            let at = self.at(home, map.trailing_zeros() as usize);
            if self.flows[at].is_of(key) {
                return Some(FlowId::at(at as u32, 0));
            }
            map &= map - 1;
        }
        None
    }

    fn add(&mut self, hash: u64, key: &FlowKey, _: bool, _: &Hint) -> Option<FlowId> {
        let home = self.home(hash);
        let free = |distance: &usize| !self.flows[self.at(home, *distance)].is_there();
        let mut distance = (0..FAR.min(self.flows.len())).find(free)?;
        while distance >= HOPS {
            // Flows that have hopped stay well placed if a later hop fails.
            distance -= self.hop(self.at(home, distance))?;
        }
        let at = self.at(home, distance);
        self.flows.as_mut_slice()[at] = Flow::new(key);
        self.maps.as_mut_slice()[home] |= 1 << distance;
        Some(FlowId::at(at as u32, 0))
    }

    fn remove(&mut self, id: FlowId) {
        let at = id.place as usize;
        let flow = &mut self.flows.as_mut_slice()[at];
        let hash = flow.key().hash(&self.seed);
        flow.clear();
        let home = self.home(hash);
        let distance = at.wrapping_sub(home) & (self.flows.len() - 1);
        self.maps.as_mut_slice()[home] &= !(1 << distance);
    }

    fn moves(&self) -> u64 {
        self.hops
    }

    fn flows(&self) -> &[Flow] {
        &self.flows
    }

    fn parts(&mut self) -> (&mut [Flow], Option<&mut Index>) {
        (self.flows.as_mut_slice(), None)
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.flows) + size_of_val(&*self.maps)
    }
}

/// Places that a flow may stand in: the bits of a map.
const HOPS: usize = 64;

/// Places over which a free one is looked for.
const FAR: usize = 4096;
