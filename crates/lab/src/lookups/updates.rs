//! What an update costs.
//!
//! An engine that updates may still ask for a larger table, or for one without gaps. It is then
//! built anew, as by the router, and the updates' time includes that. An engine that asks again
//! at the very next change does not update, and has no figures.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use lookup::rib::Change;
use lookup::{Hop, Prefix, Rib};

use super::field::{Built, Field};
use crate::clock;
use crate::contestants::Family;
use crate::data::{Rng, Traffic};
use crate::record::Figure;
use crate::{Error, Row};

/// Deletes prefixes and puts them back: alone, then while another core reads;
/// then turns the default route.
pub(super) fn row<A: Family>(
    field: &Field<'_, A>,
    one: &mut Built<A>,
    mut row: Row,
) -> Result<Row, Error> {
    let mut rng = Rng::new(7);
    let n = field.context.pick(20_000, 2_000);
    let picks: Vec<_> = (0..n).map(|_| field.routes[rng.below(field.routes.len())]).collect();
    let dsts = Traffic::Prefix.draw(&field.routes, 1 << 14, 9);
    let mut table = Table::new(one, field.rib.clone());
    let updates = match churn(&mut table, &picks) {
        Ok(Some((alone, updates))) => {
            row = row.with("update_us", alone);
            updates
        }
        Ok(None) => return Ok(row.noting("no update in place: it is rebuilt")),
        Err(refusal) => return Ok(row.noting(format!("update: {refusal}"))),
    };
    for (name, counted) in table.counted() {
        // The most of one update is no sum.
        let most = name.ends_with("_most").then_some(counted.most as f64);
        let each = counted.grown as f64 / updates as f64;
        if counted.changed {
            row = row.with(format!("{name}_per_update"), most.unwrap_or(each));
        }
    }
    if field.has(super::Measure::WorstUpdates) {
        match worst(&mut table, &picks) {
            Ok(found) => {
                for (name, each) in found {
                    row = row.with(format!("{name}_worst_per_update"), each);
                }
            }
            Err(refusal) => return Ok(row.noting(format!("update: {refusal}"))),
        }
    }
    let found = beside_a_reader(&mut table, &dsts, |table| {
        let random = churn(table, &picks)?.map(|(mean, _)| mean);
        Ok((random, default_route(table)?))
    });
    match found {
        Ok(Some((random, default))) => {
            // What has no samples is left out.
            row = row.with("update_beside_reader_us", random.unwrap_or_default());
            row = row.with("update_default_us", default.unwrap_or_default());
            if random.is_none() || default.is_none() {
                row = row.noting("update beside a reader: it is rebuilt at each change");
            }
        }
        Ok(None) => {}
        Err(refusal) => row = row.noting(format!("update beside a reader: {refusal}")),
    }
    if table.rebuilds > 0 {
        row = row.with("rebuilds", table.rebuilds as f64);
    }
    let wrong = dsts.iter().find(|dst| table.one.subject.lookup(**dst) != field.flat.lookup(**dst));
    if let Some(dst) = wrong {
        // Everything else that it said is then worth nothing.
        let blank = Row { figures: Default::default(), ..row };
        return Ok(blank.noting(format!("{} is answered wrongly after updates", dst.to_ip())));
    }
    Ok(row)
}

/// A contestant's table, with the routes that it holds.
struct Table<'c, A: Family> {
    one: &'c mut Built<A>,
    rib: Rib<A>,
    /// Not updated in place since it was built.
    fresh: bool,
    rebuilds: usize,
    /// The counters of this table when it was built, and those of the tables before it.
    before: Vec<(&'static str, u64)>,
    earlier: BTreeMap<&'static str, Counted>,
    /// Who reads meanwhile, and what.
    reader: Option<(Sender<Reader>, Vec<A>)>,
}

/// Looks destinations up.
type Reader = Box<dyn FnMut() + Send>;

/// What updates did to a counter.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Counted {
    grown: u64,
    most: u64,
    changed: bool,
}

impl<'c, A: Family> Table<'c, A> {
    fn new(one: &'c mut Built<A>, rib: Rib<A>) -> Self {
        let (before, earlier) = (one.subject.counters(), BTreeMap::new());
        let (fresh, rebuilds, reader) = (true, 0, None);
        Table { one, rib, fresh, rebuilds, before, earlier, reader }
    }

