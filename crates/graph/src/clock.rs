//! Time as the data path reads it: the processor's time-stamp counter.
//!
//! ```text
//!   first use            + 10 ms                        + 1 s
//!      │ both clocks ──────► estimated ───────────────────► measured: stays
//!      └ who makes a graph waits        a thread waits, and nobody else
//! ```
//!
//! The data path stores and compares ticks. A [`Rate`] converts *differences* of ticks to
//! time on request. The measured rate replaces the estimate once, and differs by some
//! millionths, so a span of ticks converted before and after gives two times that differ by
//! as much. Stored ticks do not change.

use std::num::NonZeroU64;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Ticks of the time-stamp counter now (x86-64; elsewhere nanoseconds).
#[inline(always)]
pub fn now() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        // SAFETY: RDTSC is part of every x86-64 and only reads a counter.
        unsafe { core::arch::x86_64::_rdtsc() }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    {
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }
}

/// How long a tick is, as far as it is known now. The first call in a process takes
/// 10 ms ([`crate::Graph`] makes it, so it is never one of a worker's loop); the
/// others are one load.
#[inline]
pub fn rate() -> Rate {
    NonZeroU64::new(RATE.load(Ordering::Relaxed)).map_or_else(begin, Rate)
}

/// Ticks a second, as [`rate`].
#[inline]
pub fn hz() -> u64 {
    match HZ.load(Ordering::Relaxed) {
        0 => begin().hz(),
        hz => hz,
    }
}

/// `duration` in ticks, of which the last is whole.
pub fn ticks(duration: Duration) -> u64 {
    rate().ticks(duration.as_nanos() * PS_IN_NS)
}

/// The length of a tick as a ratio of whole numbers: picoseconds, times 2^40.
///
/// The ratio is taken as exact. Each function gives the whole part of the exact
/// result, so all of them are monotone, and no floating point is there to round a
/// boundary away. A ratio of 2^-40 ps is off by less than 0.1 ms in a century.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Rate(NonZeroU64);

impl Rate {
    /// So many ticks in so much time, to the nearest ratio; `None` where either is 0 or
    /// a tick would be 16 µs and longer.
    pub fn measured(ticks: u64, time: Duration) -> Option<Rate> {
        let ps = time.as_nanos().checked_mul(PS_IN_NS << SHIFT)?;
        let ratio = ps.checked_add(u128::from(ticks / 2))?.checked_div(ticks.into())?;
        u64::try_from(ratio).ok().and_then(NonZeroU64::new).map(Rate)
    }

    /// Whole picoseconds in `ticks`: one multiplication. No count overflows.
    #[inline]
    pub fn ps(self, ticks: u64) -> u128 {
        (u128::from(ticks) * u128::from(self.0.get())) >> SHIFT
    }

    /// `ticks` as a duration, to the nanosecond below.
    pub fn time(self, ticks: u64) -> Duration {
        let ns = self.ps(ticks) / PS_IN_NS;
        // Cannot wrap: 2^64 ticks of 2^24 ps are fewer than 2^50 seconds.
        Duration::new((ns / NS_IN_S) as u64, (ns % NS_IN_S) as u32)
    }

    /// Whole ticks in `ps` picoseconds; the most there can be for what is longer. A
    /// division of 128 bits: not for each packet.
    pub fn ticks(self, ps: u128) -> u64 {
        self.divided(ps, 0)
    }

    /// The fewest ticks that last `ps` picoseconds: when a deadline has passed for
    /// certain. `ticks_until(ps(n))` is `n`, if a tick is no shorter than 1 ps.
    pub fn ticks_until(self, ps: u128) -> u64 {
        self.divided(ps, self.0.get() - 1)
    }

    /// Ticks a second.
    pub fn hz(self) -> u64 {
        self.ticks(PS_IN_NS * NS_IN_S)
    }

    /// Whole picoseconds in one tick.
    pub fn ps_per_tick(self) -> u64 {
        self.0.get() >> SHIFT
    }

