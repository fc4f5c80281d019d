//! `grantor/flood`: more requests than the policy can decide.
//!
//! ```text
//!  requests of 61 priorities in turn ─► worker ─┬ asked, a million a second ► decided
//!                                               └ no room: shed
//! ```
//!
//! One worker takes what a `mem` port has, as fast as it can; the policy answers by the clock. Just
//! the highest priorities should be decided: as many of the 61 as a million is of what comes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use graph::{Graph, clock as ticks};
use lookup::sync::Thread;
use nodes::grantor::settings::{ASKED, Counters};
use policy::ask::{Asker, Full, Question, Verdict as Answer};

use super::super::router::{Frames, Source, Tables, per_node, stamp};
use super::forward::{INNER, LINK, Wrapped, asking, tables};
use crate::slices::{Sample, Timing, Variant, Work};
use crate::watch::Watch;
use crate::{Card, Context, Error, Experiment, Plot, Record, Row, Style, Takes, Verdict, clock};

/// See the module.
pub struct Flood;

impl Experiment for Flood {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn judge(&self, rows: &[Row]) -> Vec<Verdict> {
        verdicts(rows)
    }

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        let wrong = |what| Error::Wrong { experiment: CARD.name, what };
        let rows = context.cells(["ipv4"], |context, _| {
            let table = context.load(context.pick("internet:1000000", "internet:10000"))?;
            measure(context, &table.ipv4).map_err(wrong)
        })?;
        let verdicts = self.judge(&rows);
        Ok(context.record(rows, verdicts, NOTES.map(String::from).into()))
    }
}

const NOTES: [&str; 2] = [
    "inner frames of 64 bytes, a mem port, 16,000 packets; each gets its priority as it comes in; \
     the policy is in the same thread, and declines",
    "highest_decided: of the requests that were decided, those of the priorities that there is time \
     for, for the last of them in part",
];

const CARD: Card = Card {
    name: "grantor/flood",
    takes: Takes { full_s: 10.0, quick_s: 3.0 },
    help: "requests a second that a Grantor takes in, while its policy decides a million of them",
    source: "issue on policies and Grantor",
    claim: "10 million requests a second, of which the highest priorities are decided",
    plots: &[Plot {
        title: "Requests",
        figure: "rate_mpps",
        unit: "million a second",
        x: "family",
        series: "variant",
        panels: &[],
        style: Style::Bars,
    }],
};

fn measure(
    context: &Context,
    routes: &[(lookup::Prefix<u32>, lookup::Hop)],
) -> Result<Vec<Row>, String> {
    clock::cores().last().map(|&core| clock::pin(core));
    let tables = tables(routes)?;
    let timings = context.measure(&mut [Variant::new("grantor", Bed::new(&tables)?)]);
    if timings.iter().any(|timing| timing.checksum.is_none()) {
        return Err("packets are missing, or were not requests".into());
    }
    Ok(timings.iter().map(row).collect())
}

fn row(timing: &Timing) -> Row {
    let labels = [("family", "ipv4".to_string()), ("variant", timing.name.clone())];
    let row = Row::new(labels).with("cycles", timing.cycles);
    let row = row.with("rate_mpps", timing.rate.scaled(1e-6));
    let figures = timing.figures.iter().map(|(name, figure)| (name.clone(), *figure));
    let parts = timing.parts.iter().map(|(node, figure)| (format!("node.{node}"), *figure));
    figures.chain(parts).fold(row, |row, (name, figure)| row.with(name, figure))
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let figure = |name: &str| rows.first().and_then(|row| row.median(name));
    let goal = |claim: &str, name: &str, least: f64, unit: &str| match figure(name) {
        Some(figure) => Verdict::between(claim, figure, (least, f64::INFINITY), unit),
        None => Verdict::open(claim, "not measured here"),
    };
    vec![
        goal("takes in 10 million requests a second", "rate_mpps", 10.0, "million/s"),
        goal("decides 0.9 million of them", "decided_mpps", 0.9, "million/s"),
        goal("0.95 of the decided are of the highest priorities", "highest_decided", 0.95, ""),
    ]
}

/// A Grantor's worker, and its policy.
struct Bed {
    graph: Graph,
    thread: Thread,
    counters: Arc<Counters>,
    decided: Arc<Decided>,
    _source: Source,
}

impl Bed {
    fn new(tables: &Tables<u32>) -> Result<Bed, String> {
        let headers = |n: usize| {
            let dscp = (n % PRIORITIES) as u8 + LOWEST;
            u32::wrap_as(dscp, &[0; INNER - LINK])
        };
        let mut source = Source::ring(PACKETS, |n, frame| {
            let mut inner = [0; INNER];
            let inner_len = u32::write(0x0b00_0001, &mut inner);
            let whole = u32::wrap_as(LOWEST, &inner[LINK..inner_len]);
            frame[..whole.len()].copy_from_slice(&whole);
            frame[..HEADERS].copy_from_slice(&headers(n)[..HEADERS]);
            whole.len()
        })?;
        // Far apart in turn, as those of unlike sources are.
        let turns = (0..PRIORITIES).map(|n| wire::bytes::array(&headers(n * 37), 0));
        source = source.stamped(|_| stamp::<HEADERS>(turns.clone().collect(), 0));
        let (counters, decided) = (Counters::new(), Arc::new(Decided::default()));
        let asker = Paced::new(decided.clone());
        let mut graph = asking(tables, Some(Box::new(asker)), counters.clone())?;
        for (number, port) in std::mem::take(&mut source.ports).into_iter().enumerate() {
            graph.ports().set(number as u16, port);
        }
        let mut thread = tables.register("flood");
        thread.offline();
        Ok(Bed { graph, thread, counters, decided, _source: source })
    }