    /// Makes a change; false where the engine does not update.
    fn update(&mut self, change: &Change<A>) -> Result<bool, String> {
        if self.one.subject.update(&mut self.rib, change)? {
            self.fresh = false;
            return Ok(true);
        }
        if self.fresh {
            return Ok(false);
        }
        self.earlier = self.counted();
        // The rib has the change already; a reader goes on with the table that it has.
        self.one.subject = self.one.contestant.build(&self.rib)?;
        self.before = self.one.subject.counters();
        if let Some((renewed, dsts)) = &self.reader {
            let reader = self.one.subject.reader(dsts).ok_or("nobody may read it")?;
            // The reader lives as long as updates are measured.
            let _ = renewed.send(reader);
        }
        (self.fresh, self.rebuilds) = (true, self.rebuilds + 1);
        Ok(true)
    }

    /// What became of each counter, of this table and of those before it together.
    fn counted(&self) -> BTreeMap<&'static str, Counted> {
        let mut all = self.earlier.clone();
        for ((name, after), (_, before)) in
            self.one.subject.counters().into_iter().zip(&self.before)
        {
            let counted = all.entry(name).or_default();
            counted.grown += after.saturating_sub(*before);
            counted.most = counted.most.max(after);
            counted.changed |= after != *before;
        }
        all
    }
}

/// `work` while the first core looks `dsts` up; `None` where that is not allowed.
fn beside_a_reader<A: Family, R>(
    table: &mut Table<'_, A>,
    dsts: &[A],
    work: impl FnOnce(&mut Table<'_, A>) -> Result<R, String>,
) -> Result<Option<R>, String> {
    let Some(mut read) = table.one.subject.reader(dsts).filter(|_| clock::cores().len() > 1) else {
        return Ok(None);
    };
    let (renewed, inbox) = channel();
    table.reader = Some((renewed, dsts.to_vec()));
    let stop = &AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(move || {
            clock::pin(clock::cores()[0]);
            while !stop.load(Ordering::Relaxed) {
                if let Some(of_another) = inbox.try_iter().last() {
                    read = of_another;
                }
                read();
            }
        });
        let found = work(table);
        stop.store(true, Ordering::Relaxed);
        table.reader = None;
        found.map(Some)
    })
}

/// Microseconds of an update, and how many there were; `None` where there is none
/// in place.
fn churn<A: Family>(
    table: &mut Table<'_, A>,
    picks: &[(Prefix<A>, Hop)],
) -> Result<Option<(Figure, usize)>, String> {
    let (mut means, mut updates, start) = (Vec::new(), 0, clock::thread_time());
    for picks in picks.chunks(UPDATES_AT_ONCE) {
        // Some engines take a millisecond an update: a few hundred must do then.
        if clock::thread_time() - start > LONGEST && means.len() >= LEAST_CHUNKS {
            break;
        }
        let changes = picks.iter().flat_map(|(prefix, hop)| {
            [None, Some(*hop)].map(|hop| Change { prefix: *prefix, hop })
        });
        updates += 2 * picks.len();
        match timed(table, &changes.collect::<Vec<_>>())? {
            Some(mean) => means.push(mean),
            None => return Ok(None),
        }
    }
    Ok(Some((Figure::least_is_best(&means), updates)))
}

/// What an update adds to each counter, in the worst [`IN_A_ROW`] of them.
fn worst<A: Family>(
    table: &mut Table<'_, A>,
    picks: &[(Prefix<A>, Hop)],
) -> Result<BTreeMap<&'static str, f64>, String> {
    let (mut worst, mut before) = (BTreeMap::new(), table.counted());
    for picks in picks.chunks_exact(IN_A_ROW / 2) {
        for (prefix, hop) in picks {
            for hop in [None, Some(*hop)] {
                table.update(&Change { prefix: *prefix, hop })?;
            }
        }
        let after = table.counted();
        for (name, counted) in &after {
            let had = before.get(name).map_or(0, |had| had.grown);
            let each = counted.grown.saturating_sub(had) as f64 / IN_A_ROW as f64;
            let most = worst.entry(*name).or_insert(0.0_f64);
            *most = most.max(each);
        }
        before = after;
    }
    worst.retain(|_, each| *each > 0.0);
    Ok(worst)
}

