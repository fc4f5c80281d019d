//! Rivals that are ordinary collections: insert, remove, one lookup at a time.

use lookup::rib::Change;
use lookup::{Addr, Hop, Prefix, Rib};

use crate::contest::{Contestant, Stream, Subject};

/// What such a collection can do.
pub(super) trait Trie<A: Addr>: 'static {
    /// A destination in its own form.
    type Key: Copy;

    fn new() -> Self;
    fn key(dst: A) -> Self::Key;
    fn find(&self, key: Self::Key) -> Hop;
    fn insert(&mut self, prefix: &Prefix<A>, hop: Hop);
    fn remove(&mut self, prefix: &Prefix<A>);
    fn bytes(&self) -> Option<usize> {
        None
    }
}

/// A contestant out of such a collection.
pub(super) fn contestant<A: Addr, T: Trie<A>>(name: &str) -> Contestant<A> {
    Contestant::rival(name, |rib: &Rib<A>| {
        let mut trie = T::new();
        rib.iter().for_each(|(prefix, hop)| trie.insert(&prefix, hop));
        Ok(Plain(trie))
    })
}

struct Plain<T>(T);

impl<A: Addr, T: Trie<A>> Subject<A> for Plain<T> {
    fn stream<'s>(&'s self, dsts: &[A]) -> Box<dyn Stream + 's> {
        let keys = dsts.iter().map(|dst| T::key(*dst)).collect();
        Box::new(PlainStream::<A, T> { trie: &self.0, keys })
    }

    fn lookup(&self, dst: A) -> Hop {
        self.0.find(T::key(dst))
    }

    fn bytes(&self) -> Option<usize> {
        self.0.bytes()
    }

    fn update(&mut self, _rib: &mut Rib<A>, change: &Change<A>) -> Result<bool, String> {
        match change.hop {
            Some(hop) => self.0.insert(&change.prefix, hop),
            None => self.0.remove(&change.prefix),
        }
        Ok(true)
    }

    /// Rust's rules: nobody reads a collection while it changes.
    fn bursts(&self, _dsts: &[A]) -> Option<Box<dyn FnMut() + Send>> {
        None
    }
}

struct PlainStream<'s, A: Addr, T: Trie<A>> {
    trie: &'s T,
    keys: Vec<T::Key>,
}

impl<A: Addr, T: Trie<A>> Stream for PlainStream<'_, A, T> {
    fn run(&mut self, from: usize, n: usize, _burst: usize) {
        for key in &self.keys[from..from + n] {
            std::hint::black_box(self.trie.find(*key));
        }
    }

    fn answers(&mut self) -> Vec<Hop> {
        self.keys.iter().map(|key| self.trie.find(*key)).collect()
    }
}
