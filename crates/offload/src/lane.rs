//! The batches of one processor: their number, their size, and the rate of answers.

use std::time::Duration;

use lookup::Addr;

use crate::device::{Batch, Device};
use crate::fault::Fault;

/// How addresses are sent to a device.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Buffers {
    /// Addresses of a batch.
    pub size: usize,
    /// Batches in flight: 1 is synchronous; with 2, the transfers of one batch overlap with the
    /// lookups of the other.
    pub depth: usize,
}

/// A device, its batches, and its rate.
///
/// I1: `made` batches are in this struct, in flight, or waiting to be handed out.
pub(crate) struct Lane<A> {
    pub(crate) device: Box<dyn Device<A>>,
    pub(crate) buffers: Buffers,
    pub(crate) meter: Meter,
    /// Batches in flight, and their addresses.
    pub(crate) under_way: usize,
    pub(crate) pending: u64,
    /// Addresses answered since the start.
    pub(crate) answered: u64,
    free: Vec<Batch<A>>,
    made: usize,
    most: usize,
}

impl<A: Addr> Lane<A> {
    /// A lane with at most `most` batches, at least one more than are in flight.
    pub(crate) fn new(device: Box<dyn Device<A>>, buffers: Buffers, most: usize) -> Self {
        let buffers = Buffers { size: buffers.size.max(1), depth: buffers.depth.max(1) };
        Lane {
            device,
            buffers,
            meter: Meter::default(),
            under_way: 0,
            pending: 0,
            answered: 0,
            free: Vec::new(),
            made: 0,
            most: most.max(buffers.depth + 1),
        }
    }

    /// Whether the device takes another batch that is filled already.
    pub(crate) fn has_room(&self) -> bool {
        self.under_way < self.buffers.depth
    }

    /// Whether there is also an empty batch to fill.
    pub(crate) fn is_open(&self) -> bool {
        self.has_room() && (!self.free.is_empty() || self.made < self.most)
    }

    /// Addresses of all batches.
    pub(crate) fn room(&self) -> usize {
        self.most.saturating_mul(self.buffers.size)
    }

    /// An empty batch; `None` where all are in flight or wait.
    pub(crate) fn batch(&mut self) -> Result<Option<Batch<A>>, Fault> {
        if let Some(batch) = self.free.pop() {
            return Ok(Some(batch));
        }
        if self.made == self.most {
            return Ok(None);
        }
        let batch = self.device.batch(self.buffers.size)?;
        self.made += 1;
        Ok(Some(batch))
    }

    /// Takes back a batch that was handed out, or was not filled.
    pub(crate) fn release(&mut self, batch: Batch<A>) {
        self.free.push(batch);
    }

    pub(crate) fn submit(&mut self, batch: Batch<A>, now: Duration) -> Result<(), Fault> {
        if self.under_way == 0 {
            self.meter.begin(now);
        }
        self.under_way += 1;
        self.pending += batch.dsts().len() as u64;
        self.device.submit(batch)
    }

    /// Counts addresses that were answered where they lie, from then until `now`.
    pub(crate) fn done(&mut self, count: u64, then: Duration, now: Duration) {
        self.answered += count;
        self.meter.begin(then);
        self.meter.done(count, now);
    }

    pub(crate) fn collect(
        &mut self,
        wait: bool,
        now: impl Fn() -> Duration,
    ) -> Result<Option<Batch<A>>, Fault> {
        let Some(batch) = self.device.collect(wait)? else { return Ok(None) };
        let count = batch.dsts().len() as u64;
        self.under_way -= 1;
        self.pending -= count;
        self.answered += count;
        self.meter.done(count, now());
        Ok(Some(batch))
    }
}

/// The rate of a processor while it is busy. Old measurements count less and less.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    since: Duration,
    busy: f64,
    done: f64,
}

impl Meter {
    /// Begins with a measured rate.
    pub(crate) fn profiled(rate: f64) -> Self {
        let busy = WINDOW / 10.0;
        Meter { since: Duration::ZERO, busy, done: rate * busy }
    }

    /// Addresses a second; `None` before the first answers.
    pub(crate) fn rate(&self) -> Option<f64> {
        (self.busy > 0.0 && self.done > 0.0).then(|| self.done / self.busy)
    }

    pub(crate) fn begin(&mut self, now: Duration) {
        self.since = now;
    }

    pub(crate) fn done(&mut self, count: u64, now: Duration) {
        let took = now.saturating_sub(self.since).as_secs_f64();
        let is_slow = |rate| took > LONG && took > FAR * count as f64 / rate;
        if self.rate().is_some_and(is_slow) {
            self.fade();
        }
        self.busy += took;
        self.done += count as f64;
        self.since = now;
        if self.busy > WINDOW {
            self.fade();
        }
    }

    /// All that was measured counts half.
    pub(crate) fn fade(&mut self) {
        self.busy /= 2.0;
        self.done /= 2.0;
    }
}

/// Seconds of work after which an old measurement counts half.
const WINDOW: f64 = 0.2;

/// The same, at once: a batch that takes so many seconds, and so many times as long as expected.
const LONG: f64 = WINDOW / 20.0;
const FAR: f64 = 4.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::devices::{Figures, Model};

    #[test]
    fn there_are_no_more_batches_than_asked_for() {
        let device: Box<dyn Device<u32>> = Box::new(Model::new(Figures::default(), &Clock::made()));
        let mut lane = Lane::new(device, Buffers { size: 10, depth: 1 }, 3);
        let mut all: Vec<_> = (0..3).map(|_| lane.batch().unwrap().unwrap()).collect();
        assert!(lane.batch().unwrap().is_none() && !lane.is_open());
        lane.release(all.pop().unwrap());
        assert!(lane.is_open() && lane.batch().unwrap().is_some());
    }
}
