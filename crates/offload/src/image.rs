//! A table as one array of words, which is copied to a device's memory.
//!
//! ```text
//!   figures │ where each array begins │ array, room │ array, room │ …      words of 32 bits
//! ```
//!
//! Arrays begin at multiples of 64 bytes and have room to grow. A changed table is compared block
//! by block with the words that were sent, and only blocks that differ are sent: the copy and the
//! comparison cost a pass over the table, the transfer only the changes.

use std::ops::Range;

use lookup::lpm::Words;

/// The form of a table that a device holds.
pub struct Image {
    words: Vec<u32>,
    figures: usize,
    /// The place of each array, with its room to grow.
    arrays: Vec<Range<usize>>,
}

/// The difference between two versions of an image.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Patch {
    /// The whole image must be sent.
    Whole,
    /// Words to write, in ascending order.
    Pieces(Vec<Piece>),
}

/// Consecutive words and their place.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Piece {
    /// The index of the first word.
    pub at: usize,
    /// The new words, from that index on.
    pub words: Vec<u32>,
}

impl Image {
    /// Lays out a table; `None` where 32 bits cannot index its words.
    pub fn new(table: &Words) -> Option<Self> {
        let figures = table.figures.len();
        let mut end = figures + table.arrays.len();
        let mut arrays = Vec::with_capacity(table.arrays.len());
        for array in &table.arrays {
            let start = end.next_multiple_of(LINE);
            end = start.checked_add(array.len() + array.len() / 8 + SPARE)?;
            arrays.push(start..end);
        }
        u32::try_from(end).ok()?;
        let mut words = vec![0; end];
        words[..figures].copy_from_slice(&table.figures);
        for ((start, at), array) in words_of(&arrays).zip(figures..).zip(&table.arrays) {
            words[at] = start as u32;
            words[start..start + array.len()].copy_from_slice(array);
        }
        Some(Image { words, figures, arrays })
    }

    /// Takes a later version of the table. Returns the changes, or `None` where the table has
    /// outgrown its layout and needs another image.
    pub fn update(&mut self, table: &Words) -> Option<Patch> {
        let rooms = self.arrays.iter().map(Range::len);
        if table.figures.len() != self.figures
            || table.arrays.len() != self.arrays.len()
            || table.arrays.iter().zip(rooms).any(|(array, room)| array.len() > room)
        {
            return None;
        }
        let mut pieces = Vec::new();
        compare(&mut self.words, 0, &table.figures, &mut pieces);
        for (room, array) in self.arrays.iter().zip(&table.arrays) {
            compare(&mut self.words, room.start, array, &mut pieces);
        }
        Some(Patch::Pieces(pieces))
    }

    /// All words.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// The image's size in a device's memory, in bytes.
    pub fn bytes(&self) -> u64 {
        size_of_val(&*self.words) as u64
    }
}

impl Patch {
    /// Bytes to send, for an image of `whole` bytes.
    pub fn bytes(&self, whole: u64) -> u64 {
        match self {
            Patch::Whole => whole,
            Patch::Pieces(pieces) => {
                pieces.iter().map(|piece| size_of_val(&*piece.words) as u64).sum()
            }
        }
    }
}

fn words_of(arrays: &[Range<usize>]) -> impl Iterator<Item = usize> {
    arrays.iter().map(|array| array.start)
}

/// Updates the words from `start` on to `new`, and appends those that differed.
fn compare(words: &mut [u32], start: usize, new: &[u32], pieces: &mut Vec<Piece>) {
    for (at, new) in (start..).step_by(BLOCK).zip(new.chunks(BLOCK)) {
        let old = &mut words[at..at + new.len()];
        if old == new {
            continue;
        }
        old.copy_from_slice(new);
        match pieces.last_mut() {
            Some(last) if last.at + last.words.len() == at => last.words.extend_from_slice(new),
            _ => pieces.push(Piece { at, words: new.to_vec() }),
        }
    }
}

/// Words in a cache line.
const LINE: usize = 16;

/// Words in a block: they are compared, and sent, together.
const BLOCK: usize = 64;

/// Words that each array may grow by, in addition to an eighth of its length.
const SPARE: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn table(figures: &[u32], arrays: &[Vec<u32>]) -> Words {
        Words { figures: figures.to_vec(), arrays: arrays.to_vec() }
    }

    #[test]
    fn a_patch_turns_one_version_into_the_next() {
        let mut one = table(&[1, 2], &[vec![3; 1000], vec![], vec![4; 10]]);
        let mut image = Image::new(&one).unwrap();
        let mut sent = image.words().to_vec();
        assert_eq!(image.update(&one), Some(Patch::Pieces(Vec::new())));
        one.figures[1] = 7;
        one.arrays[0][70] = 8;
        one.arrays[0][130] = 8;
        one.arrays[1].push(9);
        let Some(Patch::Pieces(pieces)) = image.update(&one) else { panic!("it fits") };
        assert_eq!(pieces.len(), 3, "two blocks that touch are one piece");
        for Piece { at, words } in &pieces {
            sent[*at..at + words.len()].copy_from_slice(words);
        }
        assert_eq!(sent, image.words());
        for (i, array) in one.arrays.iter().enumerate() {
            let start = sent[2 + i] as usize;
            assert_eq!(sent[start..start + array.len()], *array);
            assert_eq!(start % LINE, 0);
        }
    }

    #[test]
    fn what_outgrows_its_room_needs_another_image() {
        let mut one = table(&[], &[vec![0; 8]]);
        let mut image = Image::new(&one).unwrap();
        one.arrays[0].resize(8 + 1 + SPARE, 1);
        assert!(image.update(&one).is_some());
        one.arrays[0].push(1);
        assert_eq!(image.update(&one), None);
        assert_eq!(image.update(&table(&[1], &[vec![]])), None);
    }
}
