//! Processor time of a slice's work, and of the pieces of it that nobody disturbed.
//!
//! ```text
//!  slice     ┊░░░░┊░░░░┊▓▓▓▓┊▓░░░┊░░░░┊     ┊ a look at the core, 3 µs
//!  neighbour            ██████                ░ counts, ▓ does not
//! ```
//!
//! Whoever works on the other hardware thread of a core takes from it for some tenths of a
//! millisecond to some milliseconds at a time. A slice is longer than that, so the look before and
//! the look after it miss most of what happens between. A [`Watch`] looks again after each fifth
//! of a millisecond.

use std::time::Duration;

use crate::sample::Sample;
use crate::{clock, width};

/// Counts operations and their processor time, piece by piece.
pub struct Watch {
    target: Duration,
    /// The width of the core beside which a piece counts.
    least: f64,
    /// At the look before this piece.
    width: f64,
    begun: Duration,
    /// Operations of this piece so far.
    ops: u64,
    all: Part,
    quiet: Part,
}

#[derive(Clone, Copy, Default)]
struct Part {
    ops: u64,
    time: Duration,
}

impl Part {
    fn add(&mut self, part: Part) {
        self.ops += part.ops;
        self.time += part.time;
    }

    fn nanos(&self) -> f64 {
        self.time.as_nanos() as f64 / self.ops.max(1) as f64
    }
}

impl Watch {
    /// Begins to count, up to about `target` of processor time.
    pub fn new(target: Duration) -> Watch {
        let (width, least) = (width::width(), width::quiet());
        let (all, quiet) = (Part::default(), Part::default());
        Watch { target, least, width, begun: clock::thread_time(), ops: 0, all, quiet }
    }

    /// Counts `ops` operations more; false when the time is up. To be called after some
    /// microseconds of work: it looks at the clock, which is a system call.
    pub fn lap(&mut self, ops: u64) -> bool {
        self.ops += ops;
        let time = clock::thread_time() - self.begun;
        let goes_on = self.all.time + time < self.target;
        if goes_on && time < PIECE {
            return true;
        }
        self.end(Part { ops: self.ops, time }, width::width());
        if goes_on {
            self.begun = clock::thread_time();
        }
        goes_on
    }

    fn end(&mut self, piece: Part, width: f64) {
        self.all.add(piece);
        if width.min(self.width) >= self.least {
            self.quiet.add(piece);
        }
        (self.width, self.ops) = (width, 0);
    }

    /// Does something between two laps whose time does not count.
    pub fn untimed<T>(&mut self, act: impl FnOnce() -> T) -> T {
        let start = clock::thread_time();
        let done = act();
        self.begun += clock::thread_time() - start;
        done
    }

    /// What came to pass: of the quiet pieces, where they are enough, else of all.
    pub fn sample(&self) -> Sample {
        let share = self.quiet.time.as_secs_f64() / self.all.time.as_secs_f64().max(1e-9);
        let part = if share >= Sample::QUIET_SHARE { self.quiet } else { self.all };
        let (ops, time) = (part.ops, part.time);
        let (done, spent) = (self.all.ops, self.all.time);
        Sample { ops, time, done, spent, quiet: Some(share), ..Sample::default() }
    }

    /// The same where of `all` operations in the whole slice the laps counted but the shares, as
    /// packets before those that were not to count are taken away, and where `parts` are of the
    /// whole slice, too.
    pub fn sample_of(&self, all: u64, parts: Vec<(String, f64)>) -> Sample {
        let sample = self.sample();
        let share = all as f64 / sample.done.max(1) as f64;
        let nanos = Part { ops: sample.ops, time: sample.time }.nanos();
        let quicker = nanos / self.all.nanos().max(1e-9);
        let part = |(name, nanos)| (name, nanos * quicker);
        Sample {
            ops: (sample.ops as f64 * share).round() as u64,
            done: all,
            parts: parts.into_iter().map(part).collect(),
            ..sample
        }
    }
}

/// Between two looks at the core.
const PIECE: Duration = Duration::from_micros(200);

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(pieces: &[(u64, u64, f64)]) -> Watch {
        let mut watch = Watch::new(Duration::from_millis(1));
        (watch.least, watch.width) = (5.0, 6.0);
        for &(ops, micros, width) in pieces {
            watch.end(Part { ops, time: Duration::from_micros(micros) }, width);
        }
        watch
    }

    #[test]
    fn pieces_beside_a_neighbour_do_not_count() {
        // He comes in the second, and is gone in the fourth.
        let pieces =
            [(100, 200, 5.9), (60, 200, 3.1), (50, 200, 3.0), (70, 200, 6.0), (100, 200, 5.8)];
        let watch = watch(&pieces);
        let sample = watch.sample();
        assert_eq!((sample.ops, sample.time), (200, Duration::from_micros(400)));
        assert_eq!((sample.done, sample.spent), (380, Duration::from_micros(1_000)));
        assert_eq!(sample.quiet, Some(0.4));
        // A quarter of the operations were not packets; a node took half of the time.
        let half = watch.all.nanos() / 2.0;
        let sample = watch.sample_of(285, vec![("node".into(), half)]);
        assert_eq!((sample.ops, sample.done), (150, 285));
        assert!((sample.parts[0].1 - 1_000.0).abs() < 1e-6, "{sample:?}");
    }

    #[test]
    fn all_count_where_a_neighbour_never_rests() {
        let sample = watch(&[(60, 200, 3.1), (50, 200, 3.0)]).sample();
        assert_eq!((sample.ops, sample.time), (110, Duration::from_micros(400)));
        assert_eq!(sample.quiet, Some(0.0));
        assert_eq!(watch(&[]).sample_of(0, vec![]).ops, 0);
    }

    #[test]
    fn laps_end_with_the_time_and_leave_out_what_is_untimed() {
        let spin = |micros: u64| {
            let start = clock::thread_time();
            while clock::thread_time() - start < Duration::from_micros(micros) {}
        };
        let mut watch = Watch::new(Duration::from_millis(2));
        let mut laps = 1;
        spin(50);
        while watch.lap(3) {
            laps += 1;
            watch.untimed(|| spin(500));
            spin(50);
        }
        let sample = watch.sample();
        assert_eq!(sample.done, 3 * laps);
        // Each lap adds two looks at the clock; the rest is what the work took.
        assert!((20..=40).contains(&laps) && sample.spent >= Duration::from_millis(2), "{laps}");
        assert!(sample.time <= sample.spent && sample.ops <= sample.done);
    }
}
