//! A side that gets nothing is tried now and then: it may have become faster, or its first profile
//! may have been wrong.

use lookup::Addr;
use lookup::lpm::{Engines, Exports};

use super::Crew;
use super::division::{SMALLEST, Who};

/// When the next trial is due, and its size: a small one is soon due, but says little of a device
/// with a long latency, so each is twice as large as the last, up to a whole batch; then from the
/// beginning.
#[derive(Debug)]
pub(super) struct Trials {
    /// Addresses that were answered since the last one.
    since: u64,
    size: usize,
}

impl Default for Trials {
    fn default() -> Self {
        Trials { since: 0, size: SMALLEST }
    }
}

impl Trials {
    /// Counts what was answered.
    pub(super) fn passed(&mut self, addresses: u64) {
        self.since += addresses;
    }

    /// Addresses of the next trial of a side whose batches have `batch`.
    pub(super) fn size(&self, batch: usize) -> usize {
        self.size.min(batch)
    }

    /// A trial begins.
    pub(super) fn begin(&mut self, batch: usize) {
        self.since = 0;
        self.size = if self.size < batch { 2 * self.size } else { SMALLEST };
    }

    /// Whether a trial that takes `seconds` takes a small part of the time of what was answered at
    /// the rate `fast`. `held`: addresses that wait meanwhile.
    fn is_due(&self, seconds: f64, fast: f64, held: usize) -> bool {
        seconds.max(held as f64 / fast) * COST <= self.since as f64 / fast
    }
}

impl<A: Addr + Engines + Exports> Crew<A> {
    /// The side with so small a part of the other's rate that it gets nothing.
    pub(super) fn idle_side(&self) -> Option<Who> {
        let [of_device, of_cores] = self.known_rates()?;
        let least = if self.all_work {
            1.0 / self.cores.device.capabilities().at_once as f64
        } else {
            LEAST
        };
        if of_device < least * of_cores {
            Some(Who::Device)
        } else if of_cores < LEAST * of_device {
            Some(Who::Cores)
        } else {
            None
        }
    }

    /// Whether `idle`, the side that gets nothing, gets a trial now. `held`: addresses that wait
    /// for its end.
    pub(super) fn tries(&self, idle: Who, left: Option<u64>, held: usize) -> bool {
        let Some([of_device, of_cores]) = self.known_rates() else { return false };
        let (lane, slow, fast) = match (idle, &self.device) {
            (Who::Device, Some(lane)) => (lane, of_device, of_cores),
            _ => (&self.cores, of_cores, of_device),
        };
        let seconds = self.trials.size(lane.buffers.size) as f64 / slow;
        // Nobody waits for it at the end.
        let ends = left.is_some_and(|left| (left as f64) < seconds * fast);
        let is_free = lane.under_way == 0 && lane.is_open();
        is_free && !ends && self.trials.is_due(seconds, fast, held)
    }

    /// The rates of device and cores, once both are known.
    pub(super) fn known_rates(&self) -> Option<[f64; 2]> {
        let [of_device, of_cores] = self.rates();
        Some([of_device?, of_cores?])
    }
}

/// A side with less than this part of the other side's rate gets nothing.
const LEAST: f64 = 0.02;

/// A trial takes less than the hundredth part of the work since the one before.
const COST: f64 = 100.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_costs_a_hundredth_of_the_work_since_the_last_one() {
        let (mut trials, fast) = (Trials::default(), 1e6);
        let seconds = trials.size(3000) as f64 / 1e3;
        let long = (100.0 * seconds * fast) as u64;
        trials.passed(long - 1);
        assert!(!trials.is_due(seconds, fast, 0));
        trials.passed(1);
        let held = long as usize / 100;
        assert!(trials.is_due(seconds, fast, 0) && trials.is_due(seconds, fast, held));
        assert!(!trials.is_due(seconds, fast, held + 1));
        trials.begin(3000);
        assert!(!trials.is_due(seconds, fast, 0));
    }

    #[test]
    fn trials_grow_up_to_a_whole_batch() {
        let mut trials = Trials::default();
        let size = |_| {
            let size = trials.size(3000);
            trials.begin(3000);
            size
        };
        assert_eq!([0; 5].map(size), [1024, 2048, 3000, 1024, 2048]);
    }
}
