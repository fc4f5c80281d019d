//! Interleaved slices: the variants of a measurement take turns, a few
//! milliseconds each, so that a disturbance hits all of them alike.
//!
//! ```text
//!  round 1   A ░██ B ░██ C ░██        not counted
//!  round 2   A ░██ B ░██ C ░██   ─┐
//!  round 3   A ░██ B ░██ C ░██    ├─► per variant: median, best, spread
//!   …                            ─┘
//! ```
//!
//! Each slice ██ follows a run of the same work that is not timed, ░: the variant before it has
//! filled the caches with its own memory. Without that run the first milliseconds of a slice
//! would read the variant's table back, the longer the larger it is.
//!
//! A fixed loop measures how much of the core there is: before and after each slice, and, where
//! the work takes its time by a [`Watch`], five times a millisecond. Pieces beside which that was
//! clearly less than the most do not count: somebody else used the core then. A slice that has no
//! pieces left is dropped, and counted. Rounds are added until each variant has slices
//! enough; where the neighbours never rest, the better ones are kept.

use std::ops::Add;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::record::Figure;
pub use crate::sample::Sample;
use crate::watch::Watch;
use crate::{clock, width};

/// Something that can be run for a while, again and again.
pub trait Work {
    /// Runs for about `target` of processor time.
    fn slice(&mut self, target: Duration) -> Sample;
}

/// One of the things compared.
pub struct Variant<'a> {
    /// What distinguishes it.
    pub name: String,
    /// What is timed.
    pub work: Box<dyn Work + 'a>,
}

impl<'a> Variant<'a> {
    /// A variant that runs `work`.
    pub fn new(name: impl Into<String>, work: impl Work + 'a) -> Self {
        Variant { name: name.into(), work: Box::new(work) }
    }
}

/// How often and how long.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Rounds that count.
    pub rounds: usize,
    /// Rounds while somebody disturbs, at most.
    pub most: usize,
    /// Processor time of one slice.
    pub slice: Duration,
    /// Processor time of the same work before each slice, where there are several variants.
    pub warm: Duration,
    /// When this time has passed, no more rounds are added.
    pub patience: Duration,
}

impl Plan {
    /// Six times what turns take as a rule: enough for four times as many on a busy machine.
    pub const PATIENCE: Duration = Duration::from_secs(60);
}

/// What the slices of one variant came to.
#[derive(Clone, Debug, Default)]
pub struct Timing {
    /// The variant's name.
    pub name: String,
    /// Operations a second of processor time.
    pub rate: Figure,
    /// Nanoseconds of processor time an operation.
    pub nanos: Figure,
    /// Core cycles an operation.
    pub cycles: Figure,
    /// Core cycles an operation of each part, by name.
    pub parts: Vec<(String, Figure)>,
    /// Further figures by name, as they are.
    pub figures: Vec<(String, Figure)>,
    /// The checksum of the results; `None` where the work has none, or where two
    /// slices disagreed.
    pub checksum: Option<u64>,
    /// The rate of each round in turn, for comparisons round by round: of the
    /// dropped slices, too.
    pub rates: Vec<f64>,
    /// Which of the rounds nobody disturbed.
    pub quiet: Vec<bool>,
    /// How many slices were dropped.
    pub dropped: usize,
    /// Processor time of the pieces that were left out of the slices kept.
    pub left_out: Duration,
    /// Processor time of all slices kept.
    pub spent: Duration,
}

impl Timing {
    /// How many of the slices kept were disturbed: there were too few others.
    pub fn disturbed(&self) -> usize {
        let quiet = self.quiet.iter().filter(|quiet| **quiet).count();
        self.rates.len() - self.dropped - quiet
    }
}

/// How many slices there were, and what of them was left out.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Slices {
    /// All that were timed.
    pub all: usize,
    /// Those that were dropped.
    pub dropped: usize,
    /// Those kept although they were disturbed.
    pub disturbed: usize,
    /// As of a [`Timing`], in seconds.
    pub left_out_s: f64,
    /// As of a [`Timing`], in seconds.
    pub spent_s: f64,
}

