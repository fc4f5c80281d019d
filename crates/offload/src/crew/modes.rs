//! Whether a device and the cores answer together, or the cores alone: by the time of whole calls.
//!
//! Rates of each side alone do not show it. What feeds a device takes from the memory that the cores
//! read, so the two together may do less than the cores, to which the feeding core then returns.

use std::time::Duration;

/// Who answers a call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Mode {
    /// The device and the cores.
    Together,
    /// The cores, the one that fed the device among them.
    Cores,
}

/// What both modes have done, and which is next.
#[derive(Debug, Default)]
pub(super) struct Modes {
    /// Addresses a second, of which later calls count more.
    rates: [Option<f64>; 2],
    /// Calls until the slower mode is tried again.
    wait: u32,
}

impl Modes {
    /// The mode of a call with so many addresses.
    pub(super) fn choose(&self, addresses: usize) -> Mode {
        let is_trial = addresses >= LARGE;
        match self.rates {
            [None, _] => Mode::Together,
            [Some(_), None] if is_trial => Mode::Cores,
            [Some(_), None] => Mode::Together,
            [Some(together), Some(cores)] => {
                let tries = is_trial && self.wait == 0;
                if (together >= cores) != tries { Mode::Together } else { Mode::Cores }
            }
        }
    }

    /// Notes what a call took. One that is too short says nothing.
    pub(super) fn done(&mut self, mode: Mode, addresses: usize, took: Duration) {
        let took = took.as_secs_f64();
        if addresses < LARGE || took <= 0.0 {
            return;
        }
        let (this, other) = match mode {
            Mode::Together => (0, 1),
            Mode::Cores => (1, 0),
        };
        let rate = addresses as f64 / took;
        let known = self.rates[this].map_or(rate, |before| (before + rate) / 2.0);
        self.rates[this] = Some(known);
        self.wait = match self.rates[other] {
            // A trial of the slower one costs its lag: one call in so many makes it a two hundredth.
            Some(other) if other > known => {
                ((other / known - 1.0) * 200.0).clamp(SOONEST, LATEST) as u32
            }
            _ => self.wait.saturating_sub(1),
        };
    }
}

/// Addresses of a call whose time says something.
const LARGE: usize = 1 << 16;
/// Calls between two trials.
const SOONEST: f64 = 8.0;
const LATEST: f64 = 10_000.0;

#[cfg(test)]
mod tests {
    use super::*;

    /// `calls` calls of the same length, in seconds by mode; how often each mode was chosen, and the
    /// time over that of the better mode.
    fn calls(modes: &mut Modes, calls: u32, [together, cores]: [f64; 2]) -> ([u32; 2], f64) {
        let (mut chosen, mut took) = ([0; 2], 0.0);
        for _ in 0..calls {
            let mode = modes.choose(LARGE);
            let seconds = if mode == Mode::Together { together } else { cores };
            chosen[mode as usize] += 1;
            took += seconds;
            modes.done(mode, LARGE, Duration::from_secs_f64(seconds));
        }
        (chosen, took / (f64::from(calls) * together.min(cores)))
    }

    #[test]
    fn the_faster_mode_is_chosen_and_trials_cost_less_than_a_fiftieth() {
        for seconds in [[1.0, 1.19], [1.0, 3.0], [1.19, 1.0], [3.0, 1.0], [1.0, 50.0], [1.0, 1.0]] {
            let mut modes = Modes::default();
            calls(&mut modes, 2, seconds); // each mode once
            let ([together, cores], over) = calls(&mut modes, 10_000, seconds);
            assert!(over < 1.02, "{seconds:?}: {over}");
            match seconds[0].total_cmp(&seconds[1]) {
                std::cmp::Ordering::Less => assert!(together > 30 * cores, "{seconds:?}"),
                std::cmp::Ordering::Greater => assert!(cores > 5 * together, "{seconds:?}"),
                std::cmp::Ordering::Equal => {}
            }
        }
    }

    #[test]
    fn a_mode_that_becomes_the_faster_one_is_found() {
        let mut modes = Modes::default();
        calls(&mut modes, 100, [1.0, 1.2]);
        let ([together, cores], _) = calls(&mut modes, 1_000, [1.2, 1.0]);
        assert!(cores > 9 * together, "{together} together, {cores} by the cores");
        let ([together, cores], _) = calls(&mut modes, 1_000, [1.0, 1.2]);
        assert!(together > 9 * cores, "{together} together, {cores} by the cores");
    }

    #[test]
    fn short_calls_try_nothing() {
        let mut modes = Modes::default();
        for _ in 0..100 {
            assert_eq!(modes.choose(LARGE - 1), Mode::Together);
            modes.done(Mode::Together, LARGE - 1, Duration::from_secs(1));
        }
        modes.done(Mode::Together, LARGE, Duration::ZERO);
        assert_eq!(modes.rates, [None; 2]);
    }
}
