//! Open addressing: the flows themselves in one array, searched from the place
//! that the hash says on, until an empty one.
//!
//! ```text
//!    hash ─► place 0 ─► place 1 ─► …      2^b places × 64 B
//!    linear        home + i
//!    quadratic     home + i (i + 1) / 2   (all places, as there are 2^b)
//!    double-hash   home + i · step        step odd, of the hash's low half
//! ```
//!
//! | operation | cost at load 0.5, 0.9                                           |
//! |-----------|-----------------------------------------------------------------|
//! | lookup    | linear 1.5, 5.5 lines; quadratic 1.4, 2.8; double 1.4, 2.6      |
//! | absent    | linear 2.5, 50; quadratic 2.2, 12; double 2, 10                 |
//! | insert    | as absent                                                       |
//! | delete    | linear: moves what follows; else buries, and now and then rehashes |
//! | memory    | 64 B a place, 64 B a page                                       |
//!
//! Source: Knuth, TAOCP 3, 6.4; Li's thesis, 4.5.6. Chosen where the thesis says
//! nothing: deletion, and that a table is rehashed when half of what is not used
//! is buried, at the next insertion: whoever takes out many sees each flow once.

use std::marker::PhantomData;

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

/// The registry's lines.
pub const LINEAR: Entry = entry::<Linear>(&LINEAR_CARD);
/// Its second.
pub const QUADRATIC: Entry = entry::<Quadratic>(&QUADRATIC_CARD);
/// Its third.
pub const DOUBLE_HASH: Entry = entry::<Double>(&DOUBLE_CARD);

const KNUTH: &str = "Knuth, TAOCP 3, 6.4; Li's thesis (2020), 4.5.6";
const LINEAR_CARD: Card = card("linear", KNUTH, "linear probing; deletion moves entries");
const QUADRATIC_CARD: Card =
    card("quadratic", KNUTH, "quadratic probing; deletion leaves tombstones");
const DOUBLE_CARD: Card = card("double-hash", KNUTH, "double hashing; deletion leaves tombstones");

const fn entry<S: Sequence>(card: &'static Card) -> Entry {
    Entry { card, rules: &[Full::Thesis], build: build::<S> }
}

/// The order in which places are searched.
trait Sequence: Send + 'static {
    const ENTRY: &'static Entry;
    /// True when a gap is closed by what follows; else it is buried.
    const SHIFTS: bool;
    /// From place `i` of the search to the next; before it is reduced.
    fn step(hash: u64, i: usize) -> usize;
}

struct Linear;
struct Quadratic;
struct Double;

impl Sequence for Linear {
    const ENTRY: &'static Entry = &LINEAR;
    const SHIFTS: bool = true;
    #[inline(always)]
    fn step(_: u64, _: usize) -> usize {
        1
    }
}

impl Sequence for Quadratic {
    const ENTRY: &'static Entry = &QUADRATIC;
    const SHIFTS: bool = false;
    #[inline(always)]
    fn step(_: u64, i: usize) -> usize {
        i + 1
    }
}

impl Sequence for Double {
    const ENTRY: &'static Entry = &DOUBLE_HASH;
    const SHIFTS: bool = false;
    #[inline(always)]
    fn step(hash: u64, _: usize) -> usize {
        hash as u32 as usize | 1
    }
}

/// - I1: on the way from a flow's home to its place no place is empty.
/// - I2: after an insertion there is an empty place: `buried` are at most half of what is
///   not `live`.
struct Open<S> {
    flows: Pages<Flow>,
    bits: u32,
    seed: Seed,
    live: usize,
    buried: usize,
    rehashes: u64,
    order: PhantomData<S>,
}

