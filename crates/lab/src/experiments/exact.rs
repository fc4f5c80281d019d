//! `exact/peers`: exact-match tables of Ethernet addresses, ours and rivals; and
//! ours of 10⁹. Beside them random lines of as much memory, which bound them all.

experiments! {
    : Peers,
}

mod billion;
mod goals;
mod updates;

use std::thread;

use lookup::pages::Kind;

use crate::contestants;
use crate::crew::{self, Crew, Maker};
use crate::lines::Lines;
use crate::matching::{self, Contestant, Entry, PORTABLE, Table};
use crate::record::Figure;
use crate::slices::{Timing, Variant};
use crate::{Card, Context, Error, Experiment, Plot, Record, Row, Style, Takes, Verdict, clock};

/// See the module.
pub struct Peers;

impl Experiment for Peers {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn takes_engine(&self, _: &Context, engine: &str) -> bool {
        contestants::exact_named(engine).is_ok()
    }

    fn judge(&self, rows: &[Row]) -> Vec<Verdict> {
        goals::verdicts(rows)
    }

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        let sizes: &[usize] = context
            .pick(&[MILLION, EIGHT_MILLION, SIXTY_MILLION, BILLION], &[MILLION, EIGHT_MILLION]);
        // The largest is for `mac-table` alone.
        let asked = !context.engines().is_empty();
        let sizes = sizes.iter().copied().filter(|&size| !(asked && size == BILLION));
        let rows = context.cells(sizes, |context, &size| {
            let measure = if size == BILLION { billion::measure } else { measure };
            Ok(measure(context, size))
        })?;
        let mut notes = vec![
            "uniformly random keys of the table; address and domain are one key of 60 bits"
                .to_string(),
            "the crates' maps do not report their bytes".into(),
            "isa: the instructions of a table's bursts, or those that a library is compiled for; \
             mac-table-portable is mac-table without vector instructions"
                .into(),
            "inserts: into a table made for so many, ours in batches and also one by one, rivals \
             as they can, which is one by one"
                .into(),
            "10⁹ entries: mac-table alone; the others would take 33 GB and more".into(),
            "goals are judged by the best slices: the neighbours' share of the machine is not ours"
                .into(),
            "random lines: independent loads in as much memory as mac-table's, where the system gives \
             it on pages of 2 MB"
                .into(),
            "two threads: what each does beside the other, of what it does alone on its core, and \
             the sum"
                .into(),
            "500,000 updates/s: deletes, inserts and changes in turn; a hundredth is always away"
                .into(),
        ];
        if context.engines().is_empty() && contestants::exact().iter().all(|one| one.ours) {
            notes.push("built without the feature `rivals`: only our own tables took part".into());
        }
        let verdicts = self.judge(&rows);
        Ok(context.record(rows, verdicts, notes))
    }
}

const CARD: Card = Card {
    name: "exact/peers",
    takes: Takes { full_s: 600.0, quick_s: 50.0 },
    help: "exact-match tables, ours and rivals: hits, misses, inserts, updates, bytes, two threads",
    source: "issue on exact match, point 2",
    claim: "mac-table: 130 M lookups/s at 1 M entries, 40 at 10⁹, 3 × rte_hash and the paper's \
            table; two cores 1.8 ×; misses at 60 % of the hit rate; 500,000 updates/s cost 6 %",
    plots: &[
        plot("Lookups in bursts of 256, all hits", "rate_mlps", "million lookups/s"),
        plot("Lookups in bursts of 64, all hits", "rate_64_mlps", "million lookups/s"),
        plot("Lookups, half of them misses", "half_misses_mlps", "million lookups/s"),
        plot("Inserts into an empty table", "insert_mps", "million inserts/s"),
        plot("Inserts one by one", "single_insert_mps", "million inserts/s"),
        plot("Delete and insert again", "churn_mps", "million updates/s"),
        plot("Memory", "bytes_per_entry", "bytes an entry"),
    ],
};

const fn plot(title: &'static str, figure: &'static str, unit: &'static str) -> Plot {
    Plot { title, figure, unit, x: "engine", series: "entries", panels: &[], style: Style::Ranked }
}

/// A table that took the entries.
struct Filled {
    table: Box<dyn Table>,
    row: Row,
}

fn measure(context: &mut Context, size: usize) -> Vec<Row> {
    let entries = matching::entries(size);
    clock::cores().last().map(|&core| clock::pin(core));
    let (mut filled, mut rows) = (Vec::new(), Vec::new());
    for contestant in contestants(context) {
        let row = blank(&contestant, size);
        match fill(&contestant, &entries, row.clone()) {
            Ok(one) => filled.push(one),
            Err(refusal) => rows.push(row.noting(refusal)),
        }
    }
    drop(entries);
    rows.extend(compare(context, filled, size));
    rows
}

