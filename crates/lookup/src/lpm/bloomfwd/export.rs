//! Copies for devices.
//!
//! ```text
//!   figures   default hop │ hash │ bits of the direct array │ levels
//!             lengths of deep prefixes (2 words) │ buckets of their table
//!             of each level, the longest first: length, or 0 without keys │ k │ bits (2 words) │ buckets
//!   arrays    direct │ index and records of deep prefixes
//!             of each level: filter │ index │ records
//! ```

use std::sync::atomic::Ordering;

use super::hashing::Scheme;
use super::{Key, Table};
use crate::lpm::export::{Export, Words};

impl<A: Key<W>, const W: usize, S: Scheme<A>> Export for Table<A, W, S> {
    fn copy(&self, to: &mut Words) {
        let direct = self.direct.as_ref();
        let bits = direct.map_or(0, |direct| direct.bits.into());
        let levels = self.levels.len() as u32;
        to.figures.extend([self.default.get(), S::HASH, bits, levels]);
        let hops = direct.map_or(&[][..], |direct| &direct.hops);
        to.arrays.push(hops.iter().map(|hop| hop.load(Ordering::Acquire)).collect());
        match self.deep.as_ref().map(|deep| deep.parts()) {
            Some((lengths, table)) => {
                to.figure_64(lengths);
                to.figures.push(table.buckets());
                table.copy(to);
            }
            None => {
                to.figures.extend([0; 3]);
                to.arrays.extend([Vec::new(), Vec::new()]);
            }
        }
        let live = self.live.load(Ordering::Acquire);
        for (i, level) in self.levels.iter().enumerate() {
            let len = if live >> i & 1 == 1 { level.len.into() } else { 0 };
            to.figures.extend([len, level.filter.k()]);
            to.figure_64(level.filter.bits());
            to.figures.push(level.table.buckets());
            to.array_64(level.filter.words().iter());
            level.table.copy(to);
        }
    }
}
