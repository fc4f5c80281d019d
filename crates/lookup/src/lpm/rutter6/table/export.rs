//! Copies for devices.
//!
//! ```text
//!   figures   default hop │ bits of a value
//!   arrays    root words │ cells │ units │ deeper trees by number
//! ```

use std::sync::atomic::{AtomicU32, Ordering};

use super::{CELL_UNIT, ROOTS, Table, Value};
use crate::lpm::export::{Export, Words};

impl<V: Value> Export for Table<V> {
    fn copy(&self, to: &mut Words) {
        let [cells, units, deep] =
            [0, 1, 2].map(|i| self.touched[i].load(Ordering::Relaxed) as usize);
        let (root, rest) = self.top.split_at(ROOTS);
        to.figures.extend([self.default.get(), V::WIDTH]);
        to.arrays.push(words(root));
        to.arrays.push(words(&rest[..cells * CELL_UNIT]));
        to.arrays.push(words(self.units[..units].as_flattened()));
        to.arrays.push(words(&self.deep[..deep]));
    }
}

fn words(from: &[AtomicU32]) -> Vec<u32> {
    from.iter().map(|word| word.load(Ordering::Acquire)).collect()
}
