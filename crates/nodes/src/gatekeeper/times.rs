//! Lengths of time in ticks: each division is done once, in advance.

use graph::clock::{Rate, Unit};

/// Lengths of time for one length of a tick. Made anew when the clock's rate is measured,
/// not for each packet.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Times {
    rate: Rate,
    second: u64,
    seconds: Unit,
    millis: Unit,
    published: u64,
    /// How long a request of each base priority is remembered.
    lives: [u64; BASES],
}

impl Times {
    /// For ticks of this length.
    pub fn new(rate: Rate) -> Self {
        let mut lives = [0; BASES];
        for (life, base) in lives.iter_mut().zip(0..) {
            *life = rate.ticks(1 << (base + DOUBLINGS).min(u32::from(MAX_BASE)));
        }
        let published = rate.ticks(PUBLISHED_PS);
        let [seconds, millis] = [PS_IN_S, PS_IN_S / 1_000].map(|ps| Unit::new(rate, ps));
        Times { rate, second: seconds.ticks(1), seconds, millis, published, lives }
    }

    /// The length of a tick.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// The base priority of a request that comes `ticks` after the one before it: the
    /// logarithm of the picoseconds, whole, at most [`MAX_BASE`]; 0 below 1 ps.
    #[inline]
    pub fn base(&self, ticks: u64) -> u8 {
        let ps = self.rate.ps(ticks).min(u64::MAX.into()) as u64;
        ps.checked_ilog2().unwrap_or(0) as u8
    }

    /// Ticks for which a request of this base priority is remembered: 2^(base + 4) ps,
    /// at most 2^63, of which the last is whole. Four doublings let TCP send its SYN
    /// twice more.
    #[inline]
    pub fn life(&self, base: u8) -> u64 {
        self.lives[usize::from(base.min(MAX_BASE))]
    }

    /// Whole ticks in a second.
    #[inline]
    pub fn second(&self) -> u64 {
        self.second
    }

    /// Whole ticks for which a level that a worker published counts.
    #[inline]
    pub fn published(&self) -> u64 {
        self.published
    }

    /// Whole ticks in so many seconds.
    #[inline]
    pub fn seconds(&self, seconds: u32) -> u64 {
        self.seconds.ticks(seconds)
    }

    /// Whole ticks in so many milliseconds.
    #[inline]
    pub fn millis(&self, millis: u32) -> u64 {
        self.millis.ticks(millis)
    }
}

/// The highest base priority: 2^63 ps are 106 days, and what is longer counts as that.
pub const MAX_BASE: u8 = 63;

const BASES: usize = MAX_BASE as usize + 1;
/// What an entry's life is longer than the spacing that its priority stands for, as a
/// power of two.
const DOUBLINGS: u32 = 4;
const PS_IN_S: u64 = 1_000_000_000_000;
/// 200 µs: a worker whose queue is not empty has to be polled more often than that.
const PUBLISHED_PS: u128 = 200_000_000;