    /// Polls for about so long.
    fn poll_for(&mut self, target: Duration) -> Watch {
        let mut watch = Watch::new(target);
        loop {
            let mut came = 0;
            for _ in 0..POLLS {
                came += self.graph.poll(self.thread.guard()) as u64;
                self.thread.quiesce();
            }
            if !watch.lap(came) {
                return watch;
            }
        }
    }
}

impl Work for Bed {
    fn slice(&mut self, target: Duration) -> Sample {
        self.thread.online();
        // What waited between two slices was given up: the lower priorities had room again.
        self.poll_for(BEFORE);
        let before = (self.graph.stats().snapshot(), self.counters.requests.get());
        let decided = self.decided.now();
        let watch = self.poll_for(target);
        self.thread.offline();
        let after = self.graph.stats().snapshot();
        let ops = self.counters.requests.get() - before.1;
        let decided: Vec<u64> =
            self.decided.now().iter().zip(decided).map(|(now, then)| now - then).collect();
        let all: u64 = decided.iter().sum();
        // Those that there is time for, for the last of them in part.
        let some = (PRIORITIES as u64 * all).div_ceil(ops.max(1)) as usize;
        let highest: u64 = decided.iter().rev().take(some).sum();
        let received = after.receive.packets - before.0.receive.packets;
        let right = after.law.holds() && received == ops && ops > 0;
        let sample = watch.sample_of(ops, per_node(&before.0, &after));
        Sample {
            checksum: right.then_some(0),
            figures: vec![
                ("decided_mpps".into(), all as f64 / sample.spent.as_secs_f64() / 1e6),
                ("highest_decided".into(), highest as f64 / all.max(1) as f64),
            ],
            ..sample
        }
    }
}

impl Drop for Bed {
    /// Packets that wait go back to the port first.
    fn drop(&mut self) {
        self.thread.online();
        while self.graph.drain(self.thread.guard()) > 0 {
            self.thread.quiesce();
        }
        self.thread.offline();
    }
}

/// Requests that were decided, by priority.
struct Decided([AtomicU64; 64]);

impl Default for Decided {
    fn default() -> Self {
        Decided([const { AtomicU64::new(0) }; 64])
    }
}

impl Decided {
    fn now(&self) -> [u64; 64] {
        std::array::from_fn(|at| self.0[at].load(Ordering::Relaxed))
    }
}

/// Declines a million requests a second.
struct Paced {
    waiting: VecDeque<(u32, u8)>,
    /// Until when, in ticks, what it may have decided is counted.
    paid: u64,
    decided: Arc<Decided>,
}

impl Paced {
    fn new(decided: Arc<Decided>) -> Self {
        Paced { waiting: VecDeque::with_capacity(ASKED), paid: ticks::now(), decided }
    }
}

impl Asker for Paced {
    fn ask(&mut self, question: &Question<'_>) -> Result<(), Full> {
        if self.waiting.len() == ASKED {
            return Err(Full);
        }
        self.waiting.push_back((question.id, question.facts.priority));
        Ok(())
    }

    fn verdicts(&mut self, most: usize, take: &mut dyn FnMut(Answer)) -> usize {
        let (each, now) = (ticks::hz() / PER_S, ticks::now());
        // It does not make up for the time between two slices.
        self.paid = self.paid.max(now.saturating_sub(AT_ONCE * each));
        let due = ((now - self.paid) / each) as usize;
        let n = due.min(most).min(self.waiting.len());
        self.paid += n as u64 * each;
        for (id, priority) in self.waiting.drain(..n) {
            self.decided.0[usize::from(priority)].fetch_add(1, Ordering::Relaxed);
            take(Answer { id, forward: false, decision: None });
        }
        n
    }

    fn flush(&mut self) {}
}

/// Packets that go round: several times as many as may wait.
const PACKETS: usize = 16_000;
/// The lowest priority of a request that is no renewal, and how many there are from there on.
const LOWEST: u8 = 3;
const PRIORITIES: usize = 61;
/// Bytes before an inner packet.
const HEADERS: usize = LINK + 20;
/// Requests that are decided in a second.
const PER_S: u64 = 1_000_000;
/// The most that are made up for when a poll comes late.
const AT_ONCE: u64 = 100;
/// Until those that wait are of the highest priorities.
const BEFORE: Duration = Duration::from_millis(10);
/// Between two looks at the clock.
const POLLS: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_priorities_are_decided() {
        let routes = [(lookup::Prefix::covering(0x0b00_0000, 8), lookup::Hop(1))];
        let mut bed = Bed::new(&tables(&routes).unwrap()).unwrap();
        let samples = [10, 50].map(|millis| bed.slice(Duration::from_millis(millis)));
        assert!(samples.iter().all(|sample| sample.checksum.is_some()), "{samples:?}");
        let shed = bed.counters.shed_of.all();
        assert!(shed[3].get() > 0 && shed[63].get() == 0, "the lowest goes first");
        let decided = bed.decided.now();
        assert!(decided[63] > decided[10], "{decided:?}");
    }

    #[test]
    fn goals_hold_and_fail_by_the_rows() {
        let row = |rate: f64, decided: f64, highest: f64| {
            let row = Row::new([("family", "ipv4".to_string())]).with("rate_mpps", rate);
            row.with("decided_mpps", decided).with("highest_decided", highest)
        };
        let held =
            |row: Row| verdicts(&[row]).iter().filter_map(Verdict::holds).collect::<Vec<_>>();
        assert_eq!(held(row(10.1, 0.95, 0.96)), [true; 3]);
        assert_eq!(held(row(9.9, 0.85, 0.94)), [false; 3]);
        assert!(verdicts(&[]).iter().all(|verdict| verdict.holds().is_none()));
    }
}
