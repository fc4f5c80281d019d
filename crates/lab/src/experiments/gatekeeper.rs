//! The thesis' flow tables: by load and when they are full (`gatekeeper/fig4.7`, here), and in
//! the path of a request ([`steps`]).

experiments! {
    mod steps: Fig46,
    : Fig47,
    mod path: Requests,
    in path: Declined,
    in path: Granted,
    in path: Mixed,
    mod shield: Shield,
    mod programs: Programs,
    mod policies: Policies,
    mod solicitor: Solicitor,
    mod goodput: Goodput,
}

mod bed;
mod full;
mod generator;
mod large;
mod site;
mod twins;

use std::ops::Range;

use lookup::exact::flow::{self, FlowId, FlowKey, FlowTable, Wanted};
use lookup::lpm::{Options, Refusal};

use crate::data::Rng;
use crate::lookups::Claim;
use crate::lookups::claims::{ratios, without};
use crate::matching::{self, fixed_seed};
use crate::record::Bound;
use crate::record::Figure;
use crate::slices::{Variant, repeat};
use crate::{Card, Context, Error, Experiment, Plot, Record, Row, Style, Takes, Verdict};
use crate::{clock, machine};

pub(super) use path::fixed;

/// See the module.
pub struct Fig47;

impl Experiment for Fig47 {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn judge(&self, rows: &[Row]) -> Vec<Verdict> {
        let mut verdicts =
            each_size(rows, |rows| outperform(rows).into_iter().chain(goals(rows)).collect());
        verdicts.extend(full::CLAIMS.iter().flat_map(|claim| claim.judge(rows)));
        verdicts
    }

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        let loads = context.pick(vec![1, 3, 5, 7, 9], vec![1, 5, 9]);
        let bits = context.pick(20, 17);
        let mut rows = context
            .cells(loads.iter().copied(), |context, tenths| Ok(measure(context, bits, *tenths)))?;
        rows.extend(large::rows(context, &loads)?);
        rows.extend(full::rows(context)?);
        let verdicts = self.judge(&rows);
        let notes = [
            "pairs of IPv4 addresses; load: flows over places",
            "2^20 places: all tables side by side; 2^25 places: one after the other, each filled from \
             load to load, lookups of an eighth of its flows",
            "inserts, misses, churn and full tables are not in the thesis",
            "requests: each of a batch of 64 is a new flow, and the table is full (those with open \
             addressing: to 95 %); ours replaces another, the others find no place",
            "isa: of calls that find or make flows; lookups are portable in every table. Two tables \
             have vectors, and are measured without them, too",
        ];
        Ok(context.record(rows, verdicts, notes.map(String::from).to_vec()))
    }
}

const CARD: Card = Card {
    name: "gatekeeper/fig4.7",
    takes: Takes { full_s: 480.0, quick_s: 25.0 },
    help: "six flow tables and ours by load: hits, misses, inserts, churn; new flows in full ones",
    source: "thesis, figure 4.7",
    claim: "hopscotch hashing and separate chaining outperform the others at loads of 0.1 to 0.9",
    plots: &[
        plot("Lookups one by one", "scalar_mlps", "million lookups/s"),
        plot("Lookups in groups of 32", "rate_mlps", "million lookups/s"),
        plot("Misses in groups of 32", "misses_mlps", "million lookups/s"),
        plot("Inserts", "insert_mps", "million inserts/s"),
        plot("Churn: one out, one in", "churn_mps", "million flows/s"),
        Plot {
            x: "places",
            panels: &[],
            style: Style::Bars,
            ..plot("New flows in a full table", "requests_mps", "million flows/s")
        },
    ],
};

const fn plot(title: &'static str, figure: &'static str, unit: &'static str) -> Plot {
    let (x, series, panels) = ("load", "engine+isa", &["places"]);
    Plot { title, figure, unit, x, series, panels, style: Style::Lines }
}

const MISSES: Claim = Claim::Ratio {
    text: "ours misses at least 2 × as fast as Hopscotch at a load of 0.9",
    figure: "misses_mlps",
    label: "engine",
    of: "flow-table",
    to: "hopscotch",
    bound: Bound::least(2.0).ours(),
    when: &[("load", "0.9")],
};

const CHURN: Claim = Claim::Ratio {
    text: "ours keeps up churn at least 2 × as well as linear probing at a load of 0.9",
    figure: "churn_mps",
    label: "engine",
    of: "flow-table",
    to: "linear",
    bound: Bound::least(2.0).ours(),
    when: &[("load", "0.9")],
};

