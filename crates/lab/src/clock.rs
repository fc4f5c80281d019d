//! Time as the lab counts it: processor time of one thread, and the clock of
//! the core that it runs on.
//!
//! Many virtual machines have no hardware counters, and the time-stamp counter
//! ticks at a rate of its own. So core cycles are computed: processor time times
//! the core's clock, and the clock is measured beside every slice by a chain of
//! operations of which each needs the one before and takes exactly one cycle.

use std::hint::black_box;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::thread::CpuSet;
use rustix::time::{ClockId, clock_gettime};

/// Processor time that the calling thread has used.
pub fn thread_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// The core's clock now, in cycles a nanosecond (GHz): the fastest of several
/// short chains, because an interrupt only ever makes one slower. The chains are timed by
/// the wall clock: from a thread's processor time the kernel takes what the host says that
/// it stole, in steps longer than a chain, and the chain would seem faster than it was.
pub fn core_ghz() -> f64 {
    (0..CHAINS).map(|_| chain_ghz(LINKS)).fold(0.0, f64::max)
}

/// Binds the calling thread to one core; false where the system refuses.
pub fn pin(core: usize) -> bool {
    let mut set = CpuSet::new();
    set.set(core);
    rustix::thread::sched_setaffinity(None, &set).is_ok()
}

/// Lets the calling thread, and those that it starts, use all [`cores`] again.
pub fn unpin() -> bool {
    let mut set = CpuSet::new();
    cores().iter().for_each(|&core| set.set(core));
    rustix::thread::sched_setaffinity(None, &set).is_ok()
}

/// Binds the calling thread, and those that it starts, to all [`cores`] but this one; to it where
/// there is no other.
pub fn leave(core: usize) -> bool {
    let mut set = CpuSet::new();
    let others = cores().iter().filter(|&&other| other != core || cores().len() == 1);
    others.for_each(|&other| set.set(other));
    rustix::thread::sched_setaffinity(None, &set).is_ok()
}

/// The time so far in which `thread`, one of this process that is bound to `core`, wanted to run
/// and did not: another thread ran there, or the host had taken the core away, which the kernel
/// counts in hundredths of a second. Zero where the kernel does not count.
pub fn taken(thread: u32, core: usize) -> Duration {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    waited(&read(&format!("/proc/self/task/{thread}/schedstat")))
        + stolen(&read("/proc/stat"), core)
}

/// Nanoseconds run, nanoseconds waited, slices.
fn waited(schedstat: &str) -> Duration {
    let nanos = schedstat.split_ascii_whitespace().nth(1).and_then(|word| word.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

/// `cpuN user nice system idle iowait irq softirq steal …`, in hundredths of a second.
fn stolen(stat: &str, core: usize) -> Duration {
    let name = format!("cpu{core}");
    let mut lines = stat.lines().map(str::split_ascii_whitespace);
    let mut line = lines.find_map(|mut line| (line.next() == Some(&name)).then_some(line));
    let hundredths = line.as_mut().and_then(|words| words.nth(7)?.parse().ok());
    Duration::from_millis(hundredths.unwrap_or(0_u64) * 10)
}

/// The cores that this process may use: asked once, before any thread is bound.
pub fn cores() -> &'static [usize] {
    static CORES: OnceLock<Vec<usize>> = OnceLock::new();
    CORES.get_or_init(|| {
        let Ok(set) = rustix::thread::sched_getaffinity(None) else { return vec![0] };
        (0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect()
    })
}

/// The core's clock by a chain of so many links.
pub(crate) fn chain_ghz(links: u32) -> f64 {
    let start = Instant::now();
    black_box(chain(links, black_box(1), black_box(3), black_box(5)));
    f64::from(links) / start.elapsed().as_nanos().max(1) as f64
}

/// So many operations, each waiting for the one before. Addition and exclusive
/// or take turns, so that no compiler can merge two of them, and the operands
/// are registers: recent cores add constants for free while renaming.
#[inline(never)]
fn chain(links: u32, mut x: u64, add: u64, flip: u64) -> u64 {
    for _ in 0..links / 16 {
        for _ in 0..8 {
            x = x.wrapping_add(add) ^ flip;
        }
    }
    x
}

const LINKS: u32 = 64_000;
const CHAINS: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_runs_at_a_plausible_clock() {
        let ghz = core_ghz();
        // A debug build keeps the chain, at several instructions a link.
        assert!(ghz > 0.01 && ghz < 10.0, "{ghz} GHz");
    }

    #[test]
    fn thread_time_grows_with_work_only() {
        let start = thread_time();
        std::thread::sleep(Duration::from_millis(20));
        assert!(thread_time() - start < Duration::from_millis(15));
    }

    #[test]
    fn what_others_took_is_counted() {
        assert_eq!(waited("700 30000000 12\n"), Duration::from_millis(30));
        let stat = "cpu  1 2 3 4 5 6 7 8 9 10\ncpu1 1 2 3 4 5 6 7 44 9 10\ncpu11 1\n";
        assert_eq!(stolen(stat, 1), Duration::from_millis(440));
        let none = [waited(""), waited("7 x"), stolen(stat, 2), stolen(stat, 11), stolen("", 0)];
        assert_eq!(none, [Duration::ZERO; 5]);
    }

    #[test]
    fn this_thread_may_use_a_core() {
        assert!(pin(cores()[0]));
    }
}
