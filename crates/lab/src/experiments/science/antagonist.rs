//! A thread on the other core that computes or reads random lines, and how many it got.
//!
//! ```text
//!  measuring core   ─ core's state ─  slice of the engine  ─ core's state ─
//!  other core          at rest      spins, or reads a region    at rest
//! ```

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use crate::clock;
use crate::lines::Lines;
use crate::slices::{Sample, Work};

/// What the other core does beside a slice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// It sleeps.
    Rest,
    /// It computes, and touches no memory.
    Spin,
    /// It reads random lines of this region.
    Read(usize),
}

impl Load {
    fn number(self) -> usize {
        match self {
            Load::Rest => 0,
            Load::Spin => 1,
            Load::Read(region) => 2 + region,
        }
    }

    fn numbered(number: usize) -> Self {
        match number {
            0 => Load::Rest,
            1 => Load::Spin,
            more => Load::Read(more - 2),
        }
    }
}

/// What both threads see.
#[derive(Default)]
pub struct Orders {
    /// The number of a [`Load`].
    load: AtomicUsize,
    /// How many lines were read so far.
    lines: AtomicU64,
    stop: AtomicBool,
}

/// The thread, which ends when this is dropped.
pub struct Antagonist<'s> {
    orders: &'s Orders,
    thread: Option<ScopedJoinHandle<'s, ()>>,
}

impl<'s> Antagonist<'s> {
    /// On the machine's first core, where the measured side has its last; at rest.
    pub fn new(scope: &'s Scope<'s, '_>, orders: &'s Orders, regions: &'s [Lines]) -> Self {
        let thread = scope.spawn(move || {
            clock::pin(clock::cores()[0]);
            follow(orders, regions);
        });
        Antagonist { orders, thread: Some(thread) }
    }

    /// `work` beside `load`, which begins and ends with each of its slices.
    pub fn beside<'w, W: Work + 'w>(&self, load: Load, work: W) -> impl Work + 'w
    where
        's: 'w,
    {
        Beside { orders: self.orders, load, work }
    }
}

impl Drop for Antagonist<'_> {
    fn drop(&mut self) {
        self.orders.stop.store(true, Ordering::Relaxed);
        // A panic has been printed by then.
        let _ = self.thread.take().map(ScopedJoinHandle::join);
    }
}

fn follow(orders: &Orders, regions: &[Lines]) {
    let mut works: Vec<_> = regions.iter().map(Lines::independent).collect();
    while !orders.stop.load(Ordering::Relaxed) {
        match Load::numbered(orders.load.load(Ordering::Relaxed)) {
            Load::Rest => thread::sleep(NAP),
            Load::Spin => compute(LOOK),
            Load::Read(region) => {
                let ops = works[region].slice(LOOK).done;
                orders.lines.fetch_add(ops, Ordering::Relaxed);
            }
        }
    }
}

/// Keeps the core busy for about `time` without a load or a store.
fn compute(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        let steps = (0..1_000).fold(1u64, |hash, step| (hash ^ step).wrapping_mul(0x9e37_79b1));
        black_box(steps);
    }
}

struct Beside<'s, W> {
    orders: &'s Orders,
    load: Load,
    work: W,
}

impl<W: Work> Work for Beside<'_, W> {
    /// The sample of the work, and under [`PRESSURE`] millions of lines a second that the
    /// other side read meanwhile.
    fn slice(&mut self, target: Duration) -> Sample {
        self.orders.load.store(self.load.number(), Ordering::Relaxed);
        // Until the region fills the caches that it can.
        thread::sleep(SETTLE);
        let (start, before) = (Instant::now(), self.orders.lines.load(Ordering::Relaxed));
        let mut sample = self.work.slice(target);
        let lines = self.orders.lines.load(Ordering::Relaxed) - before;
        self.orders.load.store(Load::Rest.number(), Ordering::Relaxed);
        let rate = lines as f64 / start.elapsed().as_secs_f64() * 1e-6;
        sample.figures = vec![(PRESSURE.into(), rate)];
        // Its last look is over when the core is measured.
        thread::sleep(LOOK);
        sample
    }
}

/// Millions of cache lines a second.
pub const PRESSURE: &str = "antagonist_mlps";

const SETTLE: Duration = Duration::from_millis(3);
/// Between two looks at the orders.
const LOOK: Duration = Duration::from_micros(200);
const NAP: Duration = Duration::from_micros(100);

#[cfg(test)]
mod tests {
    use lookup::pages::Kind;

    use super::*;
    use crate::slices::repeat;

    #[test]
    fn it_reads_when_told_and_rests_else() {
        let regions = [Lines::new(64, Kind::Small).expect("4 KiB")];
        let orders = Orders::default();
        thread::scope(|scope| {
            let antagonist = Antagonist::new(scope, &orders, &regions);
            let pressure = |load| {
                let mut work = antagonist.beside(load, repeat(1, || 0));
                work.slice(Duration::from_millis(5)).figures[0].1
            };
            // On a busy machine the other thread may come to nothing for a whole slice.
            assert!((0..20).any(|_| pressure(Load::Read(0)) > 0.0));
            for quiet in [Load::Rest, Load::Spin] {
                thread::sleep(20 * LOOK);
                assert_eq!(pressure(quiet), 0.0, "{quiet:?}");
            }
        });
    }

    #[test]
    fn loads_keep_their_numbers() {
        for load in [Load::Rest, Load::Spin, Load::Read(0), Load::Read(7)] {
            assert_eq!(Load::numbered(load.number()), load);
        }
    }
}
