//! Input and output in memory.

use std::io;

use lookup::{Addr, Hop};

use super::{Input, Output};

/// Addresses that are left.
pub(super) struct Slice<'d, A>(pub(super) &'d [A]);

impl<A: Addr> Input<A> for Slice<'_, A> {
    fn fill(&mut self, dsts: &mut [A]) -> io::Result<usize> {
        let (now, rest) = self.0.split_at(dsts.len().min(self.0.len()));
        dsts[..now.len()].copy_from_slice(now);
        self.0 = rest;
        Ok(now.len())
    }

    fn left(&self) -> Option<u64> {
        Some(self.0.len() as u64)
    }
}

/// Places for hops that are not written yet.
pub(super) struct Rest<'h>(pub(super) &'h mut [Hop]);

impl<A: Addr> Output<A> for Rest<'_> {
    fn take(&mut self, _: &[A], hops: &[Hop]) -> io::Result<()> {
        let (now, rest) = std::mem::take(&mut self.0).split_at_mut(hops.len());
        now.copy_from_slice(hops);
        self.0 = rest;
        Ok(())
    }
}
