//! Finds the best size of a batch: a device's rate, and the latency of a batch, by size.

use std::collections::VecDeque;
use std::time::Duration;

use lookup::Addr;
use lookup::rng::SplitMix64;

use crate::clock::Clock;
use crate::device::{Batch, Device};
use crate::fault::Fault;
use crate::lane::Buffers;

/// The result of one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Addresses of a batch.
    pub size: usize,
    /// Addresses a second.
    pub rate: f64,
    /// From a batch's submission to its answer, on average.
    pub latency: Duration,
}

/// Tries sizes from the smallest on, each for a moment, up to `largest` addresses. A slow device ends
/// it: after a size that has taken long, none larger is tried.
///
/// # Errors
/// When the device is lost, or has no room for the smallest.
pub fn sweep<A: Addr>(
    device: &mut dyn Device<A>,
    depth: usize,
    largest: usize,
    clock: &Clock,
) -> Result<Vec<Point>, Fault> {
    let mut points: Vec<Point> = Vec::new();
    let mut size = SMALLEST.min(largest.max(1));
    loop {
        let begun = clock.now();
        match measure(device, Buffers { size, depth }, MOMENT, clock) {
            Ok(point) => points.push(point),
            // Larger sizes have no room either.
            Err(Fault::NoMemory { .. } | Fault::NoPinned { .. }) if !points.is_empty() => {
                return Ok(points);
            }
            Err(fault) => return Err(fault),
        }
        if size >= largest || clock.now() - begun > LONG {
            return Ok(points);
        }
        size = (size * 4).min(largest);
    }
}

/// The smallest size that comes near the best rate, among those within `latency`. Where none is,
/// the size with the lowest latency.
pub fn choose(points: &[Point], latency: Option<Duration>) -> Option<Point> {
    let within = |point: &&Point| latency.is_none_or(|most| point.latency <= most);
    let best = points.iter().filter(within).map(|point| point.rate).fold(0.0, f64::max);
    let near = points.iter().filter(within).find(|point| point.rate >= NEAR * best);
    near.or_else(|| points.iter().min_by_key(|point| point.latency)).copied()
}

/// Keeps a device busy with random addresses for at least `at_least`, and long enough to fill its
/// buffers twice.
///
/// # Errors
/// When the device is lost, or has no room.
pub fn measure<A: Addr>(
    device: &mut dyn Device<A>,
    buffers: Buffers,
    at_least: Duration,
    clock: &Clock,
) -> Result<Point, Fault> {
    let (depth, mut rng) = (buffers.depth.max(1), SplitMix64(1));
    let mut fresh = Vec::with_capacity(depth);
    for _ in 0..depth {
        let mut batch = device.batch(buffers.size)?;
        let random = |dsts: &mut [A]| {
            dsts.iter_mut().for_each(|dst| {
                *dst = A::from_u128(rng.wide());
            });
            Ok::<_, Fault>(dsts.len())
        };
        batch.fill(buffers.size, random)?;
        fresh.push(batch);
    }
    keep_busy(device, fresh, at_least, clock)
}

/// Keeps a device busy with these batches, repeated for at least `at_least` and until each was
/// answered twice.
///
/// # Errors
/// When the device is lost.
pub fn keep_busy<A: Addr>(
    device: &mut dyn Device<A>,
    batches: Vec<Batch<A>>,
    at_least: Duration,
    clock: &Clock,
) -> Result<Point, Fault> {
    let done = drive(device, batches, at_least, clock);
    if done.is_err() {
        drop(device.abandon());
    }
    done
}

fn drive<A: Addr>(
    device: &mut dyn Device<A>,
    mut fresh: Vec<Batch<A>>,
    at_least: Duration,
    clock: &Clock,
) -> Result<Point, Fault> {
    let (depth, size) = (fresh.len(), fresh.first().map_or(0, Batch::room));
    let (mut submitted, mut number) = (VecDeque::new(), 0);
    let (mut answered, mut waited) = (0, Duration::ZERO);
    let begun = clock.now();
    loop {
        let enough = answered >= 2 * depth && clock.now() - begun >= at_least;
        while let (false, Some(mut batch)) = (enough, fresh.pop()) {
            batch.number = number;
            number += 1;
            submitted.push_back((batch.number, clock.now()));
            device.submit(batch)?;
        }
        let Some(batch) = device.collect(true)? else { break };
        answered += 1;
        if let Some(at) = submitted.iter().position(|(number, _)| *number == batch.number) {
            waited += submitted.remove(at).map_or(waited, |(_, at)| clock.now() - at);
        }
        fresh.push(batch);
    }
    let seconds = (clock.now() - begun).as_secs_f64().max(1e-9);
    let rate = (answered * size) as f64 / seconds;
    Ok(Point { size, rate, latency: waited / answered.max(1) as u32 })
}

/// Addresses in the smallest batch that is tried.
const SMALLEST: usize = 4096;

/// How long each size is measured.
const MOMENT: Duration = Duration::from_millis(10);

/// The time of a size after which none larger is tried.
const LONG: Duration = Duration::from_millis(200);

/// A rate that is as good as the best: what a larger batch gains beyond costs latency.
const NEAR: f64 = 0.97;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_size_near_the_best_within_the_limit() {
        let point = |size, rate, ms| Point { size, rate, latency: Duration::from_millis(ms) };
        let points =
            [point(1, 10.0, 1), point(4, 50.0, 2), point(16, 98.0, 3), point(64, 100.0, 9)];
        let size = |ms: Option<u64>| choose(&points, ms.map(Duration::from_millis)).unwrap().size;
        assert_eq!((size(None), size(Some(2)), size(Some(0))), (16, 4, 1));
        assert_eq!(choose(&[], None), None);
    }
}
