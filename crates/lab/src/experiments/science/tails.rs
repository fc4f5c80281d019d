//! `science/tails`: how long single bursts of 256 lookups take, at the median and in the
//! tail, while nothing changes and beside bursts of BGP updates.
//!
//! ```text
//!  measuring core   burst│burst│burst│…     each timed by the wall clock
//!  other core       ████░░░░░░████░░░░░░    a thousand updates at once, every 10 ms
//! ```
//!
//! The wall clock, because what a packet waits for includes interrupts and neighbours. What
//! they cost alone, with nothing between two looks at the clock, is a row of its own.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use lookup::lpm::{Intervals, Options};
use lookup::rib::Change;
use lookup::{Hop, Prefix, Rib};

use crate::contest::{self, Contestant, READER_BURST, Subject};
use crate::contestants::{self, Family};
use crate::crew::{Crew, Maker};
use crate::data::{Traffic, flaps, kind};
use crate::record::{Bound, quantile};
use crate::slices::{Plan, Sample, Variant, Work};
use crate::{Card, Context, Error, Experiment, Plot, Record, Row, Style, Takes, Verdict, clock};

/// See the module.
pub struct Tails;

impl Experiment for Tails {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn families(&self, _: &Context) -> &'static [&'static str] {
        &["ipv4", "ipv6"]
    }

    fn takes_engine(&self, _: &Context, engine: &str) -> bool {
        contestants::is_of_prefixes(engine)
    }

    fn takes_updates(&self) -> bool {
        true
    }

    fn judge(&self, rows: &[Row]) -> Vec<Verdict> {
        verdicts(rows)
    }

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        context.two_cores(CARD.name, "updates are made on one of their own")?;
        let usual = context.pick("internet:1000000+200000", "internet:100000+50000");
        let tables = context.tables(&[usual]);
        let updates = context.updates()?;
        let cells = tables
            .into_iter()
            .flat_map(|table| ["ipv4", "ipv6"].map(|family| format!("{family} of {table}")));
        let rows = context.cells(cells.collect::<Vec<_>>(), |context, cell| {
            let (family, name) = cell.split_once(" of ").unwrap_or_default();
            let table = context.load(name)?;
            Ok(match family {
                "ipv4" => {
                    let changes = updates.as_ref().map(|updates| &updates.ipv4[..]);
                    measure::<u32>(context, &table.name, &table.ipv4, changes)
                }
                _ => {
                    let changes = updates.as_ref().map(|updates| &updates.ipv6[..]);
                    measure::<u128>(context, &table.name, &table.ipv6, changes)
                }
            })
        })?;
        let from = match &updates {
            Some(updates) => {
                format!("updates: the best routes of {}, in their order", updates.name)
            }
            None => "updates: sessions of 1,000 routes that go down and come back; of every \
                     second one the routes change their hop, of the others they go"
                .into(),
        };
        let notes = vec![
            from,
            format!(
                "a burst: {READER_BURST} prefix-based addresses and a quiescent state; updates: \
                 {BURST} at once every {} ms, or as many as the engine makes (updates_per_s)",
                PERIOD.as_millis()
            ),
            "wall clock, two looks at it included: what they cost alone is the row `nothing`"
                .into(),
        ];
        let verdicts = self.judge(&rows);
        Ok(context.record(rows, verdicts, notes))
    }
}

const CARD: Card = Card {
    name: "science/tails",
    takes: Takes { full_s: 80.0, quick_s: 25.0 },
    help: "p50, p99 and p99.9 of a burst's lookup time, quiet and beside bursts of BGP updates",
    source: "issue on the lab, point 2.5",
    claim: "bursts of updates on another core lengthen neither the median nor the tail of rutter4 and rutter6 by half",
    plots: &[
        plot("Median of a burst", "p50_ns"),
        plot("99 % of the bursts are faster", "p99_ns"),
        plot("99.9 % of the bursts are faster", "p999_ns"),
    ],
};