/// The claims of equal instruction sets, then churn, whose calls make flows, of ours with the vectors
/// that the others lack.
fn goals(rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts: Vec<Verdict> =
        [MISSES, CHURN].iter().flat_map(|claim| claim.judge(rows)).collect();
    let is_ours = |row: &Row| row.label("engine") == OURS;
    let has_vectors = |row: &Row| !["", matching::PORTABLE].contains(&row.label("isa"));
    if let Some(isa) = rows.iter().find(|row| is_ours(row) && has_vectors(row)) {
        let isa = isa.label("isa");
        let rows: Vec<Row> =
            rows.iter().filter(|row| !is_ours(row) || has_vectors(row)).cloned().collect();
        verdicts.extend(CHURN.judge(&without(&rows, "isa")).into_iter().map(|verdict| Verdict {
            claim: format!("{}, by {isa} against portable", verdict.claim),
            ..verdict
        }));
    }
    verdicts
}

/// `judge` of the rows by load of each number of places, which its verdicts name.
fn each_size(rows: &[Row], judge: impl Fn(&[Row]) -> Vec<Verdict>) -> Vec<Verdict> {
    let by_load = rows.iter().filter(|row| !row.label("load").is_empty());
    let mut sizes: Vec<&str> = by_load.clone().map(|row| row.label("places")).collect();
    sizes.dedup();
    let of = |size: &&str| {
        let of = by_load.clone().filter(|row| row.label("places") == *size);
        let mut verdicts = judge(&of.cloned().collect::<Vec<_>>());
        for verdict in verdicts.iter_mut().filter(|_| !size.is_empty()) {
            verdict.claim = format!("{} [{size} places]", verdict.claim);
        }
        verdicts
    };
    if sizes.is_empty() { judge(&[]) } else { sizes.iter().flat_map(of).collect() }
}

/// The two good ones beside the best of the others, load by load.
fn outperform(rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (figure, how) in [("scalar_mlps", "one by one"), ("rate_mlps", "in groups of 32")] {
        for good in ["hopscotch", "chaining"] {
            let over = |row: &Row| {
                let is = |other: &&Row| {
                    OTHERS.contains(&other.label("engine"))
                        && ["load", "isa"].iter().all(|name| other.label(name) == row.label(name))
                };
                let others = rows.iter().filter(is).filter_map(|other| other.median(figure));
                Some(row.median(figure)? / others.reduce(f64::max)?)
            };
            let of = rows.iter().filter(|row| row.label("engine") == good);
            let found: Vec<f64> = of.filter_map(over).collect();
            let text =
                format!("{good} outperforms the others at loads of 0.1 to 0.9, lookups {how}");
            let bound = Bound::more().every();
            verdicts.push(bound.judge(text, &found, "× the best of the others"));
        }
    }
    let found = ratios(rows, "insert_mps", ("engine", "chaining", "hopscotch"), &[]);
    let text =
        "considering the insertion speed as well, separate chaining is better than hopscotch";
    verdicts.push(Bound::more().every().judge(text, &found, "× the inserts"));
    verdicts
}

/// What the thesis compares with hopscotch hashing and separate chaining.
const OTHERS: [&str; 4] = ["linear", "double-hash", "quadratic", "cuckoo-flow"];

/// A flow table, and the instruction set by which it finds and makes flows.
#[derive(Clone, Copy)]
struct Contestant {
    entry: &'static flow::Entry,
    isa: &'static str,
}

impl Contestant {
    fn name(self) -> &'static str {
        self.entry.card.name
    }

    fn row(self) -> Row {
        Row::new([("engine", self.name()), ("isa", self.isa)])
    }

    fn build(self, wanted: Wanted, mut options: Options) -> Result<Box<dyn FlowTable>, Refusal> {
        if has_isa(self.entry) {
            options.0.insert("isa".into(), self.isa.into());
        }
        (self.entry.build)(wanted, &options)
    }
}

/// Every table; those that have vectors with them, and without.
fn contestants() -> impl Iterator<Item = Contestant> {
    flow::engines().iter().flat_map(|entry| {
        let vectors = has_isa(entry) && machine::has(VECTORS);
        let sets = vectors.then_some(VECTORS).into_iter().chain([matching::PORTABLE]);
        sets.map(move |isa| Contestant { entry, isa })
    })
}

fn has_isa(entry: &flow::Entry) -> bool {
    entry.card.options.iter().any(|(name, ..)| *name == "isa")
}

