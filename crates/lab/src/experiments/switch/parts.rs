//! What the cycles of `switch/forward` are made of.
//!
//! ```text
//!  the same, few packets   frames and their stations' lines stay in the cache: instructions
//!  the lines alone         descriptor, frame, and the destination's line of the MAC table, where
//!                          they lie in memory, at places known beforehand: no table, no switch
//!  the ports alone         receive and transmit
//! ```

use lookup::pages::Kind;

use super::super::router::{Shuttle, Source};
use crate::data::Rng;
use crate::lines::Lines;
use crate::slices::Timing;
use crate::{Row, Verdict};

/// The lines that a frame to one of so many stations touches, of `packets` frames in
/// turn: [`EACH`] a frame.
pub(super) fn lines(packets: usize, stations: u64) -> Result<Lines, String> {
    let mut rng = Rng::new(3);
    let mut order: Vec<usize> = (0..packets).collect();
    rng.shuffle(&mut order);
    let (first, table) = (packets * STRIDE, table(stations));
    let places = order.into_iter().flat_map(|packet| {
        // As the table does: a station has its line, wherever.
        let hash = (rng.below(stations as usize) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let line = first + (hash >> 32) as usize % table;
        [packet * STRIDE, packet * STRIDE + FRAME, line].map(|place| place as u32)
    });
    Lines::at(first + table, Kind::Transparent, places.collect())
}

/// Lines of a MAC table of so many: at most 95 % of it full, and 2 MiB at least.
fn table(stations: u64) -> usize {
    (stations as usize * 20).div_ceil(19 * 8).next_power_of_two().max(1 << 15)
}

/// Receive and transmit of `packets` frames.
pub(super) fn ports(packets: usize) -> Result<Shuttle, String> {
    let fill = |_: usize, room: &mut [u8]| {
        room[..LEN].fill(0);
        LEN
    };
    Source::ring(packets, fill).map(Shuttle::new)
}

/// The row of a part; `each` of what it counts make a frame.
pub(super) fn row(row: Row, timing: &Timing, each: f64) -> Row {
    row.with("cycles", timing.cycles.scaled(each))
}

/// Says what the `whole`'s cycles are made of.
pub(super) fn verdict(rows: &[Row], stations: &str, whole: &str) -> Option<Verdict> {
    let cycles = |variant: &str| {
        let labels = [("stations", stations), ("variant", variant)];
        rows.iter().find(|row| row.is(&labels))?.figures.get("cycles").copied()
    };
    let (all, near) = (cycles(whole)?, cycles(NEAR)?);
    let (lines, ports) = (cycles(LINES)?, cycles(PORTS)?);
    let of = |best: f64, median: f64| format!("{best:.1} (median {median:.1})");
    let text = format!(
        "{} cycles in the best slices: {} with the packets in the cache, so {} for memory; its \
         {EACH} lines a frame, read alone: {}; receive and transmit alone: {}",
        of(all.best, all.median),
        of(near.best, near.median),
        of(all.best - near.best, all.median - near.median),
        of(lines.best, lines.median),
        of(ports.best, ports.median)
    );
    Some(Verdict::beside(format!("what the cycles at {stations} stations are"), text))
}

/// Lines of a frame: its descriptor's, its own, its destination's.
pub(super) const EACH: usize = 3;

/// Names of the rows.
pub(super) const NEAR: &str = "access, 512 packets";
pub(super) const LINES: &str = "its lines alone";
pub(super) const PORTS: &str = "its ports alone";

/// Packets that stay in the cache, and whose stations' lines do.
pub(super) const FEW: usize = 512;

/// Lines from one packet to the next, and from a descriptor to its frame, as in
/// [`io::Pool`] for an MTU of 1500.
const STRIDE: usize = 31;
const FRAME: usize = 4;

const LEN: usize = 64;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::record::Figure;
    use crate::slices::Work;

    #[test]
    fn each_part_runs() {
        let lines = lines(100, 1000).unwrap();
        assert!(lines.independent().slice(Duration::from_micros(10)).ops >= 300);
        assert!(ports(128).unwrap().slice(Duration::from_micros(100)).ops > 0);
        assert_eq!((table(1), table(1_001_000)), (1 << 15, 1 << 18));
    }

    #[test]
    fn the_parts_are_told_of_the_whole() {
        let row = |variant: &str, best: f64| {
            let figure = Figure { best, median: best + 1.0, spread: 0.0, samples: 3 };
            let labels = [("stations", "7".to_string()), ("variant", variant.to_string())];
            Row::new(labels).with("cycles", figure)
        };
        let rows = [row("access", 80.0), row(NEAR, 55.5), row(LINES, 20.0), row(PORTS, 15.0)];
        let verdict = verdict(&rows, "7", "access").unwrap();
        assert!(verdict.measured.starts_with("80.0 (median 81.0) cycles"), "{}", verdict.measured);
        assert!(verdict.measured.contains("so 24.5 (median 24.5) for memory"));
        assert!(super::verdict(&rows[1..], "7", "access").is_none());
    }
}
