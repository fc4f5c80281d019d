//! `machine/limits`: how fast one core reads memory.
//!
//! ```text
//!  dependent     the next place is known only when this read is done: latency
//!  independent   places are known beforehand: reads in flight at once
//! ```
//!
//! A lookup of `r` reads in a table whose touched lines fill a region can be no
//! faster than the independent rate of that region divided by `r`.

use std::fmt;

use crate::data::Rng;
use crate::slices::{Variant, repeat};
use crate::{Card, Context, Error, Experiment, Plot, Record, Row, Style, Verdict};

/// See the module.
pub struct Limits;

impl Experiment for Limits {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        let largest = context.pick(30, 26);
        let rows = context.cells((14..=largest).map(Region), |context, region| {
            Ok(vec![measure(context, *region)])
        })?;
        let figure = |name: &str, i: usize| rows.get(i).and_then(|row| row.median(name));
        let (first, last) = (0, rows.len() - 1);
        let gain = |i| Some(figure("rate_mps", i)? * figure("latency_ns", i)? / 1e3);
        let verdict = match (gain(first), gain(last)) {
            (Some(small), Some(large)) => Verdict::at_least(
                "independent reads overlap at least 8-fold in the largest region",
                large,
                8.0,
                &format!("reads in flight ({} in the smallest)", crate::record::short(small)),
            ),
            _ => Verdict::open("independent reads overlap", "not measured"),
        };
        let note = "memory in pages as the system gives them; see the machine's huge pages";
        Ok(context.record(rows, vec![verdict], vec![note.into()]))
    }
}

const CARD: Card = Card {
    name: "machine/limits",
    help: "memory reads of one core: dependent latency and independent rate by region size",
    source: "the roofline of every lookup",
    claim: "the footprint of the touched lines is the rate: reads overlap, but every cache level has a ceiling",
    plots: &[
        Plot {
            title: "Independent random reads",
            figure: "rate_mps",
            unit: "million reads/s",
            x: "bytes",
            series: "reads",
            panels: &[],
            style: Style::LogLines,
        },
        Plot {
            title: "Dependent read latency",
            figure: "latency_ns",
            unit: "ns",
            x: "bytes",
            series: "reads",
            panels: &[],
            style: Style::LogLines,
        },
    ],
};

/// A region of 2^n bytes.
#[derive(Clone, Copy)]
struct Region(u32);

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "2^{} bytes", self.0)
    }
}

/// One cache line.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Line(u32);

fn measure(context: &Context, region: Region) -> Row {
    let lines = 1_usize << (region.0 - 6);
    let mut rng = Rng::new(1);
    let ring = ring(lines, &mut rng);
    let places: Vec<u32> = (0..READS).map(|_| rng.below(lines) as u32).collect();
    let chase = || (0..READS).fold(0, |at, _| ring[at as usize].0);
    let gather = || places.iter().fold(0, |sum: u32, &at| sum.wrapping_add(ring[at as usize].0));
    let mut variants = [
        Variant::new("dependent", repeat(READS as u64, || u64::from(chase()))),
        Variant::new("independent", repeat(READS as u64, || u64::from(gather()))),
    ];
    let timings = context.measure(&mut variants);
    Row::new([("bytes", (1_u64 << region.0).to_string()), ("reads", "random lines".into())])
        .with("latency_ns", timings[0].nanos)
        .with("latency_cycles", timings[0].cycles)
        .with("rate_mps", timings[1].rate.scaled(1e-6))
        .with("independent_cycles", timings[1].cycles)
        .checked(timings[1].checksum.unwrap_or_default())
}

/// Lines linked to one ring through all of them, in random order.
fn ring(lines: usize, rng: &mut Rng) -> Vec<Line> {
    let mut order: Vec<u32> = (0..lines as u32).collect();
    rng.shuffle(&mut order);
    let mut ring = vec![Line::default(); lines];
    for (i, &at) in order.iter().enumerate() {
        ring[at as usize] = Line(order[(i + 1) % lines]);
    }
    ring
}

const READS: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_visits_every_line() {
        let ring = ring(64, &mut Rng::new(1));
        let (mut at, mut seen) = (0_u32, 0_u64);
        for _ in 0..64 {
            seen |= 1 << at;
            at = ring[at as usize].0;
        }
        assert_eq!((at, seen), (0, u64::MAX));
    }
}
