//! Copies for devices.
//!
//! ```text
//!   figures   default hop │ k │ root │ levels │ PT[-1]
//!   arrays    i-nodes │ d-nodes
//! ```

use std::sync::atomic::Ordering;

use super::{Miht, order, words_of};
use crate::Addr;
use crate::lpm::export::{Export, Words};

impl<A: Addr> Export for Miht<A> {
    fn copy(&self, to: &mut Words) {
        let [inodes, dnodes] = [0, 1].map(|i| self.touched[i].load(Ordering::Relaxed) as usize);
        let root = self.root.load(Ordering::Acquire);
        to.figures.extend([self.default.get(), self.k.into()]);
        to.figure_64(root);
        to.figures.push(self.keyless.load(Ordering::Acquire));
        let words = self.inodes[..inodes * 2 * order::<A>()].iter();
        to.arrays.push(words.map(|word| word.load(Ordering::Relaxed)).collect());
        to.array_64(self.dnodes[..dnodes * words_of::<A>()].iter());
    }
}
