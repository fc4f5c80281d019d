//! `lpm/peers`: every engine and every rival on one table.
//!
//! ```text
//!  rate      destinations in bursts of 256 and 64, four kinds of traffic
//!  latency   each destination waits for the hop before it
//!  update    delete a prefix, put it back; with and without a reader beside
//!  bytes     what a lookup can read; the store of routes is not counted
//! ```
//!
//! Hops are folded to 32,766 on all sides, which 2-byte `rte_fib` can hold.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use lookup::lpm::Intervals;
use lookup::rib::Change;
use lookup::{Hop, Prefix, Rib};

use crate::clock;
use crate::contest::{self, Contestant, Family, Stream, Subject};
use crate::data::{Rng, Traffic};
use crate::record::Figure;
use crate::slices::{Sample, Variant, Work, repeat};
use crate::{Card, Context, Error, Experiment, Plot, Record, Row, Style, Verdict};

/// See the module.
pub struct Peers;

impl Experiment for Peers {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        let usual = context.pick("internet:1000000+200000", "internet:100000+20000");
        let mut cells = Vec::new();
        for table in context.tables(&[usual]) {
            cells.extend(["ipv4", "ipv6"].map(|family| format!("{family} of {table}")));
        }
        let rows = context.cells(cells, |context, cell| {
            let (family, name) = cell.split_once(" of ").expect("made above");
            let table = context.load(name)?;
            match family {
                "ipv4" => measure(context, &table.name, &table.ipv4),
                _ => measure(context, &table.name, &table.ipv6),
            }
        })?;
        let verdicts = verdicts(&rows);
        let mut notes = vec![
            "rates and latencies by thread processor time, variants in turn; hops folded to 32,766"
                .to_string(),
        ];
        if u32::rivals().is_empty() {
            notes.push("built without the feature `rivals`: only our own engines took part".into());
        }
        Ok(context.record(rows, verdicts, notes))
    }
}

const CARD: Card = Card {
    name: "lpm/peers",
    help: "every engine and rival on a table: rate, dependent latency, bytes, build and update time",
    source: "issues on the router and on longest-prefix match",
    claim: "`dir-24-8` is no slower than DPDK's `rte_fib`; `planb` leads the IPv6 rivals",
    plots: &[
        Plot {
            title: "Lookups in bursts of 256",
            figure: "rate_mlps",
            unit: "million lookups/s",
            x: "traffic",
            series: "engine",
            panels: &["family", "table"],
            style: Style::Bars,
        },
        Plot {
            title: "Dependent latency",
            figure: "latency_ns",
            unit: "ns",
            x: "traffic",
            series: "engine",
            panels: &["family", "table"],
            style: Style::Bars,
        },
        Plot {
            title: "Memory",
            figure: "bytes_per_prefix",
            unit: "bytes a prefix",
            x: "engine",
            series: "family",
            panels: &["table", "family"],
            style: Style::Bars,
        },
        Plot {
            title: "Update beside a reader",
            figure: "update_beside_reader_us",
            unit: "µs",
            x: "engine",
            series: "family",
            panels: &["table", "family"],
            style: Style::Bars,
        },
    ],
};

/// A contestant that took the table.
struct Built<A: Family> {
    name: String,
    subject: Box<dyn Subject<A>>,
    row: Row,
}

fn measure<A: Family>(
    context: &mut Context,
    table: &str,
    routes: &[(Prefix<A>, Hop)],
) -> Result<Vec<Row>, Error> {
    if routes.is_empty() {
        return Ok(Vec::new());
    }
    let routes = contest::folded(routes.iter().copied(), HOPS);
    let rib: Rib<A> = routes.iter().copied().collect();
    let label = |engine: &str, traffic: &str| {
        let labels =
            [("engine", engine), ("family", A::FAMILY), ("table", table), ("traffic", traffic)];
        Row::new(labels.map(|(name, value)| (name, value.to_string())))
    };
    let (mut built, mut rows) = (Vec::new(), Vec::new());
    for contestant in contest::all::<A>() {
        let row = label(&contestant.name, "");
        if contestant.slow && (context.quick() || routes.len() > SLOW_MOST) {
            rows.push(row.noting("left out: it takes minutes to build"));
            continue;
        }
        match build(&contestant, &rib, routes.len(), row.clone()) {
            Ok(one) => built.push(one),
            Err(refusal) => rows.push(row.noting(refusal)),
        }
    }
    let flat = Intervals::new(routes.iter().copied());
    for traffic in Traffic::ALL {
        rows.extend(rates(context, &built, traffic, &routes, &flat, &label));
    }
    for one in built {
        rows.push(updates(context, one, &routes, &rib, &flat)?);
    }
    Ok(rows)
}