const fn plot(title: &'static str, figure: &'static str) -> Plot {
    let panels = &["family", "table"];
    Plot {
        title,
        figure,
        unit: "ns",
        x: "engine",
        series: "beside",
        panels,
        style: Style::RankedLog,
    }
}

fn measure<A: Family>(
    context: &Context,
    table: &str,
    routes: &[(Prefix<A>, Hop)],
    given: Option<&[Change<A>]>,
) -> Vec<Row> {
    if routes.is_empty() {
        return Vec::new();
    }
    let routes = contest::folded(routes.iter().copied(), context.hops());
    let fold = |change: &Change<A>| {
        let hop = change.hop.map(|hop| Hop(1 + hop.0 % context.hops()));
        Change { hop, ..*change }
    };
    let changes: Vec<Change<A>> = match given {
        Some(given) => given.iter().map(fold).collect(),
        None => flaps(&routes, BURST, context.pick(100, 10)),
    };
    let dsts = Traffic::Prefix.draw(&routes, context.pick(1 << 20, 1 << 16), 1);
    let rib: Rib<A> = routes.iter().copied().collect();
    let flat = Intervals::new(routes.iter().copied());
    let want: Vec<Hop> = dsts.iter().map(|dst| flat.lookup(*dst)).collect();
    let want = contest::checksum(&want);
    let blank =
        |engine: &str| Row::new([("engine", engine), ("family", A::FAMILY), ("table", table)]);
    let (mut rows, mut sides) = (Vec::new(), Vec::new());
    for name in engines::<A>(context) {
        let row = blank(&name);
        let built = contestants::named::<A>(&name, Options::default());
        match built.and_then(|contestant| Ok((contestant.build(&rib)?, contestant))) {
            Ok((subject, contestant)) if checksum(&*subject, &dsts) == want => {
                let isa = subject.isa();
                let row = isa.into_iter().fold(row, |row, isa| row.labelled("isa", isa));
                match subject.bursts(&dsts) {
                    Some(burst) => {
                        let (renewed, inbox) = channel();
                        let (rib, at, rebuilds) = (rib.clone(), 0, 0);
                        let table = (contestant, subject);
                        let (changes, dsts, failed) = (&changes[..], &dsts[..], None);
                        let writer =
                            Writer { table, renewed, rib, changes, dsts, at, rebuilds, failed };
                        let bursts = Bursts { burst, inbox, nanos: Vec::new() };
                        sides.push((row.checked(want), bursts, Some(writer)));
                    }
                    None => rows.push(row.noting("nobody may read it while it changes")),
                }
            }
            Ok(_) => rows.push(row.noting("answers differ from the flattened intervals")),
            Err(refusal) => rows.push(row.noting(refusal)),
        }
    }
    let nothing = Bursts { burst: Box::new(|| ()), inbox: channel().1, nanos: Vec::new() };
    sides.push((blank(NOTHING), nothing, None));
    rows.extend(timed(context, sides));
    rows
}

fn checksum<A: Family>(subject: &dyn Subject<A>, dsts: &[A]) -> u64 {
    contest::checksum(&subject.stream(dsts).answers())
}

/// The engines asked for, or the main ones of the family.
fn engines<A: Family>(context: &Context) -> Vec<String> {
    let main = match A::FAMILY {
        "ipv4" => &["rutter4", "dir-24-8", "dxr", "poptrie", "tree-bitmap", "rte_fib-2b"][..],
        _ => &["rutter6", "poptrie", "tree-bitmap", "cuvpp", "rte_fib6"],
    };
    contestants::asked::<A>(context, main)
}

/// A row without figures, what looks up a burst, and what changes the table meanwhile.
type Side<'c, A> = (Row, Bursts, Option<Writer<'c, A>>);