impl Slices {
    /// Of these timings.
    pub fn of(timings: &[Timing]) -> Slices {
        let of = |timing: &Timing| Slices {
            all: timing.rates.len(),
            dropped: timing.dropped,
            disturbed: timing.disturbed(),
            left_out_s: timing.left_out.as_secs_f64(),
            spent_s: timing.spent.as_secs_f64(),
        };
        timings.iter().map(of).fold(Slices::default(), Add::add)
    }

    /// What a reader should know of it, in sentences.
    pub fn notes(&self) -> Vec<String> {
        let (all, mut notes) = (self.all, Vec::new());
        let percent = self.left_out_s / self.spent_s.max(1e-9) * 100.0;
        if percent >= 1.0 {
            notes.push(format!(
                "{percent:.0} % of the time of the slices is left out: somebody else used the core then"
            ));
        }
        if self.dropped > 0 {
            notes.push(format!(
                "{} of {all} slices were dropped: somebody else used the core beside them",
                self.dropped
            ));
        }
        if self.disturbed > 0 {
            let kept = self.disturbed;
            notes.push(format!("{kept} such slices were kept: there were no better ones"));
        }
        notes
    }
}

impl Add for Slices {
    type Output = Slices;

    fn add(self, other: Slices) -> Slices {
        Slices {
            all: self.all + other.all,
            dropped: self.dropped + other.dropped,
            disturbed: self.disturbed + other.disturbed,
            left_out_s: self.left_out_s + other.left_out_s,
            spent_s: self.spent_s + other.spent_s,
        }
    }
}

/// A slice, and the core beside it.
#[derive(Clone)]
struct Slice {
    sample: Sample,
    ghz: f64,
    /// Of the core before and after, the lesser.
    width: f64,
}

impl Slice {
    /// The larger, the quieter.
    fn share(&self) -> f64 {
        self.sample.quiet.unwrap_or(self.width)
    }

    /// Where a core of this width, at least, is quiet.
    fn is_quiet(&self, least: f64) -> bool {
        self.sample.quiet.map_or(self.width >= least, |share| share >= Sample::QUIET_SHARE)
    }
}

