//! Where addresses come from, and where answers go.

use std::io;

use lookup::rib::Change;
use lookup::{Addr, Hop, Rib};

use crate::pieces::Front;

/// A source of addresses.
pub trait Input<A: Addr> {
    /// Writes addresses to the beginning of `dsts`; 0 at the end.
    ///
    /// # Errors
    /// When the source fails before its end.
    fn fill(&mut self, dsts: &mut [A]) -> io::Result<usize>;

    /// The number of addresses that are left, where it is known.
    fn left(&self) -> Option<u64> {
        None
    }

    /// Whether the next addresses are not there yet: what was read is then answered before they are
    /// waited for.
    fn waits(&self) -> bool {
        false
    }

    /// The changes of the table that come before the next address: the routes after them, and the
    /// changes themselves.
    fn changes(&mut self) -> Option<(&Rib<A>, Vec<Change<A>>)> {
        None
    }
}

/// A receiver of answers.
pub trait Output<A: Addr> {
    /// Takes the next addresses of the input, and their hops.
    ///
    /// # Errors
    /// When the receiver fails to store them.
    fn take(&mut self, dsts: &[A], hops: &[Hop]) -> io::Result<()>;
}

/// An input that has ended.
pub(super) struct Nothing;

impl<A: Addr> Input<A> for Nothing {
    fn fill(&mut self, _: &mut [A]) -> io::Result<usize> {
        Ok(0)
    }
}

impl<A: Addr> Input<A> for &Front<'_, '_, A> {
    fn fill(&mut self, dsts: &mut [A]) -> io::Result<usize> {
        Ok(Front::fill(self, dsts))
    }

    fn left(&self) -> Option<u64> {
        Some(Front::left(self) as u64)
    }
}

impl<A: Addr> Output<A> for &Front<'_, '_, A> {
    fn take(&mut self, _: &[A], hops: &[Hop]) -> io::Result<()> {
        Front::take(self, hops)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_changes_no_table_unless_it_says_so() {
        let mut input: Box<dyn Input<u32>> = Box::new(Nothing);
        assert!(input.changes().is_none() && input.left().is_none() && !input.waits());
    }
}