/// The row of a table without figures.
fn blank(Contestant { name, isa, .. }: &Contestant, size: usize) -> Row {
    Row::new([("engine", name.clone()), ("isa", isa.clone()), ("entries", size.to_string())])
}

/// Those that were asked for, or all tables; the paper's also at its own batch and others, and ours
/// with no more instructions than the paper's.
fn contestants(context: &Context) -> Vec<Contestant> {
    if !context.engines().is_empty() {
        let named = |name: &String| {
            let mut found = contestants::exact_named(name).ok()?;
            found.name.clone_from(name);
            Some(found)
        };
        return context.engines().iter().filter_map(named).collect();
    }
    let paper = lookup::exact::engine("cuckoo").into_iter().flat_map(|entry| {
        PAPER.into_iter().filter(|(_, name)| *name != entry.card.name).map(move |(batch, name)| {
            let mut options = matching::fixed_seed();
            options.0.insert("batch".into(), batch.into());
            Contestant::engine(entry, name, options)
        })
    });
    let all: Vec<Contestant> = contestants::exact().into_iter().chain(paper).collect();
    let has_more = all.iter().any(|one| one.name == NAME && one.isa != PORTABLE);
    let portable = lookup::exact::engine(NAME).filter(|_| has_more).map(|entry| {
        let mut options = matching::fixed_seed();
        options.0.insert("isa".into(), PORTABLE.into());
        Contestant::engine(entry, NAME_PORTABLE, options)
    });
    all.into_iter().chain(portable).collect()
}

/// Times tables of the first `size` entries side by side.
fn compare(context: &Context, filled: Vec<Filled>, size: usize) -> Vec<Row> {
    let n = context.pick(1 << 22, 1 << 20);
    let (hits, all_found) = matching::keys_of(size, matching::entry, n, 0, 1);
    let (halves, half_found) = matching::keys_of(size, matching::entry, n, 50, 2);
    let expected = [&all_found, &half_found].map(|values| matching::checksum(values));
    let right = |one: &Filled| {
        let found = |keys| matching::checksum(&one.table.stream(keys).answers());
        [&hits, &halves].map(|keys| found(keys)) == expected
    };
    let (right, wrong): (Vec<Filled>, Vec<Filled>) = filled.into_iter().partition(right);
    let wrong = wrong.into_iter().map(|one| one.row.noting("it answers wrongly"));
    let mut rows: Vec<Row> = wrong.collect();
    let labels = [("engine", LINES.to_string()), ("entries", size.to_string())];
    let (bound, lines) = (Row::new(labels), Lines::new(lines(size), Kind::Transparent));
    let mut variants = Vec::new();
    for one in &right {
        for (keys, burst) in [(&hits, 256), (&hits, 64), (&halves, 256)] {
            variants.push(Variant::new("", matching::rate(one.table.stream(keys), n, burst)));
        }
    }
    variants.extend(lines.iter().map(|lines| Variant::new("", lines.independent())));
    let mut timings = context.measure(&mut variants);
    drop(variants);
    rows.push(match &lines {
        Ok(_) => bound.with("rate_mlps", timings.pop().unwrap_or_default().rate.scaled(1e-6)),
        Err(reason) => bound.noting(reason),
    });
    drop(lines);
    let figures: Vec<[Figure; 3]> = timings
        .chunks(3)
        .map(|t| [&t[0], &t[1], &t[2]].map(|timing| timing.rate.scaled(1e-6)))
        .collect();
    let threaded = threads(context, &right, size);
    for ((mut one, [all, few, half]), rates) in right.into_iter().zip(figures).zip(threaded) {
        one.row = one.row.with("rate_mlps", all).with("rate_64_mlps", few);
        one.row = one.row.with("half_misses_mlps", half).checked(expected[0]);
        if let Some(ratio) = rates {
            one.row = one.row.with("two_threads_ratio", ratio);
        }
        let churn = churn(&mut *one.table, size);
        let mut row = one.row.with("churn_mps", churn);
        if row.label("engine") == NAME && context.pick(UPDATED, &UPDATED[..1]).contains(&size) {
            row = updates::measure(context, &mut *one.table, size, row);
        }
        rows.push(row);
    }
    rows
}