/// All tables at one load, side by side.
fn measure(context: &Context, bits: u32, tenths: usize) -> Vec<Row> {
    clock::cores().last().map(|&core| clock::pin(core));
    let slots = 1_usize << bits;
    let flows = slots * tenths / 10;
    let mut rng = Rng::new(tenths as u64);
    let keys = keys(0..flows);
    let hits: Vec<FlowKey> = (0..LOOKUPS).map(|_| keys[rng.below(flows)]).collect();
    let misses: Vec<FlowKey> = (0..LOOKUPS as u32).map(|i| key(u32::MAX - i)).collect();
    let (mut tables, mut rows) = (Vec::new(), Vec::new());
    for one in contestants() {
        let load = format!("{:.1}", tenths as f64 / 10.0);
        let row = one.row().labelled("load", load).labelled("places", format!("2^{bits}"));
        // Those that need a place more, and a power of two, have `slots` then.
        let wanted = Wanted { entries: slots - 1, second: 1000 };
        let mut table = match one.build(wanted, fixed_seed()) {
            Ok(table) => table,
            Err(refusal) => {
                rows.push(row.noting(refusal.to_string()));
                continue;
            }
        };
        // The last tenth shows the cost of an insert at this load.
        let (first, last) = keys.split_at(flows * 9 / 10);
        let mut full = insert(&mut *table, first);
        let start = clock::thread_time();
        full += insert(&mut *table, last);
        let inserts = last.len() as f64 / (clock::thread_time() - start).as_secs_f64() * 1e-6;
        if full > 0 {
            rows.push(row.noting(format!("full: {full} of {flows} flows found no place")));
            continue;
        }
        if !answers(&*table, &hits, &misses) {
            rows.push(row.noting("it answers wrongly"));
            continue;
        }
        tables.push((table, row.with("insert_mps", inserts)));
    }
    let mut variants = Vec::new();
    for (table, _) in &tables {
        variants.push(Variant::new("", repeat(LOOKUPS as u64, || alone(&**table, &hits))));
        variants.push(Variant::new("", repeat(LOOKUPS as u64, || grouped(&**table, &hits))));
        variants.push(Variant::new("", repeat(LOOKUPS as u64, || grouped(&**table, &misses))));
    }
    let timings = context.measure(&mut variants);
    drop(variants);
    for ((mut table, row), t) in tables.into_iter().zip(timings.chunks(3)) {
        let row = row
            .with("scalar_mlps", t[0].rate.scaled(1e-6))
            .with("rate_mlps", t[1].rate.scaled(1e-6))
            .with("misses_mlps", t[2].rate.scaled(1e-6));
        rows.push(match churn(&mut *table, &keys, u32::MAX / 2) {
            Some(figure) => row.with("churn_mps", figure),
            None => row.noting("full during churn"),
        });
    }
    rows
}

/// Whether the one are found and the others are not.
fn answers(table: &dyn FlowTable, hits: &[FlowKey], misses: &[FlowKey]) -> bool {
    let found = |key: &FlowKey| match table.find(key) {
        FlowId::NONE => false,
        id => table.flow(id).0.key() == *key,
    };
    hits.iter().all(found) && !misses.iter().any(found)
}

/// The flows of these numbers.
fn keys(numbers: Range<usize>) -> Vec<FlowKey> {
    numbers.map(|n| key(n as u32)).collect()
}

/// The n-th flow: a multiplication by an odd number mixes and keeps them different.
fn key(n: u32) -> FlowKey {
    FlowKey::v4(n.wrapping_mul(0x9e37_79b1), 0xc000_0201)
}

/// Makes flows one by one; returns how many found no place.
fn insert(table: &mut dyn FlowTable, keys: &[FlowKey]) -> usize {
    let mut full = 0;
    for key in keys {
        let mut id = [FlowId::NONE];
        table.find_or_insert_batch(0, 1, std::slice::from_ref(key), &mut id, &mut |_, _, _| ());
        full += usize::from(id[0].is_none());
    }
    full
}

fn alone(table: &dyn FlowTable, keys: &[FlowKey]) -> u64 {
    for key in keys {
        std::hint::black_box(table.find(key));
    }
    0
}

fn grouped(table: &dyn FlowTable, keys: &[FlowKey]) -> u64 {
    let mut ids = [FlowId::NONE; GROUP];
    for keys in keys.chunks(GROUP) {
        table.find_batch(keys, &mut ids[..keys.len()]);
        std::hint::black_box(&mut ids);
    }
    0
}