fn build<A: Family>(
    contestant: &Contestant<A>,
    rib: &Rib<A>,
    prefixes: usize,
    row: Row,
) -> Result<Built<A>, String> {
    let start = clock::thread_time();
    let subject = contestant.build(rib)?;
    let time = clock::thread_time() - start;
    let mut row = row.with("build_s", time.as_secs_f64());
    if let Some(bytes) = subject.bytes() {
        row = row.with("bytes", bytes as f64);
        row = row.with("bytes_per_prefix", bytes as f64 / prefixes as f64);
    }
    Ok(Built { name: contestant.name.clone(), subject, row })
}

/// One traffic: rate and latency of all that took the table.
fn rates<A: Family>(
    context: &Context,
    built: &[Built<A>],
    traffic: Traffic,
    routes: &[(Prefix<A>, Hop)],
    flat: &Intervals<A>,
    label: &dyn Fn(&str, &str) -> Row,
) -> Vec<Row> {
    let dsts = traffic.draw(routes, context.pick(1 << 20, 1 << 17), 1);
    let want: Vec<Hop> = dsts.iter().map(|dst| flat.lookup(*dst)).collect();
    let want = contest::checksum(&want);
    let few = &dsts[..dsts.len().min(1 << 16)];
    let mut variants = Vec::new();
    for one in built {
        for burst in BURSTS {
            let stream = one.subject.stream(&dsts);
            let work = Rate { stream, n: dsts.len() as u64, burst };
            variants.push(Variant::new(&one.name, work));
        }
        let chase = || u64::from(chase(&*one.subject, few).0);
        variants.push(Variant::new(&one.name, repeat(few.len() as u64, chase)));
    }
    let timings = context.measure(&mut variants);
    let per_engine = timings.chunks(BURSTS.len() + 1);
    per_engine
        .map(|timings| {
            let row = label(&timings[0].name, traffic.name()).checked(want);
            if timings[0].checksum != Some(want) {
                // No figure for wrong answers.
                return row.noting("answers differ from the flattened intervals");
            }
            row.with("rate_mlps", timings[0].rate.scaled(1e-6))
                .with("cycles", timings[0].cycles)
                .with("rate_64_mlps", timings[1].rate.scaled(1e-6))
                .with("latency_ns", timings[2].nanos)
        })
        .collect()
}

/// Passes over all destinations; the answers of each slice are checked outside
/// of its time.
struct Rate<'s> {
    stream: Box<dyn Stream + 's>,
    n: u64,
    burst: usize,
}

impl Work for Rate<'_> {
    fn slice(&mut self, target: Duration) -> Sample {
        let (start, mut passes) = (clock::thread_time(), 0);
        let mut time = Duration::ZERO;
        while time < target {
            self.stream.pass(self.burst);
            passes += 1;
            time = clock::thread_time() - start;
        }
        let checksum = Some(contest::checksum(&self.stream.answers()));
        Sample { ops: passes * self.n, time, checksum, ..Sample::default() }
    }
}

/// Looks `dsts` up so that each waits for the one before: a hop's top bit is
/// always 0, which the compiler does not know.
fn chase<A: Family>(subject: &dyn Subject<A>, dsts: &[A]) -> Hop {
    dsts.iter().fold(Hop::NONE, |hop, dst| subject.lookup(dst.plus(u64::from(hop.0 >> 31))))
}

