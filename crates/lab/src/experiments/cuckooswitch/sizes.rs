//! How large the tables of the figures are, and who looks up in which.
//!
//! ```text
//!  996,147 ─ 7,969,177 ─ 31,876,710     95 % of 2^20, 2^23, 2^25 slots: all tables side by
//!                                       side, all entrants in turns
//!  255,013,683 ─ 1,000,000,000          tables of ours, as many side by side as there are
//!                                       cores to fill them and as memory allows; each is
//!                                       filled once for all figures of a run. Behind them
//!                                       some rivals, one by one
//! ```
//!
//! Which rivals take part where, and why others do not: [`super::rivals`].

use lookup::exact::Key;

use super::FIGURES;
use super::forwarder::station;
use super::rivals;
use crate::context::Found;
use crate::matching::{self, Contestant, Seen, Table, fill_all, room_for};
use crate::{Context, Error, Experiment, Row, clock};

/// A figure that looks up in such tables.
pub(super) trait InTables: Experiment {
    /// Those that take turns.
    fn entrants(&self) -> Vec<Entrant>;

    /// The rows of `seats` in their order, and behind them those of what else takes turns with them.
    fn turn(&self, context: &mut Context, turn: &Turn<'_>) -> Vec<Row>;

    /// What else there is, where tables are too large for all to take turns.
    fn alone(&self, context: &mut Context, size: usize) -> Vec<Row> {
        let _ = (context, size);
        Vec::new()
    }
}

/// One that takes part.
pub(super) struct Entrant {
    pub contestant: Result<Contestant, String>,
    /// Lookups at once.
    pub burst: usize,
    pub labels: Vec<(&'static str, String)>,
}

/// Those of a figure whose tables are there.
pub(super) struct Turn<'t> {
    /// Entries of each table.
    pub size: usize,
    pub seats: Vec<Seat<'t>>,
    /// In the tables.
    pub keys: &'t [Key],
    /// Of what they find.
    pub checksum: u64,
}

/// One of them.
pub(super) struct Seat<'t> {
    /// What it looks up in.
    pub seen: Seen<'t>,
    /// Of the table; `None` where it does not say.
    pub bytes: Option<usize>,
    pub burst: usize,
    /// Its row, which has no figures yet.
    pub row: Row,
}

/// The rows of `figure` with tables of each size.
pub(super) fn run(context: &mut Context, figure: &dyn InTables) -> Result<Vec<Row>, Error> {
    let sizes = context.pick(ALL, &ALL[..2]);
    context.cells(sizes.iter().copied(), |context, &size| {
        let (mut figures, cell) = (vec![figure], size.to_string());
        if is_large(size) {
            let later = |other: &&dyn InTables| context.lacks(other.card().name, &cell);
            figures.extend(FIGURES.into_iter().filter(later));
        }
        let found = measure(context, &figures, size);
        let mut each = figures.iter().zip(found);
        let own = each.next().map(|(_, found)| found).unwrap_or_default();
        context.count(&own);
        for (other, found) in each {
            context.hand_on(other.card().name, &cell, found)?;
        }
        Ok(own.rows)
    })
}

/// Whether tables of so many entries are not all built side by side.
pub(super) fn is_large(size: usize) -> bool {
    size > rivals::TOGETHER
}

