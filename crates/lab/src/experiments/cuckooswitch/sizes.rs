//! How large the tables of the figures are, and who looks up in which.
//!
//! ```text
//!  996,147 ─ 7,969,177 ─ 31,876,710     95 % of 2^20, 2^23, 2^25 slots: all tables side by
//!                                       side, all entrants in turns
//!  255,013,683 ─ 1,000,000,000          tables of ours, as many side by side as there are
//!                                       cores to fill them and as memory allows
//! ```

use crate::matching::{Contestant, Entry, Seen, Table, fill_all, room_for};
use crate::{Context, clock};

/// Entries of the tables of a figure.
pub(super) fn sizes(context: &Context) -> &'static [usize] {
    context.pick(ALL, &ALL[..2])
}

/// Whether tables of so many entries are not all built side by side.
pub(super) fn is_large(size: usize) -> bool {
    size > TOGETHER
}

/// One of those that take turns.
pub(super) struct Seat<'t> {
    /// Its number among the contestants.
    pub number: usize,
    /// What it looks up in.
    pub seen: Seen<'t>,
    /// Of the table; `None` where it does not say.
    pub bytes: Option<usize>,
}

/// Keys, and what each is to find.
pub(super) type Sought<'k> = (&'k [lookup::exact::Key], &'k [u16]);

