//! `science/contended`: the main engines beside a thread on the other core that reads
//! random lines of a region: of its own caches, of the shared one, of memory.
//!
//! What an engine keeps is counted from its rate beside a thread that computes and touches
//! no memory. Beside a core at rest is no measure: a virtual machine gives a core more or
//! less of its processor when the other one is busy, memory aside.
//!
//! A table with crowded long prefixes is measured next to the usual one. A lower rate there
//! with the other core at rest is due to the table's shape; a smaller share kept, to shared caches.
//!
//! The antagonist is calibrated by two rows of each family: random reads of a 4 MiB array
//! (`random lines`), whose loss says how much of the shared cache it takes, and what it
//! reads itself in each slice (`antagonist_mlps`), beside every engine.

use std::thread;
use std::time::Duration;

use lookup::Hop;
use lookup::lpm::{Intervals, Options};
use lookup::pages::Kind;

use super::antagonist::{Antagonist, Load, Orders, PRESSURE};
use crate::contest::{self, Subject};
use crate::contestants::{self, Family};
use crate::data::{Table, Traffic, kind};
use crate::lines::Lines;
use crate::lookups::rate;
use crate::pace;
use crate::record::Bound;
use crate::slices::{Plan, Timing, Variant};
use crate::{Card, Context, Error, Experiment, Plot, Record, Row, Style, Takes, Verdict};

/// See the module.
pub struct Contended;

impl Experiment for Contended {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn families(&self, _: &Context) -> &'static [&'static str] {
        &["ipv4", "ipv6"]
    }

    fn takes_engine(&self, _: &Context, engine: &str) -> bool {
        contestants::is_of_prefixes(engine)
    }

    fn judge(&self, rows: &[Row]) -> Vec<Verdict> {
        verdicts(rows)
    }

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        context.two_cores(CARD.name, "the antagonist has one of its own")?;
        let usual: &[&str] =
            context.pick(&["internet:1000000+200000", CROWDED], &["internet:100000+50000"]);
        let tables = context.tables(usual);
        let traffic: &[Traffic] = context.pick(&TRAFFIC, &TRAFFIC[1..2]);
        let cells = tables.iter().flat_map(|table| {
            let both = traffic.iter().flat_map(|traffic| [("ipv4", *traffic), ("ipv6", *traffic)]);
            both.map(move |(family, traffic)| Cell { table: table.clone(), family, traffic })
        });
        let cells: Vec<Cell> = cells.collect();
        let largest = context.machine().largest_cache().unwrap_or(32 << 20);
        let levels = levels(largest, context.quick());
        let rows = context.cells(cells, |context, cell| {
            let table = context.load(&cell.table)?;
            Ok(match cell.family {
                "ipv4" => measure::<u32>(context, &table, &table.ipv4, cell.traffic, &levels),
                _ => measure::<u128>(context, &table, &table.ipv6, cell.traffic, &levels),
            })
        })?;
        let notes = vec![
            format!(
                "the antagonist reads random lines of so many bytes on the other core; the largest \
                 cache that the system names has {} MiB",
                largest >> 20
            ),
            "kept: the rate beside it over that beside a thread that computes without memory \
             (spin), round by round; none: the other core is at rest"
                .into(),
        ];
        let verdicts = self.judge(&rows);
        Ok(context.record(rows, verdicts, notes))
    }
}

const CARD: Card = Card {
    name: "science/contended",
    takes: Takes { full_s: 480.0, quick_s: 30.0 },
    help: "engines beside a thread on the other core that takes the shared caches: rate and what is kept",
    source: "issue on the lab, point 2.5",
    claim: "rutter4 and rutter6 keep half of their rate beside the worst neighbour, and their lead",
    plots: &[
        plot("Lookups in bursts of 256", "rate_mlps", "million lookups/s"),
        plot("Kept beside the antagonist", KEPT, OF_SPIN),
        plot("What the antagonist reads", PRESSURE, "million lines/s"),
    ],
};

