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
//! | memory    | 64 B an entry, 4 B a list                                      |
//!
//! Source: Knuth, TAOCP 3, 6.4; Li's thesis, 4.5.6 ("implemented as a linked
//! list"; a new flow becomes the head).

use super::key::Seed;
use super::pool::Pool;
use super::table::{Core, Size, Table, zeroed};
use super::{Entry, Flow, FlowKey, FlowTable, card};
use crate::exact::Card;
use crate::hint::prefetch;
use crate::lpm::{Options, Refusal};
use crate::pages::Pages;

/// The registry's line.
pub const ENTRY: Entry = Entry { card: &CARD, build };

const CARD: Card = card(
    "chaining",
    "Knuth, TAOCP 3, 6.4; Li's thesis (2020), 4.5.6",
    "separate chaining: a linked list for each value of the hash",
);

/// I1: the list of a head holds the flows of this hash, and ends with link 0.
struct Chaining {
    pool: Pool,
    heads: Pages<u32>,
    bits: u32,
    seed: Seed,
}

fn build(max_entries: usize, options: &Options) -> Result<Box<dyn FlowTable>, Refusal> {
    let size = Size::new(&CARD, max_entries, options)?;
    let (pool, heads) = (Pool::new(&CARD, max_entries)?, zeroed(&CARD, 1 << size.bits)?);
    let core = Chaining { pool, heads, bits: size.bits, seed: Seed::new(size.seed) };
    Ok(Box::new(Table::new(core, &size)))
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
            prefetch(&self.pool.flows()[first as usize]);
        }
    }

    #[inline(always)]
    fn find(&self, hash: u64, key: &FlowKey) -> Option<u32> {
        let mut next = self.heads[self.head(hash)];
        while let Some(at) = next.checked_sub(1) {
            let flow = &self.pool.flows()[at as usize];
            if flow.key == *key {
                return Some(at);
            }
            next = flow.link;
        }
        None
    }

    fn add(&mut self, hash: u64, key: &FlowKey) -> Option<u32> {
        let at = self.pool.take(key)?;
        let head = (hash >> (64 - self.bits)) as usize;
        let head = &mut self.heads.as_mut_slice()[head];
        self.pool.flows_mut()[at as usize].link = *head;
        *head = at + 1;
        Some(at)
    }

    fn remove(&mut self, at: u32) {
        let Flow { key, link, .. } = self.pool.flows()[at as usize];
        let head = self.head(key.hash(&self.seed));
        let mut next = self.heads[head];
        if next == at + 1 {
            self.heads.as_mut_slice()[head] = link;
        } else {
            while let Some(before) = next.checked_sub(1) {
                let before = &mut self.pool.flows_mut()[before as usize];
                next = before.link;
                if next == at + 1 {
                    before.link = link;
                    break;
                }
            }
        }
        self.pool.give(at);
    }

    fn flows(&self) -> &[Flow] {
        self.pool.flows()
    }

    fn flows_mut(&mut self) -> &mut [Flow] {
        self.pool.flows_mut()
    }

    fn bytes(&self) -> usize {
        size_of_val(self.pool.flows()) + size_of_val(&*self.heads)
    }
}
