//! Counts the 32-byte lines that a kernel reads for one address. A device's rate of random reads,
//! divided by this count, bounds its rate of lookups.
//!
//! The function walks the image's words as the kernel does (kernels/lookup.cu). It does not count
//! the figures and the starts of the arrays: they are the same for all addresses, and always
//! cached.

use lookup::Hop;
use lookup::hash::{below, h2};

use crate::image::Image;

/// The hop of `dst` as the kernel of `engine` finds it, and the lines that it reads. `None` for
/// engines other than `rutter4` and `bloomfwd` with its usual hash.
pub fn of(engine: &str, image: &Image, dst: u32) -> Option<(Hop, usize)> {
    let mut walk = Walk { words: image.words(), lines: Vec::new() };
    let hop = match engine {
        "rutter4" => walk.rutter4(dst),
        "bloomfwd" if walk.words[1] == H2 => walk.bloomfwd(dst),
        _ => return None,
    };
    Some((Hop(if hop == 0 { walk.words[0] } else { hop }), walk.lines.len()))
}

struct Walk<'i> {
    words: &'i [u32],
    lines: Vec<usize>,
}

impl Walk<'_> {
    /// A word of an array.
    fn word(&mut self, at: usize) -> u32 {
        if !self.lines.contains(&(at / LINE)) {
            self.lines.push(at / LINE);
        }
        self.words[at]
    }

    /// The start of array `i` in an image with this many figures.
    fn array(&self, figures: usize, i: usize) -> usize {
        self.words[figures + i] as usize
    }

    /// Cell `i` of an array whose cells have 16 or 32 bits.
    fn cell(&mut self, cells: usize, bits: u32, i: u32) -> u32 {
        if bits == 32 {
            return self.word(cells + i as usize);
        }
        self.word(cells + (i >> 1) as usize) >> ((i & 1) * 16) & 0xffff
    }

    fn rutter4(&mut self, dst: u32) -> u32 {
        let [bits, large_at] = [self.words[1], self.words[2]];
        let deep = 1 << (bits - 1);
        let root = self.word(self.array(3, 0) + (dst >> 14) as usize);
        let (mut place, mut cells) = (root >> 5, self.array(3, 1));
        if place >= large_at {
            (place, cells) = (place - large_at, self.array(3, 2));
        }
        let value = self.cell(cells, bits, place + ((dst & 0x3fff) >> (root & 31)));
        if value & deep == 0 {
            return value;
        }
        let (low, record) = (dst & 0xff, place + (value & !deep) * (512 / bits));
        let set = cells + (record * bits / 32) as usize;
        let mut later = (self.word(set + (low >> 5) as usize) >> (low & 31)).count_ones();
        for i in (low >> 5) + 1..8 {
            later += self.word(set + i as usize).count_ones();
        }
        self.cell(cells, bits, record + 256 / bits + later) & !deep
    }

    fn bloomfwd(&mut self, dst: u32) -> u32 {
        let [direct_bits, levels] = [self.words[2], self.words[3]];
        let figures = 7 + 5 * levels as usize;
        for level in 0..levels as usize {
            let at = 7 + 5 * level;
            let [len, k, low, high, buckets] = [0, 1, 2, 3, 4].map(|i| self.words[at + i]);
            if len == 0 {
                continue;
            }
            let masked = dst & u32::MAX << (32 - len);
            let (hash, step) = (h2(masked), h2(masked ^ SALT) | 1);
            let bits = u64::from(high) << 32 | u64::from(low);
            let [filter, index, records] =
                [0, 1, 2].map(|i| self.array(figures, 3 + 3 * level + i));
            let passes = (0..k).all(|i| {
                let bit = below(hash.wrapping_add(step.wrapping_mul(i)), bits);
                self.word(filter + (bit >> 5) as usize) >> (bit & 31) & 1 == 1
            });
            if !passes {
                continue;
            }
            let header = self.word(index + below(hash, u64::from(buckets)) as usize);
            let (mut at, mut count) = (records + 2 * (header & 0x7ff_ffff) as usize, header >> 27);
            if count == 31 {
                (at, count) = (at + 2, self.word(at));
            }
            for _ in 0..count {
                if self.word(at + 1) == masked {
                    return self.word(at);
                }
                at += 2;
            }
        }
        let direct = self.array(figures, 0);
        if direct_bits == 0 { 0 } else { self.word(direct + (dst >> (32 - direct_bits)) as usize) }
    }
}

/// Words of a line.
const LINE: usize = 8;

/// The kernel's number for the usual hash, and the multiplier of its second hash.
const H2: u32 = 2;
const SALT: u32 = 0x5bd1_e995;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_counted_once() {
        let words: Vec<u32> = (0..64).collect();
        let mut walk = Walk { words: &words, lines: Vec::new() };
        for (at, lines) in [(LINE + 1, 1), (LINE + 2, 1), (3 * LINE, 2), (2 * LINE - 1, 2), (0, 3)]
        {
            assert_eq!((walk.word(at), walk.lines.len()), (at as u32, lines), "{at}");
        }
    }
}