    fn divided(self, ps: u128, round: u64) -> u64 {
        // What leaves the 128 bits is more than 2^64 of any ratio.
        let scaled = ps.checked_mul(1 << SHIFT).and_then(|ps| ps.checked_add(round.into()));
        let ticks = scaled.map(|scaled| scaled / u128::from(self.0.get()));
        ticks.and_then(|ticks| u64::try_from(ticks).ok()).unwrap_or(u64::MAX)
    }
}

/// A length of time that is counted often, at one rate: numbers of it become ticks by
/// multiplications.
///
/// ```text
///  ticks = n × exact     per = ⌊exact × 2^32⌋     n × per / 2^32: that, or one less, for n < 2^32
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Unit {
    rate: Rate,
    ps: u64,
    /// Ticks in one, times 2^32; `None` where it or they are too large for the words below.
    per: Option<u128>,
}

impl Unit {
    /// Of `ps` picoseconds.
    pub fn new(rate: Rate, ps: u64) -> Unit {
        let scaled = (ps >> 56 == 0).then(|| u128::from(ps) << SHIFT);
        let per = scaled.map(|scaled| (scaled << 32) / u128::from(rate.0.get()));
        Unit { rate, ps, per: per.filter(|per| per >> 96 == 0) }
    }

    /// Whole ticks in `n` of it, as [`Rate::ticks`] has them.
    #[inline]
    pub fn ticks(&self, n: u32) -> u64 {
        let Some(per) = self.per else {
            return self.rate.ticks(u128::from(n) * u128::from(self.ps));
        };
        let least = (per * u128::from(n)) >> 32;
        let Ok(least) = u64::try_from(least) else { return u64::MAX };
        // Products of 64 bits and 64, and of 32 and 96.
        let next = (u128::from(least) + 1) * u128::from(self.rate.0.get());
        let is_whole = next <= u128::from(n) * (u128::from(self.ps) << SHIFT);
        least.saturating_add(is_whole.into())
    }
}

