//! The routes that a check compares with: a plain map, which shares nothing with the
//! [`Rib`](lookup::Rib) that engines are built from and updated by. A route that the
//! `Rib` loses is missed here.

use std::collections::HashMap;

use lookup::rib::Change;
use lookup::{Addr, Hop, Prefix};

/// Routes by prefix.
///
/// I1: `lengths[len]` counts the prefixes of that length.
#[derive(Clone)]
pub struct Truth<A> {
    routes: HashMap<Prefix<A>, Hop>,
    lengths: Vec<usize>,
}

impl<A: Addr> Default for Truth<A> {
    fn default() -> Self {
        Truth { routes: HashMap::new(), lengths: vec![0; usize::from(A::WIDTH) + 1] }
    }
}

impl<A: Addr> Truth<A> {
    /// The later of two equal prefixes counts.
    pub fn new(routes: impl IntoIterator<Item = (Prefix<A>, Hop)>) -> Self {
        let mut truth = Truth::default();
        routes.into_iter().for_each(|route| truth.insert(route));
        truth
    }

    /// Adds routes; of equal prefixes the later counts.
    pub fn extend(&mut self, routes: &[(Prefix<A>, Hop)]) {
        self.routes.reserve(routes.len());
        routes.iter().for_each(|&route| self.insert(route));
    }

    /// True where there is no route.
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }

    fn insert(&mut self, (prefix, hop): (Prefix<A>, Hop)) {
        self.apply(&Change { prefix, hop: Some(hop) });
    }

    /// Inserts, replaces or deletes a route.
    pub fn apply(&mut self, change: &Change<A>) {
        let of_length = &mut self.lengths[usize::from(change.prefix.len())];
        let old = match change.hop {
            Some(hop) => self.routes.insert(change.prefix, hop),
            None => self.routes.remove(&change.prefix),
        };
        *of_length = *of_length + usize::from(change.hop.is_some()) - usize::from(old.is_some());
    }

    /// The hop of this very prefix.
    pub fn get(&self, prefix: &Prefix<A>) -> Option<Hop> {
        self.routes.get(prefix).copied()
    }

    /// The hop of the longest prefix that covers `dst`: one probe for each length in use.
    pub fn lookup(&self, dst: A) -> Hop {
        let used = (0..=A::WIDTH).rev().filter(|&len| self.lengths[usize::from(len)] > 0);
        used.map(|len| Prefix::covering(dst, len))
            .find_map(|prefix| self.get(&prefix))
            .unwrap_or(Hop::NONE)
    }

    /// All routes, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (Prefix<A>, Hop)> + '_ {
        self.routes.iter().map(|(&prefix, &hop)| (prefix, hop))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_that_is_left_answers() {
        let prefix = |len| Prefix::covering(0x0a00_0000_u32, len);
        let mut truth = Truth::new([8, 16, 24, 16].map(|len| (prefix(len), Hop(len.into()))));
        assert_eq!(truth.iter().count(), 3);
        for (gone, left) in [(24, 16), (16, 8), (16, 8), (8, 0)] {
            truth.apply(&Change { prefix: prefix(gone), hop: None });
            assert_eq!(truth.lookup(0x0a00_0001), Hop(left), "/{gone} went");
        }
        truth.apply(&Change { prefix: prefix(0), hop: Some(Hop(9)) });
        assert_eq!((truth.lookup(7), truth.get(&prefix(8))), (Hop(9), None));
    }
}
