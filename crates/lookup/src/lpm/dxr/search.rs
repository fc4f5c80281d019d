//! A chunk as its root entry names it, and the search of one key in it.

use super::View;

/// A key's search among the ranges of a chunk.
#[derive(Clone, Copy, Default)]
pub(super) struct Search {
    /// Ranges among which the right one is; the first of them is at byte `at`.
    pub(super) left: u32,
    pub(super) at: u32,
    /// The greatest word of a range that is not behind the address.
    key: u32,
    format: u32,
}

impl Search {
    /// In the chunk of `entry`, for the bits of the address behind its first k.
    #[inline(always)]
    pub(super) fn new(entry: u32, low: u32) -> Self {
        let format = format_of(entry);
        let (_, shift, ones, offset) = FORMATS[format as usize];
        let at = (place_of(entry) << 3) + offset;
        Search { left: cells_of(entry), at, key: low << shift | ones, format }
    }

    /// Halves the ranges; where one is left, it stays.
    #[inline(always)]
    pub(super) fn step(&mut self, view: View<'_>) {
        let half = self.left / 2;
        let probe = self.at + (half << self.format);
        let before = view.word(probe) & FORMATS[self.format as usize].0 <= self.key;
        self.at = std::hint::select_unpredictable(before, probe, self.at);
        self.left -= half;
    }

    /// Asks for the line of the first range that a step reads.
    #[inline(always)]
    pub(super) fn prefetch(&self, view: View<'_>) {
        view.prefetch(self.at + ((self.left / 2) << self.format));
    }

    /// The hop of the one range that is left.
    #[inline(always)]
    pub(super) fn hop(self, view: View<'_>) -> u32 {
        let (_, _, ones, offset) = FORMATS[self.format as usize];
        view.word(self.at - offset) & if self.format == WIDE { u32::MAX } else { ones }
    }
}

/// Of each format: the bits of a word that are the range's, where in them the base
/// of a range begins, what lies below it, and how far into the range they are.
pub(super) const FORMATS: [(u32, u32, u32, u32); 4] =
    [(0, 0, 0, 0), (0xffff, 0, 0xff, 0), (u32::MAX, 16, 0xffff, 0), (u32::MAX, 0, 0, 4)];

/// The base in a range's word, a short one's shifted.
pub(super) fn base_of(format: u32, word: u32) -> u32 {
    let (mask, _, ones, _) = FORMATS[format as usize];
    word & mask & !ones
}

#[inline(always)]
pub(super) fn format_of(entry: u32) -> u32 {
    entry >> FORMAT_SHIFT
}

/// Unit of the chunk's first range.
#[inline(always)]
pub(super) fn place_of(entry: u32) -> u32 {
    entry & PLACE_MASK
}

/// Ranges of the chunk, with what fills it up.
#[inline(always)]
pub(super) fn cells_of(entry: u32) -> u32 {
    ((4 | entry >> SIZE_SHIFT & 3) << (entry >> (SIZE_SHIFT + 2) & 15)) >> 1
}

/// The entry of a chunk at `place`; of the sizes the least for `count` ranges.
pub(super) fn entry(format: u32, count: u32, place: u32) -> u32 {
    let size = (0..64).find(|&size| cells_of(size << SIZE_SHIFT) >= count);
    let size = size.expect("a chunk has 2^16 addresses, and the largest size as many ranges");
    format << FORMAT_SHIFT | size << SIZE_SHIFT | place
}

/// The root entry is a hop.
pub(super) const DIRECT: u32 = 0;
/// Formats of ranges; of 2 to the power of so many bytes.
pub(super) const SHORT: u32 = 1;
pub(super) const LONG: u32 = 2;
pub(super) const WIDE: u32 = 3;

pub(super) const FORMAT_SHIFT: u32 = 30;
pub(super) const SIZE_SHIFT: u32 = 24;
pub(super) const PLACE_MASK: u32 = (1 << SIZE_SHIFT) - 1;
/// What an entry that is a hop holds.
pub(super) const MAX_HOP: u32 = (1 << FORMAT_SHIFT) - 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_fits_and_wastes_a_quarter_at_most() {
        for count in 2..=1 << 16 {
            let entry = entry(LONG, count, 77);
            let cells = cells_of(entry);
            assert!(cells >= count && cells - count <= count / 4, "{count}: {cells}");
            assert_eq!((format_of(entry), place_of(entry)), (LONG, 77));
        }
    }
}