const fn plot(title: &'static str, figure: &'static str, unit: &'static str) -> Plot {
    let panels = &["family", "table", "traffic"];
    Plot { title, figure, unit, x: "antagonist", series: "engine", panels, style: Style::Bars }
}

/// One table, family and traffic.
struct Cell {
    table: String,
    family: &'static str,
    traffic: Traffic,
}

impl std::fmt::Display for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {}, {}", self.family, self.table, self.traffic)
    }
}

/// What the antagonist reads: a name, and bytes.
type Level = (String, usize);

/// Beside what each side is measured, in this order: at rest, spin, each level.
fn loads(levels: &[Level]) -> Vec<(&str, Load)> {
    let reads = levels.iter().enumerate().map(|(at, (name, _))| (&**name, Load::Read(at)));
    [(REST, Load::Rest), (SPIN, Load::Spin)].into_iter().chain(reads).collect()
}

/// Regions in its own first cache, in a fourth of the largest, in all of it, and in memory.
fn levels(largest: usize, quick: bool) -> Vec<Level> {
    let sizes = [16 << 10, largest / 4, largest, (4 * largest).min(1 << 30)];
    let named = sizes.into_iter().map(|bytes| match bytes >> 20 {
        0 => (format!("{} KiB", bytes >> 10), bytes),
        mib => (format!("{mib} MiB"), bytes),
    });
    let named: Vec<Level> = named.collect();
    if quick { vec![named[0].clone(), named[2].clone()] } else { named }
}

fn measure<A: Family>(
    context: &Context,
    table: &Table,
    routes: &[(lookup::Prefix<A>, Hop)],
    traffic: Traffic,
    levels: &[Level],
) -> Vec<Row> {
    if routes.is_empty() {
        return Vec::new();
    }
    let routes = contest::folded(routes.iter().copied(), context.hops());
    let rib = routes.iter().copied().collect();
    let flat = Intervals::new(routes.iter().copied());
    let dsts = traffic.draw(&routes, context.pick(1 << 20, 1 << 18), 1);
    let want: Vec<Hop> = dsts.iter().map(|dst| flat.lookup(*dst)).collect();
    let want = contest::checksum(&want);
    let blank = |engine: &str| {
        let labels = [("engine", engine), ("family", A::FAMILY), ("table", &table.name)];
        Row::new(labels).labelled("traffic", traffic)
    };
    let (mut rows, mut sides) = (Vec::new(), Vec::new());
    for name in engines::<A>(context) {
        let built = contestants::named::<A>(&name, Options::default());
        let row = blank(&name);
        match built.and_then(|contestant| contestant.build(&rib)) {
            Ok(subject) if contest::checksum(&subject.stream(&dsts).answers()) == want => {
                let row = match subject.isa() {
                    Some(isa) => row.labelled("isa", isa),
                    None => row,
                };
                sides.push((row.checked(want), Some(subject)));
            }
            Ok(_) => rows.push(row.noting("answers differ from the flattened intervals")),
            Err(refusal) => rows.push(row.noting(refusal)),
        }
    }
    // What calibrates the antagonist: no table, no instructions to speak of.
    sides.push((blank(PROBE), None));
    rows.extend(beside(context, &sides, &dsts, levels));
    rows
}

/// The engines asked for, or the main ones of the family.
fn engines<A: Family>(context: &Context) -> Vec<String> {
    let main = match A::FAMILY {
        "ipv4" => &["rutter4", "dir-24-8", "dxr", "poptrie", "sail-l", "rte_fib-2b"][..],
        _ => &["rutter6", "planb", "poptrie", "cuvpp", "rte_fib6"],
    };
    contestants::asked::<A>(context, main)
}

/// A side, and its table; none for [`PROBE`].
type Side<A> = (Row, Option<Box<dyn Subject<A>>>);

