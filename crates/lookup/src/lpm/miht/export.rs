//! Copies for devices.
//!
//! ```text
//!   figures   default hop │ k │ root │ levels │ PT[-1]
//!   arrays    i-nodes │ d-nodes
//! ```

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::{DNODE_WORDS, INODE_WORDS, Miht, order, words_of};
use crate::Addr;
use crate::lpm::export::{Export, Words};

impl<A: Addr> Export for Miht<A> {
    fn copy(&self, to: &mut Words) {
        let [inodes, dnodes] = [0, 1].map(|i| self.touched[i].load(Ordering::Relaxed) as usize);
        let root = self.root.load(Ordering::Acquire);
        to.figures.extend([self.default.get(), self.k.into()]);
        to.figure_64(root);
        to.figures.push(self.keyless.load(Ordering::Acquire));
        let all: &[AtomicU32; INODE_WORDS] = &self.inodes[0];
        let words = all[..inodes * 2 * order::<A>()].iter();
        to.arrays.push(words.map(|word| word.load(Ordering::Relaxed)).collect());
        let all: &[AtomicU64; DNODE_WORDS] = &self.dnodes[0];
        to.array_64(all[..dnodes * words_of::<A>()].iter());
    }
}