/// Millions of flows a second of which each takes the place of an older one; the new ones are
/// numbered from `fresh` on.
fn churn(table: &mut dyn FlowTable, keys: &[FlowKey], mut fresh: u32) -> Option<Figure> {
    let mut rates = Vec::new();
    for old in keys.chunks(CHURNED).take(CHURN_ROUNDS) {
        let start = clock::thread_time();
        for key_old in old {
            table.delete(key_old, &mut |_, _, _| ());
            let new = key(fresh);
            fresh += 1;
            if table.find(&new) != FlowId::NONE || insert(table, &[new]) > 0 {
                return None;
            }
        }
        let time = clock::thread_time() - start;
        rates.push(old.len() as f64 / time.as_secs_f64() * 1e-6);
    }
    Some(Figure::most_is_best(&rates))
}

const OURS: &str = "flow-table";
/// What flow tables have code for.
const VECTORS: &str = "avx2";
const LOOKUPS: usize = 1 << 16;
const GROUP: usize = 32;
const CHURNED: usize = 4096;
const CHURN_ROUNDS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ruling::{self, AsStated, Contradicted, Open};

    fn rows(places: &str, hopscotch: [f64; 2]) -> Vec<Row> {
        let mut rows = Vec::new();
        for (load, rate) in ["0.1", "0.9"].into_iter().zip(hopscotch) {
            for (engine, rate) in
                [("hopscotch", rate), ("chaining", 5.0), ("linear", 2.0), ("cuckoo-flow", 1.0)]
            {
                let row = Row::new([("engine", engine), ("load", load), ("places", places)]);
                let row = row.with("scalar_mlps", rate).with("rate_mlps", 2.0 * rate);
                rows.push(row.with("insert_mps", rate));
            }
        }
        rows
    }

    fn rulings(rows: &[Row]) -> Vec<Ruling> {
        let thesis = Fig47.judge(rows).into_iter().filter(|one| !one.claim.starts_with("ours"));
        thesis.map(|verdict| verdict.ruling).take(5).collect()
    }

    /// One load, or one rival, at which it is slower is enough.
    #[test]
    fn the_good_ones_outperform_every_other_at_every_load() {
        assert_eq!(rulings(&rows("2^20", [4.0, 4.0])), [AsStated; 5]);
        let slow = [Contradicted, AsStated, Contradicted, AsStated, AsStated];
        assert_eq!(rulings(&rows("2^20", [1.5, 4.0])), slow);
        assert_eq!(rulings(&[]), [Open; 5]);
    }

    /// Ours is three times as good by vectors, and half as good without: each is a verdict.
    #[test]
    fn goals_say_which_instruction_sets_are_compared() {
        let row = |engine, isa, churn: f64| {
            let row = Row::new([("engine", engine), ("isa", isa), ("load", "0.9")]);
            row.with("churn_mps", churn).with("misses_mlps", churn)
        };
        let vectors = row(OURS, VECTORS, 3.0);
        let rows = [row("linear", "portable", 1.0), row(OURS, "portable", 0.5), vectors.clone()];
        let churn = |rows: &[Row]| -> Vec<(String, Option<bool>)> {
            let verdicts = goals(rows).into_iter().filter(|one| one.claim.contains("churn"));
            verdicts.map(|one| (one.claim.clone(), one.holds())).collect()
        };
        // Lookups have no vectors.
        assert_eq!(goals(&rows).len(), 3);
        let [(equal, no), (other, yes)] = &churn(&rows)[..] else { panic!("two verdicts") };
        assert!(equal.ends_with("[portable]") && *no == Some(false), "{equal}");
        assert!(other.ends_with(", by avx2 against portable") && *yes == Some(true), "{other}");
        // As records have it that name no set.
        let old = without(&[rows[0].clone(), vectors], "isa");
        assert_eq!(churn(&old).iter().map(|one| one.1).collect::<Vec<_>>(), [Some(true)]);
    }

    #[test]
    fn tables_have_the_instruction_sets_that_rows_name() {
        let wanted = Wanted { entries: 100, second: 1000 };
        for one in contestants() {
            let table = one.build(wanted, fixed_seed()).unwrap();
            assert_eq!(table.isa(), one.isa, "{}", one.name());
        }
        let ours = contestants().filter(|one| one.name() == OURS).count();
        assert_eq!(ours, if machine::has(VECTORS) { 2 } else { 1 });
    }

    #[test]
    fn sizes_are_judged_apart() {
        let both = [rows("2^20", [4.0, 4.0]), rows("2^25", [1.5, 4.0])].concat();
        let of = |size: &str| {
            let verdicts = Fig47.judge(&both).into_iter();
            let of = verdicts.filter(|one| one.claim.ends_with(&format!("[2^{size} places]")));
            of.map(|verdict| verdict.ruling).next()
        };
        assert_eq!([of("20"), of("25")], [Some(AsStated), Some(Contradicted)]);
    }
}
