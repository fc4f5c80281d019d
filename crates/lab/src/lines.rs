//! Random reads of one array's cache lines: what the machine gives at most to any
//! table of that size, on the same pages.

use lookup::pages::{Kind, Pages};

use crate::data::Rng;
use crate::slices::{Work, rounds};

/// An array of cache lines, and places in it.
pub struct Lines {
    lines: Pages<Line>,
    places: Vec<u32>,
}

/// A cache line, of which the first word is read.
type Line = [u32; 16];

impl Lines {
    /// So many lines on pages of this kind, each of them written once.
    ///
    /// # Errors
    /// When memory does not allow it.
    pub fn new(lines: usize, pages: Kind) -> Result<Lines, String> {
        let most = u32::try_from(lines).map_err(|_| "too many lines".to_string())?;
        let mut rng = Rng::new(1);
        let places = (0..PLACES).map(|_| rng.below(most as usize) as u32).collect();
        Lines::at(lines, pages, places)
    }

    /// The same, of which these are read.
    ///
    /// # Errors
    /// When memory does not allow it.
    ///
    /// # Panics
    /// When a place is not one of the lines.
    pub fn at(lines: usize, pages: Kind, places: Vec<u32>) -> Result<Lines, String> {
        let mut lines = Pages::<Line>::admitted(pages, lines).map_err(|e| e.to_string())?;
        lines.touch_now();
        lines.as_mut_slice().iter_mut().for_each(|line| line[0] = 1);
        assert!(places.iter().all(|&place| (place as usize) < lines.len()), "a place outside");
        Ok(Lines { lines, places })
    }

    /// Links the lines to one ring through all of them, in random order.
    pub fn linked(mut self) -> Lines {
        let mut order: Vec<u32> = (0..self.lines.len() as u32).collect();
        Rng::new(2).shuffle(&mut order);
        let lines = self.lines.as_mut_slice();
        for (i, &at) in order.iter().enumerate() {
            lines[at as usize][0] = order[(i + 1) % order.len()];
        }
        self
    }

    /// Reads at places known beforehand: many are in flight at once.
    pub fn independent(&self) -> impl Work {
        rounds(self.places.len(), STEP, |from, n| {
            let read = |&at: &u32| self.lines[at as usize][0];
            let sum = self.places[from..from + n].iter().map(read).fold(0, u32::wrapping_add);
            std::hint::black_box(sum);
        })
    }

    /// Reads along the ring: the next place is known only when this read is done.
    pub fn dependent(&self) -> impl Work {
        let mut at = 0;
        rounds(STEP, STEP, move |_, n| at = self.follow(at, n))
    }

    fn follow(&self, from: u32, steps: usize) -> u32 {
        (0..steps).fold(from, |at, _| self.lines[at as usize][0])
    }
}

/// So many that their lines do not stay in a cache, where the array is larger than one.
const PLACES: usize = 1 << 22;

/// Reads between two looks at the clock.
const STEP: usize = 1 << 13;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_ring_visits_every_line() {
        let lines = Lines::new(64, Kind::Small).unwrap().linked();
        let (mut at, mut seen) = (0, 0_u64);
        for _ in 0..64 {
            seen |= 1 << at;
            at = lines.follow(at, 1);
        }
        assert_eq!((at, seen), (0, u64::MAX));
        assert!(lines.dependent().slice(Duration::from_micros(10)).ops > 0);
        assert!(lines.independent().slice(Duration::from_micros(10)).ops > 0);
        assert!(Lines::new(1 << 40, Kind::Small).is_err());
    }
}