/// Fills the tables of `contestants`, one for all those that read the same, and hands `each`
/// the context and those that take turns; returns who cannot take part, and why.
pub(super) fn in_turns(
    context: &mut Context,
    contestants: Vec<Result<Contestant, String>>,
    (size, entry): (usize, fn(usize) -> Entry),
    (keys, want): Sought<'_>,
    mut each: impl FnMut(&mut Context, &[Seat<'_>]),
) -> Vec<(usize, String)> {
    let (mut waiting, mut refused) = (Vec::new(), Vec::new());
    for (number, contestant) in contestants.into_iter().enumerate() {
        match contestant {
            Ok(one) if is_large(size) && !one.ours => refused.push((number, TOO_LONG.into())),
            Ok(one) => waiting.push((number, one)),
            Err(refusal) => refused.push((number, refusal)),
        }
    }
    let most = match is_large(size) {
        true => side_by_side(size, waiting.len()),
        false => Ok(waiting.len()),
    };
    let most = match most {
        Ok(most) => most,
        Err(refusal) => {
            let none = waiting.into_iter().map(|(number, _)| (number, refusal.clone()));
            return refused.into_iter().chain(none).collect();
        }
    };
    while !waiting.is_empty() {
        let (mut tables, mut later) = (Vec::<Shared>::new(), Vec::new());
        for (number, one) in waiting {
            if let Some(shared) = tables.iter_mut().find(|shared| shared.seen_by(&one).is_some()) {
                shared.readers.push((number, one));
            } else if tables.len() >= most {
                later.push((number, one));
            } else {
                match one.build(size) {
                    Ok(table) => tables.push(Shared { table, readers: vec![(number, one)] }),
                    Err(refusal) => refused.push((number, refusal)),
                }
            }
        }
        let named = tables.iter_mut().map(Shared::named).collect();
        let mut filled = fill_all(named, size, entry, &mut |line| context.say(line)).into_iter();
        tables.retain_mut(|shared| match filled.next() {
            Some(Err(refusal)) => {
                let readers = shared.readers.drain(..);
                refused.extend(readers.map(|(number, _)| (number, refusal.clone())));
                false
            }
            _ => true,
        });
        let mut seats = Vec::new();
        for (shared, (number, one)) in tables.iter().flat_map(Shared::each) {
            let number = *number;
            let seen = shared.seen_by(one).expect("it was there a moment ago");
            let right = seen.stream(keys).answers() == want;
            match right {
                true => seats.push(Seat { number, seen, bytes: shared.table.bytes() }),
                false => refused.push((number, "wrong answers".into())),
            }
        }
        seats.sort_by_key(|seat| seat.number);
        if !seats.is_empty() {
            each(context, &seats);
        }
        waiting = later;
    }
    refused
}

/// A table, and those that read it, by their numbers; the first has made it.
struct Shared {
    table: Box<dyn Table>,
    readers: Vec<(usize, Contestant)>,
}

/// How many of `wanted` tables of so many entries are filled side by side.
fn side_by_side(size: usize, wanted: usize) -> Result<usize, String> {
    let most = clock::cores().len().min(wanted).max(1);
    let fits = (2..=most).rev().find(|&tables| room_for(tables, size).is_ok());
    fits.map_or_else(|| room_for(1, size).map(|()| 1), Ok)
}

impl Shared {
    fn named(&mut self) -> (&str, &mut dyn Table) {
        (&self.readers[0].1.name, &mut *self.table)
    }

    fn seen_by(&self, one: &Contestant) -> Option<Seen<'_>> {
        one.shares(&self.readers[0].1, &*self.table)
    }

    fn each(&self) -> impl Iterator<Item = (&Shared, &(usize, Contestant))> {
        self.readers.iter().map(move |reader| (self, reader))
    }
}

/// Why a rival has no table of so many.
pub(super) const TOO_LONG: &str = "left out: so many entries take it minutes";

/// Of so many slots that the paper's table is 95 % full, but for the last, which is 93 %.
const ALL: &[usize] = &[996_147, 7_969_177, 31_876_710, 255_013_683, 1_000_000_000];

/// The most of which several tables are built side by side.
const TOGETHER: usize = 64_000_000;

#[cfg(test)]
mod tests {
    use super::super::tables::{cuckoo, other};
    use super::*;
    use crate::Options;
    use crate::matching::{self, filled};

    /// As full as the paper's: a size that grows the table to twice its slots is half empty.
    #[test]
    fn tables_are_as_full_as_the_papers() {
        let contestant = cuckoo("", &[]).contestant.expect("it is listed");
        let (table, _) = filled(&contestant, ALL[0], matching::entry, &mut |_| ()).unwrap();
        let bytes = table.bytes().expect("it says") as f64 / ALL[0] as f64;
        assert!(bytes < 8.6, "{bytes} bytes an entry");
        for &size in ALL {
            let load = size as f64 / ((size as f64 / 0.951).log2().ceil()).exp2();
            assert!((0.93..=0.9501).contains(&load), "{size}: {load}");
        }
    }

    #[test]
    fn those_that_read_one_table_have_it_filled_once() {
        let options = Options {
            quick: true,
            out: std::env::temp_dir(),
            tables: Vec::new(),
            updates: None,
            engines: Vec::new(),
            hops: 1,
        };
        let mut context = Context::new(options, |_| ());
        let of = |contestant: super::super::tables::Entrant| contestant.contestant;
        let contestants = vec![
            of(cuckoo("", &[("batch", "1")])),
            of(other("mac-table", "")),
            Err("none".into()),
            of(cuckoo("", &[("order", "atomic")])),
            of(cuckoo("", &[("pages", "small")])),
        ];
        let (keys, mut want) = matching::keys_of(10_000, matching::entry, 500, 0, 1);
        let mut turns: Vec<Vec<(usize, bool)>> = Vec::new();
        let refused = in_turns(
            &mut context,
            contestants,
            (10_000, matching::entry),
            (&keys, &want),
            |_, seats| {
                let whole = |seat: &Seat<'_>| matches!(seat.seen, Seen::Whole(_));
                turns.push(seats.iter().map(|seat| (seat.number, whole(seat))).collect());
            },
        );
        assert_eq!(turns, [vec![(0, true), (1, true), (3, false), (4, true)]]);
        assert_eq!(refused, [(2, "none".to_string())]);
        // Who answers wrongly takes no turn.
        want[7] ^= 1;
        let one = vec![of(other("mac-table", ""))];
        let size = (10_000, matching::entry as fn(usize) -> Entry);
        let refused = in_turns(&mut context, one, size, (&keys, &want), |_, _| unreachable!());
        assert_eq!(refused, [(0, "wrong answers".to_string())]);
    }
}