/// Each side while nothing changes and beside updates, all in turn.
fn timed<A: Family>(context: &Context, sides: Vec<Side<'_, A>>) -> Vec<Row> {
    let (mut blanks, mut writers) = (Vec::new(), Vec::new());
    let timings = thread::scope(|scope| {
        let mut variants = Vec::new();
        for (row, bursts, writer) in sides {
            let maker: Maker<'_> = Box::new(move || Box::new(bursts));
            let crew = Rc::new(RefCell::new(Crew::new(scope, vec![maker])));
            let updated = writer.is_some();
            let writer = Rc::new(RefCell::new(writer));
            for beside in [QUIET, UPDATES].into_iter().take(1 + usize::from(updated)) {
                let (crew, writer, updates) = (crew.clone(), writer.clone(), beside == UPDATES);
                variants.push(Variant::new("", Turn { crew, writer, updates }));
                blanks.push((row.clone().labelled("beside", beside), writers.len()));
            }
            writers.push(writer);
        }
        let plan = context.plan(variants.len());
        context.measure_by(Plan { slice: context.pick(SLICE, SLICE / 4), ..plan }, &mut variants)
    });
    let faults: Vec<Option<String>> =
        writers.iter().map(|writer| writer.borrow().as_ref().and_then(Writer::fault)).collect();
    let rows = blanks.into_iter().zip(timings).map(|((row, writer), timing)| {
        match &faults[writer] {
            // Figures of a table that did not change say nothing of changes.
            Some(fault) if row.label("beside") == UPDATES => row.noting(fault),
            _ => timing.figures.into_iter().fold(row, |row, (name, figure)| row.with(name, figure)),
        }
    });
    rows.collect()
}

/// Times each burst.
struct Bursts {
    burst: Burst,
    /// Of the table that takes this one's place.
    inbox: Receiver<Burst>,
    nanos: Vec<f64>,
}

/// Looks up the next burst.
type Burst = Box<dyn FnMut() + Send>;

impl Work for Bursts {
    fn slice(&mut self, target: Duration) -> Sample {
        self.nanos.clear();
        let start = clock::thread_time();
        let mut time = Duration::ZERO;
        while time < target {
            if let Some(burst) = self.inbox.try_iter().last() {
                self.burst = burst;
            }
            for _ in 0..BETWEEN {
                let before = Instant::now();
                (self.burst)();
                self.nanos.push(before.elapsed().as_nanos() as f64);
            }
            time = clock::thread_time() - start;
        }
        self.nanos.sort_by(f64::total_cmp);
        let at = |(name, share): (&str, f64)| {
            (name.to_string(), quantile(&self.nanos, share).unwrap_or_default())
        };
        let figures = [("p50_ns", 0.5), ("p99_ns", 0.99), ("p999_ns", 0.999)].map(at).to_vec();
        Sample { ops: self.nanos.len() as u64, time, figures, ..Sample::default() }
    }
}

/// A slice of one side: its reader on the measuring core, updates on the other.
struct Turn<'s, 'c, A: Family> {
    crew: Rc<RefCell<Crew<'s>>>,
    writer: Rc<RefCell<Option<Writer<'c, A>>>>,
    updates: bool,
}

impl<A: Family> Work for Turn<'_, '_, A> {
    fn slice(&mut self, target: Duration) -> Sample {
        let (mut crew, mut writer) = (self.crew.borrow_mut(), self.writer.borrow_mut());
        let cores = clock::cores();
        clock::pin(cores[0]);
        let rebuilds = |writer: &Option<Writer<'_, A>>| writer.as_ref().map_or(0, |w| w.rebuilds);
        let (start, mut made, before) = (Instant::now(), 0, rebuilds(&writer));
        let samples = crew.beside(target, || match writer.as_mut().filter(|_| self.updates) {
            Some(writer) => made = writer.go_on(made, start.elapsed()),
            None => thread::sleep(NAP),
        });
        let seconds = start.elapsed().as_secs_f64();
        let rebuilt = (rebuilds(&writer) - before) as f64 / seconds;
        clock::pin(cores[cores.len() - 1]);
        let mut sample = samples.into_iter().next().unwrap_or_default();
        if self.updates {
            sample.figures.push(("updates_per_s".into(), made as f64 / seconds));
            sample.figures.push(("rebuilds_per_s".into(), rebuilt));
        }
        sample
    }
}

