//! The prefix store that engines are built from.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::{Addr, Hop, Prefix};

/// One insert, change (`Some`) or delete (`None`) of a prefix.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Change<A> {
    /// Which prefix.
    pub prefix: Prefix<A>,
    /// Its new hop; `None` deletes it.
    pub hop: Option<Hop>,
}

/// Prefixes and their hops, ordered by address, then length.
#[derive(Clone, Debug, Default)]
pub struct Rib<A> {
    routes: BTreeMap<Prefix<A>, Hop>,
}

impl<A: Addr> Rib<A> {
    /// An empty store.
    pub fn new() -> Self {
        Rib { routes: BTreeMap::new() }
    }

    /// Inserts or changes; returns the hop that the prefix had.
    ///
    /// # Panics
    /// When `hop` is [`Hop::NONE`] (in debug builds): delete instead.
    pub fn insert(&mut self, prefix: Prefix<A>, hop: Hop) -> Option<Hop> {
        debug_assert!(!hop.is_none());
        self.routes.insert(prefix, hop)
    }

    /// Deletes; returns the hop that the prefix had.
    pub fn remove(&mut self, prefix: &Prefix<A>) -> Option<Hop> {
        self.routes.remove(prefix)
    }

    /// Inserts, changes or deletes as `change` says; returns the old hop.
    pub fn apply(&mut self, change: &Change<A>) -> Option<Hop> {
        match change.hop {
            Some(hop) => self.insert(change.prefix, hop),
            None => self.remove(&change.prefix),
        }
    }

    /// The hop of exactly this prefix.
    pub fn get(&self, prefix: &Prefix<A>) -> Option<Hop> {
        self.routes.get(prefix).copied()
    }

    /// The longest prefix that covers `addr`, and its hop.
    pub fn lookup(&self, addr: A) -> Option<(Prefix<A>, Hop)> {
        self.covering(Prefix::covering(addr, A::WIDTH)).next()
    }

    /// Every stored prefix that covers `prefix`, itself included, longest first.
    pub fn covering(&self, prefix: Prefix<A>) -> impl Iterator<Item = (Prefix<A>, Hop)> + '_ {
        (0..=prefix.len()).rev().filter_map(move |len| {
            let outer = Prefix::covering(prefix.first(), len);
            Some((outer, self.get(&outer)?))
        })
    }

    /// Every prefix whose first address lies in `range`, ordered by address,
    /// then length.
    pub fn inside(&self, range: RangeInclusive<A>) -> impl Iterator<Item = (Prefix<A>, Hop)> + '_ {
        let lowest = Prefix::covering(*range.start(), A::WIDTH);

        let last = *range.end();
        self.routes
            .range(lowest_key(lowest)..)
            .take_while(move |(prefix, _)| prefix.first() <= last)
            .map(|(&prefix, &hop)| (prefix, hop))
    }

    /// All prefixes, ordered by address, then length.
    pub fn iter(&self) -> impl Iterator<Item = (Prefix<A>, Hop)> + '_ {
        self.routes.iter().map(|(&prefix, &hop)| (prefix, hop))
    }

    /// Number of prefixes.
    pub fn len(&self) -> usize {
        self.routes.len()
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }

    /// Heap bytes.
    pub fn bytes(&self) -> usize {
        self.routes.len() * (size_of::<(Prefix<A>, Hop)>() + 8)
    }
}

impl<A: Addr> FromIterator<(Prefix<A>, Hop)> for Rib<A> {
    /// Of two equal prefixes the later one counts.
    fn from_iter<I: IntoIterator<Item = (Prefix<A>, Hop)>>(routes: I) -> Self {
        Rib { routes: routes.into_iter().collect() }
    }
}

/// The shortest prefix that starts at the same address sorts first.
fn lowest_key<A: Addr>(host: Prefix<A>) -> Prefix<A> {
    let first = host.first();
    let free = (0..A::WIDTH).find(|&len| Prefix::new(first, len).is_ok()).unwrap_or(A::WIDTH);
    Prefix::covering(first, free)
}
