//! Work of another thread at a pace, beside what is measured: updates beside
//! lookups or forwarding.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::record::Figure;
use crate::slices::{Plan, Sample, Timing, Variant, Work};
use crate::{Context, clock};

/// What the measured side sends the other, and back.
#[derive(Default)]
pub struct Pace {
    per_second: AtomicU64,
    done: AtomicU64,
    stop: AtomicBool,
}

/// What was measured beside one pace.
pub struct Beside {
    /// How many a second were asked for.
    pub wanted: u64,
    /// How many a second there were: `per_s`.
    pub done: Figure,
    /// The measured side.
    pub timing: Timing,
    /// Its rate over that of the first pace, round by round.
    pub kept: Figure,
}

/// What it costs the measured side that the other does something.
pub struct Cost {
    /// What the measured side loses, in percent of its rate.
    pub loss: Figure,
    /// The same between slices that the other side leaves alone: how far to trust it.
    pub noise: Figure,
    /// How many a second there were: `per_s`.
    pub done: Figure,
}

/// What `work` loses beside `control` at `wanted` a second, by many short rounds:
///
/// ```text
///  alone ██   beside ██   beside ██   alone ██
/// ```
///
/// What changes steadily meanwhile, as a neighbour's share does, cancels.
///
/// # Errors
/// When `control` fails.
pub fn cost<W: Work>(
    context: &Context,
    work: W,
    wanted: u64,
    control: impl FnOnce(&Pace) -> Result<(), String> + Send,
) -> Result<Cost, String> {
    let plan = if context.quick() { context.plan(4) } else { SHORT };
    let timings = turns(context, plan, work, &[0, wanted, wanted, 0], control)?;
    let (loss, noise) = cost_of(&timings).ok_or("no slices")?;
    Ok(Cost { done: done(&timings[1]), loss, noise })
}

/// What is lost beside, in percent, of slices alone, beside, beside, alone; and the same
/// between those alone.
pub fn cost_of(timings: &[Timing]) -> Option<(Figure, Figure)> {
    let [first, beside, again, last] = timings else { return None };
    let best = |a: &Timing, b: &Timing| a.rate.best.max(b.rate.best);
    let percent = |kept: f64| (1.0 - kept) * 100.0;
    let loss = |kept: Figure, best: f64| Figure {
        median: percent(kept.median),
        best: percent(best),
        ..kept
    };
    let kept = kept(timings, |rates| (rates[1] + rates[2]) / (rates[0] + rates[3]));
    let noise = self::kept(timings, |rates| rates[3] / rates[0]);
    let share = best(beside, again) / best(first, last);
    Some((loss(kept, share), loss(noise, last.rate.best / first.rate.best)))
}

/// Measures `work` beside `control`, a thread of its own on the first core, at
/// each of `rates` in turn; the first is what the others are compared with.
/// `control` calls [`Pace::keep`].
///
/// # Errors
/// When `control` fails.
pub fn beside<W: Work>(
    context: &Context,
    work: W,
    rates: &[u64],
    control: impl FnOnce(&Pace) -> Result<(), String> + Send,
) -> Result<Vec<Beside>, String> {
    let timings = turns(context, context.plan(rates.len()), work, rates, control)?;
    let first = timings.first().cloned();
    let each = rates.iter().zip(timings).map(|(wanted, timing)| {
        let pair = first.iter().chain([&timing]).cloned().collect::<Vec<_>>();
        let kept = kept(&pair, |rates| rates[1] / rates[0]);
        Beside { wanted: *wanted, done: done(&timing), timing, kept }
    });
    Ok(each.collect())
}

/// How many a second the other side did.
fn done(timing: &Timing) -> Figure {
    timing.figures.first().map_or(Figure::default(), |(_, done)| *done)
}

/// The slices of `work` at each of `rates` in turn.
fn turns<W: Work>(
    context: &Context,
    plan: Plan,
    work: W,
    rates: &[u64],
    control: impl FnOnce(&Pace) -> Result<(), String> + Send,
) -> Result<Vec<Timing>, String> {
    let (work, pace) = (Rc::new(RefCell::new(work)), Arc::new(Pace::default()));
    thread::scope(|scope| {
        let other = pace.clone();
        let control = scope.spawn(move || {
            clock::pin(clock::cores()[0]);
            control(&other)
        });
        let variant = |wanted: &u64| {
            let slice = Slice { work: work.clone(), pace: pace.clone(), wanted: *wanted };
            Variant::new(wanted.to_string(), slice)
        };
        let mut variants = rates.iter().map(variant).collect::<Vec<_>>();
        let timings = context.measure_by(plan, &mut variants);
        pace.stop.store(true, Ordering::Relaxed);
        let ended = control.join().map_err(|_| "the updating thread panicked".to_string());
        ended.and_then(|result| result).map(|()| timings)
    })
}

