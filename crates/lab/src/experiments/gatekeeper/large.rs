//! The tables by load once more, at 2^25 places: no cache holds them. One after the other, as
//! two do not always fit; each is filled once, from load to load.

use std::fmt;

use lookup::exact::flow::{FlowId, FlowKey, FlowTable, Wanted};

use super::{CHURN_ROUNDS, CHURNED, LOOKUPS, alone, answers, churn, grouped, insert, key, keys};
use super::{Contestant, contestants};
use crate::data::Rng;
use crate::slices::{Variant, rounds};
use crate::{Context, Error, Row, clock};

/// A table a cell.
pub(super) fn rows(context: &mut Context, loads: &[usize]) -> Result<Vec<Row>, Error> {
    let bits = context.pick(25, 18);
    let cells = contestants().map(|one| Cell(one, bits));
    context.cells(cells.collect::<Vec<_>>(), |context, Cell(one, bits)| {
        clock::cores().last().map(|&core| clock::pin(core));
        Ok(measure(context, *one, *bits, loads))
    })
}

/// A table, and the logarithm of its places.
struct Cell(Contestant, u32);

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cell(one, bits) = self;
        write!(f, "{}, {}, 2^{bits} places", one.name(), one.isa)
    }
}

fn measure(context: &Context, one: Contestant, bits: u32, loads: &[usize]) -> Vec<Row> {
    let places = 1_usize << bits;
    let row = |tenths: usize| {
        let load = format!("{:.1}", tenths as f64 / 10.0);
        one.row().labelled("load", load).labelled("places", format!("2^{bits}"))
    };
    let wanted = Wanted { entries: places - 1, second: 1000 };
    let mut table = match one.build(wanted, super::full::options(one)) {
        Ok(table) => table,
        Err(refusal) => return vec![row(loads[0]).noting(refusal.to_string())],
    };
    // The first flows leave at one load or another; those that are looked up stay.
    let least = places * loads[0] / 10;
    let leave = (least / (2 * loads.len())).min(CHURN_ROUNDS * CHURNED);
    let (mut rows, mut made) = (Vec::new(), 0);
    for (step, &tenths) in loads.iter().enumerate() {
        let flows = places * tenths / 10;
        let timed = (flows / 10).min(TIMED);
        let mut full = fill(&mut *table, made..flows - timed);
        let last = keys(flows - timed..flows);
        let start = clock::thread_time();
        full += insert(&mut *table, &last);
        let inserts = timed as f64 / (clock::thread_time() - start).as_secs_f64() * 1e-6;
        made = flows;
        if full > 0 {
            rows.push(row(tenths).noting(format!("full: {full} of {flows} flows found no place")));
            break;
        }
        let row = row(tenths).with("insert_mps", inserts);
        let stay = loads.len() * leave..flows;
        let Some(row) = looked_up(context, &*table, row.clone(), stay) else {
            rows.push(Row { figures: Default::default(), ..row }.noting("it answers wrongly"));
            break;
        };
        let old = keys(step * leave..(step + 1) * leave);
        let fresh = u32::MAX / 2 + (step * leave) as u32;
        match churn(&mut *table, &old, fresh) {
            Some(figure) => rows.push(row.with("churn_mps", figure)),
            None => {
                rows.push(row.noting("full during churn"));
                break;
            }
        }
    }
    rows
}

/// Lookups of the flows numbered `stay`, and of others; `None` where answers are wrong.
fn looked_up(
    context: &Context,
    table: &dyn FlowTable,
    row: Row,
    stay: std::ops::Range<usize>,
) -> Option<Row> {
    // As many as no cache holds.
    let n = (stay.end / 8).max(LOOKUPS);
    let mut rng = Rng::new(stay.end as u64);
    let hits: Vec<FlowKey> =
        (0..n).map(|_| key((stay.start + rng.below(stay.len())) as u32)).collect();
    let misses: Vec<FlowKey> = (0..n as u32).map(|i| key(u32::MAX - i)).collect();
    if !answers(table, &hits, &misses) {
        return None;
    }
    let of = |look_up: fn(&dyn FlowTable, &[FlowKey]) -> u64, keys| {
        let keys: &Vec<FlowKey> = keys;
        let run = move |from, n| {
            look_up(table, &keys[from..from + n]);
        };
        Variant::new("", rounds(keys.len(), STEP, run))
    };
    let mut variants = [of(alone, &hits), of(grouped, &hits), of(grouped, &misses)];
    let timings = context.measure(&mut variants);
    let figures = ["scalar_mlps", "rate_mlps", "misses_mlps"];
    let with = |row: Row, (figure, timing): (&str, &crate::slices::Timing)| {
        row.with(figure, timing.rate.scaled(1e-6))
    };
    Some(figures.into_iter().zip(&timings).fold(row, with))
}

/// Makes the flows of these numbers; returns how many found no place.
fn fill(table: &mut dyn FlowTable, flows: std::ops::Range<usize>) -> usize {
    let (mut ids, mut full) = ([FlowId::NONE; BATCH], 0);
    for first in flows.clone().step_by(BATCH) {
        let keys = keys(first..flows.end.min(first + BATCH));
        let ids = &mut ids[..keys.len()];
        table.find_or_insert_batch(0, 1, &keys, ids, &mut |_, _, _| ());
        full += ids.iter().filter(|id| id.is_none()).count();
    }
    full
}

/// Flows whose making is timed, at most.
const TIMED: usize = 1 << 20;
const BATCH: usize = 64;
/// Lookups between two looks at the clock.
const STEP: usize = 1 << 13;