fn fill(contestant: &Contestant, entries: &[Entry], mut row: Row) -> Result<Filled, String> {
    let rate = |start| entries.len() as f64 / (clock::thread_time() - start).as_secs_f64() * 1e-6;
    let name = contestant.name.split(':').next().unwrap_or_default();
    if lookup::exact::engine(name).is_some() {
        let mut table = contestant.build(entries.len())?;
        let start = clock::thread_time();
        if table.insert_singly(entries) == Some(0) {
            row = row.with("single_insert_mps", rate(start));
        }
    }
    let mut table = contestant.build(entries.len())?;
    let start = clock::thread_time();
    let refused = table.insert(entries);
    row = row.with("insert_mps", rate(start));
    if refused > 0 {
        return Err(format!("{refused} of {} entries were refused", entries.len()));
    }
    if let Some(bytes) = table.bytes() {
        row = row.with("bytes_per_entry", bytes as f64 / entries.len() as f64);
    }
    Ok(Filled { table, row })
}

/// Two threads' rate over one's, where other threads may read: for each the time of a
/// lookup alone on its core over that beside the other, and the sum of these. The rate
/// of both in their best slice together over that of one would depend on luck, too: two
/// cores are seldom left in peace at the same time.
fn threads(context: &Context, tables: &[Filled], size: usize) -> Vec<Option<Figure>> {
    let mut taken = Vec::new();
    let timings = thread::scope(|scope| {
        let mut variants = Vec::new();
        for one in tables {
            let maker = |seed| maker(context, &*one.table, size, seed);
            let makers =
                |seeds: &[u64]| seeds.iter().map(|&s| maker(s)).collect::<Option<Vec<_>>>();
            let all = [&[0][..], &[1], &[0, 1]].map(makers);
            let all = all.into_iter().collect::<Option<Vec<_>>>();
            let all = all.filter(|_| clock::cores().len() > 1);
            taken.push(all.is_some());
            for (makers, before) in all.into_iter().flatten().zip([0, 1, 0]) {
                variants.push(Variant::new("", Crew::from(scope, before, makers)));
            }
        }
        context.measure(&mut variants)
    });
    let mut ratios = timings.chunks(3).map(|of| together(&of[0], &of[1], &of[2]));
    taken.into_iter().map(|took| if took { ratios.next() } else { None }).collect()
}

/// How many times one thread's work two do, by what each does alone.
fn together(first: &Timing, second: &Timing, both: &Timing) -> Figure {
    let nanos = |timing: &Timing, member: usize| {
        let name = crew::nanos_of(member);
        let found = timing.figures.iter().find(|(figure, _)| *figure == name);
        found.map_or(Figure::default(), |(_, nanos)| *nanos)
    };
    let share = |alone, member| goals::over(nanos(alone, 0), nanos(both, member));
    let (one, other) = (share(first, 0), share(second, 1));
    Figure { median: one.median + other.median, best: one.best + other.best, ..one }
}

fn maker<'s>(context: &Context, table: &dyn Table, size: usize, seed: u64) -> Option<Maker<'s>> {
    let n = context.pick(1 << 21, 1 << 18);
    let (keys, _) = matching::keys_of(size, matching::entry, n, 0, 10 + seed);
    let read = table.reader(&keys)?;
    Some(Box::new(move || Box::new(matching::reading(read, n))))
}

/// Lines of `mac-table` with room for `size` entries, 95 % of its slots.
fn lines(size: usize) -> usize {
    (size * 20).div_ceil(19 * 8).next_power_of_two()
}

/// Millions of updates a second: deletes, and inserts that put the entries back.
fn churn(table: &mut dyn Table, size: usize) -> f64 {
    let mut rng = crate::data::Rng::new(5);
    let mut some: Vec<Entry> = (0..CHURNED).map(|_| matching::entry(rng.below(size))).collect();
    some.sort_unstable();
    some.dedup();
    rng.shuffle(&mut some);
    let keys: Vec<_> = some.iter().map(|(key, _)| *key).collect();
    let start = clock::thread_time();
    table.delete(&keys);
    table.insert(&some);
    let time = clock::thread_time() - start;
    2.0 * some.len() as f64 / time.as_secs_f64() * 1e-6
}

const NAME: &str = "mac-table";

/// The same without vector instructions.
const NAME_PORTABLE: &str = "mac-table-portable";

/// Random lines as an engine.
const LINES: &str = "random lines";

/// The paper's table by its batch: that of the paper, then those that are best here.
const PAPER: [(&str, &str); 3] = [("14", "cuckoo-14"), ("64", "cuckoo-64"), ("0", "cuckoo")];

/// Tables that are also read beside updates.
const UPDATED: &[usize] = &[MILLION, SIXTY_MILLION];

const CHURNED: usize = 100_000;

/// 95 % of 2^20, 2^23 and 2^26 slots: one more, and the tables that grow by doubling
/// would be half empty.
const MILLION: usize = (1 << 20) / 20 * 19;
const EIGHT_MILLION: usize = (1 << 23) / 20 * 19;
const SIXTY_MILLION: usize = (1 << 26) / 20 * 19;

/// The largest table: 8.5 GiB, and minutes to fill.
const BILLION: usize = 1_000_000_000;
