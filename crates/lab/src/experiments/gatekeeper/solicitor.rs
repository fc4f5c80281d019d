//! `gatekeeper/solicitor`: what a request costs that waits for the channel, or is dropped.
//!
//! ```text
//!  queue   64 levels and the channel alone: 64 requests come, three leave, the others are dropped
//!  node    the node `solicit` in a worker to which new flows come (`gatekeeper/requests`)
//! ```

use std::sync::Arc;
use std::time::Duration;

use graph::clock as ticks;
use nodes::gatekeeper::solicitor::{CAPACITY, Channel, Poll, Queue};
use nodes::gatekeeper::times::Times;

use super::bed::{Bed, LEFT, Load};
use super::generator::Clients;
use super::site::{Rings, Site};
use crate::data::Rng;
use crate::slices::{Sample, Variant, Work};
use crate::watch::Watch;
use crate::{Card, Context, Error, Experiment, Plot, Record, Row, Style, Takes, Verdict, clock};

/// See the module.
pub struct Solicitor;

impl Experiment for Solicitor {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn judge(&self, rows: &[Row]) -> Vec<Verdict> {
        verdicts(rows)
    }

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        let wrong = |what| Error::Wrong { experiment: CARD.name, what };
        let rows = context.cells(["all"], |context, _| measure(context).map_err(wrong))?;
        let verdicts = self.judge(&rows);
        let note = "node: where it takes requests and where it sends them, the encapsulation of \
                    those that leave included";
        Ok(context.record(rows, verdicts, vec![note.into()]))
    }
}

const CARD: Card = Card {
    name: "gatekeeper/solicitor",
    takes: Takes { full_s: 15.0, quick_s: 2.0 },
    help: "cycles of a request in the queue of 64 levels, and of the node around it",
    source: "issue on Gatekeeper; study of Gatekeeper, F7 (4.3 to 7.9 ns, 95 % dropped)",
    claim: "≤ 25 core cycles a request",
    plots: &[Plot {
        title: "Cycles a request",
        figure: "cycles",
        unit: "core cycles a request",
        x: "part",
        series: "levels",
        panels: &[],
        style: Style::Bars,
    }],
};

fn measure(context: &Context) -> Result<Vec<Row>, String> {
    clock::cores().last().map(|&core| clock::pin(core));
    let none: Arc<[u32]> = Arc::new([]);
    let load = Load {
        places: context.pick(1 << 20, 1 << 16),
        granted: none.clone(),
        declined: none.clone(),
        decisions: none,
        clients: Clients::strangers(),
        packets: 16_000,
    };
    let site = Site::new(1, BACK_BITS)?;
    let mut bed = Bed::new(&site, (0, Rings::none()), load, &Arc::default())?;
    // The channel starts with the tokens of a second: until they are used, more requests leave.
    bed.forward(context.pick(20_000_000, 10_000_000))?;
    let flood = |_| 41;
    let mut rng = Rng::new(1);
    let any = move |_| 3 + rng.below(61) as u8;
    let mut variants = [
        Variant::new("one", Levels::new((0..LEVELS).map(flood).collect())),
        Variant::new("all", Levels::new((0..LEVELS).map(any).collect())),
        Variant::new("", bed),
    ];
    let timings = context.measure(&mut variants);
    drop(variants);
    let row = |part: &str, levels: &str| {
        Row::new([("part", part.to_string()), ("levels", levels.to_string())])
    };
    let [one, all, bed] = &*timings else { return Err("no slices".into()) };
    let left =
        bed.figures.iter().find(|(name, _)| name == LEFT).map_or(0.0, |(_, left)| left.median);
    let node = bed.parts.iter().find(|(name, _)| name == "solicit");
    let (Some(_), Some((_, node))) = (bed.checksum, node) else {
        return Err("packets met other verdicts".into());
    };
    Ok(vec![
        row("queue", "one").with("cycles", one.cycles),
        row("queue", "all").with("cycles", all.cycles),
        row("node", "one").with("cycles", *node).with(LEFT, left),
    ])
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let of = |(part, levels): (&str, &str)| {
        let claim = format!("{part}, {levels} of the levels: 1 to 25 cycles a request");
        let row = rows.iter().find(|row| row.is(&[("part", part), ("levels", levels)]));
        match row.and_then(|row| row.median("cycles")) {
            Some(cycles) => Verdict::between(claim, cycles, (1.0, 25.0), "cycles"),
            None => Verdict::open(claim, "not measured here"),
        }
    };
    [("queue", "one"), ("queue", "all"), ("node", "one")].map(of).into()
}

/// Requests of these levels in turn, in a queue that is always full.
struct Levels {
    levels: Vec<u8>,
    next: usize,
    queue: Queue<[u64; 6]>,
    member: nodes::gatekeeper::solicitor::Member,
    times: Times,
}

impl Levels {
    fn new(levels: Vec<u8>) -> Levels {
        let channel = Channel::new(u64::MAX / 2, 1, ticks::now());
        let (queue, times) = (Queue::new(CAPACITY), Times::new(ticks::rate()));
        Levels { levels, next: 0, queue, member: channel.member(0), times }
    }

    /// A burst comes, and some leave.
    fn burst(&mut self) -> usize {
        for _ in 0..BURST {
            let level = self.levels[self.next];
            self.next = (self.next + 1) % self.levels.len();
            if self.queue.takes(level) {
                std::hint::black_box(self.queue.push(level, [self.next as u64; 6]));
            }
        }
        let poll = Poll { times: &self.times, now: ticks::now(), most: LEAVE };
        self.member.poll(
            &poll,
            &mut self.queue,
            |_| Some(84),
            |_, item| {
                std::hint::black_box(item);
                Ok(true)
            },
        )
    }
}

impl Work for Levels {
    fn slice(&mut self, target: Duration) -> Sample {
        let mut watch = Watch::new(target);
        loop {
            (0..ROUNDS).for_each(|_| {
                self.burst();
            });
            if !watch.lap(ROUNDS * BURST as u64) {
                return Sample { checksum: Some(0), ..watch.sample() };
            }
        }
    }
}

/// Of seven million requests a second one in twenty leaves.
const BACK_BITS: u64 = 6_000_000_000;
const LEVELS: usize = 4_096;
const BURST: usize = 64;
/// Of 64 requests, 95 % are dropped.
const LEAVE: usize = 3;
const ROUNDS: u64 = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_are_dropped() {
        let mut levels = Levels::new(vec![41; 10]);
        let left: usize = (0..100).map(|_| levels.burst()).sum();
        assert_eq!((left, levels.queue.len()), (100 * LEAVE, CAPACITY - LEAVE));
    }

    #[test]
    fn every_verdict_can_fail() {
        let held = |cycles: f64| {
            let labels = [("part", "node".to_string()), ("levels", "one".to_string())];
            verdicts(&[Row::new(labels).with("cycles", cycles)])[2].holds()
        };
        assert_eq!([20.0, 26.0, 0.1].map(held), [Some(true), Some(false), Some(false)]);
    }
}
