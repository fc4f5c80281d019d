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
mod site;

use lookup::exact::flow::{self, FlowId, FlowKey, FlowTable, Wanted};

use crate::data::Rng;
use crate::lookups::Claim;
use crate::matching::fixed_seed;
use crate::record::Bound;
use crate::record::Figure;
use crate::slices::{Variant, repeat};
use crate::{Card, Context, Error, Experiment, Plot, Record, Row, Style, Takes, Verdict, clock};

pub(super) use path::fixed;

/// See the module.
pub struct Fig47;

impl Experiment for Fig47 {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn judge(&self, rows: &[Row]) -> Vec<Verdict> {
        CLAIMS.iter().chain(full::CLAIMS).flat_map(|claim| claim.judge(rows)).collect()
    }

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        let loads = context.pick(vec![1, 3, 5, 7, 9], vec![1, 5, 9]);
        let slots = context.pick(1 << 20, 1 << 18);
        let mut rows =
            context.cells(loads, |context, tenths| Ok(measure(context, slots, *tenths)))?;
        rows.extend(full::rows(context)?);
        let verdicts = self.judge(&rows);
        let notes = [
            "pairs of IPv4 addresses; load: flows over places",
            "inserts, misses, churn and full tables are not in the thesis",
            "requests: each of a batch of 64 is a new flow, and the table is full (those with open \
             addressing: to 95 %); ours replaces another, the others find no place",
        ];
        Ok(context.record(rows, verdicts, notes.map(String::from).to_vec()))
    }
}

const CARD: Card = Card {
    name: "gatekeeper/fig4.7",
    takes: Takes { full_s: 240.0, quick_s: 8.0 },
    help: "six flow tables and ours by load: hits, misses, inserts, churn; new flows in full ones",
    source: "thesis, figure 4.7",
    claim: "Hopscotch and separate chaining are good candidates for the flow table",
    plots: &[
        plot("Lookups one by one", "scalar_mlps", "million lookups/s"),
        plot("Lookups in groups of 32", "rate_mlps", "million lookups/s"),
        plot("Misses in groups of 32", "misses_mlps", "million lookups/s"),
        plot("Inserts", "insert_mps", "million inserts/s"),
        plot("Churn: one out, one in", "churn_mps", "million flows/s"),
        Plot {
            x: "places",
            style: Style::Bars,
            ..plot("New flows in a full table", "requests_mps", "million flows/s")
        },
    ],
};

const fn plot(title: &'static str, figure: &'static str, unit: &'static str) -> Plot {
    Plot { title, figure, unit, x: "load", series: "engine", panels: &[], style: Style::Lines }
}

const CLAIMS: &[Claim] = &[
    better(
        "hopscotch",
        "linear",
        "Hopscotch finds flows faster than linear probing at a load of 0.9",
    ),
    better(
        "chaining",
        "double-hash",
        "chaining finds flows faster than double hashing at a load of 0.9",
    ),
    Claim::Ratio {
        text: "ours misses at least 2 × as fast as Hopscotch at a load of 0.9",
        figure: "misses_mlps",
        label: "engine",
        of: "flow-table",
        to: "hopscotch",
        bound: Bound::least(2.0).ours(),
        when: &[("load", "0.9")],
    },
    Claim::Ratio {
        text: "ours keeps up churn at least 2 × as well as linear probing at a load of 0.9",
        figure: "churn_mps",
        label: "engine",
        of: "flow-table",
        to: "linear",
        bound: Bound::least(2.0).ours(),
        when: &[("load", "0.9")],
    },
];

const fn better(of: &'static str, to: &'static str, text: &'static str) -> Claim {
    let (figure, label) = ("rate_mlps", "engine");
    Claim::Ratio { text, figure, label, of, to, bound: Bound::more(), when: &[("load", "0.9")] }
}

/// All tables at one load, side by side.
fn measure(context: &Context, slots: usize, tenths: usize) -> Vec<Row> {
    clock::cores().last().map(|&core| clock::pin(core));
    let flows = slots * tenths / 10;
    let mut rng = Rng::new(tenths as u64);
    let keys: Vec<FlowKey> = (0..flows as u32).map(key).collect();
    let hits: Vec<FlowKey> = (0..LOOKUPS).map(|_| keys[rng.below(flows)]).collect();
    let misses: Vec<FlowKey> = (0..LOOKUPS as u32).map(|i| key(u32::MAX - i)).collect();
    let (mut tables, mut rows) = (Vec::new(), Vec::new());
    for entry in flow::engines() {
        let load = format!("{:.1}", tenths as f64 / 10.0);
        let row = Row::new([("engine", entry.card.name.to_string()), ("load", load)]);
        // Those that need a place more, and a power of two, have `slots` then.
        let wanted = Wanted { entries: slots - 1, second: 1000 };
        let mut table = match (entry.build)(wanted, &fixed_seed()) {
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
        let found = |key: &FlowKey| match table.find(key) {
            FlowId::NONE => false,
            id => table.flow(id).0.key() == *key,
        };
        let wrong = !hits.iter().all(found) || misses.iter().any(found);
        if wrong {
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
        rows.push(match churn(&mut *table, &keys) {
            Some(figure) => row.with("churn_mps", figure),
            None => row.noting("full during churn"),
        });
    }
    rows
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

/// Millions of flows a second of which each takes the place of an older one.
fn churn(table: &mut dyn FlowTable, keys: &[FlowKey]) -> Option<Figure> {
    let mut rates = Vec::new();
    let mut fresh = u32::MAX / 2;
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

const LOOKUPS: usize = 1 << 16;
const GROUP: usize = 32;
const CHURNED: usize = 4096;
const CHURN_ROUNDS: usize = 8;
