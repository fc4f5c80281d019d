//! A table of 10⁹ entries: ours alone, filled from entries that are made on the way.

use super::{Filled, NAME, blank, compare};
use crate::matching::{self, Contestant};
use crate::{Context, Row, clock};

/// One row, of `size` entries; a note where memory does not allow it.
pub(super) fn measure(context: &mut Context, size: usize) -> Vec<Row> {
    clock::cores().last().map(|&core| clock::pin(core));
    let entry = lookup::exact::engine(NAME).expect("it is one of ours");
    let contestant = Contestant::engine(entry, NAME, matching::fixed_seed());
    let row = blank(&contestant, size);
    match matching::filled(&contestant, size, matching::entry, &mut |line| context.say(line)) {
        Ok((table, time)) => {
            let mut row = row.with("insert_mps", size as f64 / time.as_secs_f64() * 1e-6);
            if let Some(bytes) = table.bytes() {
                row = row.with("bytes_per_entry", bytes as f64 / size as f64);
            }
            compare(context, vec![Filled { table, row }], size)
        }
        Err(reason) => vec![row.noting(reason)],
    }
}
