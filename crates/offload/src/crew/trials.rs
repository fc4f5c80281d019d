//! A side that gets nothing is tried now and then: it may have become faster, or its first profile
//! may have been wrong.

use lookup::Addr;
use lookup::lpm::{Engines, Exports};

use super::Crew;
use super::division::{TRIAL, Who};

/// Addresses that were answered since the last trial.
#[derive(Debug, Default)]
pub(super) struct Trials {
    since: u64,
}

impl Trials {
    /// Counts what was answered.
    pub(super) fn passed(&mut self, addresses: u64) {
        self.since += addresses;
    }

    /// A trial begins.
    pub(super) fn begin(&mut self) {
        self.since = 0;
    }

    /// Whether a trial at the rate `slow` takes a small part of the time of what was answered at
    /// the rate `fast`. `alone`: addresses that wait meanwhile.
    fn is_due(&self, slow: f64, fast: f64, alone: usize) -> bool {
        let longer = (TRIAL as f64 / slow).max(alone as f64 / fast);
        longer * COST <= self.since as f64 / fast
    }
}

impl<A: Addr + Engines + Exports> Crew<A> {
    /// The side with so small a part of the other's rate that it gets nothing.
    pub(super) fn idle_side(&self) -> Option<Who> {
        let [of_device, of_cores] = self.known_rates()?;
        if of_device < LEAST * of_cores {
            Some(Who::Device)
        } else if of_cores < LEAST * of_device {
            Some(Who::Cores)
        } else {
            None
        }
    }

    /// Whether `idle`, the side that gets nothing, gets a batch of [`TRIAL`] addresses now.
    pub(super) fn tries(&self, idle: Who, left: Option<u64>, alone: usize) -> bool {
        let Some([of_device, of_cores]) = self.known_rates() else { return false };
        let (lane, slow, fast) = match idle {
            Who::Device => (self.device.as_ref(), of_device, of_cores),
            Who::Cores => (Some(&self.cores), of_cores, of_device),
        };
        // Nobody waits for it at the end.
        let ends = left.is_some_and(|left| (left as f64) < TRIAL as f64 / slow * fast);
        let is_free = lane.is_some_and(|lane| lane.under_way == 0 && lane.is_open());
        is_free && !ends && self.trials.is_due(slow, fast, alone)
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
        let (mut trials, slow, fast) = (Trials::default(), 1e3, 1e6);
        let long = TRIAL as u64 * 1000 * 100;
        trials.passed(long - 1);
        assert!(!trials.is_due(slow, fast, 0));
        trials.passed(1);
        assert!(trials.is_due(slow, fast, 0) && trials.is_due(slow, fast, long as usize / 100));
        assert!(!trials.is_due(slow, fast, long as usize / 100 + 1), "it would hold these up");
        trials.begin();
        assert!(!trials.is_due(slow, fast, 0));
    }
}
