//! How large the tables of the figures are, and how they are filled.
//!
//! ```text
//!  996,147 ─ 7,969,177 ─ 31,876,710     95 % of 2^20, 2^23, 2^25 slots: all take turns
//!  255,013,683 ─ 1,000,000,000          one after the other, what a figure needs of ours
//! ```

use lookup::pages::{Kind, Pages};

use crate::Context;
use crate::matching::{Contestant, Entry, Table};

/// Entries of the tables of a figure.
pub(super) fn sizes(context: &Context) -> &'static [usize] {
    context.pick(ALL, &ALL[..2])
}

/// Whether tables of so many entries are built one after the other.
pub(super) fn is_large(size: usize) -> bool {
    size > TOGETHER
}

/// A table with the first `size` entries.
///
/// # Errors
/// When it is left out, memory does not allow it, or it refuses one.
pub(super) fn filled(
    contestant: &Contestant,
    size: usize,
    entry: impl Fn(usize) -> Entry,
) -> Result<Box<dyn Table>, String> {
    if is_large(size) {
        let admitted = Pages::<u8>::admitted(Kind::default(), size * BYTES_AN_ENTRY);
        drop(admitted.map_err(|refusal| refusal.to_string())?);
    }
    let mut table = contestant.build(size)?;
    let mut refused = 0;
    for first in (0..size).step_by(BATCH) {
        let batch: Vec<Entry> = (first..size.min(first + BATCH)).map(&entry).collect();
        refused += table.insert(&batch);
    }
    if refused > 0 {
        return Err(format!("{refused} entries refused"));
    }
    Ok(table)
}

/// Of so many slots that the paper's table is 95 % full, but for the last, which is 93 %.
const ALL: &[usize] = &[996_147, 7_969_177, 31_876_710, 255_013_683, 1_000_000_000];

/// The most of which several tables are built side by side.
const TOGETHER: usize = 64_000_000;

/// Entries that are made together.
const BATCH: usize = 1 << 16;

/// Of a table at 93 % load.
const BYTES_AN_ENTRY: usize = 9;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matching;

    /// As full as the paper's: a size that grows the table to twice its slots is half empty.
    #[test]
    fn tables_are_as_full_as_the_papers() {
        let cuckoo = lookup::exact::engine("cuckoo").expect("it is listed");
        let contestant = Contestant::engine(cuckoo, "cuckoo", matching::fixed_seed());
        let table = filled(&contestant, ALL[0], matching::entry).unwrap();
        let bytes = table.bytes().expect("it says") as f64 / ALL[0] as f64;
        assert!(bytes < 8.6, "{bytes} bytes an entry");
        for &size in ALL {
            let load = size as f64 / ((size as f64 / 0.951).log2().ceil()).exp2();
            assert!((0.93..=0.9501).contains(&load), "{size}: {load}");
        }
    }
}
