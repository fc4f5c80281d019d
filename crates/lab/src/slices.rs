//! Interleaved slices: the variants of a measurement take turns, a few
//! milliseconds each, so that a disturbance hits all of them alike.
//!
//! ```text
//!  round 1   A ██ B ██ C ██        warm-up, not counted
//!  round 2   A ██ B ██ C ██   ─┐
//!  round 3   A ██ B ██ C ██    ├─► per variant: median, best, spread
//!   …                         ─┘
//! ```

use std::time::Duration;

use crate::clock;
use crate::record::Figure;

/// Something that can be run for a while, again and again.
pub trait Work {
    /// Runs for about `target` of processor time.
    fn slice(&mut self, target: Duration) -> Sample;
}

/// What one slice did.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Operations done: lookups, packets.
    pub ops: u64,
    /// Processor time that they took.
    pub time: Duration,
    /// A checksum of the results, the same for every slice of one variant.
    pub checksum: Option<u64>,
    /// What of it each part took, by name, in nanoseconds an operation.
    pub parts: Vec<(String, f64)>,
    /// Further figures of this slice by name, as they are.
    pub figures: Vec<(String, f64)>,
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
    /// Processor time of one slice.
    pub slice: Duration,
}

/// What the slices of one variant came to.
#[derive(Clone, Debug)]
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
    /// The rate of each round in turn, for comparisons round by round.
    pub rates: Vec<f64>,
}

/// Runs the variants in turn: one round to warm up, then `plan.rounds`.
pub fn interleave(variants: &mut [Variant<'_>], plan: Plan) -> Vec<Timing> {
    let mut samples = vec![Vec::with_capacity(plan.rounds); variants.len()];
    for round in 0..=plan.rounds {
        for (variant, samples) in variants.iter_mut().zip(&mut samples) {
            let before = clock::core_ghz();
            let sample = variant.work.slice(plan.slice);
            let ghz = before.max(clock::core_ghz());
            if round > 0 {
                samples.push((sample, ghz));
            }
        }
    }
    variants.iter().zip(&samples).map(|(variant, samples)| summary(variant, samples)).collect()
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
        let start = clock::thread_time();
        let first = (self.run)();
        let (mut calls, mut same) = (1, true);
        let mut time = clock::thread_time() - start;
        while time < target {
            same &= (self.run)() == first;
            calls += 1;
            time = clock::thread_time() - start;
        }
        let checksum = same.then_some(first);
        Sample { ops: calls * self.ops, time, checksum, ..Sample::default() }
    }
}

type Named = fn(&Sample) -> &[(String, f64)];

fn summary(variant: &Variant<'_>, samples: &[(Sample, f64)]) -> Timing {
    let nanos = |sample: &Sample| sample.time.as_nanos() as f64 / sample.ops.max(1) as f64;
    let each = |f: &dyn Fn(&(Sample, f64)) -> f64| samples.iter().map(f).collect::<Vec<_>>();
    let rates = each(&|(sample, _)| 1e9 / nanos(sample).max(1e-9));
    let first = samples.first().and_then(|(sample, _)| sample.checksum);
    let same = samples.iter().all(|(sample, _)| sample.checksum == first);
    let parts = |named: Named, cycles: bool| {
        let names = samples.first().map_or(&[][..], |(sample, _)| named(sample));
        let figure = |name: &str| {
            let of = |s: &Sample| named(s).iter().find(|(n, _)| n == name).map_or(0.0, |(_, v)| *v);
            let samples = each(&|(sample, ghz)| of(sample) * if cycles { *ghz } else { 1.0 });
            Figure::least_is_best(&samples)
        };
        names.iter().map(|(name, _)| (name.clone(), figure(name))).collect::<Vec<_>>()
    };
    Timing {
        name: variant.name.clone(),
        rate: Figure::most_is_best(&rates),
        nanos: Figure::least_is_best(&each(&|(sample, _)| nanos(sample))),
        cycles: Figure::least_is_best(&each(&|(sample, ghz)| nanos(sample) * ghz)),
        parts: parts(|sample| &sample.parts, true),
        figures: parts(|sample| &sample.figures, false),
        checksum: first.filter(|_| same),
        rates,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Plan = Plan { rounds: 3, slice: Duration::from_millis(2) };

    #[test]
    fn the_slower_variant_is_slower() {
        let work = |n: u64| repeat(n, move || (0..n * 40).fold(1, |x, i| (x ^ i) * 3 % 1_000_003));
        let slow = |n: u64| repeat(n, move || (0..n * 400).fold(1, |x, i| (x ^ i) * 3 % 1_000_003));
        let mut variants = [Variant::new("fast", work(100)), Variant::new("slow", slow(100))];
        let timings = interleave(&mut variants, PLAN);
        assert_eq!(timings[0].name, "fast");
        assert!(timings[0].rate.median > 2.0 * timings[1].rate.median, "{timings:?}");
        assert_eq!(timings[0].rates.len(), 3);
        assert!(timings[0].checksum.is_some());
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