/// Microseconds of a change of the default route, which afterwards is as before.
fn default_route<A: Family>(table: &mut Table<'_, A>) -> Result<Option<Figure>, String> {
    let prefix = Prefix::all();
    let before = table.rib.get(&prefix);
    let mut means = Vec::new();
    for _ in 0..DEFAULT_ROUNDS {
        let change = |i: u32| Change { prefix, hop: Some(Hop(1 + i % 2)) };
        let changes: Vec<_> = (0..DEFAULTS_AT_ONCE).map(change).collect();
        match timed(table, &changes)? {
            Some(mean) => means.push(mean),
            None => return Ok(None),
        }
    }
    timed(table, &[Change { prefix, hop: before }])?;
    Ok(Some(Figure::least_is_best(&means)))
}

/// The mean time of `changes`, in microseconds.
fn timed<A: Family>(
    table: &mut Table<'_, A>,
    changes: &[Change<A>],
) -> Result<Option<f64>, String> {
    let start = clock::thread_time();
    for change in changes {
        if !table.update(change)? {
            return Ok(None);
        }
    }
    let time = clock::thread_time() - start;
    Ok(Some(time.as_secs_f64() * 1e6 / changes.len() as f64))
}

/// One row for each length that the table has: what an update of such a prefix costs.
pub(super) fn by_length<A: Family>(field: &Field<'_, A>, one: &mut Built<A>) -> Vec<Row> {
    let mut table = Table::new(one, field.rib.clone());
    let mut rows = Vec::new();
    for len in 1..=A::WIDTH {
        let of_length: Vec<_> =
            field.routes.iter().filter(|(prefix, _)| prefix.len() == len).copied().collect();
        if of_length.is_empty() {
            continue;
        }
        let mut rng = Rng::new(u64::from(len));
        let n = field.context.pick(2_000, 200).min(of_length.len());
        let picks: Vec<_> = (0..n).map(|_| of_length[rng.below(of_length.len())]).collect();
        let mut row = table.one.blank.clone();
        row.labels.insert("length".into(), len.to_string());
        match churn(&mut table, &picks) {
            Ok(Some((mean, _))) => rows.push(row.with("update_us", mean)),
            Ok(None) => {
                return vec![table.one.blank.clone().noting("no update in place: it is rebuilt")];
            }
            Err(refusal) => rows.push(row.noting(format!("update: {refusal}"))),
        }
    }
    rows
}

const UPDATES_AT_ONCE: usize = 200;
/// Updates whose counters are looked at together, as in the figure of SAIL's updates.
const IN_A_ROW: usize = 500;
/// Processor time for all updates of a kind, and how many are timed at least.
const LONGEST: Duration = Duration::from_secs(1);
const LEAST_CHUNKS: usize = 3;
const DEFAULTS_AT_ONCE: u32 = 10;
const DEFAULT_ROUNDS: usize = 5;

#[cfg(test)]
mod tests {
    use lookup::lpm::{Intervals, Options};

    use super::*;
    use crate::contestants;

    fn built<A: Family>(engine: &str, rib: &Rib<A>) -> Built<A> {
        let contestant = contestants::named::<A>(engine, Options::default()).expect("one of ours");
        let subject = contestant.build(rib).expect("within the limits");
        Built { name: engine.into(), contestant, subject, blank: Row::default() }
    }

    /// Routes of `len` bits below `within`, each far from the others.
    fn scattered<A: Family>(within: Prefix<A>, len: u8, n: u32) -> Vec<(Prefix<A>, Hop)> {
        let route = |i: u32| {
            let below = u128::from(i.wrapping_mul(0x9e37_79b9)) << (A::WIDTH - len);
            let first = within.first().to_u128() | (below & within.last().to_u128());
            (Prefix::covering(A::from_u128(first), len), Hop(1 + i % 9))
        };
        (0..n).map(route).collect()
    }

    fn answers<A: Family>(table: &Table<'_, A>) {
        let flat = Intervals::new(table.rib.iter());
        for (prefix, _) in table.rib.iter() {
            let dst = prefix.first();
            assert_eq!(table.one.subject.lookup(dst), flat.lookup(dst), "{prefix}");
        }
    }

