//! `dxr/table2` and `dxr/fig4`: the steps of the binary search: how often how many
//! are needed, and what they cost.
//!
//! The ranges of a chunk are computed from the flattened table, equal neighbours
//! merged, and searched as the paper does: independent of the engine.

use lookup::lpm::{Intervals, Options};
use lookup::{Hop, Prefix};

use super::{LINX, TODAY};
use crate::contest;
use crate::contestants;
use crate::data::{Rng, Traffic};
use crate::lookups::Claim;
use crate::lookups::claims::each_kind;
use crate::lookups::{rate, scalar};
use crate::record::Bound;
use crate::slices::Variant;
use crate::{Card, Context, Error, Experiment, Plot, Record, Row, Style, Takes, Verdict};

/// Table 2.
pub struct Table2;

/// Figure 4.
pub struct Fig4;

impl Experiment for Table2 {
    fn card(&self) -> &'static Card {
        &Card {
            name: "dxr/table2",
            takes: Takes { full_s: 8.0, quick_s: 2.0 },
            help: "share of addresses that need n steps of the binary search, D16R and D18R",
            source: "DXR, table 2",
            claim: "86.4 % (D18R) and 75.7 % (D16R) of random addresses are answered by the first table",
            plots: &[Plot {
                title: "Steps of the binary search, random addresses",
                figure: "share_percent",
                unit: "% of addresses",
                x: "steps",
                series: "engine",
                panels: &["table"],
                style: Style::Bars,
            }],
        }
    }

    fn families(&self, _: &Context) -> &'static [&'static str] {
        &["ipv4"]
    }

    fn judge(&self, rows: &[Row]) -> Vec<Verdict> {
        SEARCHED.iter().flat_map(|claim| claim.judge(rows)).collect()
    }

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        let tables = context.beside(&[LINX, TODAY]);
        let rows = context.cells(tables, |context, name| {
            let table = context.load(name)?;
            let ranges = Ranges::new(&table.ipv4);
            let dsts = Traffic::Random.draw(&table.ipv4, context.pick(1 << 22, 1 << 18), 1);
            let mut rows: Vec<Row> =
                [16, 18].iter().flat_map(|k| shares(&ranges, *k, &dsts, &table.name)).collect();
            if name == TODAY {
                rows.iter_mut()
                    .for_each(|row| drop(row.labels.insert("size".into(), "today's".into())));
            }
            Ok(rows)
        })?;
        let verdicts = self.judge(&rows);
        Ok(context.record(rows, verdicts, vec![NOTE.into()]))
    }
}

impl Experiment for Fig4 {
    fn card(&self) -> &'static Card {
        &Card {
            name: "dxr/fig4",
            takes: Takes { full_s: 15.0, quick_s: 2.0 },
            help: "time of a D18R lookup against the steps that its binary search needs",
            source: "DXR, figure 4",
            claim: "slightly more than linear in the number of steps; repeated keys take about half",
            plots: &[Plot {
                title: "Time of a lookup by search steps",
                figure: "time_ns",
                unit: "ns",
                x: "steps",
                series: "traffic+burst",
                panels: &["table"],
                style: Style::Lines,
            }],
        }
    }

    fn families(&self, _: &Context) -> &'static [&'static str] {
        &["ipv4"]
    }

    fn judge(&self, rows: &[Row]) -> Vec<Verdict> {
        cost_of_steps(rows)
    }

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        let tables = context.beside(&[LINX]);
        let rows = context.cells(tables, |context, name| {
            let table = context.load(name)?;
            times(context, &table.name, &table.ipv4)
        })?;
        let verdicts = self.judge(&rows);
        let note =
            "burst 1: one lookup call after the other; burst 256: searches of a burst together";
        Ok(context.record(rows, verdicts, vec![NOTE.into(), note.into()]))
    }
}