/// Each side beside each load, all in turn.
fn beside<A: Family>(
    context: &Context,
    sides: &[Side<A>],
    dsts: &[A],
    levels: &[Level],
) -> Vec<Row> {
    let lines = |bytes: usize| Lines::new(bytes / LINE, Kind::Transparent);
    let regions = levels.iter().map(|(_, bytes)| lines(*bytes)).collect::<Result<Vec<_>, _>>();
    let (regions, probe) = match (regions, lines(PROBED)) {
        (Ok(regions), Ok(probe)) => (regions, probe),
        (Err(reason), _) | (_, Err(reason)) => {
            return sides.iter().map(|(row, _)| row.clone().noting(&reason)).collect();
        }
    };
    let (orders, loads) = (Orders::default(), loads(levels));
    let timings = thread::scope(|scope| {
        let antagonist = Antagonist::new(scope, &orders, &regions);
        let mut variants = Vec::new();
        for (_, subject) in sides {
            for (_, load) in &loads {
                variants.push(match subject {
                    Some(subject) => {
                        let work = rate(subject.stream(dsts), dsts.len(), 256);
                        Variant::new("", antagonist.beside(*load, work))
                    }
                    None => Variant::new("", antagonist.beside(*load, probe.independent())),
                });
            }
        }
        let plan = context.plan(variants.len());
        context.measure_by(Plan { patience: PATIENCE, ..plan }, &mut variants)
    });
    let mut rows = Vec::new();
    let spin = loads.iter().position(|(name, _)| *name == SPIN).expect("one of the loads");
    for ((row, _), timings) in sides.iter().zip(timings.chunks(loads.len())) {
        for ((name, _), timing) in loads.iter().zip(timings) {
            rows.push(figures(row.clone().labelled("antagonist", name), &timings[spin], timing));
        }
    }
    rows
}

fn figures(row: Row, spin: &Timing, timing: &Timing) -> Row {
    let pair = [spin.clone(), timing.clone()];
    let kept = pace::kept(&pair, |rates| rates[1] / rates[0]);
    let row = row.with("rate_mlps", timing.rate.scaled(1e-6)).with(KEPT, kept);
    let pressure = timing.figures.iter().find(|(name, _)| name == PRESSURE);
    pressure.map_or(row.clone(), |(_, figure)| row.with(PRESSURE, *figure))
}

/// For each family, table and traffic.
fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let place = |row: &Row| {
        (
            row.label("family").to_string(),
            row.label("table").to_string(),
            row.label("traffic").to_string(),
        )
    };
    let mut places: Vec<_> = rows.iter().map(place).collect();
    places.sort();
    places.dedup();
    let mut verdicts = Vec::new();
    for at in &places {
        let rows: Vec<&Row> = rows.iter().filter(|row| place(row) == *at).collect();
        let (ours, rivals) = match &*at.0 {
            "ipv4" => ("rutter4", "rte_fib-2b"),
            _ => ("rutter6", "rte_fib6"),
        };
        let crowded = if at.1.contains(",long=") { ", crowded" } else { "" };
        let named = format!("[{}, {}{crowded}, {}]", at.0, kind(&at.1), at.2);
        let kept = |engine: &str| {
            let of = rows.iter().filter(|row| row.label("engine") == engine);
            let beside = of.filter(|row| ![REST, SPIN].contains(&row.label("antagonist")));
            beside.filter_map(|row| Some((row.label("antagonist"), row.median(KEPT)?))).collect()
        };
        let own: Vec<f64> = rows
            .iter()
            .filter(|row| row.label("antagonist") == OWN)
            .filter_map(|row| row.median(KEPT))
            .collect();
        let text = format!("an antagonist in its own cache costs nobody a tenth {named}");
        verdicts.push(Bound::within(0.9, 1.1).every().ours().judge(text, &own, OF_SPIN));
        let ours_kept: Vec<(&str, f64)> = kept(ours);
        let found: Vec<f64> = ours_kept.iter().map(|(_, kept)| *kept).collect();
        let text =
            format!("{ours} keeps half of its rate beside any antagonist, and gains none {named}");
        verdicts.push(Bound::within(0.5, 1.1).every().ours().judge(text, &found, OF_SPIN));
        let rivals_kept: Vec<(&str, f64)> = kept(rivals);
        let over = |(level, ours): &(&str, f64)| {
            let (_, theirs) = rivals_kept.iter().find(|(name, _)| name == level)?;
            (*theirs > 0.0).then(|| ours / theirs)
        };
        let found: Vec<f64> = ours_kept.iter().filter_map(over).collect();
        let text = format!("{ours} keeps as large a share as {rivals}, within a half {named}");
        verdicts.push(Bound::within(1.0 / 1.5, 1.5).every().ours().judge(text, &found, "×"));
    }
    verdicts
}

