//! Tables filled from entries that are made on the way: 10⁹ of them are 16 GB.

use std::time::Duration;

use lookup::pages::{Kind, Pages};

use super::{Contestant, Entry, Table};
use crate::clock;

/// A table of the first `size` entries that `entry` makes of their numbers, and the processor
/// time of their insertion. `say` hears of it at every tenth of many.
///
/// # Errors
/// When memory does not allow so many, or the contestant refuses to be made or to take one.
pub fn filled(
    contestant: &Contestant,
    size: usize,
    entry: impl Fn(usize) -> Entry,
    say: &mut dyn FnMut(&str),
) -> Result<(Box<dyn Table>, Duration), String> {
    if size > LONG {
        touch(size * BYTES_AN_ENTRY)?;
    }
    let mut table = contestant.build(size)?;
    let (mut time, mut said) = (Duration::ZERO, 0);
    for first in (0..size).step_by(BATCH) {
        let batch: Vec<Entry> = (first..size.min(first + BATCH)).map(&entry).collect();
        let start = clock::thread_time();
        let refused = table.insert(&batch);
        time += clock::thread_time() - start;
        if refused > 0 {
            return Err(format!("{refused} of {} entries were refused", batch.len()));
        }
        let tenths = first * 10 / size;
        if size > LONG && tenths > said {
            said = tenths;
            let rate = first as f64 / time.as_secs_f64() * 1e-6;
            say(&format!("{}: {tenths}0 % of {size} entries, {rate:.1} M/s", contestant.name));
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

/// More take more than ten seconds.
const LONG: usize = 64_000_000;

/// Entries that are made together.
const BATCH: usize = 1 << 16;

/// Of a table at 93 % load.
const BYTES_AN_ENTRY: usize = 9;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matching;

    #[test]
    fn a_table_is_filled_from_what_is_made_on_the_way() {
        let entry = lookup::exact::engine("mac-table").expect("it is listed");
        let contestant = Contestant::engine(entry, "mac-table", matching::fixed_seed());
        let size = 200_000;
        let (table, time) = filled(&contestant, size, matching::entry, &mut |_| ()).unwrap();
        let (keys, want) = matching::keys_of(size, matching::entry, 5000, 30, 1);
        assert_eq!(table.stream(&keys).answers(), want);
        assert!(time > Duration::ZERO);
    }
}