/// Time against steps, table by table.
fn cost_of_steps(rows: &[Row]) -> Vec<Verdict> {
    // Kinds of traffic are what is compared: out of the labels that are judged apart.
    let mut rows = rows.to_vec();
    for row in &mut rows {
        let traffic = row.labels.remove("traffic").unwrap_or_default();
        row.labels.insert("keys".into(), traffic);
    }
    let time = |rows: &[Row], keys: &str, burst: &str, steps: &str| {
        let labels = [("keys", keys), ("steps", steps), ("burst", burst)];
        rows.iter().find(|row| row.is(&labels))?.median("time_ns")
    };
    let judge = |text: &str, bound: Bound, found: &dyn Fn(&[Row]) -> Option<f64>| {
        each_kind(&rows, text, |rows| {
            bound.judge("", &found(rows).into_iter().collect::<Vec<_>>(), "×")
        })
    };
    let steeper = |rows: &[Row]| {
        let [none, two, five] = ["0", "2", "5"].map(|steps| time(rows, "random", "1", steps));
        Some((five? - none?) / 5.0 / ((two? - none?) / 2.0))
    };
    let ratio = |burst: &'static str,
                 of: (&'static str, &'static str),
                 to: (&'static str, &'static str)| {
        move |rows: &[Row]| Some(time(rows, of.0, burst, of.1)? / time(rows, to.0, burst, to.1)?)
    };
    let text = "slightly superlinear: a step of five costs 1 to 1.5 × one of two";
    let mut verdicts = judge(text, Bound::within(1.0, 1.5), &steeper);
    let text = "random keys almost double the time of repeated ones";
    let twice = ratio("1", ("random", "3"), ("repeated", "3"));
    verdicts.extend(judge(text, Bound::within(1.6, 2.0), &twice));
    let text = "in bursts of 256 too, five steps take 1.5 × the time of none";
    let batched = ratio("256", ("random", "5"), ("random", "0"));
    verdicts.extend(judge(text, Bound::least(1.5).ours(), &batched));
    verdicts
}

const SEARCHED: &[Claim] = &[
    Claim::Bound {
        text: "D18R answers 86.4 % at once and searches for 13.6 %",
        figure: "searched_percent",
        bound: Bound::about(13.6),
        unit: "%",
        when: &[("engine", "D18R"), ("size", "")],
    },
    Claim::Bound {
        text: "D16R answers 75.7 % at once and searches for 24.3 %",
        figure: "searched_percent",
        bound: Bound::about(24.3),
        unit: "%",
        when: &[("engine", "D16R"), ("size", "")],
    },
];

const NOTE: &str = "a generated table of the size of the paper's; its next hops are as many";

/// The table as ranges of one hop, neighbours different.
struct Ranges {
    starts: Vec<u32>,
}

impl Ranges {
    fn new(routes: &[(Prefix<u32>, Hop)]) -> Ranges {
        let mut last = None;
        let flat = Intervals::new(routes.iter().copied());
        let merged = flat.iter().filter(|(_, hop)| last.replace(*hop) != Some(*hop));
        Ranges { starts: merged.map(|(start, _)| start).collect() }
    }

    /// Steps of the search for `dst` among the ranges of its chunk of 2^(32 − k)
    /// addresses: 0 where one range covers the chunk.
    fn steps(&self, dst: u32, k: u32) -> u32 {
        let (first, last) = (dst >> (32 - k) << (32 - k), dst | u32::MAX >> k);
        let from = self.starts.partition_point(|start| *start <= first);
        let to = self.starts.partition_point(|start| *start <= last);
        // The range that reaches into the chunk is one more.
        let wanted = self.starts.partition_point(|start| *start <= dst) - from;
        let (mut low, mut high, mut steps) = (0, to - from + 1, 0);
        while high - low > 1 {
            let middle = low.midpoint(high);
            if wanted < middle {
                high = middle;
            } else {
                low = middle;
            }
            steps += 1;
        }
        steps
    }
}