/// That of `lpm/peers`.
const CROWDED: &str = "internet:608000+200000,long=22";
const KEPT: &str = "kept";
const PROBE: &str = "random lines";
const LINE: usize = 64;
/// What [`PROBE`] reads: more than a core's own caches, less than the shared one.
const PROBED: usize = 4 << 20;
/// Of one table, family and traffic: the antagonist keeps a whole core busy meanwhile.
const PATIENCE: Duration = Duration::from_secs(25);
/// The other core sleeps.
const REST: &str = "none";
/// The other core computes: what the others are counted from.
const SPIN: &str = "spin";
const OF_SPIN: &str = "of the rate beside a core that computes";
/// The level that takes no shared cache.
const OWN: &str = "16 KiB";
const TRAFFIC: [Traffic; 3] = [Traffic::Random, Traffic::Prefix, Traffic::Zipf];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_go_from_its_own_cache_to_memory() {
        let names: Vec<String> =
            levels(32 << 20, false).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, [OWN, "8 MiB", "32 MiB", "128 MiB"]);
        assert_eq!(levels(1 << 30, true).last().map(|(_, bytes)| *bytes), Some(1 << 30));
    }

    #[test]
    fn loads_go_from_rest_to_the_last_level() {
        let levels = levels(32 << 20, true);
        let want = [(REST, Load::Rest), (SPIN, Load::Spin), (OWN, Load::Read(0))];
        assert_eq!(loads(&levels)[..3], want);
        assert_eq!(loads(&levels)[3..], [("32 MiB", Load::Read(1))]);
    }

    #[test]
    fn shares_are_judged_with_two_bounds() {
        let row = |engine: &str, antagonist: &str, kept: f64| {
            let labels = [
                ("engine", engine),
                ("family", "ipv4"),
                ("table", "internet:1000"),
                ("traffic", "zipf"),
                ("antagonist", antagonist),
            ];
            Row::new(labels).with(KEPT, kept)
        };
        let held = |own: f64, ours: f64, rivals: f64| {
            let rows = [
                row("rutter4", REST, 1.4),
                row("rutter4", SPIN, 1.0),
                row("rutter4", OWN, own),
                row("rutter4", "32 MiB", ours),
                row("rte_fib-2b", "32 MiB", rivals),
            ];
            verdicts(&rows).iter().map(Verdict::holds).collect::<Vec<_>>()
        };
        assert_eq!(held(1.0, 0.8, 0.7), [Some(true); 3]);
        assert_eq!(held(0.7, 0.4, 0.9), [Some(false); 3]);
        // Tables of different shape are judged apart, and so named.
        let mut rows = vec![row("rutter4", "32 MiB", 0.8)];
        rows.push(rows[0].clone().labelled("table", CROWDED));
        let texts: Vec<_> = verdicts(&rows).into_iter().map(|verdict| verdict.claim).collect();
        assert_eq!(texts.len(), 6);
        assert_eq!(texts.iter().filter(|text| text.contains("generated, crowded")).count(), 3);
        // More beside a neighbour that reads than beside one that does not is no result.
        assert_eq!(held(1.3, 1.3, 0.7), [Some(false); 3]);
    }
}
