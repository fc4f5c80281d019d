//! Separate chaining: a list of flows for each value of the hash.
//!
//! ```text
//!    hash ─► heads [ 0 │ place + 1 │ … ]    2^b × 4 B
//!                        ▼
//!            flows   flow ─link─► flow ─► 0
//! ```
//!
//! | operation | cost at n flows in 2^b lists, load n / 2^b                     |
//! |-----------|----------------------------------------------------------------|
//! | lookup    | the head, 1 + load / 2 entries, each when the one before is there |
//! | absent    | the head, load entries                                         |
//! | insert    | the head and a free place                                      |
//! | delete    | as lookup                                                      |
//! | memory    | 64 B an entry, 4 B a list, 64 B a page                         |
//!
//! Source: Knuth, TAOCP 3, 6.4; Li's thesis, 4.5.6 ("implemented as a linked
//! list"; a new flow becomes the head).

use super::hint::Hint;
use super::index::Index;
use super::key::Seed;
use super::memory::zeroed;
use super::pool::Pool;
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
    "chaining",
    "Knuth, TAOCP 3, 6.4; Li's thesis (2020), 4.5.6",
    "separate chaining: a linked list for each value of the hash",
);

/// I1: the list of a head holds the flows of this hash, and ends with link 0.
struct Chaining {
    pool: Pool<Flow>,
    heads: Pages<u32>,
    bits: u32,
    seed: Seed,
}

fn build(wanted: Wanted, options: &Options) -> Result<Box<dyn FlowTable>, Refusal> {
    let size = Size::new(&ENTRY, wanted, options)?;
    let (pool, heads) = (Pool::new(&CARD, size.max_entries)?, zeroed(&CARD, 1 << size.bits)?);
    let core = Chaining { pool, heads, bits: size.bits, seed: size.seed };
    Ok(Box::new(Table::new(core, &size, &CARD)?))
}

impl Chaining {
    #[inline(always)]
    fn head(&self, hash: u64) -> usize {
        (hash >> (64 - self.bits)) as usize
    }
}

impl Core for Chaining {
    const ROUNDS: usize = 2;

    #[inline(always)]
    fn ask(&self, hash: u64, round: usize) {
        let head = &self.heads[self.head(hash)];
        if round == 0 {
            return prefetch(head);
        }
        if let Some(first) = head.checked_sub(1) {
            prefetch(&self.pool.all()[first as usize]);
        }
    }

    #[inline(always)]
    fn find(&self, hash: u64, key: &FlowKey) -> Option<FlowId> {
        let mut next = self.heads[self.head(hash)];
        while let Some(at) = next.checked_sub(1) {
            let flow = &self.pool.all()[at as usize];
            if flow.is_of(key) {
                return Some(FlowId::at(at, 0));
            }
            next = flow.link();
        }
        None
    }

    fn add(&mut self, hash: u64, key: &FlowKey, _: bool, _: &Hint) -> Option<FlowId> {
        let at = self.pool.take()?;
        let head = self.head(hash);
        let head = &mut self.heads.as_mut_slice()[head];
        let flow = &mut self.pool.all_mut()[at as usize];
        *flow = Flow::new(key);
        flow.set_link(*head);
        *head = at + 1;
        Some(FlowId::at(at, 0))
    }

    fn remove(&mut self, id: FlowId) {
        let flow = self.pool.all()[id.place as usize];
        let head = self.head(flow.key().hash(&self.seed));
        let mut next = self.heads[head];
        if next == id.place + 1 {
            self.heads.as_mut_slice()[head] = flow.link();
        } else {
            while let Some(before) = next.checked_sub(1) {
                let before = &mut self.pool.all_mut()[before as usize];
                next = before.link();
                if next == id.place + 1 {
                    before.set_link(flow.link());
                    break;
                }
            }
        }
        self.pool.give(id.place);
    }

    fn flows(&self) -> &[Flow] {
        self.pool.all()
    }

    fn parts(&mut self) -> (&mut [Flow], Option<&mut Index>) {
        (self.pool.all_mut(), None)
    }

    fn bytes(&self) -> usize {
        self.pool.bytes() + size_of_val(&*self.heads)
    }
}