/// Deletes prefixes and puts them back: alone, then while another core reads.
fn updates<A: Family>(
    context: &Context,
    mut one: Built<A>,
    routes: &[(Prefix<A>, Hop)],
    rib: &Rib<A>,
    flat: &Intervals<A>,
) -> Result<Row, Error> {
    let mut rng = Rng::new(7);
    let n = context.pick(20_000, 2_000);
    let picks: Vec<_> = (0..n).map(|_| routes[rng.below(routes.len())]).collect();
    let dsts = Traffic::Prefix.draw(routes, 1 << 14, 9);
    let mut rib = rib.clone();
    let mut row = one.row;
    match churn(&mut *one.subject, &mut rib, &picks) {
        Ok(Some(alone)) => row = row.with("update_us", alone),
        Ok(None) => return Ok(row.noting("no update in place: it is rebuilt")),
        Err(refusal) => return Ok(row.noting(format!("update: {refusal}"))),
    }
    if let Some(mut read) = one.subject.reader(&dsts)
        && clock::cores().len() > 1
    {
        let stop = AtomicBool::new(false);
        let found = thread::scope(|scope| {
            scope.spawn(|| {
                clock::pin(clock::cores()[0]);
                while !stop.load(Ordering::Relaxed) {
                    read();
                }
            });
            let found = churn(&mut *one.subject, &mut rib, &picks);
            stop.store(true, Ordering::Relaxed);
            found
        });
        match found {
            Ok(found) => row = row.with("update_beside_reader_us", found.unwrap_or_default()),
            Err(refusal) => row = row.noting(format!("update beside a reader: {refusal}")),
        }
    }
    let wrong = dsts.iter().find(|dst| one.subject.lookup(**dst) != flat.lookup(**dst));
    if let Some(dst) = wrong {
        let what = format!("{} answers {} wrongly after updates", one.name, dst.to_ip());
        return Err(Error::Wrong { experiment: CARD.name, what });
    }
    Ok(row)
}

/// Microseconds of an update; `None` where there is none in place.
fn churn<A: Family>(
    subject: &mut dyn Subject<A>,
    rib: &mut Rib<A>,
    picks: &[(Prefix<A>, Hop)],
) -> Result<Option<Figure>, String> {
    let mut means = Vec::new();
    for picks in picks.chunks(UPDATES_AT_ONCE) {
        let start = clock::thread_time();
        for (prefix, hop) in picks {
            for hop in [None, Some(*hop)] {
                if !subject.update(rib, &Change { prefix: *prefix, hop })? {
                    return Ok(None);
                }
            }
        }
        let time = clock::thread_time() - start;
        means.push(time.as_secs_f64() * 1e6 / (2 * picks.len()) as f64);
    }
    Ok(Some(Figure::least_is_best(&means)))
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let rate = |engine: &str, family: &str, traffic: &str| {
        let labels = [("engine", engine), ("family", family), ("traffic", traffic)];
        rows.iter().find(|row| row.is(&labels))?.median("rate_mlps")
    };
    let best_of = |prefix: &str, family: &str, traffic: &str| {
        let of = rows.iter().filter(|row| {
            row.label("engine").starts_with(prefix)
                && row.is(&[("family", family), ("traffic", traffic)])
        });
        of.filter_map(|row| row.median("rate_mlps")).reduce(f64::max)
    };
    let mut verdicts = Vec::new();
    for (ours, rival, family, factor) in
        [("dir-24-8", "rte_fib", "ipv4", 0.9), ("planb", "rte_fib6", "ipv6", 1.0)]
    {
        for traffic in ["random", "prefix"] {
            let claim =
                format!("{ours} ≥ {factor} × {rival} (its best variant), {traffic} traffic");
            verdicts.push(match (rate(ours, family, traffic), best_of(rival, family, traffic)) {
                (Some(ours), Some(best)) => Verdict::at_least(claim, ours / best, factor, "×"),
                _ => Verdict::open(claim, "one of them did not take part"),
            });
        }
    }
    verdicts
}

/// What the 15 bits of a 2-byte `rte_fib` entry hold.
const HOPS: u32 = 32_766;
const BURSTS: [usize; 2] = [256, 64];
const UPDATES_AT_ONCE: usize = 200;
/// The largest table for contestants that are slow to build.
const SLOW_MOST: usize = 200_000;
