//! A thread on the other core that reads random lines, and how many it got.
//!
//! ```text
//!  measuring core   ─ core's state ─ slice of the engine ─ core's state ─
//!  other core          at rest      reads one region        at rest
//! ```

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use crate::clock;
use crate::lines::Lines;
use crate::slices::{Sample, Work};

/// What both threads see.
#[derive(Default)]
pub struct Orders {
    /// Which region is read, from 1; 0 for rest.
    region: AtomicUsize,
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
            read(orders, regions);
        });
        Antagonist { orders, thread: Some(thread) }
    }

    /// `work` beside reads of `region`: of none for 0.
    pub fn beside<'w, W: Work + 'w>(&self, region: usize, work: W) -> impl Work + 'w
    where
        's: 'w,
    {
        Beside { orders: self.orders, region, work }
    }
}

impl Drop for Antagonist<'_> {
    fn drop(&mut self) {
        self.orders.stop.store(true, Ordering::Relaxed);
        // A panic has been printed by then.
        let _ = self.thread.take().map(ScopedJoinHandle::join);
    }
}

fn read(orders: &Orders, regions: &[Lines]) {
    let mut works: Vec<_> = regions.iter().map(Lines::independent).collect();
    while !orders.stop.load(Ordering::Relaxed) {
        match orders.region.load(Ordering::Relaxed).checked_sub(1) {
            None => thread::sleep(NAP),
            Some(region) => {
                let ops = works[region].slice(LOOK).ops;
                orders.lines.fetch_add(ops, Ordering::Relaxed);
            }
        }
    }
}

struct Beside<'s, W> {
    orders: &'s Orders,
    region: usize,
    work: W,
}

impl<W: Work> Work for Beside<'_, W> {
    /// The sample of the work, and under [`PRESSURE`] millions of lines a second that the
    /// other side read meanwhile.
    fn slice(&mut self, target: Duration) -> Sample {
        self.orders.region.store(self.region, Ordering::Relaxed);
        // Until the region fills the caches that it can.
        thread::sleep(SETTLE);
        let (start, before) = (Instant::now(), self.orders.lines.load(Ordering::Relaxed));
        let mut sample = self.work.slice(target);
        let lines = self.orders.lines.load(Ordering::Relaxed) - before;
        self.orders.region.store(0, Ordering::Relaxed);
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
            let pressure = |region| {
                let mut work = antagonist.beside(region, repeat(1, || 0));
                work.slice(Duration::from_millis(5)).figures[0].1
            };
            // On a busy machine the other thread may come to nothing for a whole slice.
            assert!((0..20).any(|_| pressure(1) > 0.0));
            thread::sleep(20 * LOOK);
            assert_eq!(pressure(0), 0.0);
        });
    }
}
