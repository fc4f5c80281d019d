//! How many entries of a line stand in their second, so that a hint goes with the
//! last of them. The writer's own: half a byte a hint, 4 B a line of 64.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::hint::prefetch;
use crate::pages::{Kind, Pages, Touch};

/// The counts of all lines. Atomics because they lie in what readers share, and
/// relaxed because no reader looks at them.
pub(super) struct Away(Pages<AtomicU32>);

impl Away {
    /// Of `lines` lines; nothing is away.
    pub(super) fn new(lines: usize) -> io::Result<Away> {
        Pages::admitted(Kind::Transparent, lines).map(Away)
    }

    /// Asks for the counts of `line`.
    pub(super) fn ask(&self, line: usize) {
        prefetch(&self.0[line]);
    }

    /// As [`Touch::touch`].
    pub(super) fn touch(&self, step: usize) -> bool {
        self.0.touch(step)
    }

    /// Bytes of the counts of `lines` lines.
    pub(super) const fn bytes(lines: usize) -> usize {
        lines * size_of::<AtomicU32>()
    }

    /// An entry of `line` with this `hint` has gone to its second line; true when
    /// it is the only one.
    pub(super) fn goes(&self, line: usize, hint: usize) -> bool {
        let (cell, shift) = (&self.0[line], BITS * hint as u32);
        let counts = cell.load(Ordering::Relaxed);
        let count = counts >> shift & MOST;
        if count < MOST {
            cell.store(counts + (1 << shift), Ordering::Relaxed);
        }
        count == 0
    }

    /// Such an entry is there no longer; true when it was the only one.
    pub(super) fn returns(&self, line: usize, hint: usize) -> bool {
        let (cell, shift) = (&self.0[line], BITS * hint as u32);
        let counts = cell.load(Ordering::Relaxed);
        let count = counts >> shift & MOST;
        if (1..MOST).contains(&count) {
            cell.store(counts - (1 << shift), Ordering::Relaxed);
        }
        count == 1
    }
}

/// Bits of a count.
const BITS: u32 = 4;

/// A count that has come here is not known, and stays: at 95 % load there is one
/// entry away for six hints, so none ever does.
const MOST: u32 = (1 << BITS) - 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_is_needed_from_the_first_to_the_last() {
        let away = Away::new(2).unwrap();
        for hint in 0..8 {
            assert!(away.goes(1, hint) && !away.goes(1, hint));
        }
        for hint in 0..8 {
            assert!(!away.returns(1, hint) && away.returns(1, hint));
            assert!(!away.returns(1, hint), "none is away");
        }
        assert!(away.goes(0, 3));
    }

    #[test]
    fn a_count_that_is_full_stays() {
        let away = Away::new(1).unwrap();
        (0..40).for_each(|i| assert_eq!(away.goes(0, 7), i == 0));
        (0..40).for_each(|_| assert!(!away.returns(0, 7)));
        assert!(away.goes(0, 6), "its neighbour's is its own");
    }
}
