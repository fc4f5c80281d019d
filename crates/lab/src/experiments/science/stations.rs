//! CuckooSwitch's side of `science/verdicts`: its table and the rivals of its paper in turn, one
//! address after the other and in bursts, on tables of random stations.

use crate::contestants;
use crate::experiments::cuckooswitch::is_small;
use crate::matching::{self, Contestant, Table};
use crate::slices::Variant;
use crate::{Context, Error, Row, clock};

/// The paper's table, by its name of ours.
pub(super) const CUCKOO: &str = "cuckoo";
/// Its rivals, those of its figure 7.
pub(super) const RIVALS: [&str; 4] = ["tbb-hash", "std-unordered", "google-sparse", "google-dense"];
/// Stands for the family of prefixes in labels.
pub(super) const FAMILY: &str = "mac";

/// Rows as a study has them; none where this build has no rivals, or other engines were asked for.
pub(super) fn rows(context: &mut Context) -> Result<Vec<Row>, Error> {
    let here = contestants::exact();
    let is_wanted = |one: &Contestant| RIVALS.contains(&&*one.name) && context.engines().is_empty();
    if !here.iter().any(is_wanted) {
        return Ok(Vec::new());
    }
    let cells = context.pick(&SIZES[..], &QUICK).iter().map(|size| format!("stations:{size}"));
    context.cells(cells.collect::<Vec<_>>(), |context, name| {
        Ok(measure(context, name, size(name).unwrap_or_default()))
    })
}

/// Whether a table of stations is small to the paper: it fits the L3 cache.
pub(super) fn are_few(table: &str) -> bool {
    size(table).is_some_and(is_small)
}

fn size(table: &str) -> Option<usize> {
    table.strip_prefix("stations:")?.parse().ok()
}

fn measure(context: &Context, name: &str, size: usize) -> Vec<Row> {
    clock::cores().last().map(|&core| clock::pin(core));
    let (mut rows, mut filled) = (Vec::<Row>::new(), Vec::<(String, Box<dyn Table>)>::new());
    let blank = |engine: &str| {
        // Rivals have no other form: what their libraries are compiled for.
        let labels = [("engine", engine), ("family", FAMILY), ("isa", matching::PORTABLE)];
        Row::new(labels).labelled("table", name)
    };
    for engine in RIVALS.into_iter().chain([CUCKOO]) {
        let found = contestants::exact_named(engine);
        match found.and_then(|one| matching::filled(&one, size, matching::entry, &mut |_| ())) {
            Ok((table, _)) => filled.push((engine.into(), table)),
            Err(refusal) => rows.push(blank(engine).noting(refusal)),
        }
    }
    let n = context.pick(1 << 22, 1 << 18);
    for (traffic, misses) in [("hits", 0), ("half misses", 50)] {
        let (keys, values) = matching::keys_of(size, matching::entry, n, misses, 1);
        let want = matching::checksum(&values);
        let mut taking_part = Vec::new();
        for (engine, table) in &filled {
            let row = blank(engine).labelled("traffic", traffic);
            match matching::checksum(&table.stream(&keys).answers()) == want {
                true => taking_part.push((row.checked(want), table)),
                false => rows.push(row.noting("it answers wrongly")),
            }
        }
        let mut variants = Vec::new();
        for (_, table) in &taking_part {
            let rate = |burst| matching::rate(table.stream(&keys), n, burst);
            variants.extend(BURSTS.map(|burst| Variant::new("", rate(burst))));
        }
        let timings = context.measure(&mut variants);
        drop(variants);
        for ((row, _), of) in taking_part.into_iter().zip(timings.chunks(BURSTS.len())) {
            let rate = |at: usize| of[at].rate.scaled(1e-6);
            rows.push(row.with("scalar_mlps", rate(0)).with("rate_mlps", rate(1)));
        }
    }
    rows
}

/// One by one, and many.
const BURSTS: [usize; 2] = [1, 256];

/// 95 % of 2^20 and 2^23 slots.
const SIZES: [usize; 2] = [996_147, 7_969_177];
const QUICK: [usize; 1] = [99_614];
