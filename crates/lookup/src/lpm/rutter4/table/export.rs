//! Copies for devices.
//!
//! ```text
//!   figures   default hop │ bits of a cell │ place of the first large record
//!   arrays    roots │ cells before that place │ cells behind it
//! ```

use std::sync::atomic::Ordering;

use super::{OWN, SMALL, Table, Value};
use crate::lpm::export::{Export, Words};

impl<V: Value> Export for Table<V> {
    fn copy(&self, to: &mut Words) {
        let [small, lines] = self.touched.each_ref().map(|n| n.load(Ordering::Relaxed) as usize);
        let view = self.view();
        let cells = |from: usize, count: usize| words::<V>(&view.cells[from..from + count]);
        to.figures.extend([self.default.get(), V::WIDTH, view.large_at()]);
        to.arrays.push(view.roots.iter().map(|root| root.load(Ordering::Relaxed)).collect());
        to.arrays.push(cells(0, OWN as usize + small * SMALL));
        to.arrays.push(cells(view.large_at() as usize, lines * V::LINE));
    }
}

/// Cells as words, the first in the low bits.
fn words<V: Value>(cells: &[V::Cell]) -> Vec<u32> {
    let in_word = cells.chunks_exact(32 / V::WIDTH as usize);
    let word = |cells: &[V::Cell]| {
        cells.iter().rev().fold(0_u64, |word, cell| word << V::WIDTH | u64::from(V::load(cell)))
    };
    in_word.map(|cells| word(cells) as u32).collect()
}
