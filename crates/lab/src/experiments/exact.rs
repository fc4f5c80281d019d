//! `exact/peers`: exact-match tables of Ethernet addresses, ours and rivals; and
//! ours of 10⁹.

mod billion;

use std::thread;

use crate::crew::{self, Crew, Maker};
use crate::matching::{self, Contestant, Entry, Table};
use crate::record::{Figure, short};
use crate::slices::Variant;
use crate::{Card, Context, Error, Experiment, Plot, Record, Row, Style, Verdict, clock};

/// See the module.
pub struct Peers;

impl Experiment for Peers {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        let sizes: &[usize] = context
            .pick(&[MILLION, EIGHT_MILLION, SIXTY_MILLION, BILLION], &[MILLION, EIGHT_MILLION]);
        let rows = context.cells(sizes.iter().copied(), |context, &size| {
            let measure = if size == BILLION { billion::measure } else { measure };
            Ok(measure(context, size))
        })?;
        let mut notes = vec![
            "uniformly random keys of the table; address and domain are one key of 60 bits"
                .to_string(),
            "bytes of the crates' maps are not told".into(),
            "inserts: into a table made for so many, ours in batches and also one by one, rivals \
             as they can, which is one by one"
                .into(),
            "10⁹ entries: mac-table alone; the others would take 33 GB and more".into(),
        ];
        if matching::all().iter().all(|contestant| contestant.ours) {
            notes.push("built without the feature `rivals`: only our own tables took part".into());
        }
        Ok(context.record(rows.clone(), verdicts(&rows), notes))
    }
}

const CARD: Card = Card {
    name: "exact/peers",
    help: "exact-match tables, ours and rivals: hits, misses, inserts, updates, bytes, two threads",
    source: "issue on exact match, point 2",
    claim: "mac-table: 130 M lookups/s at 1 M entries, 40 at 10⁹, 3 × rte_hash; two cores 1.8 ×; misses at 60 % of the hit rate",
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
    for contestant in matching::all() {
        let labels = [("engine", contestant.name.clone()), ("entries", size.to_string())];
        let row = Row::new(labels);
        match fill(&contestant, &entries, row.clone()) {
            Ok(one) => filled.push(one),
            Err(refusal) => rows.push(row.noting(refusal)),
        }
    }
    drop(entries);
    rows.extend(compare(context, filled, size));
    rows
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
    let mut variants = Vec::new();
    for one in &right {
        for (keys, burst) in [(&hits, 256), (&hits, 64), (&halves, 256)] {
            variants.push(Variant::new("", matching::rate(one.table.stream(keys), n, burst)));
        }
    }
    let timings = context.measure(&mut variants);
    drop(variants);
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
        rows.push(one.row.with("churn_mps", churn));
    }
    rows
}

fn fill(contestant: &Contestant, entries: &[Entry], mut row: Row) -> Result<Filled, String> {
    let rate = |start| entries.len() as f64 / (clock::thread_time() - start).as_secs_f64() * 1e-6;
    if contestant.ours {
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

/// Two threads' rate over one's, where other threads may read.
fn threads(context: &Context, tables: &[Filled], size: usize) -> Vec<Option<f64>> {
    let mut taken = Vec::new();
    let timings = thread::scope(|scope| {
        let mut variants = Vec::new();
        for one in tables {
            let makers =
                |n| (0..n).map(|seed| maker(&*one.table, size, seed)).collect::<Option<Vec<_>>>();
            let both = makers(1).zip(makers(2)).filter(|_| clock::cores().len() > 1);
            taken.push(both.is_some());
            if let Some((single, double)) = both {
                variants.push(Variant::new("1", Crew::new(scope, single)));
                variants.push(Variant::new("2", Crew::new(scope, double)));
            }
        }
        context.measure(&mut variants)
    });
    let mut pairs = timings.chunks(2).map(|pair| pair[1].rate.median / pair[0].rate.median);
    taken.into_iter().map(|took| if took { pairs.next() } else { None }).collect()
}

fn maker<'s>(table: &dyn Table, size: usize, seed: u64) -> Option<Maker<'s>> {
    let (keys, _) = matching::keys_of(size, matching::entry, 1 << 18, 0, 10 + seed);
    table.reader(&keys).map(|read| crew::pass(1 << 18, read))
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

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let figure = |engine: &str, entries: &str, figure: &str| {
        let labels = [("engine", engine), ("entries", entries)];
        rows.iter().find(|row| row.is(&labels))?.median(figure)
    };
    let mut verdicts = Vec::new();
    for (size, least) in [(MILLION, 130.0), (SIXTY_MILLION, 88.0), (BILLION, 40.0)] {
        let entries = &*size.to_string();
        if let Some(rate) = figure("mac-table", entries, "rate_mlps") {
            let claim = format!("mac-table: ≥ {least} M lookups/s at {entries} entries (Zen 3)");
            verdicts.push(Verdict::at_least(claim, rate, least, "M/s"));
        }
        let ratio = figure("mac-table", entries, "two_threads_ratio");
        if let Some(ratio) = ratio {
            let least = if size == MILLION { 1.8 } else { 1.6 };
            let claim = format!("mac-table, {entries} entries: two threads ≥ {least} × one");
            verdicts.push(Verdict::at_least(claim, ratio, least, "×"));
        }
    }
    for size in [MILLION, EIGHT_MILLION, SIXTY_MILLION, BILLION] {
        let entries = &*size.to_string();
        let ours = figure("mac-table", entries, "rate_mlps");
        let half = figure("mac-table", entries, "half_misses_mlps");
        if let Some((ours, half)) = ours.zip(half) {
            let claim =
                format!("mac-table, {entries} entries: half misses at ≥ 60 % of the hit rate");
            verdicts.push(Verdict::at_least(claim, half / ours * 100.0, 60.0, "%"));
        }
        if let Some((ours, rte)) = ours.zip(figure("rte_hash", entries, "rate_mlps")) {
            let claim = format!("mac-table, {entries} entries: ≥ 3 × rte_hash in bulk");
            let measured = format!("{} × ({} M/s)", short(ours / rte), short(ours));
            verdicts.push(Verdict { claim, measured, confirmed: Some(ours / rte >= 3.0) });
        }
        if let Some(inserts) = figure("mac-table", entries, "insert_mps") {
            let least = if size == BILLION { 4.0 } else { 5.0 };
            let claim = format!("mac-table, {entries} entries: filled at ≥ {least} M inserts/s");
            verdicts.push(Verdict::at_least(claim, inserts, least, "M/s"));
        }
    }
    verdicts
}

const CHURNED: usize = 100_000;

/// 95 % of 2^20, 2^23 and 2^26 slots: one more, and the tables that grow by doubling
/// would be half empty.
const MILLION: usize = (1 << 20) / 20 * 19;
const EIGHT_MILLION: usize = (1 << 23) / 20 * 19;
const SIXTY_MILLION: usize = (1 << 26) / 20 * 19;

/// The largest table: 8.5 GiB, and minutes to fill.
const BILLION: usize = 1_000_000_000;
