//! Work of another thread at a pace, beside what is measured: updates beside
//! lookups or forwarding.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::record::Figure;
use crate::slices::{Sample, Timing, Variant, Work};
use crate::{Context, clock};

/// What the measured side tells the other, and back.
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
    let (work, pace) = (Rc::new(RefCell::new(work)), Arc::new(Pace::default()));
    let timings = thread::scope(|scope| {
        let other = pace.clone();
        let control = scope.spawn(move || {
            clock::pin(clock::cores()[0]);
            control(&other)
        });
        let variant = |wanted: &u64| {
            let slice = Slice { work: work.clone(), pace: pace.clone(), wanted: *wanted };
            Variant::new(wanted.to_string(), slice)
        };
        let timings = context.measure(&mut rates.iter().map(variant).collect::<Vec<_>>());
        pace.stop.store(true, Ordering::Relaxed);
        let ended = control.join().map_err(|_| "the updating thread panicked".to_string());
        ended.and_then(|result| result).map(|()| timings)
    })?;
    let first = timings.first().cloned();
    let each = rates.iter().zip(timings).map(|(wanted, timing)| {
        let kept = first.as_ref().map_or(Vec::new(), |first| ratios(&timing, first));
        let done = timing.figures.first().map_or(Figure::default(), |(_, done)| *done);
        Beside { wanted: *wanted, done, timing, kept: Figure::most_is_best(&kept) }
    });
    Ok(each.collect())
}

/// The rates of `timing` over those of `first`, round by round: of the rounds in which
/// nobody disturbed either, or of all if there is none.
fn ratios(timing: &Timing, first: &Timing) -> Vec<f64> {
    let rates = timing.rates.iter().zip(&first.rates).map(|(rate, first)| rate / first);
    let quiet = timing.quiet.iter().zip(&first.quiet).map(|(this, first)| *this && *first);
    let all: Vec<(f64, bool)> = rates.zip(quiet).collect();
    let any = all.iter().any(|(_, quiet)| *quiet);
    all.into_iter().filter(|(_, quiet)| *quiet || !any).map(|(ratio, _)| ratio).collect()
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
            hops: crate::Options::HOPS,
        };
        let context = Context::new(options, |_| {});
        let work = repeat(100, || (0..1000_u64).fold(1, |a, b| std::hint::black_box(a ^ b)));
        let mut did = 0;
        let found = beside(&context, work, &[0, 20_000], |pace| {
            pace.keep(|n| {
                did += n;
                Ok(())
            })
        });
        let found = found.unwrap();
        assert_eq!((found[0].wanted, found[0].done.median), (0, 0.0));
        assert!(did > 0 && found[1].done.best > 0.0, "{did}");
        let failed = beside(&context, repeat(1, || 0), &[1000], |pace| {
            pace.keep(|_| Err("no room".to_string()))
        });
        assert_eq!(failed.err().as_deref(), Some("no room"));
    }
}