fn shares(ranges: &Ranges, k: u32, dsts: &[u32], table: &str) -> Vec<Row> {
    let mut counts = [0_u64; MOST_STEPS + 1];
    for dst in dsts {
        counts[(ranges.steps(*dst, k) as usize).min(MOST_STEPS)] += 1;
    }
    let row = |(steps, count): (usize, &u64)| {
        let labels = [
            ("engine", format!("D{k}R")),
            ("table", table.to_string()),
            ("steps", steps.to_string()),
        ];
        let share = *count as f64 * 100.0 / dsts.len() as f64;
        let row = Row::new(labels).with("share_percent", share);
        // A tenth of what is searched says more than a tenth of what is not.
        if steps == 0 { row.with("searched_percent", 100.0 - share) } else { row }
    };
    counts.iter().enumerate().map(row).collect()
}

fn times(context: &Context, table: &str, routes: &[(Prefix<u32>, Hop)]) -> Result<Vec<Row>, Error> {
    let routes = contest::folded(routes.iter().copied(), context.hops());
    let ranges = Ranges::new(&routes);
    let options = Options([("k".to_string(), K.to_string())].into());
    let built = contestants::named::<u32>("dxr", options);
    let subject = built.and_then(|dxr| dxr.build(&routes.iter().copied().collect()));
    let subject = subject.map_err(|what| Error::Missing { experiment: "dxr/fig4", what })?;
    // Addresses of each kind; those that need many steps are rare among random ones.
    let mut kinds = vec![Vec::new(); MOST_STEPS + 1];
    let random = Traffic::Random.draw(&routes, 1 << 21, 1);
    for dst in random.into_iter().chain(Traffic::Prefix.draw(&routes, 1 << 19, 1)) {
        let kind = &mut kinds[(ranges.steps(dst, K) as usize).min(MOST_STEPS)];
        if kind.len() < 1 << 18 {
            kind.push(dst);
        }
    }
    let mut rng = Rng::new(3);
    let kinds = kinds.into_iter().enumerate().filter(|(_, kind)| kind.len() > 1000);
    let streams: Vec<(usize, Vec<u32>, Vec<u32>)> = kinds
        .map(|(steps, mut random)| {
            rng.shuffle(&mut random);
            let few = random.iter().take(random.len() / 16);
            let repeated = few.flat_map(|dst| [*dst; 16]).collect();
            (steps, random, repeated)
        })
        .collect();
    let (mut variants, mut rows) = (Vec::new(), Vec::new());
    for (steps, random, repeated) in &streams {
        for (traffic, dsts) in [("random", random), ("repeated", repeated)] {
            variants.push(Variant::new("", scalar(&*subject, dsts)));
            variants.push(Variant::new("", rate(subject.stream(dsts), dsts.len(), 256)));
            for burst in [1, 256] {
                rows.push(Row::new([
                    ("table", table.to_string()),
                    ("traffic", traffic.to_string()),
                    ("steps", steps.to_string()),
                    ("burst", burst.to_string()),
                ]));
            }
        }
    }
    let timings = context.measure(&mut variants);
    Ok(rows.into_iter().zip(timings).map(|(row, t)| row.with("time_ns", t.nanos)).collect())
}

/// All beyond are counted together, as in the paper.
const MOST_STEPS: usize = 7;
/// D18R.
const K: u32 = 18;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_of_one_range_needs_no_step() {
        let route = |first, len, hop| (Prefix::new(first, len).unwrap(), Hop(hop));
        let ranges = Ranges::new(&[
            route(0x0a00_0000, 8, 1),
            route(0x0a00_0100, 24, 2),
            route(0x0a01_0000, 16, 1),
        ]);
        assert_eq!(ranges.steps(0x0a01_0203, 16), 0);
        // Three ranges in the first chunk: one or two steps.
        assert_eq!(ranges.steps(0x0a00_0000, 16), 1);
        assert_eq!(ranges.steps(0x0a00_0105, 16), 2);
        assert_eq!(ranges.steps(0x0a00_0205, 16), 2);
        assert_eq!(ranges.steps(0xffff_ffff, 16), 0);
    }
}
