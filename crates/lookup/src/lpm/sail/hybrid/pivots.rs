//! The pivot levels: where a search by length finds out whether to go on up or down.

use core::fmt;
use core::str::FromStr;

/// Levels that rise from 24, and behind them [`NONE`].
///
/// I1: every level is less than 128, every entry behind the last is `NONE`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pivots([u8; MOST]);

impl Pivots {
    /// All, by number; `NONE`, longer than any prefix, behind the last.
    #[inline(always)]
    pub(super) fn all(&self) -> &[u8; MOST] {
        &self.0
    }

    /// The level of a number, of which there are so many.
    #[inline(always)]
    pub(super) fn level(&self, number: u8) -> u8 {
        self.0[usize::from(number) % MOST]
    }

    /// The lengths above a pivot and below the next, by their numbers; bit n - 1
    /// stands for length n.
    #[inline(always)]
    pub(super) fn between(&self, low: u8, high: u8) -> u128 {
        let next = 1_u128.checked_shl(u32::from(self.level(high)) - 1);
        let below = next.map_or(u128::MAX, |bit| bit - 1);
        below & u128::MAX << self.level(low)
    }

    /// The number of a level.
    pub(super) fn number(&self, len: u8) -> Option<usize> {
        self.0.iter().position(|&pivot| pivot == len)
    }

    /// True for the lengths that filters are asked for.
    pub(super) fn has_filter(&self, len: u8) -> bool {
        len > FIRST && self.number(len).is_none()
    }

    /// How many are no longer than `len`; the first always counts.
    pub(super) fn reach(&self, len: u8) -> usize {
        self.0.partition_point(|&pivot| pivot <= len).max(1)
    }
}

impl FromStr for Pivots {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut pivots = [NONE; MOST];
        for (at, level) in text.split(',').enumerate() {
            let level = level.trim().parse().map_err(|_| ())?;
            let rises = if at == 0 { level == FIRST } else { pivots[at - 1] < level };
            if !rises || level >= 128 || at + 1 == MOST {
                return Err(());
            }
            pivots[at] = level;
        }
        Ok(Pivots(pivots))
    }
}

impl fmt::Display for Pivots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let levels = self.0.iter().filter(|&&level| level != NONE);
        let text: Vec<_> = levels.map(u8::to_string).collect();
        f.write_str(&text.join(","))
    }
}

/// Room for so many levels, and a `NONE` behind them.
pub(super) const MOST: usize = 16;

/// The level up to which the bitmaps go.
const FIRST: u8 = 24;

/// Longer than any prefix.
const NONE: u8 = u8::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_rise_from_24() {
        for text in ["24", "24,34,44,54", "24,25,127"] {
            assert_eq!(text.parse::<Pivots>().map(|pivots| pivots.to_string()), Ok(text.into()));
        }
        let many = (24..40).map(|level: u8| level.to_string()).collect::<Vec<_>>().join(",");
        for text in ["", "16", "34,24", "24,24", "24,44,34", "24,128", "24,255", "24,", "x", &many]
        {
            assert_eq!(text.parse::<Pivots>(), Err(()), "{text}");
        }
    }

    #[test]
    fn lengths_between_two_pivots() {
        let pivots: Pivots = "24,34,127".parse().unwrap();
        let lengths = |low, high| {
            (1..=128).filter(|n| pivots.between(low, high) >> (n - 1) & 1 == 1).collect::<Vec<_>>()
        };
        assert_eq!(lengths(0, 1), (25..34).collect::<Vec<_>>());
        assert_eq!(lengths(1, 2), (35..127).collect::<Vec<_>>());
        assert_eq!(lengths(2, 3), [128]);
        assert_eq!(lengths(0, 3), (25..=128).collect::<Vec<_>>());
        assert_eq!([24, 34, 33, 128].map(|len| pivots.reach(len)), [1, 2, 1, 3]);
        assert!(!pivots.has_filter(24) && pivots.has_filter(25) && !pivots.has_filter(127));
    }
}