    /// `engine` with the routes `few` takes each part of `more`, and has to be built anew for it.
    fn outgrows<A: Family>(engine: &str, few: &[(Prefix<A>, Hop)], more: [&[(Prefix<A>, Hop)]; 2]) {
        let rib: Rib<A> = few.iter().copied().collect();
        let mut one = built(engine, &rib);
        let mut table = Table::new(&mut one, rib);
        let grow = |table: &mut Table<'_, A>, picks| {
            let before = table.rebuilds;
            let found = churn(table, picks).expect("no limit is reached");
            let (mean, updates) = found.expect("it updates in place");
            assert!(mean.median > 0.0 && updates > 0);
            assert!(table.rebuilds > before, "{engine}: {updates} updates fit");
            Ok(())
        };
        grow(&mut table, more[0]).expect("no more is asked of it");
        answers(&table);
        let dsts: Vec<A> = table.rib.iter().map(|(prefix, _)| prefix.first()).collect();
        // On one core, nobody reads beside.
        let beside = clock::cores().len() > 1;
        let read = beside_a_reader(&mut table, &dsts, |table| grow(table, more[1]));
        assert_eq!(read, Ok(beside.then_some(())));
        assert!(default_route(&mut table).expect("no limit").is_some_and(|f| f.median > 0.0));
        answers(&table);
    }

    #[test]
    fn a_table_that_is_outgrown_is_built_anew_within_the_time() {
        let within = Prefix::<u128>::new(0x2001 << 112, 16).expect("a /16");
        let long = scattered(within, 64, 8_000);
        outgrows("rutter6", &scattered(within, 48, 100), [&long[..2_000], &long[2_000..]]);
    }

    #[test]
    fn hops_too_wide_for_a_table_are_in_the_one_built_anew() {
        let routes = scattered(Prefix::<u32>::all(), 24, 700);
        let mut wide = routes[100..].to_vec();
        wide[300].1 = Hop(1 << 20);
        let mut one = built("rutter4", &routes[..100].iter().copied().collect());
        let mut table = Table::new(&mut one, routes[..100].iter().copied().collect());
        let found = churn(&mut table, &wide).expect("no limit is reached");
        assert!(found.is_some_and(|(mean, updates)| mean.median > 0.0 && updates == 1200));
        assert_eq!(table.rebuilds, 1);
        answers(&table);
    }

    #[test]
    fn counters_go_on_in_the_table_built_anew() {
        let within = Prefix::<u32>::all();
        let mut routes = scattered(within, 24, 20);
        routes[10].1 = Hop(0x8000);
        let mut one = built("sail-l", &Rib::<u32>::new());
        let mut table = Table::new(&mut one, Rib::new());
        assert!(churn(&mut table, &routes).is_ok_and(|found| found.is_some()));
        assert_eq!(table.rebuilds, 1);
        // The change that asked for another table is counted by neither of the two.
        assert_eq!(table.counted()["updates"].grown, 39);
    }

    #[test]
    fn the_worst_of_many_updates_is_no_less_than_their_mean() {
        let routes = scattered(Prefix::<u32>::all(), 20, 1_000);
        let rib: Rib<u32> = routes.iter().copied().collect();
        let mut one = built("sail-l", &rib);
        let mut table = Table::new(&mut one, rib);
        let worst = worst(&mut table, &routes).expect("no limit is reached");
        let name = "update_off_chip_words";
        let mean = table.counted()[name].grown as f64 / 2_000.0;
        assert!(worst[name] >= mean && mean > 0.0, "{} and {mean}", worst[name]);
        assert_eq!(worst["updates"], 1.0);
    }

    #[test]
    fn an_engine_that_never_updates_has_no_time() {
        let rib: Rib<u32> = scattered(Prefix::all(), 24, 100).into_iter().collect();
        let mut one = built("lulea", &rib);
        let mut table = Table::new(&mut one, rib);
        assert_eq!(churn(&mut table, &scattered(Prefix::all(), 24, 10)), Ok(None));
        assert_eq!(table.rebuilds, 0);
        // The hop of its default route is not in the table.
        let default = Change { prefix: Prefix::all(), hop: Some(Hop(3)) };
        assert_eq!(table.update(&default), Ok(true));
    }
}