/// What `share` makes of the rates of `timings`, round by round: of the rounds in
/// which nobody disturbed any, or of all if there is none.
pub fn kept(timings: &[Timing], share: impl Fn(&[f64]) -> f64) -> Figure {
    let rounds = timings.iter().map(|timing| timing.rates.len()).min().unwrap_or(0);
    let quiet = |round: usize| timings.iter().all(|timing| timing.quiet[round]);
    let any = (0..rounds).any(quiet);
    let of =
        |round: usize| share(&timings.iter().map(|timing| timing.rates[round]).collect::<Vec<_>>());
    let shares = (0..rounds).filter(|&round| quiet(round) || !any).map(of);
    Figure::most_is_best(&shares.collect::<Vec<_>>())
}

impl Pace {
    /// Calls `act` with how many are due, a handful at once, until the measured
    /// side is done.
    ///
    /// # Errors
    /// When `act` fails.
    pub fn keep(&self, mut act: impl FnMut(u64) -> Result<(), String>) -> Result<(), String> {
        let (mut now, mut since, mut done) = (0, Instant::now(), 0_u64);
        while !self.stop.load(Ordering::Relaxed) {
            let wanted = self.per_second.load(Ordering::Relaxed);
            if wanted != now {
                (now, since, done) = (wanted, Instant::now(), 0);
            }
            let due = (since.elapsed().as_secs_f64() * wanted as f64) as u64;
            if due <= done {
                thread::sleep(NAP);
                continue;
            }
            // What was missed is not made up for in one go: the pace stays the pace.
            done = done.max(due.saturating_sub(MOST_BEHIND));
            while done < due {
                let some = (due - done).min(HANDFUL);
                act(some)?;
                done += some;
                self.done.fetch_add(some, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}

/// A slice at one pace.
struct Slice<W> {
    work: Rc<RefCell<W>>,
    pace: Arc<Pace>,
    wanted: u64,
}

impl<W: Work> Work for Slice<W> {
    fn slice(&mut self, target: Duration) -> Sample {
        self.pace.per_second.store(self.wanted, Ordering::Relaxed);
        thread::sleep(SETTLE);
        let (start, before) = (Instant::now(), self.pace.done.load(Ordering::Relaxed));
        let mut sample = self.work.borrow_mut().slice(target);
        let done = self.pace.done.load(Ordering::Relaxed) - before;
        let rate = done as f64 / start.elapsed().as_secs_f64();
        sample.figures = vec![("per_s".into(), rate)];
        self.pace.per_second.store(0, Ordering::Relaxed);
        sample
    }
}

/// Of [`cost`]: some hundred rounds, each shorter than neighbours mostly come and go. All are of
/// one table.
pub const SHORT: Plan = Plan {
    rounds: 300,
    most: 600,
    slice: Duration::from_millis(3),
    warm: Duration::ZERO,
    patience: Plan::PATIENCE,
};

const MOST_BEHIND: u64 = 2_000;
const HANDFUL: u64 = 64;
const NAP: Duration = Duration::from_micros(100);
const SETTLE: Duration = Duration::from_millis(2);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slices::repeat;

    #[test]
    fn the_other_thread_keeps_the_pace() {
        let options = crate::Options {
            quick: true,
            out: std::env::temp_dir(),
            tables: vec![],
            updates: None,
            engines: vec![],
            hops: crate::Options::HOPS,
        };
        let context = Context::new(options, |_| {});
        let work = || repeat(100, || (0..1000_u64).fold(1, |a, b| std::hint::black_box(a ^ b)));
        let keep = |pace: &Pace| pace.keep(|_| Ok(()));
        // On a busy machine the other thread may come to nothing for a whole slice.
        let paced = || {
            let found = beside(&context, work(), &[0, 20_000], keep).unwrap();
            assert_eq!((found[0].wanted, found[0].done.median), (0, 0.0));
            found[1].done.best > 0.0 // the least of all slices
        };
        assert!((0..TRIES).any(|_| paced()), "in each slice something is done");
        let costs = || {
            let cost = cost(&context, work(), 20_000, keep).unwrap();
            let shares = [cost.loss, cost.noise];
            assert!(shares.iter().all(|share| share.samples > 0 && share.median < 100.0));
            cost.done.median > 0.0
        };
        assert!((0..TRIES).any(|_| costs()), "in most slices something is done");
        let failed = beside(&context, repeat(1, || 0), &[1000], |pace| {
            pace.keep(|_| Err("no room".to_string()))
        });
        assert_eq!(failed.err().as_deref(), Some("no room"));
    }

    /// Of half a second and less, for a machine that others keep busy.
    const TRIES: u32 = 20;
}