/// Estimates, and has a thread measure. Nobody comes here twice.
#[cold]
fn begin() -> Rate {
    static BEGUN: OnceLock<()> = OnceLock::new();
    // Nobody finds a rate before there is one: others wait here.
    BEGUN.get_or_init(|| {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        estimate();
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        settle(NANOSECONDS);
    });
    rate()
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
fn estimate() {
    let start = both();
    let measure = move |time| {
        std::thread::sleep(time);
        let (ticks, now) = both();
        // A counter that has gone back, as after a machine's sleep, says nothing.
        Rate::measured(ticks.saturating_sub(start.0), now.saturating_duration_since(start.1))
    };
    settle(measure(ESTIMATE).unwrap_or(NANOSECONDS));
    // Without a thread to be had, the estimate stays.
    let run = move || measure(MEASURE).into_iter().for_each(settle);
    let _ = std::thread::Builder::new().name("clock".into()).spawn(run);
}

fn settle(rate: Rate) {
    // Relaxed: each is whole in itself, and nothing is published with it.
    RATE.store(rate.0.get(), Ordering::Relaxed);
    HZ.store(rate.hz(), Ordering::Relaxed);
}

/// Both clocks at one moment: of a few looks the quickest, because a thread that loses
/// its core between the two clocks would have a rate that is wrong for good.
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn both() -> (u64, Instant) {
    let look = || {
        let (ticks, time) = (now(), Instant::now());
        (now().wrapping_sub(ticks), ticks, time)
    };
    let (_, ticks, time) =
        (0..7).map(|_| look()).fold(look(), |a, b| if b.0 < a.0 { b } else { a });
    (ticks, time)
}

/// A tick is a nanosecond.
const NANOSECONDS: Rate = Rate(NonZeroU64::new(1_000 << SHIFT).expect("it is not 0"));

/// Of [`rate`], as it lies in a [`Rate`]; 0 before the first call.
static RATE: AtomicU64 = AtomicU64::new(0);
/// Of it, ticks a second, which are asked for with each vector.
static HZ: AtomicU64 = AtomicU64::new(0);

/// Bits of the ratio behind the point.
const SHIFT: u32 = 40;
const PS_IN_NS: u128 = 1_000;
const NS_IN_S: u128 = 1_000_000_000;

#[cfg(all(target_arch = "x86_64", not(miri)))]
const ESTIMATE: Duration = Duration::from_millis(10);
/// An error of 50 ns at either end is a ten-millionth.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const MEASURE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use lookup::sync::Domain;

    use super::*;
    use crate::testing::Bench;
    use crate::{NoDrop, Node, View};

    /// Ratios: nanoseconds, 2.445 GHz, 3 GHz, 4 GHz, 1 MHz, about 1 ps, and the ends.
    fn rates() -> impl Iterator<Item = Rate> {
        let second = Duration::from_secs(1);
        let hz = [1_000_000_000, 2_445_000_000, 2_999_999_999, 4_000_000_000, 1_000_000];
        let measured = hz.map(|hz| Rate::measured(hz, second).expect("it is in range"));
        let ratios = [1, 1 << SHIFT, (1 << SHIFT) + 1, u64::MAX];
        measured.into_iter().chain(ratios.map(|ratio| Rate(ratio.try_into().unwrap())))
    }

    crate::labels! { enum On { On = "on" } }

    /// Takes each packet's own time, after the poll's.
    struct Timed(Vec<u64>);

    impl Node for Timed {
        type Edge = On;
        type Drop = NoDrop;
        const NAME: &'static str = "timed";
        const HELP: &'static str = "looks at the clock";

        fn process(&mut self, v: &mut View<'_, Self>) {
            self.0.push(v.now());
            self.0.extend((0..v.n()).map(|_| v.time()));
            self.0.push(v.now());
            v.leave_all(On::On);
        }
    }

    #[test]
    fn two_packets_of_a_poll_have_one_time_of_it_and_two_of_their_own() {
        let mut timed = Timed(Vec::new());
        Bench::new(&Domain::new()).run(&mut timed, &[&[0_u8; 60][..]; 50], |_, _| ());
        let [poll, own @ .., after] = &timed.0[..] else { panic!("nothing was noted") };
        assert_eq!((poll, own.len()), (after, 50));
        assert!(poll <= &own[0] && own.is_sorted());
        // Elsewhere a tick may be longer than a look at the clock.
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        assert!(own.is_sorted_by(|a, b| a < b), "{own:?}");
    }

    #[test]
    fn ticks_measure_time() {
        let start = now();
        std::thread::sleep(Duration::from_millis(20));
        let passed = now() - start;
        assert!(passed >= ticks(Duration::from_millis(18)), "{passed} of {}", hz());
        assert!(rate().time(passed) >= Duration::from_millis(19), "{:?}", rate().time(passed));
    }

    #[test]
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    fn the_estimate_serves_at_once_and_the_measured_rate_is_close_to_it() {
        let estimated = rate();
        let thousand = || {
            let begun = Instant::now();
            (0..1000).for_each(|_| assert!(hz() > 0));
            begun.elapsed()
        };
        // The best of several: the system may take the core away for longer.
        let took = (0..9).map(|_| thousand()).min().unwrap();
        assert!(took < ESTIMATE, "only the first call waits: {took:?}");
        let start = both();
        std::thread::sleep(MEASURE + Duration::from_millis(300));
        let end = both();
        let ours = Rate::measured(end.0 - start.0, end.1 - start.1).unwrap();
        let apart = |a: u64, b: u64| a.abs_diff(b) as u128 * 1_000_000 / u128::from(a);
        // Millionths. A busy machine may keep the estimate's thread from its core.
        assert!(apart(ours.hz(), hz()) < 1_000, "{} and {}", ours.hz(), hz());
        assert!(apart(estimated.hz(), hz()) < 50_000, "{} and {}", estimated.hz(), hz());
        assert_eq!(rate().hz(), hz());
    }

    #[test]
    fn a_ratio_is_exact_at_every_boundary() {
        for rate in rates() {
            let ratio = u128::from(rate.0.get());
            for ticks in [1_u64, 2, 3, 7, 1_000, 2_445_000_001, 1 << 40, u64::MAX - 1, u64::MAX] {
                let ps = rate.ps(ticks);
                assert_eq!(ps, (u128::from(ticks) * ratio) >> 40);
                assert!(rate.ps(ticks - 1) <= ps, "time does not go back");
                // The longest span of fewer ticks, and the shortest of as many.
                let exact = u128::from(ticks) * ratio;
                let (least, before) = (exact.div_ceil(1 << 40), (exact - 1) >> 40);
                assert_eq!(rate.ticks(least), ((least << 40) / ratio).min(u64::MAX.into()) as u64);
                assert!(
                    rate.ticks(least) >= ticks && rate.ticks(before) < ticks,
                    "{rate:?} {ticks}"
                );
                assert!(rate.ticks_until(ps) <= ticks && rate.ticks(ps) <= ticks);
                if rate.ps_per_tick() >= 1 {
                    assert_eq!(rate.ticks_until(ps), ticks, "there and back: {rate:?}");
                    assert_eq!(rate.ticks(least), ticks, "{rate:?}");
                    assert!(ps == 0 || rate.ticks_until(ps + 1) >= ticks);
                }
            }
            assert_eq!((rate.ps(0), rate.ticks(0), rate.ticks_until(0)), (0, 0, 0));
        }
    }

    #[test]
    fn no_length_of_time_overflows() {
        let century_ps = 36_525 * 86_400 * 1_000_000_000_000_u128;
        let rate = Rate::measured(2_445_000_000, Duration::from_secs(1)).unwrap();
        let ticks = rate.ticks(century_ps);
        assert!((ticks as u128).abs_diff(2_445_000_000 * 36_525 * 86_400) < 10_000_000, "{ticks}");
        assert_eq!(rate.ps(ticks).abs_diff(century_ps) / 1_000, 0, "to the nanosecond");
        for rate in rates() {
            assert_eq!(rate.ticks(u128::MAX), u64::MAX);
            assert_eq!(rate.ticks_until(u128::MAX), u64::MAX);
            assert!(rate.ps(u64::MAX) >= rate.ps(u64::MAX - 1) && rate.hz() > 0);
            assert!(rate.time(u64::MAX).as_secs() < 1 << 50);
        }
        assert_eq!(ticks, rate.ticks(Duration::from_secs(36_525 * 86_400).as_nanos() * PS_IN_NS));
        assert_eq!(super::ticks(Duration::MAX), u64::MAX);
    }

    #[test]
    fn a_unit_is_counted_as_its_picoseconds_are() {
        let ends = [0, 1, 2, 3, 999, 4_400, 86_400, u32::MAX / 3, u32::MAX - 1, u32::MAX];
        for rate in rates() {
            for ps in [0, 1, 407, 1 << 20, 1_000_000_000, 1_000_000_000_000, 1 << 55, u64::MAX] {
                let unit = Unit::new(rate, ps);
                let odd = (0..2_000_u32).map(|i| i.wrapping_mul(2_654_435_761));
                for n in odd.chain(ends) {
                    let exact = rate.ticks(u128::from(n) * u128::from(ps));
                    assert_eq!(unit.ticks(n), exact, "{rate:?}: {n} × {ps}");
                }
            }
        }
    }

    #[test]
    fn a_ratio_is_to_the_nearest_and_nonsense_is_none() {
        let second = Duration::from_secs(1);
        assert_eq!(Rate::measured(2_445_000_000, second).map(Rate::ps_per_tick), Some(408));
        for hz in [1_000_000, 999_999_937, 2_445_123_456, 5_000_000_000] {
            let found = Rate::measured(hz, second).unwrap().hz();
            assert!(found.abs_diff(hz) <= 1, "{found} of {hz}");
        }
        assert_eq!(Rate::measured(0, second), None);
        assert_eq!(Rate::measured(1, Duration::ZERO), None);
        assert_eq!(Rate::measured(1, second), None, "a tick of a second");
        assert_eq!(Rate::measured(1, Duration::MAX), None);
        assert_eq!(Rate::measured(u64::MAX, Duration::from_nanos(1)), None);
    }
}
