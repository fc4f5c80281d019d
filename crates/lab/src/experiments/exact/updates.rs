//! What a writer on another core costs those who look up in `mac-table`.
//!
//! ```text
//!  round   ██ alone   ██ updates   ██ updates   ██ alone        many short ones
//! ```
//!
//! Once with updates of the table that is read, and once of another table
//! of that size, which shows what the machine's shared memory and caches are to blame for; and what
//! two slices without any updates differ by.

use super::NAME;
use crate::matching::{self, Contestant, Entry, Table};
use crate::pace::{self, Cost};
use crate::{Context, Row, clock};

/// `row` with the loss beside updates of `table`, and beside those of another.
pub(super) fn measure(context: &Context, table: &mut dyn Table, size: usize, row: Row) -> Row {
    let entry = lookup::exact::engine(NAME).expect("this table is one");
    let other = Contestant::engine(entry, NAME, matching::fixed_seed()).build(size);
    let other = other.ok().and_then(|mut other| {
        (0..size).step_by(BATCH).for_each(|first| {
            let batch = (first..size.min(first + BATCH)).map(matching::entry);
            other.insert(&batch.collect::<Vec<_>>());
        });
        loss(context, table.reader(&keys(context, size))?, &mut *other, size)
    });
    let read = table.reader(&keys(context, size));
    let own = read.and_then(|read| loss(context, read, table, size));
    let row = own.into_iter().fold(row, |row, cost| {
        let row = row.with("beside_updates_pct", cost.loss).with("beside_none_pct", cost.noise);
        row.with("updates_per_s", cost.done)
    });
    other.into_iter().fold(row, |row, cost| row.with("beside_other_updates_pct", cost.loss))
}

fn keys(context: &Context, size: usize) -> Vec<lookup::exact::Key> {
    matching::keys_of(size, matching::entry, context.pick(KEYS, KEYS / 8), 0, 20).0
}

/// By how many percent reads slow down beside updates of `table`: the middle of the
/// rounds, and between the best slices of either kind.
fn loss(
    context: &Context,
    read: matching::Reader,
    table: &mut dyn Table,
    size: usize,
) -> Option<Cost> {
    if clock::cores().len() < 2 {
        return None;
    }
    let n = context.pick(KEYS, KEYS / 8);
    let mut churn = Churn { table, size, done: 0 };
    let reading = matching::reading(read, n);
    pace::cost(context, reading, UPDATES, |pace| pace.keep(|n| churn.go_on(n as usize))).ok()
}

/// Entries that go, come back a while later, and change, in turn.
struct Churn<'t> {
    table: &'t mut dyn Table,
    size: usize,
    done: usize,
}

impl Churn<'_> {
    /// In parts of fewer updates than entries, so that it does not matter that a part's
    /// deletes go before its inserts.
    fn go_on(&mut self, mut updates: usize) -> Result<(), String> {
        while updates > 0 {
            let part = updates.min((self.size / 2).max(1));
            self.part(part)?;
            updates -= part;
        }
        Ok(())
    }

    fn part(&mut self, updates: usize) -> Result<(), String> {
        let (size, away) = (self.size, self.size / AWAY);
        let entry = |number: usize| matching::entry(number % size);
        let (mut go, mut put) = (Vec::new(), Vec::<Entry>::new());
        for update in self.done..self.done + updates {
            let number = update / 3;
            match update % 3 {
                0 => go.push(entry(number).0),
                1 => put.push(entry(number + size - away)),
                _ => put.push((entry(number + size / 2).0, (number % 60_000) as u16)),
            }
        }
        self.done += updates;
        self.table.delete(&go);
        match self.table.insert(&put) {
            0 => Ok(()),
            refused => Err(format!("{refused} entries were refused")),
        }
    }
}

/// Inserts, changes and deletes a second.
pub(super) const UPDATES: u64 = 500_000;

/// One entry of so many is away at any time.
const AWAY: usize = 100;

const KEYS: usize = 1 << 21;

/// Entries that are made together.
const BATCH: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use lookup::exact::ABSENT;

    use super::*;

    #[test]
    fn one_in_a_hundred_is_away_and_the_others_are_there() {
        let entry = lookup::exact::engine(NAME).unwrap();
        let mut table =
            Contestant::engine(entry, NAME, matching::fixed_seed()).build(1000).unwrap();
        assert_eq!(table.insert(&matching::entries(1000)), 0);
        let mut churn = Churn { table: &mut *table, size: 1000, done: 0 };
        for updates in [1, 5, 64, 63, 300, 900, 3000, 100_000] {
            churn.go_on(updates).unwrap();
        }
        let keys: Vec<_> = matching::entries(1000).into_iter().map(|(key, _)| key).collect();
        let away = table.stream(&keys).answers().into_iter().filter(|&value| value == ABSENT);
        assert!((9..=11).contains(&away.count()));
    }
}
