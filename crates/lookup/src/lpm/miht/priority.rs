//! Priority tries: built from a list, changed by copying the path.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Dnode, Item, Miht, NONE, bit};
use crate::lpm::staged::{Full, Staged};
use crate::{Addr, Hop};

/// The d-nodes as their writer sees them.
pub(super) struct Tries<A> {
    pub(super) table: Arc<Miht<A>>,
    pub(super) nodes: Staged,
}

impl<A: Addr> Tries<A> {
    /// A trie of `items`, all different.
    pub(super) fn grow(&mut self, items: &mut [Item<A>], depth: u8) -> Result<u32, Full> {
        let ordinary = items.iter().position(|item| item.len == depth);
        let longest = || (0..items.len()).max_by_key(|&i| items[i].len);
        let Some(first) = ordinary.or_else(longest) else { return Ok(NONE) };
        items.swap(0, first);
        let (item, rest) = items.split_first_mut().expect("it has a longest one");
        let mut ones = 0; // those with the bit come first
        for i in 0..rest.len() {
            if bit(rest[i].suffix, depth) == 1 {
                rest.swap(i, ones);
                ones += 1;
            }
        }
        let (ones, zeros) = rest.split_at_mut(ones);
        let child = [self.grow(zeros, depth + 1)?, self.grow(ones, depth + 1)?];
        self.write(&Dnode { item: *item, priority: item.len > depth, child })
    }

    /// The trie with `item`, which is not in it.
    pub(super) fn insert(&mut self, at: u32, depth: u8, item: Item<A>) -> Result<u32, Full> {
        if at == NONE {
            return self.write(&Dnode { item, priority: item.len > depth, child: [NONE; 2] });
        }
        let mut node = self.open(at);
        // An ordinary node keeps its place; of a priority node the longest does,
        // unless an ordinary one comes.
        let (mut stays, mut sinks) = (node.item, item);
        if node.priority && (item.len == depth || item.len > stays.len) {
            std::mem::swap(&mut stays, &mut sinks);
        }
        (node.item, node.priority) = (stays, stays.len > depth);
        let side = bit(sinks.suffix, depth);
        node.child[side] = self.insert(node.child[side], depth + 1, sinks)?;
        self.write(&node)
    }

    /// The trie without `item`, which is in it.
    pub(super) fn delete(&mut self, at: u32, depth: u8, item: Item<A>) -> Result<u32, Full> {
        let mut node = self.open(at);
        let mut sought = item;
        if node.item.is_of(&item) {
            let below = node.child.iter().filter_map(|&child| self.longest(child));
            let Some(longest) = below.max_by_key(|item| item.len) else { return Ok(NONE) };
            (node.item, node.priority) = (longest, true);
            sought = longest;
        }
        let side = bit(sought.suffix, depth);
        node.child[side] = self.delete(node.child[side], depth + 1, sought)?;
        self.write(&node)
    }

    /// Sets the hop of `item`, if it is there: one store.
    pub(super) fn change(&self, at: u32, item: Item<A>) -> bool {
        let Some(at) = self.find(at, item) else { return false };
        let node = self.table.dnode(at);
        let words = Miht::words(&Dnode { item: Item { hop: item.hop, ..node.item }, ..node });
        self.table.word(at, 1).store(words[1], Ordering::Release);
        true
    }

    /// The node that holds `item`, whatever its hop.
    pub(super) fn find(&self, mut at: u32, item: Item<A>) -> Option<u32> {
        for depth in 0..=A::WIDTH {
            if at == NONE {
                break;
            }
            let node = self.table.dnode(at);
            if node.item.is_of(&item) {
                return Some(at);
            }
            at = node.child[bit(item.suffix, depth)];
        }
        None
    }

    fn longest(&self, at: u32) -> Option<Item<A>> {
        if at == NONE {
            return None;
        }
        let node = self.table.dnode(at);
        if node.priority {
            return Some(node.item);
        }
        let below = node.child.iter().filter_map(|&child| self.longest(child));
        below.chain([node.item]).max_by_key(|item| item.len)
    }

    fn open(&mut self, at: u32) -> Dnode<A> {
        self.nodes.give_up(at, 1);
        self.table.dnode(at)
    }

    fn write(&mut self, node: &Dnode<A>) -> Result<u32, Full> {
        let at = self.nodes.take(1)?;
        for (i, word) in Miht::words(node).into_iter().take(super::words_of::<A>()).enumerate() {
            self.table.word(at, i).store(word, Ordering::Relaxed);
        }
        Ok(at)
    }
}

impl<A: Addr> Item<A> {
    /// As a key to find others of this prefix by.
    pub(super) fn with(self, hop: Hop) -> Self {
        Item { hop, ..self }
    }
}