/// Fills the tables of all `figures`, one for all those that read the same, and has each
/// figure measured in them.
fn measure(context: &mut Context, figures: &[&dyn InTables], size: usize) -> Vec<Found> {
    clock::cores().last().map(|&core| clock::pin(core));
    let draws = context.pick(1 << 22, 1 << 19);
    let (keys, values) = matching::keys_of(size, station, draws, 0, 1);
    let checksum = matching::checksum(&values);
    let mut parts: Vec<Part> = figures.iter().map(|_| Part::default()).collect();
    let (mut waiting, mut behind) = (Vec::new(), Vec::new());
    for (part, figure) in figures.iter().enumerate() {
        for (number, entrant) in figure.entrants().into_iter().enumerate() {
            let Entrant { contestant, burst, labels } = entrant;
            let mut row = Row::new([("entries", size.to_string())]);
            row.labels.extend(labels.into_iter().map(|(name, value)| (name.to_string(), value)));
            if let Ok(contestant) = &contestant {
                row = row.labelled("isa", &contestant.isa);
            }
            match contestant.and_then(|one| rivals::take_part(&one, size).map(|()| one)) {
                Ok(contestant) => {
                    let late = is_large(size) && !contestant.ours;
                    let reader = Reader { part, number, burst, row, contestant };
                    if late { behind.push(reader) } else { waiting.push(reader) }
                }
                Err(refusal) => parts[part].refuse(number, row, &refusal),
            }
        }
    }
    let most = match is_large(size) {
        true => side_by_side(size, waiting.len()),
        false => {
            waiting = beside_rivals(waiting, size, &mut parts);
            Ok(waiting.len())
        }
    };
    while !waiting.is_empty() || !behind.is_empty() {
        let (waiting, most) = match waiting.is_empty() {
            true => {
                let room = rivals::room(&behind[0].contestant.name, size);
                (&mut behind, room.map(|()| 1))
            }
            false => (&mut waiting, most.clone()),
        };
        let (tables, refused) = match most {
            Ok(most) => filled(context, waiting, most, size),
            Err(refusal) => {
                let name = waiting[0].contestant.name.clone();
                let of = waiting.extract_if(.., |reader| reader.contestant.name == name);
                (Vec::new(), of.map(|reader| (reader, refusal.clone())).collect())
            }
        };
        for (reader, refusal) in refused {
            parts[reader.part].refuse(reader.number, reader.row, &refusal);
        }
        for (number, (figure, part)) in figures.iter().zip(&mut parts).enumerate() {
            let seats = seats(&tables, number, (&keys, &values), part);
            if !seats.is_empty() {
                let (numbers, seats): (Vec<_>, Vec<_>) = seats.into_iter().unzip();
                let turn = Turn { size, seats, keys: &keys, checksum };
                let found = context.found(|context| figure.turn(context, &turn));
                part.found.add(&found);
                let behind = numbers.into_iter().chain(std::iter::repeat(usize::MAX));
                part.rows.extend(behind.zip(found.rows));
            }
        }
    }
    let ended = |(figure, part): (&&dyn InTables, Part)| {
        let Part { mut rows, mut found } = part;
        rows.sort_by_key(|(number, _)| *number);
        found.rows = rows.into_iter().map(|(_, row)| row).collect();
        if is_large(size) {
            let alone = context.found(|context| figure.alone(context, size));
            found.add(&alone);
            found.rows.extend(alone.rows);
        }
        found
    };
    figures.iter().zip(parts).map(ended).collect()
}

/// Those of `waiting` whose tables have room side by side: all, or ours.
fn beside_rivals(waiting: Vec<Reader>, size: usize, parts: &mut [Part]) -> Vec<Reader> {
    let mut names: Vec<&str> = waiting
        .iter()
        .filter(|one| !one.contestant.ours)
        .map(|one| &*one.contestant.name)
        .collect();
    names.sort_unstable();
    names.dedup();
    let Err(refusal) = rivals::room_for_all(&names, size) else { return waiting };
    let (ours, others) = waiting.into_iter().partition(|one| one.contestant.ours);
    let others: Vec<Reader> = others;
    for one in others {
        parts[one.part].refuse(one.number, one.row, &refusal);
    }
    ours
}

/// Those of a figure who read `tables` and find `values` there, by number.
fn seats<'t>(
    tables: &'t [Shared],
    figure: usize,
    (keys, values): (&[Key], &[u16]),
    part: &mut Part,
) -> Vec<(usize, Seat<'t>)> {
    let mut seats = Vec::new();
    for (shared, reader) in tables.iter().flat_map(|shared| shared.readers(figure)) {
        let seen = shared.seen_by(reader).expect("it was there a moment ago");
        let right = seen.stream(keys).answers() == values;
        let (bytes, row) = (shared.table.bytes(), reader.row.clone());
        match right {
            true => seats.push((reader.number, Seat { seen, bytes, burst: reader.burst, row })),
            false => part.refuse(reader.number, row, "wrong answers"),
        }
    }
    seats.sort_by_key(|(number, _)| *number);
    seats
}

/// What is there of a figure.
#[derive(Default)]
struct Part {
    /// By the numbers of the entrants.
    rows: Vec<(usize, Row)>,
    found: Found,
}

impl Part {
    fn refuse(&mut self, number: usize, row: Row, refusal: &str) {
        self.rows.push((number, row.noting(refusal)));
    }
}

/// An entrant that waits for its table, or has it.
struct Reader {
    /// Its figure, and its number there.
    part: usize,
    number: usize,
    burst: usize,
    row: Row,
    contestant: Contestant,
}

/// A table, and those that read it; the first has made it.
struct Shared {
    table: Box<dyn Table>,
    readers: Vec<Reader>,
}

/// Readers, and why they have no table.
type Refused = Vec<(Reader, String)>;

/// `most` tables at most for those of `waiting` who read them, filled.
fn filled(
    context: &mut Context,
    waiting: &mut Vec<Reader>,
    most: usize,
    size: usize,
) -> (Vec<Shared>, Refused) {
    let (mut tables, mut refused) = (Vec::<Shared>::new(), Vec::new());
    for reader in std::mem::take(waiting) {
        if let Some(shared) = tables.iter_mut().find(|shared| shared.seen_by(&reader).is_some()) {
            shared.readers.push(reader);
        } else if tables.len() >= most {
            waiting.push(reader);
        } else {
            match reader.contestant.build_however_long(size) {
                Ok(table) => tables.push(Shared { table, readers: vec![reader] }),
                Err(refusal) => refused.push((reader, refusal)),
            }
        }
    }
    let named = tables.iter_mut().map(Shared::named).collect();
    let mut filled = fill_all(named, size, station, &mut |line| context.say(line)).into_iter();
    tables.retain_mut(|shared| match filled.next() {
        Some(Err(refusal)) => {
            refused.extend(shared.readers.drain(..).map(|reader| (reader, refusal.clone())));
            false
        }
        _ => true,
    });
    (tables, refused)
}