/// Runs the variants in turn: one round to warm up, then `plan.rounds`, and more
/// until half as many were quiet for each variant, `plan.most` were run, or
/// `plan.patience` is over.
pub fn interleave(variants: &mut [Variant<'_>], plan: Plan) -> Vec<Timing> {
    let mut slices: Vec<Vec<Slice>> = vec![Vec::with_capacity(plan.rounds); variants.len()];
    let enough = plan.rounds.div_ceil(2);
    let lacking = |slices: &Vec<Slice>| {
        let least = width::quiet();
        slices.iter().filter(|slice| slice.is_quiet(least)).count() < enough
    };
    let warm = if variants.len() > 1 { plan.warm } else { Duration::ZERO };
    let (start, mut round) = (Instant::now(), 0);
    let more = |round| round <= plan.most && start.elapsed() < plan.patience;
    while round <= plan.rounds || (more(round) && slices.iter().any(lacking)) {
        for (variant, slices) in variants.iter_mut().zip(&mut slices) {
            if !warm.is_zero() {
                variant.work.slice(warm);
            }
            let slice = slice(variant, plan.slice);
            if round > 0 {
                slices.push(slice);
            }
        }
        round += 1;
    }
    let least = width::quiet();
    let each = variants.iter().zip(&slices);
    each.map(|(variant, slices)| summary(variant, slices, least, enough)).collect()
}

fn slice(variant: &mut Variant<'_>, target: Duration) -> Slice {
    let (before, width) = (clock::core_ghz(), width::width());
    let sample = variant.work.slice(target);
    // An interrupt makes either clock slower, a neighbour stays.
    let width = width.min(width::width());
    Slice { sample, ghz: before.max(clock::core_ghz()), width }
}

/// A [`Work`] out of a closure that does `ops` operations a call and returns a
/// checksum of their results.
pub fn repeat<F: FnMut() -> u64>(ops: u64, run: F) -> Repeat<F> {
    Repeat { ops, run }
}

/// See [`repeat`].
pub struct Repeat<F> {
    ops: u64,
    run: F,
}

impl<F: FnMut() -> u64> Work for Repeat<F> {
    fn slice(&mut self, target: Duration) -> Sample {
        let mut watch = Watch::new(target);
        let (first, mut same) = ((self.run)(), true);
        while watch.lap(self.ops) {
            same &= (self.run)() == first;
        }
        Sample { checksum: same.then_some(first), ..watch.sample() }
    }
}

/// A [`Work`] that goes round and round over `n` things: `run` gets the first of
/// those to do and how many, at most `step` between two looks at the clock, which
/// cost a system call.
pub fn rounds<F: FnMut(usize, usize)>(n: usize, step: usize, run: F) -> Rounds<F> {
    Rounds { n, step, at: 0, run }
}

/// See [`rounds`].
pub struct Rounds<F> {
    n: usize,
    step: usize,
    at: usize,
    run: F,
}

impl<F: FnMut(usize, usize)> Work for Rounds<F> {
    fn slice(&mut self, target: Duration) -> Sample {
        let mut watch = Watch::new(target);
        loop {
            let n = self.step.min(self.n - self.at);
            (self.run)(self.at, n);
            self.at = (self.at + n) % self.n;
            if !watch.lap(n as u64) {
                return watch.sample();
            }
        }
    }
}

/// Nothing to run: no operations and no checksum.
impl<W: Work> Work for Option<W> {
    fn slice(&mut self, target: Duration) -> Sample {
        self.as_mut().map(|work| work.slice(target)).unwrap_or_default()
    }
}

type Named = fn(&Sample) -> &[(String, f64)];

/// Those of `slices` beside which the core had at least this width, and no fewer than
/// the `enough` best.
fn kept(slices: &[Slice], least: f64, enough: usize) -> Vec<&Slice> {
    let mut sorted: Vec<&Slice> = slices.iter().collect();
    sorted.sort_by(|a, b| b.share().total_cmp(&a.share()));
    let quiet = sorted.partition_point(|slice| slice.is_quiet(least));
    sorted.truncate(quiet.max(enough));
    sorted
}

fn summary(variant: &Variant<'_>, slices: &[Slice], least: f64, enough: usize) -> Timing {
    let nanos = |sample: &Sample| sample.time.as_nanos() as f64 / sample.ops.max(1) as f64;
    let rate = |slice: &Slice| 1e9 / nanos(&slice.sample).max(1e-9);
    let kept = kept(slices, least, enough);
    let each = |f: &dyn Fn(&Slice) -> f64| kept.iter().map(|slice| f(slice)).collect::<Vec<_>>();
    let first = slices.first().and_then(|slice| slice.sample.checksum);
    let same = slices.iter().all(|slice| slice.sample.checksum == first);
    let parts = |named: Named, cycles: bool| {
        let names = slices.first().map_or(&[][..], |slice| named(&slice.sample));
        let figure = |name: &str| {
            let of = |s: &Sample| named(s).iter().find(|(n, _)| n == name).map_or(0.0, |(_, v)| *v);
            let unit = |slice: &Slice| if cycles { slice.ghz } else { 1.0 };
            let samples = each(&|slice| of(&slice.sample) * unit(slice));
            Figure::least_is_best(&samples)
        };
        names.iter().map(|(name, _)| (name.clone(), figure(name))).collect::<Vec<_>>()
    };
    Timing {
        name: variant.name.clone(),
        rate: Figure::most_is_best(&each(&rate)),
        nanos: Figure::least_is_best(&each(&|slice| nanos(&slice.sample))),
        cycles: Figure::least_is_best(&each(&|slice| nanos(&slice.sample) * slice.ghz)),
        parts: parts(|sample| &sample.parts, true),
        figures: parts(|sample| &sample.figures, false),
        checksum: first.filter(|_| same),
        rates: slices.iter().map(rate).collect(),
        quiet: slices.iter().map(|slice| slice.is_quiet(least)).collect(),
        dropped: slices.len() - kept.len(),
        left_out: kept
            .iter()
            .map(|slice| slice.sample.spent.saturating_sub(slice.sample.time))
            .sum(),
        spent: kept.iter().map(|slice| slice.sample.spent).sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Plan = Plan {
        rounds: 3,
        most: 9,
        slice: Duration::from_millis(2),
        warm: Duration::ZERO,
        patience: Plan::PATIENCE,
    };

    #[test]
    fn the_slower_variant_is_slower() {
        let work = |n: u64| repeat(n, move || (0..n * 40).fold(1, |x, i| (x ^ i) * 3 % 1_000_003));
        let slow = |n: u64| repeat(n, move || (0..n * 400).fold(1, |x, i| (x ^ i) * 3 % 1_000_003));
        let mut variants = [Variant::new("fast", work(100)), Variant::new("slow", slow(100))];
        let timings = interleave(&mut variants, PLAN);
        assert_eq!(timings[0].name, "fast");
        assert!(timings[0].rate.median > 2.0 * timings[1].rate.median, "{timings:?}");
        assert!(timings[0].rates.len() >= 3);
        assert!(timings[0].checksum.is_some());
    }

    #[test]
    fn slices_beside_a_busy_neighbour_are_dropped() {
        let slice = |ops: u64, width: f64| {
            let sample = Sample { ops, time: Duration::from_secs(1), ..Sample::default() };
            Slice { sample, ghz: 1.0, width }
        };
        let variant = Variant::new("one", repeat(1, || 0));
        let slices = [slice(100, 1.0), slice(60, 0.6), slice(100, 0.98), slice(98, 0.96)];
        let timing = summary(&variant, &slices, 0.85, 2);
        assert_eq!((timing.dropped, timing.rates.len(), timing.disturbed()), (1, 4, 0));
        assert_eq!((timing.rate.samples, timing.rate.best), (3, 100.0));
        assert_eq!(timing.quiet, [true, false, true, true]);
        // Were all but one disturbed, the better ones would stay.
        let slices = [slice(100, 1.0), slice(60, 0.6), slice(70, 0.7), slice(50, 0.5)];
        let timing = summary(&variant, &slices, 0.85, 2);
        assert_eq!((timing.dropped, timing.rate.samples, timing.disturbed()), (2, 2, 1));
    }

    #[test]
    fn rounds_are_added_for_what_was_disturbed_and_not_for_ever() {
        let count = |plan: Plan| {
            let mut variants = [Variant::new("one", repeat(1, || 0))];
            interleave(&mut variants, plan)[0].rates.len()
        };
        let slice = Duration::from_micros(10);
        let rounds = count(Plan { rounds: 4, most: 12, slice, ..PLAN });
        assert!((4..=12).contains(&rounds), "{rounds}");
        let rounds = count(Plan { rounds: 4, most: 12, slice, patience: Duration::ZERO, ..PLAN });
        assert_eq!(rounds, 4, "whoever disturbs");
    }

    #[test]
    fn work_is_warm_where_another_was_before() {
        struct Noted<'n>(&'n std::cell::RefCell<Vec<Duration>>);
        impl Work for Noted<'_> {
            fn slice(&mut self, target: Duration) -> Sample {
                self.0.borrow_mut().push(target);
                Sample { ops: 1, time: target, ..Sample::default() }
            }
        }
        let (slice, warm) = (Duration::from_nanos(7), Duration::from_nanos(5));
        let plan = Plan { rounds: 2, most: 2, slice, warm, ..PLAN };
        let noted = std::cell::RefCell::default();
        let both = || Variant::new("", Noted(&noted));
        let timings = interleave(&mut [both(), both()], plan);
        assert_eq!(*noted.borrow(), [warm, slice].repeat(6));
        assert_eq!(timings[0].rates, [1e9 / 7.0; 2]);
        // One alone finds what it left.
        noted.borrow_mut().clear();
        interleave(&mut [both()], plan);
        assert_eq!(*noted.borrow(), [slice; 3]);
    }

    #[test]
    fn rounds_leave_nothing_out() {
        let mut seen = [0; 10];
        let mut work =
            rounds(10, 4, |from, n| seen[from..from + n].iter_mut().for_each(|s| *s += 1));
        let ops = work.slice(Duration::from_micros(50)).ops;
        assert_eq!(seen.iter().sum::<u64>(), ops);
        assert!(seen.iter().max().unwrap() - seen.iter().min().unwrap() <= 1);
    }

    #[test]
    fn results_that_change_have_no_checksum() {
        let mut n = 0;
        let changing = repeat(1, || {
            n += 1;
            n
        });
        let mut variants = [Variant::new("odd", changing)];
        assert_eq!(interleave(&mut variants, PLAN)[0].checksum, None);
    }
}
