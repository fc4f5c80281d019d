//! Stations that are silent: each bridge has a clock, and a sweep over the table
//! takes out what is too old by the clock of its bridge.

use std::time::{Duration, Instant};

use lookup::exact::Key;
use lookup::exact::mac_table::Fate;

use super::Switch;
use super::loops::PortLoop;
use crate::macs::{STATIC, TICKS, entry_port, entry_tick};

/// The clocks, and how far the sweep is.
pub(super) struct Ageing {
    /// By bridge.
    clocks: Vec<Clock>,
    /// A round of the sweep takes as long as the shortest tick.
    round: Duration,
    round_due: Instant,
    /// Lines of this round, and when the last slice was done.
    done: usize,
    swept_at: Instant,
}

struct Clock {
    tick: u16,
    due: Instant,
    /// An eighth of the bridge's ageing time.
    length: Duration,
}

impl Ageing {
    /// Clocks of bridges with these ageing times, in seconds.
    pub(super) fn new(seconds: impl Iterator<Item = u32>, now: Instant) -> Ageing {
        let clock = |seconds: u32| {
            let length = Duration::from_secs(seconds.into()) / TICKS_OF_AGE.into();
            Clock { tick: 0, due: now + length, length }
        };
        let clocks: Vec<Clock> = seconds.map(clock).collect();
        let round = clocks.iter().map(|clock| clock.length).min().unwrap_or(Duration::MAX);
        Ageing { clocks, round, round_due: now, done: 0, swept_at: now }
    }

    /// The lines that a sweep at `now` goes over, of `lines`: a round is done by
    /// its middle.
    fn slice(&mut self, now: Instant, lines: usize) -> usize {
        if now >= self.round_due {
            (self.round_due, self.done) = (now + self.round, 0);
        }
        let gone_by = now.saturating_duration_since(self.swept_at);
        self.swept_at = now;
        if self.done >= lines {
            return 0;
        }
        let share = 2.0 * gone_by.as_secs_f64() / self.round.as_secs_f64();
        (lines as f64 * share) as usize + 1
    }

    /// When a slice is due that is worth it, or the next round or tick.
    fn due(&self, lines: usize) -> Instant {
        let share = (SLICE_LINES as f64 / lines as f64).min(1.0);
        let slice = self.round.mul_f64(share / 2.0).clamp(SLICE_LEAST, SLICE_MOST);
        let sweep = if self.done < lines { self.swept_at + slice } else { self.round_due };
        self.clocks.iter().map(|clock| clock.due).fold(sweep, Instant::min)
    }
}

impl Clock {
    /// The new tick, where one has begun.
    fn advance(&mut self, now: Instant) -> Option<u16> {
        if now < self.due {
            return None;
        }
        self.tick = (self.tick + 1) % TICKS;
        self.due = now + self.length;
        Some(self.tick)
    }
}

impl Switch {
    /// When [`Switch::sweep`] has something to do again, if no station or link comes or goes
    /// before.
    pub fn due(&self, now: Instant) -> Instant {
        if self.is_flushing() {
            return now + SLICE_LEAST;
        }
        let retries = self.loops.iter().filter_map(PortLoop::retry);
        retries.fold(self.ageing.due(self.writer.lines()), Instant::min)
    }

    fn is_flushing(&self) -> bool {
        self.ports.iter().any(|port| port.flushing > 0)
    }

    /// Does what is due: the next slice of the sweep, the next tick. It may be called more
    /// often than that, and later.
    pub fn sweep(&mut self, now: Instant) {
        self.retry_loops(now);
        for (i, clock) in (0..).zip(&mut self.ageing.clocks) {
            let Some(tick) = clock.advance(now) else { continue };
            for (domain, _) in (0..).zip(&self.domains).filter(|(_, (at, _))| *at == i) {
                self.forwarding.macs.set_tick(domain, tick);
            }
        }
        let due = self.ageing.slice(now, self.writer.lines());
        let slice = if self.is_flushing() { FLUSH_LINES } else { due };
        self.writer.grow_on(slice.min(GROW_LINES));
        if slice > 0 {
            self.ageing.done += slice;
            self.sweep_slice(slice);
        }
    }

    fn sweep_slice(&mut self, lines: usize) {
        let (macs, ports) = (&self.forwarding.macs, &self.ports);
        let mut gone = Vec::new();
        let round = self.writer.sweep(lines, |key, value| {
            let age = age_of(value, macs.tick(key));
            let old = age.is_some_and(|age| age >= TICKS_OF_AGE.into());
            let port = ports.get(usize::from(entry_port(value)));
            let flush = age.is_some() && port.is_some_and(|port| port.flushing > 0);
            if !old && !flush {
                return Fate::Keep;
            }
            gone.push((key, value, flush));
            Fate::Remove
        });
        for (key, value, flush) in gone {
            let add = u64::from(flush);
            self.count(key, |counters| {
                counters.flushed += add;
                counters.aged += 1 - add;
            });
            self.leave(key, value);
        }
        if round && self.is_flushing() {
            self.ports.iter_mut().for_each(|port| port.flushing = port.flushing.saturating_sub(1));
            self.forwarding.macs.count_flush();
            self.publish();
        }
    }

    /// Seconds since a station was seen, to the length of a tick; `None`: static.
    pub(super) fn age_s(&self, key: Key, entry: u16) -> Option<u64> {
        let age = age_of(entry, self.forwarding.macs.tick(key))?;
        let clock = self.ageing.clocks.get(self.bridge_of(key)?)?;
        Some((clock.length * age).as_secs())
    }
}

/// Ticks since a learnt station was seen; `None` for a static one.
pub(super) fn age_of(entry: u16, tick: u16) -> Option<u32> {
    let then = entry_tick(entry);
    (then != STATIC).then(|| u32::from((tick + TICKS - then) % TICKS))
}

/// Ticks after which a silent station goes.
const TICKS_OF_AGE: u16 = 8;
/// Lines of a slice while a port is flushed: 256 KiB.
const FLUSH_LINES: usize = 4096;
/// Lines that a growing table is moved on with a slice.
const GROW_LINES: usize = 1024;
/// Lines that are worth a look.
const SLICE_LINES: usize = GROW_LINES;
/// Between two looks of a sweep, whatever the table's size.
const SLICE_LEAST: Duration = Duration::from_millis(1);
const SLICE_MOST: Duration = Duration::from_secs(1);