impl Shared {
    fn named(&mut self) -> (&str, &mut dyn Table) {
        (&self.readers[0].contestant.name, &mut *self.table)
    }

    fn seen_by(&self, reader: &Reader) -> Option<Seen<'_>> {
        reader.contestant.shares(&self.readers[0].contestant, &*self.table)
    }

    /// Those of a figure.
    fn readers(&self, part: usize) -> impl Iterator<Item = (&Shared, &Reader)> {
        let readers = self.readers.iter().filter(move |reader| reader.part == part);
        readers.map(move |reader| (self, reader))
    }
}

/// How many of `wanted` tables of so many entries are filled side by side.
fn side_by_side(size: usize, wanted: usize) -> Result<usize, String> {
    let most = clock::cores().len().min(wanted).max(1);
    let fits = (2..=most).rev().find(|&tables| room_for(tables, size).is_ok());
    fits.map_or_else(|| room_for(1, size).map(|()| 1), Ok)
}

/// Why the router's switch has no table of so many.
pub(super) const TOO_LONG: &str = "left out: so many entries take it minutes";

/// Of so many slots that the paper's table is 95 % full, but for the last, which is 93 %.
const ALL: &[usize] = &[996_147, 7_969_177, 31_876_710, 255_013_683, 1_000_000_000];

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::super::tables::{cuckoo, other};
    use super::*;
    use crate::{Card, Options, Record};

    /// As full as the paper's: a size that grows the table to twice its slots is half empty.
    #[test]
    fn tables_are_as_full_as_the_papers() {
        let contestant = cuckoo("", &[]).contestant.expect("it is listed");
        let (table, _) =
            matching::filled(&contestant, ALL[0], matching::entry, &mut |_| ()).unwrap();
        let bytes = table.bytes().expect("it says") as f64 / ALL[0] as f64;
        assert!(bytes < 8.6, "{bytes} bytes an entry");
        for &size in ALL {
            let load = size as f64 / ((size as f64 / 0.951).log2().ceil()).exp2();
            assert!((0.93..=0.9501).contains(&load), "{size}: {load}");
        }
    }

    /// A figure that keeps which bursts took turns, and whether in a whole table.
    struct Made(fn() -> Vec<Entrant>, Mutex<Vec<Vec<(usize, bool)>>>);

    impl Experiment for Made {
        fn card(&self) -> &'static Card {
            unreachable!()
        }

        fn judge(&self, _: &[Row]) -> Vec<crate::Verdict> {
            Vec::new()
        }

        fn run(&self, _: &mut Context) -> Result<Record, Error> {
            unreachable!()
        }
    }

    impl InTables for Made {
        fn entrants(&self) -> Vec<Entrant> {
            self.0()
        }

        fn turn(&self, _: &mut Context, turn: &Turn<'_>) -> Vec<Row> {
            let whole = |seat: &Seat<'_>| (seat.burst, matches!(seat.seen, Seen::Whole(_)));
            self.1.lock().unwrap().push(turn.seats.iter().map(whole).collect());
            let rows =
                turn.seats.iter().map(|seat| seat.row.clone().with("burst", seat.burst as f64));
            rows.chain([Row::new([("engine", "beside")])]).collect()
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
        let mut context = Context::new(options, |_| {});
        let first = Made(
            || {
                let none = Entrant { contestant: Err("none".into()), ..other("mac-table", "none") };
                let mac = Entrant { burst: 2, ..other("mac-table", "mac") };
                let small = Entrant { burst: 3, ..cuckoo("small", &[("pages", "small")]) };
                let one = Entrant { burst: 1, ..cuckoo("one", &[("batch", "1")]) };
                vec![one, none, mac, small]
            },
            Mutex::default(),
        );
        let second = Made(
            || vec![Entrant { burst: 4, ..cuckoo("atomic", &[("order", "atomic")]) }],
            Mutex::default(),
        );
        let found = measure(&mut context, &[&first, &second], 10_000);
        let turns = |figure: Made| figure.1.into_inner().unwrap();
        assert_eq!(turns(first), [vec![(1, true), (2, true), (3, true)]]);
        // It reads the table of the other figure's first.
        assert_eq!(turns(second), [vec![(4, false)]]);
        let rows = found.iter().map(|found| found.rows.iter().map(|row| row.label("engine")));
        let rows: Vec<Vec<&str>> = rows.map(Iterator::collect).collect();
        assert_eq!(rows, [vec!["one", "none", "mac", "small", "beside"], vec!["atomic", "beside"]]);
        assert_eq!(found[0].rows[1].note.as_deref(), Some("none"));
        assert_eq!(found[0].rows[2].median("burst"), Some(2.0));
    }
}
