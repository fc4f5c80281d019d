//! The B⁺-tree of keys: built in bulk, changed by copying the path.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Miht, NONE, order};
use crate::Addr;
use crate::lpm::staged::{Full, Staged};

/// The i-nodes as their writer sees them.
pub(super) struct Btree<A> {
    pub(super) table: Arc<Miht<A>>,
    pub(super) nodes: Staged,
}

/// A key, and the trie or the i-node that it leads to.
pub(super) type Place = (u32, u32);

impl<A: Addr> Btree<A> {
    /// Builds a tree over `places`, ascending, and publishes it.
    pub(super) fn grow(&mut self, mut places: Vec<Place>) -> Result<(), Full> {
        let mut levels = 0;
        while levels == 0 || places.len() > 1 {
            if places.is_empty() {
                return Ok(());
            }
            // As many on each, with room for some more.
            let count = places.len().div_ceil(order::<A>() * 7 / 8);
            let per_node = places.len().div_ceil(count);
            let nodes = places.chunks(per_node);
            places = nodes.map(|node| self.write(levels == 0, node)).collect::<Result<_, _>>()?;
            levels += 1;
        }
        self.publish(places[0].1, levels);
        Ok(())
    }

    /// Sets the trie of `key`, which has one: one store.
    pub(super) fn turn(&self, key: u32, trie: u32) {
        let (mut at, levels) = self.table.top();
        for _ in 1..levels {
            at = self.table.child(at, self.table.search(at, key));
        }
        for i in (0..order::<A>()).filter(|&i| self.table.key(at, i) == key) {
            // Unused places, too, where the key is all ones (I3).
            let child = self.table.key_word(at, order::<A>() + i);
            if child.load(Ordering::Relaxed) != NONE {
                child.store(trie, Ordering::Release);
            }
        }
    }

    /// Adds a key that is not there.
    pub(super) fn insert(&mut self, key: u32, trie: u32) -> Result<(), Full> {
        let (root, mut levels) = self.table.top();
        let mut places = if levels == 0 {
            levels = 1;
            vec![self.write(true, &[(key, trie)])?]
        } else {
            self.insert_below(root, levels, (key, trie))?
        };
        if places.len() > 1 {
            places = vec![self.write(false, &places)?];
            levels += 1;
        }
        self.publish(places[0].1, levels);
        Ok(())
    }

    /// Removes a key that is there.
    pub(super) fn delete(&mut self, key: u32) -> Result<(), Full> {
        let (root, mut levels) = self.table.top();
        let places = self.delete_below(root, levels, key)?;
        let mut at = match *places {
            [] => {
                self.publish(NONE, 0);
                return Ok(());
            }
            [only] => only.1,
            _ => unreachable!("a deletion does not split the root"),
        };
        while levels > 1 {
            let [only] = self.places(at, false)[..] else { break };
            self.nodes.give_up(at, 1);
            (at, levels) = (only.1, levels - 1);
        }
        self.publish(at, levels);
        Ok(())
    }

    /// The nodes, one or two, that take the place of `at`.
    fn insert_below(&mut self, at: u32, levels: u32, new: Place) -> Result<Vec<Place>, Full> {
        let mut places = self.open(at, levels == 1);
        if levels == 1 {
            let i = places.partition_point(|place| place.0 < new.0);
            places.insert(i, new);
        } else {
            let i = self.table.search(at, new.0);
            let below = self.insert_below(places[i].1, levels - 1, new)?;
            places.splice(i..=i, below);
        }
        self.close(levels == 1, &places)
    }

    /// The nodes, none or one, that take the place of `at`.
    fn delete_below(&mut self, at: u32, levels: u32, key: u32) -> Result<Vec<Place>, Full> {
        let mut places = self.open(at, levels == 1);
        let i = self.table.search(at, key);
        if levels == 1 {
            places.remove(i.min(places.len() - 1)); // all ones: an unused place was found
            return self.close(true, &places);
        }
        let i = i.min(places.len() - 1);
        let below = self.delete_below(places[i].1, levels - 1, key)?;
        places.splice(i..=i, below);
        let external = levels == 2;
        if let Some(&(_, child)) = places.get(i) {
            let few = self.places(child, external).len() < order::<A>() / 2;
            if few && places.len() > 1 {
                let left = i.saturating_sub(1).min(places.len() - 2);
                let mut joined = self.open(places[left].1, external);
                joined.extend(self.open(places[left + 1].1, external));
                let nodes = self.close(external, &joined)?;
                places.splice(left..=left + 1, nodes);
            }
        }
        self.close(false, &places)
    }

    /// Writes `places` to as few nodes as hold them: none, one, or two halves.
    fn close(&mut self, external: bool, places: &[Place]) -> Result<Vec<Place>, Full> {
        let count = places.len().div_ceil(order::<A>());
        let nodes = places.chunks(places.len().div_ceil(count.max(1)).max(1));
        nodes.map(|node| self.write(external, node)).collect()
    }

    fn open(&mut self, at: u32, external: bool) -> Vec<Place> {
        self.nodes.give_up(at, 1);
        self.places(at, external)
    }

    /// The places of an i-node that are in use.
    fn places(&self, at: u32, external: bool) -> Vec<Place> {
        let place = |i| (self.table.key(at, i), self.table.child(at, i));
        let mut places: Vec<_> = (0..order::<A>()).map(place).collect();
        if external {
            places.retain(|&(_, child)| child != NONE);
        }
        places.dedup(); // I3: an unused one is as the last, or of another key
        if !external {
            places.dedup_by_key(|&mut (_, child)| child);
        }
        places
    }

    /// A new i-node, and its smallest key.
    fn write(&mut self, external: bool, places: &[Place]) -> Result<Place, Full> {
        let at = self.nodes.take(1)?;
        let &(last, child) = places.last().expect("no i-node is empty");
        let unused = if external && last != u32::MAX { NONE } else { child };
        for i in 0..order::<A>() {
            let (key, child) = places.get(i).copied().unwrap_or((u32::MAX, unused));
            self.table.key_word(at, i).store(key, Ordering::Relaxed);
            self.table.key_word(at, order::<A>() + i).store(child, Ordering::Relaxed);
        }
        Ok((places[0].0, at))
    }

    fn publish(&mut self, root: u32, levels: u32) {
        let root = u64::from(root) | u64::from(levels) << 32;
        self.table.root.store(root, Ordering::Release); // I1
        self.nodes.commit();
    }
}
