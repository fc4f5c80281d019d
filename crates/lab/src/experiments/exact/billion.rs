//! A table of 10⁹ entries: ours alone, filled from entries that are made on the way.

use std::time::Duration;

use lookup::pages::{Kind, Pages};

use super::{Filled, NAME, compare};
use crate::matching::{self, Contestant, Entry, Table};
use crate::{Context, Row, clock};

/// One row, of `size` entries; a note where memory does not allow it.
pub(super) fn measure(context: &mut Context, size: usize) -> Vec<Row> {
    let row = Row::new([("engine", NAME.to_string()), ("entries", size.to_string())]);
    clock::cores().last().map(|&core| clock::pin(core));
    match fill(size, &mut |line| context.say(line)) {
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

/// A table of the first `size` entries, and the processor time of their insertion.
fn fill(size: usize, say: &mut dyn FnMut(&str)) -> Result<(Box<dyn Table>, Duration), String> {
    let entry = lookup::exact::engine(NAME).ok_or("this build has no such table")?;
    let contestant = Contestant::engine(entry, NAME, matching::fixed_seed());
    touch(size * BYTES_AN_ENTRY)?;
    let mut table = contestant.build(size)?;
    let (mut time, mut said) = (Duration::ZERO, 0);
    for first in (0..size).step_by(BATCH) {
        let batch: Vec<Entry> = (first..size.min(first + BATCH)).map(matching::entry).collect();
        let start = clock::thread_time();
        let refused = table.insert(&batch);
        time += clock::thread_time() - start;
        if refused > 0 {
            return Err(format!("{refused} of {} entries were refused", batch.len()));
        }
        let tenths = first / (size / 10);
        if tenths > said {
            said = tenths;
            let rate = first as f64 / time.as_secs_f64() * 1e-6;
            say(&format!("{NAME}: {tenths}0 % of {size} entries, {rate:.1} M/s"));
        }
    }
    Ok((table, time))
}

/// Has the machine back so much memory, which a virtual one does at the first touch
/// and slowly, and gives it back.
fn touch(bytes: usize) -> Result<(), String> {
    Pages::<u8>::admitted(Kind::default(), bytes)
        .map_err(|refusal| refusal.to_string())?
        .touch_now();
    Ok(())
}

/// Entries that are made together.
const BATCH: usize = 1 << 16;

/// Of the table, at 93 % load.
const BYTES_AN_ENTRY: usize = 9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_filled_from_what_is_made_on_the_way() {
        let mut lines = 0;
        let (table, time) = fill(2_000_000, &mut |_| lines += 1).unwrap();
        assert_eq!(lines, 9);
        let (keys, want) = matching::keys_of(2_000_000, matching::entry, 5000, 30, 1);
        assert_eq!(table.stream(&keys).answers(), want);
        assert!(time > Duration::ZERO);
    }
}
