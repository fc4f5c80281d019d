//! Tables filled from entries that are made on the way: 10⁹ of them are 16 GB.

use std::sync::mpsc;
use std::thread;
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
        room_for(1, size)?;
    }
    let mut table = contestant.build(size)?;
    let time = fill((&contestant.name, &mut *table), size, entry, say)?;
    Ok((table, time))
}

/// Fills tables with the same entries, each by a thread of its own.
///
/// # Errors
/// For each table, when it refuses an entry.
pub fn fill_all(
    tables: Vec<(&str, &mut dyn Table)>,
    size: usize,
    entry: fn(usize) -> Entry,
    say: &mut dyn FnMut(&str),
) -> Vec<Result<(), String>> {
    thread::scope(|scope| {
        let (lines, heard) = mpsc::channel();
        let spawn = |(name, table)| {
            let lines = lines.clone();
            scope.spawn(move || {
                clock::unpin(); // whoever measures is bound to one core
                // Nobody hears it where the other end has gone.
                let mut say = |line: &str| drop(lines.send(line.to_string()));
                fill((name, table), size, entry, &mut say).map(drop)
            })
        };
        let threads: Vec<_> = tables.into_iter().map(spawn).collect();
        drop(lines);
        heard.iter().for_each(|line| say(&line));
        let ended = |thread: thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|_| Err("filling it panicked".into()))
        };
        threads.into_iter().map(ended).collect()
    })
}

fn fill(
    (name, table): (&str, &mut dyn Table),
    size: usize,
    entry: impl Fn(usize) -> Entry,
    say: &mut dyn FnMut(&str),
) -> Result<Duration, String> {
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
            say(&format!("{name}: {tenths}0 % of {size} entries, {rate:.1} M/s"));
        }
    }
    Ok(time)
}

/// Looks whether `tables` tables of ours, of so many entries each, have room beside each other, and
/// touches it: the machine has the memory back, which a virtual one does at the first touch and
/// slowly.
///
/// # Errors
/// When memory does not allow it.
pub fn room_for(tables: usize, size: usize) -> Result<(), String> {
    Pages::<u8>::admitted(Kind::default(), tables * size * BYTES_AN_ENTRY)
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

    #[test]
    fn tables_are_filled_side_by_side() {
        let make = |name: &str, room| {
            let entry = lookup::exact::engine(name).expect("it is listed");
            Contestant::engine(entry, name, matching::fixed_seed()).build(room).unwrap()
        };
        let size = 100_000;
        let (mut one, mut two) = (make("mac-table", size), make("cuckoo", size));
        let mut small = make("cuckoo", 100);
        let all: Vec<(&str, &mut dyn Table)> =
            vec![("one", &mut *one), ("two", &mut *two), ("small", &mut *small)];
        let done = fill_all(all, size, matching::entry, &mut |_| ());
        assert_eq!(done.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, true, false]);
        let (keys, want) = matching::keys_of(size, matching::entry, 5000, 30, 1);
        for table in [one, two] {
            assert_eq!(table.stream(&keys).answers(), want);
        }
    }
}