/// Changes a table, a few routes at a time; builds it anew where it asks for that.
struct Writer<'c, A: Family> {
    table: (Contestant<A>, Box<dyn Subject<A>>),
    renewed: Sender<Burst>,
    rib: Rib<A>,
    changes: &'c [Change<A>],
    dsts: &'c [A],
    at: usize,
    rebuilds: u64,
    failed: Option<String>,
}

impl<A: Family> Writer<'_, A> {
    /// Makes the next change.
    fn change(&mut self) -> Result<(), String> {
        let (contestant, subject) = &mut self.table;
        if !subject.update(&mut self.rib, &self.changes[self.at])? {
            // The rib has the change already; readers go on with the table that they have.
            *subject = contestant.build(&self.rib)?;
            let burst = subject.bursts(self.dsts).ok_or("nobody may read it")?;
            // The reader is gone when nothing is measured any more.
            let _ = self.renewed.send(burst);
            self.rebuilds += 1;
        }
        self.at = (self.at + 1) % self.changes.len();
        Ok(())
    }

    /// Of a slice that began `since` ago and has seen `made` changes, makes the next few if
    /// they are due; returns how many there were then.
    fn go_on(&mut self, made: u64, since: Duration) -> u64 {
        let begun = (since.as_micros() / PERIOD.as_micros()) as u64 + 1;
        if self.failed.is_some() || self.changes.is_empty() || made >= begun * BURST as u64 {
            thread::sleep(NAP);
            return made;
        }
        for _ in 0..HANDFUL {
            if let Err(refusal) = self.change() {
                self.failed = Some(format!("update: {refusal}"));
                return made;
            }
        }
        made + HANDFUL
    }

    /// Why the figures beside updates are none: an update failed, or the answers after them
    /// are wrong.
    fn fault(&self) -> Option<String> {
        if self.failed.is_some() {
            return self.failed.clone();
        }
        if self.changes.is_empty() {
            return Some("there are no updates of this family".into());
        }
        let flat = Intervals::new(self.rib.iter());
        let subject = &self.table.1;
        let wrong = self.dsts.iter().find(|dst| subject.lookup(**dst) != flat.lookup(**dst))?;
        Some(format!("{} is answered wrongly after updates", wrong.to_ip()))
    }
}

/// Of ours, in each family and table: how the tail compares with the median, and what the
/// updates add.
fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let ours = |row: &&Row| ["rutter4", "rutter6"].contains(&row.label("engine"));
    let mut verdicts = Vec::new();
    for quiet in rows.iter().filter(ours).filter(|row| row.label("beside") == QUIET) {
        let (engine, table) = (quiet.label("engine"), quiet.label("table"));
        let same = |row: &&Row| row.label("engine") == engine && row.label("table") == table;
        let beside = rows.iter().filter(same).find(|row| row.label("beside") == UPDATES);
        let over = |figure: &str, of: Option<&Row>, to: &str| {
            let (of, to) = (of?.median(figure)?, quiet.median(to)?);
            (to > 0.0).then(|| of / to)
        };
        let place = format!("[{engine}, {}]", kind(table));
        let mut judge = |text: String, bound: Bound, found: Option<f64>| {
            let found: Vec<f64> = found.into_iter().collect();
            verdicts.push(bound.ours().judge(format!("{text} {place}"), &found, "×"));
        };
        let tail = Bound::within(1.0, 3.0);
        let text = "quiet, p99 of a burst is at most 3 × its median";
        judge(text.into(), tail, over("p99_ns", Some(quiet), "p50_ns"));
        for (figure, name) in [("p50_ns", "p50"), ("p99_ns", "p99"), ("p999_ns", "p99.9")] {
            let text = format!("bursts of updates lengthen {name} by no more than half");
            judge(text, Bound::within(1.0 / 1.5, 1.5), over(figure, beside, figure));
        }
    }
    verdicts
}

