//! What an update costs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use lookup::rib::Change;
use lookup::{Hop, Prefix, Rib};

use super::field::{Built, Field};
use crate::clock;
use crate::contest::Subject;
use crate::contestants::Family;
use crate::data::{Rng, Traffic};
use crate::record::Figure;
use crate::{Error, Row};

/// Deletes prefixes and puts them back: alone, then while another core reads;
/// then turns the default route.
pub(super) fn row<A: Family>(
    field: &Field<'_, A>,
    mut one: Built<A>,
    row: Row,
) -> Result<Row, Error> {
    let mut rng = Rng::new(7);
    let n = field.context.pick(20_000, 2_000);
    let picks: Vec<_> = (0..n).map(|_| field.routes[rng.below(field.routes.len())]).collect();
    let dsts = Traffic::Prefix.draw(&field.routes, 1 << 14, 9);
    let (subject, mut rib) = (&mut *one.subject, field.rib.clone());
    let before = subject.counters();
    let (mut row, updates) = match churn(subject, &mut rib, &picks) {
        Ok(Some((alone, updates))) => (row.with("update_us", alone), updates),
        Ok(None) => return Ok(row.noting("no update in place: it is rebuilt")),
        Err(refusal) => return Ok(row.noting(format!("update: {refusal}"))),
    };
    for ((name, after), (_, before)) in subject.counters().iter().zip(before) {
        let grown = after.saturating_sub(before) as f64 / updates as f64;
        // The most of one update is no sum.
        let most = name.ends_with("_most").then_some(*after as f64);
        if *after != before {
            row = row.with(format!("{name}_per_update"), most.unwrap_or(grown));
        }
    }
    let found = beside_a_reader(subject, &dsts, |subject| {
        let random = churn(subject, &mut rib, &picks)?.map(|(mean, _)| mean);
        Ok((random, default_route(subject, &mut rib)?))
    });
    match found {
        Ok(Some((random, default))) => {
            // What has no samples is left out.
            row = row.with("update_beside_reader_us", random.unwrap_or_default());
            row = row.with("update_default_us", default.unwrap_or_default());
            if random.is_none() || default.is_none() {
                row = row.noting("update beside a reader: it asks to be built anew");
            }
        }
        Ok(None) => {}
        Err(refusal) => row = row.noting(format!("update beside a reader: {refusal}")),
    }
    let wrong = dsts.iter().find(|dst| one.subject.lookup(**dst) != field.flat.lookup(**dst));
    if let Some(dst) = wrong {
        // Everything else that it said is then worth nothing.
        let blank = Row { figures: Default::default(), ..row };
        return Ok(blank.noting(format!("{} is answered wrongly after updates", dst.to_ip())));
    }
    Ok(row)
}

/// `work` while the first core looks `dsts` up; `None` where that is not allowed.
fn beside_a_reader<A: Family, R>(
    subject: &mut dyn Subject<A>,
    dsts: &[A],
    work: impl FnOnce(&mut dyn Subject<A>) -> Result<R, String>,
) -> Result<Option<R>, String> {
    let Some(mut read) = subject.reader(dsts).filter(|_| clock::cores().len() > 1) else {
        return Ok(None);
    };
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            clock::pin(clock::cores()[0]);
            while !stop.load(Ordering::Relaxed) {
                read();
            }
        });
        let found = work(subject);
        stop.store(true, Ordering::Relaxed);
        found.map(Some)
    })
}

/// Microseconds of an update, and how many there were; `None` where there is none
/// in place.
fn churn<A: Family>(
    subject: &mut dyn Subject<A>,
    rib: &mut Rib<A>,
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
        match timed(subject, rib, &changes.collect::<Vec<_>>())? {
            Some(mean) => means.push(mean),
            None => return Ok(None),
        }
    }
    Ok(Some((Figure::least_is_best(&means), updates)))
}

/// Microseconds of a change of the default route, which afterwards is as before.
fn default_route<A: Family>(
    subject: &mut dyn Subject<A>,
    rib: &mut Rib<A>,
) -> Result<Option<Figure>, String> {
    let prefix = Prefix::all();
    let before = rib.get(&prefix);
    let mut means = Vec::new();
    for _ in 0..DEFAULT_ROUNDS {
        let change = |i: u32| Change { prefix, hop: Some(Hop(1 + i % 2)) };
        let changes: Vec<_> = (0..DEFAULTS_AT_ONCE).map(change).collect();
        match timed(subject, rib, &changes)? {
            Some(mean) => means.push(mean),
            None => return Ok(None),
        }
    }
    timed(subject, rib, &[Change { prefix, hop: before }])?;
    Ok(Some(Figure::least_is_best(&means)))
}

/// The mean time of `changes`, in microseconds.
fn timed<A: Family>(
    subject: &mut dyn Subject<A>,
    rib: &mut Rib<A>,
    changes: &[Change<A>],
) -> Result<Option<f64>, String> {
    let start = clock::thread_time();
    for change in changes {
        if !subject.update(rib, change)? {
            return Ok(None);
        }
    }
    let time = clock::thread_time() - start;
    Ok(Some(time.as_secs_f64() * 1e6 / changes.len() as f64))
}

/// One row for each length that the table has: what an update of such a prefix costs.
pub(super) fn by_length<A: Family>(field: &Field<'_, A>, one: &mut Built<A>) -> Vec<Row> {
    let mut rib = field.rib.clone();
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
        let mut row = one.blank.clone();
        row.labels.insert("length".into(), len.to_string());
        match churn(&mut *one.subject, &mut rib, &picks) {
            Ok(Some((mean, _))) => rows.push(row.with("update_us", mean)),
            Ok(None) => return vec![one.blank.clone().noting("no update in place: it is rebuilt")],
            Err(refusal) => rows.push(row.noting(format!("update: {refusal}"))),
        }
    }
    rows
}

const UPDATES_AT_ONCE: usize = 200;
/// Processor time for all updates of a kind, and how many are timed at least.
const LONGEST: Duration = Duration::from_secs(1);
const LEAST_CHUNKS: usize = 3;
const DEFAULTS_AT_ONCE: u32 = 10;
const DEFAULT_ROUNDS: usize = 5;