fn build<S: Sequence>(wanted: Wanted, options: &Options) -> Result<Box<dyn FlowTable>, Refusal> {
    let (card, size) = (S::ENTRY.card, Size::new(S::ENTRY, wanted, options)?);
    let (flows, bits, seed) = (zeroed(card, 1 << size.bits)?, size.bits, size.seed);
    let order = PhantomData;
    let core = Open::<S> { flows, bits, seed, live: 0, buried: 0, rehashes: 0, order };
    Ok(Box::new(Table::new(core, &size, card)?))
}

impl<S: Sequence> Open<S> {
    #[inline(always)]
    fn home(&self, hash: u64) -> usize {
        (hash >> (64 - self.bits)) as usize
    }

    #[inline(always)]
    fn next(&self, at: usize, hash: u64, i: usize) -> usize {
        at.wrapping_add(S::step(hash, i)) & (self.flows.len() - 1)
    }

    /// The first place on the way that has no flow.
    fn free(&self, hash: u64) -> usize {
        let mut at = self.home(hash);
        for i in 0.. {
            if !self.flows[at].is_there() {
                break;
            }
            at = self.next(at, hash, i);
        }
        at
    }

    /// Closes the gap at `gap`: what follows it and may stand there does.
    fn shift(&mut self, mut gap: usize) {
        let last = self.flows.len() - 1;
        let flows = self.flows.as_mut_slice();
        let mut at = (gap + 1) & last;
        while flows[at].is_there() {
            let home = (flows[at].key().hash(&self.seed) >> (64 - self.bits)) as usize;
            // It may move back to the gap if its home is not behind that.
            if at.wrapping_sub(home) & last >= at.wrapping_sub(gap) & last {
                flows[gap] = flows[at];
                gap = at;
            }
            at = (at + 1) & last;
        }
        flows[gap].clear();
    }

    /// All flows anew, without what is buried, where memory allows it.
    fn rehash(&mut self) {
        let Ok(fresh) = zeroed::<Flow>(S::ENTRY.card, self.flows.len()) else { return };
        let old = std::mem::replace(&mut self.flows, fresh);
        self.buried = 0;
        self.rehashes += 1;
        for flow in old.iter().filter(|flow| flow.is_there()) {
            let at = self.free(flow.key().hash(&self.seed));
            self.flows.as_mut_slice()[at] = *flow;
        }
    }
}

impl<S: Sequence> Core for Open<S> {
    const ROUNDS: usize = 1;

    #[inline(always)]
    fn ask(&self, hash: u64, _: usize) {
        prefetch(&self.flows[self.home(hash)]);
    }

    #[inline(always)]
    fn find(&self, hash: u64, key: &FlowKey) -> Option<FlowId> {
        let mut at = self.home(hash);
        for i in 0..self.flows.len() {
            let flow = &self.flows[at];
            if flow.is_of(key) {
                return Some(FlowId::at(at as u32, 0));
            }
            if flow.is_empty() {
                break;
            }
            at = self.next(at, hash, i);
        }
        None
    }

    fn add(&mut self, hash: u64, key: &FlowKey, _: bool, _: &Hint) -> Option<FlowId> {
        let at = self.free(hash);
        let flow = &mut self.flows.as_mut_slice()[at];
        self.buried -= usize::from(!flow.is_empty());
        *flow = Flow::new(key);
        self.live += 1;
        if self.buried * 2 <= self.flows.len() - self.live {
            return Some(FlowId::at(at as u32, 0));
        }
        self.rehash(); // and the flow has moved
        self.find(hash, key)
    }

    fn remove(&mut self, id: FlowId) {
        self.live -= 1;
        if S::SHIFTS {
            return self.shift(id.place as usize);
        }
        self.flows.as_mut_slice()[id.place as usize].bury();
        self.buried += 1;
    }

    fn moves(&self) -> u64 {
        self.rehashes
    }

    fn flows(&self) -> &[Flow] {
        &self.flows
    }

    fn parts(&mut self) -> (&mut [Flow], Option<&mut Index>) {
        (self.flows.as_mut_slice(), None)
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.flows)
    }
}
