//! Who gets the next batch, and how large it is.

use lookup::lpm::{Engines, Exports};

use super::modes::Mode;
use super::{Crew, Share};

/// A side of the division.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Who {
    Device,
    Cores,
}

impl<A: Engines + Exports> Crew<A> {
    /// Chooses who gets the next batch.
    pub(super) fn choose(&self, left: Option<u64>) -> Option<Who> {
        let cores = self.cores.is_open().then_some(Who::Cores);
        let Some(lane) = &self.device else { return cores };
        let device = lane.is_open().then_some(Who::Device);
        if self.apart {
            return device;
        }
        match self.share {
            Share::Fixed(part) => {
                let [of_device, of_cores] = self.dealt.map(|dealt| dealt as f64);
                let behind = of_device < part * (of_device + of_cores + 1.0) && part > 0.0;
                // The other side does not step in: the shares must be exact.
                if behind || part >= 1.0 { device } else { cores }
            }
            Share::Measured => {
                let Some([of_device, of_cores]) = self.known_rates() else {
                    return device.or(cores); // a side without a measured rate is tried
                };
                if let Some(idle) = self.idle_side() {
                    let other = if idle == Who::Device { cores } else { device };
                    return if self.tries(idle, left, 0) { Some(idle) } else { other };
                }
                let device = device.filter(|_| self.room_beside() >= SMALLEST as f64);
                let piece = |who| self.piece(who, left) as f64;
                let first = (lane.pending as f64 + piece(Who::Device)) / of_device;
                let second = (self.cores.pending as f64 + piece(Who::Cores)) / of_cores;
                // Where the other side has no room, this one steps in, unless it already has its
                // part of the remaining addresses and would be the last to finish.
                let steps_in = |who: &Who| match self.fair(*who, left) {
                    Some(fair) => fair >= SMALLEST as f64,
                    None => true,
                };
                if first <= second {
                    device.or(cores.filter(steps_in))
                } else {
                    cores.or(device.filter(steps_in))
                }
            }
        }
    }

    /// The number of addresses for the next batch.
    pub(super) fn piece(&self, who: Who, left: Option<u64>) -> usize {
        let Some(lane) = &self.device else { return self.cores.buffers.size };
        let size = match who {
            Who::Device => lane.buffers.size,
            Who::Cores => self.cores.buffers.size,
        };
        if self.share == Share::Measured && self.idle_side() == Some(who) {
            return self.trials.size(size);
        }
        match (self.share, left) {
            (Share::Fixed(_), Some(left)) if self.apart => size.min(left as usize).max(1),
            // Half of the part that is still the device's: rates are never exact.
            (Share::Measured, Some(left)) if self.apart => {
                let part = match self.fair(who, Some(left)) {
                    Some(fair) => fair as usize / 2,
                    None => (left / 32) as usize,
                };
                part.max(SHORT).min(size)
            }
            (Share::Fixed(part), Some(left)) => {
                let part = if who == Who::Device { part } else { 1.0 - part };
                size.min((left as f64 * part).ceil() as usize).max(1)
            }
            (Share::Fixed(_), None) => size,
            (Share::Measured, _) => {
                let most = if who == Who::Device { self.room_beside() } else { size as f64 };
                let most = self.fair(who, left).map_or(most, |fair| fair.min(most));
                size.min((most as usize).max(SMALLEST))
            }
        }
    }

    /// The addresses that the device may get beside those that it has. Answers are handed out in
    /// order: what the cores answer before a batch of a slow device must have room.
    fn room_beside(&self) -> f64 {
        let (Some(lane), Some([of_device, of_cores])) = (&self.device, self.known_rates()) else {
            return f64::INFINITY;
        };
        let most = (self.cores.room() as f64 / 2.0 * of_device / of_cores).max(SMALLEST as f64);
        most - lane.pending as f64
    }

    /// The addresses that a side lacks to its part, by rates, of all that are left or in work;
    /// `None` where the input does not know how many are left.
    fn fair(&self, who: Who, left: Option<u64>) -> Option<f64> {
        let lane = self.device.as_ref()?;
        let (mut of_device, of_cores) = (lane.meter.rate()?, self.cores.meter.rate()?);
        // Beside cores that copy nothing, what feeds the device may be its limit.
        if self.apart
            && let Some(copied) = self.copied.rate()
        {
            of_device = of_device.min(copied);
        }
        let all = (left? + lane.pending + self.cores.pending) as f64 / (of_device + of_cores);
        Some(match who {
            Who::Device => all * of_device - lane.pending as f64,
            Who::Cores => all * of_cores - self.cores.pending as f64,
        })
    }

    /// How a call with so many addresses is answered beside a device: the mode, where that is
    /// measured, and the most addresses for the device and for the cores.
    pub(super) fn mode(&self, all: usize) -> (Option<Mode>, [usize; 2]) {
        let parts = self.parts(all);
        if self.share != Share::Measured || parts[0] < all {
            return (None, parts);
        }
        let mode = self.modes.choose(all);
        (Some(mode), if mode == Mode::Cores { [0, all] } else { parts })
    }

    /// Of so many addresses, the most that the device and the cores may answer.
    fn parts(&self, all: usize) -> [usize; 2] {
        match self.share {
            Share::Fixed(part) => {
                let front = ((all as f64 * part).round() as usize).min(all);
                [front, all - front]
            }
            Share::Measured if self.idle_side() == Some(Who::Device) => {
                let tries = self.tries(Who::Device, Some(all as u64), all);
                [if tries { self.piece(Who::Device, None).min(all) } else { 0 }, all]
            }
            Share::Measured => [all, all],
        }
    }
}

/// Addresses of a piece that cores answer beside a device: at the end, nobody waits long for one.
pub(super) const SHORT: usize = 4 << 10;

/// The fewest addresses that are worth a batch.
pub(super) const SMALLEST: usize = 1024;