const NOTHING: &str = "nothing";
const QUIET: &str = "quiet";
const UPDATES: &str = "updates";
/// Updates of a burst, and how often one comes.
const BURST: usize = 1000;
const PERIOD: Duration = Duration::from_millis(10);
/// Updates between two looks at whether the slice is over.
const HANDFUL: u64 = 8;
/// Bursts of lookups between two looks at the processor time.
const BETWEEN: usize = 64;
const SLICE: Duration = Duration::from_millis(40);
const NAP: Duration = Duration::from_micros(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_is_judged_against_the_quiet_one() {
        let row = |beside: &str, figures: [f64; 3]| {
            let labels = [("engine", "rutter4"), ("table", "internet:1000"), ("beside", beside)];
            let row = Row::new(labels);
            ["p50_ns", "p99_ns", "p999_ns"]
                .into_iter()
                .zip(figures)
                .fold(row, |row, (n, f)| row.with(n, f))
        };
        let held = |quiet, beside| {
            let rows = [row(QUIET, quiet), row(UPDATES, beside)];
            verdicts(&rows).iter().map(Verdict::holds).collect::<Vec<_>>()
        };
        assert_eq!(held([1e3, 2e3, 9e3], [1.1e3, 2.5e3, 9e3]), [Some(true); 4]);
        assert_eq!(held([1e3, 4e3, 9e3], [1.6e3, 9e3, 99e3]), [Some(false); 4]);
        assert_eq!(held([1e3, 2e3, 9e3], [0.4e3, 0.9e3, 3e3])[1..], [Some(false); 3]);
    }

    #[test]
    fn updates_come_in_bursts() {
        // planb is built anew at each change.
        for (engine, rebuilds) in [("rutter6", 0), ("planb", BURST as u64 + HANDFUL)] {
            let routes = [(Prefix::new(10 << 120, 8).expect("a /8"), Hop(1))];
            let rib: Rib<u128> = routes.into_iter().collect();
            let contestant = contestants::named::<u128>(engine, Options::default());
            let contestant = contestant.expect("one of ours");
            let subject = contestant.build(&rib).expect("one route");
            let (changes, dsts) = (flaps(&routes, 1, 2), [10 << 120, 11 << 120]);
            let (renewed, inbox) = channel();
            let mut writer = Writer {
                table: (contestant, subject),
                renewed,
                rib,
                changes: &changes,
                dsts: &dsts,
                at: 0,
                rebuilds: 0,
                failed: None,
            };
            assert_eq!(all(&mut writer, 0, PERIOD / 2), BURST as u64);
            let made = BURST as u64;
            assert_eq!(writer.go_on(made, PERIOD / 2), made);
            assert_eq!(writer.go_on(made, PERIOD), made + HANDFUL);
            assert_eq!((writer.fault(), writer.rebuilds), (None, rebuilds));
            assert_eq!(inbox.try_iter().count() as u64, rebuilds);
        }
    }

    /// So many steps that all is made that is due.
    fn all(writer: &mut Writer<'_, u128>, from: u64, since: Duration) -> u64 {
        let steps = std::iter::successors(Some(from), |&made| Some(writer.go_on(made, since)));
        steps.take(1 + BURST / HANDFUL as usize).last().unwrap_or_default()
    }

    #[test]
    fn each_burst_is_timed() {
        let (_renewed, inbox) = channel();
        let mut work = Bursts { burst: Box::new(|| ()), inbox, nanos: Vec::new() };
        let sample = work.slice(Duration::from_millis(1));
        let figure = |i: usize| sample.figures[i].1;
        assert!(sample.ops >= BETWEEN as u64);
        assert!(figure(0) <= figure(1) && figure(1) <= figure(2), "{:?}", sample.figures);
    }
}
