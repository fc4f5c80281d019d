//! Prefixes inside one another: of those that shield and those that let pass, none may lie
//! inside one of the other kind.
//!
//! | cost | add, remove: as many steps as there are lengths in use, and one search |
//! |------|-------------------------------------------------------------------------|

use std::collections::BTreeSet;

use lookup::{Addr, Prefix};

/// Prefixes of one kind.
#[derive(Debug)]
pub(crate) struct Nest<A> {
    all: BTreeSet<Prefix<A>>,
    by_len: [u32; 129],
}

impl<A: Addr> Nest<A> {
    pub(crate) fn new() -> Self {
        Nest { all: BTreeSet::new(), by_len: [0; 129] }
    }

    pub(crate) fn insert(&mut self, prefix: Prefix<A>) {
        if self.all.insert(prefix) {
            self.by_len[usize::from(prefix.len())] += 1;
        }
    }

    pub(crate) fn remove(&mut self, prefix: &Prefix<A>) {
        if self.all.remove(prefix) {
            self.by_len[usize::from(prefix.len())] -= 1;
        }
    }

    /// One that covers `prefix`, or lies inside it; `steps` counts where was looked.
    pub(crate) fn overlapping(&self, prefix: &Prefix<A>, steps: &mut u64) -> Option<Prefix<A>> {
        let lens = (0..prefix.len()).filter(|len| self.by_len[usize::from(*len)] > 0);
        let mut covering = lens.map(|len| Prefix::covering(prefix.first(), len));
        let covers = covering.find(|outer| {
            *steps += 1;
            self.all.contains(outer)
        });
        *steps += 1;
        covers.or_else(|| {
            let inside = self.all.range(prefix..).next()?;
            prefix.covers(inside).then_some(*inside)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(first: u32, len: u8) -> Prefix<u32> {
        Prefix::new(first, len).unwrap()
    }

    #[test]
    fn what_covers_and_what_lies_inside_is_found() {
        let mut nest = Nest::new();
        let mut steps = 0;
        let middle = prefix(0x0a10_0000, 12);
        nest.insert(middle);
        nest.insert(prefix(0x0b00_0000, 8));
        let mut find =
            |nest: &Nest<u32>, first, len| nest.overlapping(&prefix(first, len), &mut steps);
        assert_eq!(find(&nest, 0x0a00_0000, 8), Some(middle));
        assert_eq!(find(&nest, 0x0a1f_ffff, 32), Some(middle));
        assert_eq!(find(&nest, 0x0a10_0000, 12), Some(middle), "itself");
        assert_eq!(find(&nest, 0x0a20_0000, 12), None);
        assert_eq!(find(&nest, 0x0a00_0000, 12), None);
        nest.remove(&middle);
        assert_eq!(find(&nest, 0x0a00_0000, 8), None);
        assert!(steps < 20, "{steps}");
    }
}
